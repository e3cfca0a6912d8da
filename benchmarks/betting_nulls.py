"""How often do bets on the levels of a score ever refute a claim that is true? Thousands of replays of every case.

    python benchmarks/betting_nulls.py [--replays 2000] [--quick]

The cases are those of tests/statistical/test_audits_betting_validity.py; runs are looked at after every 8 pairs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scipy import stats

from machine import describe, keep

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "statistical"))
import test_audits_betting_validity as nulls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replays", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="20 replays, nothing is kept")
    given = parser.parse_args()
    replays, rows = 20 if given.quick else given.replays, []
    for name in nulls.CASES:
        found = nulls.alarms(name, replays)
        most = int(stats.binom.ppf(1 - 1e-3, replays, nulls.ERROR))
        rows.append({"case": name, "replays": replays, "refuted": found, "nominal": nulls.ERROR, "allowed": most})
        print(rows[-1], flush=True)
        if not given.quick:
            keep("betting-nulls", describe("numpy", "scipy"), rows)


if __name__ == "__main__":
    main()
