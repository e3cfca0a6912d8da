"""A module that nobody imports before a record makes a loss do so."""

SEEN: list[float] = []
