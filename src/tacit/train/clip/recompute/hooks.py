"""Intercept the checkpointed parts of a model (torch.utils.checkpoint) while a capture watches it.

The capture decides what happens to a part: it runs as if it were not checkpointed, or its recomputation runs under the
capture too. A part must not be recomputed unobserved: with parameters in place of their detached copies it would save
other tensors than in its first run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.utils import checkpoint

from ....core import BadInput

GENERATOR = "_checkpoint_without_reentrant_generator"
"""The generator that torch runs around the first run of a part; its first argument is the function to recompute.

Its name is internal to torch, so `followed` tests whether the assumption holds.
"""


SAVER = "_NoopSaveInputs"


class Part(Protocol):
    """A part that will be recomputed: `begin` is called inside its first run, `again` in place of the later ones."""

    def begin(self) -> None: ...

    def again(self, *args: object, **kwargs: object) -> Any: ...


class Watcher(Protocol):
    """A capture's decision about a part that is about to run; None runs it unchanged."""

    def opened(self, function: Callable[..., object] | None) -> AbstractContextManager[Part | None]: ...


class _Reentrant:
    """Replacement for the older (reentrant) checkpointing, whose first run hides its operations from autograd."""

    @staticmethod
    def apply(*_: object) -> Any:
        raise BadInput(
            "The model checkpoints with use_reentrant=True, which hides what its parameters do.",
            fix='Use use_reentrant=False; in Hugging Face, gradient_checkpointing_kwargs={"use_reentrant": False}.',
        )


class AsItIs:
    """A watcher for ordinary autograd: no part is recomputed."""

    @contextmanager
    def opened(self, function: Callable[..., object] | None) -> Iterator[None]:
        yield None


@contextmanager
def checkpointed(watcher: Watcher) -> Iterator[None]:
    """Send the checkpointed parts of a model that runs in this thread to the watcher."""
    with _replaced("CheckpointFunction", lambda _: _Reentrant):
        if not followed():  # what such a part gives is refused in the backward pass, where torch notices (`lost`)
            yield
            return
        with _replaced(GENERATOR, lambda theirs: _told(watcher, theirs)), _saving():
            yield


@contextmanager
def _saving() -> Iterator[None]:
    """Older torch (2.11) saves a part's arguments by an autograd function, which does not work inside a `Level`."""
    if not hasattr(checkpoint, SAVER):
        yield
        return
    with _replaced(SAVER, _Saver):
        yield


@dataclass(frozen=True, eq=False)
class _Saver:
    """Replacement for that function: `_told` gives it no per-record tensors."""

    theirs: object

    def apply(self, *args: object) -> Any:
        with enable_single_level_autograd_function():
            return super(torch.autograd.Function, self.theirs).apply(*args)  # type: ignore[misc]


@contextmanager
def _replaced(name: str, made: Callable[[Any], object]) -> Iterator[None]:
    """Temporarily replace an attribute of torch's checkpoint module by what `made` makes of it."""
    theirs = getattr(checkpoint, name)
    setattr(checkpoint, name, made(theirs))
    try:
        yield
    finally:
        setattr(checkpoint, name, theirs)


def _told(watcher: Watcher, theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap torch's generator around a part's first run, so that the watcher is told about parts in this thread."""
    thread = threading.get_ident()

    def ours(function: Callable[..., Any], preserve: bool, context: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        if threading.get_ident() != thread:
            yield from theirs(function, preserve, context, *args, **kwargs)
            return
        with watcher.opened(function if context is checkpoint.noop_context_fn else None) as part:
            if part is None:
                yield
                return
            # random numbers are always kept: all runs of a part must be one function
            held = [Held(given) if isinstance(given, Tensor) else given for given in args]
            around = theirs(_unpacked(part.again), True, context, *held, _beside(args), **kwargs)
            next(around)
            part.begin()
            yield
            next(around, None)

    return ours


@dataclass(frozen=True, eq=False)
class Held:
    """A tensor wrapped so that torch does not save it itself, which would fail inside a `Level`."""

    tensor: Tensor


def _unpacked(again: Callable[..., object]) -> Callable[..., object]:
    def run(*args: Any, **kwargs: Any) -> Any:
        given = (one.tensor if isinstance(one, Held) else one for one in args[:-1])
        return again(*given, **kwargs)

    return run


def _beside(args: tuple[Any, ...]) -> Tensor:
    """An empty tensor on the device of the arguments, by which torch decides whose random state to keep."""
    device = next((given.device for given in args if isinstance(given, Tensor)), torch.device("cpu"))
    with torch._C.DisableTorchFunction():
        return torch.empty(0, device=device)


@dataclass(eq=False)
class _Trial:
    """A watcher and a part that record how they were called, for `followed`."""

    function: Any = None
    began: bool = False
    second: Any = None

    @contextmanager
    def opened(self, function: Callable[..., object] | None) -> Iterator[Part]:
        self.function = function
        yield self

    def begin(self) -> None:
        self.began = True

    def again(self, *args: object, **kwargs: object) -> Any:
        (self.second,) = args
        return self.function(*args)


@cache
def followed() -> bool:
    """Whether this version of torch calls the hooks as assumed here; tried once on a part of our own."""
    trial, x = _Trial(), torch.tensor([3.0], requires_grad=True)
    try:
        with torch.enable_grad(), _replaced(GENERATOR, lambda theirs: _told(trial, theirs)):
            y = checkpoint.checkpoint(torch.exp, x, use_reentrant=False)
        (slope,) = torch.autograd.grad(y, x)
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return False
    return trial.function is torch.exp and trial.began and trial.second is x and torch.equal(slope, x.exp())


def lost() -> BadInput:
    """The one sentence for parts that were recomputed unobserved."""
    return BadInput(
        f"The model computes parts of it again, and how torch {torch.__version__} does that is not known here.",
        fix="Run the parts as they are, without torch.utils.checkpoint, or use torch 2.11 to 2.13.",
    )
