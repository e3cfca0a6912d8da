"""Budgets that survive crashes and concurrent spenders: charge, then release."""

from .chain import Chain
from .entry import Entry
from .ledger import Ledger

__all__ = ["Chain", "Entry", "Ledger"]
