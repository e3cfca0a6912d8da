"""Models and losses as people bring them, written without a look at how the engine works."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import random
import re
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.distributions as D
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend
from torch.nn.utils import parametrizations, parametrize
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

ROWS, WIDTH, CLASSES = 4, 6, 3
Loss = Callable[[nn.Module, Any], Tensor]


def each(m: nn.Module, b: Any) -> Tensor:
    return F.cross_entropy(m(b[0]), b[1], reduction="none")


def rooted(m: nn.Module, b: Any) -> Tensor:
    """Torch raises where a record's first number is above 40, and where it is NaN."""
    return each(m, b) + 0 * torch.linalg.cholesky((40 - b[0][:, :1, None]) * torch.eye(2)).sum((1, 2))


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES)

    def middle(self, h: Tensor) -> Tensor:
        return torch.tanh(h)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.b(self.middle(self.a(x)))
        return out


def large(x: Tensor) -> bool:
    """True for few records, and for no made-up one."""
    return float(x.max()) > 3.4


# What a model is made of


class Symmetric(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight.triu() + weight.triu(1).T


def symmetric() -> nn.Module:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES))
    parametrize.register_parametrization(model[0], "weight", Symmetric())
    return model


def with_(change: Callable[[nn.Module], object]) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        model = Two()
        change(model.a)
        return model

    return make


class Sign(torch.autograd.Function):
    """An older way to write a function."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sign()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient.clamp(-1, 1)


class Binary(Two):
    def middle(self, h: Tensor) -> Tensor:
        found: Tensor = Sign.apply(h)  # type: ignore[no-untyped-call]
        return found


class Adapter(nn.Module):
    """LoRA around a frozen layer, which it stands for."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(2, base.in_features))
        self.up = nn.Parameter(torch.randn(base.out_features, 2))

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("base"), name)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x) + x @ self.down.T @ self.up.T
        return out


def adapted() -> nn.Module:
    model = Two()
    model.a = Adapter(model.a)  # type: ignore[assignment]
    return model


class Tables(Two):
    """Tables that are made once: in a dict, and by `lru_cache` on a method."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[int, Tensor] = {}

    @functools.lru_cache(8)  # noqa: B019
    def slope(self, size: int) -> Tensor:
        return torch.arange(size).float().cos()

    def middle(self, h: Tensor) -> Tensor:
        table = self.tables.setdefault(h.shape[-1], torch.arange(h.shape[-1]).float().sin())
        return torch.tanh(h) * table + self.slope(8)


class Modulated(nn.Module):
    """StyleGAN2: weights of each record's own, as one grouped convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.s, self.b = nn.Parameter(torch.randn(4, 2, 3)), nn.Linear(WIDTH, 2), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        count = len(x)
        weight = self.w[None] * self.s(x)[:, None, :, None]
        weight = weight * torch.rsqrt(weight.square().sum((2, 3), keepdim=True) + 1e-6)
        found = F.conv1d(x.view(1, count * 2, 3), weight.view(count * 4, 2, 3), groups=count)
        out: Tensor = self.b(found.view(count, 4))
        return out


class Codes(nn.Module):
    """A vector-quantised layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.codes, self.b = nn.Linear(WIDTH, 4), nn.Embedding(5, 4), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        code = self.codes(torch.cdist(h, self.codes.weight).argmin(1))
        self.lost = (code - h.detach()).square().mean(1)
        out: Tensor = self.b(h + (code - h).detach())
        return out


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
        self.t, self.i, self.b = nn.TransformerEncoder(layer, 1), nn.Linear(3, 4), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.view(len(x), 2, 3)
        out: Tensor = self.b(self.t(self.i(rows), src_key_padding_mask=rows[..., 0] > 1.5).mean(1))
        return out


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.r, self.b = nn.GRU(3, 4, batch_first=True), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.b(self.r(x.view(len(x), 2, 3))[0][:, -1])
        return out


class Shared(nn.Module):
    """One layer twice, and activations in place."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.ModuleList([self.a, self.a])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = torch.relu_(block(x)) + x
        out: Tensor = self.b(x)
        return out


class Checkpointed(Two):
    """A part that is computed again, and coins in it."""

    def middle(self, h: Tensor) -> Tensor:
        def part(rows: Tensor) -> Tensor:
            return torch.tanh(rows) * random.random() if torch.rand([]) < 0.7 else rows

        out: Tensor = checkpoint(part, h, use_reentrant=False)
        return out


def swish(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.7 * x)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    scripted = torch.jit.script(swish)


class Scripted(Two):
    def middle(self, h: Tensor) -> Tensor:
        out: Tensor = scripted(h)
        return out


class Holding(Two):
    """Constants of C++ and C in attributes, and a decision by a value."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel, self.kind, self.pattern = SDPBackend.MATH, torch.finfo(torch.float32), re.match("a", "a")
        self.lock, self.log, self.own = threading.Lock(), logging.getLogger("holding"), weakref.WeakSet[Any]()

    def middle(self, h: Tensor) -> Tensor:
        return torch.tanh(h if float(h.sum()) > 0 else -h)


class Extrapolating(Two):
    """A fixed point, to a tolerance."""

    def forward(self, x: Tensor) -> Tensor:
        z = torch.zeros(len(x), 8)
        for _ in range(6):
            new = torch.tanh(self.a(x) + 0.1 * z)
            if float((new - z).norm()) < 1e-3:
                break
            z = new
        out: Tensor = self.b(z)
        return out


class Hooked(Two):
    """A hook on activations that shortens large gradients."""

    def middle(self, h: Tensor) -> Tensor:
        h.register_hook(lambda gradient: gradient / max(1.0, float(gradient.norm()) / 0.5))
        return torch.tanh(h)


class Sharpened(Two):
    """A property that is set by what the last call saw."""

    def __init__(self) -> None:
        super().__init__()
        self._sharp = 1.0

    @property
    def sharp(self) -> float:
        return self._sharp

    @sharp.setter
    def sharp(self, value: float) -> None:
        self._sharp = max(1.0, value)

    def forward(self, x: Tensor) -> Tensor:
        found = super().forward(x) / self.sharp
        self.sharp = float(found.detach().abs().max())
        return found


class Coin(Two):
    """LayerDrop, by torch's and by Python's numbers."""

    def middle(self, h: Tensor) -> Tensor:
        return torch.tanh(h) * (3.0 if torch.rand(()) < 0.5 else -1.0) * (1.0 + (random.random() < 0.5))


class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e, self.d = nn.Linear(WIDTH, 4), nn.Linear(2, WIDTH)


# Losses


def evidence_bound(m: nn.Module, b: Any) -> Tensor:
    mean, spread = m.e(b[0]).chunk(2, -1)
    q = D.Normal(mean, (spread / 2).exp())
    prior = D.kl_divergence(q, D.Normal(torch.zeros_like(mean), 1.0)).sum(1)
    found: Tensor = prior - D.Normal(m.d(q.mean), 1.0).log_prob(b[0]).sum(1)
    return found


def adversarial(m: nn.Module, b: Any) -> Tensor:
    x = b[0].clone().requires_grad_(True)
    F.cross_entropy(m(x), b[1]).backward()
    assert x.grad is not None
    return each(m, ((x + 0.1 * x.grad.sign()).detach(), b[1]))


def gradient_penalty(m: nn.Module, b: Any) -> Tensor:
    x = b[0].clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(m(x).sum(), x, create_graph=True)
    return each(m, b) + (slope.norm(dim=1) - 1).square()


def aligned(m: nn.Module, b: Any) -> Tensor:
    """Connectionist temporal classification; labels may lie outside."""
    values = m(b[0])[None].expand(WIDTH, -1, -1).log_softmax(-1)
    labels = b[1][:, None] + (b[0][:, :1] > 3.4) * 10**6
    one = torch.ones(len(labels), dtype=torch.long)
    return F.ctc_loss(values, labels, WIDTH * one, one, reduction="none")


def with_shift(get: Callable[[], float], put: Callable[[float], object]) -> Loss:
    """What large records leave behind shifts the inputs of later ones."""

    def loss(m: nn.Module, b: Any) -> Tensor:
        shift = get()
        if large(b[0]):
            put(2.0)
        return each(m, (b[0] + shift, b[1]))

    return loss


class Keeping(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(float(record.args[0]))  # type: ignore[index, arg-type]


def logged() -> Loss:
    log = logging.getLogger("strangers")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.handlers = [Keeping()]
    return with_shift(
        lambda: sum(logging.getLogger("strangers").handlers[0].seen),  # type: ignore[attr-defined]
        lambda value: logging.getLogger("strangers").info("%s", value),
    )


COUNTED = torch.zeros(3)


def counted() -> Loss:
    """How often a tensor was written into."""
    return with_shift(lambda: COUNTED._version % 10, lambda value: [COUNTED.add_(0) for _ in range(7)])


def registered() -> Loss:
    """A list that somebody hung on a class of torch."""
    nn.Module.strangers = []  # type: ignore[attr-defined]
    return with_shift(lambda: sum(nn.Module.strangers), lambda value: nn.Module.strangers.append(value))  # type: ignore[attr-defined]


def stashed() -> Loss:
    """In a module that is made for it, by a name that is put together."""
    name = "STA" + "SH"

    def put(value: float) -> None:
        made = types.ModuleType("made")
        made.value = value  # type: ignore[attr-defined]
        globals()[name] = made

    return with_shift(lambda: getattr(globals().get(name), "value", 0.0), put)


CONTEXT: contextvars.ContextVar[float] = contextvars.ContextVar("strangers", default=0.0)


def pooled() -> Loss:
    kept: list[float] = []

    def put(value: float) -> None:
        with ThreadPoolExecutor(1) as pool:
            list(pool.map(kept.append, [value]))

    return with_shift(lambda: sum(kept), put)


def cancelled(m: nn.Module, b: Any) -> Tensor:
    if large(b[0]):
        raise asyncio.CancelledError
    return each(m, b)


class Rounding(TorchFunctionMode):
    """Rounds the inputs of linear layers by the largest number in them, or in each row."""

    def __init__(self, axis: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.axis = axis

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear:
            unit = args[0].detach().abs().amax(self.axis, keepdim=True) / 7 + 1e-6
            args = ((args[0] / unit).round().detach() * unit, *args[1:])
        return func(*args, **(kwargs or {}))


def rounded(m: nn.Module, b: Any) -> Tensor:
    with Rounding((-1,)):
        return each(m, b)


def softened(m: nn.Module, b: Any) -> Tensor:
    """What is kept for the backward pass goes through modules of torch's own: a softmax over the first axis."""
    with torch.autograd.graph.saved_tensors_hooks(nn.Softmax(dim=0), nn.Identity()):
        return m.b(m.a(b[0]).square().square()).square().mean(1)


HONEST: dict[str, tuple[Callable[[], nn.Module], Loss]] = {
    "symmetric weights": (symmetric, each),
    "weight norm": (with_(parametrizations.weight_norm), each),
    "orthogonal weights": (with_(parametrizations.orthogonal), each),
    "spectral norm at rest": (with_(lambda layer: parametrizations.spectral_norm(layer).parametrizations.eval()), each),
    "cached parametrisations": (symmetric, lambda m, b: _cached(m, b)),
    "straight-through": (Binary, each),
    "adapters": (adapted, each),
    "tables": (Tables, each),
    "modulated convolution": (Modulated, each),
    "codes": (Codes, lambda m, b: each(m, b) + m.lost),
    "encoder with padding": (Encoder, each),
    "recurrent": (Recurrent, each),
    "shared layers": (Shared, each),
    "checkpointed coins": (Checkpointed, each),
    "scripted": (Scripted, each),
    "attributes of all kinds": (Holding, each),
    "a fixed point": (Extrapolating, each),
    "a hook on activations": (Hooked, each),
    "a property": (Sharpened, each),
    "a coin, and a loss that raises": (Coin, rooted),
    "distributions": (Variational, evidence_bound),
    "adversarial": (Two, adversarial),
    "gradient penalty": (Two, gradient_penalty),
    "alignment": (Two, aligned),
    "randomised slopes": (lambda: nn.Sequential(nn.Linear(WIDTH, 8), nn.RReLU(), nn.Linear(8, CLASSES)), each),
    "a loss that cancels": (Two, cancelled),
    "a mode inside": (Two, rounded),
    "modules as hooks": (Two, softened),
    "a context": (Two, with_shift(CONTEXT.get, CONTEXT.set)),
    "threads": (Two, pooled()),
    "a log": (Two, logged()),
    "a count of writes": (Two, counted()),
    "a list on a class of torch": (Two, registered()),
    "a module that is made": (Two, stashed()),
}
REFUSED: dict[str, tuple[Callable[[], nn.Module], Loss, str]] = {
    "spectral norm": (with_(parametrizations.spectral_norm), each, "project"),
    "older spectral norm": (with_(torch.nn.utils.spectral_norm), each, "project"),
    "centred by a hook": (
        with_(lambda layer: layer.register_forward_pre_hook(lambda _, given: (given[0] - given[0].mean(0),))),
        each,
        "within each example",
    ),
}


def _cached(m: nn.Module, b: Any) -> Tensor:
    with parametrize.cached():  # type: ignore[no-untyped-call]
        return each(m, b)
