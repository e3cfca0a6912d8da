"""PATE: teachers that never see each other's data vote on public inputs; a student learns from the noisy answers."""

from .aggregators import Aggregator, ConfidentGNMax, GNMax, InteractiveGNMax, LNMax
from .estimator import PATE
from .private_value import PrivateValue
from .semi_supervised import FixMatch
from .student import Student, Supervised
from .teachers import Network

__all__ = [
    "Aggregator",
    "ConfidentGNMax",
    "FixMatch",
    "GNMax",
    "InteractiveGNMax",
    "LNMax",
    "Network",
    "PATE",
    "PrivateValue",
    "Student",
    "Supervised",
]
