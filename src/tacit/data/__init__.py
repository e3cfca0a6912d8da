"""Public data sets, read from what is already there: nothing is ever downloaded."""

from .files import labels, read_table
from .loaders import NAMES, Records, load

__all__ = ["NAMES", "Records", "labels", "load", "read_table"]
