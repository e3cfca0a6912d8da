"""PATE on real data: published votes, own teachers, students, three ways to spend one budget, and the speed of a fleet.

    python benchmarks/pate.py [--device cuda] [--data FOLDER] [--quick]
        [--parts votes,speed,mnist,ways,svhn-votes,svhn,svhn-plain]

Files in FOLDER (else TACIT_DATA): pate2018_votes.npz (votes, svhn-votes), mnist.npz (speed, mnist, ways),
adult.csv.gz (ways), svhn_jpeg.npz (svhn-votes, svhn, svhn-plain; needs Pillow or torchvision). Results go to
benchmarks/results/pate.json, or pate-gpu.json, part by part; one that is there is not measured again without --again.
Votes and rows are kept in the folder --cache, or the temporary one: an interrupted run goes on where it was, and
processes with a --row each may work side by side. Scattering features of MNIST, which ways makes, are kept where
accuracy.py keeps them (TACIT_CACHE): make them once before several processes want them.

MNIST: teachers see the 60,000 training pictures, students the first 9,000 test pictures and released labels, and the
last 1,000 test them. SVHN: students see the first 8,500 test pictures, and the others test them.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from machine import RESULTS, describe, processor
from pate_costs import answers_for, noise_for
from pate_networks import digits, house_numbers, mlp, small_cnn, student_cnn, wide_cnn
from pate_votes import released, votes
from pate_ways import ways
from tacit.core import source
from tacit.fleet import Fleet, Steps, train_disjoint
from tacit.pate import ConfidentGNMax, FixMatch, GNMax, Network, Supervised
from tacit.pate.asking import next_queries
from tacit.pate.augmentations import Affine
from tacit.pate.design import designed
from tacit.pate.shards import shards
from tacit.pate.teachers import train

TEACHERS, ALONE, REPEATS = 250, 25, 3
"""Teachers of the fleet whose speed is measured, how many of them are trained one by one, and how often."""
SPEEDS = (("float32", True), ("tf32", True))


class Bench:
    """Settings, results so far, and where votes are kept."""

    def __init__(self, options):
        self.device, self.quick, self.again = options.device, options.quick, options.again
        self.row, self.seeds = options.row, options.seeds
        if options.data:
            os.environ["TACIT_DATA"] = options.data
        name = "pate-gpu" if self.device.startswith("cuda") else "pate"
        self.path = RESULTS / f"{name}{'-quick' if self.quick else ''}.json"
        self.found = json.loads(self.path.read_text())["rows"] if self.path.is_file() else {}
        self.cache = Path(options.cache or tempfile.gettempdir()) / "tacit-pate"
        self.cache.mkdir(parents=True, exist_ok=True)

    def run(self, part):
        if part in self.found and not self.again:
            return print(f"{part}: is there already")
        began = time.perf_counter()
        rows = PARTS[part](self)
        if self.row is not None:
            return None
        self.found[part] = {"seconds": round(time.perf_counter() - began, 1), "rows": rows}
        machine = {**describe("torch", "numpy"), "device": processor(self.device)}
        RESULTS.mkdir(exist_ok=True)
        self.path.write_text(json.dumps({"machine": machine, "rows": self.found}, indent=1) + "\n", encoding="utf-8")
        for row in rows:
            print(part, json.dumps(row))
        return None

    def kept(self, name, make):
        """What is in the cache under this name, or is made now."""
        path = self.cache / f"{name.replace(' ', '-')}-{self.device.split(':')[0]}{'-quick' if self.quick else ''}.json"
        if path.is_file():
            return json.loads(path.read_text())
        found = make()
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(found))
        partial.rename(path)
        return found

    def votes(self, name, make):
        """Counts (queries, classes) and the share of right votes, from the cache or made now."""
        path = self.cache / f"{name}-{self.device.split(':')[0]}{'-quick' if self.quick else ''}.npz"
        if not path.is_file():
            counts, accuracy, seconds = make()
            np.savez(path, counts=counts, accuracy=accuracy, seconds=seconds)
        with np.load(path) as kept:
            return kept["counts"], float(kept["accuracy"]), float(kept["seconds"])


def taught(bench, net, public, labels, test, *, semi=True, seeds=1):
    """The student's accuracy, mean over seeds."""
    found = []
    for seed in range(seeds):
        how = FixMatch(net) if semi else Supervised(net)
        predict = how.taught(public, labels, 10 if labels.max() > 1 else 2, np.random.default_rng(seed))
        found.append(float((predict(test[0]).argmax(1) == test[1]).mean()))
    return round(float(np.mean(found)), 4)


def mnist_teachers(bench):
    """250 teachers' votes on the 10,000 test pictures."""

    def make():
        (x, y), (test_x, test_y) = digits(bench.quick)
        gpu = bench.device.startswith("cuda")
        net = Network(small_cnn if gpu else mlp, steps=1200 if gpu else 300, batch_size=32, lr=2e-3,
                      augment=Affine(0.07, turn=12, zoom=0.1) if gpu else None, device=bench.device)  # fmt: skip
        began = time.perf_counter()
        shard = shards(len(y), 250, rng=source(0))
        made = train(net, x, y, shard, teachers=250, classes=10, rng=source(1))
        seconds = time.perf_counter() - began
        each = made.each(test_x)
        counts = (each[:, :, None] == np.arange(10)).sum(axis=1)
        return counts, float((each == test_y[:, None]).mean()), seconds

    return bench.votes("mnist", make)


def mnist(bench):
    """The lecture's rows by the claim, and a row by a released bound."""
    counts, accuracy, seconds = mnist_teachers(bench)
    (x, y), (test_x, test_y) = digits(bench.quick)
    public, test = test_x[:9000], (test_x[9000:], test_y[9000:])
    gpu = bench.device.startswith("cuda")
    steps = 3000 if gpu else 500
    net = Network(student_cnn if gpu else mlp, steps=steps, batch_size=64, lr=2e-3, device=bench.device)
    large = Network(net.make, steps=2 * steps, batch_size=128, lr=2e-3, device=bench.device)
    plain = taught(bench, large, x, y, test, semi=False) if bench.row is None else None
    rows = [{"teachers": 250, "seconds": round(seconds, 1), "teacher accuracy (private)": round(accuracy, 4),
             "majority accuracy (private)": round(float((counts.argmax(1) == test_y).mean()), 4),
             "not private": plain}]  # fmt: skip
    settings = [("2.04 with 100 answers", GNMax(28.0), 100, None), ("8.03 with 1000 answers", None, 1000, None),
                ("1.97 released", ConfidentGNMax(200, 80, 30), 250, 1.95),
                ("1.97 by the claim", None, 95, None)]  # fmt: skip
    targets = {"8.03 with 1000 answers": 8.03, "1.97 by the claim": 1.97}
    for name, rule, queries, propose in settings:
        rule = rule or GNMax(noise_for(targets[name], queries, 1e-5))
        rows += [student_row(bench, name, rule, counts[:9000], queries, propose, net, public, test, test_y[:9000])]
    return rows


def student_row(bench, name, rule, counts, queries, propose, net, public, test, truth, delta=1e-5, how=(10.0, 0.31)):
    """A student taught by answers about typical pictures where few are asked about, about the first ones where many."""
    choose = "typical" if queries <= 1000 else "first"
    asked = next_queries(public, queries, np.array([], dtype=np.int64), choose, None, source(4))
    made = designed(rule, available=len(counts), queries=queries, answers=None, epsilon=None, delta=delta)
    told = rule.told(counts[asked], source(5), queries)
    labels = np.full(len(public), -1)
    labels[asked] = told.labels
    sure = told.answered
    row = {"row": name, "rule": repr(rule), "queries": queries, "asked": choose, "answered": int(sure.sum()),
           "right answers": round(float((told.labels[sure] == truth[asked][sure]).mean()), 4),
           "claim": round(made.epsilon, 3), "delta": delta}  # fmt: skip
    if propose is not None:
        teachers = int(counts.sum(axis=1).max())
        order, paid = how
        found = released(rule, counts[asked], delta, propose, order, teachers, epsilon=paid)
        row |= {"released epsilon": found["epsilon"], "proposed": propose, "order": order, "release epsilon": paid}
    seeds = 1 if bench.quick or len(truth) < 9000 else bench.seeds  # SVHN's students take minutes
    row |= {"student": None, "student, supervised": None, "seeds": seeds}
    named = f"{choose}-{len(truth)}-{bench.device.split(':')[0]}-{bench.quick}-{seeds}-{name.replace(' ', '-')}"
    kept = bench.cache / f"{named}.json"
    if kept.is_file() and not bench.again:
        return json.loads(kept.read_text())
    if bench.row not in (None, name):
        return {}
    row["student"] = taught(bench, net, public, labels, test, seeds=seeds)
    row["student, supervised"] = taught(bench, net, public, labels, test, semi=False, seeds=seeds)
    kept.write_text(json.dumps(row))
    return row


def speed(bench):
    """250 teachers as one fleet, against the same code one teacher at a time."""
    (x, y), _ = digits(bench.quick)
    gpu = bench.device.startswith("cuda")
    make, steps = (small_cnn, 200) if gpu else (mlp, 10 if bench.quick else 100)
    shard, rows = shards(len(y), TEACHERS, rng=source(0)), []
    for precision, compiled in SPEEDS if gpu else (("float32", False),):
        seconds = {
            at_once: Timed(bench.device, make, steps, at_once, precision, compiled).seconds(
                x, y, shard, 1 if bench.quick else REPEATS
            )
            for at_once in (TEACHERS, 1)
        }
        fleet, alone = (float(np.median(seconds[at_once])) for at_once in (TEACHERS, 1))
        rows.append({"network": make.__name__, "steps": steps, "precision": precision, "compiled": compiled,
                     "fleet of 250, seconds": [round(value, 2) for value in seconds[TEACHERS]],
                     f"one by one, seconds ({ALONE} teachers, times {TEACHERS // ALONE})":
                         [round(value, 2) for value in seconds[1]],
                     "times faster (medians)": round(alone / fleet, 1)})  # fmt: skip
        print("speed", json.dumps(rows[-1]), flush=True)
    return rows


@dataclass(frozen=True)
class Timed:
    """A training of teachers, so many at once, and how long all of them take."""

    device: str
    make: Callable[[], torch.nn.Module]
    steps: int
    at_once: int
    precision: str
    compiled: bool

    @property
    def count(self):
        return TEACHERS if self.at_once > 1 else ALONE

    def seconds(self, x, y, shard, repeats):
        """Seconds for 250 teachers, so many times, after a training that warms up and compiles."""
        self.train(x, y, shard, warming=True)
        found = []
        for _ in range(repeats):
            began = time.perf_counter()
            self.train(x, y, shard)
            found.append((time.perf_counter() - began) * TEACHERS / self.count)
        return found

    def train(self, x, y, shard, *, warming=False):
        def optimizer(parameters):
            return torch.optim.Adam(parameters, lr=2e-3)

        fleet = Fleet(self.make, optimizer, device=self.device, models_at_once=self.at_once, precision=self.precision)
        count = min(self.count, self.at_once if warming else self.count)
        rngs = [np.random.default_rng(k) for k in range(count)]
        train_disjoint(
            fleet, x, y, np.where(shard < count, shard, -1), Steps(self.steps, 32), rngs, compiled=self.compiled
        )
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()


def svhn_votes(bench):
    """Students taught by the published votes: first 8,500 test pictures asked, the others test."""
    from tacit.data.loaders import folder

    with np.load(folder() / "pate2018_votes.npz") as file:
        counts = file["svhn"].astype(np.int64)
    x, y = house_numbers("test")
    public, test = x[:8500], (x[8500:], y[8500:])
    net = Network(wide_cnn, steps=400 if bench.quick else 8000, batch_size=64, lr=1e-3, device=bench.device)
    majority = float((counts[:8500].argmax(1) == y[:8500]).mean())
    rows = [{"teachers": 250, "majority accuracy on the queries (not private)": round(majority, 4)}]
    how = (7.0, 0.56)
    for name, rule, queries, propose in (
        ("5.04 with 500 answers", GNMax(noise_for(5.04, 500, 1e-6)), 500, None),
        ("8.19 with 1000 answers", GNMax(noise_for(8.19, 1000, 1e-6)), 1000, None),
        ("5 released", ConfidentGNMax(300, 200, 40), 6000, 5.0),
    ):
        made = student_row(bench, name, rule, counts[:8500], queries, propose, net, public, test, y[:8500], 1e-6, how)
        rows.append(made)
        print("svhn-votes", json.dumps(made), flush=True)
    return rows


def svhn_plain(bench):
    """One model of all training pictures, which is not private: what students of SVHN are compared with."""
    x, y = house_numbers("test" if bench.quick else "train")
    test_x, test_y = (x, y) if bench.quick else house_numbers("test")
    net = Network(wide_cnn, steps=20 if bench.quick else 8000, batch_size=128, lr=1e-3, device=bench.device,
                  augment=Affine(0.06, turn=6, zoom=0.08))  # fmt: skip
    began = time.perf_counter()
    tests = slice(8500, 8700 if bench.quick else None)
    found = taught(bench, net, x, y, (test_x[tests], test_y[tests]), semi=False)
    return [{"not private": found, "seconds": round(time.perf_counter() - began, 1)}]


def svhn(bench):
    """50 own teachers on our 73,257 pictures: accuracy over epsilon, as many answers as it pays for at noise 18.

    Noise is set by what 50 votes can bear, and not by a number of answers: with more of them most would be wrong.
    """
    x, y = house_numbers("train")
    test_x, test_y = house_numbers("test")

    def make():
        net = Network(wide_cnn_group, steps=300 if bench.quick else 4000, batch_size=32, lr=1e-3,
                      augment=Affine(0.06, turn=6, zoom=0.08), device=bench.device)  # fmt: skip
        began = time.perf_counter()
        made = train(net, x, y, shards(len(y), 50, rng=source(0)), teachers=50, classes=10, rng=source(1))
        each = made.each(test_x[:8500])
        counts = (each[:, :, None] == np.arange(10)).sum(axis=1)
        return counts, float((each == test_y[:8500, None]).mean()), time.perf_counter() - began

    counts, accuracy, seconds = bench.votes("svhn", make)
    net = Network(wide_cnn, steps=400 if bench.quick else 6000, batch_size=64, lr=1e-3, device=bench.device)
    rows = [{"teachers": 50, "seconds": round(seconds, 1), "teacher accuracy (private)": round(accuracy, 4),
             "majority accuracy (private)": round(float((counts.argmax(1) == test_y[:8500]).mean()), 4)}]  # fmt: skip
    test = test_x[8500:], test_y[8500:]
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        answers = answers_for(epsilon, GNMax(18.0), 1e-6)
        rule = GNMax(noise_for(epsilon, answers, 1e-6))
        rows.append(student_row(bench, f"{epsilon:g}", rule, counts, answers, None, net, test_x[:8500], test,
                                test_y[:8500], 1e-6))  # fmt: skip
    return rows


def wide_cnn_group():
    from pate_networks import teacher_cnn

    return teacher_cnn()


PARTS = {
    "votes": votes,
    "speed": speed,
    "mnist": mnist,
    "ways": ways,
    "svhn-votes": svhn_votes,
    "svhn": svhn,
    "svhn-plain": svhn_plain,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data")
    parser.add_argument("--cache")
    parser.add_argument("--parts", default="votes,speed,mnist,ways")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--row", help="this one alone, kept for the run that asks for all; of ways a data set, or one "
                        'with a seed: "mnist 2"')  # fmt: skip
    parser.add_argument("--seeds", type=int, default=3, help="students of each row of mnist, and repetitions of ways")
    options = parser.parse_args()
    bench = Bench(options)
    for part in options.parts.split(","):
        bench.run(part)


if __name__ == "__main__":
    main()
