"""Evidence to one page: verdict first, both bounds, what was tested and what was not. Reads Evidence alone."""

from .page import Page, report

__all__ = ["Page", "report"]
