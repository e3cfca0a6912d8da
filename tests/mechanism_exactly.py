"""What the mechanisms must draw: probabilities by formula, and a chi-square test with a stated error."""

import numpy as np
from scipy import stats

from tacit.core import Source, source

P_VALUE = 1e-6
"""Seeded tests pass or fail for good; this is how rare a right sampler's statistic would be."""


def laplace(scale, k):
    r = np.exp(-1 / scale)
    return (1 - r) / (1 + r) * r ** np.abs(k)


def gaussian(scale, k):
    reach = np.arange(-int(40 * scale) - 40, int(40 * scale) + 41)
    return np.exp(-(k**2) / (2 * scale**2)) / np.exp(-(reach**2) / (2 * scale**2)).sum()


def rounded(scale, k):
    return stats.norm.cdf((k + 0.5) / scale) - stats.norm.cdf((k - 0.5) / scale)


def p_value(draws, mass, *, cells=60):
    """Chi-square of whole numbers against probabilities, in cells of about equal mass; the tails are two of them."""
    draws = np.asarray(draws)
    reach = int(np.abs(draws).max()) + 1
    k = np.arange(-reach, reach + 1)
    below = np.cumsum(mass(k))
    edges = np.unique(np.minimum(np.searchsorted(below, np.linspace(0, 1, cells + 1)[1:-1]), k.size - 1))
    found = np.bincount(np.searchsorted(k[edges], draws, side="left"), minlength=edges.size + 1)
    share = np.diff(np.concatenate(([0.0], below[edges], [1.0])))
    return stats.chisquare(found[share > 0], share[share > 0] / share[share > 0].sum() * draws.size).pvalue


def choice_p_value(found, shares):
    counts = np.bincount(found, minlength=len(shares))
    return stats.chisquare(counts, np.asarray(shares) * len(found)).pvalue


class Scripted(Source):
    """A source that says given words first, and then those of a seed."""

    name, cryptographic = "scripted", False

    def __init__(self, words, seed=0):
        self._words, self._rest = list(words), source(seed)

    def words(self, count):
        said, self._words = self._words[:count], self._words[count:]
        return np.concatenate((np.array(said, dtype=np.uint64), self._rest.words(count - len(said))))

    def spawn(self, count):
        raise NotImplementedError
