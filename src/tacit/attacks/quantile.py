"""Quantile regression (Bertran et al. 2023): what would the target say of such a record, had it not seen it?

One regression, learned on records known as non-members, takes the place of all reference models: from what a record is
to the distribution of the target's margin on it. A conformal step turns the score into a p-value, so that the share of
non-members accused is what was promised, whatever the regression is worth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from ..core import BadInput, Observations, Source, check, source
from .registry import References, attack

Floats = NDArray[np.float64]
Randomness = Source | int | np.random.Generator | None
DIRECTIONS, WAVES, RIDGE, FEWEST = 32, 64, 1.0, 10
"""Leading directions of the features, random cosines of them, weight of the ridge, fewest known non-members."""


@attack("quantile", needs=("margin", "features"), references=References.KNOWN_OUT)
def quantile(target: Observations, known: Observations) -> Floats:
    r"""s = (phi - mu(x)) / sigma(x): at which quantile of non-members like it the record's margin lies.

    mu and log sigma are fitted to the known non-members by the likelihood of N(mu(x), sigma(x)^2), the Gaussian form of
    Bertran et al. 2023; known members are not looked at.
    """
    columns = []
    for k in range(target.models):
        rule = regression(known.select(models=[k]), _classes(target, known))
        columns.append(rule(target.select(models=[k])))
    return np.stack(columns, axis=1)


def regression(known: Observations, classes: int) -> Callable[[Observations], Floats]:
    """Fitted to one model's known non-members; gives the standardised margin of that model on other records."""
    rows = np.flatnonzero(~known.need("member").astype(bool)[:, 0])
    if rows.size < FEWEST:
        raise BadInput(f"The attack quantile needs at least {FEWEST} known non-members, got {rows.size}.")
    rows = rows[np.argsort(known.need("record")[rows])]  # their order must not matter
    fitted = known.select(records=rows)
    at = _basis(fitted, classes)
    margin = fitted.need("margin")[:, 0]
    low, high = np.quantile(margin, (0.25, 0.75))
    reach = 3.0 * (high - low)  # a saturated answer must not bend the fit
    mean, spread = location_scale(at(fitted), np.clip(margin, low - reach, high + reach))

    def score(seen: Observations) -> Floats:
        where = at(seen)
        return np.asarray((seen.need("margin")[:, 0] - mean(where)) / spread(where))

    return score


@dataclass(frozen=True, eq=False)
class Accusations:
    """Who is accused at a promised false-positive rate: `p_value` of each judged record under "not a member"."""

    record: NDArray[np.int64]
    member: NDArray[np.bool_]
    p_value: Floats
    fpr: float

    @property
    def accused(self) -> NDArray[np.bool_]:
        """Which records are accused."""
        return self.p_value <= self.fpr

    @property
    def tpr(self) -> float:
        """Share of the members that are accused."""
        return float(self.accused[self.member].mean())

    @property
    def false_alarms(self) -> float:
        """Share of the non-members that are accused: at most `fpr` on average over all that is random."""
        return float(self.accused[~self.member].mean())


def accuse(
    target: Observations, known: Observations, fpr: float, rng: Randomness, *, share: float = 0.5
) -> Accusations:
    r"""Accuse records with at most `fpr` of the non-members accused wrongly.

    A `share` of the known non-members, drawn at random, fits the regression; the n others are scored by it. A judged
    record's p-value is (1 + how many of these have a score at least as high) / (n + 1).

    Guarantee: P[p <= fpr] <= fpr for a non-member that is exchangeable with the n scored ones, whatever was fitted.
    Caller ensures: known and judged non-members come from one distribution; one target model.
    Reference: split conformal prediction (Papadopoulos et al. 2002; Vovk, Gammerman and Shafer 2005): among n + 1
    exchangeable scores the rank of one is uniform, and ties only raise p.
    """
    fpr, share = check.probability("fpr", fpr, zero=False), check.probability("share", share, zero=False, one=False)
    if target.models != 1:
        raise BadInput(f"Accusations are of one target model, got {target.models}.")
    quantile.check(target, known)
    outside = np.flatnonzero(~known.need("member").astype(bool)[:, 0])
    outside = outside[source(rng).permutation(outside.size)]
    fitted, scored = np.split(outside, [int(share * outside.size)])
    if (scored.size + 1) * fpr < 1:
        raise BadInput(
            f"A false-positive rate of {fpr:g} needs {int(np.ceil(1 / fpr)) - 1} known non-members to compare with, "
            f"got {scored.size}."
        )
    rule = regression(known.select(records=fitted), _classes(target, known))
    p = p_values(rule(known.select(records=scored)), rule(target))
    return Accusations(target.need("record").astype(np.int64), target.need("member").astype(bool)[:, 0], p, fpr)


def p_values(null: Floats, score: Floats) -> Floats:
    """(1 + number of `null` at or above each score) / (n + 1)."""
    above = null.size - np.searchsorted(np.sort(null), score, side="left")
    return np.asarray((1.0 + above) / (null.size + 1.0))


def location_scale(x: Floats, y: Floats) -> tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]:
    r"""Fit y ~ N(w x, exp(v x)^2) by ridge-penalised maximum likelihood; return x -> mean and x -> spread.

    The first column of x is 1 and is not penalised. log sigma is kept within 5 of the residuals' own.
    """
    free = np.r_[0.0, np.full(x.shape[1] - 1, RIDGE)]
    start = np.linalg.solve(x.T @ x + np.diag(free + 1e-9), x.T @ y)
    level = np.log(max(float(np.std(y - x @ start)), 1e-6))

    def spread(rows: Floats, v: Floats) -> Floats:
        return np.asarray(level + 5.0 * np.tanh(rows @ v / 5.0))

    def objective(both: Floats) -> tuple[float, Floats]:
        w, v = np.split(both, 2)
        log_sigma = spread(x, v)
        z = (y - x @ w) * np.exp(-log_sigma)
        value = (log_sigma + 0.5 * z**2).sum() + 0.5 * (free * (w**2 * np.exp(-2 * level) + v**2)).sum()
        pull = (1.0 - z**2) * (1.0 - np.tanh(x @ v / 5.0) ** 2)
        gradient_w = -x.T @ (z * np.exp(-log_sigma)) + free * w * np.exp(-2 * level)
        return float(value), np.concatenate((gradient_w, x.T @ pull + free * v))

    begin = np.r_[start, np.zeros_like(start)]
    # an early stop costs power, never validity
    found = optimize.minimize(objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": 100, "ftol": 1e-7})
    w, v = np.split(np.asarray(found.x), 2)
    return lambda rows: np.asarray(rows @ w), lambda rows: np.exp(spread(rows, v))


def _basis(known: Observations, classes: int) -> Callable[[Observations], Floats]:
    """1, the class, the features' leading directions and random cosines of these, all standardised by `known`."""
    raw = known.need("features").astype(np.float64)
    centre, scale = raw.mean(axis=0), raw.std(axis=0)
    scale = np.where(scale > 0, scale, np.inf)
    _, size, turn = np.linalg.svd((raw - centre) / scale, full_matrices=False)
    turn = turn[: min(DIRECTIONS, int((size > 1e-9 * max(size[0], 1e-300)).sum()))]
    length = np.maximum(size[: len(turn)] / np.sqrt(len(raw)), 1e-12)
    chance = np.random.default_rng(0)  # an attack is a pure function
    waves = min(WAVES, len(raw) // 8)
    bend = chance.normal(size=(len(turn), waves)) / np.sqrt(max(len(turn), 1))
    shift = chance.uniform(0, 2 * np.pi, waves)

    def at(seen: Observations) -> Floats:
        directions = (seen.need("features") - centre) / scale @ turn.T / length
        parts = [np.ones((seen.records, 1)), directions, np.cos(directions @ bend + shift)]
        if classes:
            parts.append(np.eye(classes)[seen.need("label").astype(np.int64)])
        return np.concatenate(parts, axis=1)

    return at


def _classes(*seen: Observations) -> int:
    """How many classes there are; 0 where labels are not known."""
    labels = [part.label for part in seen if part.label is not None]
    return int(max(label.max() for label in labels)) + 1 if len(labels) == len(seen) else 0
