"""Thousands of small models trained at once."""

from .fleet import Epochs, Fleet, Models

__all__ = ["Epochs", "Fleet", "Models"]
