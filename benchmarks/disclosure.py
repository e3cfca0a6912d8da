"""How much releases give away, and how little private ones do: python benchmarks/disclosure.py [--quick]

Reconstruction: n fair bits, 2n random subset sums; errors uniform within 0.3 sqrt(n), and Laplace noise of total
epsilon 1. The others are attacks on real data (TACIT_DATA), beside the same attack on a private release; their pictures
go to docs/images.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

import machine
from tacit import disclosure, mechanism
from tacit.core import source

RESULT = machine.RESULTS / "disclosure.json"
IMAGES = Path(__file__).parents[1] / "docs" / "images"


def reconstruction(people: int, seeds: int) -> dict[str, object]:
    """Shares of bits that are right, for both kinds of errors."""
    bounded, private, started = [], [], time.process_time()
    for seed in range(seeds):
        rng, numbers = source(seed), np.random.default_rng(seed)
        bits, subsets = rng.coins(people), disclosure.random_subsets(people, 2 * people, rng)
        sums = subsets @ bits.astype(np.int64)
        noise = numbers.uniform(-0.3, 0.3, 2 * people) * np.sqrt(people)
        bounded.append(disclosure.reconstruct(subsets, sums + noise).accuracy(bits))
        noisy = mechanism.laplace(sums, sensitivity=2 * people, epsilon=1.0, rng=rng)
        private.append(disclosure.reconstruct(subsets, noisy.value, errors="heavy").accuracy(bits))
    return {
        "people": people,
        "queries": 2 * people,
        "seeds": seeds,
        "bounded": {"mean": float(np.mean(bounded)), "least": float(np.min(bounded)), "wanted": 0.95},
        "laplace": {"mean": float(np.mean(private)), "largest": float(np.max(private)), "wanted": 0.55},
        "attainable": disclosure.attainable(1.0),
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="256 people, 3 seeds, nothing is written")
    quick = parser.parse_args().quick
    found: dict[str, object] = {"machine": machine.describe("numpy", "scipy")}
    found["reconstruction"] = reconstruction(256, 3) if quick else reconstruction(512, 20)
    if "TACIT_DATA" in os.environ and not quick:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from examples.disclosures import NAMES, shown

        folder = Path(os.environ["TACIT_DATA"])
        items = {name: shown(name, folder) for name in NAMES}
        found["real data"] = {
            name: {"sentence": item.sentence, "limit": item.limit, **{bar.label: bar.share for bar in item.bars}}
            for name, item in items.items()
        }
        for name, item in items.items():
            (IMAGES / f"disclosure-{name}.svg").write_text(item.picture, encoding="utf-8")
    print(json.dumps(found, indent=1))
    if not quick:
        RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
