"""What an audit in a fleet would have caught: usual faults planted into the plan, played in small games of their own.

A fault of noise, clipping or sampling is another plan that is claimed to be this one (`fleet.Runs.planted`). A small
game on it gives the rates that the audit would have seen; the chance is the exact power of the audit's test there.
"""

from __future__ import annotations

from ..audits.canary import Pair
from ..audits.choice import counts
from ..audits.demonstration import chosen
from ..audits.panel import unknown
from ..audits.power import CONFIDENCE, Power
from ..audits.scoring import play
from ..core import Claim, Counts, Demonstration, Source, TacitError
from ..core.fault import FAULTS, Fault
from ..fleet import Fleet, Runs
from ..loss import Plan
from .fleets import runner

LEAST = 200
"""Runs of an audit that has a panel."""
SHARE = 0.2
"""The share of a small game's runs that choose its threshold."""


def would_catch(
    fleet: Fleet, game: Pair, plan: Plan, claim: Claim, shown: Demonstration, each: int, chance: Source
) -> tuple[Fault, ...]:
    """The panel of a game in a fleet, of which `shown` is a reading; unknown where that had few runs.

    Every fault that can be planted is played with `each` runs.
    """
    if shown.planned < LEAST:
        return unknown()
    power = Power(claim, shown.bound.confidence, shown.counts.n_in, shown.counts.n_out)
    found = []
    for name in FAULTS:
        rates = _rates(fleet, game, plan, claim, name, each, chance)
        note = f"planted in this training, {each} runs"
        found.append(Fault(name, None if rates is None else power.chance(rates, note)))
    return tuple(found)


def _rates(
    fleet: Fleet, game: Pair, plan: Plan, claim: Claim, fault: str, runs: int, chance: Source
) -> Counts | None:  # fmt: skip
    """Hits and alarms of a small game at a threshold that some of its runs chose; None where none can be played."""
    try:
        wrong = Runs(fleet, plan).planted(fault)
        if wrong is None:
            return None
        scores = play(runner(fleet, game, wrong.schedule, chance), runs, chance)
        first, second = scores.split(chance, share=SHARE)
        return counts(second, chosen(first, claim, CONFIDENCE))
    except TacitError:
        return None
