"""The flows that use everything: attack, bracket, quickstart, private search."""

from ..mechanism.search import search
from .framed import attack, audit, bracket

__all__ = ["attack", "audit", "bracket", "search"]
