r"""White-box audit of our own training: one run, many canaries whose gradients are single coordinates.

A canary is a record whose gradient is one coordinate of a layer that no other record touches. It is far above the clip
norm, so that it moves the sum by exactly C whenever it is sampled. An observer of all updates sees that coordinate at
every step as z N(0, 1), plus 1 with probability q if the canary is in the data, in units of C. The score is the sum
over the steps of

    log(1 - q + q exp((2 v - 1) / (2 z^2))),

the log-likelihood ratio, so no attack on one canary is better. Each canary is in by a fair coin of its own, and the
bound is that of one run (Steinke et al. 2023; Mahloujifar et al. 2024), which asks for nothing but the coins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..audits import Played, demonstrate_once, null, planted_leak
from ..audits.controls import by_guesses
from ..audits.scoring import scored
from ..core import Claim, Evidence, Source
from ..loss import Plan
from ..train import private
from .provenance import provenance

STRENGTH = 1e3
"""Of a canary's gradient before clipping, in clip norms."""
SHARE = 0.05
"""Of the canaries that is guessed: by simulation of an ideal observer, the best of 0.02 to 0.4 for 10,000 canaries."""
NOT_COVERED = (
    "an audit tests some canaries; it can refute a claim, never prove one",
    "the canaries are records of the audit's own making, with a layer of their own beside the network",
)


class Watched(nn.Module):
    """A network with one extra weight per canary, which only that canary's gradient moves."""

    def __init__(self, network: nn.Module, canaries: int) -> None:
        super().__init__()
        self.network = network
        self.trace = nn.Linear(canaries, 1, bias=False)
        nn.init.zeros_(self.trace.weight)

    def forward(self, x: Tensor, marks: Tensor) -> tuple[Tensor, Tensor]:
        return self.network(x), self.trace(marks)[:, 0]


@dataclass(frozen=True, eq=False)
class Trial:
    """Real records, a network, and the plan under which both are trained with canaries among them."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    network: nn.Module
    plan: Plan
    canaries: int
    learning_rate: float = 0.5

    def scores(self, coins: NDArray[np.bool_], chance: Source) -> NDArray[np.float64]:
        """Train once, by `tacit.private`, and score every canary by what the updates show of its coordinate."""
        model = Watched(self.network, self.canaries)
        optimizer = torch.optim.SGD(model.parameters(), lr=self.learning_rate)
        step = private(model, optimizer, self.plan, loss=self._loss, rng=chance)
        found, before = np.zeros(self.canaries), self._traces(model)
        for batch in step.batches(self._records(coins)):
            step(batch)
            after = self._traces(model)
            seen = (before - after) * self.plan.expected_batch / self.learning_rate / self.plan.clip_norm
            found, before = found + self._ratio(seen), after
        return found

    def audit(self, claim: Claim, *, confidence: float, chance: Source, share: float = SHARE) -> Evidence:
        """Evidence about a claim from one run; a claim that is not the plan's own says that something went wrong.

        `share` of the canaries is guessed.
        """
        coins = chance.coins(self.canaries)
        scores = scored(self.scores(coins, chance), coins, attack="likelihood ratio of all updates")
        played = Played("one-run", "gradient", self.canaries)
        return Evidence(
            subject="DP-SGD with gradient canaries",
            claim=claim,
            demonstrations=demonstrate_once(scores, claim=claim, confidence=confidence, played=played, share=share),
            controls=(null(scores, chance, by_guesses), planted_leak(scores, chance, by_guesses)),
            not_covered=NOT_COVERED,
            threat={"released": "all iterates", "attacker sees": "every update, and crafts the canaries' gradients"},
            provenance=provenance(chance, real_records=len(self.x), parameters=self.parameters),
        )

    @property
    def parameters(self) -> int:
        """Of the network and the traces together."""
        return sum(value.numel() for value in self.network.parameters()) + self.canaries

    def _records(self, coins: NDArray[np.bool_]) -> tuple[Tensor, Tensor, Tensor]:
        """(x, y, marks): real records have no mark, canaries are blank but for one."""
        present = np.flatnonzero(coins)
        x = np.concatenate((self.x, np.zeros((present.size, *self.x.shape[1:]), self.x.dtype)))
        marks = torch.zeros((len(x), self.canaries))
        marks[torch.arange(len(self.x), len(x)), torch.as_tensor(present)] = 1.0
        y = np.concatenate((self.y, np.zeros(present.size, self.y.dtype)))
        return torch.as_tensor(x), torch.as_tensor(y), marks

    def _loss(self, model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Cross-entropy of a real record; a canary's is its own weight, times STRENGTH clip norms."""
        x, y, marks = batch
        logits, traces = model(x, marks)
        real = 1.0 - marks.sum(dim=1)
        usual = nn.functional.cross_entropy(logits, y, reduction="none")
        return real * usual + STRENGTH * self.plan.clip_norm * traces

    def _ratio(self, seen: NDArray[np.float64]) -> NDArray[np.float64]:
        z, q = self.plan.noise_multiplier, self.plan.rate
        return np.asarray(np.logaddexp(np.log1p(-q), np.log(q) + (2 * seen - 1) / (2 * z * z)))

    def _traces(self, model: Watched) -> NDArray[np.float64]:
        return model.trace.weight.detach()[0].double().numpy().copy()
