"""How often does an audit with a pilot refute what is true? A thousand replays of every case of the tests.

    python benchmarks/portfolio_nulls.py [--replays 1000] [--quick]

The cases are those of tests/statistical/test_audits_portfolio_validity.py: nothing is told, ties, few runs, failures,
and claims that are exactly met.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest
from scipy import stats

from machine import describe, keep

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "statistical"))
import test_audits_portfolio_validity as nulls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replays", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="20 replays, nothing is kept")
    given = parser.parse_args()
    replays, rows = 20 if given.quick else given.replays, []
    for name in nulls.CASES:
        with pytest.MonkeyPatch.context() as patch:
            found = nulls.alarms(patch, name, replays)
        most = int(stats.binom.ppf(1 - 1e-3, replays, nulls.ERROR))
        rows.append({"case": name, "replays": replays, "refuted": found, "nominal": nulls.ERROR, "allowed": most})
        print(rows[-1], flush=True)
        if not given.quick:
            keep("portfolio-nulls", describe("numpy", "scipy"), rows)


if __name__ == "__main__":
    main()
