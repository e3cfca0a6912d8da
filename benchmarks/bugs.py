"""A zoo of DP-SGD bugs: which of them do three audits refute, and with how many runs?

    python benchmarks/bugs.py [--runs 2000] [--only NAME ...] [--games updates final steps]

The trainings are in `bugs_zoo`, the games in `bugs_games`. Two are sequential and stop as soon as the claim is refuted
at confidence 1 - 1e-6: one sees predictions of the final model on one canary, the other every update, with crafted
gradients and a quarter as many runs of each. The third is `audit(game="updates")`, a fifth as many runs: predictions
on a canary after every step. Results join those that are there; --table prints them for docs/audits.md. "consistent" is
an honest answer: this audit does not see that bug.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

from bugs_games import audited, stepped, watched
from bugs_zoo import PLAN, ZOO

GAMES = {
    "final": ("final model", audited, 1),
    "steps": ("every step a game", stepped, 5),
    "updates": ("all updates seen", watched, 4),
}
"""Each game's title in the results, its function, and by what the number of runs is divided."""
HEADS = ("training", "final model, black box", "every step, black box", "all updates, crafted gradients")


def table(result: dict[str, Any]) -> str:
    """The results as a table in Markdown: a row per bug, a column per audit."""
    rows = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for name, found in result["bugs"].items():
        cells = [_cell(found[title]) if title in found else "not played" for title, _, _ in GAMES.values()]
        rows.append(f"| {'**' + name + '**' if name == 'right' else name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(row: dict[str, Any]) -> str:
    if row["verdict"] == "refuted":
        return f"refuted with {row['runs']} runs ({row['canary']})"
    return f"not seen in {row['runs']:,} runs (at least {row['epsilon_at_least']:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--confidence", type=float, default=1 - 1e-6)
    parser.add_argument("--only", nargs="*", choices=list(ZOO), default=list(ZOO))
    parser.add_argument("--games", nargs="*", choices=GAMES, default=list(GAMES))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/bugs.json"))
    parser.add_argument("--table", action="store_true", help="print what is kept, and play nothing")
    given = parser.parse_args()
    if given.table:
        print(table(json.loads(given.out.read_text(encoding="utf-8"))))
        return
    bound = PLAN.bound(1e-5)
    result: dict[str, Any] = {
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "claim": {"epsilon": round(bound.epsilon, 4), "delta": bound.delta, "event": PLAN.event.to_json()},
        "confidence": given.confidence,
        "bugs": {},
    }
    if given.out.is_file():
        result["bugs"] = json.loads(given.out.read_text(encoding="utf-8"))["bugs"]
    for name in given.only:
        found = result["bugs"].setdefault(name, {})
        for game in given.games:
            title, play, share = GAMES[game]
            found[title] = play(ZOO[name], given.runs // share, given.confidence, seed=1)
        for game, row in found.items():
            print(f"{name:40s} {game:17s} {row}", flush=True)
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
