"""A fleet's step on a GPU: gradients traced and compiled once, noise of all models from one kernel."""

from __future__ import annotations

import copy
import hashlib
import math
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from ..core.errors import BadInput
from ..train.chacha import WORDS, key_words
from ..train.clip.compiled import free_layout
from ..train.gaussian import kernel, pairs_of
from .stack import Stack

Gradients = Callable[[Stack, Tensor, Tensor, Tensor], dict[str, Tensor]]
Graph = Callable[..., dict[str, Tensor]]
TOLERANCE = 2e-2


def fixed_size(expected: float) -> int:
    """Rows that practically every batch of a Poisson sample fits into."""
    return 32 * math.ceil((expected + 5 * math.sqrt(expected)) / 32)


class Compiled:
    """`gradients(models, x, y, mask)` for batches of at most `size` rows: filled up with masked ones, and compiled.

    Before its first use a compiled graph must give what the eager function gives.
    """

    def __init__(self, gradients: Gradients, size: int) -> None:
        self.gradients, self.size = gradients, size
        self._graphs: dict[int, Graph] = {}

    def __call__(self, models: Stack, x: Tensor, y: Tensor, mask: Tensor) -> dict[str, Tensor]:
        missing = self.size - len(x)
        if missing < 0 or len(x) == 0:
            return self.gradients(models, x, y, mask)
        x, y = (torch.cat((part, part[:1].expand(missing, *part.shape[1:]))) for part in (x, y))
        mask = torch.nn.functional.pad(mask, (0, missing)).contiguous()
        if len(mask) not in self._graphs:
            self._graphs[len(mask)] = self._compile(models, x, y, mask)
        return self._graphs[len(mask)](models.parameters, x, y, mask)

    def _compile(self, models: Stack, x: Tensor, y: Tensor, mask: Tensor) -> Graph:
        def step(parameters: dict[str, Tensor], x: Tensor, y: Tensor, mask: Tensor) -> dict[str, Tensor]:
            others = copy.copy(models)
            others.parameters, others.branch_free = parameters, True
            return self.gradients(others, x, y, mask)

        given = models.parameters, x, y, mask
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the compiler's own, about itself
            traced = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(*given)
            free_layout(traced)
            graph: Graph = torch.compile(traced, fullgraph=True, dynamic=False)
            ours, theirs = graph(*given), step(*given)
        for name, right in theirs.items():
            if not bool(((ours[name] - right).abs() <= TOLERANCE * right.abs().max()).all()):
                raise BadInput("The compiled step of a fleet does not give the eager one's gradients; it is not used.")
        return graph


class Noise:
    """Normal numbers for the models of a fleet from number `first` on: they depend on the seeds and the place alone."""

    def __init__(self, seeds: Sequence[int], first: int, device: torch.device) -> None:
        self.secret = hashlib.sha256(b"".join(seed.to_bytes(8, "little") for seed in seeds)).digest()
        self.first, self.device, self.step = first, device, 0
        self._make = kernel(device)

    def normal(self, models: int, count: int, scale: float) -> Tensor:
        """(models, count): scale times the numbers of this step; the next call is the next step."""
        key = hashlib.sha256(self.secret + self.step.to_bytes(8, "little")).digest()
        self.step += 1
        pairs = pairs_of(count)
        flat = torch.empty(models * 2 * pairs, device=self.device)
        self._make(flat, key_words(key, self.device), self.first * 3 * pairs // WORDS, models, pairs, scale)
        return flat.view(models, 2 * pairs)[:, :count]
