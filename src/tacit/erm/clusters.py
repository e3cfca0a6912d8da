"""Private k-means."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from ..core import BadInput, Charger, check, source
from ..core.events import Gaussian, Repeat
from ..core.randomness import Source
from .features import PrivateOfRows
from .losses import Floats
from .noise import gaussian, room_of_sums
from .rows import products_by_row
from .tables import Schemas

COUNT_WEIGHT = 0.5
"""How much counts weigh beside sums in what is released: the noise of counts is larger by its inverse."""


class PrivateKMeans(ClusterMixin, PrivateOfRows):
    r"""Private k-means: Lloyd's steps on noisy sums and counts.

    Each of `max_iter` steps: M(D) = for each cluster, sum of (w, x) over its records, plus N(0, (z s)^2 I), rows of
    norm at most 1, s = sqrt(1 + w^2). A record counts in the cluster whose centre is nearest.

    Guarantee: `Repeat(Gaussian(z), max_iter)`, charged before any noise is drawn. The first centres do not depend on
    the records. `labels_`, the cluster of each person, is not kept: `predict` gives it to whoever holds the records.
    Caller ensures: one row per person; `norm_bound` or `schema`, and the number of records, are public.
    Edge cases: a value that is not finite counts as 0; a cluster of fewer records than the noise keeps its centre.
    Reference: Blum, Dwork, McSherry and Nissim 2005; Su, Cao, Li, Bertino and Jin 2016, Differentially private k-means
    clustering (first centres, section 3.2).
    """

    _result = "cluster_centers_"
    _released = "the centres of the clusters"

    def __init__(
        self,
        n_clusters: int = 8,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        max_iter: int = 7,
        schema: Schemas = None,
        adjacency: str = "add-remove",
        norm_bound: float = 1.0,
        public_size: int | None = None,
        ledger: Charger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.max_iter = max_iter
        self.schema = schema
        self.adjacency = adjacency
        self.norm_bound = norm_bound
        self.public_size = public_size
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: object, y: object = None) -> Self:
        """Find centres of rows X (n, features); y is not read."""
        self._begin()
        count, steps = check.whole("n_clusters", self.n_clusters), check.whole("max_iter", self.max_iter)
        rows = self._rows(X, reset=True)
        size = self._size(len(rows))
        budget = self._budget(size)
        if budget.delta == 0:
            raise BadInput("PrivateKMeans needs a delta above 0.")
        noise = budget.gaussian_noise(steps)
        self.method_ = "noisy sums of Lloyd's steps"
        self._charge(Repeat(Gaussian(noise), steps), budget)
        rng = source(self.random_state)
        centres = apart(count, rows.shape[1], rng)
        for _ in range(steps):
            centres = moved(rows, centres, noise, self._most(size), rng)
        self.cluster_centers_ = centres * self._norm_bound()
        self.n_iter_ = steps
        return self

    def predict(self, X: object) -> NDArray[np.int64]:
        """The number of the nearest centre, for each record."""
        check_is_fitted(self, self._result)
        return nearest(self._rows(X, reset=False), self.cluster_centers_ / self._norm_bound())

    def fit_predict(self, X: object, y: object = None, **kwargs: object) -> NDArray[np.int64]:
        """Fit, then `predict` the same records: for whoever holds them, not to be released."""
        return self.fit(X).predict(X)


def nearest(rows: Floats, centres: Floats) -> NDArray[np.int64]:
    """Index of each row's nearest centre. How a tie ends depends on that row alone, not on the other rows."""
    far = (centres * centres).sum(axis=1) - 2 * products_by_row(rows, centres.T)
    return np.asarray(far.argmin(axis=1), dtype=np.int64)


def moved(rows: Floats, centres: Floats, noise: float, most: int, rng: Source) -> Floats:
    """Centres after one step of Lloyd's on noisy sums of at most `most` records; all centres stay within the unit ball,
    where the rows are."""
    count, features = len(centres), rows.shape[1]
    own = nearest(rows, centres)
    sums = np.zeros((count, features + 1))
    np.add.at(sums[:, 1:], own, rows)
    sums[:, 0] = COUNT_WEIGHT * np.bincount(own, minlength=count)
    share = math.hypot(1.0, COUNT_WEIGHT) * (1 + room_of_sums(most, features))
    noisy = gaussian(sums, share, noise, rng)
    held = noisy[:, :1] / COUNT_WEIGHT
    found = noisy[:, 1:] / np.maximum(held, 1.0)
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1.0)
    return np.where(held > 3 * noise * share / COUNT_WEIGHT, found, centres)


def apart(count: int, features: int, rng: Source) -> Floats:
    """Points of the unit ball that lie far from each other, drawn without looking at records.

    Points are drawn one after another; one nearer than a distance to the others is drawn again, and after many failures
    the distance shrinks.
    """
    found: list[Floats] = []
    distance, failures = 1.0, 0
    while len(found) < count:
        point = rng.normal(features)
        point *= float(rng.uniform(1)[0]) ** (1 / features) / np.linalg.norm(point)
        if all(np.linalg.norm(point - other) >= distance for other in found):
            found.append(point)
        else:
            failures += 1
            distance *= 0.9 if failures % 50 == 0 else 1.0
    return np.stack(found)
