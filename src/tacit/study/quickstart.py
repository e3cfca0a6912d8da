"""The whole flow on data that comes with scikit-learn: a plain and a private model, attacked, audited, reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..attacks import ATTACKS, blind_baseline
from ..audits import controls as audit_controls
from ..audits import demonstrate, play, stated
from ..audits.canary import Pair, pair, unseen
from ..audits.game import failures
from ..core import Adjacency, Claim, Control, Evidence, MissingExtra, Observations, Scores, Source, source
from ..data import Records, load
from ..loss import Plan
from .membership import NOT_COVERED, controls, measured
from .provenance import provenance

ATTACKS_RUN = ("loss", "calibrated", "rmia", "lira")
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Settings:
    """Public choices of the quickstart; small enough for a laptop, large enough to say something."""

    records: int = 1500
    epsilon: float = 4.0
    delta: float = 1e-5
    rate: float = 0.2
    steps: int = 100
    learning_rate: float = 2.0
    epochs: int = 40
    references: int = 48
    targets: int = 16
    runs: int = 1200
    plain_runs: int = 400


@dataclass(frozen=True)
class Outcome:
    """The evidence for both models and the page that shows it."""

    plain: Evidence
    private: Evidence
    folder: Path
    page: Path
    sentence: str


def quickstart(
    folder: str | Path = "tacit-quickstart",
    *,
    rng: Source | int | np.random.Generator | None = None,
    settings: Settings | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Train, attack, audit and report; writes report.html, plain.json, private.json and the private model's weights."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("quickstart") from None
    from ..reports import report

    folder, randomness, settings = Path(folder), source(rng), settings or Settings()
    data = load("digits")
    order = randomness.permutation(len(data.x))
    pool, test = order[: settings.records], order[settings.records :]
    experiment = Experiment(data, pool, test, settings, randomness, note)
    plain, private, model = experiment.plain(), *experiment.private()
    folder.mkdir(parents=True, exist_ok=True)
    for name, evidence in (("plain", plain), ("private", private)):
        evidence.save(folder / f"{name}.json")
    torch.save(model.state_dict(), folder / "private-model.pt")
    page = report([plain, private], folder / "report.html")
    return Outcome(plain, private, folder, Path(page.path), page.sentence)


@dataclass(frozen=True, eq=False)
class Experiment:
    """Digits, half of a pool as members: what is common to both models."""

    data: Records
    pool: NDArray[np.intp]
    test: NDArray[np.intp]
    settings: Settings
    randomness: Source
    note: Callable[[str], None]

    @property
    def x(self) -> NDArray[np.float32]:
        return self.data.x[self.pool]

    @property
    def y(self) -> NDArray[np.int64]:
        return self.data.y[self.pool]

    def plain(self) -> Evidence:
        """Ordinary training: nothing is claimed, and the attacks show why."""
        import torch

        from ..fleet import Epochs, Fleet
        from .fleets import halves, runner

        s = self.settings
        fleet = Fleet(network, lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))
        schedule = Epochs(s.epochs, 32)
        self.note(f"plain: training {s.references} models")
        member = halves(len(self.pool), s.references, self.randomness)
        models = fleet.train(self.x, self.y, member, schedule, rng=self.randomness)
        accuracy = models.accuracy(self.data.x[self.test], self.data.y[self.test])[: s.targets].mean()
        self.note(f"plain: auditing with {s.plain_runs} models")
        game = self._pair(member[:, 0])
        scores = play(runner(fleet, game, schedule, self.randomness), s.plain_runs, self.randomness)
        claim = stated((float("inf"), s.delta), delta=s.delta)
        evidence = self._evidence("plain", claim, models.observations(self.x, self.y, member), scores)
        return evidence.with_(claim=None, utility={"test accuracy": float(accuracy)})

    def private(self) -> tuple[Evidence, Any]:
        """DP-SGD with a proven bound: the same records, the same network, the same attacks."""
        import torch

        from ..fleet import Fleet
        from ..train import fit
        from .fleets import halves, runner

        s = self.settings
        members = s.records // 2
        design = Plan(members, s.rate, s.steps, 1.0).calibrated(epsilon=s.epsilon, delta=s.delta)
        self.note(f"private: training with noise multiplier {design.noise_multiplier:.3f} for epsilon {s.epsilon:g}")
        member = halves(len(self.pool), s.references, self.randomness)
        torch.manual_seed(int(self.randomness.words(1)[0] >> np.uint64(1)))
        mine = member[:, 0]
        model = network()
        optimizer = sgd(s.learning_rate)(model.parameters())
        released = fit(model, (self.x[mine], self.y[mine]), design, optimizer=optimizer, rng=self.randomness)
        self.note(f"private: training {s.references - 1} models like it")
        fleet = Fleet(network, sgd(s.learning_rate))
        models = fleet.train(self.x, self.y, member[:, 1:], design, rng=self.randomness)
        logits = np.concatenate((_logits(released.model, self.x)[:, None], models.logits(self.x)), axis=1)
        seen = Observations.from_logits(logits, self.y, member=member)
        right = _logits(released.model, self.data.x[self.test]).argmax(1) == self.data.y[self.test]
        self.note(f"private: auditing with {s.runs} models")
        scores = play(runner(fleet, self._pair(mine), design, self.randomness), s.runs, self.randomness)
        evidence = self._evidence("private", stated(design, delta=s.delta), seen, scores)
        return evidence.with_(utility={"test accuracy": float(right.mean())}), released.model

    def _pair(self, member: NDArray[np.bool_]) -> Pair:
        """The target's own records, with and without one record that has a pixel no digit has."""
        x, y = self.x[member], self.y[member]
        return pair(x, y, unseen, self.randomness.generator(), Adjacency.ADD_REMOVE)

    def _evidence(self, name: str, claim: Claim, seen: Observations, scores: Scores) -> Evidence:
        from .fleets import attacked

        s = self.settings
        self.note(f"{name}: attacking {s.targets} models with {s.references - 1} references each")
        found = attacked(seen, ATTACKS_RUN, s.targets)
        first = seen.select(models=[0])
        others = seen.select(models=np.arange(1, seen.models))
        baseline, blind = blind_baseline(self.x, first.need("member")[:, 0], self.randomness, confidence=CONFIDENCE)
        shown = demonstrate(
            scores,
            claim=claim,
            confidence=CONFIDENCE,
            rng=self.randomness,
            game="runs",
            canary="unseen",
            planned=s.runs if name == "private" else s.plain_runs,
            failed=failures(scores),
        )
        audit: tuple[Control, ...] = (
            audit_controls.null(scores, self.randomness),
            audit_controls.planted_leak(scores, self.randomness),
        )
        return Evidence(
            subject=f"digits, {name}",
            claim=claim,
            demonstrations=shown,
            measurements=(*measured(found, CONFIDENCE), baseline),
            controls=(*controls(ATTACKS["lira"], first, others, self.randomness), blind, *audit),
            not_covered=NOT_COVERED,
            threat={"released": "final model", "attacker sees": "outputs on chosen records"},
            provenance=provenance(self.randomness, data="scikit-learn digits", references=s.references),
            scores=tuple(found),
        )


def network() -> Any:
    """64 pixels, 32 hidden units, 10 digits."""
    from torch import nn

    return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


def sgd(learning_rate: float) -> Callable[..., Any]:
    """Plain gradient descent: an optimizer for any parameters."""
    import torch

    return lambda parameters: torch.optim.SGD(parameters, lr=learning_rate)


def _logits(model: Any, x: NDArray[np.float32]) -> NDArray[np.float64]:
    from .models import predictor

    return predictor(model)(x)
