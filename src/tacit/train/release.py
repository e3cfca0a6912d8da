r"""What leaves a step: (S + N(0, (z C (1 + r))^2 I)) / (rate * public_size), as the gradients of the parameters.

S is the clipped sum, C the clip norm, z the noise multiplier; r is how far rounding may carry a contribution beyond C
(soundness rule 11). Noise in float32 is one flat draw, correlated over steps where the plan has bands; noise on a grid
is whole numbers (`grid`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..core import BadInput
from ..loss import Adaptive, Plan
from .clip.arrays import ROUNDING
from .correlated import Correlated
from .gaussian import Normals
from .grid import Grid

KINDS = ("float32", "grid")


class Release:
    """Adds noise to a sum, divides by the public expected batch and hands the result to the optimizer."""

    def __init__(self, plan: Plan, parameters: Mapping[str, Tensor], precision: str, noise: str) -> None:
        if noise not in KINDS:
            raise BadInput(f"noise must be 'float32' or 'grid', got {noise!r}.")
        self.plan, self.parameters, self.rounding = plan, list(parameters.values()), ROUNDING[precision]
        self.count = sum(tensor.numel() for tensor in self.parameters)
        self.device = self.parameters[0].device
        self.normals = Normals(self.device)
        self.correlated = Correlated(plan.bands)
        self.grid = self._grid() if noise == "grid" else None

    def _grid(self) -> Grid:
        if isinstance(self.plan.clipping, Adaptive) or self.plan.bands > 1:
            raise BadInput(
                "Noise on a grid goes with a clip norm that stays and independent noise.",
                fix='Use other clipping than "adaptive", and bands=1.',
            )
        return Grid(self.count, self.plan.clip_norm, self.plan.noise_multiplier, self.rounding)

    def noise(self, key: bytes | Tensor, clip_norm: float) -> Tensor | None:
        """What one step adds, already divided; none yet where it is made together with the sum."""
        if self.grid is not None or self._together():
            return None
        flat = torch.empty(self.count, device=self.device)
        self.fill(flat, key, clip_norm)
        self.correlated(flat)
        return flat

    def fill(self, flat: Tensor, key: bytes | Tensor, clip_norm: float) -> None:
        """Independent noise of one step, already divided."""
        self.normals.fill(flat, key, self._scale(clip_norm))

    def __call__(self, total: list[Tensor], flat: Tensor | None, key: bytes | Tensor, clip_norm: float) -> None:
        """Gradients from a sum by parameter; an empty one stands for zero."""
        expected = self.plan.expected_batch
        if flat is not None:
            noisy = self.views(flat)
            if total:
                torch._foreach_add_(noisy, total, alpha=1 / expected)
        else:
            assert isinstance(key, bytes)
            if self.grid is not None:
                flat = (self.grid.noisy(total, self.count, key) / expected).to(self.device, torch.float32)
                noisy = self.views(flat)
            else:
                noisy = self._own(total)
                self.normals.add([one.view(-1) for one in noisy], key, self._scale(clip_norm), 1 / expected)
        self.hand_over(noisy)

    def hand_over(self, noisy: list[Tensor]) -> None:
        """Gradients for the optimizer."""
        for parameter, gradient in zip(self.parameters, noisy, strict=True):
            parameter.grad = gradient.to(parameter.dtype)

    def steady(self) -> bool:
        """Whether noise is independent from step to step, of one scale, and on no grid."""
        return self.grid is None and self.plan.bands == 1 and not isinstance(self.plan.clipping, Adaptive)

    def _together(self) -> bool:
        """On a processor noise that is independent goes to the sum piece by piece, out of the cache."""
        return self.device.type == "cpu" and self.plan.bands == 1

    def _scale(self, clip_norm: float) -> float:
        return self.plan.noise_multiplier * clip_norm * (1 + self.rounding) / self.plan.expected_batch

    def views(self, flat: Tensor) -> list[Tensor]:
        """Parts of one flat draw, in the shapes of the parameters."""
        parts = flat.split([tensor.numel() for tensor in self.parameters])
        return [part.view(tensor.shape) for part, tensor in zip(parts, self.parameters, strict=True)]

    def _own(self, total: list[Tensor]) -> list[Tensor]:
        """The sums in memory of their own, as a rule where they lie already: the gradients are made in it.

        They were the last memory that the step asked for, and while they stay, as autograd's gradients do, what lies
        below is not given back to the system to be asked for again.
        """
        if not total:
            return [torch.zeros(tensor.shape, device=self.device) for tensor in self.parameters]
        if len({tensor.untyped_storage().data_ptr() for tensor in total}) < len(total):
            total = [tensor.clone() for tensor in total]
        return [tensor.contiguous() for tensor in total]
