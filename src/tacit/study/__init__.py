"""The flows that use everything: attack, bracket, quickstart."""

from .framed import attack, audit, bracket

__all__ = ["attack", "audit", "bracket"]
