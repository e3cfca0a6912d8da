"""Run user code for one record, and put everything that it can reach back as it was."""

from .reach import UNCOVERED, Surroundings

__all__ = ["UNCOVERED", "Surroundings"]
