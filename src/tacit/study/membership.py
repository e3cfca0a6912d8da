"""Attack a model: how well can an outsider tell its members from others?"""

from __future__ import annotations

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
from ..core import BadInput, Control, Evidence, Measurement, Observations, Scores, Source, check, scores_file, source
from .models import Fit, answers, classes_of, inside, is_regressor, refit
from .outputs import Reading
from .provenance import provenance
from .records import features, identities, joined, kept, size
from .reference_models import trained
from .risk import records, unnamed

AnyAttack = Callable[[Observations, Observations | None], Scores]
FPRS = (0.01, 0.001, 0.0001)
WITHOUT_REFERENCES = ("loss", "modified-entropy")
WITH_REFERENCES = ("lira", "rmia", "student", "combined")
NOT_COVERED = ("measured on observed members and non-members: no statement about differential privacy",)

NO_REFERENCES = (
    "attacks with reference models, which find more: give fit(x, y, rng), the training of another model like this one"
)


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
    output: str = "auto",
) -> Evidence:
    """Measure membership inference against a trained model.

    `members` and `nonmembers` are (x, y); they must come from one distribution (the blind baseline tests that).
    x may be an array, a DataFrame, an Arrow table, a sparse matrix or texts, and goes to the model as it is. `output`
    says what the model answers with (labels, probabilities, logits, or the values of a regression) where that cannot be
    told from its numbers.

    Reference models are trained on random parts of both together, as large as the members, by `fit(x, y, rng)` or by
    cloning an estimator; without either only attacks that need none are run. An attack that learns from known records
    is told the membership of a random half and judged on the other; one that looks inside needs a torch model. The
    most exposed records are named by their row among members, then non-members.
    """
    randomness = source(rng)
    if not isinstance(fpr, Sequence):
        raise BadInput("fpr must be a sequence of false-positive rates.")
    x, y, member = pool(members, nonmembers)
    train, classes = refit(target, fit), classes_of(target, y)
    told = answers(target, x, classes)
    reading = Reading.of(told, y, classes, "values" if output == "auto" and is_regressor(target) else output)
    wanted = check.whole("references", references, least=0) if train is not None else 0
    taught, sides = trained(train, x, y, int(member.sum()), wanted, randomness, classes) if wanted else ([], None)
    read = reading.coarsest(taught)
    seen = reading.observe([told], member[:, None], read)
    others = None if sides is None else reading.observe(taught, sides, read)
    if groups is not None:
        seen = observed_groups(seen, groups)
    chosen = _chosen(attacks, seen, others)
    known = features(x)
    seen = replace(seen, features=known, record=np.arange(len(y)))
    looks = any({"internals", "gradient_norm"} & set(getattr(rule, "needs", ())) for rule in chosen)
    seen = inside(target, x, seen) if looks else seen
    told = known_split(seen, randomness) if any(map(_learns, chosen)) else (seen, seen)
    given = {id(rule): told if _learns(rule) else (seen, others) for rule in chosen}
    scores = [rule(*given[id(rule)]) for rule in chosen]
    if not all(isinstance(item, Scores) for item in scores):
        raise BadInput("An attack must return Scores.")
    baseline, blind = blind_baseline(known, member, randomness, label=y, confidence=confidence)
    return Evidence(
        subject=type(target).__name__,
        measurements=(*measured(scores, confidence, fpr), baseline),
        groups=() if groups is None else tuple(disparity(scores[-1], randomness, confidence=confidence)),
        controls=(*controls(chosen[-1], *given[id(chosen[-1])], randomness), blind),
        not_covered=(*NOT_COVERED, *_understated(others)),
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


def _understated(others: Observations | None) -> tuple[str, ...]:
    """What these attacks could not show for want of reference models."""
    if others is None:
        return (NO_REFERENCES,)
    return unnamed(others.models)


def _learns(rule: AnyAttack) -> bool:
    """Whether an attack learns from records of known membership."""
    return isinstance(rule, Attack) and rule.references.of_target


def _sight(looks: bool, known: int) -> str:
    """What the attackers saw, in words."""
    seen = "outputs on chosen records" + (", layers and gradients" if looks else "")
    return seen + (f"; the membership of {known} other records" if known else "")


def pool(members: Any, nonmembers: Any) -> tuple[Any, NDArray[Any], NDArray[np.bool_]]:
    """Records, labels and membership of both; records stay in the kind of table they came in."""
    try:
        (x_in, y_in), (x_out, y_out) = members, nonmembers
    except (TypeError, ValueError):
        raise BadInput("members and nonmembers must each be a pair (x, y).") from None
    x_in, x_out, y_in, y_out = kept(x_in), kept(x_out), _labels(y_in), _labels(y_out)
    if size(x_in) != len(y_in) or size(x_out) != len(y_out):
        raise BadInput("members and nonmembers need x and y of one length and features of one shape.")
    if len(y_in) < 2 or len(y_out) < 2:
        raise BadInput("An attack needs at least two members and two non-members.")
    x = joined(x_in, x_out)
    if overlap((x_in, y_in), (x_out, y_out)):
        raise BadInput("Some records are both members and non-members.", fix="Give two disjoint sets.")
    member = np.concatenate((np.ones(len(y_in), dtype=bool), np.zeros(len(y_out), dtype=bool)))
    return x, np.concatenate((y_in, y_out)), member


def _labels(y: Any) -> NDArray[Any]:
    """One label per record; words as words, nothing missing."""
    found = np.asarray(y)
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1:
        raise BadInput("Labels must be one per record.", fix="Give the column of labels, or class numbers.")
    if found.dtype.kind == "O":
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in found)
        found = found.astype(np.float64) if numbers else found
    missing = np.isnan(found) if found.dtype.kind == "f" else np.array([value is None for value in found.ravel()])
    if missing.any():
        raise BadInput(f"{int(missing.sum())} labels are missing.", fix="Leave out records without a label.")
    return found.astype(str) if found.dtype.kind == "O" else found


def overlap(one: tuple[Any, NDArray[Any]], other: tuple[Any, NDArray[Any]]) -> bool:
    """Whether some record with its label is in both; numbers are compared as one kind of number."""
    known = identities(joined(one[0], other[0]), np.concatenate((one[1], other[1])))
    return not set(known[: len(one[1])]).isdisjoint(known[len(one[1]) :])


def _chosen(
    attacks: str | Sequence[str | AnyAttack], seen: Observations, others: Observations | None
) -> list[AnyAttack]:
    if attacks == "auto":
        names = WITHOUT_REFERENCES if others is None else WITHOUT_REFERENCES + WITH_REFERENCES
        return [ATTACKS[name] for name in names if not ATTACKS[name].missing(seen, others)]
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
