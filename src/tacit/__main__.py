"""`python -m tacit`."""

from .cli import main

main()
