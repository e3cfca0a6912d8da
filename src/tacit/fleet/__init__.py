"""Thousands of small models trained at once."""

from .disjoint import Steps, train_disjoint
from .fleet import Fleet, MakeOptimizer, Models
from .order import Epochs
from .runs import Runs

__all__ = ["Epochs", "Fleet", "MakeOptimizer", "Models", "Runs", "Steps", "train_disjoint"]
