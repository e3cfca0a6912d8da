"""Attack, audit and bracket for data frames: by a schema as numbers, or as frames for models that take frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..audits import audit as audit_arrays
from ..audits.claims import Stated
from ..audits.foreign import name_of
from ..audits.makers import Maker
from ..core import Adjacency, BadInput, Evidence, Source
from ..core.arrays import Array
from ..data import Schema, is_frame
from ..data.codec import Codec, holds_frame, split
from ..data.frames import named
from . import bracketing, membership
from .augmented_queries import Copies
from .cloning import refit
from .finished_parts import Checkpoint
from .membership import FPRS, AnyAttack
from .models import Fit, FramedFit, FramedModel
from .own_tables import own_schema, worded
from .risk import placed
from .taken_model import promised

Flags = NDArray[np.bool_]
Rng = Source | int | np.random.Generator | None
FIXED = "kind, range or words of {}: they were read off the data, and held fixed in all runs of the audit"


@dataclass(frozen=True, eq=False)
class Arrays:
    """Data as arrays or frames; `codec` for models that take frames, `derived` where a schema was read off the data.

    `known` says of every record that was given whether it is among `parts`: one without a known label is left out.
    """

    parts: tuple[tuple[Any, Array], ...]
    codec: Codec | None = None
    derived: tuple[str, ...] = ()
    known: Flags | None = None

    @classmethod
    def asked_of(cls, target: object, schema: Schema | str | Path | None, *data: Any, numbers: bool = True) -> Arrays:
        """Data for a model: one that was trained by a schema reads them by it, as numbers or as frames."""
        own, given = own_schema(target), _schema(schema)
        if own is None:
            return cls.of(_own(given, target), *data, numbers=numbers)
        if given not in (None, own.label, own):
            raise BadInput("This model reads data frames by the schema that it was made with.", fix="Leave schema out.")
        found = [worded(own, part) for part in data]
        known = np.concatenate([flags for _, flags in found])
        made = cls.of(None, *(part for part, _ in found), numbers=numbers)
        return replace(made, derived=own.derived, known=None if known.all() else known)

    @classmethod
    def of(cls, schema: Schema | str | Path | None, *data: Any, numbers: bool = True) -> Arrays:
        """From frames with a schema (or its file) or the name of the label; or from pairs (x, y).

        Frames without a Schema stay frames where no `numbers` are needed.
        """
        schema = _schema(schema)
        if isinstance(schema, Schema):
            found = [_encoded(schema, part) for part in data]
            known = np.concatenate([flags for _, flags in found])
            return cls(tuple(part for part, _ in found), derived=schema.derived, known=None if known.all() else known)
        if not any(map(holds_frame, data)):
            if schema is not None:
                raise BadInput("schema goes with data frames.", fix="Arrays are given as (x, y).")
            return cls(data)
        pairs = [split(part, schema) for part in data]
        if not numbers:
            return cls(tuple(pairs))
        codec = Codec.of(*(x for x, _ in pairs))
        return cls(tuple((codec.encode(x), y) for x, y in pairs), codec)

    def model(self, target: Any) -> Any:
        return target if self.codec is None else FramedModel(target, self.codec)

    def fit(self, train: object) -> Any:
        return train if self.codec is None or train is None else FramedFit(train, self.codec)

    def told(self, evidence: Evidence) -> Evidence:
        """The evidence, which says what was read off the data, and names records by their rows in what was given."""
        if self.known is not None:
            lost = {"records_without_a_known_label": int((~self.known).sum())}
            evidence = placed(evidence, np.flatnonzero(self.known))
            evidence = evidence.with_(provenance={**evidence.provenance, **lost})
        if not self.derived:
            return evidence
        return evidence.with_(not_covered=(*evidence.not_covered, FIXED.format(named(self.derived))))

    def groups(self, groups: ArrayLike | None) -> Any:
        """The groups of the records that are among `parts`, where every record that was given has one."""
        found = None if groups is None else np.asarray(groups)
        if found is None or self.known is None or found.shape != self.known.shape:
            return found
        return found[self.known]


def attack(
    target: object,
    members: object,
    nonmembers: object,
    *,
    schema: Schema | str | Path | None = None,
    attacks: str | Sequence[str | AnyAttack] = "auto",
    references: int = 16,
    fit: Fit | None = None,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
    rng: Rng = None,
    fpr: Sequence[float] = FPRS,
    output: str = "auto",
    augment: Copies | None = None,
    checkpoint: Checkpoint = None,
) -> Evidence:
    """Measure membership inference against a trained model.

    `members` and `nonmembers` are pairs (x, y), where x may be a data frame. With `schema` they may be data frames. A
    Schema, or its file, turns records into numbers; the name of the label column leaves them frames, which the model is
    given as they are. Both must come from one distribution; the blind baseline tests that. `output` says what the model
    answers with where that cannot be told from its numbers: labels, probabilities, logits, or the values of a
    regression. `augment` are copies of each record, as the target's training saw them, that the target and its
    references are asked about.

    Reference models are trained on random parts of both together, as large as the members, by `fit(x, y, rng)` or by
    cloning an estimator; without either only attacks that need none are run. An attack that learns from records of
    known membership is told a random half of them and judged on the other; one that looks inside needs a torch model.
    The most exposed records are named by their row among members, then non-members.

    `checkpoint` names a folder that reference models are noted in as they are finished; the same attack that finds it
    goes on from there. It is a secret, and deleted at the end.
    """
    given = Arrays.asked_of(target, schema, members, nonmembers, numbers=False)
    found = membership.attack(
        target, *given.parts, attacks=attacks, references=references, fit=fit, groups=given.groups(groups),
        confidence=confidence, rng=rng, fpr=fpr, output=output, augment=augment, checkpoint=checkpoint,
    )  # fmt: skip
    return given.told(found.with_(subject=type(target).__name__))


def audit(
    fit: Fit,
    data: object,
    *,
    claim: Stated,
    schema: Schema | str | Path | None = None,
    game: str = "runs",
    canary: str | Maker = "auto",
    runs: int = 1000,
    seconds: float | None = None,
    confidence: float = 0.95,
    isolation: str = "auto",
    rng: Rng = None,
    delta: float = 1e-5,
    adjacency: Adjacency | str | None = None,
    checkpoint: str | Path | None = None,
) -> Evidence:
    """Test a privacy claim about `fit(x, y, rng) -> predict`, or about an estimator that can be cloned.

    See `tacit.audits.audit`, whose arguments these are.

    `data` is a pair (x, y), where x may be a data frame. With `schema` it may be a data frame itself. A Schema, or its
    file, turns records into numbers; the name of the label column leaves them a frame, which `fit` is given.
    """
    given, train = Arrays.asked_of(fit, schema, data), refit(fit, None) or fit
    found = audit_arrays(
        given.fit(train), given.parts[0], claim=claim, game=game, canary=canary, runs=runs, seconds=seconds,
        confidence=confidence, isolation=isolation, rng=rng, delta=delta, adjacency=adjacency, checkpoint=checkpoint,
    )  # fmt: skip
    return given.told(found.with_(subject=name_of(fit)))


def bracket(
    target: Any,
    data: object,
    *,
    claim: Stated | Evidence | str | Path | None = None,
    schema: Schema | str | Path | None = None,
    references: int = 64,
    runs: int = 500,
    confidence: float = 0.95,
    rng: Rng = None,
    isolation: str = "auto",
    canary: str | Maker = "auto",
    seconds: float | None = None,
    groups: ArrayLike | None = None,
    nonmembers: object = None,
    fit: Fit | None = None,
    canaries: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    output: str = "auto",
    checkpoint: Checkpoint = None,
) -> Evidence:
    """Attack a training or a model, audit it, and put both beside the claim.

    `data` (and `nonmembers`) are pairs (x, y), where x may be a data frame. With `schema` they may be data frames. A
    Schema, or its file, turns records into numbers; the name of the label column leaves them frames, which the model is
    given as they are.

    Without `nonmembers`, `target` is `fit(x, y, rng) -> predict` or an estimator that can be cloned: it is trained on a
    random half of `data`, that model is attacked, and the training is audited. `claim` is (epsilon, delta), an Event or
    a Plan. Without one, a private estimator brings that of its fit, and the evidence of others has a lower side only.
    `groups` names every record's group, whose risks are then compared.

    With `nonmembers`, `target` is a model that is taken as it is: a `Trained`, a torch module, a fitted estimator or
    predict(x). `data` are records that it was trained on, `nonmembers` are others like them, and `groups` are those of
    both. `claim` may then be the model's evidence, or its file; a `Trained` or a private estimator brings its own.

    A `Trained` of a model by name ("linear", "mlp") knows how it was trained: that training is audited, and trains the
    attack's reference models. The training of any other model can be audited in two cases only; else the evidence says
    that it was not. Either `canaries` (x, y, coins) were offered to it, each put in where its fair coin says so, which
    is a game of one run. Or `fit` is that training: then runs of it are audited, and it trains the attack's reference
    models. Those of a fitted estimator are trained by cloning it.

    `output` says what the model answers with (labels, probabilities, logits, or the values of a regression) where that
    cannot be told from its numbers.

    `checkpoint` names a folder that reference models and the audit's runs are noted in as they are finished; the same
    call that finds it goes on from there. It is a secret, and deleted at the end.
    """
    if nonmembers is not None and fit is None and canaries is None and getattr(target, "made", None) is not None:
        from .trained import bracket_trained

        if (isolation, seconds) != ("auto", None):
            raise BadInput("isolation and seconds go with fit=.", fix="Leave them out, and say how many runs.")
        if output != "auto":
            raise BadInput("A model by name answers with logits.", fix="Leave output out.")
        return bracket_trained(
            target, data, nonmembers, schema=_schema(schema), references=references, runs=runs, confidence=confidence,
            canary=canary, groups=groups, rng=rng, checkpoint=checkpoint,
        )  # fmt: skip
    given = Arrays.asked_of(target, schema, *([data] if nonmembers is None else [data, nonmembers]))
    claim = promised(target) if nonmembers is not None and claim is None else claim
    others = None if nonmembers is None else given.parts[1]
    model, train = target, fit
    if given.codec is not None:
        again = refit(target, fit)
        model = given.model(target) if nonmembers is not None else given.fit(again or target)
        train = given.fit(again) if nonmembers is not None else fit
    found = bracketing.bracket(
        model, given.parts[0], claim=claim, references=references, runs=runs, confidence=confidence, rng=rng,  # type: ignore[arg-type]
        isolation=isolation, canary=canary, seconds=seconds, groups=given.groups(groups), nonmembers=others, fit=train,
        canaries=canaries, output=output, checkpoint=checkpoint,
    )  # fmt: skip
    return given.told(found)


def _own(schema: Schema | str | Path | None, target: object) -> Schema | str | Path | None:
    """The schema that was given, or that a Trained was trained by."""
    own = getattr(target, "schema", None)
    return own if schema is None and isinstance(own, Schema) else schema


def _schema(schema: Schema | str | Path | None) -> Schema | str | None:
    if isinstance(schema, Path) or (isinstance(schema, str) and schema.endswith(".toml")):
        return Schema.read(schema)
    return schema


def _encoded(schema: Schema, data: object) -> tuple[tuple[Any, Any], Flags]:
    """A frame as (x, y) without the records that have no known label, and which those are; a pair of arrays stays."""
    if not is_frame(data):
        if isinstance(data, tuple | list) and len(data) == 2 and not is_frame(data[0]):
            return (data[0], data[1]), np.ones(len(data[1]), dtype=bool)
        raise BadInput("With a schema, data are one frame that holds the label column.")
    x, y = schema.encode(data)
    known = y >= 0
    if not known.any():
        raise BadInput("No record has a label that the schema knows.", fix="Look at the words of its label.")
    return (x[known], y[known]), known
