"""Time of a private logistic regression beside scikit-learn's, in the same run: 1,000,000 records of 50 features.

python benchmarks/erm_speed.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from machine import RESULTS, describe
from tacit.erm import PrivateLogisticRegression


def seconds(fit):
    began = time.perf_counter()
    fit()
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    size = 100_000 if parser.parse_args().quick else 1_000_000
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(size, 50)), rng.normal(size=50)
    y = (x @ weights / 7 + rng.logistic(size=size) > 0).astype(int)
    private = PrivateLogisticRegression(1.0, norm_bound=9.0, classes=[0, 1], random_state=0)
    plain = LogisticRegression(C=1.0)
    runs = [(seconds(lambda: private.fit(x, y)), seconds(lambda: plain.fit(x, y))) for _ in range(3)]
    ours, theirs = (float(np.median(side)) for side in zip(*runs, strict=True))
    found = {
        "records": size,
        "features": 50,
        "private_seconds": ours,
        "scikit_learn_seconds": theirs,
        "ratio": ours / theirs,
    }
    print(found)
    if size == 1_000_000:
        (RESULTS / "erm_speed.json").write_text(json.dumps({"machine": describe(), **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
