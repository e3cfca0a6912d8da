"""Zeros in place of what memory happens to hold, where code asks for a tensor without values (`torch.empty`).

What memory held before may be the numbers of other records. Code that reads a number before it writes it (a result of
which some places are never filled, say) would carry them into its own record's gradient.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from .functions import name_of

_MADE = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "new")
_RESIZED = ("resize_", "resize_as_")


def called(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a function, with zeros in places that nothing has been written into."""
    name = _known(func)
    if not name:
        return func(*args, **kwargs)
    before = args[0].numel() if name in _RESIZED else 0
    result = func(*args, **kwargs)
    if name == "new" and not all(isinstance(one, int | torch.Size) for one in args[1:]):  # it is given the values
        return result
    if isinstance(result, Tensor) and result.numel() > before:
        with torch.no_grad():
            (result.view(-1)[before:] if before else result).zero_()
    return result


@cache
def _known(func: object) -> str:
    name = name_of(func)
    return name if name in _MADE or name in _RESIZED else ""
