"""How much releases give away, and how little private ones do: python benchmarks/disclosure.py [--quick] [--only PART]

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
NAMES = ("differencing", "reconstruction", "records", "versions", "census", "trips", "genotypes", "ratings")
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


def real_data(name: str) -> dict[str, object]:
    """One attack on real data, beside the private release; its picture goes to docs/images."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from examples.disclosures import shown

    item = shown(name, Path(os.environ["TACIT_DATA"]))
    (IMAGES / f"disclosure-{name}.svg").write_text(item.picture, encoding="utf-8")
    return {"sentence": item.sentence, "limit": item.limit, **{bar.label: bar.share for bar in item.bars}}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fair bits of 256 people, 3 seeds; nothing is written")
    parser.add_argument("--only", help="one part, the others are kept: fair bits, or an example")
    options = parser.parse_args()
    if options.quick:
        print(json.dumps(reconstruction(256, 3), indent=1))
        return
    found = json.loads(RESULT.read_text(encoding="utf-8")) if options.only and RESULT.is_file() else {"real data": {}}
    found["machine"] = machine.describe("numpy", "scipy", "scikit-learn")
    if options.only in (None, "fair bits"):
        found["reconstruction"] = reconstruction(512, 20)
    for name in NAMES if options.only is None else [name for name in NAMES if name == options.only]:
        found["real data"][name] = real_data(name)
    print(json.dumps(found, indent=1))
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
