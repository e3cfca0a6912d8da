"""Let records at which a model of a private fleet raises contribute nothing (soundness rule 8).

An operation on all models and records raises for all of them even if one record in one model is the cause (a matrix
without a Cholesky factor, say). The result of that pass is discarded, and each model is run by itself to find the
records at which it raises. Then the pass is repeated in a stack of the same size, with made-up records of weight zero
in those places. So the contribution of every other record to every other model stays the same to the last bit. A model
that raises on made-up records too, for example because its parameters have become infinite, learns nothing in this
step.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..train.clip.capture.errors import stops
from ..train.clip.capture.made_up import made_up
from ..train.clip.capture.total import failing
from ..train.clip.replaced import PUBLIC, drawn_alike, replaced
from .device import Batch, Gradients
from .stack import Stack

Sums = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class WithoutFailing:
    """Compute gradients by `gradients`. If that raises, leave out the (model, record) pairs at which `eager` raises."""

    gradients: Gradients
    eager: Gradients

    def __call__(self, models: Stack, batch: Batch) -> Sums:
        search = _Search(self, models, batch, drawn_alike(batch.x.device))
        found = search.run(self.gradients, models, batch)
        return search.without() if isinstance(found, Exception) else found


@dataclass(frozen=True, eq=False)
class _Search:
    """One step of a stack that raised; `alike` restores the random state in which it did."""

    how: WithoutFailing
    models: Stack
    batch: Batch
    alike: Any

    def run(self, gradients: Gradients, models: Stack, batch: Batch) -> Sums | Exception:
        again: AbstractContextManager[None] = self.alike()
        try:
            with again:
                return gradients(models, batch)
        except Exception as error:
            if stops(error):
                raise
            return error

    def without(self) -> Sums:
        """The sums without the pairs that raise; zero for models that raise on any input."""
        found = [self._places(k) for k in range(len(self.batch.mask))]
        good = [k for k, places in enumerate(found) if isinstance(places, Tensor)]
        if not good:  # the model raises at made-up records: nobody's values are the reason
            raise next(places for places in found if isinstance(places, Exception))
        out = torch.stack([places if isinstance(places, Tensor) else self._all() for places in found])
        sums: Sums = {name: torch.zeros_like(value) for name, value in self.models.parameters.items()}
        for group in _alike(out, good) if self.batch.y.dim() == 1 else [good]:
            for k, name, value in self._added(group, out):
                kind = torch.promote_types(sums[name].dtype, value.dtype)
                sums[name] = sums[name].to(kind)
                sums[name][k] = value
        return sums

    def _all(self) -> Tensor:
        return torch.ones(self.batch.mask.shape[1], dtype=torch.bool, device=self.batch.x.device)

    def _places(self, k: int) -> Tensor | Exception:
        """The records (B,) at which model `k` raises by itself, or what it raises on made-up records too."""
        alone, batch = _some(self.models, [k]), _row(self.batch, k)
        for turn in range(PUBLIC):
            instead = self._instead(turn)

            def tried(kept: Tensor, instead: Any = instead) -> Sums | Exception:
                return self.run(self.how.eager, alone, _with(batch, ~kept[None], instead))

            nobody = tried(~self._all())
            if not isinstance(nobody, Exception):
                return failing(lambda kept: not isinstance(tried(kept), Exception), len(self._all()), batch.x.device)
        assert isinstance(nobody, Exception)
        return nobody

    def _instead(self, turn: int) -> tuple[Tensor, Tensor]:
        """Make a random record to stand in for a failing one; each `turn` gives another."""
        x = self.batch.x if self.batch.y.dim() == 1 else self.batch.x[0]
        return made_up(x, 1, turn), torch.zeros(1, dtype=self.batch.y.dtype, device=x.device)

    def _added(self, group: list[int], out: Tensor) -> list[tuple[int, str, Tensor]]:
        """Sums of the models in `group`, in a stack of full size whose other places hold the first of them."""
        index = [k if k in group else group[0] for k in range(len(out))]
        for turn in range(PUBLIC):
            rows = _with(_row(self.batch, index), out[index], self._instead(turn))
            found = self.run(self.how.gradients, _some(self.models, index), rows)
            if not isinstance(found, Exception):
                return [(k, name, value[k]) for k in group for name, value in found.items()]
        return [item for k in group for item in self._alone(k, out)]

    def _alone(self, k: int, out: Tensor) -> list[tuple[int, str, Tensor]]:
        """Sums of one model in a stack of size one: dropout may make it raise in a larger stack only."""
        rows = _with(_row(self.batch, [k]), out[[k]], self._instead(0))
        found = self.run(self.how.eager, _some(self.models, [k]), rows)
        return [] if isinstance(found, Exception) else [(k, name, value[0]) for name, value in found.items()]


def _alike(out: Tensor, good: list[int]) -> list[list[int]]:
    """Group the models by the set of records that they leave out; a group shares one batch."""
    groups: dict[bytes, list[int]] = {}
    for k in good:
        groups.setdefault(out[k].cpu().numpy().tobytes(), []).append(k)
    return list(groups.values())


def _some(models: Stack, places: list[int]) -> Stack:
    return models.like({name: value[places] for name, value in models.parameters.items()})


def _row(batch: Batch, places: int | list[int]) -> Batch:
    """The batch of the models at `places`."""
    places = [places] if isinstance(places, int) else places
    shared = batch.y.dim() == 1
    return Batch(batch.x if shared else batch.x[places], batch.y if shared else batch.y[places], batch.mask[places])


def _with(batch: Batch, out: Tensor, instead: tuple[Tensor, Tensor]) -> Batch:
    """The batch with a made-up record, of weight zero, in the places `out` (K, B)."""
    if batch.y.dim() == 1:
        x, y = replaced((batch.x, batch.y), out[0], instead)
    else:
        pairs = [replaced((a, b), places, instead) for a, b, places in zip(batch.x, batch.y, out, strict=True)]
        x, y = (torch.stack(parts) for parts in zip(*pairs, strict=True))
    return Batch(x, y, batch.mask & ~out)
