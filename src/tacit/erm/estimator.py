"""What every private estimator has: a budget, a charge before the draw, evidence and a page."""

from __future__ import annotations

import inspect
import secrets
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ..core import (
    Adjacency,
    BadInput,
    Bound,
    Charger,
    Event,
    Evidence,
    PrivacyWarning,
    Receipt,
    Scoped,
    Source,
    check,
    source,
)
from ..core.evidence import Claim
from ..core.randomness import Seeded
from ..core.shown import small
from ..mechanism.charging import behind
from .budget import Budget
from .carried import Carried
from .trials import by_ensemble, changes, refuse_trial, searched

if TYPE_CHECKING:
    from ..reports import Page

SIZE = "the number of records is public"
AT_MOST = "there are at most {:,} records"
"""A public limit, which follows from public_size."""
FLOATS = "noise is drawn in float64, not on a grid: an attacker who sees every bit of the weights is not covered"
TUNED = "settings that were chosen by looking at the data"
BEFORE = (
    "what was computed from the records before the fit without noise, such as means by which rows were scaled, folds "
    "of equal shares of every class, or the numbers that an ensemble gives to the labels that occur"
)
SCORED = "scores on the records that it was trained on: they are not released with the weights"
ALONE = "other releases: no ledger was given"
SEEDED = "anybody who knows the seed that the noise was drawn from, or sees another release drawn from it"


class PrivateEstimator(BaseEstimator):
    """Base of the private estimators, in which `epsilon`, `delta`, `adjacency` and `ledger` mean the same.

    `delta` None is 1/n^2. `random_state` None draws from the operating system's cryptographic source.
    `public_size` is a public number near that of the records, which stays private then; None says that it is public.
    """

    public_size: int | None
    epsilon: float
    delta: float | None
    adjacency: str
    ledger: Charger | None
    random_state: int | None
    event_: Event
    bound_: Bound
    method_: str
    receipt_: Receipt | None
    uncovered_: tuple[str, ...]
    randomness_: str
    settings_: str
    utility_: dict[str, float]
    _result: ClassVar[str] = "coef_"
    """The attribute that says that a fit was finished."""
    _released: ClassVar[str] = "the weights of the model"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let every public method go through numbers that overflow or underflow: under `numpy.seterr(all="raise")` one
        record's tiny value would stop a fit (soundness rule 8)."""
        super().__init_subclass__(**kwargs)
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, np.errstate(all="ignore")(method))

    def __sklearn_clone__(self) -> Self:
        """A copy without what was fitted. It pays into the same ledger: a budget is never copied."""
        settings = self.get_params(deep=False).items()
        copy = type(self)(**{name: value if name == "ledger" else clone(value, safe=False) for name, value in settings})
        copy._copied, copy._changed = True, self._changed or searched()
        return copy

    _copied = False
    _changed = False

    def set_params(self, **params: object) -> Self:
        """Change settings; a copy by `sklearn.base.clone` whose settings were changed will not fit: see `trials`.

        The seeds that ensembles of scikit-learn give to their parts are not taken where `random_state` is None.
        """
        if self.random_state is None and by_ensemble():
            params.pop("random_state", None)
        self._changed = self._changed or (self._copied and changes(params))
        return super().set_params(**params)  # type: ignore[no-any-return]

    def __getstate__(self) -> object:
        """What a pickle or a copy holds. A fitted one goes without the seed, which would undo its noise, and loads
        where its ledger is not."""
        state = super().__getstate__()
        if self._result not in state:
            return state
        return {**state, "random_state": None, "ledger": Carried(state["ledger"])}

    def __setstate__(self, state: dict[str, object]) -> None:
        held = state.get("ledger")
        super().__setstate__({**state, "ledger": held.ledger} if isinstance(held, Carried) else state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True  # an entry that is no number counts as 0
        return tags

    def _size(self, records: int) -> int:
        """The public number of records."""
        if self.public_size is None:
            return records
        size = check.whole("public_size", self.public_size)
        if records > self._most(size):
            times = "" if self._room == 1 else "twice "
            raise BadInput(f"There are more than {times}public_size records.", fix="Raise public_size.")
        return size

    def _most(self, size: int) -> int:
        """There are never more records than this: a public number."""
        return size if self.public_size is None else self._room * size

    @property
    def _room(self) -> int:
        """How many times `public_size` records there may be at most."""
        return 2

    def _budget(self, size: int, models: int = 1) -> Budget:
        if self.delta is None and size < 2:
            raise BadInput(f"{self._name()} cannot learn from one sample.", fix="Give more records.")
        delta = 1.0 / size**2 if self.delta is None else check.delta(self.delta)
        if delta * size >= 1:
            warnings.warn(
                f"delta {small(delta)} is not below one over the number of records: publishing a whole record now and "
                "then would be allowed.",
                PrivacyWarning,
                stacklevel=4,
            )
        neighbours = Adjacency.of(self.adjacency)
        if neighbours is Adjacency.ZERO_OUT:
            raise BadInput(
                'adjacency="zero-out" is not offered here: a row of zeros or missing values still counts in sums.',
                fix='Use "add-remove" or "replace".',
            )
        return Budget(check.positive("epsilon", self.epsilon), delta, neighbours, models)

    def _begin(self) -> None:
        """Forget an earlier fit, whose weights the next claim would not cover, and refuse to be one trial of many."""
        refuse_trial(self._name(), marked=self._changed, size_is_public=getattr(self, "public_size", None) is None)
        self._noise_source()  # refused before anything is paid
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _noise_source(self) -> Source:
        try:
            return source(self.random_state)
        except BadInput:
            kind = type(self.random_state).__name__
            raise BadInput(f"random_state must be None or a whole number from 0 on, got {kind}.") from None

    def _charge(self, event: Event, budget: Budget) -> None:
        """Pay, and fix the claim; whoever calls this has drawn no noise yet. A refused charge leaves no claim."""
        bound, receipt = budget.bound(event, (self._counted(),)), None
        if self.ledger is not None:
            receipt = paid(self.ledger, event, budget.adjacency, self._name())
        self.event_, self.bound_, self.receipt_ = event, bound, receipt
        self._fix_terms()

    def _counted(self) -> str:
        """What the claim assumes about the number of records."""
        return SIZE if self.public_size is None else AT_MOST.format(self._most(int(self.public_size)))

    def _fix_terms(self) -> None:
        """Write down what the claim does not cover, by the settings of this fit: they may be changed afterwards."""
        self.randomness_ = source(self.random_state).name
        seeded = (SEEDED,) if self.randomness_ == Seeded.name else ()
        alone = (ALONE,) if self.ledger is None else ()
        self.uncovered_ = (*seeded, *self._not_covered(), *alone)

    def evidence(self) -> Evidence:
        """The claim with its event, what it assumes and what it does not cover."""
        check_is_fitted(self, self._result)
        settings = vars(self).get("settings_")
        return Evidence(
            subject=self._name(),
            claim=Claim(self.bound_, self.event_),
            not_covered=(*((TUNED,) if settings is None else ()), BEFORE, SCORED, *self.uncovered_),
            threat={
                "released": self._released,
                "attacker sees": f"all of {self._released}, and knows every setting",
                "trust": "whoever trains holds the records and is trusted with them",
                "composition": "this model alone, unless a ledger was charged",
            },
            provenance={
                "method": self.method_,
                "randomness": self.randomness_,
                **({} if settings is None else {"settings": settings}),
            },
        )

    def _won(self, evidence: Evidence, receipt: Receipt | None) -> None:
        """Take over the claim of the `tacit.search` that this fit won: its own would not count the other trials."""
        if self._result not in vars(self) or evidence.claim is None:
            return
        assert evidence.claim.event is not None
        self.event_, self.bound_, self.receipt_ = evidence.claim.event, evidence.claim.bound, receipt
        if "utility_" in vars(self):
            self.utility_ = {}  # theorems promise it of one fit, not of the best of many
        kept = tuple(line for line in self.uncovered_ if line != ALONE or receipt is None)
        self.uncovered_ = (*kept, *evidence.not_covered)
        chosen = str(evidence.provenance["settings"])
        self.settings_ = f"{self.settings_}; then {chosen}" if "settings_" in vars(self) else chosen

    def report(self, path: str | Path = "report.html", **options: Any) -> Page:
        """Write the page about this model; see `tacit.report`."""
        import tacit

        return tacit.report(self.evidence(), path, **options)

    def _not_covered(self) -> tuple[str, ...]:
        return ()

    def _name(self) -> str:
        return type(self).__name__


def paid(ledger: Charger, event: Event, adjacency: Adjacency, name: str) -> Receipt:
    """Charge an event. A ledger that counts other neighbours, or people with several records, is told for whom the
    event counts: it converts the charge or refuses it.

    An `Account` passes no adjacency on, so the ledger behind it is asked itself.
    """
    if not callable(getattr(ledger, "charge", None)):
        raise BadInput(f"ledger must be a ledger, got {type(ledger).__name__}.", fix='Give tacit.Ledger("budget.db").')
    ledger, purpose, analyst = behind(ledger, name)
    key = f"fit-{secrets.token_hex(16)}"
    if isinstance(ledger, Scoped):
        return ledger.charge(event, key=key, purpose=purpose, analyst=analyst, adjacency=adjacency, unit="record")
    return ledger.charge(event, key=key, purpose=purpose, analyst=analyst)


def strength(asked: float | str) -> float | None:
    """The regularisation of the mean loss that was asked for; None for "auto"."""
    if isinstance(asked, str):
        if asked != "auto":
            raise BadInput(f"regularization must be a number or 'auto', got {asked!r}.")
        return None
    found = check.nonnegative("regularization", asked)
    return check.positive("regularization", found) if found > 0 else found
