"""A private table judged from outside: an audit does not refute its epsilon, and refutes an eighth of the noise."""

import pytest

import tacit
from query_people import CITIES, arrow
from tacit.query import Table, count, release, sum
from tacit.query.bounding import totals

ROWS = [(who, CITIES[who % 2], 40.0, 1) for who in range(30)]
PERSON = [(99, city, 1e300, 2**62) for city in CITIES for _ in range(50)]
RUNS = 1500


def game(monkeypatch, factor=1):
    """Tables with and without one person who has everything; their exact statistics are computed once."""
    tables = {}
    for name, rows in (("without", ROWS), ("with", ROWS + PERSON)):
        held = Table(arrow(rows), unit="who", max_groups=2, max_rows=3, lost=0.05)
        query = held.group_by("city", keys=CITIES).aggregate(n=count(), total=sum("amount", (0, 100)))
        terms = query._terms(query.aggregates)
        tables[name] = query, totals(query.shape, terms, lost=True)
    monkeypatch.setattr(type(tables["with"][0]), "_check_form", lambda *a: None)
    real = release.Noise.drawn

    def played(name, rng):
        query, exact = tables[name]
        monkeypatch.setattr(release, "totals", lambda *a, **k: exact)
        monkeypatch.setattr(release.Noise, "drawn", lambda self, n, s: real(self, n, s) // factor)
        answer = query.release(epsilon=4.0, rng=rng)
        near = [k for k in range(len(CITIES)) if tables["with"][1].people[k] != tables["without"][1].people[k]]
        parts = answer.value["n"][near].sum() / 3 + answer.value["total"][near].sum() / 300
        return float(parts)

    return played


@pytest.mark.slow
def test_the_claim_holds_and_an_eighth_of_the_noise_is_refuted(monkeypatch):
    honest = tacit.audit_mechanism(game(monkeypatch), ("without", "with"), claim=(4.0, 0.0), runs=RUNS, rng=1)
    assert honest.verdict != "refuted"
    wrong = tacit.audit_mechanism(game(monkeypatch, 8), ("without", "with"), claim=(4.0, 0.0), runs=RUNS, rng=1)
    assert wrong.verdict == "refuted"
