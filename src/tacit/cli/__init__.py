"""The command `tacit`. Each module holds a few verbs; importing it registers them."""

from . import accounting
from .app import main

__all__ = ["accounting", "main"]
