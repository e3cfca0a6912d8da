"""A fleet's step on a GPU: gradients are compiled once, and one kernel draws the noise of all models."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from ..core.errors import BadInput
from ..train.clip.arrays import matmul_precision
from ..train.clip.compile.graph import free_layout
from ..train.noise.gaussian import kernel, pairs_of
from .stack import Stack

Gradients = Callable[[Stack, "Batch"], dict[str, Tensor]]
Graph = Callable[..., dict[str, Tensor]]
TOLERANCE, KEPT = 2e-2, 8
PURPOSE = b"noise of a fleet"
GRAPHS: dict[object, Graph] = {}


def fixed_size(expected: float) -> int:
    """The number of rows that is enough for all but one in a thousand Poisson samples."""
    return 16 * math.ceil((expected + 3 * math.sqrt(expected)) / 16)


@dataclass(frozen=True)
class Batch:
    """One batch: x (B, ...) and y (B) shared by all models, or x (K, B, ...) and y (K, B). `mask` (K, B) says which
    model learns from which record.
    """

    x: Tensor
    y: Tensor
    mask: Tensor


def invented(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Random records in the shapes of the given ones: a check that may stop must see no private ones (soundness rule
    26).
    """
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).to(x), torch.zeros_like(y)


class Compiled:
    """`gradients(models, batch)`, compiled for batches of at most `size` rows; shorter ones are padded with masked
    rows.

    Before its first use, a compiled graph must agree with the eager function on random records. Graphs are cached and
    used again by later fleets of the same `form` whose gradients have the same `name`.
    """

    def __init__(self, gradients: Gradients, name: str, size: int) -> None:
        self.gradients, self.name, self.size = gradients, name, size
        self._graphs: dict[object, Graph] = {}

    def __call__(self, models: Stack, batch: Batch) -> dict[str, Tensor]:
        x, y, mask = batch.x, batch.y, batch.mask
        missing = self.size - len(x)
        if missing < 0 or len(x) == 0:
            return self.gradients(models, batch)
        x, y = (torch.cat((part, part[:1].expand(missing, *part.shape[1:]))) for part in (x, y))
        mask = torch.nn.functional.pad(mask, (0, missing)).contiguous()
        graphs = self._graphs if models.form is None else GRAPHS
        key = self.name, type(models), models.form, x.shape, mask.shape, x.device, matmul_precision()
        if key not in graphs:
            graphs[key] = self._compile(models, x, y, mask)
            if len(graphs) > KEPT:
                graphs.pop(next(iter(graphs)))
        return graphs[key](models.parameters, x, y, mask)

    def _compile(self, models: Stack, x: Tensor, y: Tensor, mask: Tensor) -> Graph:
        def step(parameters: dict[str, Tensor], x: Tensor, y: Tensor, mask: Tensor) -> dict[str, Tensor]:
            others = models.like(parameters)
            others.branch_free = True
            return self.gradients(others, Batch(x, y, mask))

        given = models.parameters, x, y, mask
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the compiler's own, about itself
            traced = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(*given)
            free_layout(traced)
            graph: Graph = torch.compile(traced, fullgraph=True, dynamic=False)
            public = models.parameters, *invented(x, y), torch.ones_like(mask)
            ours, theirs = graph(*public), step(*public)
        for name, right in theirs.items():
            if not bool(((ours[name] - right).abs() <= TOLERANCE * right.abs().max()).all()):
                raise BadInput("The compiled step of a fleet does not give the eager one's gradients; it is not used.")
        return graph


class Noise:
    """Normal noise for some models of a fleet, each from a key derived from the model's own seed, whichever device
    trains it.

    Step and parameter number are the nonce of a ChaCha20 stream.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        keys = b"".join(hashlib.sha256(PURPOSE + seed.to_bytes(8, "little")).digest() for seed in seeds)
        self._keys = torch.from_numpy(np.frombuffer(keys, np.int32).reshape(-1, 8).copy()).to(device)
        self._make, self.step = kernel(device), 0

    def add(self, values: Sequence[Tensor], scale: float, share: float) -> None:
        """values <- share * values + scale * noise of this step. Every call advances to the next step."""
        for number, value in enumerate(values):
            rows = value.flatten(1)
            self._make(rows, self._keys, 0, pairs_of(rows.shape[1]), scale, share, (self.step, number))
        self.step += 1
