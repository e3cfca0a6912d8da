"""Examples, each under 80 lines, each run by a test."""
