"""One name for a numpy array whose type of numbers is not fixed: labels, records, names."""

from __future__ import annotations

from typing import Any, TypeAlias

from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
"""An array of any type; a function that needs numbers says `NDArray[np.float64]`."""
