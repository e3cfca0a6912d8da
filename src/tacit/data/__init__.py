"""Public data sets, read from what is already there: nothing is ever downloaded."""

from .files import read_table
from .loaders import NAMES, Records, load

__all__ = ["NAMES", "Records", "load", "read_table"]
