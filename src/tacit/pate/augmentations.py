"""Augmentations: random changes of training records that keep their class."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..fleet import RecordWise


@dataclass(frozen=True)
class Affine(RecordWise):
    """Pictures (..., channels, height, width) turned, scaled and moved at random, and partly covered.

    `shift` is a share of the width, `turn` is in degrees, `zoom` is a share. `cover` is the side of a blank square as a
    share of the width. `contrast` is the most that a picture's contrast grows or falls by.
    """

    shift: float = 0.07
    turn: float = 0.0
    zoom: float = 0.0
    cover: float = 0.0
    contrast: float = 0.0

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        pictures = x.flatten(0, x.dim() - 4)
        grid = torch.nn.functional.affine_grid(self._matrices(len(pictures), x, generator), list(pictures.shape), False)
        moved = torch.nn.functional.grid_sample(pictures, grid, padding_mode="border", align_corners=False)
        if self.contrast:
            middle = moved.mean(dim=(1, 2, 3), keepdim=True)
            factor = 1 + self.contrast * _between(len(moved), x, generator).view(-1, 1, 1, 1)
            moved = middle + (moved - middle) * factor
        if self.cover:
            moved = self._covered(moved, generator)
        return moved.view_as(x)

    def _matrices(self, count: int, x: Tensor, generator: torch.Generator) -> Tensor:
        angle = math.radians(self.turn) * _between(count, x, generator)
        size = 1 + self.zoom * _between(count, x, generator)
        across, down = (2 * self.shift * _between(count, x, generator) for _ in range(2))
        cos, sin = size * angle.cos(), size * angle.sin()
        return torch.stack((torch.stack((cos, -sin, across), 1), torch.stack((sin, cos, down), 1)), 1)

    def _covered(self, x: Tensor, generator: torch.Generator) -> Tensor:
        height, width = x.shape[-2:]
        rows = torch.arange(height, device=x.device).view(1, -1, 1)
        columns = torch.arange(width, device=x.device).view(1, 1, -1)
        middle_row = (torch.rand(len(x), 1, 1, generator=generator, device=x.device) * height).floor()
        middle_column = (torch.rand(len(x), 1, 1, generator=generator, device=x.device) * width).floor()
        half = self.cover * width / 2
        blank = ((rows - middle_row).abs() < half) & ((columns - middle_column).abs() < half)
        return torch.where(blank[:, None], x.mean(dim=(2, 3), keepdim=True), x)


@dataclass(frozen=True)
class Exchange:
    """Rows of a table in which a share of the features comes from other rows of the batch: for one model's batch."""

    share: float = 0.2

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        others = x[torch.randperm(len(x), generator=generator, device=x.device)]
        return torch.where(torch.rand(x.shape, generator=generator, device=x.device) < self.share, others, x)


def same(x: Tensor, generator: torch.Generator) -> Tensor:
    """Records as they are."""
    return x


def usual(x: Tensor) -> tuple[Affine | Exchange, Affine | Exchange]:
    """A weak and a strong change for pictures, or for rows."""
    if x.dim() >= 4:
        return Affine(0.05), Affine(0.12, turn=18, zoom=0.15, cover=0.4, contrast=0.5)
    return Exchange(0.0), Exchange(0.3)


def _between(count: int, x: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform in [-1, 1]."""
    return 2 * torch.rand(count, generator=generator, device=x.device, dtype=x.dtype) - 1
