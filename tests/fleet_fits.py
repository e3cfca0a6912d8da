"""Somebody's trainings that offer `fit.many`, right and wrong ones, and their audit."""

from __future__ import annotations

import copy
import math
import os
import time

import numpy as np

from tacit.audits import audit
from tacit.core.events import Gaussian, Poisson, Repeat

STEPS, RATE = 10, 0.5
CLAIM = Repeat(Poisson(RATE, Gaussian(2.0)), STEPS)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
DATA = X, (X[:, 0] > 0).astype(int)


class Noisy:
    """DP-SGD on a softmax with clip norm 1, sampling and noise of each run's own; `many` makes all steps at once."""

    at_once = 32

    def __init__(self, noise=2.0, shared="", rate=RATE, steps=STEPS):
        self.noise, self.shared, self.rate, self.steps = noise, shared, rate, steps

    def __call__(self, x, y, rng):
        predict = self.runs(x, y, np.ones((len(x), 1), dtype=bool), [rng])
        return lambda q: predict(q)[0]

    def many(self, x, y, member, rngs):
        if self.shared == "all":
            rngs = [np.random.default_rng(rngs[0].integers(2**32))] * len(rngs)
        if self.shared == "two" and len(rngs) > 8:
            same = [k for k in range(1, 8) if (member[:, k] == member[:, 0]).all()]
            rngs = [copy.deepcopy(rngs[same[0]]), *rngs[1:]]
        return self.runs(x, y, member, rngs, order=rngs[0] if self.shared == "order" else None)

    def runs(self, x, y, member, rngs, order=None):
        ones = np.hstack([x, np.ones((len(x), 1))])
        weights = np.zeros((len(rngs), ones.shape[1], 2))
        for _ in range(self.steps):
            common = None if order is None else order.random(len(x)) < self.rate
            taken = np.zeros(member.T.shape, dtype=bool)
            for k, rng in enumerate(rngs):
                own = rng.random(int(member[:, k].sum())) < self.rate
                taken[k, np.flatnonzero(member[:, k])] = own if common is None else common[member[:, k]]
            logits = ones @ weights
            p = np.exp(logits - logits.max(axis=2, keepdims=True))
            p /= p.sum(axis=2, keepdims=True)
            p[:, np.arange(len(y)), y] -= 1
            norm = np.sqrt((ones**2).sum(1)[None] * (p**2).sum(2))
            p *= (taken / np.maximum(norm, 1))[:, :, None]
            sums = ones.T @ p
            noise = np.stack([rng.normal(size=sums.shape[1:]) for rng in rngs])
            weights = weights - 0.3 * (sums + self.noise * noise)
        return lambda q: np.hstack([q, np.ones((len(q), 1))]) @ weights


class Odd(Noisy):
    """A fleet that goes wrong in one way, for every run or for the one in nine whose first number says so."""

    def __init__(self, how, always=False):
        super().__init__()
        self.how, self.always = how, always

    def __call__(self, x, y, rng):
        return self.spoilt(super().__call__(x, y, rng), [rng], lambda told, bad: told)

    def many(self, x, y, member, rngs):
        return self.spoilt(super().many(x, y, member, rngs), rngs, None)

    def spoilt(self, predict, rngs, alone):
        bad = np.array([self.always or rng.random() < 1 / 9 for rng in rngs])
        if self.how == "raises" and bad.any():
            raise ValueError("a secret")
        if self.how == "dies" and bad.any():
            os._exit(3)
        if self.how == "hangs" and bad.any():
            time.sleep(600)
        value = {"nan": math.nan, "constant": 0.5}.get(self.how)
        if value is None:
            return predict
        if alone:
            return lambda q: np.full((len(q), 2), value) if bad[0] else predict(q)
        return lambda q: np.where(bad[:, None, None], value, predict(q))


def play(fit, **change):
    given = {"claim": (3.0, 1e-5), "canary": "blank", "runs": 60, "rng": 1, **change}
    return audit(fit, given.pop("data", DATA), **given)
