"""Attack a model: how well can an outsider tell its members from others?"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..attacks import (
    ATTACKS,
    Attack,
    References,
    blind_baseline,
    disparity,
    known_split,
    measure,
    named,
    null,
    planted_leak,
)
from ..audits.foreign import Border
from ..audits.runs.batched import Together
from ..audits.runs.batched import answers as answers_of_many
from ..core import BadInput, Control, Evidence, Measurement, Observations, Scores, Source, check, scores_file, source
from .models import Fit, answers, classes_of, inside, observe, refit
from .provenance import provenance
from .risk import records

AnyAttack = Callable[[Observations, Observations | None], Scores]
FPRS = (0.01, 0.001, 0.0001)
WITHOUT_REFERENCES = ("loss", "modified-entropy")
WITH_REFERENCES = ("lira", "rmia", "student")
WORDS = 256
NOT_COVERED = ("measured on observed members and non-members: no statement about differential privacy",)


def attack(
    target: Any,
    members: tuple[ArrayLike, ArrayLike],
    nonmembers: tuple[ArrayLike, ArrayLike],
    *,
    attacks: str | Sequence[str | AnyAttack] = "auto",
    references: int = 16,
    fit: Fit | None = None,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
    rng: Source | int | np.random.Generator | None = None,
    fpr: Sequence[float] = FPRS,
) -> Evidence:
    """Measure membership inference against a trained model.

    `members` and `nonmembers` are (x, y); they must come from one distribution (the blind baseline tests that).
    Reference models are trained on random halves of both together, by `fit(x, y, rng)` or by cloning an estimator;
    without either only attacks that need none are run. An attack that learns from records of known membership is told
    a random half of them and judged on the other; one that looks inside needs a torch model. The most exposed records
    are named by their row among members, then non-members.
    """
    randomness = source(rng)
    if not isinstance(fpr, Sequence):
        raise BadInput("fpr must be a sequence of false-positive rates.")
    x, y, member = pool(members, nonmembers)
    train = refit(target, fit)
    classes = classes_of(target, y)
    seen = observe([answers(target, x, classes)], y, member[:, None], classes)
    if groups is not None:
        seen = observed_groups(seen, groups)
    others = None
    if train is not None and check.whole("references", references, least=0) > 0:
        others = _references(train, x, y, references, randomness, classes)
    chosen = _chosen(attacks, others)
    seen = replace(seen, features=features(x), record=np.arange(len(x)))
    looks = any({"internals", "gradient_norm"} & set(getattr(rule, "needs", ())) for rule in chosen)
    seen = inside(target, x, seen) if looks else seen
    told = known_split(seen, randomness) if any(map(_learns, chosen)) else (seen, seen)
    given = {id(rule): told if _learns(rule) else (seen, others) for rule in chosen}
    scores = [rule(*given[id(rule)]) for rule in chosen]
    if not all(isinstance(item, Scores) for item in scores):
        raise BadInput("An attack must return Scores.")
    baseline, blind = blind_baseline(features(x), member, randomness, confidence=confidence)
    return Evidence(
        subject=type(target).__name__,
        measurements=(*measured(scores, confidence, fpr), baseline),
        groups=() if groups is None else tuple(disparity(scores[-1], randomness, confidence=confidence)),
        controls=(*controls(chosen[-1], *given[id(chosen[-1])], randomness), blind),
        not_covered=NOT_COVERED,
        threat={
            "released": "final model",
            "attacker sees": _sight(looks, told[1].records if told[0] is not seen else 0),
        },
        provenance=provenance(randomness, references=0 if others is None else references),
        scores=tuple(scores),
        **({} if others is None else records(others, *randomness.spawn(1))),
    )


def read_scores(path: str) -> Evidence:
    """Evidence from a file of scores: what they say, without a model to test the experiment with."""
    found = scores_file.read(path)
    return Evidence(
        subject=found[0].attack,
        measurements=measured(found, 0.95),
        not_covered=(*NOT_COVERED, "scores were read from a file: no control could be run"),
        threat={"released": "unknown", "attacker sees": "unknown"},
        provenance={**provenance(source(None)), "randomness": "none: the scores were read from a file"},
        scores=tuple(found),
    )


def controls(rule: AnyAttack, seen: Observations, others: Observations | None, rng: Source) -> tuple[Control, ...]:
    """The experiment's own tests, on the strongest attack that was run."""
    return (null(rule, seen, others, rng), planted_leak(rule, seen, others))


def of_audit(tests: Sequence[Control]) -> tuple[Control, ...]:
    """The audit's controls beside the attack's: named for what they test."""
    return tuple(replace(test, name=f"audit: {test.name}") for test in tests)


def measured(scores: Sequence[Scores], confidence: float, fpr: Sequence[float] = FPRS) -> tuple[Measurement, ...]:
    """What each attack found; the best is quoted, so their intervals hold together with `confidence` (Bonferroni)."""
    each = 1 - (1 - check.probability("confidence", confidence, zero=False, one=False)) / len(scores)
    return tuple(measure(item, fpr, each) for item in scores)


def observed_groups(seen: Observations, groups: ArrayLike) -> Observations:
    """The same observations with every record's group."""
    return replace(seen, group=np.asarray(groups).astype(str))


def _learns(rule: AnyAttack) -> bool:
    """Whether an attack learns from records of known membership."""
    return isinstance(rule, Attack) and rule.references.of_target


def _sight(looks: bool, known: int) -> str:
    """What the attackers saw, in words."""
    seen = "outputs on chosen records" + (", layers and gradients" if looks else "")
    return seen + (f"; the membership of {known} other records" if known else "")


def features(x: NDArray[Any]) -> NDArray[np.float64]:
    """What is known of each record itself: its numbers, or, of texts, how often words of each hash occur."""
    if not all(isinstance(value, str) for value in x.ravel()[:1]):
        try:
            return x.reshape(len(x), -1).astype(np.float64)
        except (TypeError, ValueError):
            raise BadInput("Records must be numbers, or all of them texts.") from None
    counts = np.zeros((len(x), WORDS))
    for row, texts in enumerate(x.reshape(len(x), -1)):
        for word in " ".join(map(str, texts)).lower().split():
            counts[row, zlib.crc32(word.encode()) % WORDS] += 1
    return np.asarray(np.log1p(counts))


def pool(members: Any, nonmembers: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Records, labels and membership of both."""
    try:
        (x_in, y_in), (x_out, y_out) = members, nonmembers
    except (TypeError, ValueError):
        raise BadInput("members and nonmembers must each be a pair (x, y).") from None
    x_in, y_in, x_out, y_out = (np.asarray(part) for part in (x_in, y_in, x_out, y_out))
    if len(x_in) != len(y_in) or len(x_out) != len(y_out) or x_in.shape[1:] != x_out.shape[1:]:
        raise BadInput("members and nonmembers need x and y of one length and features of one shape.")
    if len(x_in) < 2 or len(x_out) < 2:
        raise BadInput("An attack needs at least two members and two non-members.")
    if overlap((x_in, y_in), (x_out, y_out)):
        raise BadInput("Some records are both members and non-members.", fix="Give two disjoint sets.")
    member = np.concatenate((np.ones(len(x_in), dtype=bool), np.zeros(len(x_out), dtype=bool)))
    return np.concatenate((x_in, x_out)), np.concatenate((y_in, y_out)), member


def overlap(one: tuple[NDArray[Any], NDArray[Any]], other: tuple[NDArray[Any], NDArray[Any]]) -> bool:
    """Whether some record with its label is in both; numbers are compared as one kind of number."""
    x, y = np.concatenate((one[0], other[0])), np.concatenate((one[1], other[1]))
    known = [(row.tobytes(), str(label)) for row, label in zip(x, y, strict=True)]
    return not set(known[: len(one[0])]).isdisjoint(known[len(one[0]) :])


def halves(records: int, models: int, rng: Source) -> NDArray[np.bool_]:
    """Random halves in pairs, so that every record is in exactly half of an even number of models."""
    member = np.zeros((records, models), dtype=bool)
    for k in range(models):
        member[:, k] = ~member[:, k - 1] if k % 2 else rng.permutation(records) < records // 2
    return member


def _references(
    fit: Fit, x: NDArray[Any], y: NDArray[Any], count: int, rng: Source, classes: NDArray[Any] | None
) -> Observations:
    """What models trained on random halves say of all records; a fit that offers `many` trains them together."""
    member = halves(len(x), count, rng)
    if not callable(getattr(fit, "many", None)):
        outputs = [answers(fit(x[rows], y[rows], rng.generator()), x, classes) for rows in member.T]
        return observe(outputs, y, member, classes)
    size = Together.of(fit).at_once
    outputs = []
    for first in range(0, count, size):
        sides, told = member[:, first : first + size], ""
        with Border() as border:
            told = answers_of_many(fit, x.copy(), y.copy(), sides, [rng.generator() for _ in sides.T], x)
        if isinstance(told, str):
            raise BadInput(f"The training of reference models {border.problem or told}.")
        outputs += list(told)
    return observe(outputs, y, member, classes)


def _chosen(attacks: str | Sequence[str | AnyAttack], others: Observations | None) -> list[AnyAttack]:
    if attacks == "auto":
        names = WITHOUT_REFERENCES if others is None else WITHOUT_REFERENCES + WITH_REFERENCES
        return [ATTACKS[name] for name in names]
    wanted = [attacks] if isinstance(attacks, str) else list(attacks)
    if not wanted:
        raise BadInput("Name at least one attack.")
    found: list[AnyAttack] = [named(item) if isinstance(item, str) else item for item in wanted]
    for rule in found:
        if others is None and getattr(rule, "references", None) in (References.OUT, References.BOTH):
            raise BadInput(
                f"The attack {rule.name} needs reference models.",  # type: ignore[attr-defined]
                fix="Give fit=, or an estimator that can be cloned, and references above 0.",
            )
    return found
