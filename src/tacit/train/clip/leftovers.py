"""Take back what a pass has put into attributes of modules, such as attention weights for a picture.

The model would leave the training with it: the activations of the last records, in tensors that cannot be copied. Every
pass over all records begins as the first one did, because code may ask whether an attribute is there. If what one pass
left were there for the next, a record that makes a batch run twice would lead all others to other code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor

_ABSENT = object()
_OWN = frozenset(vars(nn.Module()))
"""What every module has: parameters, hooks and so on, into which no pass may write records."""
Container = list[object] | dict[object, object] | set[object] | deque[object]
CONTAINERS = (list, dict, set, deque)


@contextmanager
def taken_back(modules: Iterable[nn.Module]) -> Iterator[Callable[[], bool]]:
    """Restore, at the end, the attributes of modules in which a pass has put tensors that it made.

    Yields a function that does so at any time, and says whether there was something to restore.
    """
    before = [(module, {name: _copied(value) for name, value in _kept(module)}) for module in modules]

    def back() -> bool:
        found = [(module, was, name) for module, was in before for name, value in _kept(module) if _of_a_pass(value)]
        for module, was, name in found:
            _restore(module, name, was.get(name, _ABSENT))
        return bool(found)

    try:
        yield back
    finally:
        back()


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
    """What a list, dict, set or deque held."""

    def __init__(self, of: Container) -> None:
        self.of, self.held = of, of.copy()

    def restore(self) -> None:
        self.of.clear()
        if isinstance(self.of, dict):
            self.of.update(cast(dict[object, object], self.held))
        elif isinstance(self.of, set):
            self.of.update(self.held)
        else:
            self.of.extend(self.held)


def _copied(value: object) -> object:
    return _Copy(value) if type(value) in CONTAINERS else value  # type: ignore[arg-type]


def _of_a_pass(value: object) -> bool:
    """Whether a value is, or directly holds, a tensor of all records or one with a graph."""
    if isinstance(value, Tensor):
        return is_functorch_wrapped_tensor(value) or value.grad_fn is not None
    if isinstance(value, Mapping):
        return any(map(_of_a_pass, value.values()))
    return isinstance(value, tuple | list | set | deque) and any(map(_of_a_pass, value))
