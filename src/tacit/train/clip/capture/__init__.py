"""Which operations use a parameter, and with what: the watched forward pass."""
