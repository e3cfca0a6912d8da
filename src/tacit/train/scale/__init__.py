"""Sums over several parts and processes, and steps recorded whole on a GPU."""
