"""Hold epsilon from both sides: train, attack, audit and account, into one piece of evidence."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..audits import audit, stated
from ..audits.claims import Stated, with_frontier
from ..audits.foreign import name_of, takes
from ..core import BadInput, Evidence, Source, check
from ..core.evidence import Scalar
from . import taken_model
from .assembly import assembled
from .cloning import Refit, refit
from .finished_parts import Checkpoint, Finished
from .membership import attack
from .models import Fit, FramedFit, accuracy, guarded, is_regressor, own_model
from .neural import neural
from .records import features, kept

DELTA = 1e-5
FEWEST = 8
"""Records of a bracket, and how many of them must differ."""
TELL_APART = "Give features that tell records apart."


def bracket(
    target: Any,
    data: tuple[ArrayLike, ArrayLike],
    *,
    claim: Stated | None = None,
    references: int = 64,
    runs: int = 500,
    confidence: float = 0.95,
    rng: Source | int | np.random.Generator | None = None,
    isolation: str = "auto",
    canary: Any = "auto",
    seconds: float | None = None,
    groups: ArrayLike | None = None,
    nonmembers: tuple[ArrayLike, ArrayLike] | None = None,
    fit: Fit | None = None,
    canaries: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    output: str = "auto",
    checkpoint: Checkpoint = None,
) -> Evidence:
    """Train on a random half of `data`, attack that model, audit the training, and put it beside the claim.

    `target` is `fit(x, y, rng) -> predict` or an estimator that can be cloned. `claim` is (epsilon, delta), an Event
    or a Plan. Without one, a private estimator brings that of its fit, and the evidence of others has a lower side
    only. `groups` names every record's group, whose risks are then compared.

    With `nonmembers` nothing is trained: `target` is a model that is taken as it is (a `Trained`, a torch module, a
    fitted estimator or predict(x)). `data` are records that it was trained on, `nonmembers` are others like them, and
    `groups` are those of both. `claim` may then be the model's evidence, or its file; a `Trained` brings its own. The
    training can be audited in two cases only; else the evidence says that it was not. Either `canaries` (x, y, coins)
    were offered to it, each put in where its fair coin says so, which is a game of one run. Or `fit` is that training:
    then runs of it are audited, and it trains the attack's reference models. Those of a fitted estimator are trained by
    cloning it.

    `output` says what the model answers with (labels, probabilities, logits, or the values of a regression) where that
    cannot be told from its numbers.

    `checkpoint` names a folder that reference models and the audit's runs are noted in as they are finished; the same
    call that finds it goes on from there. It is a secret, and deleted at the end.
    """
    if nonmembers is not None:
        return _taken(
            target, data, nonmembers, claim, fit, canaries, rng, checkpoint, references=references, runs=runs,
            confidence=confidence, isolation=isolation, canary=canary, seconds=seconds, groups=groups, output=output,
        )  # fmt: skip
    if fit is not None or canaries is not None:
        raise BadInput("fit and canaries go with a model that is taken as it is.", fix="Give its nonmembers=(x, y).")
    train = _training(target)
    x, y = (np.asarray(part) for part in _pair(data))
    if len(x) != len(y) or len(x) < FEWEST:
        raise BadInput("data must be (x, y) with at least eight records.")
    _usable(target, x, y)
    finished = Finished.of(checkpoint, _about(name_of(target), references), (x, y), rng)
    randomness = finished.chance
    named = None if groups is None else np.asarray(groups)
    if named is not None and named.shape != (len(x),):
        raise BadInput("groups must name one group per record.")
    inside = _halved(x, y, randomness)
    model = train(x[inside], y[inside], randomness.generator())
    given = _promised(train, model) if claim is None else None
    claim = claim if given is None or given.claim is None else with_frontier(given.claim)
    check.whole("references", references, least=0)
    measured = attack(
        model,
        (x[inside], y[inside]),
        (x[~inside], y[~inside]),
        references=references,
        fit=_offered(train, isolation),
        groups=None if named is None else np.concatenate((named[inside], named[~inside])),
        confidence=confidence,
        rng=randomness,
        output=output,
        checkpoint=finished,
    )
    audited = audit(
        train,
        (x[inside], y[inside]),
        claim=(math.inf, DELTA) if claim is None else claim,
        runs=runs,
        confidence=confidence,
        rng=randomness,
        isolation=isolation,
        canary=canary,
        seconds=seconds,
        checkpoint=finished.journal("audit") if seconds is None else None,
    )
    evidence = assembled(
        measured,
        [audited],
        subject=name_of(target),
        claim=None if claim is None else audited.claim,
        given=given,
        utility={"test accuracy": accuracy(model, x[~inside], y[~inside])},
        rows=np.concatenate((np.flatnonzero(inside), np.flatnonzero(~inside))),
        provenance=_halves(inside, measured.provenance["references"], runs),
    )
    finished.end()
    return evidence


def _promised(train: Fit, model: object) -> Evidence | None:
    """What a private estimator says of the fit that is attacked; None of all other trainings."""
    train = train.fit if isinstance(train, FramedFit) else train
    return taken_model.promised(own_model(model)) if isinstance(train, Refit) else None


def _about(name: str, references: int) -> dict[str, object]:
    """What a folder of finished parts says of the work; its audit says the rest."""
    return {"target": name, "references": references}


def _halves(inside: NDArray[np.bool_], references: Scalar, runs: int) -> dict[str, Scalar]:
    """What was trained on what."""
    own = int(inside.sum())
    return {
        "attacked_model_trained_on": f"{own} records, a random half; the other {len(inside) - own} were held out",
        "reference_models": f"{references}, each trained on as many records, drawn at random from all {len(inside)}",
        "audit_runs": f"{runs}: those {own} records, with or without one canary",
        "records": own,
    }


def _taken(
    target: Any, members: Any, nonmembers: Any, claim: Any, fit: Fit | None, canaries: Any, rng: Any,
    checkpoint: Checkpoint, *, references: int, confidence: float, groups: ArrayLike | None, output: str, **game: Any,
) -> Evidence:  # fmt: skip
    """Bracket a model that is trained already; see `taken_model`."""
    sides = [] if checkpoint is None else [_pair(members), _pair(nonmembers)]
    data = [part for x, y in sides for part in (features(kept(x)), np.asarray(y))]
    finished = Finished.of(checkpoint, _about(name_of(target), references), data, rng)
    randomness = finished.chance
    fit = None if fit is None else _training(fit)
    given = taken_model.Given.of(target, claim, DELTA)
    model = target.model if taken_model.trained(target) else guarded(target)
    check.whole("references", references, least=0)
    judged = given.claim or stated((math.inf, DELTA), delta=DELTA)
    offered = None if canaries is None else taken_model.Canaries.of(canaries, members, nonmembers, judged)
    measured = attack(
        model,
        members,
        nonmembers,
        references=references,
        fit=None if fit is None else _offered(fit, game["isolation"]),
        groups=groups,
        confidence=confidence,
        rng=randomness,
        output=output,
        checkpoint=finished,
    )
    games = (offered is not None) + (fit is not None)
    each = 1 - (1 - confidence) / max(games, 1)  # any of them may refute the claim: they share the error
    audits = []
    if offered is not None:
        audits.append(taken_model.one_run(model, offered, judged, each, randomness))
    if fit is not None:
        journal = finished.journal("audit") if game["seconds"] is None else None
        found = audit(fit, members, claim=judged, confidence=each, rng=randomness, checkpoint=journal, **game)
        audits.append(found.with_(not_covered=(*found.not_covered, taken_model.MADE_AGAIN)))
    if games > 1:
        audits = [taken_model.sharing(found, confidence) for found in audits]
    x, y = (np.asarray(part) for part in nonmembers)
    finished.end()
    return assembled(
        measured,
        audits,
        subject=given.evidence.subject or name_of(target),
        claim=given.claim,
        given=given.evidence,
        utility={} if is_regressor(target) else {"test accuracy": accuracy(model, x, y)},
    )


def _halved(x: NDArray[np.generic], y: NDArray[np.generic], rng: Source) -> NDArray[np.bool_]:
    """A random half; records that are alike stay together, so that no member is also a non-member."""
    number: dict[tuple[bytes, str], int] = {}
    same = [number.setdefault((row.tobytes(), str(label)), len(number)) for row, label in zip(x, y, strict=True)]
    if len(number) < FEWEST:
        raise BadInput("Nearly all records are alike: fewer than eight differ from one another.", fix=TELL_APART)
    inside = np.asarray(rng.permutation(len(number))[same] < len(number) // 2)
    if np.unique(y[inside].astype(str)).size < 2 <= np.unique(y.astype(str)).size:
        raise BadInput("The random half of the records that is trained on holds one class.", fix="Give more records.")
    return inside


def _usable(target: object, x: NDArray[np.generic], y: NDArray[np.generic]) -> None:
    """Refuse what no attack or audit could say anything about."""
    if is_regressor(target):
        raise BadInput(
            "An audit needs a classifier; a regressor can only be attacked.",
            fix="Use attack(model, members, nonmembers).",
        )
    if all(row.tobytes() == x[0].tobytes() for row in x):
        raise BadInput("All records have the same features.", fix=TELL_APART)
    if refit(target, None) is not None and np.unique(y.astype(str)).size < 2:
        raise BadInput("All records have one class: a model says the same of everybody.", fix="Give another label.")


def _training(target: Any) -> Fit:
    """The training itself: a function, or an estimator that can be cloned."""
    if taken_model.trained(target) or neural(target) is not None:
        raise BadInput(
            f"A {type(target).__name__} is trained already, and cannot be trained again.",
            fix="Give records that it was not trained on as nonmembers=(x, y): then it is taken as it is.",
        )
    found = refit(target, None)
    if found is None and (not callable(target) or not takes(target, 3)):
        raise BadInput(
            "bracket takes fit(x, y, rng) -> predict, or an estimator that can be cloned.",
            fix="A model that is trained already needs nonmembers=(x, y).",
        )
    return found or target


def _offered(train: Fit, isolation: str) -> Fit:
    """The training, without its `many` where no fleet is wanted."""
    return train if isolation in ("auto", "fleet") else functools.partial(train)


def _pair(data: object) -> tuple[Any, Any]:
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise BadInput("data must be a pair (x, y).")
    return data[0], data[1]
