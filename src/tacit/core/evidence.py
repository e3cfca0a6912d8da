"""Evidence: the only thing a report may read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from . import check
from .bound import Bound
from .errors import BadInput
from .events import Event
from .fault import Fault
from .files import shown, text, written
from .finding import Finding
from .histogram import Histogram, histograms
from .interval import Estimate
from .json_text import Json
from .risk import Bin, Exposure, GroupRisk, Spent
from .scores import Scores
from .shown import small, table

SCHEMA = "tacit.evidence/1"
Scalar = str | int | float | bool | None


LONGEST = 2000
"""Characters of a text that describes evidence; marks that turn the direction of writing are not printable."""
BLIND_BASELINE = "blind baseline"
"""The name of the measurement that never saw the model: it is no attack, and never the strongest."""
SHOWN_AT = "whether an attack beats guessing where it wrongly accuses"
"""How a line of `not_covered` begins that follows from an attack's curve: it is a measurement on members in words."""


class Verdict(StrEnum):
    """What the evidence says about its claim."""

    REFUTED = "refuted"
    CONSISTENT = "consistent"
    UNINFORMATIVE = "uninformative"
    UNTESTED = "untested"
    NO_CLAIM = "no claim"


@dataclass(frozen=True)
class Claim:
    """An upper bound that somebody states: proven from an `event`, or a bare (epsilon, delta) pair (`event` is None).

    `frontier` holds points (fpr, tpr) of the largest true-positive rate the claim allows.
    """

    bound: Bound
    event: Event | None = None
    frontier: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Counts:
    """What a game counted: guesses "member" among runs with (`true_positives` of `n_in`) and without the canary.

    `levels`: the same two counts at further levels of the score, from the lowest on, where a test reads several.
    """

    true_positives: int
    false_positives: int
    n_in: int
    n_out: int
    levels: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for name in ("true_positives", "false_positives", "n_in", "n_out"):
            check.whole(name, getattr(self, name), least=0)
        pairs = ((self.true_positives, self.false_positives), *self.levels)
        if not all(0 <= hits <= self.n_in and 0 <= alarms <= self.n_out for hits, alarms in pairs):
            raise BadInput("Counts must satisfy 0 <= tp <= n_in and 0 <= fp <= n_out.")
        falling = zip(self.levels, self.levels[1:], strict=False)
        if any(low[0] < high[0] or low[1] < high[1] for low, high in falling):
            raise BadInput("Counts at higher levels of the score cannot be larger than at lower ones.")

    def to_json(self) -> Json:
        told = {"tp": self.true_positives, "fp": self.false_positives, "n_in": self.n_in, "n_out": self.n_out}
        return {**told, "levels": [list(pair) for pair in self.levels]} if self.levels else told

    @classmethod
    def from_json(cls, data: Json) -> Counts:
        found = tuple(
            (check.whole("hits", a, least=0), check.whole("alarms", b, least=0)) for a, b in data.get("levels", ())
        )
        return cls(data["tp"], data["fp"], data["n_in"], data["n_out"], found)


@dataclass(frozen=True)
class Demonstration:
    """A lower bound with the counts it came from and the largest bound the same estimator could have given.

    `credible` is what a Bayesian would believe after these counts, at the bound's confidence: information, no bound.
    """

    bound: Bound
    counts: Counts
    attainable: float
    threshold: float
    game: str
    canary: str
    planned: int
    failed: int = 0
    credible: tuple[float, float] | None = None


@dataclass(frozen=True)
class Measurement:
    """What one attack found: rates with intervals and a thinned ROC curve with its band (fpr, tpr, lower, upper)."""

    attack: str
    auc: Estimate
    tpr_at_fpr: tuple[tuple[float, Estimate], ...]
    members: int
    nonmembers: int
    targets: int = 1
    roc: tuple[tuple[float, float, float, float], ...] = ()


@dataclass(frozen=True)
class Control:
    """A test of the experiment itself; a failed one makes everything else uninformative."""

    name: str
    expected: str
    found: str
    passed: bool


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that is known about one model's privacy loss, from both sides.

    `measurements` come from observed members and say nothing about differential privacy; `demonstrations` do.
    `not_covered` lists what the proof does not speak of; `threat` says what is released and what the attacker sees.
    `exposures` are the most exposed records (their names are membership information), `risk` counts all records by
    their memorisation, `groups` compares groups, `budget` is what is proven step by step.
    `caught` says with what chance the audit would have refuted each of the usual faults.
    `described` is what its owner says of it (title, owner, purpose, tuning, ...): nobody else can know.
    `histograms` show how the scores of the audit's runs fall; they are made of `scores` where none are given.
    `findings` are what attacks on a release (a table, answered queries) disclose of single people.
    """

    subject: str
    claim: Claim | None = None
    demonstrations: tuple[Demonstration, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    utility: Mapping[str, float] = field(default_factory=dict)
    controls: tuple[Control, ...] = ()
    not_covered: tuple[str, ...] = ()
    threat: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, Scalar] = field(default_factory=dict)
    scores: tuple[Scores, ...] = ()
    exposures: tuple[Exposure, ...] = ()
    risk: tuple[Bin, ...] = ()
    groups: tuple[GroupRisk, ...] = ()
    budget: tuple[Spent, ...] = ()
    caught: tuple[Fault, ...] = ()
    described: Mapping[str, str] = field(default_factory=dict)
    histograms: tuple[Histogram, ...] = ()
    findings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        for key, value in self.described.items():
            if not (isinstance(value, str) and value.isprintable() and len(value) <= LONGEST):
                raise BadInput(
                    f"What is described as {key!r} must be a text of at most {LONGEST:,} printable characters."
                )
        if self.scores and not self.histograms:
            object.__setattr__(self, "histograms", histograms(self.scores))

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The claimed upper bound, if any, and every demonstrated lower one."""
        proven = () if self.claim is None else (self.claim.bound,)
        return proven + tuple(item.bound for item in self.demonstrations)

    @property
    def attacks(self) -> tuple[Measurement, ...]:
        """The measurements that are attacks on the model: all but the blind baseline."""
        return tuple(item for item in self.measurements if item.attack != BLIND_BASELINE)

    @property
    def upper(self) -> Bound | None:
        """The proven upper bound of the claim; None where nothing is claimed."""
        return None if self.claim is None else self.claim.bound

    @property
    def lower(self) -> Demonstration | None:
        """The strongest demonstration that speaks of the claim (of anything, when nothing is claimed)."""
        return max(self._fitting, key=lambda item: item.bound.epsilon, default=None)

    @property
    def attainable(self) -> float:
        """The largest epsilon that any demonstration which speaks of the claim could have shown."""
        return max((item.attainable for item in self._fitting), default=0.0)

    @property
    def _fitting(self) -> list[Demonstration]:
        claimed = None if self.claim is None else self.claim.bound.assumes
        return [item for item in self.demonstrations if item.bound.assumes in (None, claimed)]

    @property
    def verdict(self) -> Verdict:
        """A failed control decides first, then the contradiction, then what could have been seen at all.

        A claim that no audit was made for is untested: it may be proven, and nothing has tried to contradict it.
        """
        if not all(control.passed for control in self.controls):
            return Verdict.UNINFORMATIVE
        if self.claim is None:
            return Verdict.NO_CLAIM
        if not self.demonstrations:
            return Verdict.UNTESTED
        if any(item.bound.contradicts(self.claim.bound) for item in self.demonstrations):
            return Verdict.REFUTED
        return Verdict.CONSISTENT if self.attainable > self.claim.bound.epsilon else Verdict.UNINFORMATIVE

    @property
    def sentence(self) -> str:
        """The finding in plain words."""
        from .sentence import sentence

        return sentence(self)

    @property
    def reason(self) -> str:
        """What gave a refuted claim away, and what would be right; empty otherwise."""
        from .reasons import reason

        return reason(self)

    def __repr__(self) -> str:
        parts = [self.verdict.value]
        if self.upper is not None:
            parts.append(f"epsilon <= {self.upper.shown(4)} at delta {small(self.upper.delta)}")
        if self.lower is not None:
            parts.append(f"epsilon >= {self.lower.bound.shown(4)}")
        if self.attacks:
            parts.append(f"{len(self.attacks)} attacks")
        return f"Evidence({self.subject!r}: {', '.join(parts)})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("verdict", self.verdict.value), ("finding", self.sentence)]
        rows += [(f"{bound.side.value} bound", bound) for bound in self.bounds]
        rows += [(name, f"{value:.4g}") for name, value in self.utility.items()]
        rows += [(f"control {item.name}", "passed" if item.passed else "FAILED") for item in self.controls]
        return table(f"Evidence: {self.subject}", rows)

    def with_(self, **changes: Any) -> Evidence:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def to_json(self) -> Json:
        """The evidence as values for JSON."""
        from .evidence_json import encode

        return {"schema": SCHEMA, **encode(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Evidence:
        """The evidence that `to_json` wrote."""
        from .evidence_json import decode

        return decode(data, SCHEMA)

    def save(self, path: str | Path) -> Path:
        """Write JSON, whole or not at all. Scores of records are not in it."""
        mode = 0o600 if self.exposures else 0o666  # which records stand out tells who was a member
        return written(path, json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n", mode)

    @classmethod
    def load(cls, path: str | Path) -> Evidence:
        """Read what `save` wrote. Refused where files beside it are known not to belong to it."""
        from .json_text import parsed
        from .manifest import check_beside

        path = Path(path)
        within = path / "evidence.json"
        fix = f"Give {shown(str(within))}." if within.is_file() else "Give the path of an evidence JSON file."
        data = parsed(text(path, fix=fix), shown(path), fix=fix)
        if not isinstance(data, dict):
            raise BadInput(f"{shown(path)} is not evidence: a JSON object was expected.")
        try:
            found = cls.from_json(data)
        except BadInput as error:
            raise BadInput(f"{shown(path)}: {error.message}", fix=error.fix) from None
        check_beside(path, found.provenance)
        return found
