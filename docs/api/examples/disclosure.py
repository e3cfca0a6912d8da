# %% differencing read_log Asked Disclosed
from tacit.disclosure import differencing, read_log

log = read_log({"queries": [{"people": ["Ann", "Bo", "Cy"], "answer": 6}, {"people": ["Ann", "Bo"], "answer": 3}]})
for found in differencing(log):
    print(found.person, found.value, found.queries)  # Cy's value follows from two answers

# %% reconstruct random_subsets Reconstruction attainable
import numpy as np

from tacit.core import source
from tacit.disclosure import attainable, random_subsets, reconstruct

rng = source(0)
bits, subsets = rng.coins(64), random_subsets(64, 128, rng)
answers = subsets @ bits.astype(int) + np.random.default_rng(0).uniform(-2, 2, 128)  # small errors do not help
print(reconstruct(subsets, answers).accuracy(bits), attainable(1.0))

# %% records_from_tables Published Records
from tacit.disclosure import Published, records_from_tables

domain = {"sex": ["f", "m"], "ill": ["no", "yes"]}
tables = [Published(("sex",), {("f",): 2, ("m",): 1}), Published(("ill",), {("no",): 0, ("yes",): 3})]
found = records_from_tables(domain, tables)
print(found.kinds, found.least, found.most)

# %% uniqueness combinations homogeneity unicity Uniqueness Homogeneity
from tacit.core import source
from tacit.disclosure import combinations, homogeneity, uniqueness, unicity

people = {"zip": [1, 1, 2, 2], "born": [1980, 1980, 1990, 1991], "ill": ["flu", "flu", "no", "flu"]}
print(uniqueness(people, ["zip", "born"]).unique)
print([(found.columns, found.unique) for found in combinations(people, ["zip", "born"])])
print(homogeneity(people, ["zip", "born"], "ill", k=2).disclosed)  # two hide in a group, and both have the flu
print(unicity({"zip": people["zip"], "born": people["born"]}, 1, source(0)))

# %% Ratings Match
from tacit.disclosure import Ratings

published = Ratings.of(["a", "a", "b", "b"], ["film 1", "film 2", "film 1", "film 3"], [5, 1, 2, 4], [10, 20, 300, 310])
print(published.match({"film 1": (4, 12), "film 2": (1, 25)}))

# %% membership frequencies distance likelihood_ratio
import numpy as np

from tacit.disclosure import distance, frequencies, likelihood_ratio, membership

rng = np.random.default_rng(0)
sites = rng.uniform(0.1, 0.9, 2000)
inside, outside, reference = (rng.binomial(2, sites, (30, 2000)) for _ in range(3))  # genotypes 0, 1, 2
group, public = frequencies(inside), frequencies(reference)
print(membership(inside, outside, group, public).auc().value)
print(distance(inside[:1], group, public), likelihood_ratio(inside[:1], group, public, people=30))

# %% of_log of_table evidence picture Bar
from tacit.disclosure import Bar, evidence, of_log, of_table, picture, read_log

log = read_log({"queries": [{"people": ["Ann", "Bo", "Cy"], "answer": 6}, {"people": ["Ann", "Bo"], "answer": 3}]})
print([found.sentence for found in of_log(log)])
people = {"zip": [1, 1, 2, 2], "born": [1980, 1980, 1990, 1991], "ill": ["flu", "flu", "no", "flu"]}
findings = of_table(people, ["zip", "born"], "ill", k=2)
print(evidence(findings, release="patients.csv", known=["zip", "born"]).sentence)
print(picture("People found", [Bar("from the table", 0.5), Bar("from the private table", 0.1, "private")])[:40])

# %% model_versions Versions naming_limit
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.neighbors import KNeighborsClassifier

from tacit.disclosure import model_versions, naming_limit

x, y = load_breast_cancer(return_X_y=True)
kept = np.arange(len(x)) != 13  # record 13 asked to be forgotten
before = KNeighborsClassifier(15, weights="distance").fit(x, y).predict_proba
after = KNeighborsClassifier(15, weights="distance").fit(x[kept], y[kept]).predict_proba
print(model_versions(before, after, x[:40], y[:40]).named, naming_limit(1.0, 40))
