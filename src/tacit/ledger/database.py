"""SQLAlchemy, where it is installed; a ledger that is opened without it raises MissingExtra."""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import sqlalchemy as sa
    from sqlalchemy import exc
except ModuleNotFoundError:
    if not TYPE_CHECKING:
        sa = exc = None

__all__ = ["exc", "sa"]
