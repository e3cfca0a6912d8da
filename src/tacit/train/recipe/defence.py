"""Defences without a proof: training objectives meant to make members look like others.

None of them is a differential-privacy mechanism and none claims an epsilon. They are here to be measured beside DP-SGD,
with the strongest attack and on the most vulnerable records (Aerni et al. 2024: weak measurements flatter them).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...core import BadInput, Source, check, source
from ..sample.columns import as_tensors

MakeOptimizer = Callable[[list[Tensor]], torch.optim.Optimizer]
Pair = tuple[Tensor, Tensor]
Randomness = Source | int | np.random.Generator | None


def _adam(parameters: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=1e-3)


class Defence(ABC):
    """A training objective: one number for a batch, and what else happens around a step."""

    needs_reference = False

    @abstractmethod
    def loss(self, model: nn.Module, x: Tensor, y: Tensor, chance: np.random.Generator) -> Tensor:
        """The objective on one batch."""

    def prepared(self, classes: int, device: torch.device) -> Defence:
        """What one training run uses: a defence with a state of its own makes it here."""
        return self

    def between(self, model: nn.Module, members: Pair, others: Pair | None) -> None:
        """Called before every step with the batch, and as many reference records."""
        return


@dataclass(frozen=True)
class Plain(Defence):
    """Cross-entropy: no defence."""

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, chance: np.random.Generator) -> Tensor:
        return F.cross_entropy(model(x), y)


@dataclass(frozen=True)
class LabelSmoothing(Defence):
    """Cross-entropy against (1 - amount) of the label and `amount` spread over all classes (Szegedy et al. 2016)."""

    amount: float = 0.1

    def __post_init__(self) -> None:
        check.probability("amount", self.amount, zero=False, one=False)

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, chance: np.random.Generator) -> Tensor:
        return F.cross_entropy(model(x), y, label_smoothing=self.amount)


@dataclass(frozen=True)
class Mixup(Defence):
    """Batches of l x_i + (1 - l) x_j with both labels, l from Beta(strength, strength) (Zhang et al. 2018)."""

    strength: float = 1.0

    def __post_init__(self) -> None:
        check.positive("strength", self.strength)

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, chance: np.random.Generator) -> Tensor:
        share, order = float(chance.beta(self.strength, self.strength)), torch.as_tensor(chance.permutation(len(y)))
        order = order.to(y.device)
        logits = model(share * x + (1 - share) * x[order])
        return share * F.cross_entropy(logits, y) + (1 - share) * F.cross_entropy(logits, y[order])


@dataclass(frozen=True)
class EarlyStopping(Defence):
    """Cross-entropy until the loss on a held-out `share` has not fallen for `patience` epochs; the best one is kept."""

    share: float = 0.1
    patience: int = 3

    def __post_init__(self) -> None:
        check.probability("share", self.share, zero=False, one=False)
        check.whole("patience", self.patience)

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, chance: np.random.Generator) -> Tensor:
        return F.cross_entropy(model(x), y)


@dataclass(frozen=True)
class AdversarialRegularisation(Defence):
    r"""Train against an attacker who is trained at the same time (Nasr, Shokri and Houmansadr 2018).

    min_f mean [loss(f(x), y) + weight log h(x, y, f(x))] over members, where the attacker h takes `attack_steps` steps
    before each. Its aim is max_h mean log h on members + mean log(1 - h) on reference records, which are not trained
    on.
    """

    weight: float = 1.0
    attack_steps: int = 3
    _attacker: _Attacker | None = field(default=None, repr=False, compare=False)
    needs_reference = True

    def __post_init__(self) -> None:
        check.nonnegative("weight", self.weight)
        check.whole("attack_steps", self.attack_steps)

    def prepared(self, classes: int, device: torch.device) -> AdversarialRegularisation:
        return AdversarialRegularisation(self.weight, self.attack_steps, _Attacker(classes).to(device))

    def between(self, model: nn.Module, members: Pair, others: Pair | None) -> None:
        assert self._attacker is not None
        assert others is not None
        with torch.no_grad():
            shown = [(model(x).softmax(1), y) for x, y in (members, others)]
        for _ in range(self.attack_steps):
            self._attacker.learn(*shown)

    def loss(self, model: nn.Module, x: Tensor, y: Tensor, chance: np.random.Generator) -> Tensor:
        assert self._attacker is not None
        logits = model(x)
        gain = F.logsigmoid(self._attacker(logits.softmax(1), y)).mean()
        return F.cross_entropy(logits, y) + self.weight * gain


class _Attacker(nn.Module):
    """h: the answer and the label, each through layers of its own, then together to the log-odds of membership."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.answer = nn.Sequential(nn.Linear(classes, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.label = nn.Sequential(nn.Linear(classes, 64), nn.ReLU())
        self.together = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)

    def forward(self, answer: Tensor, y: Tensor) -> Tensor:
        label = self.label(F.one_hot(y, self.classes).to(answer.dtype))
        return self.together(torch.cat((self.answer(answer), label), dim=1))[:, 0]

    def learn(self, members: Pair, others: Pair) -> None:
        self.optimizer.zero_grad()
        loss = -F.logsigmoid(self(*members)).mean() - F.logsigmoid(-self(*others)).mean()
        loss.backward()
        self.optimizer.step()


def defend(
    model: nn.Module,
    data: object,
    defence: Defence,
    *,
    epochs: int,
    batch_size: int = 64,
    optimizer: MakeOptimizer = _adam,
    reference: object = None,
    rng: Randomness = None,
) -> nn.Module:
    """Train a classifier on `data` (x, y) under a defence and return it, in evaluation mode.

    `reference` (x, y) are records like the members that are not trained on; only `AdversarialRegularisation` needs
    them. Deterministic given `rng`, for a model without dropout.

    Guarantee: none. Measure what is left with `tacit.attack`.
    """
    check.whole("epochs", epochs)
    check.whole("batch_size", batch_size)
    device = next(model.parameters()).device
    chance = source(rng).generator()
    members, others = _pair("data", data, device), None
    if defence.needs_reference:
        if reference is None:
            raise BadInput(f"{type(defence).__name__} needs reference=(x, y), records that are not trained on.")
        others = _pair("reference", reference, device)
    held = None
    if isinstance(defence, EarlyStopping):
        held, members = _held_out(members, defence.share, chance)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(chance.integers(2**62)))
        with torch.no_grad():
            classes = model(members[0][:1]).shape[1]
        run = defence.prepared(classes, device)
    watch = _Watch(model, held, getattr(defence, "patience", epochs))
    step = optimizer(list(model.parameters()))
    for _ in range(epochs):
        model.train()
        for rows in torch.as_tensor(chance.permutation(len(members[1])), device=device).split(batch_size):
            batch = members[0][rows], members[1][rows]
            run.between(model, batch, None if others is None else _drawn(others, len(rows), chance))
            step.zero_grad()
            run.loss(model, *batch, chance).backward()
            step.step()
        if watch.over():
            break
    return watch.best().eval()


class _Watch:
    """The weights of the epoch with the least held-out loss; without held-out records, the last ones."""

    def __init__(self, model: nn.Module, held: Pair | None, patience: int) -> None:
        self._model, self._held, self._patience = model, held, patience
        self._least, self._since = float("inf"), 0
        self._state: dict[str, object] | None = None

    def over(self) -> bool:
        if self._held is None:
            return False
        self._model.eval()
        with torch.no_grad():
            found = float(F.cross_entropy(self._model(self._held[0]), self._held[1]))
        self._since += 1
        if found < self._least:
            self._least, self._since, self._state = found, 0, copy.deepcopy(self._model.state_dict())
        return self._since >= self._patience

    def best(self) -> nn.Module:
        if self._state is not None:
            self._model.load_state_dict(self._state)
        return self._model


def _pair(name: str, data: object, device: torch.device) -> Pair:
    found = as_tensors(data)
    if not isinstance(found, tuple) or len(found) != 2 or len(found[0]) != len(found[1]) or not len(found[1]):
        raise BadInput(f"{name} must be a pair (x, y) of one length, not empty.")
    return found[0].to(device, torch.float32), found[1].to(device, torch.int64)


def _held_out(members: Pair, share: float, chance: np.random.Generator) -> tuple[Pair, Pair]:
    count = len(members[1])
    first = max(1, int(share * count))
    if first >= count:
        raise BadInput("Early stopping needs at least two records.")
    order = torch.as_tensor(chance.permutation(count), device=members[1].device)
    held, kept = order[:first], order[first:]
    return (members[0][held], members[1][held]), (members[0][kept], members[1][kept])


def _drawn(others: Pair, count: int, chance: np.random.Generator) -> Pair:
    rows = torch.as_tensor(chance.integers(len(others[1]), size=count), device=others[1].device)
    return others[0][rows], others[1][rows]
