r"""An audit of backpropagation clipping with fleets: who says (0.21, 1e-5), and is it true?

D and D' are the records with and without one canary; a run trains a model, and its score is how far the final
parameters have moved along the canary's own gradient. The others' batch order is shared by all runs of a game, the
canary's inclusion is drawn per (model, step), so the amplified claim may be tested (soundness rule 16).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..audits import Choice, demonstrate, null, planted_leak, stated
from ..audits.canary import CANARIES, pair
from ..audits.demonstration import chosen
from ..audits.scoring import balanced, scored
from ..core import Adjacency, Calibration, Claim, Evidence, Scores, Source
from ..fleet import Fleet, Models
from ..loss import Plan
from .backpropagation import Clipping, network
from .provenance import provenance

Parameters = dict[str, Tensor]
REFERENCES = 256
"""Runs without the canary by which the direction of its gradient is found."""
NOT_COVERED = (
    "an audit tests one pair of data sets; it can refute a claim, never prove one",
    "the training code audited is the example of this case study, with its bug planted",
)


@dataclass(frozen=True)
class Variant:
    """How a training departs from its plan: gradients divided before they are clipped, noise that is too small."""

    name: str
    divides_first: bool = False
    noise_too_small: float = 1.0


VARIANTS = (
    Variant("right"),
    Variant("bound applied after dividing by the batch size", divides_first=True),
    Variant("noise 1.2 times too small", noise_too_small=1.2),
    Variant("noise 2 times too small", noise_too_small=2.0),
    Variant("noise 3 times too small", noise_too_small=3.0),
)


@dataclass(frozen=True, eq=False)
class CaseStudy:
    """Records, the plan that is claimed, and the clipping that is to keep it."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    plan: Plan
    clipping: Clipping
    start: nn.Module
    learning_rate: float = 0.5
    device: str = "cpu"
    models_at_once: int = 64
    references: int = REFERENCES

    @classmethod
    def of(
        cls, x: NDArray[np.float32], y: NDArray[np.int64], *, claim: tuple[float, float], rate: float, steps: int,
        hidden: int, chance: Source, device: str = "cpu", models_at_once: int = 64,
    ) -> CaseStudy:  # fmt: skip
        """A network and a plan that keeps the claim, with the canary as the last record.

        The canary is a record of one pixel that no other has: nothing but noise covers its trace.
        """
        clipping = Clipping(inputs=(1.0, 0.2), outputs=(0.05, 0.1))
        plan = Plan(len(x), rate, steps, 1.0, clip_norm=clipping.sensitivity)
        x = x.reshape(len(x), -1)
        game = pair(x, y, CANARIES["unseen"], chance.generator(), Adjacency.ADD_REMOVE)
        start = network(x.shape[1], hidden, int(y.max()) + 1, chance)
        return cls(
            *game.data(True), plan.calibrated(epsilon=claim[0], delta=claim[1]), clipping, start.to(device),
            device=device, models_at_once=models_at_once,
        )  # fmt: skip

    def train(self, variant: Variant, coins: NDArray[np.bool_], chance: Source) -> Models:
        """One model per coin; those with a true coin also learn the canary."""
        member = np.ones((len(self.x), coins.size), dtype=bool)
        member[-1] = coins
        plan = replace(self.plan, noise_multiplier=self.plan.noise_multiplier / variant.noise_too_small)
        divided_by = self.plan.expected_batch if variant.divides_first else 1.0
        fleet = Fleet(
            self.start,
            lambda parameters: torch.optim.SGD(parameters, lr=self.learning_rate / self.plan.clip_norm),
            models_at_once=self.models_at_once,
            device=self.device,
            stack=replace(self.clipping, divided_by=divided_by).stack,
            precision="tf32",
        )
        return fleet.train(self.x, self.y, member, plan, own=[len(self.x) - 1], rng=chance)

    def direction(self, models: Models) -> Parameters:
        """The canary's step at the start and at the mean of models that never saw it: the mean of the two."""
        ends = [{name: value.detach()[None] for name, value in self.start.named_parameters()}, _mean(models)]
        x = torch.as_tensor(self.x[-1:], device=self.device)
        y = torch.as_tensor(self.y[-1:], device=self.device)
        weight = torch.ones((1, 1), device=self.device)
        steps = [self.clipping.stack(self.start, end).gradients(x, y, weight) for end in ends]
        return {name: -(steps[0][name] + steps[1][name]) / 2 for name in steps[0]}

    def play(self, variant: Variant, runs: int, direction: Parameters, chance: Source, first: int = 0) -> Scores:
        """The game: half of the runs with the canary, each scored by its final parameters."""
        coins = balanced(runs, chance)
        models = self.train(variant, coins, chance)
        moved = torch.cat([_along(part.parameters, direction) for part in models.stacks])
        return scored(moved.double().cpu().numpy(), coins, attack="moved along the canary", first=first)

    def evidence(
        self, variant: Variant, claim: Claim, first: Scores, scores: Scores, *, confidence: float, chance: Source
    ) -> Evidence:
        """What the judged `scores` say of a claim, at the threshold chosen on the `first`, which are other runs."""
        choice: Choice = chosen(Calibration(first), claim, confidence)
        shown = demonstrate(
            scores, claim=claim, confidence=confidence, rng=chance, game="runs", canary="unseen",
            planned=len(scores), failed=0, choice=choice, adjacency=Adjacency.ADD_REMOVE,
        )  # fmt: skip
        return Evidence(
            subject=variant.name,
            claim=claim,
            demonstrations=shown,
            controls=(null(scores, chance), planted_leak(scores, chance)),
            not_covered=NOT_COVERED,
            threat={"released": "the final model", "attacker sees": "its parameters"},
            provenance=provenance(chance, chosen_on=len(first), records=len(self.x) - 1),
        )

    def claims(self, pair: tuple[float, float]) -> dict[str, Claim]:
        """The claim as somebody states it, and as the event that their code is said to be."""
        return {"pair": stated(pair, delta=pair[1]), "event": stated(self.plan, delta=pair[1])}


def _mean(models: Models) -> Parameters:
    none = torch.zeros(())
    total = {
        name: sum((part.parameters[name].sum(0) for part in models.stacks), none)
        for name in models.stacks[0].parameters
    }
    return {name: value[None] / len(models) for name, value in total.items()}


def _along(parameters: Parameters, direction: Parameters) -> Tensor:
    parts = [(value * direction[name]).flatten(1).sum(1) for name, value in parameters.items()]
    return torch.stack(parts).sum(0)
