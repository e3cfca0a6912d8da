"""A model that is trained already: taken as it is, attacked, and put beside what is claimed of it.

Nothing says how it was trained, so no run can be made again. An audit is possible in two cases: where canaries were
offered to the training by coins (one run, which has been made), or where `fit` is said to be that training.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..attacks import blind_baseline
from ..audits import controls, demonstrate_once, stated, verify
from ..audits.claims import Stated, with_frontier
from ..audits.demonstration import Played, same_adjacency
from ..audits.scoring import scored
from ..core import Adjacency, BadInput, Claim, Control, Demonstration, Evidence, Mismatch, Scores, Source, check
from ..core.arrays import Array
from .class_names import classes_of
from .models import answers, observe, usual_form
from .pooling import overlap, pool
from .records import features

FEWEST = 50
"""Canaries of a one-run audit: fewer could not pass the planted-leak control."""
UNFAIR = 1e-6
"""Coins that fall so seldom were no fair coins."""
WORD = "that the claim is about this model: it was taken as it was given"
MADE_AGAIN = "that fit is how this model was trained: the audit made runs of fit"
BLIND = "a classifier without the model cannot tell the coins"
ONE_RUN = "more than one run: the audit judged the training by the coins of its own canaries"
THROWN = "the coins were thrown before the training, and canaries whose coin said no were never trained on"


@dataclass(frozen=True)
class Given:
    """What comes with a model: a claim, if any, and the evidence that it was read from, if any."""

    claim: Claim | None
    evidence: Evidence

    @classmethod
    def of(cls, target: Any, claim: Stated | Evidence | str | Path | None, delta: float) -> Given:
        """From a Trained, from evidence or its file, or from what somebody states; `delta` is that of an event."""
        if trained(target):
            if claim is not None:
                raise BadInput("A Trained brings its own claim.", fix="Leave claim out, or give its model alone.")
            claim = target.evidence
        if isinstance(claim, str | Path):
            claim = Evidence.load(claim)
        if not isinstance(claim, Evidence):
            made = None if claim is None else stated(claim, delta=delta)
            return cls(made, Evidence(subject="", not_covered=() if made is None else (WORD,)))
        if not verify(claim).ok:
            raise BadInput("The evidence's bounds do not follow from its events and counts.", fix="See tacit verify.")
        made, same = None if claim.claim is None else _with_frontier(claim.claim), about(claim, target)
        if same is False:
            raise BadInput(
                "The parameters are not those that the evidence is about.",
                fix="A model that was made of those without the data has their claim: give claim=evidence.claim.",
            )
        known = trained(target) or same
        return cls(made, claim.with_(not_covered=(*claim.not_covered, *(() if known else (WORD,)))))

    @property
    def delta(self) -> float | None:
        return None if self.claim is None else self.claim.bound.delta


def trained(target: object) -> bool:
    """Whether it is what `fit` of this library returns; without importing torch."""
    loop = sys.modules.get("tacit.train.loop")
    return loop is not None and isinstance(target, loop.Trained)


def promised(target: object) -> Evidence | None:
    """The evidence that a fitted private estimator has of itself, without importing `tacit.erm`; None of others."""
    room = sys.modules.get("tacit.erm.estimator")
    return target.evidence() if room is not None and isinstance(target, room.PrivateEstimator) else None


def about(evidence: Evidence, target: Any) -> bool | None:
    """Whether the evidence names just these parameters; None where it, or the model, cannot say."""
    torch, model = sys.modules.get("torch"), target.model if trained(target) else target
    if torch is None or not isinstance(model, torch.nn.Module):
        return None
    from ..train.loop import FINGERPRINT, fingerprint

    told = evidence.provenance.get(FINGERPRINT)
    return None if told is None else told == fingerprint(model)


@dataclass(frozen=True, eq=False)
class Canaries:
    """Records that were offered to a training, each put in or left out by its coin, and records that were not offered.

    Nothing of a canary may know its coin: were those put in other records than those left out, a model that never saw
    any would be refuted. So classifiers that never saw the model try to tell the coins, and must fail.
    """

    x: Array
    y: Array
    coins: NDArray[np.bool_]
    others: tuple[Array, Array]

    @classmethod
    def of(cls, canaries: Any, members: Any, nonmembers: Any, claim: Claim) -> Canaries:
        if claim.bound.unit != "record":
            raise Mismatch(f"The claim is about one {claim.bound.unit}; canaries are single records.")
        same_adjacency(claim, Adjacency.ADD_REMOVE)
        x, y, coins = _canaries(canaries)
        known_x, known_y, inside = pool(members, nonmembers)
        if x.shape[1:] != known_x.shape[1:]:
            raise BadInput(f"Canaries of shape {x.shape[1:]} are no records of shape {known_x.shape[1:]}.")
        for side, coin in ((inside, ~coins), (~inside, coins)):
            if overlap((known_x[side], known_y[side]), (x[coin], y[coin])):
                raise BadInput(
                    "Some canaries are members though their coin said no, or non-members though it said yes.",
                    fix="Leave canaries out of members and non-members.",
                )
        return cls(x, y, coins, (known_x[~inside], known_y[~inside]))

    def blind(self, chance: Source) -> tuple[Control, ...]:
        """Coins foretold from the records alone, and from the labels and how well they suit the records."""
        labels, place = np.unique(self.y, return_inverse=True)
        known = {
            "coins and records": features(self.x),
            "coins and labels": np.column_stack((np.eye(labels.size)[place], self._misfit())),
        }
        tests = {name: blind_baseline(part, self.coins, chance)[1] for name, part in known.items()}
        return tuple(replace(test, name=name, expected=BLIND) for name, test in tests.items())

    def _misfit(self) -> Array:
        """How much farther each canary lies from the others' mean of its label than from the nearest other mean."""
        mine, (x, y) = features(self.x), self.others
        labels = np.unique(y)
        away = np.stack([np.linalg.norm(mine - features(x[y == k]).mean(axis=0), axis=1) for k in labels], axis=1)
        own = self.y[:, None] == labels
        nearest = np.where(own, np.inf, away).min(axis=1)
        return np.asarray(np.where(own, away, 0.0).sum(axis=1) - np.where(np.isinf(nearest), 0.0, nearest))


def one_run(model: object, canaries: Canaries, claim: Claim, confidence: float, chance: Source) -> Evidence:
    """Audit the training by the one-run game: each canary was put in or left out by a coin of its own."""
    scores = told(model, canaries.x, canaries.y, canaries.coins, chance)
    played = Played("one-run", "canaries of the training", len(scores))
    shown = demonstrate_once(scores, claim=claim, confidence=confidence, played=played, ties=chance)
    return Evidence(
        subject="",
        demonstrations=tuple(believing(item, THROWN) for item in shown),
        controls=(*_tested(scores, chance), *canaries.blind(chance)),
        not_covered=(ONE_RUN,),
        provenance={"canaries": len(scores)},
        scores=(scores,),
    )


def told(model: Any, x: Array, y: Array, coins: NDArray[np.bool_], chance: Source) -> Scores:
    """Score each canary by the margin that the model gives to its label.

    The rows are mixed first, so that no later step can read the coins off their order.
    """
    order = chance.permutation(len(coins))
    x, y, coins = x[order], y[order], coins[order]
    classes = classes_of(model, y)
    output = answers(model, x, classes)
    if (output == output[:1]).all():
        raise BadInput("The model says the same of all canaries.", fix="Give the model that was trained on them.")
    return scored(observe([output], y, coins[:, None], classes, usual_form(model)).need("margin")[:, 0], coins)


def sharing(audit: Evidence, confidence: float) -> Evidence:
    """State on every bound of the audit that it is one of two games which hold together with this confidence."""
    words = f"one of two games, which hold together with confidence {confidence:.10g}"
    return audit.with_(demonstrations=tuple(believing(item, words) for item in audit.demonstrations))


def _tested(scores: Scores, chance: Source) -> tuple[Control, ...]:
    return (
        controls.null(scores, chance, controls.by_guesses),
        controls.planted_leak(scores, chance, controls.by_guesses),
    )


def _canaries(canaries: object) -> tuple[Array, Array, NDArray[np.bool_]]:
    if not isinstance(canaries, tuple | list) or len(canaries) != 3:
        raise BadInput("canaries must be (x, y, coins): records, labels, and whether each was put in.")
    x, y = (np.asarray(part) for part in canaries[:2])
    coins = check.flags("The coins of canaries", np.ravel(canaries[2]))
    if not len(x) == len(y) == len(coins):
        raise BadInput("canaries must be (x, y, coins) of one length.")
    if len(coins) < FEWEST:
        raise BadInput(f"An audit of one run needs at least {FEWEST} canaries, got {len(coins)}.")
    if stats.binomtest(int(coins.sum()), len(coins)).pvalue < UNFAIR:
        raise BadInput(
            f"{int(coins.sum())} of {len(coins)} canaries were put in: fair coins do not fall so.",
            fix="Throw a fair coin of its own for every canary, before the training.",
        )
    return x, y, coins


def believing(item: Demonstration, words: str) -> Demonstration:
    """Add one assumption to a bound."""
    return replace(item, bound=replace(item.bound, assumptions=(*item.bound.assumptions, words)))


def _with_frontier(claim: Claim) -> Claim:
    """The rates that a claim allows against single records, where it is about them."""
    if claim.bound.unit != "record" or math.isinf(claim.bound.epsilon):
        return replace(claim, frontier=())
    return claim if claim.frontier else with_frontier(claim)
