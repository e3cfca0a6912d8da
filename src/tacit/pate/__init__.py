"""PATE: teachers that never see each other's data vote on public inputs; a student learns from the noisy answers."""

from .aggregators import Aggregator, ConfidentGNMax, GNMax, InteractiveGNMax, LNMax
from .analysis import Analysis, analyse
from .estimator import PATE
from .prediction import private_predictions
from .private_value import PrivateValue
from .search import Found, search
from .semi_supervised import FixMatch
from .student import Student, Supervised
from .trainings import Network

__all__ = [
    "Aggregator",
    "Analysis",
    "ConfidentGNMax",
    "FixMatch",
    "Found",
    "GNMax",
    "InteractiveGNMax",
    "LNMax",
    "Network",
    "PATE",
    "PrivateValue",
    "Student",
    "Supervised",
    "analyse",
    "private_predictions",
    "search",
]
