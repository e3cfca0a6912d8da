"""The vote counts that were published with Papernot et al. 2018: papers' figures, our claims and our releases."""

from __future__ import annotations

import time

import numpy as np

from tacit.core import source
from tacit.pate import ConfidentGNMax, GNMax, analyse
from tacit.pate.design import designed
from tacit.pate.release import releasing
from tacit.pate.smooth import Cost

PUBLISHED = [
    ("mnist", ConfidentGNMax(200, 150, 40), 640, 283, 1e-5),
    ("svhn", ConfidentGNMax(300, 200, 40), 8500, 2970, 1e-6),
    ("adult", ConfidentGNMax(300, 200, 40), 1500, 539, 1e-5),
]


def votes(bench):
    """The published figures, our claims and our releases."""
    from tacit.data.loaders import folder

    rows, why = [], "the votes are published"
    for name, rule, queries, answers, delta in PUBLISHED:
        with np.load(folder() / "pate2018_votes.npz") as file:
            counts = file[name].astype(np.int64)
        began = time.perf_counter()
        claim = designed(rule, available=queries, queries=queries, answers=answers, epsilon=None, delta=delta).epsilon
        seconds = time.perf_counter() - began
        found = analyse(counts, rule, queries=queries, answers=answers, delta=delta)
        rows.append({"votes": name, "rule": repr(rule), "queries": queries, "answers": answers, "delta": delta,
                     "claim": round(claim, 4), "claim seconds": round(seconds, 4),
                     "papers, dependent (rests on a private number)": round(found.data_dependent.look(why), 3),
                     "papers, independent (rests on a private number)": round(found.papers_independent.look(why), 3),
                     "expected answers (private)": round(found.expected_answers.look(why), 1),
                     "joint (private)": round(found.joint.look(why), 3)})  # fmt: skip
    with np.load(folder() / "pate2018_votes.npz") as file:
        counts = file["mnist"].astype(np.int64)[:150]
    for propose in (1.6, 1.75, 2.0, None):
        rows.append(released(GNMax(25.0), counts, 1e-5, propose, 12.0, 250, tries=50))
    return rows


def released(rule, counts, delta, propose, order, teachers, *, tries=1, seed=0, epsilon=0.15):
    """What a release says of these votes: how often a test is passed, or the mean of a smooth release."""
    made = designed(rule, available=len(counts), queries=len(counts), answers=None, epsilon=None, delta=delta)
    how = releasing(made, epsilon=epsilon, propose=propose, order=order, confidence=0.999)
    cost = Cost.of(rule, teachers, counts.shape[1], order)
    found = [how.drawn(cost, counts, source(seed + k)) for k in range(tries)]
    passed = [how.bound(value, made).epsilon for value in found if value is not None]
    return {"rule": repr(rule), "queries": len(counts), "release": how.name, "order": order, "delta": delta,
            "claim": round(made.epsilon, 3), "tries": tries, "released": len(passed),
            "epsilon": round(float(np.mean(passed)), 3) if passed else None}  # fmt: skip
