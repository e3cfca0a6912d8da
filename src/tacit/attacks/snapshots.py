"""An observer of several snapshots of each training run (checkpoints, or rounds of federated learning)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Observations, Scores
from ..core.arrays import Array
from .likelihood import with_missing
from .moments import sides
from .registry import flatten

Floats = NDArray[np.float64]


def snapshots(targets: Sequence[Observations], references: Sequence[Observations]) -> Scores:
    r"""log N(phi; mu_in, V_in) - log N(phi; mu_out, V_out), phi = the margins of one record in all snapshots.

    `targets[k]` and `references[k]` are the k-th snapshot of the same runs. Means are per record, covariances pooled
    over records (the joint form of Carlini et al. 2022, Algorithm 1); with one snapshot this is `lira` with few
    references.
    """
    if len(targets) != len(references) or not targets:
        raise BadInput("There must be one set of references per snapshot of the target, and at least one.")
    first = targets[0]
    if any((seen.records, seen.models) != (first.records, first.models) for seen in targets):
        raise BadInput("All snapshots must be of the same models on the same records.")
    phi = np.stack([seen.need("margin") for seen in targets], axis=2)
    known = np.stack([seen.need("margin") for seen in references], axis=2)
    member = references[0].need("member").astype(bool)
    moments = [sides(seen, "margin") for seen in references]
    mean_out = np.stack([outside.mean for _, outside in moments], axis=1)
    mean_in = np.stack([with_missing(inside, outside) for inside, outside in moments], axis=1)
    score = _log_normal(phi, mean_in, known, member) - _log_normal(phi, mean_out, known, ~member)
    return flatten(score, first, "snapshots")


def with_snapshots(last: Observations, earlier: Sequence[Observations]) -> Observations:
    """Add what was observed of earlier snapshots of the same runs to the `internals` of the last one.

    Learned attacks then look at all of them (the passive observer of Nasr et al. 2019).
    """
    found: dict[str, Array] = dict(last.internals or {})
    for k, seen in enumerate(earlier):
        if (seen.records, seen.models) != (last.records, last.models):
            raise BadInput("All snapshots must be of the same models on the same records.")
        old = {"output": seen.need("logits"), "loss": seen.need("loss")[..., None], **(seen.internals or {})}
        found.update({f"{k}:{name}": array for name, array in old.items()})
    return replace(last, internals=found)


def _log_normal(phi: Floats, mean: Floats, known: Floats, seen: NDArray[np.bool_]) -> Floats:
    """log N(phi; mean, V) up to the constant, V pooled over the references on one side, its diagonal kept positive."""
    residual = (known - mean[:, None, :])[seen]
    freedom = max(len(residual) - int(seen.any(axis=1).sum()), 1)
    covariance = residual.T @ residual / freedom
    ridge = 1e-6 * float(np.trace(covariance)) / len(covariance) + 1e-12
    covariance = covariance + ridge * np.eye(len(covariance))
    offset = phi - mean[:, None, :]
    distance = np.einsum("nks,st,nkt->nk", offset, np.linalg.inv(covariance), offset)
    return np.asarray(-0.5 * (distance + np.linalg.slogdet(covariance)[1]))
