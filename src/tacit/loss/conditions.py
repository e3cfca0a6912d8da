"""What the reader of a bound must believe: one sentence for each condition of each theorem behind it.

This is the only source of conditions. Whatever shows an upper bound (a plan, a claim, a verb, a report) takes them from
here, so that none can be dropped on the way (soundness rule 28).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core.adjacency import Adjacency
from ..core.bound import Bound, Side
from ..core.events import (
    ZCDP,
    AboveThreshold,
    Allocation,
    ApproximateDP,
    BandedFactorisation,
    BoundedRange,
    Compose,
    CyclicPoisson,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    LastIterate,
    MatrixFactorisation,
    NoisyMax,
    NonPrivate,
    NoOp,
    ObjectivePerturbation,
    OneOf,
    PartitionSelection,
    Poisson,
    RandomizedResponse,
    Repeat,
    RepeatAndSelect,
    Shuffled,
    TruncatedPoisson,
    family,
    walk,
)

FRESH = "every release draws its randomness afresh, independently of all others"
SECRET = "nobody learns who is in a batch"
STEADY = "a record added, removed or exchanged leaves the steps of all others as they are"
CYCLIC = "each record takes part in at most `participations` steps, any two of them at least `separation` apart"
SCALED = "one record's contribution to a step has at most the norm that the noise is scaled by"
AS_STATED = "the release is private as stated, under this adjacency"
AT_MOST = "there are at most `size` records"
SMOOTH = (
    "every loss is a convex function of one inner product, as steep and curved as stated, and twice differentiable "
    "except at finitely many points"
)
EVERYWHERE = "the parameters are not constrained, and nobody learns the random linear term that was added to the loss"
EXACT = "the minimiser is exact, or another event of the claim covers the distance at which the solver stopped"
MIXED = "the numbers that the noise of all steps is mixed from are drawn afresh, independently of each other"
ANSWERED = "each record gives one answer, drawn as `epsilon` and `categories` say"
COUNTED = "how many people answer is public beforehand, or never seen"
FRESH_POISSON = "every batch is a fresh Poisson sample: each record independently with probability `rate`"


@dataclass(frozen=True)
class Conditions:
    """What the theorems about one kind of event assume, and the name of how it draws batches, if it does."""

    texts: tuple[str, ...] = ()
    sampling: str | None = None
    more: Callable[[Event], tuple[str, ...]] | None = None

    def of(self, event: Event) -> tuple[str, ...]:
        return self.texts + (self.more(event) if self.more else ())


def _last_iterate(event: Event) -> tuple[str, ...]:
    assert isinstance(event, LastIterate)
    drawn = (
        "every step takes all records" if event.rate == 1 else "every batch is a fresh Poisson sample of rate `rate`"
    )
    return (drawn,) if event.diameter is None else (drawn, "every step ends with a projection onto one convex set")


CONDITIONS: dict[type[Event], Conditions] = {
    NoOp: Conditions(),
    NonPrivate: Conditions(),
    Repeat: Conditions((FRESH,)),
    Compose: Conditions((FRESH,)),
    Gaussian: Conditions(
        ("one record moves what is released by at most the Euclidean norm that the noise is scaled by",)
    ),
    Laplace: Conditions(("one record moves what is released by at most the L1 norm that the noise is scaled by",)),
    DiscreteGaussian: Conditions(("one integer is released, and one record moves it by at most `sensitivity`",)),
    DiscreteLaplace: Conditions(
        ("integers are released, and one record moves them by an L1 norm of at most `sensitivity`",)
    ),
    RandomizedResponse: Conditions((ANSWERED, COUNTED)),
    BoundedRange: Conditions(
        ("the log ratio of probabilities of every choice stays within a range of length `epsilon`",)
    ),
    NoisyMax: Conditions(("scores move by at most what the noise is scaled by, and only the index is seen",)),
    AboveThreshold: Conditions(
        ("queries move by at most what the noise is scaled by, and all ends at the first answer",)
    ),
    ApproximateDP: Conditions((AS_STATED,)),
    PartitionSelection: Conditions((AS_STATED,)),
    ZCDP: Conditions((AS_STATED,)),
    Poisson: Conditions((FRESH_POISSON, SECRET), "poisson"),
    TruncatedPoisson: Conditions(
        ("every batch is a fresh Poisson sample, cut down to `cap` records chosen uniformly", SECRET, AT_MOST),
        "truncated-poisson",
    ),
    FixedSize: Conditions(
        ("every batch is a fresh uniform sample of exactly `batch` records, without replacement", SECRET), "fixed-size"
    ),
    Shuffled: Conditions(
        ("every pass shuffles the records and cuts them into batches; the shuffle is counted as known", FRESH),
        "shuffled",
    ),
    Allocation: Conditions(
        ("each record takes part in exactly `times` of `steps` releases, chosen afresh, uniformly", SECRET, FRESH),
        "allocation",
    ),
    MatrixFactorisation: Conditions(
        (CYCLIC, STEADY, SCALED, MIXED),
        "cyclic",
    ),
    BandedFactorisation: Conditions(
        (CYCLIC, STEADY, SCALED, MIXED),
        "cyclic",
    ),
    CyclicPoisson: Conditions(
        (
            "each record belongs to one of `cycle` groups, which was chosen without looking at the data",
            "step k samples only group k mod `cycle`, each of its records independently with probability `rate`",
            SECRET,
            STEADY,
            SCALED,
            MIXED,
        ),
        "cyclic-poisson",
    ),
    OneOf: Conditions(("which of the events takes place is drawn without looking at the records",)),
    RepeatAndSelect: Conditions(
        ("only the best run is seen, and the number of runs is drawn as `shape` and `mean` say", FRESH)
    ),
    ObjectivePerturbation: Conditions((SMOOTH, EVERYWHERE, EXACT)),
    LastIterate: Conditions(
        (
            "every loss is convex and as steep and smooth as stated everywhere, without clipping; constants are public",
            "the start does not depend on the data, and no iterate but the last is ever seen",
            AT_MOST,
            FRESH,
        ),
        more=_last_iterate,
    ),
}
"""Every event of this package; one without an entry relies on whoever registered its cost."""


_ONCE = "the minimiser is exact, over all of space, and nothing else is released"
FORMER = {
    SMOOTH: (
        "every loss is a convex, twice differentiable function of one inner product, as steep and curved as stated",
    ),
    EVERYWHERE: (_ONCE, "the minimum is taken over all of space, and the random tilt is never seen"),
    EXACT: (_ONCE,),
    COUNTED: (ANSWERED,),
}
"""How evidence of earlier versions says what is said otherwise now."""


def listed(text: str, assumptions: tuple[str, ...]) -> bool:
    """Whether a condition is among the assumptions of a bound, in the words of this version or of an earlier one."""
    return any(words in assumptions for words in (text, *FORMER.get(text, ())))


def conditions(event: Event) -> list[str]:
    """All conditions of an event and of the events in it: how batches are drawn first, then the others."""
    parts = list(walk(event))
    drawn = [text for part in parts if _known(part).sampling for text in _known(part).of(part)]
    others = [text for part in parts if not _known(part).sampling for text in _known(part).of(part)]
    return list(dict.fromkeys(drawn + others))


def sampling_names(event: Event) -> str:
    """The kinds of sampling in an event, by name."""
    names = [_known(part).sampling for part in walk(event)]
    names += ["poisson" for part in walk(event) if isinstance(part, LastIterate) and part.rate < 1]
    return ", ".join(dict.fromkeys(name for name in names if name)) or "none"


def upper_bound(
    epsilon: float,
    delta: float,
    event: Event,
    adjacency: Adjacency,
    *,
    method: str,
    unit: str = "record",
    more: tuple[str, ...] = (),
) -> Bound:
    """A proven bound of an event with all that its theorems assume, and `more` that its maker knows."""
    return Bound(
        epsilon=epsilon,
        delta=delta,
        side=Side.UPPER,
        confidence=1.0,
        method=method,
        adjacency=adjacency,
        unit=unit,
        assumes=family(event),
        assumptions=(*conditions(event), *more),
    )


def _known(event: Event) -> Conditions:
    name = type(event).__name__
    return CONDITIONS.get(type(event)) or Conditions(
        (f"the cost that was registered for {name} is a theorem about it",)
    )
