"""The likelihood-ratio attack (Carlini et al. 2022), with and without models that saw the record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core import Observations
from .moments import Moments, sides
from .registry import References, attack

Floats = NDArray[np.float64]

ENOUGH = 32
"""References on each side from which a record's own variance is used (Carlini et al. 2022, section VI-C: 64 in all)."""


@attack("lira", needs=("margin",), references=References.BOTH)
def lira(target: Observations, references: Observations) -> Floats:
    r"""s = log N(phi; mu_in, v_in) - log N(phi; mu_out, v_out), phi = log p_y - log sum of the others (Algorithm 1).

    A record that no reference was trained on takes mu_in = mu_out plus what training does to the others.
    """
    inside, outside = sides(references, "margin")
    phi = target.need("margin")
    mean_in = with_missing(inside, outside)
    return log_normal(phi, mean_in, spread(inside)) - log_normal(phi, outside.mean, spread(outside))


@attack("lira-offline", needs=("margin",), references=References.OUT)
def lira_offline(target: Observations, references: Observations) -> Floats:
    r"""s = (phi - mu_out) / sigma_out: the one-sided test 1 - P[N(mu_out, v_out) > phi] (equation 4) before its Phi.

    Phi is left away because it rounds to 1 past 8 standard deviations, which would tie the surest members.
    """
    _, outside = sides(references, "margin")
    return np.asarray((target.need("margin") - outside.mean[:, None]) / np.sqrt(spread(outside))[:, None])


def spread(side: Moments) -> Floats:
    """Each record's own variance with enough references, one pooled variance with few."""
    return side.variance() if side.typical >= ENOUGH else np.full(side.count.shape, side.pooled)


def with_missing(inside: Moments, outside: Moments) -> Floats:
    """Mean over the references trained on a record; where there is none, mu_out plus the others' mean gain."""
    known = inside.count > 0
    gain = float((inside.mean - outside.mean)[known].mean())
    return np.where(known, inside.mean, outside.mean + gain)


def log_normal(x: Floats, mean: Floats, variance: Floats) -> Floats:
    """log N(x; mean, variance) up to the constant, per record."""
    return np.asarray(-0.5 * ((x - mean[:, None]) ** 2 / variance[:, None] + np.log(variance)[:, None]))
