"""Evidence: its verdict follows from its parts, its sentence from its numbers, and its file from both."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from tacit.attacks import measure
from tacit.audits import ClopperPearson, stated
from tacit.audits.choice import bound
from tacit.core import (
    Adjacency,
    BadInput,
    Bound,
    Claim,
    Control,
    Counts,
    Demonstration,
    Estimate,
    Evidence,
    Measurement,
    Scores,
    Verdict,
)
from tacit.core.sentence import WAYS, together
from tacit.events import Gaussian, Poisson, Repeat

EVENT = Repeat(Poisson(0.1, Gaussian(2.0)), 50)


def claim(epsilon=4.0):
    bound = Bound(epsilon, 1e-5, "upper", 1.0, "proof", "add-remove")
    return Claim(bound, EVENT, ((0.001, 0.05), (0.01, 0.12), (1.0, 1.0)))


def shown(epsilon, attainable=9.0):
    bound = Bound(epsilon, 1e-5, "lower", 0.95, "clopper-pearson", "add-remove")
    return Demonstration(bound, Counts(40, 1, 50, 50), attainable, 0.3, "runs", "blank", 100)


def measurement():
    rate = Estimate(0.084, 0.07, 0.1, 0.95, 1000)
    none = Estimate(None, 0.0, 1.0, 0.95, 1000, "n too small")
    return Measurement("lira", Estimate(0.6, 0.5, 0.7, 0.95, 1000), ((0.01, rate), (0.001, none)), 1000, 1000,
                       roc=((0.0, 0.0, 0.0, 0.1), (1.0, 1.0, 0.9, 1.0)))  # fmt: skip


WHOLE = Evidence(
    "digits", claim(), (shown(2.0),), (measurement(),), {"test accuracy": 0.9},
    (Control("null", "nothing", "nothing", True),), ("tuning",), {"released": "final model"}, {"tacit": "x"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (WHOLE, "consistent"),
        (replace(WHOLE, demonstrations=(shown(4.5),)), "refuted"),
        (replace(WHOLE, demonstrations=(shown(2.0, attainable=4.0),)), "uninformative"),
        (replace(WHOLE, demonstrations=()), "untested"),
        (replace(WHOLE, demonstrations=(), controls=(Control("null", "", "", False),)), "uninformative"),
        (replace(WHOLE, demonstrations=(), claim=None), "no claim"),
        (replace(WHOLE, claim=None), "no claim"),
        (replace(WHOLE, demonstrations=(shown(4.5),), controls=(Control("null", "", "", False),)), "uninformative"),
    ],
)
def test_verdict(evidence, verdict):
    assert evidence.verdict == Verdict(verdict)


def test_the_sentence_quotes_the_numbers():
    found = "1 in 100 outsiders finds 84 of 1,000 members (70 to 100, 95 % confidence); the proof allows at most 120."
    assert found in WHOLE.sentence
    assert "at most 4 (delta 0.00001) by proof and at least 2 by demonstration" in WHOLE.sentence


def test_lower_bounds_of_two_kinds_are_told_apart():
    """One that assumes the claim's noise says so, and what holds without; one at its ceiling says that."""
    assumed = replace(shown(2.4), bound=replace(shown(2.4).bound, assumes="gaussian"))
    of_family = replace(claim(), bound=replace(claim().bound, assumes="gaussian"))
    found = replace(WHOLE, claim=of_family, demonstrations=(shown(0.42), assumed)).sentence
    assert "at least 2.4 (if the noise is of the claimed kind; 0.42 without that) by demonstration" in found
    most = replace(WHOLE, claim=of_family, demonstrations=(shown(0.42, attainable=0.42), assumed)).sentence
    assert "of the claimed kind; 0.42 without that, the limit of that reading)" in most
    plain = replace(WHOLE, claim=None, demonstrations=(shown(2.74, attainable=2.75),)).sentence
    assert "epsilon is at least 2.74 (the limit of this audit, so the truth may be far above)." in plain
    assert "(" not in replace(WHOLE, claim=None, measurements=()).sentence


def test_bounds_in_the_sentence_are_rounded_to_their_safe_side():
    found = replace(WHOLE, claim=claim(2.3249), demonstrations=(shown(1.8376),)).sentence
    assert "at most 2.33 (delta 0.00001) by proof and at least 1.83 by demonstration" in found
    small = replace(WHOLE, claim=claim(2.3249), demonstrations=(shown(1.0, attainable=2.3221),)).sentence
    assert "epsilon <= 2.33: it can show 2.33 at most" in small


def test_a_refuted_claim_and_what_refutes_it_are_different_numbers():
    found = replace(WHOLE, claim=claim(2.0), demonstrations=(shown(2.0004),)).sentence
    assert "The claim epsilon <= 2 is false: the audit shows at least 2.0004." in found


def test_a_bound_that_no_assumption_makes_larger_names_none():
    assumed = replace(shown(2.4003), bound=replace(shown(2.4003).bound, assumes="gaussian"))
    of_family = replace(claim(), bound=replace(claim().bound, assumes="gaussian"))
    found = replace(WHOLE, claim=of_family, demonstrations=(shown(2.4001), assumed)).sentence
    assert "at least 2.4 by demonstration" in found


def measured(value, lower, upper, *, fpr=0.0001, members=2500):
    rate = Estimate(value, lower, upper, 0.95, 50_000)
    return replace(WHOLE, measurements=(replace(measurement(), tpr_at_fpr=((fpr, rate),), members=members),)).sentence


@pytest.mark.parametrize("claimed", [4.3, 6.0])
def test_an_audit_that_could_not_have_contradicted_says_how_many_runs_could(claimed):
    """So many runs can, with a tenth of them spent on choosing."""

    def audited(runs, epsilon=0.5):
        judged = int(0.9 * runs) // 2
        counts, use = Counts(judged, 0, judged, judged), ClopperPearson(1e-5)
        most = use.attainable(counts, 0.95)
        made = Demonstration(bound(use, counts, 0.95, Adjacency.ADD_REMOVE), counts, most, 0.0, "runs", "blank", runs)
        made = replace(made, bound=replace(made.bound, epsilon=min(epsilon, most)))
        return Evidence("a model", stated((claimed, 1e-5), delta=1e-5), (made,))

    few = audited(200)
    assert few.verdict == "uninformative"
    needed = int(re.search(r"About ([\d,]+) runs could", few.sentence)[1].replace(",", ""))
    assert audited(needed).verdict != "uninformative"
    assert audited(int(needed / 1.6)).verdict == "uninformative"
    assert "It showed that much" not in few.sentence
    assert "It showed that much, so the truth may be far above." in audited(200, 99.0).sentence
    far = replace(few, claim=stated((30.0, 1e-5), delta=1e-5))
    assert "No number of runs that anybody makes could" in far.sentence


def test_a_claim_without_an_audit_is_untested_and_never_called_unshown():
    proof = replace(WHOLE, demonstrations=())
    assert "Epsilon is at most 4 (delta 0.00001) by proof; it is untested, as no audit was made." in proof.sentence
    other = replace(shown(2.4), bound=replace(shown(2.4).bound, assumes="gaussian"))
    unfit = replace(WHOLE, demonstrations=(other,))
    assert (unfit.verdict, unfit.lower) == ("uninformative", None)
    assert "the audit says nothing about it" in unfit.sentence


def test_changing_the_json_does_not_change_the_evidence():
    data = WHOLE.to_json()
    data["controls"][0]["passed"] = "no"
    assert WHOLE.controls[0].passed is True


def test_files_that_call_an_untested_claim_uninformative_still_load():
    old = replace(WHOLE, demonstrations=()).to_json() | {"verdict": "uninformative"}
    assert Evidence.from_json(old).verdict is Verdict.UNTESTED
    for wrong in ("consistent", "no claim", "refuted"):
        with pytest.raises(BadInput, match="verdict do not follow"):
            Evidence.from_json(old | {"verdict": wrong})
    with pytest.raises(BadInput, match="verdict do not follow"):
        Evidence.from_json(WHOLE.to_json() | {"verdict": "uninformative"})


def test_an_attack_that_guesses_is_said_to_guess():
    """At 1 in 10,000, guessing finds 1 in 10,000 members: 0.25 of 2,500."""
    words = measured(0.0001, 0.0, 0.0009)
    assert "finds 0 of 2,500 members (0 to 3, 95 % confidence), no better than guessing (guessing finds 0.25)" in words
    unsure = measured(0.004, 0.0001, 0.02)
    assert "95 % confidence), which this sample cannot tell from guessing (guessing finds 0.25);" in unsure
    assert "guessing" not in measured(0.004, 0.00011, 0.02)
    rate = (0.0001, Estimate(0.1, 0.0, 0.2, 0.95, 3000))
    leaky = replace(measurement(), auc=Estimate(0.8, 0.79, 0.81, 0.95, 3000), tpr_at_fpr=(rate,))
    words = replace(WHOLE, measurements=(leaky,)).sentence
    assert "which this sample cannot tell from guessing at this rate (guessing finds 0.1); over all rates an" in words
    assert "an attack does better than guessing (area under the curve at least 0.790, guessing has 0.5)" in words
    none = replace(leaky, tpr_at_fpr=((0.0001, Estimate(0.0, 0.0, 0.2, 0.95, 3000)),))
    words = replace(WHOLE, measurements=(none,)).sentence
    assert "no better than guessing at this rate (guessing finds 0.1), though better at others (area" in words


def test_an_area_barely_above_a_half_is_shown_above_a_half():
    """It read: an attack does better than guessing (area under the curve at least 0.500, guessing has 0.5)."""
    rate = (0.0001, Estimate(0.1, 0.0, 0.2, 0.95, 3000))
    for lower, shown in ((0.5004, "0.5004"), (0.50004, "0.50004"), (0.5019, "0.501")):
        item = replace(measurement(), auc=Estimate(0.6, lower, 0.8, 0.95, 3000), tpr_at_fpr=(rate,))
        words = replace(WHOLE, measurements=(item,)).sentence
        assert f"(area under the curve at least {shown}, guessing has 0.5)" in words


def test_an_attack_that_finds_everybody_is_never_said_to_guess():
    """With 300 outsiders no rate of 1 in 100 is certain: of a perfect attack it was said that it guesses."""
    found = measure(Scores(np.r_[np.ones(300), np.zeros(300)], np.arange(600) < 300, attack="a", randomised=False))
    assert found.tpr_at_fpr[0][1].lower < 0.01
    words = replace(WHOLE, claim=None, demonstrations=(), measurements=(found,)).sentence
    assert "no better than guessing" not in words
    assert "finds 300 of 300 members" in words
    assert "an attack does better than guessing (area under the curve at least 0.98" in words


@pytest.mark.parametrize(("fpr", "members", "scale"), [
    (0.01, 5000, "1,000"), (0.01, 400, "400"), (0.001, 2500, "2,500"), (0.001, 20_000, "10,000"), (0.0001, 100, "100"),
])  # fmt: skip
def test_counts_are_never_larger_than_what_was_counted(fpr, members, scale):
    assert f" of {scale} members (" in measured(0.5, 0.4, 0.6, fpr=fpr, members=members)


def test_an_interval_beside_the_proofs_limit_is_explained():
    """The claim allows 12 % at 1 %; an interval ends below it, goes beyond it, or begins beyond it."""
    inside, across, beyond = (
        measured(*rates, fpr=0.01) for rates in ((0.08, 0.07, 0.1), (0.08, 0.02, 0.2), (0.3, 0.2, 0.4))
    )
    assert "allows at most 120." in inside
    assert "allows at most 120 (the interval reaches higher because the sample is small)." in across
    assert "more than the 120 that the proof allows, so the proof does not hold for this model, or members" in beyond


def test_without_references_the_sentence_says_that_it_understates():
    assert "understates" in replace(WHOLE, provenance={"references": 0}).sentence
    assert "understates" not in replace(WHOLE, provenance={"references": 4}).sentence
    for way in WAYS:  # an offer, where the attack says that it can be taken up
        offered = replace(WHOLE, provenance={"references": 0}, not_covered=(f"attacks with reference models: {way}",))
        assert f"can find; to train some, {way}." in offered.sentence
    assert "understates" not in replace(WHOLE, provenance={"references": 0}, measurements=()).sentence


def test_a_failed_control_says_what_it_found():
    failed = replace(WHOLE, controls=(Control("blind baseline", "", "area 0.7. Draw both at random", False),))
    assert "the control blind baseline did not behave (area 0.7. Draw both at random)." in failed.sentence


def test_the_best_of_several_attacks_is_quoted_with_the_confidence_that_all_of_them_share():
    """Four intervals at 98.75 % hold together at 95 %; one that a blind baseline has is not among them."""
    each = [replace(measurement(), attack=name, auc=replace(measurement().auc, confidence=0.9875)) for name in "abcd"]
    baseline = replace(measurement(), attack="blind baseline")
    several = replace(WHOLE, measurements=(*each, baseline))
    assert "(70 to 100, 95 % confidence for the best of 4 attacks)" in several.sentence
    assert together(several) == pytest.approx(0.95)


def test_too_few_outsiders_are_said_to_be_too_few():
    small = replace(measurement(), tpr_at_fpr=(), nonmembers=90)
    assert "With 90 outsiders the sample is too small" in replace(WHOLE, measurements=(small,)).sentence


def test_a_failed_control_is_said_first():
    evidence = replace(WHOLE, controls=(Control("blind baseline", "", "", False),))
    assert evidence.sentence.startswith("This experiment cannot be relied on: the control blind baseline")


def test_the_strongest_fitting_demonstration_is_the_lower_one():
    family = replace(shown(3.0), bound=replace(shown(3.0).bound, assumes="Laplace"))
    assert replace(WHOLE, demonstrations=(shown(2.0), family)).lower.bound.epsilon == 2.0


def test_round_trip(tmp_path):
    path = WHOLE.save(tmp_path / "e.json")
    assert Evidence.load(path).to_json() == WHOLE.to_json()
    assert json.loads(path.read_text())["schema"] == "tacit.evidence/1"
    assert list(tmp_path.iterdir()) == [path]


def test_numbers_of_numpy_survive_the_round_trip(tmp_path):
    demonstration = replace(WHOLE.demonstrations[0], planned=np.int64(20), threshold=np.float32(0.5))
    evidence = WHOLE.with_(
        utility={"accuracy": np.float32(0.5)},
        provenance={"runs": np.int64(7), "exact": np.bool_(True)},
        demonstrations=(demonstration,),
    )
    back = Evidence.load(evidence.save(tmp_path / "e.json"))
    assert (dict(back.utility), dict(back.provenance)) == ({"accuracy": 0.5}, {"runs": 7, "exact": True})
    assert (back.demonstrations[0].planned, back.demonstrations[0].threshold) == (20, 0.5)


def test_infinity_survives_the_round_trip(tmp_path):
    evidence = replace(WHOLE, claim=claim(math.inf))
    assert Evidence.load(evidence.save(tmp_path / "e.json")).upper.epsilon == math.inf


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.pop("subject"),
        lambda data: data.update(schema="tacit.evidence/2"),
        lambda data: data["claim"].update(bound=3),
        lambda data: data.update(verdict="refuted"),
        lambda data: data["bounds"][1].update(epsilon=0.1),
        lambda data: data["demonstrations"][0]["counts"].update(tp=99),
        lambda data: data.update(controls=[{"name": "x"}]),
        lambda data: data["controls"][0].update(passed="no"),
        lambda data: data.update(bounds=None),
        lambda data: data.update(bounds=[{}]),
        lambda data: data["bounds"][0].update(more=1),
    ],
)
def test_damaged_evidence_is_refused(tmp_path, damage):
    data = WHOLE.to_json()
    damage(data)
    path = tmp_path / "e.json"
    path.write_text(json.dumps(data))
    with pytest.raises(BadInput):
        Evidence.load(path)


@pytest.mark.parametrize("text", ["", "[1]", "not json", "\ufeff{}"])
def test_files_that_are_not_evidence_are_refused(tmp_path, text):
    path = tmp_path / "e.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput):
        Evidence.load(path)
