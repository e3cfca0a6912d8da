"""A fleet's step on a GPU: gradients traced and compiled once, noise of all models from one kernel."""

from __future__ import annotations

import copy
import hashlib
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

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
TOLERANCE, KEPT = 2e-2, 8
GRAPHS: dict[Any, Graph] = {}


def fixed_size(expected: float) -> int:
    """Rows that all but one in a thousand Poisson samples fit into."""
    return 16 * math.ceil((expected + 3 * math.sqrt(expected)) / 16)


class Compiled:
    """`gradients(models, x, y, mask)` for batches of at most `size` rows: filled up with masked ones, and compiled.

    Before its first use a compiled graph must give what the eager function gives. Graphs are kept for later fleets of
    the same `form` whose gradients have the same `name`.
    """

    def __init__(self, gradients: Gradients, name: str, size: int) -> None:
        self.gradients, self.name, self.size = gradients, name, size
        self._graphs: dict[Any, Graph] = {}

    def __call__(self, models: Stack, x: Tensor, y: Tensor, mask: Tensor) -> dict[str, Tensor]:
        missing = self.size - len(x)
        if missing < 0 or len(x) == 0:
            return self.gradients(models, x, y, mask)
        x, y = (torch.cat((part, part[:1].expand(missing, *part.shape[1:]))) for part in (x, y))
        mask = torch.nn.functional.pad(mask, (0, missing)).contiguous()
        graphs = self._graphs if models.form is None else GRAPHS
        key = self.name, type(models), models.form, x.shape, mask.shape, x.device
        if key not in graphs:
            graphs[key] = self._compile(models, x, y, mask)
            if len(graphs) > KEPT:
                graphs.pop(next(iter(graphs)))
        return graphs[key](models.parameters, x, y, mask)

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

    def add(self, gradients: Sequence[Tensor], scale: float, share: float) -> None:
        """gradients <- share * gradients + scale * noise of this step; the next call is the next step."""
        for number, gradient in enumerate(gradients):
            name = self.step.to_bytes(8, "little") + number.to_bytes(8, "little")
            words = key_words(hashlib.sha256(self.secret + name).digest(), self.device)
            pairs = pairs_of(gradient[0].numel())
            self._make(gradient.flatten(1), words, self.first * 3 * pairs // WORDS, pairs, scale, share)
        self.step += 1
