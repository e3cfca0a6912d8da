"""What an audit would have caught: usual faults planted into the training, played in small games of their own.

In a fleet, a fault of noise, clipping or sampling is another plan that is claimed to be this one
(`fleet.Runs.planted`). In private minimisation, noise that is too small can be planted (`erm.planting`). A small game
on it gives the rates that the audit would have seen; the chance is the exact power of the audit's test there.
"""

from __future__ import annotations

from collections.abc import Callable

from ..audits.canary import Pair
from ..audits.choice import counts
from ..audits.demonstration import chosen
from ..audits.panel import unknown
from ..audits.power import CONFIDENCE, Power
from ..audits.scoring import Runner, play
from ..core import Claim, Counts, Demonstration, Source, TacitError
from ..core.fault import FAULTS, Fault
from ..fleet import Fleet, Runs
from ..loss import Plan
from .fleets import runner

LEAST, LEAST_OWN = 200, 100
"""Runs of an audit in a fleet that has a panel, and of one by the training's own code."""
SHARE = 0.2
"""The share of a small game's runs that choose its threshold."""
Planted = Callable[[str], Runner | None]
"""The runs of a game whose training has a fault of this name; None where it cannot be planted."""


def would_catch(
    planted: Planted, claim: Claim, shown: Demonstration, each: int, chance: Source, least: int = LEAST
) -> tuple[Fault, ...]:
    """The panel of a game, of which `shown` is a reading; unknown where that had few runs.

    Every fault that can be planted is played with `each` runs.
    """
    if shown.planned < least:
        return unknown()
    power = Power(claim, shown.bound.confidence, shown.counts.n_in, shown.counts.n_out)
    found = []
    for name in FAULTS:
        rates = _rates(planted, claim, name, each, chance)
        note = f"planted in this training, {each} runs"
        found.append(Fault(name, None if rates is None else power.chance(rates, note)))
    return tuple(found)


def in_fleet(fleet: Fleet, game: Pair, plan: Plan, chance: Source) -> Planted:
    """Faults of a plan, each trained in a fleet."""

    def planted(fault: str) -> Runner | None:
        wrong = Runs(fleet, plan).planted(fault)
        return None if wrong is None else runner(fleet, game, wrong.schedule, chance)

    return planted


def _rates(planted: Planted, claim: Claim, fault: str, runs: int, chance: Source) -> Counts | None:
    """Hits and alarms of a small game at a threshold that some of its runs chose; None where none can be played."""
    try:
        run = planted(fault)
        if run is None:
            return None
        first, second = play(run, runs, chance).split(chance, share=SHARE)
        return counts(second, chosen(first, claim, CONFIDENCE))
    except TacitError:
        return None
