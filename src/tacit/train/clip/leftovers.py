"""Take back tensors of all records that a model has kept in its attributes, such as attention weights for a picture.

No later pass can use them, since every tensor that an operation is given must come from its own pass. But the model
leaves the training, and with it they would: the activations of the last records, in tensors that cannot be copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor

_ABSENT = object()
_OWN = frozenset(vars(nn.Module()))
"""What every module has: parameters, hooks and so on, into which no pass may write records."""


@contextmanager
def taken_back(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Restore, at the end, the attributes of modules in which tensors of all records were put meanwhile."""
    before = [(module, {name: _copied(value) for name, value in _kept(module)}) for module in modules]
    try:
        yield
    finally:
        for module, was in before:
            for name in [name for name, value in _kept(module) if _holds_records(value)]:
                _restore(module, name, was.get(name, _ABSENT))


def _kept(module: nn.Module) -> Iterable[tuple[str, object]]:
    return ((name, value) for name, value in vars(module).items() if name not in _OWN)


def _restore(module: nn.Module, name: str, was: object) -> None:
    held = vars(module)
    if was is _ABSENT:
        del held[name]
    elif isinstance(was, _Copy):
        was.restore()
        held[name] = was.of
    else:
        held[name] = was


class _Copy:
    """What a list or dict held."""

    def __init__(self, of: list[object] | dict[object, object]) -> None:
        self.of, self.held = of, of.copy()

    def restore(self) -> None:
        if isinstance(self.of, dict) and isinstance(self.held, dict):
            self.of.clear()
            self.of.update(self.held)
        elif isinstance(self.of, list) and isinstance(self.held, list):
            self.of[:] = self.held


def _copied(value: object) -> object:
    return _Copy(value) if type(value) in (list, dict) else value  # type: ignore[arg-type]


def _holds_records(value: object) -> bool:
    """Whether a value is, or directly holds, a tensor of all records."""
    if isinstance(value, Tensor):
        return is_functorch_wrapped_tensor(value)
    if isinstance(value, Mapping):
        return any(map(_holds_records, value.values()))
    return isinstance(value, tuple | list | set) and any(map(_holds_records, value))
