"""The whole flow on data that comes with scikit-learn: a plain and a private model, attacked, audited, reported."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..attacks import ATTACKS, blind_baseline
from ..audits import controls as audit_controls
from ..audits import demonstrate, play, stated
from ..audits.canary import pair, unseen
from ..audits.game import failures
from ..core import Adjacency, Claim, Control, Demonstration, Evidence, Measurement, Observations, Source, source
from ..data import load
from ..fleet import Epochs, Fleet
from ..loss import Plan
from ..reports import report
from ..train import Trained, fit
from .fleets import attacked, halves, runner
from .membership import NOT_COVERED, controls, measured
from .models import predictor
from .provenance import provenance

RUN = ("loss", "calibrated", "rmia", "lira")
CONFIDENCE = 0.95
Note = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """Public choices of the quickstart; small enough for a laptop, large enough to say something."""

    records: int = 1500
    epsilon: float = 4.0
    delta: float = 1e-5
    rate: float = 0.2
    steps: int = 100
    epochs: int = 40
    references: int = 48
    targets: int = 16
    runs: int = 1000
    plain_runs: int = 240


@dataclass(frozen=True)
class Outcome:
    """The evidence for both models and the page that shows it."""

    plain: Evidence
    private: Evidence
    page: Path
    sentence: str


def quickstart(
    folder: str | Path = "tacit-quickstart",
    *,
    rng: Source | int | np.random.Generator | None = None,
    settings: Settings | None = None,
    note: Note = lambda text: None,
) -> Outcome:
    """Train, attack, audit and report; writes report.html, plain.json, private.json and the private model's weights."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    experiment = Experiment.on_digits(settings or Settings(), source(rng), note)
    plain = experiment.plain()
    private, released = experiment.private()
    plain.save(folder / "plain.json")
    private.save(folder / "private.json")
    torch.save(released.model.state_dict(), folder / "private-model.pt")
    page = report([plain, private], folder / "report.html")
    return Outcome(plain, private, Path(page.path), page.sentence)


@dataclass(frozen=True, eq=False)
class Experiment:
    """A pool of digits, half of it members in every model, and digits that no model sees."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    test: tuple[NDArray[np.float32], NDArray[np.int64]]
    settings: Settings
    chance: Source
    note: Note

    @classmethod
    def on_digits(cls, settings: Settings, chance: Source, note: Note) -> Experiment:
        data = load("digits")
        pool, rest = np.split(chance.permutation(len(data.x)), [settings.records])
        return cls(data.x[pool], data.y[pool], (data.x[rest], data.y[rest]), settings, chance, note)

    def plain(self) -> Evidence:
        """Ordinary training: nothing is claimed, and the attacks show why."""
        s, schedule = self.settings, Epochs(self.settings.epochs, 32)
        fleet = Fleet(network, lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))
        self.note(f"plain: training {s.references} models")
        member = halves(len(self.x), s.references, self.chance)
        models = fleet.train(self.x, self.y, member, schedule, rng=self.chance)
        found, measurement_controls = self._attacked("plain", models.observations(self.x, self.y, member))
        nothing = stated((math.inf, s.delta), delta=s.delta)
        shown, audit_tests = self._audited("plain", fleet, schedule, nothing, member[:, 0], s.plain_runs)
        return Evidence(
            subject="digits, plain",
            demonstrations=shown,
            measurements=found,
            utility={"test accuracy": float(models.accuracy(*self.test)[: s.targets].mean())},
            controls=(*measurement_controls, *audit_tests),
            not_covered=NOT_COVERED,
            threat={"released": "final model", "attacker sees": "outputs on chosen records"},
            provenance=provenance(self.chance, data="scikit-learn digits", references=s.references),
        )

    def private(self) -> tuple[Evidence, Trained]:
        """DP-SGD with a proven bound: the same records, the same network, the same attacks."""
        s = self.settings
        plan = Plan(s.records // 2, s.rate, s.steps, 1.0).calibrated(epsilon=s.epsilon, delta=s.delta)
        member = halves(len(self.x), s.references, self.chance)
        self.note(f"private: training with noise multiplier {plan.noise_multiplier:.3f} for epsilon {s.epsilon:g}")
        start = _seeded_network(self.chance)
        released = self._release(copy.deepcopy(start), plan, member[:, 0])
        self.note(f"private: training {s.references - 1} models like it")
        models = Fleet(network, large_steps).train(self.x, self.y, member[:, 1:], plan, rng=self.chance)
        logits = np.concatenate((predictor(released.model)(self.x)[:, None], models.logits(self.x)), axis=1)
        seen = Observations.from_logits(logits, self.y, member=member)
        found, measurement_controls = self._attacked("private", seen)
        claim = stated(plan, delta=s.delta)
        fleet = Fleet(lambda: copy.deepcopy(start), large_steps)  # initial parameters are public
        shown, audit_tests = self._audited("private", fleet, plan, claim, member[:, 0], s.runs)
        right = predictor(released.model)(self.test[0]).argmax(1) == self.test[1]
        evidence = released.evidence.with_(
            subject="digits, private",
            claim=claim,
            demonstrations=shown,
            measurements=found,
            utility={"test accuracy": float(right.mean())},
            controls=(*measurement_controls, *audit_tests),
            not_covered=(*NOT_COVERED, *released.evidence.not_covered),
            threat={"released": "final model", "attacker sees": "outputs on chosen records"},
            provenance={
                **released.evidence.provenance,
                **provenance(self.chance, data="scikit-learn digits", references=s.references),
            },
        )
        return evidence, released

    def _release(self, model: nn.Module, plan: Plan, member: NDArray[np.bool_]) -> Trained:
        data, optimizer = (self.x[member], self.y[member]), large_steps(list(model.parameters()))
        return fit(model, data, plan, optimizer=optimizer, rng=self.chance, delta=self.settings.delta)

    def _attacked(self, name: str, seen: Observations) -> tuple[tuple[Measurement, ...], tuple[Control, ...]]:
        s = self.settings
        self.note(f"{name}: attacking {s.targets} models with {s.references - 1} references each")
        found = measured(attacked(seen, RUN, s.targets), CONFIDENCE)
        first, others = seen.select(models=[0]), seen.select(models=np.arange(1, seen.models))
        baseline, blind = blind_baseline(self.x, first.need("member")[:, 0], self.chance, confidence=CONFIDENCE)
        return (*found, baseline), (*controls(ATTACKS["lira"], first, others, self.chance), blind)

    def _audited(
        self, name: str, fleet: Fleet, schedule: Epochs | Plan, claim: Claim, member: NDArray[np.bool_], runs: int
    ) -> tuple[tuple[Demonstration, ...], tuple[Control, ...]]:
        """The target's own records with and without one canary, in `runs` models."""
        self.note(f"{name}: auditing with {runs} models")
        game = pair(self.x[member], self.y[member], unseen, self.chance.generator(), Adjacency.ADD_REMOVE)
        scores = play(runner(fleet, game, schedule, self.chance), runs, self.chance)
        shown = demonstrate(
            scores,
            claim=claim,
            confidence=CONFIDENCE,
            rng=self.chance,
            game="runs",
            canary="unseen",
            planned=runs,
            failed=failures(scores),
        )
        return shown, (audit_controls.null(scores, self.chance), audit_controls.planted_leak(scores, self.chance))


def network() -> nn.Module:
    """64 pixels, 32 hidden units, 10 digits."""
    return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


def large_steps(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    """Clipped gradients are short and noise averages out: a large learning rate without momentum."""
    return torch.optim.SGD(parameters, lr=2.0)


def _seeded_network(chance: Source) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(chance.words(1)[0] >> np.uint64(1)))
        return network()
