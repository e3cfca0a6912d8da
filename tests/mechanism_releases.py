"""Every release with small arguments, for laws that all of them obey: name -> (values -> Answer)."""

import numpy as np

from tacit import mechanism

NUMBERS = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
BOUNDS = {"bounds": (0.0, 10.0)}


def _counts(values):
    return {str(i): value for i, value in enumerate(values)}


RELEASES = {
    "laplace": lambda v, **k: mechanism.laplace(v, sensitivity=1, epsilon=1, **k),
    "gaussian": lambda v, **k: mechanism.gaussian(v, sensitivity=1, epsilon=1, delta=1e-6, **k),
    "skellam": lambda v, **k: mechanism.skellam(8, sensitivity=1, epsilon=1, delta=1e-6, **k),
    "exponential": lambda v, **k: mechanism.exponential(v, sensitivity=1, epsilon=1, **k),
    "permute_and_flip": lambda v, **k: mechanism.permute_and_flip(v, sensitivity=1, epsilon=1, **k),
    "noisy_max": lambda v, **k: mechanism.noisy_max(v, sensitivity=1, epsilon=1, **k),
    "noisy_max laplace": lambda v, **k: mechanism.noisy_max(v, sensitivity=1, epsilon=1, noise="laplace", **k),
    "top": lambda v, **k: mechanism.top(v, 3, sensitivity=1, epsilon=1, **k),
    "quantile": lambda v, **k: mechanism.quantile(v, 0.9, epsilon=1, **BOUNDS, **k),
    "median": lambda v, **k: mechanism.median(v, epsilon=1, **BOUNDS, **k),
    "clipping_bound": lambda v, **k: mechanism.clipping_bound(v, epsilon=1, **k),
    "above_threshold": lambda v, **k: mechanism.above_threshold(v, 4, sensitivity=1, epsilon=1, **k),
    "unknown_keys": lambda v, **k: mechanism.unknown_keys(_counts(v), epsilon=1, delta=1e-6, **k),
    "smooth_median": lambda v, **k: mechanism.smooth_median(v, epsilon=1, delta=1e-6, **BOUNDS, **k),
    "propose_test_release": lambda v, **k: mechanism.propose_test_release(
        v, proposal=1.0, epsilon=1, delta=1e-6, **BOUNDS, **k
    ),
    "subsample_and_aggregate": lambda v, **k: mechanism.subsample_and_aggregate(
        v, np.mean, blocks=4, epsilon=1, **BOUNDS, **k
    ),
    "auction": lambda v, **k: mechanism.auction(v, [1, 2, 5], epsilon=1, **k),
    "exponential_range": lambda v, **k: mechanism.exponential_range(
        np.arange(len(v) + 1), v, sensitivity=1, epsilon=1, **BOUNDS, **k
    ),
    "randomized_response": lambda v, **k: mechanism.randomized_response(v, epsilon=1, categories=10, **k),
}
WITH_DELTA = {"gaussian", "skellam", "unknown_keys", "smooth_median", "propose_test_release"}
"""Releases that cost a delta of 1e-6 besides epsilon."""
REPLACE_ONLY = {"smooth_median", "propose_test_release", "randomized_response"}
"""Releases that show how many records there are."""
