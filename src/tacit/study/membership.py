"""Attack a model: how well can an outsider tell its members from others?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

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
    outsiders_needed,
    planted_leak,
)
from ..attacks.controls import direction
from ..core import BadInput, Control, Evidence, Measurement, Observations, Scores, Source, check, scores_file, source
from ..core.evidence import SHOWN_AT
from ..core.sentence import WAYS
from ..core.shown import proportion
from .asking import Asked, Pool
from .augmented_queries import Copies
from .cloning import refit
from .finished_parts import Checkpoint, Finished
from .models import Fit, as_given, check_inside, inside
from .provenance import provenance
from .records import features
from .risk import records, unnamed

AnyAttack = Callable[[Observations, Observations | None], Scores]
FPRS = (0.01, 0.001, 0.0001)
WITHOUT_REFERENCES = ("loss", "modified-entropy")
WITH_REFERENCES = ("lira", "rmia", "student", "combined")
NOT_COVERED = ("measured on observed members and non-members: no statement about differential privacy",)
NO_REFERENCES, NONE_ASKED = (f"attacks with reference models, which find more: {way}" for way in WAYS)


def attack(
    target: object,
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
    augment: Copies | None = None,
    checkpoint: Checkpoint = None,
) -> Evidence:
    """Measure membership inference against a trained model.

    `members` and `nonmembers` are (x, y); they must come from one distribution (the blind baseline tests that).
    x may be an array, a DataFrame, an Arrow table, a sparse matrix or texts, and goes to the model as it is. `output`
    says what the model answers with (labels, probabilities, logits, or the values of a regression) where that cannot be
    told from its numbers. `augment` are copies of each record, as the target's training saw them, that all models are
    asked about.

    Reference models are trained on random parts of both together, as large as the members, by `fit(x, y, rng)` or by
    cloning an estimator; without either only attacks that need none are run. An attack that learns from known records
    is told the membership of a random half and judged on the other; one that looks inside needs a torch model. The
    most exposed records are named by their row among members, then non-members.

    `checkpoint` names a folder that reference models are noted in as they are finished; the same attack that finds it
    goes on from there. It is a secret, and deleted at the end.
    """
    if not isinstance(fpr, Sequence):
        raise BadInput("fpr must be a sequence of false-positive rates.")
    if augment is not None and not isinstance(augment, Copies):
        raise BadInput("augment must be Copies(augment, times), of tacit.study.augmented_queries.")
    _able(target, listed(attacks))
    pooled = Pool.of(members, nonmembers, lambda x: features(as_given(target, x)))
    wanted = check.whole("references", references, least=0)
    finished = _begun(checkpoint, pooled, wanted, output, augment, rng)
    randomness = finished.chance
    train = refit(target, fit)
    asked = Asked.of(target, pooled, train, wanted, finished, output, augment)
    if groups is not None:
        asked = replace(asked, seen=observed_groups(asked.seen, groups))
    if looks := _looks(_chosen(attacks, asked.seen, asked.others)):
        asked = replace(asked, seen=inside(target, pooled.x, asked.seen))
    (left, test), crossing = pooled.copies()
    asked, kept = asked.without(left), np.flatnonzero(~left)
    seen, others = asked.seen, asked.others
    chosen = _chosen(attacks, seen, others)
    told = known_split(seen, randomness) if any(map(_learns, chosen)) else (seen, seen)
    given = [told if _learns(rule) else (seen, others) for rule in chosen]
    scores = _scored(chosen, given)
    baseline, blind = blind_baseline(
        seen.need("features"), pooled.member[kept], randomness, label=pooled.y[kept], confidence=confidence
    )
    found = measured(scores, confidence, fpr)
    evidence = Evidence(
        subject=type(target).__name__,
        measurements=(*found, baseline),
        groups=() if groups is None else tuple(disparity(scores[-1], randomness, confidence=confidence)),
        controls=(
            *controls(chosen[-1], *given[-1], randomness),
            blind,
            *(() if test is None else (test,)),
            *direction(scores),
        ),
        not_covered=(
            *NOT_COVERED,
            *_understated(others, NO_REFERENCES if train is None else NONE_ASKED),
            *too_few(found),
        ),
        threat={
            "released": "final model",
            "attacker sees": _sight(looks, told[1].records if told[0] is not seen else 0),
        },
        provenance={
            **provenance(randomness, references=0 if others is None else references),
            **({"nonmembers_equal_to_a_member": crossing} if crossing else {}),
            **({"rows_that_repeat_a_record": pooled.repeated} if pooled.repeated else {}),
        },
        scores=tuple(scores),
        **({} if others is None else records(others, *randomness.spawn(1))),
    )
    if not isinstance(checkpoint, Finished):  # else there is more to come
        finished.end()
    return evidence


def _begun(
    checkpoint: Checkpoint,
    pooled: Pool,
    references: int,
    output: str,
    augment: Copies | None,
    rng: Source | int | np.random.Generator | None,
) -> Finished:
    """What an earlier call finished, if its settings and records were these; else a new beginning."""
    if checkpoint is None:
        return Finished(source(rng))
    about = {"references": references, "members": int(pooled.member.sum()), "output": output}
    about |= {} if augment is None else {"copies": augment.times}
    return Finished.of(checkpoint, about, (pooled.known, pooled.y), rng)


def _scored(rules: Sequence[AnyAttack], given: Sequence[tuple[Observations, Observations | None]]) -> list[Scores]:
    """The scores of each attack on what it is given."""
    scores = [rule(*parts) for rule, parts in zip(rules, given, strict=True)]
    if not all(isinstance(item, Scores) for item in scores):
        raise BadInput("An attack must return Scores.")
    return scores


def read_scores(path: str) -> Evidence:
    """Evidence from a file of scores: what they say, without a model to test the experiment with."""
    found = scores_file.read(path)
    shown = measured(found, 0.95)
    return Evidence(
        subject=found[0].attack,
        measurements=shown,
        controls=direction(found),
        not_covered=(
            *NOT_COVERED,
            *too_few(shown),
            "scores were read from a file: no control could be run that asks the model",
        ),
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
    """Add every record's group to observations."""
    return replace(seen, group=np.asarray(groups).astype(str))


def _understated(others: Observations | None, line: str) -> tuple[str, ...]:
    """What these attacks could not show for want of reference models."""
    if others is None:
        return (line,)
    return unnamed(others.models)


def too_few(found: Sequence[Measurement]) -> tuple[str, ...]:
    """How many outsiders would show that some attack beats guessing, at the largest rate where the sample cannot."""
    for fpr in sorted({fpr for item in found for fpr, _ in item.tpr_at_fpr}, reverse=True):
        if any(dict(item.tpr_at_fpr)[fpr].lower > fpr for item in found):
            continue
        needed = [count for item in found if (count := outsiders_needed(item, fpr)) is not None]
        return (f"{SHOWN_AT} {proportion(fpr)} outsiders: that takes at least {min(needed):,}",) if needed else ()
    return ()


def _able(target: object, chosen: Sequence[AnyAttack]) -> None:
    """Refuse attacks that cannot look inside the target before any reference model is trained."""
    if _looks(chosen):
        check_inside(target)


def _looks(chosen: Sequence[AnyAttack]) -> bool:
    """Whether an attack looks inside the model."""
    return any({"internals", "gradient_norm"} & set(getattr(rule, "needs", ())) for rule in chosen)


def _learns(rule: AnyAttack) -> bool:
    """Whether an attack learns from records of known membership."""
    return isinstance(rule, Attack) and rule.references.of_target


def _sight(looks: bool, known: int) -> str:
    """What the attackers saw, in words."""
    seen = "outputs on chosen records" + (", layers and gradients" if looks else "")
    return seen + (f"; the membership of {known} other records" if known else "")


def listed(attacks: str | Sequence[str | AnyAttack]) -> list[AnyAttack]:
    """Attacks by their names; `auto` names none of its own, and a name that is not known is refused."""
    if attacks == "auto":
        return []
    wanted = [attacks] if isinstance(attacks, str) else list(attacks)
    if not wanted:
        raise BadInput("Name at least one attack.")
    return [named(item) if isinstance(item, str) else item for item in wanted]


def _chosen(
    attacks: str | Sequence[str | AnyAttack], seen: Observations, others: Observations | None
) -> list[AnyAttack]:
    if attacks == "auto":
        names = WITHOUT_REFERENCES if others is None else WITHOUT_REFERENCES + WITH_REFERENCES
        return [ATTACKS[name] for name in names if not ATTACKS[name].missing(seen, others)]
    found = listed(attacks)
    for rule in found:
        if others is None and getattr(rule, "references", None) in (References.OUT, References.BOTH):
            raise BadInput(
                f"The attack {rule.name} needs reference models.",  # type: ignore[attr-defined]
                fix="Give fit=, or an estimator that can be cloned, and references above 0.",
            )
    return found
