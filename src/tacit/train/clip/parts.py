"""Checkpointed parts of a model (torch.utils.checkpoint) while a capture watches it.

The capture decides what becomes of a part: it runs as though it were not checkpointed, or it is run again under the
capture's eyes. A part must not run again unseen: with parameters in place of their detached copies it would save other
tensors than the first time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from torch.utils import checkpoint

from ...core import BadInput

GENERATOR = "_checkpoint_without_reentrant_generator"
"""What torch calls around the first run of a part, with the function for the second run as its first argument."""


class Part(Protocol):
    """A part that will run again: `begin` is called inside its first run, `again` in place of later ones.

    The first run's arguments are the last ones that `begin` is given; before them are torch's own.
    """

    def begin(self, *args: Any) -> None: ...

    def again(self, *args: Any, **kwargs: Any) -> Any: ...


class Watcher(Protocol):
    """What a capture makes of a part that is about to run: None runs it as it is."""

    def opened(self, function: Callable[..., Any] | None) -> AbstractContextManager[Part | None]: ...


class _Reentrant:
    """In place of the older way to checkpoint, which hides its operations from the first run's autograd."""

    @staticmethod
    def apply(*_: Any) -> Any:
        raise BadInput(
            "The model checkpoints with use_reentrant=True, which hides what its parameters do.",
            fix='Use use_reentrant=False; in Hugging Face, gradient_checkpointing_kwargs={"use_reentrant": False}.',
        )


class AsItIs:
    """No part runs again: for ordinary autograd."""

    @contextmanager
    def opened(self, function: Callable[..., Any] | None) -> Iterator[None]:
        yield None


@contextmanager
def checkpointed(watcher: Watcher) -> Iterator[None]:
    """While the model runs in this thread, its checkpointed parts are the watcher's."""
    theirs = getattr(checkpoint, GENERATOR)
    reentrant = checkpoint.CheckpointFunction
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
            around = theirs(part.again, True, context, *args, **kwargs)
            next(around)
            part.begin(*args)
            yield
            next(around, None)

    setattr(checkpoint, GENERATOR, ours)
    checkpoint.CheckpointFunction = _Reentrant
    try:
        yield
    finally:
        setattr(checkpoint, GENERATOR, theirs)
        checkpoint.CheckpointFunction = reentrant
