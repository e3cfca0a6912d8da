"""Networks for CIFAR in the three families of Nasr et al. 2019, at any width, and the loop that trains them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn


def alexnet(classes: int, width: float = 1.0) -> nn.Module:
    """Five convolutions and one linear layer: AlexNet cut down to 32 x 32 pictures, at twice the width it is asked for.

    Without normalisation a narrow one does not train.
    """
    a, b, c, d = (max(8, int(min(1.0, 2 * width) * size)) for size in (64, 192, 384, 256))
    return nn.Sequential(
        nn.Conv2d(3, a, 11, 4, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(a, b, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(b, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, d, 3, padding=1), nn.ReLU(),
        nn.Conv2d(d, d, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(d, classes),
    )  # fmt: skip


def _convolution(inside: int, out: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inside, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True))


class Residual(nn.Module):
    """x + two convolutions of x."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_convolution(channels, channels), _convolution(channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def resnet(classes: int, width: float = 1.0) -> nn.Module:
    """A convolution, then three stages of a halving one and two around a shortcut: ten in all."""
    a, b, c, d = (max(8, int(width * size)) for size in (32, 64, 128, 256))
    return nn.Sequential(
        _convolution(3, a), _convolution(a, b, 2), Residual(b), _convolution(b, c, 2), Residual(c),
        _convolution(c, d, 2), Residual(d), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(d, classes),
    )  # fmt: skip


class Dense(nn.Module):
    """Layers that each see everything before them."""

    def __init__(self, channels: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_convolution(channels + k * growth, growth) for k in range(layers)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat((x, layer(x)), dim=1)
        return x


def densenet(classes: int, width: float = 1.0) -> nn.Module:
    """Three dense blocks of four layers with halving convolutions between them."""
    growth = max(4, int(32 * width))
    parts: list[nn.Module] = [_convolution(3, 2 * growth, 2)]
    channels = 2 * growth
    for last in (False, False, True):
        parts.append(Dense(channels, growth, 4))
        channels += 4 * growth
        if not last:
            parts.append(_convolution(channels, channels // 2, 2))
            channels //= 2
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


ARCHITECTURES = {"alexnet": alexnet, "resnet": resnet, "densenet": densenet}
LEARNING_RATES = {"alexnet": 0.05, "resnet": 0.1, "densenet": 0.1}


def train(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    epochs: int,
    lr: float,
    batch: int,
    augment: bool,
    generator: torch.Generator,
    after: Callable[[int], None] = lambda epoch: None,
) -> nn.Module:
    """SGD with momentum 0.9, weight decay 5e-4 and a learning rate that rises for a fifth of the time, then falls.

    `x` and `y` lie on the model's device. On a GPU arithmetic is bfloat16. `after` is called with each finished epoch.
    """
    device, steps = x.device, epochs * math.ceil(len(y) / batch)
    moves = torch.Generator(device).manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
    rates = np.interp(np.arange(steps), [0, max(steps // 5, 1), steps], [lr / 10, lr, 0.0])
    step = 0
    for epoch in range(1, epochs + 1):
        model.train()
        for rows in torch.split(torch.randperm(len(y), generator=generator).to(device), batch):
            seen = augmented(x[rows], moves) if augment else x[rows]
            seen = seen.contiguous(memory_format=torch.channels_last)
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = nn.functional.cross_entropy(model(seen).float(), y[rows])
            optimizer.param_groups[0]["lr"] = float(rates[step])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        after(epoch)
    return model.eval()


def augmented(x: Tensor, generator: torch.Generator) -> Tensor:
    """Mirrored half of the time, and moved by up to four pixels."""
    count, size = len(x), x.shape[-1]
    down, right, mirror = (torch.randint(0, most, (count,), generator=generator, device=x.device) for most in (9, 9, 2))
    padded = nn.functional.pad(x, (4, 4, 4, 4))
    columns = torch.arange(size, device=x.device).expand(count, size)
    columns = torch.where(mirror[:, None] > 0, size - 1 - columns, columns) + right[:, None]
    rows = torch.arange(size, device=x.device) + down[:, None]
    taken = padded.gather(2, rows[:, None, :, None].expand(-1, x.shape[1], -1, padded.shape[3]))
    return taken.gather(3, columns[:, None, None, :].expand(-1, x.shape[1], size, -1))


def answers(model: nn.Module, x: Tensor, *, batch: int = 1000) -> Tensor:
    """Logits, in float32 throughout: a margin rounded to bfloat16 would tie the surest members."""
    model.eval()
    with torch.no_grad():
        return torch.cat([model(part) for part in torch.split(x, batch)])
