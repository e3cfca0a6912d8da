"""The command `tacit`. Each module holds a few verbs and is imported when one of them is used."""

from .app import main

__all__ = ["main"]
