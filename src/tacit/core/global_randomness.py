"""The global generators of Python, NumPy and torch, lent to one training at a time.

A training that draws from them draws as often as its own records make it. The next training would then draw other
numbers: more than one teacher of PATE, or more than one block's answer, would change. So each training finds them
seeded from its own generator. The trainings of several threads take turns, because there is one such generator for the
whole process.
"""

from __future__ import annotations

import contextlib
import copy
import os
import random
import sys
import threading
from collections.abc import Iterator

import numpy as np

TAG = 0x7EAC4E5
"""Keeps these seeds apart from what the training itself draws from the same generator."""
_turn = threading.RLock()


def _forked() -> None:
    """Give a forked process a lock of its own: the thread that held the other one is not in it."""
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Wait until no other thread trains with the global generators, and keep others waiting inside the context."""
    with _turn:
        yield


@contextlib.contextmanager
def lent(generator: np.random.Generator) -> Iterator[None]:
    """Seed all global generators from a copy of `generator` inside the context, and restore their states afterwards."""
    drawn = copy.deepcopy(generator).integers(0, 2**32, 8, dtype=np.uint64)
    words = np.random.SeedSequence([TAG, *drawn.tolist()]).generate_state(8)
    with _turn, contextlib.ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        if (torch := sys.modules.get("torch")) is not None:
            devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
            stack.enter_context(torch.random.fork_rng(devices=list(devices)))
            torch.default_generator.manual_seed(int(words[0]))
            for device in devices:
                torch.cuda.default_generators[device].manual_seed(int(words[0]))
        random.seed(int(words[1]))
        np.random.seed(words[2:])  # noqa: NPY002
        yield
