"""The global generators of Python, NumPy and torch, lent to one teacher at a time.

A training that draws from them draws as often as its own records make it. The next teacher would then draw other
numbers: more than one vote would move. So each teacher finds them seeded from its own generator.
"""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from collections.abc import Iterator

import numpy as np

TAG = 0x7EAC4E5
"""Keeps these seeds apart from what the training itself draws from the same generator."""


@contextlib.contextmanager
def lent(generator: np.random.Generator) -> Iterator[None]:
    """Seed all global generators from a copy of `generator` inside the context, and restore their states afterwards."""
    drawn = copy.deepcopy(generator).integers(0, 2**32, 8, dtype=np.uint64)
    words = np.random.SeedSequence([TAG, *drawn.tolist()]).generate_state(8)
    before, numpy_before = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch = sys.modules.get("torch")
    try:
        with contextlib.ExitStack() as stack:
            if torch is not None:
                devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
                stack.enter_context(torch.random.fork_rng(devices=list(devices)))
                torch.default_generator.manual_seed(int(words[0]))
                for device in devices:
                    torch.cuda.default_generators[device].manual_seed(int(words[0]))
            random.seed(int(words[1]))
            np.random.seed(words[2:])  # noqa: NPY002
            yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)  # noqa: NPY002
