"""The flows that use everything: attack, bracket, quickstart."""

from .bracketing import bracket
from .membership import attack

__all__ = ["attack", "bracket"]
