"""Run user code for one record, and put everything that it can reach back as it was."""

from .surroundings import UNCOVERED, Called, Stopped, Surroundings

__all__ = ["UNCOVERED", "Called", "Stopped", "Surroundings"]
