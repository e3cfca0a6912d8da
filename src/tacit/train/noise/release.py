r"""What leaves a step: (S + N(0, (z C (1 + r))^2 I)) / (rate * public_size), as the gradients of the parameters.

S is the clipped sum, C the clip norm, z the noise multiplier. r is how far rounding may carry a contribution beyond C,
sums over records included (`clip.rounding`, soundness rules 11 and 24). On a grid sums are exact. Noise in float32 is
one flat draw, correlated over steps where the plan has bands; noise on a grid is whole numbers (`grid`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ...core import BadInput
from ...loss import Adaptive, Plan
from ..clip.rounding import OWN, ROUNDING
from .correlated import Correlated
from .gaussian import Normals, add
from .grid import Grid
from .joined import Joined

KINDS = ("float32", "grid")
PADDING = 1 / 64
"""The share of a sum's storage that may lie behind it (a vocabulary is padded to a multiple of eight)."""


class Release:
    """Add noise to a sum, divide by the public expected batch size, and hand the result to the optimizer."""

    def __init__(self, plan: Plan, parameters: Mapping[str, Tensor], precision: str, noise: str) -> None:
        if noise not in KINDS:
            raise BadInput(f"noise must be 'float32' or 'grid', got {noise!r}.")
        self.plan, self.parameters, self.rounding = plan, list(parameters.values()), ROUNDING[precision]
        self.own_rounding = OWN[precision]
        self.count = sum(tensor.numel() for tensor in self.parameters)
        self.device = self.parameters[0].device
        self.normals = Normals(self.device)
        self.correlated = Correlated(plan.bands)
        self.grid = self._grid() if noise == "grid" else None
        self._tables: Joined | None = None

    def _grid(self) -> Grid:
        if isinstance(self.plan.clipping, Adaptive) or self.plan.bands > 1:
            raise BadInput(
                "Noise on a grid goes with a clip norm that stays and independent noise.",
                fix='Use other clipping than "adaptive", and bands=1.',
            )
        return Grid(self.count, self.plan.clip_norm, self.plan.noise_multiplier, self.own_rounding)

    def noise(self, key: bytes | Tensor, clip_norm: float) -> Tensor | None:
        """The noise of one step, already divided; None if it is independent, and is added while it is drawn."""
        if self.plan.bands == 1:
            return None
        flat = torch.empty(self.count, dtype=torch.float32, device=self.device)
        self.normals.fill(flat, key, self._scale(clip_norm))
        self.correlated(flat)
        return flat

    def __call__(self, total: list[Tensor], flat: Tensor | None, key: bytes | Tensor, clip_norm: float) -> None:
        """Set gradients from a sum by parameter; an empty list stands for zero."""
        expected = self.plan.expected_batch
        if flat is not None:
            noisy = self.views(flat)
            if total:
                torch._foreach_add_(noisy, total, alpha=1 / expected)
        elif self.grid is not None:
            assert isinstance(key, bytes)
            noisy = self.views((self.grid.noisy(total, self.count, key) / expected).to(self.device, torch.float32))
        else:
            noisy = self.own(total)
            if isinstance(key, bytes) and self.device.type == "cpu":
                self.normals.add([one.view(-1) for one in noisy], key, self._scale(clip_norm), 1 / expected)
            else:
                self.into(self.joined(noisy), key, clip_norm)
        self.hand_over(noisy)

    def into(self, joined: Joined, key: bytes | Tensor, clip_norm: float) -> None:
        """Add independent noise to a device's sums in place, which turns them into gradients."""
        add(joined, key, self._scale(clip_norm), 1 / self.plan.expected_batch)

    def joined(self, sums: list[Tensor]) -> Joined:
        """The sums as one array; valid until the next call."""
        self._tables = self._tables or self.tables()
        return self._tables.at(sums)

    def tables(self) -> Joined:
        """Tables for sums that the caller keeps."""
        return Joined([tensor.numel() for tensor in self.parameters], self.device)

    def hand_over(self, noisy: list[Tensor]) -> None:
        """Give the gradients to the optimizer."""
        for parameter, gradient in zip(self.parameters, noisy, strict=True):
            parameter.grad = gradient if gradient.dtype is parameter.dtype else gradient.to(parameter.dtype)

    def withdraw(self) -> None:
        """Take the gradients back, of a step that was broken off before it was counted."""
        for parameter in self.parameters:
            parameter.grad = None

    def steady(self) -> bool:
        """Whether noise is independent from step to step, of constant scale, and not on a grid."""
        return self.grid is None and self.plan.bands == 1 and not isinstance(self.plan.clipping, Adaptive)

    def _scale(self, clip_norm: float) -> float:
        return self.plan.noise_multiplier * clip_norm * (1 + self.rounding) / self.plan.expected_batch

    def views(self, flat: Tensor) -> list[Tensor]:
        """Slices of one flat draw, in the shapes of the parameters."""
        parts = flat.split([tensor.numel() for tensor in self.parameters])
        return [part.view(tensor.shape) for part, tensor in zip(parts, self.parameters, strict=True)]

    def own(self, total: list[Tensor]) -> list[Tensor]:
        """The sums in memory of their own, usually where they are already; they become the gradients in place.

        They were the last allocation of the step. While they stay, like autograd's gradients, the memory below them is
        not returned to the system and mapped again. That memory must hold gradients only, because saving a tensor saves
        its whole storage.
        """
        if not total:
            return [torch.zeros(tensor.shape, dtype=torch.float32, device=self.device) for tensor in self.parameters]
        total = [tensor.contiguous() for tensor in total]
        memory = [tensor.untyped_storage() for tensor in total]
        places = [one.data_ptr() for one in memory]
        if len(set(places)) == len(total) and all(m.nbytes() == t.nbytes for m, t in zip(memory, total, strict=True)):
            return total
        inside: dict[int, list[Tensor]] = {}
        for place, tensor in zip(places, total, strict=True):
            inside.setdefault(place, []).append(tensor)
        kept = {place: _wiped(sums) for place, sums in inside.items()}
        return [tensor if kept[place] else tensor.clone() for place, tensor in zip(places, total, strict=True)]


def _wiped(sums: list[Tensor]) -> bool:
    """Whether sums in one storage are adjacent and nearly fill it; the little behind them is set to zero."""
    memory = sums[0].untyped_storage()
    start, size = memory.data_ptr(), memory.nbytes()
    spans = sorted((tensor.data_ptr() - start, tensor.data_ptr() - start + tensor.nbytes) for tensor in sums)
    firsts, lasts = zip(*spans, strict=True)
    if firsts != (0, *lasts[:-1]) or size - lasts[-1] > size * PADDING:
        return False
    if lasts[-1] < size:
        torch.empty(0, dtype=torch.uint8, device=sums[0].device).set_(memory)[lasts[-1] :].zero_()
    return True
