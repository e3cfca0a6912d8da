"""Members of a study, from the allele frequencies that it published."""

from pathlib import Path

import numpy as np

from tacit import disclosure, mechanism
from tacit.disclosure import Bar

from .shown import EPSILON, Shown


def genotypes(folder: Path) -> Shown:
    held = np.load(folder / "genotypes_1000g.npz")
    own = np.random.default_rng(0).permutation(np.flatnonzero(held["superpopulation"] == 0))
    alleles = held["genotypes_snp_major"].T[own].astype(np.int64)
    study, others, known = alleles[:100], alleles[100:200], disclosure.frequencies(alleles[200:])
    plain = disclosure.membership(study, others, disclosure.frequencies(study), known).auc().value
    sums = mechanism.laplace(study.sum(axis=0), sensitivity=2 * alleles.shape[1], epsilon=EPSILON, rng=1)
    private = disclosure.membership(study, others, np.clip(sums.value / 200, 0, 1), known).auc().value
    bars = (
        Bar("allele frequencies", plain),
        Bar("private frequencies", private, "private"),
        Bar("a coin", 0.5, "guessing"),
    )
    told = f"AUC {plain:.3f} from frequencies; from private ones (epsilon 1) {private:.3f}"
    return Shown("Members of a study told from others (area under the curve)", told, bars)
