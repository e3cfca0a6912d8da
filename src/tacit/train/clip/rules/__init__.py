"""Per-example gradients of each kind of operation, and their norms."""
