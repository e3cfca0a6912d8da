"""The setting that meets a target exactly: one parameter solved for, verified by re-evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ..core import check
from ..core.adjacency import Adjacency
from ..core.bound import Bound
from ..core.errors import BadInput, TacitError
from ..core.events import Event, Gaussian, Poisson
from ..core.interval import Interval, finite
from ..core.privacy_loss import PrivacyLoss
from .closed import GaussianTotal, Single
from .composed import Composed
from .conditions import upper_bound
from .dispatch import loss_of, privacy_loss
from .noise import EPS
from .readers import Sure, direction
from .reading import training_event
from .root import FINE, LOOSEST, WIDEST, Doubt, Excess, root
from .saddle import ENOUGH, GAP

Estimate = Callable[[float], tuple[float, bool] | None]
"""An unproven excess, and whether reading the proven one is quick; None where there is no estimate."""
ROUGH = 0.03
"""How finely the value at which a guess meets its target is searched."""
STEEP = 4.0
"""The largest guess of an excess: beyond, one Newton step says only on which side the answer is."""
SELDOM = 3.0
"""With fewer samples of one record on average than this, they are taken for one at most: only to start a search by."""
COARSE = 2e-5
"""How near to its target a search ends, relatively, where readings are slow."""
NEAR = 1e-3
"""Where readings are slow, a search may also end so near to the value that is solved for, relatively: where epsilon
falls with a high power of the noise, this is farther from the target."""
WIDE = 1e-4
"""The gap at which a contour's search for sharper ends of epsilon stops."""
PLAIN, FAINT = 0.015, 1e-12
"""Where a contour would take long, samples are seldom and delta is not this small, it is drawn only if the lattice has
a gap wider than this."""
UNSURE = 1e-5
"""Readings with a wider gap than this do not tell which number of steps is the last one."""
FAR = 0.5
"""An excess from which on estimates lead the search even where readings are quick: they may not stay so."""
HURRY = 0.05
"""How much farther in log scale a search for the number of steps goes at least after a first, a second ... step."""
AROUND = 0.03
"""Where no contour was found, none is tried so near in log scale."""
AHEAD = 3e-4
"""Estimates lead a search to this far below the target: upper ends of a lattice lie so far above the truth."""


@dataclass(frozen=True)
class Setting:
    """Noise, rate and steps of private training, with the epsilon they give at `delta`."""

    noise_multiplier: float
    rate: float
    steps: int
    delta: float
    adjacency: Adjacency
    epsilon: Interval

    @property
    def event(self) -> Event:
        """What training with this setting releases."""
        return training_event(self.noise_multiplier, self.rate, self.steps)

    @property
    def bound(self) -> Bound:
        """The proven claim, with all that it assumes."""
        method = "privacy-loss distribution"
        return upper_bound(self.epsilon.upper, self.delta, self.event, self.adjacency, method=method)

    def to_json(self) -> dict[str, object]:
        """The setting as values for JSON."""
        return {
            "noise_multiplier": finite(self.noise_multiplier),
            "rate": self.rate,
            "steps": self.steps,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "epsilon": self.epsilon.to_json(),
        }


def calibrate(
    solve: str = "noise_multiplier",
    *,
    delta: float,
    epsilon: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    noise_multiplier: float | None = None,
    rate: float = 1.0,
    steps: int = 1,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
) -> Setting:
    """The least noise, or the largest rate or number of steps, that keeps within one target.

    Target: `epsilon` at `delta`, or the largest `advantage` of any attack, or its largest `tpr` at `fpr`.

    Guarantee: the setting, evaluated again, meets the target with the upper end of its interval. Where samples are so
    seldom that reading epsilon is slow, the value may be 0.1 % away from the best one.
    """
    adjacency, delta = Adjacency.of(adjacency), check.delta(delta)
    target, read = _target(delta, epsilon, advantage, tpr, fpr)
    over = partial(_over, target=target, least=fpr or 0.0)
    known = _known(solve, noise_multiplier, rate, steps)
    readings: dict[float, Interval] = {}
    final: set[float] = set()
    slow, drawn = False, (math.nan, 0.0)

    def loss_at(value: float) -> PrivacyLoss:
        return privacy_loss(training_event(**{**known, solve: value}), adjacency)  # type: ignore[arg-type]

    def excess(value: float) -> float:
        """log of risk over target: at most 0 is good."""
        nonlocal drawn
        if epsilon is None or (slow and not readings):
            return plain(value)  # estimates lead so near that the first reading is mostly the last
        tried = drawn[1] > ENOUGH and abs(math.log(value / drawn[0])) < AROUND  # there was no contour so near
        gaps = [None if tried else WIDE]
        if slow and float(known.get("rate", 1)) * float(known.get("steps", 1)) < SELDOM / 100 and delta > FAINT:
            gaps.insert(0, None)
        readings[value] = _read(loss_at(value), gaps, read)
        drawn = drawn if tried else (value, readings[value].gap)
        return over(readings[value])

    def plain(value: float) -> float:
        """The excess as everybody reads it."""
        final.add(value)
        readings[value] = read(loss_at(value))
        return over(readings[value])

    def estimate(value: float) -> tuple[float, bool] | None:
        nonlocal slow
        loss = loss_at(value)
        found = loss.estimate(delta) if epsilon is not None and isinstance(loss, Composed) else None
        slow = found is not None and not found[1]
        return None if found is None or not found[0] > 0 else (math.log(found[0] / target), found[1])

    def limit(value: float) -> float:
        """Log of risk over target in the normal limit."""
        mu = _limit(**{**known, solve: value}, shift=adjacency.sensitivity)
        return over(read(privacy_loss(Gaussian(1 / mu), Adjacency.ADD_REMOVE)))

    def doubt() -> float:
        """How far apart the ends of the last reading are: no search need be finer than that."""
        if not readings:
            return 0.0
        last = next(reversed(readings.values()))
        return min(last.gap * last.upper / max(last.upper - (fpr or 0.0), 1e-300), LOOSEST)

    told = delta if epsilon is not None else (target - (fpr or 0.0)) / (1 - (fpr or 0.0))
    if solve == "noise_multiplier" and _rare(float(known["rate"]), float(known["steps"]), told):
        raise BadInput("Any noise multiplier down to 1e-9 meets the target.", fix="Ask for a smaller target.")
    guess = limit
    if epsilon is not None and solve == "noise_multiplier" and float(known["rate"]) * float(known["steps"]) < SELDOM:
        guess = partial(_seldom, epsilon, delta, float(known["rate"]), int(known["steps"]), adjacency)
    found = _SOLVERS[solve](excess, guess, doubt, estimate)
    if found not in final and readings[found].gap > GAP and not -LOOSEST <= plain(found) <= 0:
        led = lambda value, begin=found: math.log(begin / value) * _BETTER[solve]  # noqa: E731
        found = _SOLVERS[solve](plain, led, doubt, lambda value: None)
    known[solve] = found
    if epsilon is None:
        readings[found] = privacy_loss(training_event(**known), adjacency).epsilon(delta)  # type: ignore[arg-type]
    return Setting(**known, delta=delta, adjacency=adjacency, epsilon=readings[found])  # type: ignore[arg-type]


def _read(loss: PrivacyLoss, gaps: list[float | None], read: Callable[[PrivacyLoss], Interval]) -> Interval:
    """A reading without a contour, if it is asked for first and the loss is the same both ways, or with one."""
    if not isinstance(loss, Composed):
        return read(loss)
    if len(gaps) == 1 or not loss.symmetric:
        return read(replace(loss, gap=gaps[-1]))
    found = read(replace(loss, gap=None))
    return found if gaps[-1] is None or found.gap <= PLAIN else read(replace(loss, gap=gaps[-1]))


def _seldom(
    epsilon: float, delta: float, rate: float, steps: int, adjacency: Adjacency, noise_multiplier: float
) -> float:
    """For whoever is sampled once at most: the epsilon at which all steps together have delta, by one Newton step.

    In log scale, relative to the one asked for; a start, not a bound.
    """
    one = direction(((loss_of(Poisson(rate, Gaussian(noise_multiplier)), adjacency, 1).releases[0][0].remove, 1),))
    reader = one.reader if isinstance(one, Sure) else one
    if not isinstance(reader, Single | GaussianTotal):
        return math.nan
    first, second, _ = reader.parts(epsilon)
    if not first - second > 0:
        return -1.0
    found = math.log(steps * (first - second) / delta) * (first - second) / (epsilon * max(second, 1e-300))
    return min(max(found, -STEEP), STEEP)


def _rare(rate: float, steps: float, told: float) -> bool:
    """Whether a chance of `told` to tell all covers whoever is ever sampled: then no noise is needed.

    With delta it makes epsilon 0. With an advantage a it is a, and a true-positive rate is then fpr + a (1 - fpr).
    """
    return rate < 1 and -math.expm1(steps * math.log1p(-rate)) * (1 + 1e-12) <= told


def _over(risk: Interval, target: float, least: float) -> float:
    """log of risk over target, both as far as they are above the least risk there is: at most 0 where it is met."""
    if risk.upper <= least:
        return -math.inf
    found = math.log((risk.upper - least) / (target - least))
    return min(found, 0.0) if risk.upper <= target else max(found, EPS)


def _limit(noise_multiplier: float, rate: float, steps: float, shift: float) -> float:
    """Shift over standard deviation of the one Gaussian that many sampled ones come near to; a start, not a bound."""
    return math.sqrt(steps * math.log1p(rate**2 * math.expm1(min((shift / noise_multiplier) ** 2, 600.0))))


def _target(
    delta: float, epsilon: float | None, advantage: float | None, tpr: float | None, fpr: float | None
) -> tuple[float, Callable[[PrivacyLoss], Interval]]:
    given = [value is not None for value in (epsilon, advantage, tpr)]
    if sum(given) != 1 or (tpr is None) != (fpr is None):
        raise BadInput(
            "calibrate needs exactly one target.", fix="Give epsilon, or advantage, or tpr together with fpr."
        )
    if epsilon is not None:
        return check.positive("epsilon", epsilon), lambda loss: loss.epsilon(delta)
    if advantage is not None:
        return check.probability("advantage", advantage, zero=False, one=False), lambda loss: loss.advantage()
    alarm = check.probability("fpr", fpr or 0.0, one=False)
    power = check.probability("tpr", tpr or 0.0, zero=False, one=False)
    if power <= alarm:
        raise BadInput("tpr must be above fpr: guessing at random already gives tpr = fpr.")
    return power, lambda loss: loss.tradeoff(alarm)


def _known(solve: str, noise_multiplier: float | None, rate: float, steps: int) -> dict[str, float | int]:
    """The parameters that stay, checked."""
    if solve not in _SOLVERS:
        raise BadInput(f"solve is {solve!r}.", fix=f"Use one of: {', '.join(_SOLVERS)}.")
    if (solve == "noise_multiplier") != (noise_multiplier is None):
        raise BadInput(
            "noise_multiplier is either solved for or given.", fix="Give it exactly when solving for rate or steps."
        )
    known: dict[str, float | int] = {}
    if noise_multiplier is not None:
        known["noise_multiplier"] = check.positive("noise_multiplier", noise_multiplier)
    if solve != "rate":
        known["rate"] = check.probability("rate", rate, zero=False)
    if solve != "steps":
        known["steps"] = check.whole("steps", steps)
    return known


def least_noise(
    excess: Excess, limit: Excess | None = None, doubt: Doubt | None = None, estimate: Estimate | None = None
) -> float:
    """The smallest noise multiplier whose excess over the target is at most 0."""
    start, slope = _start(limit, 1.0, better=1, least=1e-9, most=1e9)
    start, slope, close, near = _nearer(estimate, start, slope, better=1, least=1e-9, most=1e9)
    found = root(excess, start, better=1, least=1e-9, most=1e9, slope=slope, doubt=doubt, tolerance=close, near=near)
    if math.isinf(found):
        raise BadInput("No noise multiplier up to 1e9 meets the target.", fix="Ask for a larger target or fewer steps.")
    if found == 0:
        raise BadInput("Any noise multiplier down to 1e-9 meets the target.", fix="Ask for a smaller target.")
    return found


def _largest_rate(excess: Excess, limit: Excess, doubt: Doubt | None = None, estimate: Estimate | None = None) -> float:
    if excess(1.0) <= 0:
        return 1.0
    start, slope = _start(limit, 0.25, better=-1, least=1e-12, most=1.0)
    start, slope, close, near = _nearer(estimate, start, slope, better=-1, least=1e-12, most=1.0)
    found = root(
        excess, start, better=-1, least=1e-12, most=1.0, slope=slope, doubt=doubt, tolerance=close, near=near, bad=0.0
    )
    if found == 0:
        raise BadInput("No rate above 1e-12 meets the target.", fix="Use more noise or fewer steps.")
    return found


def _most_steps(excess: Excess, limit: Excess, doubt: Doubt, estimate: Estimate) -> int:
    """The largest number of steps; where readings have a gap, one that comes as near to the target as they tell."""
    good, y_good, bad = 0, -math.inf, max(math.ceil(_start(limit, 1e3, better=-1, least=1.0, most=1e15)[0]), 2)
    y_bad, farther = excess(bad), 0.0
    while y_bad <= 0:
        good, y_good = bad, y_bad
        bad = max(good + 2, math.ceil(good * math.exp(min(max(-2.1 * y_good, farther), WIDEST))))
        farther = 2 * farther + HURRY  # a target near 1 is hardly missed by any number of steps
        if bad > 1 << 50:
            raise BadInput("Any number of steps meets the target.", fix="Ask for a smaller target.")
        y_bad = excess(bad)
    kept = 0  # how often the same side moved: then the other one counts half (the Illinois method)
    while bad - good > 1:
        if doubt() > UNSURE and (-y_good <= doubt() or bad - good <= UNSURE * good):
            break
        if math.isfinite(y_good - y_bad):
            left, right = y_good / 2 ** max(-kept - 1, 0), y_bad / 2 ** max(kept - 1, 0)
            ahead = good * (bad / good) ** (left / (left - right))
        else:
            ahead = bad * math.exp(-min(2.1 * y_bad, WIDEST)) if good == 0 else math.sqrt(good * bad)
        middle = min(max(round(ahead), good + 1), bad - 1)
        y = excess(middle)
        if y <= 0:
            good, y_good, kept = middle, y, max(kept, 0) + 1
        else:
            bad, y_bad, kept = middle, y, min(kept, 0) - 1
    if good == 0:
        raise BadInput("Even one step exceeds the target.", fix="Use more noise or a smaller rate.")
    return good


_SOLVERS: dict[str, Callable[[Excess, Excess, Doubt, Estimate], float]] = {
    "noise_multiplier": least_noise,
    "rate": _largest_rate,
    "steps": _most_steps,
}
_BETTER = {"noise_multiplier": 1, "rate": -1, "steps": -1}
"""Whether larger values cost less (1) or more."""


def _start(limit: Excess | None, first: float, *, better: int, least: float, most: float) -> tuple[float, float]:
    """Where the limit meets the target, and its slope in log scale there; or the first value, and the plain slope."""
    if limit is None:
        return first, -better
    try:
        found = root(limit, first, better=better, least=least, most=most, tolerance=ROUGH)
        slope = (limit(1.01 * found) - limit(found)) / math.log(1.01)
    except (TacitError, ArithmeticError, ValueError):
        return first, -better
    return (found, slope) if math.isfinite(slope) and slope * better < 0 else (first, -better)


def _nearer(
    estimate: Estimate | None, start: float, slope: float, *, better: int, least: float, most: float
) -> tuple[float, float, float, float]:
    """Where estimates meet the target, their slope, and how near to the target and to the value the search may end.

    Estimates are asked for only where reading epsilon is slow; the search by readings that follows decides all.
    """
    first = None if estimate is None else estimate(start)
    if estimate is None or first is None or (first[1] and abs(first[0]) < FAR):
        return start, slope, FINE, 0.0

    def led(value: float) -> float:
        found = estimate(value)
        if found is None:
            raise ValueError
        return found[0] + AHEAD

    try:
        found = root(led, start, better=better, least=least, most=most, tolerance=AHEAD / 2, slope=slope, near=NEAR / 4)
        steep = (led(1.01 * found) - led(found)) / math.log(1.01)
    except (ArithmeticError, ValueError):
        return start, slope, COARSE, NEAR
    last = estimate(found)
    close, near = (FINE, 0.0) if last is not None and last[1] else (COARSE, NEAR)
    ahead = min(max(found * math.exp(better * near / 2), least), most)
    return ahead, steep if steep * better < 0 else slope, close, near
