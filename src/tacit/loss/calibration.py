"""The setting that meets a target exactly: one parameter solved for, verified by re-evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..core import check
from ..core.adjacency import Adjacency
from ..core.errors import BadInput
from ..core.interval import Interval, finite
from ..core.privacy_loss import PrivacyLoss
from .dispatch import privacy_loss
from .reading import training_event


@dataclass(frozen=True)
class Setting:
    """Noise, rate and steps of private training, with the epsilon they give at `delta`."""

    noise_multiplier: float
    rate: float
    steps: int
    delta: float
    adjacency: Adjacency
    epsilon: Interval

    def to_json(self) -> dict[str, object]:
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

    Guarantee: the setting, evaluated again, meets the target with the upper end of its interval.
    """
    adjacency, delta = Adjacency.of(adjacency), check.delta(delta)
    target, read = _target(delta, epsilon, advantage, tpr, fpr)
    known = _known(solve, noise_multiplier, rate, steps)

    def excess(value: float) -> float:
        """log of risk over target: at most 0 is good."""
        loss = privacy_loss(training_event(**{**known, solve: value}), adjacency)  # type: ignore[arg-type]
        risk = read(loss).upper
        return math.log(risk / target) if risk > 0 else -math.inf

    known[solve] = _SOLVERS[solve](excess)
    event = training_event(**known)  # type: ignore[arg-type]
    return Setting(**known, delta=delta, adjacency=adjacency, epsilon=privacy_loss(event, adjacency).epsilon(delta))  # type: ignore[arg-type]


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


def least_noise(excess: Callable[[float], float]) -> float:
    """The smallest noise multiplier whose excess over the target is at most 0."""
    low, high = 1.0, 1.0
    while excess(high) > 0:
        low, high = high, 4 * high
        if high > 1e9:
            raise BadInput(
                "No noise multiplier up to 1e9 meets the target.", fix="Ask for a larger target or fewer steps."
            )
    while low == high or excess(low) <= 0:
        low, high = low / 4, min(low, high)
        if low < 1e-9:
            raise BadInput("Any noise multiplier down to 1e-9 meets the target.", fix="Ask for a smaller target.")
    return root(excess, low, high)


def _largest_rate(excess: Callable[[float], float]) -> float:
    if excess(1.0) <= 0:
        return 1.0
    good = 0.25
    while excess(good) > 0:
        good /= 4
        if good < 1e-12:
            raise BadInput("No rate above 1e-12 meets the target.", fix="Use more noise or fewer steps.")
    return root(excess, min(4 * good, 1.0), good)


def _most_steps(excess: Callable[[float], float]) -> int:
    if excess(1) > 0:
        raise BadInput("Even one step exceeds the target.", fix="Use more noise or a smaller rate.")
    good, bad = 1, 2
    while excess(bad) <= 0:
        good, bad = bad, 2 * bad
        if bad > 1 << 50:
            raise BadInput("Any number of steps meets the target.", fix="Ask for a smaller target.")
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if excess(middle) <= 0 else (good, middle)
    return good


_SOLVERS: dict[str, Callable[[Callable[[float], float]], float]] = {
    "noise_multiplier": least_noise,
    "rate": _largest_rate,
    "steps": _most_steps,
}


def root(excess: Callable[[float], float], bad: float, good: float, *, tolerance: float = 1e-9) -> float:
    """The good end of a bracket [bad, good] of a monotone function, closed in by the Illinois method in log scale."""
    x_bad, x_good, y_bad, y_good = math.log(bad), math.log(good), excess(bad), excess(good)
    side = 0
    for _ in range(100):
        if abs(x_good - x_bad) <= tolerance / 2 or -tolerance / 8 <= y_good <= 0:
            break
        x = _inside(x_bad, x_good, y_bad, y_good, tolerance)
        y = excess(math.exp(x))
        if y > 0:
            x_bad, y_bad, y_good, side = x, y, y_good / 2 if side > 0 else y_good, 1
        else:
            good, x_good, y_good, y_bad, side = math.exp(x), x, y, y_bad / 2 if side < 0 else y_bad, -1
    return good


def _inside(x_bad: float, x_good: float, y_bad: float, y_good: float, tolerance: float) -> float:
    """The secant's zero, moved a little to the good side so that the last step lands there."""
    span = x_good - x_bad
    if not math.isfinite(y_bad) or not math.isfinite(y_good) or y_bad == y_good:
        return x_bad + span / 2
    share = y_bad / (y_bad - y_good)
    nudge = min(tolerance / 4 / abs(span), 0.05)
    return (
        x_bad + span * min(max(share + nudge, 0.02), 0.98)
        if abs(span) > 1e-6
        else x_bad + span * min(share + nudge, 0.999)
    )
