r"""Was a person in the study? Published allele frequencies of a group tell, for whoever has the person's genotypes.

With y the person's alleles (0, 1 or 2, halved), p the group's frequencies and q those of a reference population:

    distance:          mean_j |y_j - q_j| - |y_j - p_j|                                    (Homer et al. 2008)
    likelihood ratio:  sum_j 2 y_j log(p_j/q_j) + 2 (1 - y_j) log((1 - p_j)/(1 - q_j))    (Sankararaman et al. 2009)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Scores, check

Floats = NDArray[np.float64]


def frequencies(genotypes: object) -> Floats:
    """The frequency of the counted allele at each site, as studies publish it. `genotypes`: people x sites, 0, 1, 2."""
    return np.asarray(_alleles(genotypes).mean(axis=0))


def distance(genotypes: object, group: object, reference: object) -> Floats:
    """Homer's distance for every person; above 0 means nearer to the group than to the reference."""
    y, p, q = _three(genotypes, group, reference)
    return np.asarray((np.abs(y - q) - np.abs(y - p)).mean(axis=1))


def likelihood_ratio(genotypes: object, group: object, reference: object, *, people: int) -> Floats:
    """The log of how much likelier the genotypes are under the group's frequencies than under the reference's.

    `people`: how many are in the group; frequencies are kept 1/(4 people) away from 0 and 1.
    """
    y, p, q = _three(genotypes, group, reference)
    edge = 1 / (4 * check.whole("people", people))
    p, q = np.clip(p, edge, 1 - edge), np.clip(q, edge, 1 - edge)
    return np.asarray(2 * (y @ np.log(p / q) + (1 - y) @ np.log((1 - p) / (1 - q))))


def membership(
    inside: object, outside: object, group: object, reference: object, *, people: int | None = None
) -> Scores:
    """Scores of people who were in the study and who were not, by the likelihood ratio."""
    members, others = np.asarray(inside), np.asarray(outside)
    if members.ndim != 2 or others.ndim != 2 or members.shape[1] != others.shape[1]:
        raise BadInput("Genotypes are a matrix: people x sites, the same sites for members and others.")
    everybody = np.concatenate((members, others))
    score = likelihood_ratio(everybody, group, reference, people=people or len(members))
    is_member = np.r_[np.ones(len(members), bool), np.zeros(len(others), bool)]
    return Scores(score, is_member, attack="allele frequencies", randomised=False)


def _alleles(genotypes: object) -> Floats:
    found = np.asarray(genotypes, dtype=np.float64)
    if found.ndim != 2 or not found.size or not np.isin(found, (0, 1, 2)).all():
        raise BadInput("Genotypes are a matrix of people x sites that holds 0, 1 or 2.")
    return found / 2


def _three(genotypes: object, group: object, reference: object) -> tuple[Floats, Floats, Floats]:
    y = _alleles(genotypes)
    p, q = (np.asarray(part, dtype=np.float64).ravel() for part in (group, reference))
    if p.shape != q.shape or p.size != y.shape[1] or np.isnan(p).any() or np.isnan(q).any():
        raise BadInput("Frequencies must be given for each site.")
    return y, np.clip(p, 0, 1), np.clip(q, 0, 1)
