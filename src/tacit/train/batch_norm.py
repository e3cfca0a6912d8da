"""Batch normalisation: refused where it mixes examples, kept where its statistics are frozen, or replaced.

With frozen statistics (eval mode) a layer maps every example by itself, y = (x - mean) / sqrt(var + eps) w + b, and its
w and b can be trained. With the statistics of the batch at hand, every example's gradient depends on all others.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..core import BadInput
from ..core.global_randomness import turn

PLAIN = {kind.forward for kind in (_BatchNorm, nn.SyncBatchNorm)}
"""Forward functions that normalise and do nothing else."""
FIX = (
    "Call tacit.train.replace_batch_norm(model), which puts group normalisation in its place, or keep the statistics "
    "of public data it was trained on: tacit.train.freeze_batch_norm(model), which calls eval() on these layers."
)


def check_batch_norm(model: nn.Module) -> None:
    """Refuse layers that would use the statistics of a batch."""
    for name, layer in _layers(model):
        if layer.running_mean is None or layer.running_var is None:
            raise BadInput(
                f"Layer {name} is batch normalisation without kept statistics, which mixes the examples of a batch.",
                fix="Call tacit.train.replace_batch_norm(model), which puts group normalisation in its place.",
            )
        if layer.training:
            raise BadInput(
                f"Layer {name} is batch normalisation in training mode, which mixes the examples of a batch.", fix=FIX
            )


def freeze_batch_norm(model: nn.Module) -> nn.Module:
    """Put every batch normalisation in eval mode, where it uses its kept statistics, and return the model.

    `fit`, `private` and the adapters keep such layers in eval mode, also where `model.train()` is called later.
    Caller ensures: the statistics do not come from the private data.
    """
    for _, layer in _layers(model):
        layer.eval()
    return model


class Frozen:
    """The batch normalisations of a model that are in eval mode; `keep` returns them to it after `model.train()`."""

    def __init__(self, model: nn.Module) -> None:
        self.layers = [layer for _, layer in _layers(model) if not layer.training]

    def keep(self) -> None:
        for layer in self.layers:
            if layer.training:
                layer.eval()


def _layers(model: nn.Module) -> Iterator[tuple[str, _BatchNorm]]:
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm):
            yield name or "model", module


class GroupNormThen(nn.GroupNorm):
    """Group normalisation, followed by the modules that the replaced layer ran after normalising, under their names."""

    def forward(self, input: Tensor) -> Tensor:
        found = super().forward(input)
        for module in self.children():
            found = module(found)
        return found


def replace_batch_norm(model: nn.Module, *, channels: int = 16) -> nn.Module:
    """Exchange every batch normalisation for group normalisation, in place, and return the model.

    Groups hold about `channels` channels each; scale and shift are kept, running statistics are dropped. What a layer
    of another library does after normalising (activation, dropout) is kept where it is made of modules of the layer;
    a layer that does something else is refused. Make the optimizer afterwards: the layers' parameters are new.
    """
    for name, layer in _layers(model):
        if type(layer).forward not in PLAIN and not _only_modules_follow(layer):
            raise BadInput(
                f"Layer {name} ({type(layer).__name__}) does more than normalise, in code of its own.",
                fix="Put a group normalisation and that code in its place yourself, or use freeze_batch_norm(model).",
            )
    return _replaced(model, channels, {})


def _replaced(module: nn.Module, channels: int, known: dict[int, nn.Module]) -> nn.Module:
    """Replace a layer; one that is used in several places stays a single layer."""
    if id(module) in known:
        return known[id(module)]
    if isinstance(module, _BatchNorm):
        known[id(module)] = _group_norm(module, channels)
        return known[id(module)]
    known[id(module)] = module
    for name, child in list(module._modules.items()):
        if child is not None and (found := _replaced(child, channels, known)) is not child:
            setattr(module, name, found)
    return module


def _group_norm(layer: _BatchNorm, channels: int) -> nn.GroupNorm:
    features = layer.num_features
    groups = math.gcd(features, max(1, features // channels))
    kind = GroupNormThen if layer._modules else nn.GroupNorm
    new = kind(groups, features, eps=layer.eps, affine=False)
    new.affine = layer.affine
    for name in ("weight", "bias"):
        old = getattr(layer, name)
        own = None if old is None else nn.Parameter(old.detach().clone(), requires_grad=old.requires_grad)
        new.register_parameter(name, own)
    for name, child in layer.named_children():
        new.add_module(name, child)
    new.training = layer.training
    return new


def _only_modules_follow(layer: _BatchNorm) -> bool:
    """Whether a layer's forward is its normalisation followed by its modules in order, tested on made-up inputs.

    A copy of the layer with random parameters and statistics is run in training and in eval mode.
    """
    twin = copy.deepcopy(layer).float().cpu()
    with turn(), torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        x = 2 * torch.randn(3, layer.num_features, *_space(layer)) - 0.5
        for value in (*twin.parameters(recurse=False), *twin.buffers(recurse=False)):
            if value.is_floating_point():
                value.uniform_(0.5, 2)
        return all(_follows(twin.train(training), x) for training in (True, False))


def _space(layer: _BatchNorm) -> tuple[int, ...]:
    """The number of axes, besides examples and channels, of an input for this layer."""
    if isinstance(layer, nn.BatchNorm1d):
        return ()
    return (4, 4, 4) if isinstance(layer, nn.BatchNorm3d) else (4, 4)


def _follows(layer: _BatchNorm, x: Tensor) -> bool:
    batch = layer.training or layer.running_mean is None
    statistics = (None, None) if batch else (layer.running_mean, layer.running_var)
    expected = F.batch_norm(x, *statistics, layer.weight, layer.bias, batch, 0.0, layer.eps)
    try:
        torch.manual_seed(1)
        found = layer(x.clone())
        torch.manual_seed(1)
        for module in layer.children():
            expected = module(expected)
    except (RuntimeError, ValueError, TypeError, AttributeError):
        return False
    return isinstance(found, Tensor) and found.shape == expected.shape and torch.allclose(found, expected, atol=1e-5)
