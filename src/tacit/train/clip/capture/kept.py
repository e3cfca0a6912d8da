"""What a captured pass keeps: tensors derived from parameters alone, and operations that consumed a parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(eq=False)
class Source:
    """A parameter, or a tensor derived from parameters alone; `made` recomputes it from its one parameter.

    `one_to_one`: it contains every entry of that parameter at most once, and nothing else.
    """

    tensor: Tensor
    parents: frozenset[str]
    one_to_one: bool = True
    made: Callable[[Tensor], Tensor] = lambda parameter: parameter

    def __post_init__(self) -> None:
        self.version, self.hooks = self.tensor._version, len(self.tensor._backward_hooks or ())

    @property
    def viewed(self) -> bool:
        """Whether it is unchanged since it was made: nothing was written into it, and it has no hooks."""
        kept = self.tensor._version == self.version and len(self.tensor._backward_hooks or ()) == self.hooks
        return self.one_to_one and kept


@dataclass(eq=False)
class Record:
    """One operation that consumed a parameter.

    Per-record tensors in `args` and `kwargs` hold all records along the first axis; their ids are in `own`. `output`
    holds all records along `axis`; `first` brings it, or its gradient, to (B, ...). `version` is that of the output,
    `read` are those of the tensors in `used`.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Tensor
    used: tuple[Tensor, ...]
    own: frozenset[int]
    version: int
    first: Callable[[Tensor], Tensor]
    read: tuple[int, ...]

    @property
    def overwritten(self) -> bool:
        """Whether the output, or a tensor that the operation read, was changed after the operation."""
        before = zip((self.output, *self.used), (self.version, *self.read), strict=True)
        return any(tensor._version != version for tensor, version in before)
