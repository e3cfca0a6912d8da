"""Risk record by record, across many target models: what averages hide."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..core import BadInput, Bin, Estimate, Exposure, Observations, Source, check, difference_limit, source
from ..core.proportion import SAFETY

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

    Selecting and estimating on the same models would report luck (soundness rule 21). Memorisation is that of the
    probability, which is bounded: no single answer near 0 decides who is named. A model is sure of a record when its
    signal is above the middle of the two means on the selecting half; the estimate is the difference of the shares of
    sure models with and without the record. Its limits are exact (`difference_limit`) and corrected for the number of
    records (Bonferroni), so that `confidence` holds for all of them together; nine tenths of the error are the lower
    limit's. Records whose models are too few to show anything are not selected.
    """
    count = check.whole("count", count)
    if observations.models < 4:
        raise BadInput(f"Exposed records need at least four models, got {observations.models}.")
    name = "probability" if observations.probability is not None else "margin"
    first, second = _split(observations.need("member").astype(bool), source(rng))
    select, judge = observations.select(models=first), observations.select(models=second)
    score = memorisation(select, name)
    able = _able(judge.need("member").astype(bool), count, confidence)
    known = np.flatnonzero(~np.isnan(score) & able)
    chosen = known[np.argsort(-score[known], kind="stable")][:count]
    sure = judge.need(name) > _middle(select, name)[:, None]
    member = judge.need("member").astype(bool)
    each = 1 - (1 - confidence) / max(len(chosen), 1)
    record = np.arange(observations.records) if observations.record is None else observations.record
    return [Exposure(int(record[row]), float(score[row]), _difference(sure[row], member[row], each)) for row in chosen]


def models_needed(count: int, confidence: float = 0.95) -> int:
    """How many models, half of them with each record, can show that one of `count` records is exposed."""
    error = 1 - _lower_confidence(1 - (1 - confidence) / count)
    n = 2
    while 0.5 ** (2 * n) > SAFETY * error:  # all sure with it, none without: at p1 = p2 = 1/2 likeliest
        n += 1
    return 4 * n


def _split(member: NDArray[np.bool_], chance: Source) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Two random halves of the models; complementary pairs stay together, so that each half is balanced."""
    models = member.shape[1]
    if models % 4 == 0 and (member[:, ::2] != member[:, 1::2]).all():
        pairs = chance.permutation(models // 2)
        order = np.stack((2 * pairs, 2 * pairs + 1), axis=1).ravel()
    else:
        order = chance.permutation(models)
    return order[: models // 2], order[models // 2 :]


def _able(member: NDArray[np.bool_], count: int, confidence: float) -> NDArray[np.bool_]:
    """Whether so many models with and without a record could show that it is exposed, were all of them right."""
    inside, outside = member.sum(axis=1), (~member).sum(axis=1)
    error = SAFETY * (1 - _lower_confidence(1 - (1 - confidence) / count))
    total = np.maximum(inside + outside, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # sup_p p^n (1 - p)^m is at p = n / (n + m)
        likeliest = special.xlogy(inside, inside / total) + special.xlogy(outside, outside / total)
    return np.asarray((inside > 0) & (outside > 0) & (likeliest <= np.log(error)))


def _lower_confidence(confidence: float) -> float:
    """Nine tenths of the error go to the lower limit: that somebody is exposed is what is claimed."""
    return 1 - 0.9 * (1 - confidence)


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
    inside, outside = int(member.sum()), int((~member).sum())
    first, second = (int(sure[member].sum()), inside), (int(sure[~member].sum()), outside)
    low = _lower_confidence(confidence)
    lower = difference_limit(first, second, low)
    upper = -difference_limit(second, first, 1 - (low - confidence))
    return Estimate(first[0] / inside - second[0] / outside, lower, upper, confidence, inside + outside)
