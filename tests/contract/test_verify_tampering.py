"""Whatever is changed in stored evidence is noticed, or is on the list of what only the data could confirm.

Both tests are generated: fields from the published schema, files from every kind of evidence there is.
"""

import copy
import functools
import itertools
import json
from dataclasses import fields, replace

import numpy as np
import pytest

from tacit.attacks.measurement import measure
from tacit.audits import claims, consistency, stated, verification, verify
from tacit.audits.bounds.anytime import Anytime, AnytimeCurve
from tacit.audits.bounds.bayes import credible
from tacit.audits.bounds.estimators import ClopperPearson
from tacit.audits.bounds.exact import Exact, ExactCurve
from tacit.audits.bounds.methods import FAMILIES, FREE
from tacit.audits.bounds.one_run import OneRun, OneRunCurve
from tacit.audits.bounds.updates import UpdatesCurve
from tacit.audits.choice import bound
from tacit.audits.panel import of_release
from tacit.audits.verification import BARE, GIVEN, MOST_RUNS, ONLY_DATA, RESTS_ON, UNKNOWN, WHOLE_LISTS
from tacit.core import (
    Adjacency,
    BadInput,
    Bin,
    Claim,
    Control,
    Counts,
    Demonstration,
    Estimate,
    Evidence,
    Exposure,
    GroupRisk,
    Scores,
    Spent,
    Verdict,
)
from tacit.core.events import Allocation, BandedFactorisation, CyclicPoisson, Gaussian, Repeat
from tacit.core.evidence_schema import schema
from tacit.core.fault import FAULTS, Fault
from tacit.core.finding import Finding
from tacit.core.histogram import Histogram
from tacit.loss import privacy_loss

ADD, DELTA = Adjacency.ADD_REMOVE, 1e-5
EVENT = Repeat(Gaussian(4.0), 4)
MANY, FEW = Counts(88, 4, 100, 100), Counts(52, 48, 100, 100)
LEVELS = Counts(88, 4, 100, 100, ((99, 60), (95, 30), (88, 4), (40, 0)))
SURE = Estimate(0.6, 0.5, 0.7, 0.95, 40)
DRAWN = np.random.default_rng(5).normal(size=80) + np.repeat([1.0, 0.0], 40)
MEASURED = measure(Scores(DRAWN, np.repeat([True, False], 40), attack="loss", randomised=False), (0.1,))
PLANTED = tuple(Fault(name, SURE if name == "no noise" else None) for name in FAULTS)
KINDS = {
    "exact": (EVENT, MANY, (Exact, ExactCurve)),
    "consistent": (EVENT, FEW, (Exact, ExactCurve)),
    "watched": (EVENT, MANY, (Anytime, AnytimeCurve)),
    "pair": (None, MANY, (ClopperPearson,)),
    "one-run": (None, Counts(38, 2, 200, 200), (OneRun,)),
    "one-run-event": (EVENT, Counts(38, 2, 200, 200), (OneRunCurve,)),
    "updates": (EVENT, MANY, (UpdatesCurve,)),
    "cyclic": (BandedFactorisation(4.0, (1.0, 0.5), 6, 3, 2), MANY, (Exact, ExactCurve)),
    "cyclic-poisson": (CyclicPoisson(1.5, 0.5, (1.0, 0.5), 6, 3), MANY, (Exact, ExactCurve)),
    "passes": (Repeat(Allocation(1, 3, Gaussian(1.0)), 2), MANY, ()),  # readings of its curve take seconds
    "levels": (EVENT, LEVELS, (Anytime, AnytimeCurve)),
    "release": (Gaussian(2.0), FEW, (Exact, ExactCurve)),
}
PARTS = {
    "levels": ("demonstrations",),
    "cyclic": ("claim", "budget"),
    "cyclic-poisson": ("claim", "budget"),
    "passes": ("budget",),
    "release": ("caught",),
}
"""Kinds whose games are like those of "exact": only what differs is changed field by field."""
CANARIES = {"cyclic-poisson": ("blank", "backdoor")}
"""Kinds with several games."""


@pytest.fixture(autouse=True, scope="module")
def remembered():
    """Hundreds of files ask the same questions: every answer is computed once."""
    with pytest.MonkeyPatch.context() as patch:
        for use in (*FREE.values(), *FAMILIES.values()):
            patch.setattr(use, "read", functools.cache(use.read))
            patch.setattr(use, "attainable", functools.cache(use.attainable))
        patch.setattr(consistency, "of_release", functools.cache(of_release))
        rates = functools.cache(lambda event, bound, rates: claims.limits(Claim(bound, event), rates))
        patch.setattr(verification, "limits", lambda claim, found: rates(claim.event, claim.bound, tuple(found)))
        patch.setattr(verification, "credible", functools.cache(credible))
        epsilon = functools.cache(lambda event, adjacency, delta: privacy_loss(event, adjacency).epsilon(delta).upper)
        patch.setattr(
            verification,
            "_epsilon",
            lambda event, bound: verification._number(lambda: epsilon(event, bound.adjacency, bound.delta)),
        )
        yield


def first_steps(event, step):
    """The event of the first steps; a pass that has begun counts whole."""
    if isinstance(event, BandedFactorisation):
        return replace(event, steps=step, participations=-(-step // 2))
    if isinstance(event, CyclicPoisson):
        return replace(event, steps=step)
    if isinstance(event, Gaussian):
        return event
    return Repeat(event.event, step if event is EVENT else -(-step // 3))


@functools.cache
def evidence(kind):
    """Evidence with every part that the schema has."""
    event, counts, uses = KINDS[kind]
    claim = stated(event or (1.0, DELTA), delta=DELTA)
    shown = []
    for canary, use in itertools.product(CANARIES.get(kind, ("blank",)), uses):
        made = use(DELTA) if use in FREE.values() else use(event, ADD, DELTA)
        belief = credible(counts, DELTA, 0.95) if use in (ClopperPearson, Exact) else None
        found, most = bound(made, counts, 0.95, ADD), made.attainable(counts, 0.95)
        game = "mechanism" if kind == "release" else "runs"
        shown.append(Demonstration(found, counts, most, 0.5, game, canary, 260, 1, belief))
    steps = () if event is None else (1, 2, 4) if event is EVENT else (1, 4, 6)
    steps = (1,) if kind == "release" else steps
    caught = of_release(claim, shown[-1]) if kind == "release" else PLANTED
    spent = [Spent(step, privacy_loss(first_steps(event, step), ADD).epsilon(DELTA).upper) for step in steps]
    return Evidence(
        "a model", claim, tuple(shown),
        (MEASURED,),
        {"accuracy": 0.9}, (Control("planted leak", "found", "found", True),), ("tuning",), {"released": "the model"},
        {"tacit": "0.1.0"}, (), (Exposure(3, 0.9, SURE),), (Bin(0.0, 0.5, 7),), (GroupRisk("a", SURE, 0.2),),
        tuple(spent), caught, {"title": "a model"},
        (Histogram("canary", (0.0, 1.0), (3,), (4,)),),
        (Finding("uniqueness", "One row in ten is unique.", "notable", {"unique": 0.1}),),
    )  # fmt: skip


def leaves(value, path=()):
    """Paths of all leaves of a JSON document, with the first and last item of every list; and of the lists."""
    if isinstance(value, dict) and path != ("claim", "event"):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        yield path
        for place in sorted({0, len(value) - 1}):
            yield from leaves(value[place], (*path, place))
    else:
        yield path


def pattern(path):
    return ".".join(part for part in path if isinstance(part, str))


def excused(path, table):
    return any(pattern(path) == name or pattern(path).startswith(f"{name}.") for name in table)


def changes(value):
    """Other values of the same type, and a shorter list."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(value - 1, 0)] if value else [1]
    if isinstance(value, float):
        return [value * 1.02 + 1e-3, value * 0.97]
    if isinstance(value, str):
        return [value + " indeed", "Laplace", "replace", "lower", "upper", "consistent"]
    if isinstance(value, list):
        return [value[:-1], [*value, value[0]]] if value else [["nothing"], [[0.5, 0.5]]]
    if isinstance(value, dict):
        return [Gaussian(9.0).to_json(), None]
    return ["Laplace", 0.5]


def put(document, path, value):
    made = copy.deepcopy(document)
    place = made
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return made


def noticed(document, tmp_path):
    path = tmp_path / "evidence.json"
    path.write_text(json.dumps(document))
    try:
        found = verify(path)
    except BadInput:
        return True
    return not (found.ok and found.same_words)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_change_is_noticed(kind, tmp_path):
    document = evidence(kind).to_json()
    assert not noticed(document, tmp_path)
    missed = []
    for path in leaves({name: document[name] for name in PARTS.get(kind, document)}):
        if path == ("schema",) or (excused(path, ONLY_DATA) and not (kind == "release" and path[0] == "caught")):
            continue
        value = document
        for part in path:
            value = value[part]
        for other in changes(value):
            if other != value and not noticed(put(document, path, other), tmp_path):
                missed.append((path, value, other))
    assert missed == []


def rewritten(document):
    """The document with everything that is derived from its parts derived again, as a forger would."""
    parts = {name: document[name] for name in ("claim", "demonstrations")}
    bounds = ([parts["claim"]["bound"]] if parts["claim"] else []) + [item["bound"] for item in parts["demonstrations"]]
    for verdict in Verdict:
        try:
            return Evidence.from_json({**document, "bounds": bounds, "verdict": verdict.value}).to_json()
        except BadInput:
            continue
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_a_consistent_change_is_noticed(kind, tmp_path):
    """One field is changed and all that is written for the reader follows it."""
    document, missed = evidence(kind).to_json(), []
    for path in leaves({name: document[name] for name in PARTS.get(kind, ("claim", "demonstrations", "budget"))}):
        if excused(path, {**ONLY_DATA, **RESTS_ON}) or pattern(path) in WHOLE_LISTS:
            continue
        value = document
        for part in path:
            value = value[part]
        for other in changes(value):
            forged = rewritten(put(document, path, other)) if other != value else None
            if forged is not None and not noticed(forged, tmp_path):
                missed.append((path, value, other))
    assert missed == []


RELATED = {"auc.value", "auc.lower", "auc.upper", "tpr_at_fpr.value", "tpr_at_fpr.lower", "tpr_at_fpr.upper", "roc"}
"""Fields of a measurement that no value of another attack may replace one by one."""


def test_rates_that_no_records_can_have_are_noticed(tmp_path):
    """Measurements rest on the data, but each of their numbers is tied to the others."""
    document = evidence("exact").to_json()
    (item,) = document["measurements"]
    missed, seen = [], set()
    for path in leaves(item):
        name = pattern(path)
        value = functools.reduce(lambda part, key: part[key], path, item)
        if name not in RELATED or not isinstance(value, float):
            continue
        seen.add(name)
        end = {2: "lower", 3: "upper"}.get(path[-1], path[-1])  # a point of the curve is (fpr, tpr, lower, upper)
        inward = {"lower": 0.5 * value + 0.5, "upper": 0.5 * value}.get(end, value * 0.97 + 0.011)
        if not noticed(put(document, ("measurements", 0, *path), inward), tmp_path):
            missed.append((path, value, inward))
    assert missed == []
    assert seen >= {"auc.value", "auc.lower", "auc.upper", "tpr_at_fpr.value", "roc"}


def test_numbers_of_records_and_rates_that_are_not_known_are_noticed():
    """A rate that too few records tell is any number from 0 to 1, and every estimate counts the records there are."""
    scores = Scores(DRAWN, np.repeat([True, False], 40), attack="loss", randomised=False)
    made = evidence("exact").with_(measurements=(measure(scores, (0.1, 0.01)),))
    assert verify(made).ok
    (item,) = made.measurements
    (known, rate), (unknown, none) = item.tpr_at_fpr
    assert rate.value is not None
    assert none.value is None
    forgeries = [
        replace(item, auc=replace(item.auc, n=41)),
        replace(item, tpr_at_fpr=((known, replace(rate, n=400)), (unknown, none))),
        replace(item, tpr_at_fpr=((known, rate), (unknown, replace(none, upper=0.02)))),
        replace(item, tpr_at_fpr=((known, rate), (unknown, replace(none, lower=0.3)))),
        replace(item, tpr_at_fpr=((0.01, rate), (unknown, none))),
        replace(item, members=39),
    ]
    for forged in forgeries:
        assert not verify(made.with_(measurements=(forged,))).ok


@pytest.mark.parametrize("targets", [1, 4])
def test_rates_of_honest_measurements_are_possible(targets):
    """Whatever was measured, also where one record is there for several targets, obeys the relations."""
    rng = np.random.default_rng(targets)
    for size, others in ((7, 90), (60, 60), (300, 45)):
        member = np.repeat([True, False], [size, others])
        record = np.concatenate([np.arange(size + others)] * targets)
        score = rng.normal(size=record.size) + 1.5 * np.tile(member, targets)
        score = np.round(score, 1) if size == 60 else score
        target = np.repeat(np.arange(targets), size + others)
        given = Scores(score, np.tile(member, targets), attack="a", randomised=False, record=record, target=target)
        for confidence in (0.8, 0.95, 0.999):
            assert consistency._measured(measure(given, (0.1, 0.01), confidence)) == ""


def test_more_runs_than_planned_are_noticed():
    for kind in ("exact", "one-run", "updates"):
        made = evidence(kind)
        for fewer in ({"planned": 3}, {"failed": 5000}):
            shown = tuple(replace(item, **fewer) for item in made.demonstrations)
            assert verify(made).ok
            assert not verify(made.with_(demonstrations=shown)).ok


def test_words_of_another_version_are_told_apart_from_bounds(tmp_path):
    """Other wording of the same facts is reported, and is no fault of the bounds; a false fact in it is one."""
    made = evidence("exact")
    document, path = made.to_json(), tmp_path / "evidence.json"
    document["sentence"] = "In other words: " + document["sentence"].replace("0.00001", "1e-05")
    path.write_text(json.dumps(document))
    found = verify(path)
    assert found.ok
    assert not found.same_words
    assert [row.about for row in found.statements if not row.equal] == ["sentence"]
    for wrong in (made.sentence.replace(" is false", " holds"), made.sentence + " Epsilon is at most 0.037."):
        path.write_text(json.dumps(made.to_json() | {"sentence": wrong}))
        assert not verify(path).ok
    consistent = evidence("consistent")
    path.write_text(json.dumps(consistent.to_json() | {"sentence": consistent.sentence + " The claim is false."}))
    assert not verify(path).ok


def test_the_family_of_a_claim_is_recomputed(tmp_path):
    """Defect D7: with the family "Laplace" in the claim a refutation became "consistent", and verify said ok."""
    made = evidence("exact")
    assert made.verdict is Verdict.REFUTED
    claim = replace(made.claim, bound=replace(made.claim.bound, assumes="Laplace"))
    free = tuple(item for item in made.demonstrations if item.bound.assumes is not None)
    assert not verify(made.with_(claim=claim)).ok
    assert made.with_(claim=claim, demonstrations=free).verdict is not Verdict.REFUTED
    assert not verify(made.with_(claim=claim, demonstrations=free)).ok


@pytest.mark.parametrize("kind", ["exact", "consistent", "watched", "cyclic", "cyclic-poisson"])
def test_a_dropped_reading_is_noticed(kind):
    made = evidence(kind)
    assert verify(made).ok
    for place in range(len(made.demonstrations)):
        rest = made.demonstrations[:place] + made.demonstrations[place + 1 :]
        assert not verify(made.with_(demonstrations=rest)).ok


def test_the_weaker_reading_of_one_run_does_not_stand_alone():
    """One run is judged by the curve of the claimed event: the bound for any mechanism alone has replaced it."""
    made, counts = evidence("one-run-event"), KINDS["one-run-event"][1]
    free = OneRun(DELTA)
    shown = replace(
        made.demonstrations[0], bound=bound(free, counts, 0.95, ADD), attainable=free.attainable(counts, 0.95)
    )
    assert not verify(made.with_(demonstrations=(shown,))).ok
    assert verify(made.with_(demonstrations=(shown, *made.demonstrations))).ok
    assert verify(evidence("one-run").with_(demonstrations=evidence("one-run").demonstrations)).ok


def test_a_game_moved_to_another_canary_is_noticed():
    """Two games of two readings each: a reading that changes its game leaves one alone and one too many."""
    made = evidence("cyclic-poisson")
    assert verify(made).ok
    assert len(made.demonstrations) == 4
    for place in range(4):
        shown = list(made.demonstrations)
        shown[place] = replace(shown[place], canary="blank" if shown[place].canary == "backdoor" else "backdoor")
        assert not verify(made.with_(demonstrations=tuple(shown))).ok


def test_a_budget_without_its_last_points_is_still_confirmed():
    for kind in ("cyclic", "cyclic-poisson", "passes"):
        made = evidence(kind)
        assert verify(made.with_(budget=made.budget[:-1])).ok
        wrong = replace(made.budget[0], epsilon=0.9 * made.budget[0].epsilon)
        assert not verify(made.with_(budget=(wrong, *made.budget[1:]))).ok


def test_evidence_without_conditions_names_who_wrote_it():
    """An earlier version listed fewer conditions: that is said, with the version, and is not confirmed."""
    made = evidence("exact")
    old = made.with_(
        claim=replace(made.claim, bound=replace(made.claim.bound, assumptions=())), provenance={"tacit": "0.0.7"}
    )
    found = verify(old)
    (row,) = [row for row in found.statements if not row.equal]
    assert not found.ok
    assert row.stored == "0 listed by tacit 0.0.7"
    assert "write it again" in row.recomputed
    assert all(text in row.recomputed for text in made.claim.bound.assumptions)
    unnamed = verify(old.with_(provenance={}))
    assert any("an unnamed version" in row.stored for row in unnamed.statements)


def test_two_readings_of_one_game_have_the_same_counts():
    made = evidence("exact")
    first, second = made.demonstrations
    use, other = Exact(DELTA), Counts(60, 40, 100, 100)
    forged = replace(first, counts=other, bound=bound(use, other, 0.95, ADD), credible=None)
    assert not verify(made.with_(demonstrations=(forged, second))).ok


def test_every_part_of_the_schema_is_recomputed_or_listed():
    """A new part of evidence must find its place in verification."""
    parts = {"schema", "verdict", "sentence", "bounds", "attainable", "claim", "demonstrations", "budget"}
    listed = {name.split(".")[0] for name in ONLY_DATA}
    assert set(schema()["properties"]) <= parts | listed
    assert {name.split(".")[0] for name in (*ONLY_DATA, *RESTS_ON)} <= set(schema()["properties"])
    document = evidence("exact").to_json()
    for name in schema()["properties"]:
        assert document[name] not in ([], {}, None), name


def objects(value, path=()):
    """Paths of all objects of a JSON document, with the first item of every list."""
    if isinstance(value, dict):
        yield path
        for key, item in value.items():
            yield from objects(item, (*path, key))
    elif isinstance(value, list) and value:
        yield from objects(value[0], (*path, 0))


FREE_FORM = {"utility", "threat", "provenance", "described", "findings.figures"}
"""Objects whose keys are data."""


@pytest.mark.parametrize("kind", ["exact", "pair"])
def test_a_key_that_nothing_reads_is_listed(kind, tmp_path):
    """Whoever opens the file reads `"epsilon": 0.01` there; verification reads nothing, and says so."""
    document, file = evidence(kind).to_json(), tmp_path / "evidence.json"
    for path in objects(document):
        if pattern(path) in FREE_FORM:
            continue
        file.write_text(json.dumps(put(document, (*path, "epsilon of all"), 0.01)))
        try:
            found = verify(file)
        except BadInput:
            continue
        (told,) = [text for text in found.unchecked if text.startswith(UNKNOWN)]
        assert told.endswith(".".join(filter(None, (pattern(path), "epsilon of all"))))


def test_a_key_that_stands_twice_is_refused(tmp_path):
    """A reader sees the first verdict, a program the last."""
    made, file = evidence("exact"), tmp_path / "evidence.json"
    text = json.dumps(made.to_json())
    file.write_text(text.replace('"verdict":', '"verdict": "consistent", "verdict":', 1))
    with pytest.raises(BadInput, match="a key twice"):
        verify(file)


def schema_leaves(node, path=()):
    """Dotted names of every field that the published schema allows; lists count as fields, too."""
    if "$ref" in node:
        yield from schema_leaves(schema()["$defs"][node["$ref"].rsplit("/", 1)[-1]], path)
    elif "anyOf" in node or "oneOf" in node:
        for item in node.get("anyOf", node.get("oneOf")):
            yield from schema_leaves(item, path)
    elif "properties" in node and path != ("claim", "event"):
        for name, item in node["properties"].items():
            yield from schema_leaves(item, (*path, name))
    else:
        yield ".".join(path)
        if isinstance(node.get("items"), dict):
            yield from schema_leaves(node["items"], path)


def test_every_field_of_the_schema_is_changed_somewhere():
    """Fields come from the schema: a new one, of any depth, must be in one of the files that the tests above change."""
    changed = set()
    for kind in KINDS:
        document = evidence(kind).to_json()
        changed |= {pattern(path) for path in leaves({name: document[name] for name in PARTS.get(kind, document)})}
    asked = set(schema_leaves(schema()))
    assert len(asked) > 100
    open_objects = {name for name in asked if any(other.startswith(f"{name}.") for other in changed)}
    assert asked - changed - open_objects == set()
    assert {name for name in changed if name not in asked and name.rsplit(".", 1)[0] not in open_objects} == set()


def test_a_field_that_no_file_has_is_told(monkeypatch):
    """The mutant: a schema with one more optional field, deep inside."""
    grown = copy.deepcopy(schema())
    grown["$defs"]["counts"]["properties"]["ties"] = {"type": "integer"}
    monkeypatch.setitem(globals(), "schema", lambda: grown)
    with pytest.raises(AssertionError, match="ties"):
        test_every_field_of_the_schema_is_changed_somewhere()


def test_what_is_listed_is_told():
    made = evidence("exact")
    tables = ONLY_DATA, GIVEN, RESTS_ON, WHOLE_LISTS
    assert set(verify(made).unchecked) == {name for table in tables for name in table.values()}
    assert BARE in verify(evidence("pair")).unchecked
    bare = verify(Evidence("a model"))
    assert bare.unchecked == (ONLY_DATA["subject"],)


@pytest.mark.parametrize("use", [*FREE.values(), *FAMILIES.values()])
def test_counts_of_any_size_are_safe(use):
    """Defect D8: counts of 1e9 asked for 7.45 GiB."""
    size = 2**53
    counts = Counts(size // 2, size // 3, size, size)
    assert size > MOST_RUNS
    made = evidence("exact")
    shown = replace(made.demonstrations[0], counts=counts, credible=None)
    forged = replace(shown, bound=replace(shown.bound, method=use.method))
    assert not verify(made.with_(demonstrations=(forged,))).ok


def test_hostile_files_are_refused_in_one_sentence(tmp_path):
    document = evidence("exact").to_json()
    nested = Gaussian(1.0).to_json()
    for _ in range(4000):
        nested = {"type": "Repeat", "event": nested, "steps": 1}
    gaussian, event = {"type": "Gaussian", "noise_multiplier": 1e-99}, ("claim", "event")
    hostile = [
        put(document, ("claim", "frontier"), [[0.0, 0.5]] * 3000),
        put(document, ("claim", "frontier", 0), [1e308, 1e308]),
        put(document, ("claim", "bound", "delta"), float("nan")),
        put(document, event, {"type": "Repeat", "event": gaussian, "steps": 2**53}),
        put(document, event, {"type": "DiscreteGaussian", "noise_multiplier": 1e99, "sensitivity": 2**53}),
        put(document, event, {"type": "Allocation", "times": 1, "steps": 2**53, "event": gaussian}),
        put(document, ("demonstrations", 0, "bound", "confidence"), 1.0),
        put(document, ("budget",), [{"step": 2**60, "epsilon": 1.0}] * 5000),
    ]
    assert all(noticed(item, tmp_path) for item in hostile)
    with pytest.raises(BadInput):
        Evidence.from_json(put(document, ("claim", "event"), nested))


def test_schema_and_dataclass_have_the_same_fields():
    assert {field.name for field in fields(Evidence)} - {"scores"} <= set(schema()["properties"])
