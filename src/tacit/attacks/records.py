"""Risk record by record, across many target models: what averages hide."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..core import BadInput, Bin, Estimate, Exposure, Observations, Source, check, difference_limit, source
from ..core.proportion import SAFETY, difference_chance

Floats = NDArray[np.float64]
BINS = 40
TIES = 1e-3
"""How much the difference of means counts beside that of medians: where medians tie, it decides."""
REACH = 1 / 3
"""Of the largest difference: records below it are no candidates."""
SURE = float(np.log(1e4))
"""Margins beyond odds of 10,000 to 1, for or against a label, are ranked as these odds. Networks give odds of e^10 and
e^30 to records that they get right without and with training on them; such a difference is no memorisation."""
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


def _medians(observations: Observations, name: str) -> tuple[Floats, Floats]:
    """The median signal of models with and of models without each record; NaN where there are none."""
    member, values = observations.need("member").astype(bool), observations.need(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a record without models on one side
        inside = np.nanmedian(np.where(member, values, np.nan), axis=1)
        outside = np.nanmedian(np.where(member, np.nan, values), axis=1)
    return np.asarray(inside), np.asarray(outside)


def exposed(observations: Observations, count: int, rng: Randomness, *, confidence: float = 0.95) -> list[Exposure]:
    """At most `count` records with a large memorisation on half of the models, estimated on the other half.

    Selecting and estimating on the same models would report luck (soundness rule 21). Records are ranked by the median
    margin of models with the record minus that of models without, both limited to odds of 10,000 to 1. So it counts how
    wrong a model is without the record, and no single answer near 0 decides. The candidates are those of at least a
    third of the largest difference, `count` / 2 to 2 `count` of them. A model is sure of a record when its margin is
    above the middle of both medians on the selecting half. The estimate is the difference of the shares of sure models
    with and without the record. The candidates that show it most clearly come first. Records whose models are too few
    to show anything are no candidates.

    Guarantee: of the records whose lower limit is above 0, a share of at most 1 - confidence is not exposed, on
    average. P-values are exact. The step-up rule of Benjamini and Hochberg 1995 goes over all candidates and is stopped
    at `count`, which keeps the self-consistency condition of Blanchard and Roquain 2008. Limits are as in Benjamini and
    Yekutieli 2005, definition 1. Nine tenths of the error are the lower limits'. The value itself is not corrected for
    the choice of the clearest candidates, its interval is.
    Caller ensures: given the models, records are judged independently or depend on each other positively.
    """
    count = check.whole("count", count)
    if observations.models < 4:
        raise BadInput(f"Exposed records need at least four models, got {observations.models}.")
    name = "margin" if observations.margin is not None else "probability"
    first, second = _split(observations.need("member").astype(bool), source(rng))
    select, judge = observations.select(models=first), observations.select(models=second)
    with_it, without = (side.clip(-SURE, SURE) for side in _medians(select, name))
    score, member = with_it - without, judge.need("member").astype(bool)
    ranking = score + TIES * memorisation(select, name)
    tried = _candidates(np.where(_able(member, count, confidence), ranking, np.nan), count)
    sure = judge.need(name) > ((with_it + without) / 2)[:, None]
    counts = [_counted(sure[row], member[row]) for row in tried]
    chances = [difference_chance(*both) for both in counts]
    order: list[int] = np.lexsort((-ranking[tried], np.asarray(chances)))[:count].tolist()
    shown = _discovered([chances[k] for k in order], 1 - _lower_confidence(confidence), len(tried))
    each = 1 - (1 - confidence) * max(shown, 1) / max(len(tried), 1)
    record = np.arange(observations.records) if observations.record is None else observations.record
    found = [(int(tried[k]), counts[k]) for k in order]
    return [Exposure(int(record[row]), float(score[row]), _difference(*both, each)) for row, both in found]


def _candidates(score: Floats, count: int) -> NDArray[np.intp]:
    """Rows of the largest scores, largest first: those within reach of the largest, not too few and not too many.

    Few candidates need little correction, so that a single exposed record is found; many let the other half decide
    where the selecting half ties.
    """
    known = np.flatnonzero(~np.isnan(score))
    ranked = known[np.argsort(-score[known], kind="stable")]
    if not ranked.size:
        return ranked
    near = int(np.count_nonzero(score[ranked] >= REACH * score[ranked[0]]))
    return ranked[: min(max(near, fewest(count)), 2 * count)]


def fewest(count: int) -> int:
    """Candidates at least, where at most `count` records are to be named."""
    return max(1, count // 2)


def _discovered(p_values: list[float], error: float, tried: int) -> int:
    """How many of the smallest p-values of `tried` hypotheses the step-up rule of Benjamini and Hochberg rejects."""
    ranked = np.asarray(p_values)
    below = np.flatnonzero(ranked <= error * np.arange(1, ranked.size + 1) / max(tried, 1))
    return int(below[-1]) + 1 if below.size else 0


def models_needed(count: int, confidence: float = 0.95) -> int:
    """How many models, half of them with each record, can show one exposed record where `count` may be named."""
    error = 1 - _lower_confidence(1 - (1 - confidence) / fewest(count))
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
    """Whether the models with and without each record would suffice to name it as exposed if every guess were right."""
    inside, outside = member.sum(axis=1), (~member).sum(axis=1)
    error = SAFETY * (1 - _lower_confidence(1 - (1 - confidence) / fewest(count)))
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


def _counted(sure: NDArray[np.bool_], member: NDArray[np.bool_]) -> tuple[tuple[int, int], tuple[int, int]]:
    """(how many are sure, of how many), with and without the record."""
    return (int(sure[member].sum()), int(member.sum())), (int(sure[~member].sum()), int((~member).sum()))


def _difference(first: tuple[int, int], second: tuple[int, int], confidence: float) -> Estimate:
    """P[sure | with] - P[sure | without] for one record."""
    low = _lower_confidence(confidence)
    lower = difference_limit(first, second, low)
    upper = -difference_limit(second, first, 1 - (low - confidence))
    return Estimate(first[0] / first[1] - second[0] / second[1], lower, upper, confidence, first[1] + second[1])
