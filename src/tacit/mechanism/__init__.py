"""Releases that stand: exact noise, a charge before every draw, and an error that is stated beforehand."""

from .aggregation import subsample_and_aggregate
from .auction import auction
from .charging import Account
from .keys import unknown_keys
from .leaderboard import Ladder, Thresholdout
from .numeric import gaussian, laplace
from .quantiles import clipping_bound, median, quantile
from .ranges import exponential_range
from .responses import estimate, randomized_response, respond
from .robust import propose_test_release, smooth_median
from .scales import classic_noise_multiplier
from .selection import exponential, noisy_max, permute_and_flip, top
from .skellam_noise import skellam
from .thresholds import above_threshold

__all__ = [
    "Account",
    "Ladder",
    "Thresholdout",
    "above_threshold",
    "auction",
    "classic_noise_multiplier",
    "clipping_bound",
    "estimate",
    "exponential",
    "exponential_range",
    "gaussian",
    "laplace",
    "median",
    "noisy_max",
    "permute_and_flip",
    "propose_test_release",
    "quantile",
    "randomized_response",
    "respond",
    "skellam",
    "smooth_median",
    "subsample_and_aggregate",
    "top",
    "unknown_keys",
]
