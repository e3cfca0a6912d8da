"""Tables for tests of private queries, and the one person whom nothing stops."""

import math

import pyarrow

COLUMNS = {"who": pyarrow.int64(), "city": pyarrow.string(), "amount": pyarrow.float64(), "visits": pyarrow.int64()}
CITIES = ["Basel", "Bern", "Chur", "Genf", "Zug"]
ODD = [math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, 0.0, -0.0, 99.9999999, 1e16, None]
WORDS = ["", " ", "Basel ", "basel", "'; DROP TABLE t; --", '"', "\\", "NULL", "Ωmega", None]


def arrow(rows):
    columns = list(zip(*rows, strict=True)) if rows else [[] for _ in COLUMNS]
    return pyarrow.table(
        {name: pyarrow.array(list(c), kind) for (name, kind), c in zip(COLUMNS.items(), columns, strict=True)}
    )


def others(rng, people=40):
    """Rows of ordinary people, some without an id."""
    rows = []
    for who in range(people):
        for _ in range(int(rng.integers(1, 7))):
            rows.append((who, str(rng.choice(CITIES)), float(rng.normal(40, 30)), int(rng.integers(0, 9))))
    return rows + [(None, "Basel", 50.0, 1)] * 5


def nasty(rng, rows=400, who=10_000):
    """Rows of one person: every odd number and word, in every city, many times."""
    found = []
    for k in range(rows):
        city = (CITIES + WORDS)[int(rng.integers(0, len(CITIES + WORDS)))]
        amount = ODD[int(rng.integers(0, len(ODD)))] if k % 3 else float(rng.normal(0, 1e6))
        found.append((who, city, amount, int(rng.integers(-(2**62), 2**62))))
    return found
