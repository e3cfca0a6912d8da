"""Rules for layers with parameters in a stack of K models.

Activations have features first and the batch after them: (K, features, B) or (K, channels, B, height, width). This
makes matrix products long and lets softmax run over a middle axis. A tensor that all models share has no axis K. A rule
splits a layer into the input that the weight multiplies (`seen`) and the product (`output`). From these it computes
norms and sums of per-example gradients, and avoids writing them out where that is possible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules

from ..core.errors import BadInput
from ..train.clip.rounding import inner_error
from .certified import Counted, length_of, of_sums
from .patches import patches_of


class Rule(ABC):
    """The rule of one layer, for all models. "Errors" are gradients of the loss with respect to `output`."""

    rank: int
    """Number of axes of `seen` where all models share it."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer

    @abstractmethod
    def seen(self, hidden: Tensor, shared: bool) -> Tensor:
        """The input that the weight multiplies."""

    @abstractmethod
    def output(self, seen: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The product, (K, out, B) or (K, out, B, positions)."""

    def shaped(self, output: Tensor, hidden: Tensor) -> Tensor:
        """The output in the shape that the next layer expects."""
        return output

    @abstractmethod
    def counted(self, seen: Tensor, error: Tensor) -> Counted:
        """Upper bounds (K, B) on the norms of the weight's per-example gradients."""

    def counted_bias(self, error: Tensor) -> Counted:
        """Upper bounds (K, B) on the norms of the bias's per-example gradients: errors summed over positions."""
        rows = error.shape[2]
        if error.dim() == 3:
            return Counted(length := length_of(error, 1), length, rows)
        reach, positions = length_of(error, 1).sum(-1), error.shape[3]
        return Counted(of_sums(length_of(error.sum(3), 1), reach, positions), reach, rows * positions)

    @abstractmethod
    def sums(self, seen: Tensor, error: Tensor) -> Tensor:
        """The weight's gradients summed over examples."""

    def is_shared(self, seen: Tensor) -> bool:
        return seen.dim() == self.rank


class Linear(Rule):
    r"""y = W a. A per-example gradient is an outer product, |e a^T|^2 = |e|^2 |a|^2 (Goodfellow 2015)."""

    rank = 2

    def seen(self, hidden: Tensor, shared: bool) -> Tensor:
        if hidden.dim() != (2 if shared else 3):
            raise BadInput("A linear layer of a fleet takes one vector per record.", fix="Put Flatten before it.")
        return hidden

    def output(self, seen: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.is_shared(seen):  # one product for all models
            product = (weight.flatten(0, 1) @ seen).unflatten(0, weight.shape[:2])
            return product if bias is None else product + bias[..., None]
        return torch.bmm(weight, seen) if bias is None else torch.baddbmm(bias[..., None], weight, seen)

    def counted(self, seen: Tensor, error: Tensor) -> Counted:
        length = length_of(error, 1) * length_of(seen, -2)
        return Counted(length, length, error.shape[2])

    def sums(self, seen: Tensor, error: Tensor) -> Tensor:
        if self.is_shared(seen):
            return (error.flatten(0, 1) @ seen.T).unflatten(0, error.shape[:2])
        return torch.bmm(error, seen.transpose(1, 2))


class Convolution(Rule):
    r"""y_s = W p_s for the patches p_s of an image. The squared norm of the gradient \sum_s e_s p_s^T is computed from
    the gradient itself, or as \sum_st (e_s.e_t)(p_s.p_t) where that costs less.
    """

    rank = 3
    layer: nn.Conv2d

    def seen(self, hidden: Tensor, shared: bool) -> Tensor:
        kernel, stride, padding = (
            (int(size[0]), int(size[1])) for size in (self.layer.kernel_size, self.layer.stride, self.layer.padding)
        )
        return patches_of(hidden, kernel, stride, padding)

    def output(self, seen: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        flat, columns = weight.flatten(2), seen.flatten(-2)
        if self.is_shared(seen):
            product = (flat.flatten(0, 1) @ columns).unflatten(0, flat.shape[:2])
        else:
            product = torch.bmm(flat, columns)
        product = product.unflatten(2, seen.shape[-2:])
        return product if bias is None else product + bias[..., None, None]

    def shaped(self, output: Tensor, hidden: Tensor) -> Tensor:
        layer = self.layer
        pads = [int(pad) for pad in layer.padding]
        sizes = [
            (side + 2 * pad - size) // step + 1
            for side, pad, size, step in zip(hidden.shape[-2:], pads, layer.kernel_size, layer.stride, strict=True)
        ]
        return output.unflatten(-1, sizes)

    def counted(self, seen: Tensor, error: Tensor) -> Counted:
        reach = (length_of(error, 1) * length_of(seen, -3)).sum(-1)
        return Counted(self._length(seen, error, reach), reach, error.shape[2] * error.shape[3])

    def _length(self, seen: Tensor, error: Tensor, reach: Tensor) -> Tensor:
        """Norms (K, B), with a margin for the rounding in the sum over positions, for either way of computing it."""
        (_, rows, _, positions), columns = error.shape, seen.shape[-3]
        if self.is_shared(seen):  # (B, K out, positions) times (B, positions, patch)
            each = error.flatten(0, 1).transpose(0, 1) @ seen.permute(1, 2, 0)
            written = each.unflatten(1, error.shape[:2]).transpose(0, 1)
        else:
            errors, patches = error.transpose(1, 2), seen.transpose(1, 2)
            if positions**2 <= rows * columns:
                errors, patches = errors.double(), patches.double()
                found = ((errors.mT @ errors) * (patches.mT @ patches)).sum((2, 3)).clamp(min=0)
                return (found + inner_error(rows + columns, positions, torch.float64) * reach.square()).sqrt()
            written = errors @ patches.mT
        return of_sums(length_of(written.flatten(2), 2), reach, positions)

    def sums(self, seen: Tensor, error: Tensor) -> Tensor:
        errors, patches = error.flatten(2), seen.flatten(-2)
        if self.is_shared(seen):
            found = (errors.flatten(0, 1) @ patches.T).unflatten(0, error.shape[:2])
        else:
            found = torch.bmm(errors, patches.transpose(1, 2))
        return found.unflatten(2, (self.layer.in_channels, *self.layer.kernel_size))


class Normalisation(Rule):
    """y = w x' where x' are features normalised in groups, each record by itself."""

    rank = 3
    layer: nn.GroupNorm | nn.LayerNorm

    def seen(self, hidden: Tensor, shared: bool) -> Tensor:
        features = 0 if shared else 1
        flat = hidden.flatten(features + 2) if hidden.dim() > features + 2 else hidden[..., None]
        groups = self.layer.num_groups if isinstance(self.layer, nn.GroupNorm) else 1
        parts = flat.unflatten(features, (groups, -1))
        over = (features + 1, features + 3)
        spread, mean = torch.var_mean(parts, over, correction=0, keepdim=True)
        return ((parts - mean) * (spread + self.layer.eps).rsqrt()).flatten(features, features + 1)

    def output(self, seen: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        product = seen * weight[..., None, None]
        return product if bias is None else product + bias[..., None, None]

    def shaped(self, output: Tensor, hidden: Tensor) -> Tensor:
        spatial = hidden.shape[2:] if hidden.dim() in (2, 4) else hidden.shape[3:]
        return output.unflatten(-1, spatial) if spatial else output[..., 0]

    def counted(self, seen: Tensor, error: Tensor) -> Counted:
        each = error * seen
        reach, positions = length_of(each.abs().sum(-1), 1), each.shape[3]
        return Counted(of_sums(length_of(each.sum(-1), 1), 2 * reach, positions), 2 * reach, each.shape[2] * positions)

    def sums(self, seen: Tensor, error: Tensor) -> Tensor:
        return (error * seen).sum((-2, -1))


def changed(layer: nn.Module) -> bool:
    """Whether a module does more than its class: by hooks in the forward pass, or by a `forward` of its own."""
    hooks = layer._forward_hooks, layer._forward_pre_hooks
    every = modules._global_forward_hooks, modules._global_forward_pre_hooks
    return "forward" in vars(layer) or any(map(bool, (*hooks, *every)))


def rule_of(layer: nn.Module, *, flat: bool) -> Rule | None:
    """The rule of a layer, or None; `flat` says that the layer gets one vector per record."""
    if type(layer) is nn.Linear:
        return Linear(layer)
    if type(layer) is nn.Conv2d and _plain(layer) and not flat:
        return Convolution(layer)
    if type(layer) is nn.GroupNorm and layer.affine:
        return Normalisation(layer)
    if type(layer) is nn.LayerNorm and layer.elementwise_affine and flat and len(layer.normalized_shape) == 1:
        return Normalisation(layer)
    return None


def _plain(layer: nn.Conv2d) -> bool:
    kind = layer.groups, layer.dilation, layer.padding_mode, isinstance(layer.padding, str)
    return kind == (1, (1, 1), "zeros", False)
