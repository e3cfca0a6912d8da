"""Tables and their public facts, and public data sets; read from what is already there: nothing is ever downloaded."""

from .files import columns_of, labels, read_table
from .frames import Table, is_frame, table
from .inference import infer
from .loaders import NAMES, Records, load
from .schema import Column, Schema

__all__ = [
    "Column", "NAMES", "Records", "Schema", "Table", "columns_of", "infer", "is_frame", "labels", "load", "read_table",
    "table",
]  # fmt: skip
