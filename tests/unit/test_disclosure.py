"""Attacks on releases: each finds what it should, and does no better than its bound against a private release."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import tacit
from command import Command
from tacit import disclosure, mechanism
from tacit.core import source
from tacit.disclosure import Asked, Published


@pytest.mark.slow
def test_reconstruction_of_a_column_from_noisy_sums():
    """n = 512, 2n queries, errors uniform within 0.3 sqrt(n): at least 95 % of the bits."""
    n, rng, numbers = 512, source(0), np.random.default_rng(0)
    bits, subsets = rng.coins(n), disclosure.random_subsets(n, 2 * n, rng)
    answers = subsets @ bits.astype(float) + numbers.uniform(-0.3, 0.3, 2 * n) * np.sqrt(n)
    found = disclosure.reconstruct(subsets, answers)
    assert found.accuracy(bits) >= 0.95
    assert found.misfit <= 0.3 * np.sqrt(n)


def test_reconstruction_of_a_small_column_is_exact():
    rng = source(1)
    bits, subsets = rng.coins(60), disclosure.random_subsets(60, 120, rng)
    for errors in ("bounded", "heavy"):
        assert disclosure.reconstruct(subsets, subsets @ bits.astype(float), errors=errors).accuracy(bits) == 1


def test_the_private_release_is_not_reconstructed():
    """Laplace noise at total epsilon 1: no better than e/(1 + e), and in truth hardly better than guessing."""
    shares = []
    for seed in range(20):
        rng = source(seed)
        bits, subsets = rng.coins(64), disclosure.random_subsets(64, 128, rng)
        noisy = mechanism.laplace(subsets @ bits.astype(np.int64), sensitivity=128, epsilon=1.0, rng=rng)
        shares.append(disclosure.reconstruct(subsets, noisy.value, errors="heavy").accuracy(bits))
    assert np.mean(shares) <= 0.55
    assert np.mean(shares) <= disclosure.attainable(1.0)
    assert disclosure.attainable(0) == 0.5


def test_differencing():
    people = [f"p{k}" for k in range(30)]
    values = dict(zip(people, range(30), strict=True))

    def asked(some):
        return Asked(frozenset(some), float(sum(values[person] for person in some)))

    log = [asked(people), asked(people[1:]), asked(people[5:]), asked(people[2:5] + people[6:])]
    found = disclosure.differencing(log)
    assert [(item.person, round(item.value, 6)) for item in found] == [("p0", 0.0)]
    assert found[0].sentence == "answer 1 - answer 2"
    assert not disclosure.differencing(log[:1])
    three = [asked(["p1", "p2"]), asked(["p2", "p3"]), asked(["p1", "p3"])]  # no pair differs by one person
    assert {item.person: round(item.value, 6) for item in disclosure.differencing(three)} == {"p1": 1, "p2": 2, "p3": 3}


def test_records_from_tables():
    """A block of five people and three small tables: every record follows."""
    domain = {"sex": ["f", "m"], "age": ["young", "old"], "race": ["a", "b"]}
    people = [("f", "young", "a"), ("f", "old", "b"), ("f", "old", "b"), ("m", "old", "a"), ("m", "old", "a")]

    def table(*columns):
        places = [list(domain).index(name) for name in columns]
        counts = {}
        for values in np.ndindex(*(2,) * len(columns)):
            kind = tuple(domain[name][k] for name, k in zip(columns, values, strict=True))
            counts[kind] = sum(tuple(person[p] for p in places) == kind for person in people)
        return Published(columns, counts)

    found = disclosure.records_from_tables(domain, [table("sex", "age"), table("age", "race"), table("sex", "race")])
    assert found.determined == 1.0
    assert {kind: int(n) for kind, n in zip(found.kinds, found.solution, strict=True) if n} == {
        ("f", "young", "a"): 1, ("f", "old", "b"): 2, ("m", "old", "a"): 2
    }  # fmt: skip
    less = disclosure.records_from_tables(domain, [table("sex"), table("age"), table("race")])
    assert less.determined < 1
    assert (less.least <= found.solution).all()
    assert (found.solution <= less.most).all()
    with pytest.raises(tacit.BadInput, match="contradict"):
        disclosure.records_from_tables(domain, [table("sex"), Published(("sex",), {("f",): 9})])


def test_uniqueness_and_why_groups_are_not_enough():
    table = {
        "zip": np.array(["1", "1", "1", "2", "2", "2", "3"]),
        "sex": np.array([0, 0, 0, 1, 1, 1, 0]),
        "ill": np.array(["flu", "flu", "flu", "flu", "cold", "none", "none"]),
    }
    found = disclosure.uniqueness(table, ["zip", "sex"])
    assert (found.unique, found.smallest, found.groups) == (1 / 7, 1, 3)
    told = disclosure.homogeneity(table, ["zip", "sex"], "ill", k=3)
    assert (told.hidden, told.disclosed) == (6 / 7, 3 / 7)  # all of zip 1 have the flu
    assert disclosure.combinations(table, ["zip", "sex"])[0].columns == ("zip",)
    assert disclosure.unicity(table, 3, source(0)) == pytest.approx(disclosure.uniqueness(table).unique)
    with pytest.raises(tacit.BadInput, match="nothing"):
        disclosure.uniqueness(table, ["nothing"])


def test_rows_of_one_person_hide_nobody():
    """Three visits of Ann at one place are alike, and all of them are Ann's: nobody else is there."""
    table = {
        "who": np.array(["ann", "ann", "ann", "bob", "cid", "bob"]),
        "place": np.array([1, 1, 1, 2, 2, 3]),
        "ill": np.array(["flu", "flu", "flu", "flu", "flu", "cold"]),
    }
    assert disclosure.uniqueness(table, ["place"]).unique == 1 / 6
    found = disclosure.uniqueness(table, unit="who")
    assert (found.columns, found.unique, found.smallest) == (("place", "ill"), 4 / 6, 1)
    assert "the only who" in found.sentence
    told = disclosure.homogeneity(table, ["place"], "ill", k=2, unit="who")
    assert (told.hidden, told.disclosed) == (2 / 6, 2 / 6)


def test_all_known_columns_together_are_the_first_finding():
    """Of more than three columns only combinations of three were told, which single out fewer people."""
    bits = np.arange(32)
    table = {f"c{place}": bits >> place & 1 for place in range(5)}
    first = disclosure.of_table(table, list(table))[0]
    assert first.figures["columns"] == list(table)
    assert first.figures["unique"] == 1.0


def test_linkage_of_made_up_ratings():
    rng = np.random.default_rng(0)
    rows = [
        (who, item, rng.integers(1, 6), rng.integers(0, 1000)) for who in range(100) for item in rng.choice(300, 15)
    ]
    table = disclosure.Ratings.of(*zip(*rows, strict=True))
    hits = 0
    for who in range(20):
        own = [row for row in rows if row[0] == who][:4]
        known = {int(item): (float(min(r + 1, 5)), float(day + 3)) for _, item, r, day in own}
        match = table.match(known)
        hits += match.claimed and match.person == who
    assert hits >= 18
    assert not table.match({10**6: (3.0, 1.0)}).claimed


@pytest.mark.needs("data")
def test_genotypes():
    """100 people of a study: their frequencies tell who took part; noisy ones at epsilon 1 do not."""
    held = np.load(Path(os.environ["TACIT_DATA"]) / "genotypes_1000g.npz")
    own = np.flatnonzero(held["superpopulation"] == 0)
    alleles = held["genotypes_snp_major"].T[np.random.default_rng(0).permutation(own)].astype(np.int64)
    study, others, reference = alleles[:100], alleles[100:200], alleles[200:]
    published = disclosure.frequencies(study)
    known = disclosure.frequencies(reference)
    plain = disclosure.membership(study, others, published, known)
    assert plain.auc().value > 0.99
    sums = mechanism.laplace(study.sum(axis=0), sensitivity=2 * alleles.shape[1], epsilon=1.0, rng=1)
    private = disclosure.membership(study, others, np.clip(sums.value / 200, 0, 1), known)
    assert private.auc().value < 0.6
    assert disclosure.distance(study, published, known).mean() > disclosure.distance(others, published, known).mean()


@pytest.mark.needs("data")
def test_census_rows_and_trips():
    import pandas

    folder = Path(os.environ["TACIT_DATA"])
    adult = pandas.read_csv(folder / "adult.csv.gz")
    table = {
        name: adult[name].to_numpy() for name in ("age", "sex", "race", "native_country", "occupation", "education")
    }
    found = disclosure.uniqueness(table)
    assert 0.05 < found.unique < 0.6
    trips = pandas.read_csv(folder / "nyc_taxis.csv.gz").dropna()
    known = {
        "hour": trips.pickup.str[:13].to_numpy(),
        "from": trips.pickup_zone.to_numpy(),
        "to": trips.dropoff_zone.to_numpy(),
    }
    assert disclosure.uniqueness(known).unique > 0.95  # an hour and two places name a trip, its fare and its tip


def memory(x, y):
    """A model that is sure of what it has seen."""
    seen = {(tuple(row), int(label)) for row, label in zip(x, y, strict=True)}

    def predict(rows):
        sure = np.array([[0.9 if (tuple(row), k) in seen else 0.5 for k in (0, 1)] for row in rows])
        return sure / sure.sum(axis=1, keepdims=True)

    return predict


def test_who_was_forgotten_between_two_versions():
    rng = np.random.default_rng(0)
    x, y = rng.random((40, 3)), rng.integers(0, 2, 40)
    for gone in (0, 7, 39):
        kept = np.arange(40) != gone
        found = disclosure.model_versions(memory(x, y), memory(x[kept], y[kept]), x, y)
        assert (found.named, found.rank(gone)) == (gone, 1)
    same = disclosure.model_versions(memory(x, y), memory(x, y), x, y)
    assert same.rank(5) == 40  # all alike: nobody stands out
    with pytest.raises(tacit.BadInput, match="place"):
        same.rank(40)


def test_naming_is_limited():
    """Randomised response about who is missing reaches the limit, and nothing can do better."""
    m, epsilon = 5, 0.7
    likely = np.exp(2 * epsilon) / (np.exp(2 * epsilon) + m - 1)  # names the right one with odds e^{2 eps}
    assert disclosure.naming_limit(epsilon, m) == pytest.approx(likely)
    assert disclosure.naming_limit(0, 50) == pytest.approx(1 / 50)
    assert disclosure.naming_limit(20, 50) > 0.999


def test_pictures_are_sound_and_escaped():
    bars = [disclosure.Bar("<plain>", 1.0), disclosure.Bar("private", 0.5, "private")]
    text = disclosure.picture('a "title" & more', bars, limit=0.73)
    assert "<plain>" not in text
    assert "73.0%" in text
    from xml.etree import ElementTree

    assert ElementTree.fromstring(text).tag.endswith("svg")
    for wrong in (
        lambda: disclosure.Bar("x", 1.5),
        lambda: disclosure.picture("x", []),
        lambda: disclosure.Bar("x", 1, "k"),
    ):
        with pytest.raises(tacit.BadInput):
            wrong()


def test_answers_that_contradict_each_other_are_not_taken_as_exact():
    """A log of private answers was said to determine everybody's value."""
    people, rng = frozenset(range(40)), np.random.default_rng(0)
    sums = [(people, 20.0), *((people - {k}, 20.0 - k % 2) for k in people)]
    (exact,) = disclosure.of_log([Asked(*each) for each in sums])
    (noisy,) = disclosure.of_log([Asked(asked, answer + rng.laplace(0, 10)) for asked, answer in sums])
    assert exact.severity == "severe"
    assert "if they are exact, determine the values of 40 of 40 people" in exact.sentence
    assert noisy.severity == "notable"
    assert "contradict each other" in noisy.sentence


def test_somebody_who_rated_one_item_often_is_not_taken_for_another():
    """Every rating of an item was added up, so whoever rated it fifty times was the match with certainty."""
    people = ["ann", "ann", "ann", *["bot"] * 50, *"abcdefgh"]
    items = ["x", "y", "z", *["x"] * 50, *"xyzxyzxy"]
    numbers = [5.0, 4.0, 1.0, *[3.0] * 50, *[2.0] * 8]
    table = disclosure.Ratings.of(people, items, numbers, [10.0, 20.0, 30.0, *[200.0] * 50, *[90.0] * 8])
    assert table.match({"x": (5.0, 10.0), "y": (4.0, 20.0), "z": (1.0, 30.0)}).person == "ann"
    once = disclosure.Ratings.of(["a", "b", "b"], ["x", "x", "x"], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    assert once.match({"x": (1.0, 0.0)}).eccentricity == 0
    assert once.match({"x": (None, 0.0)}).eccentricity == 0
    for odd in ({"x": 1.0}, {"x": (1.0,)}, {"x": ("good", 0.0)}, ["x"], {}):
        with pytest.raises(tacit.BadInput, match="known"):
            once.match(odd)


def test_answers_about_others_that_contradict_each_other_are_told():
    """Only answers about people whose value was determined were compared, and to a millionth of the largest."""
    twice = [disclosure.Asked(frozenset("abc"), 10.0), disclosure.Asked(frozenset("abc"), 12.0)]
    (found,) = disclosure.of_log(
        [*twice, disclosure.Asked(frozenset("de"), 5.0), disclosure.Asked(frozenset("d"), 2.0)]
    )
    assert "contradict each other" in found.sentence
    assert found.severity == "severe"  # what d has is told by answers that nothing contradicts
    rich = [disclosure.Asked(frozenset("ab"), 1e9), disclosure.Asked(frozenset("a"), 9e8)]
    (found,) = disclosure.of_log([*rich, disclosure.Asked(frozenset("b"), 1e8 + 500)])
    assert "contradict each other" in found.sentence
    assert found.severity == "notable"
    (found,) = disclosure.of_log([*rich, disclosure.Asked(frozenset("b"), 1e8)])
    assert "contradict" not in found.sentence


def test_findings_go_on_the_page(tmp_path):
    people = frozenset(range(9))
    found = disclosure.of_log([Asked(people, 9.0), Asked(people - {4}, 8.0)])
    evidence = disclosure.evidence(found, release="log.json")
    assert all(control.passed for control in evidence.controls)
    assert evidence.verdict == "no claim"
    assert "determine the value of 1 of 9 people" in evidence.sentence
    evidence.save(tmp_path / "e.json")
    again = tacit.Evidence.load(tmp_path / "e.json")
    assert again.findings == evidence.findings
    page = tacit.report(again, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "What the release gives away" in text
    assert found[0].sentence in page.sentence
    tacit.report(again, tmp_path / "public.html", public=True)
    assert "determine the value" not in (tmp_path / "public.html").read_text()


@pytest.mark.parametrize(
    ("ask", "word"),
    [
        (lambda: disclosure.model_versions(lambda x: [[0.5, 0.5]], lambda x: [[0.5, 0.5]], [[1]], [2]), "labels"),
        (lambda: disclosure.model_versions(lambda x: [[3, 4]], lambda x: [[0.5, 0.5]], [[1]], [1]), "probabilities"),
        (lambda: disclosure.model_versions(lambda x: [[1, 0]], lambda x: [[1, 0]], [[1]], ["a"]), "one label"),
        (lambda: disclosure.reconstruct([[2, 0]], [1]), "0 or 1"),
        (lambda: disclosure.reconstruct([[1, 0]], [1, 2]), "one row for each"),
        (lambda: disclosure.reconstruct([[1, 0]], [1], errors="none"), "bounded or heavy"),
        (lambda: disclosure.differencing([]), "at least one"),
        (lambda: disclosure.differencing([({1}, 2.0)]), "list of queries"),
        (lambda: disclosure.of_log([Asked(frozenset({1}), float("nan"))]), "answer 1"),
        (lambda: disclosure.read_log({"queries": [{"people": [True], "answer": 1}]}), "Query 1"),
        (lambda: disclosure.uniqueness({"zip": [1, 2], "born": [1]}), "one length"),
        (lambda: disclosure.of_table({"zip": [1, 2]}, ["zip"], k=0), "k must be"),
        (lambda: disclosure.homogeneity({"zip": [1, 2], "ill": [1]}, ["zip"], "ill", k=2), "one length"),
        (lambda: disclosure.Ratings.of([1], [1], [1], np.array(["2020-01-01"], "datetime64[D]")), "columns of numbers"),
        (lambda: disclosure.likelihood_ratio([[1]], [np.nan], [0.5], people=3), "each site"),
        (lambda: disclosure.likelihood_ratio([[1]], [0.5], [0.5], people=0), "people must be"),
        (lambda: disclosure.membership([[1, 1]], [[1]], [0.5], [0.5]), "same sites"),
        (lambda: disclosure.Bar("sums", "0.5"), "share must be"),
        (lambda: disclosure.frequencies([[3]]), "0, 1 or 2"),
        (lambda: disclosure.Ratings.of([1], [1], [1], [1, 2]), "one length"),
        (lambda: disclosure.read_log({"queries": [{"people": 3}]}), "Query 1"),
        (lambda: disclosure.read_log([]), "query log"),
    ],
)
def test_bad_input(ask, word):
    with pytest.raises(tacit.BadInput, match=word):
        ask()


def test_tables_of_three_libraries_give_the_same_shares():
    import pandas
    import polars
    import pyarrow

    columns = {"zip": ["a", "a", None, "b" * 9, "b" * 9], "born": [1, 1, 2, 3, 4]}
    tables = [columns, pandas.DataFrame(columns), polars.DataFrame(columns), pyarrow.table(columns)]
    assert {disclosure.uniqueness(table).unique for table in tables} == {0.6}
    assert {disclosure.combinations(table, ["zip"])[0].unique for table in tables} == {0.2}
    assert [disclosure.unicity(table, 2, 7) for table in tables] == pytest.approx([0.6] * 4)


def test_a_rating_that_is_missing_tells_nothing():
    """A candidate without a rating had a score of NaN, and NaN was taken for the best of all."""
    table = disclosure.Ratings.of(["x", 7, None], ["a", "a", "b"], [np.nan, 4, 1], [3, 3, 3])
    found = table.match({"a": (4, 3), "b": (np.nan, 300)})
    assert found.person == 7
    assert found.eccentricity > 1


def test_tables_that_leave_a_kind_open_bound_nobody():
    """Without a count of women, "at most as many women as men were counted" is no bound."""
    domain = {"sex": ["f", "m"]}
    with pytest.raises(tacit.BadInput, match="every kind"):
        disclosure.records_from_tables(domain, [Published(("sex",), {"m": 2})])
    with pytest.raises(tacit.BadInput, match="as many values"):
        disclosure.records_from_tables(domain, [Published(("sex",), {("m", "f"): 2})])
    found = disclosure.records_from_tables(domain, [Published(("sex",), {"m": 2, "f": 0})])
    assert (found.least.tolist(), found.most.tolist()) == ([0, 2], [0, 2])


def test_command(tmp_path, capsys, monkeypatch):
    command = Command(capsys, monkeypatch)
    log = {"queries": [{"people": [1, 2, 3], "answer": 6}, {"people": [1, 2], "answer": 3}]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    status, out, err = command("disclose", tmp_path / "log.json", "--json", "--out", tmp_path / "found")
    assert status == 0, err
    (finding,) = json.loads(out)["findings"]
    assert finding["severity"] == "severe"
    assert finding["figures"]["disclosed"] == 1
    assert json.loads((tmp_path / "found" / "findings.json").read_text())["findings"] == [finding]
    assert tacit.Evidence.load(json.loads(out)["evidence"]).findings[0].severity == "severe"
    status, out, err = command("report", tmp_path / "found" / "evidence.json", "--out", tmp_path / "page.html")
    assert status == 0, err
    log["queries"][0]["people"].append(3)
    (tmp_path / "twice.json").write_text(json.dumps(log))
    assert "1 of 2 queries lists a person more than once" in command("disclose", tmp_path / "twice.json")[1]
    (tmp_path / "t.csv").write_text(
        "zip,born,name,ill\n" + "\n".join(f"{k % 4},{k % 7},n{k},{k % 2}" for k in range(90))
    )
    words = ("disclose", tmp_path / "t.csv", "--columns", "zip,born", "--secret", "ill", "--unit", "name", "--k", 3)
    status, out, err = command(*words)
    assert status == 0, err
    assert "rows" in out
    assert "n17" not in out + err
    for wrong in (["--columns", "none"], ["--secret", "none"], ["--unit", "none"]):
        assert command("disclose", tmp_path / "t.csv", *wrong)[0] == 2
    (tmp_path / "bad.json").write_text("{")
    assert command("disclose", tmp_path / "bad.json")[0] == 2
    once, twice = (command("disclose", tmp_path / "t.csv", "--columns", names)[1] for names in ("zip", "zip,zip"))
    assert once == twice
    status, _, told = command("disclose", tmp_path / "log.json", "--secret", "ill")
    assert (status, "a query log has none" in told) == (2, True)
