"""Risk record by record, across many target models: what averages hide."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Bin, Estimate, Exposure, Observations, Source, check, clopper_pearson, source

Floats = NDArray[np.float64]
BINS = 40
Randomness = Source | int | np.random.Generator | None


def memorisation(observations: Observations, name: str = "probability") -> Floats:
    """Mean signal of models with the record minus that of models without (Feldman 2020, with a signal for accuracy).

    NaN for a record that all models, or none, were trained on: nothing can be said of it.
    """
    member, values = observations.need("member").astype(bool), observations.need(name)
    inside, outside = member.sum(axis=1), (~member).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_in = np.where(member, values, 0.0).sum(axis=1) / inside
        mean_out = np.where(member, 0.0, values).sum(axis=1) / outside
    return np.where((inside > 0) & (outside > 0), mean_in - mean_out, np.nan)


def _middle(observations: Observations, name: str) -> Floats:
    """Half-way between the mean signals of models with and of models without the record."""
    member, values = observations.need("member").astype(bool), observations.need(name)
    inside = np.where(member, values, 0.0).sum(axis=1) / np.maximum(member.sum(axis=1), 1)
    outside = np.where(member, 0.0, values).sum(axis=1) / np.maximum((~member).sum(axis=1), 1)
    return np.asarray((inside + outside) / 2)


def exposed(observations: Observations, count: int, rng: Randomness, *, confidence: float = 0.95) -> list[Exposure]:
    """The `count` records with the largest memorisation on half of the models, estimated on the other half.

    Selecting and estimating on the same models would report luck (soundness rule 21). A model is sure of a record when
    its signal is above the middle of the two means on the selecting half; the estimate is the difference of the shares
    of sure models with and without the record. Its limits are Clopper and Pearson's, corrected for the number of
    records (Bonferroni), so that `confidence` holds for all of them together.
    """
    count = check.whole("count", count)
    if observations.models < 4:
        raise BadInput(f"Exposed records need at least four models, got {observations.models}.")
    name = "margin" if observations.margin is not None else "probability"
    order = source(rng).permutation(observations.models)
    half = observations.models // 2
    select, judge = observations.select(models=order[:half]), observations.select(models=order[half:])
    score = memorisation(select, name)
    known = np.flatnonzero(~np.isnan(score) & ~np.isnan(memorisation(judge, name)))
    chosen = known[np.argsort(-score[known], kind="stable")][:count]
    sure = judge.need(name) > _middle(select, name)[:, None]
    member = judge.need("member").astype(bool)
    each = 1 - (1 - confidence) / max(len(chosen), 1)
    record = np.arange(observations.records) if observations.record is None else observations.record
    return [Exposure(int(record[row]), float(score[row]), _difference(sure[row], member[row], each)) for row in chosen]


def distribution(observations: Observations) -> tuple[Bin, ...]:
    """How many records have which memorisation (of the probability of their label), in bins of a twentieth.

    A mean over few models scatters: half of the records of a model that memorises nothing lie below 0.
    """
    found = memorisation(observations)
    edges = np.linspace(-1.0, 1.0, BINS + 1).round(10)
    counts, _ = np.histogram(found[~np.isnan(found)].clip(-1.0, 1.0), edges)
    used = np.flatnonzero(counts)
    rows = range(used[0], used[-1] + 1) if used.size else range(0)
    return tuple(Bin(float(edges[k]), float(edges[k + 1]), int(counts[k])) for k in rows)


def _difference(sure: NDArray[np.bool_], member: NDArray[np.bool_], confidence: float) -> Estimate:
    """P[sure | with] - P[sure | without] for one record."""
    each = (1 + confidence) / 2
    inside, outside = int(member.sum()), int((~member).sum())
    low_in, high_in = (float(end) for end in clopper_pearson(int(sure[member].sum()), inside, each))
    low_out, high_out = (float(end) for end in clopper_pearson(int(sure[~member].sum()), outside, each))
    value = float(sure[member].mean() - sure[~member].mean())
    return Estimate(value, low_in - high_out, high_in - low_out, confidence, inside + outside)
