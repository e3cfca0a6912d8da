"""A likelihood ratio that knows how little it knows: Student's t in place of the normal, for few references.

LiRA must switch by hand from one pooled variance (few references) to a variance per record (many). Here each record's
variance is drawn from a common inverse-gamma prior and its mean from a common normal one, both read from all records;
the predictive density of one more model is Student's t. The prior fades as references come in, without a switch (the
normal-inverse-gamma form of arXiv 2603.11799).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from ..core import Observations
from .moments import Moments, sides
from .registry import References, attack

Floats = NDArray[np.float64]
STEADY = 0.02
"""Of the pooled variance: how well any record's variance can be known from answers of finite precision."""


@dataclass(frozen=True, eq=False)
class Predictive:
    """Student's t per record: where one more model's signal would lie."""

    centre: Floats
    scale: Floats
    freedom: Floats

    def distance(self, x: Floats) -> Floats:
        """Standardised distance of records x models."""
        return np.asarray((x - self.centre[:, None]) / self.scale[:, None])

    def log_density(self, x: Floats) -> Floats:
        return np.asarray(stats.t.logpdf(self.distance(x), self.freedom[:, None]) - np.log(self.scale)[:, None])


@attack("student", needs=("margin",), references=References.BOTH)
def student(target: Observations, references: Observations) -> Floats:
    """s = log t_in(phi) - log t_out(phi): both predictive densities of the target's margin."""
    inside, outside = sides(references, "margin")
    without = predictive(outside, _centre(outside))
    known = inside.count > 0
    gain = float((inside.mean - outside.mean)[known].mean())
    with_record = predictive(inside, without.centre + gain)
    phi = target.need("margin")
    return with_record.log_density(phi) - without.log_density(phi)


@attack("student-offline", needs=("margin",), references=References.OUT)
def student_offline(target: Observations, references: Observations) -> Floats:
    """s = -log P[t_out > phi]: how surprising so large a margin would be without the record."""
    _, outside = sides(references, "margin")
    without = predictive(outside, _centre(outside))
    return np.asarray(-stats.t.logsf(without.distance(target.need("margin")), without.freedom[:, None]))


def steadied(side: Moments) -> Moments:
    """A fiftieth of the pooled variance added to every record's own: answers that happen to agree to the last digit
    (saturated, or printed with few decimals) are not known without error."""
    return replace(side, squares=side.squares + STEADY * side.pooled * side.freedom)


def predictive(side: Moments, centre: Floats) -> Predictive:
    r"""Posterior predictive under mu_i ~ N(centre_i, v_i / k0), v_i ~ scaled inverse chi-squared(d0, v0).

    t with d0 + d_i degrees of freedom about (k0 centre + n mean) / (k0 + n), squared scale
    (d0 v0 + S_i + k0 n/(k0 + n) (mean - centre)^2) / (d0 + d_i) (1 + 1/(k0 + n)) (Gelman et al. 2013, section 3.3).
    """
    side = steadied(side)
    freedom0, variance0 = variance_prior(side)
    weight0 = _mean_prior(side, centre, variance0)
    n = side.count
    total = weight0 + n
    offset = weight0 * n / total * (side.mean - centre) ** 2
    freedom = freedom0 + n
    scale2 = (freedom0 * variance0 + side.squares + offset) / freedom * (1 + 1 / total)
    return Predictive((weight0 * centre + n * side.mean) / total, np.sqrt(scale2), freedom)


def variance_prior(side: Moments) -> tuple[float, float]:
    """(d0, v0) of the records' variances by matching log-moments (Smyth 2004, section 6.2).

    Few records, or variances no more different than chance makes them, give many degrees of freedom: one variance.
    """
    most = 1e6
    rows = (side.freedom > 0) & (side.squares > 0)
    if rows.sum() < 3:
        return most, side.pooled
    d = side.freedom[rows]
    e = np.log(side.squares[rows] / d) - special.digamma(d / 2) + np.log(d / 2)
    excess = float(np.var(e, ddof=1) - special.polygamma(1, d / 2).mean())
    d0 = most if excess <= 0 else min(2 * inverse_trigamma(excess), most)
    return d0, float(np.exp(e.mean() + special.digamma(d0 / 2) - np.log(d0 / 2)))


def inverse_trigamma(value: float) -> float:
    """x with trigamma(x) = value > 0, by Newton on 1/trigamma, which is nearly straight (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(50):
        now = float(special.polygamma(1, x))
        step = now * (1 - now / value) / float(special.polygamma(2, x))
        x += step
        if -step / x < 1e-10:
            break
    return x


def _centre(side: Moments) -> Floats:
    """The mean of all records' means."""
    return np.full(side.mean.shape, float(side.mean[side.count > 0].mean()))


def _mean_prior(side: Moments, centre: Floats, variance0: float) -> float:
    """k0 = v0 / (spread of the records' true means about their centre), from the spread of the observed ones.

    Where no record has two references, v0 is a guess, and records' own means are kept: next to nothing is shrunk.
    """
    if not side.freedom.any():
        return 1e-3
    rows = side.count > 0
    observed = float(((side.mean - centre)[rows] ** 2).mean())
    noise = variance0 * float((1 / side.count[rows]).mean())
    return variance0 / max(observed - noise, 1e-3 * variance0)
