"""Which of sixteen faults does `tacit audit` refute with its defaults, and do the correct twins stand?

    python benchmarks/audit_faults.py [--quick] [--repeats 10] [--runs 1200] [--only NAME ...]

The trainings are in `audit_faults_zoo`. Every audit is `tacit.audit(fit, people, claim=plan, runs=1200)`: a pilot
chooses the canary. Results join those that are kept, so that a campaign may be played in parts; --table prints them.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from audit_faults_zoo import FAULTS, PLAN, RIGHT, people
from machine import RESULTS, describe
from tacit.audits import audit


def played(fit: Any, runs: int, seed: int) -> dict[str, Any]:
    """One audit of one training, on a table of its own."""
    began = time.perf_counter()
    evidence = audit(fit, people(seed), claim=PLAN, runs=runs, rng=seed, isolation="fleet")
    return {
        "seed": seed,
        "runs": runs,
        "verdict": evidence.verdict.value,
        "epsilon_at_least": round(evidence.lower.bound.epsilon, 3),
        "canary": evidence.lower.canary,
        "seen_by": evidence.provenance["seen_by"],
        "seconds": round(time.perf_counter() - began, 1),
    }


def table(rows: dict[str, list[dict[str, Any]]]) -> str:
    """How often each training was refuted, and by which canaries, in Markdown."""
    lines = ["| training | refuted | canaries |", "|---|---|---|"]
    for name, found in rows.items():
        refuted = [row for row in found if row["verdict"] == "refuted"]
        canaries = ", ".join(sorted({row["canary"] for row in refuted})) or "none"
        title = f"**{name}**" if name in RIGHT else name
        lines.append(f"| {title} | {len(refuted)} of {len(found)} | {canaries} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1200)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=[*FAULTS, *RIGHT], choices=[*FAULTS, *RIGHT])
    parser.add_argument("--quick", action="store_true", help="one repeat of 400 runs, nothing is kept")
    parser.add_argument("--out", type=Path, default=RESULTS / "audit-faults.json")
    parser.add_argument("--table", action="store_true", help="print what is kept, and play nothing")
    given = parser.parse_args()
    kept = json.loads(given.out.read_text(encoding="utf-8")) if given.out.is_file() and not given.quick else {}
    rows: dict[str, list[dict[str, Any]]] = kept.get("rows", {})
    if given.table:
        print(table(rows))
        return
    for seed in range(1 if given.quick else given.repeats):
        for name in given.only:
            if any(row["seed"] == seed for row in rows.get(name, [])):
                continue
            row = played({**FAULTS, **RIGHT}[name], 400 if given.quick else given.runs, seed)
            rows.setdefault(name, []).append(row)
            print(f"{name:45s} {row}", flush=True)
            if not given.quick:
                bound = PLAN.bound(1e-5)
                claim = {"epsilon": round(bound.epsilon, 4), "delta": bound.delta}
                result = {"machine": describe("numpy", "scipy"), "claim": claim, "rows": rows}
                given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
