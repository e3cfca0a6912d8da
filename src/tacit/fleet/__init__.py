"""Thousands of small models trained at once."""

from .fleet import Epochs, Fleet, MakeOptimizer, Models

__all__ = ["Epochs", "Fleet", "MakeOptimizer", "Models"]
