"""diffprivlib on one table, in an environment of its own (it needs scikit-learn below 1.6).

    PYTHON benchmarks/erm_peer.py DATA.npz EPSILON SEEDS      -> one JSON object per model on standard output

The .npz holds x, y, train and norm. Bounds and norms are given, so that nothing is read off the data.
"""

import json
import sys
import time
import warnings

import numpy as np
from diffprivlib.models import GaussianNB, LogisticRegression

warnings.simplefilter("ignore")


def main():
    held, epsilon, seeds = np.load(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    x, y, train, norm = held["x"], held["y"], held["train"], float(held["norm"])
    least, most = float(held["low"]), float(held["high"])
    makers = {
        "LogisticRegression": lambda seed: LogisticRegression(
            epsilon=epsilon, data_norm=norm, max_iter=1000, random_state=seed
        ),
        "GaussianNB": lambda seed: GaussianNB(
            epsilon=epsilon, bounds=(np.full(x.shape[1], least), np.full(x.shape[1], most)), random_state=seed
        ),
    }
    for name, made in makers.items():
        found, began = [], time.perf_counter()
        for seed in range(seeds):
            found.append(float(made(seed).fit(x[train], y[train]).score(x[~train], y[~train])))
        each = (time.perf_counter() - began) / seeds
        print(json.dumps({"model": name, "scores": found, "seconds": each}), flush=True)


if __name__ == "__main__":
    main()
