r"""A student that also learns from public inputs without an answer: unanswered queries, and those nobody asked about.

FixMatch: the model labels a weakly changed input; where it gives some class at least `certainty`, it must give the same
class to a strongly changed copy. The loss of a step is CE(labelled) + weight CE(strong, label of weak). Estimators,
which have no steps, are taught again with their own sure labels.
Reference: Sohn et al. 2020 (FixMatch); Berthelot et al. 2020 (ReMixMatch, distribution alignment); Scudder 1965
(self-training).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, check
from .alone import NetworkShares, used
from .names import numbers
from .student import Predict, Student, Supervised, constant
from .trainings import Network, as_training

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from ..fleet.disjoint import Augment

Labels = NDArray[np.int64]
MEMORY = 0.99
"""Of the shares among guesses lately, how much a step keeps."""


@dataclass(frozen=True)
class FixMatch(Student):
    """Semi-supervised training of a network, or self-training of an estimator.

    `how` is what `Supervised` takes. A step takes the network's `batch_size` labelled records and `ratio` times as many
    others. With `align`, guesses are drawn towards the shares that classes have among the answers, so that none
    vanishes for the sake of another. `weak` and `strong` change records: by default shifted pictures, and turned and
    covered ones; for rows, nothing and exchanged features.
    """

    how: object
    certainty: float = 0.95
    weight: float = 1.0
    ratio: int = 4
    average: float = 0.995
    align: bool = True
    weak: Augment | None = None
    strong: Augment | None = None

    def __post_init__(self) -> None:
        check.probability("certainty", self.certainty)
        check.nonnegative("weight", self.weight)
        object.__setattr__(self, "ratio", check.whole("ratio", self.ratio))
        check.probability("average", self.average, one=False)

    def tried(self, x: Any, classes: int) -> None:
        Supervised(self.how).tried(x, classes)
        how, count = as_training(self.how, x, classes), np.arange(max(4 * classes, 32))
        if not isinstance(how, Network):
            return
        labels = np.where(count % 2 == 0, count // 2 % classes, -1)
        try:
            self._trained(replace(how, steps=2), x[count % len(x)], labels, np.random.default_rng(0))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise BadInput(
                f"The student raised {type(error).__name__} when tried on public records with made-up labels."
            ) from error

    def taught(self, x: object, labels: Labels, classes: int, rng: np.random.Generator) -> Predict:
        found = np.unique(labels[labels >= 0])
        if found.size < 2:
            return constant(int(found[0]) if found.size else None, classes)
        how = as_training(self.how, x, classes)
        if not isinstance(how, Network):
            return self._again(x, labels, classes, rng)
        return NetworkShares(self._trained(how, x, labels, rng), classes, how.device)

    def _again(self, x: object, labels: Labels, classes: int, rng: np.random.Generator) -> Predict:
        """Twice more with its own sure labels."""
        plain, known = Supervised(self.how), labels
        predict = plain.taught(x, known, classes, rng)
        for _ in range(2):
            shares = predict(copy.copy(x))  # an estimator may scale what it is asked in place
            sure = (labels < 0) & (shares.max(axis=1) >= self.certainty)
            known = np.where(sure, shares.argmax(axis=1), labels)
            predict = plain.taught(x, known, classes, rng)
        return predict

    def _trained(self, how: Network, x: object, labels: Labels, rng: np.random.Generator) -> nn.Module:
        import torch

        from ..fleet.disjoint import endless
        from ..fleet.fleet import _make
        from .augmentations import usual

        model = _make(how.make, int(rng.integers(2**63))).to(how.device)
        parameters = used(model, x, how.device)
        kept = copy.deepcopy(model.train())
        records = torch.as_tensor(numbers(x).astype(np.float32), device=how.device)
        target = torch.as_tensor(labels, device=how.device)
        weak, strong = usual(records)
        changes = self.weak or how.augment or weak, self.strong or strong
        optimizer = how.descent()(parameters)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, how.steps)
        generator = torch.Generator(how.device).manual_seed(int(rng.integers(2**62)))
        sizes = how.batch_size, self.ratio * how.batch_size
        orders = [
            torch.as_tensor(endless(rows, how.steps * size, rng), device=how.device).split(size)
            for rows, size in zip((np.flatnonzero(labels >= 0), np.arange(len(labels))), sizes, strict=True)
        ]
        guessed = _Shares.of(target, self.align)
        for step, (known, others) in enumerate(zip(*orders, strict=True), start=1):
            optimizer.zero_grad()
            self._loss(model, (records[known], target[known]), records[others], changes, generator, guessed).backward()
            optimizer.step()
            schedule.step()
            self._averaged(kept, model, min(self.average, step / (step + 10)))
        return kept.eval()

    def _loss(
        self,
        model: nn.Module,
        known: tuple[Tensor, Tensor],
        others: Tensor,
        changes: tuple[Augment, Augment],
        generator: torch.Generator,
        guessed: _Shares,
    ) -> Tensor:
        import torch
        from torch.nn.functional import cross_entropy

        weak, strong = changes
        with torch.no_grad():
            shares, guess = guessed(model(weak(others, generator)).softmax(1)).max(1)
        sure = (shares >= self.certainty).float()
        x, y = known
        logits = model(torch.cat((weak(x, generator), strong(others, generator))))
        told, strongly = logits.split((len(x), len(others)))
        return cross_entropy(told, y) + self.weight * (cross_entropy(strongly, guess, reduction="none") * sure).mean()

    @staticmethod
    def _averaged(kept: nn.Module, model: nn.Module, share: float) -> None:
        """kept <- share * kept + (1 - share) * model; buffers are taken as they are."""
        import torch

        with torch.no_grad():
            for mean, now in zip(kept.parameters(), model.parameters(), strict=True):
                mean.mul_(share).add_(now, alpha=1 - share)
            for state, new in zip(kept.buffers(), model.buffers(), strict=True):
                state.copy_(new)


@dataclass
class _Shares:
    """Shares that classes have among released answers, and among guesses lately.

    Every class counts one answer more than it has: one that was never given may still be there.
    """

    answers: Tensor | None
    lately: Tensor | None = None

    @classmethod
    def of(cls, target: Tensor, align: bool) -> _Shares:
        return cls(target[target >= 0].bincount() if align else None)

    def __call__(self, shares: Tensor) -> Tensor:
        """Align predicted class shares, so that over many records they match the class shares of the answers."""
        if self.answers is None:
            return shares
        wanted = shares.new_ones(shares.shape[1])
        wanted[: len(self.answers)] += self.answers
        mean = shares.mean(0)
        self.lately = mean if self.lately is None else MEMORY * self.lately + (1 - MEMORY) * mean
        aligned = shares * wanted / self.lately.clamp(min=1e-6)
        return aligned / aligned.sum(1, keepdim=True).clamp(min=1e-12)
