"""The command `tacit`. Each module holds a few verbs; importing it registers them."""

from . import accounting, auditing, doctor, measuring, reporting, training
from .app import main

__all__ = ["accounting", "auditing", "doctor", "main", "measuring", "reporting", "training"]
