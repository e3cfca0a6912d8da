"""A step that breaks its promise, for tests of benchmarks that must notice it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tacit.train.clip.sums import Clipped


def last_twice(whole: Callable[..., Clipped]) -> Callable[..., Clipped]:
    """`Clipper.together`, in which the last record counts twice."""

    def twice(self: Any, batch: Any, mask: Tensor, structure: Any) -> Clipped:
        found = whole(self, batch, mask, structure)
        last = torch.zeros_like(mask)
        last[-1] = mask[-1]
        more = whole(self, batch, last, structure)
        return replace(found, sums={name: one + more.sums[name] for name, one in found.sums.items()})

    return twice
