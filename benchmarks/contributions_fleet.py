"""Rules of fleets for the search for the largest contribution (`contributions.py`): by how much a record moves a sum.

Sides (B, T, p) and (B, T, d) are errors and inputs of one layer with a bias, in two models. A record contributes
x_i = c_i G_i, in float64 from the numbers that the layer is given; the computed sum is compared with the sum of all.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from tacit.fleet.certified import Clip
from tacit.fleet.layers import Convolution, Linear, Normalisation
from tacit.fleet.stack import LayerStack, _settled, _weighted_sum, _written

FLEETS = (
    "fleet, linear", "fleet, linear, own batches", "fleet, convolution", "fleet, convolution, own batches",
    "fleet, normalisation", "fleet, any module", "fleet, linear, many records", "fleet, convolution, many records",
)  # fmt: skip
MODELS = 2


def measured_fleet(name: str, left: Tensor, right: Tensor, clip_norm: float) -> tuple[Tensor, float]:
    """|x_i| of every record, and how far the computed sum is from theirs; of the worse model."""
    clip = Clip(torch.ones(MODELS, len(left), dtype=torch.bool), clip_norm, len(left))
    found = _any(left, right, clip) if "any module" in name else _layer(name, left, right, clip)
    lengths = found[0].flatten(2).norm(dim=2)
    return lengths.max(0).values, float((found[0].sum(1) - found[1]).flatten(1).norm(dim=1).max())


def _layer(name: str, left: Tensor, right: Tensor, clip: Clip) -> tuple[Tensor, Tensor]:
    """x_i (K, B, numbers), and the computed sums (K, numbers), weight and bias together."""
    if "linear" in name:
        left, right = left[:, :1], right[:, :1]
    error, seen = left.permute(2, 0, 1), right.permute(2, 0, 1)  # (features, B, T)
    both = torch.stack((error, error.flip(1)))
    shared = "own" not in name and "normal" not in name
    entered = seen if shared else torch.stack((seen, seen.flip(1)))
    if "normal" in name:
        width = min(both.shape[1], entered.shape[1])
        both, entered = both[:, :width], entered[:, :width]
    if "linear" in name:
        both, entered = both[..., 0], entered[..., 0]
    models = _stack(name, both.shape[1], entered.shape[-3] if both.ndim == 4 else entered.shape[-2])
    summing = models.weighed({"0": entered}, {"0": both}, clip)
    weight, sums = summing.weight, summing(partial(models.added, {"0": entered}, {"0": both}))
    flat = [sums[f"0.{one}"].double().flatten(1) for one in ("weight", "bias")]
    return _exact(name, both, entered.expand(MODELS, *entered.shape) if shared else entered, weight), torch.cat(flat, 1)


def _exact(name: str, error: Tensor, seen: Tensor, weight: Tensor) -> Tensor:
    error, seen = ((side if side.ndim == 4 else side[..., None]).double() for side in (error, seen))
    form = "kpbt,kpbt->kbp" if "normal" in name else "kpbt,kdbt->kbpd"
    parts = torch.einsum(form, error, seen).flatten(2), error.sum(3).transpose(1, 2)
    return torch.cat(parts, 2) * weight.double()[..., None]


def _stack(name: str, rows: int, columns: int) -> LayerStack:
    """One layer, by its rule alone: its forward pass is not run."""
    models = LayerStack.__new__(LayerStack)
    shape = (rows,) if "normal" in name else (rows, columns)
    models.parameters = {"0.weight": torch.zeros(MODELS, *shape), "0.bias": torch.zeros(MODELS, rows)}
    if "linear" in name:
        models._rules = {"0": Linear(nn.Linear(1, 1))}
    elif "normal" in name:
        models._rules = {"0": Normalisation(nn.GroupNorm(1, rows))}
    else:
        models._rules = {"0": Convolution(nn.Conv2d(columns, rows, 1))}
    return models


def _any(left: Tensor, right: Tensor, clip: Clip) -> tuple[Tensor, Tensor]:
    """Gradients as a module of any kind gives them: written out in float32."""
    each = torch.einsum("btp,btd->bpd", left, right)
    each = torch.stack((each, each.flip(0)))
    summing = _settled([_written(each)], clip, each.dtype)
    sums = summing(lambda weight, kind: {"0": _weighted_sum(weight, each, kind)})
    return each.double() * summing.weight.double()[..., None, None], sums["0"].double()
