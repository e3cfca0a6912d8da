"""Private answers about tables: bounded contributions in the engine, exact sums, noise of `tacit.mechanism`."""

from .answer import Answer
from .functions import count, mean, sum, users, variance
from .question import Price, Query
from .table import Table

__all__ = ["Answer", "Price", "Query", "Table", "count", "mean", "sum", "users", "variance"]
