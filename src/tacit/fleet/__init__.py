"""Thousands of small models trained at once."""

from .disjoint import RecordWise, Steps, train_disjoint
from .fleet import Fleet, MakeOptimizer, Models
from .order import Epochs
from .runs import Runs

__all__ = ["Epochs", "Fleet", "MakeOptimizer", "Models", "RecordWise", "Runs", "Steps", "train_disjoint"]
