"""What an audit in a fleet would have caught: usual faults planted into the plan, played in small games of their own.

A fault of noise, clipping or sampling is another plan that is claimed to be this one (`fleet.Runs.planted`). A small
game on it gives the rates that the audit would have seen; the chance is the exact power of the audit's test there.
"""

from __future__ import annotations

from ..audits.canary import Pair
from ..audits.choice import counts
from ..audits.demonstration import chosen
from ..audits.panel import FEWEST, LEAST, unknown
from ..audits.power import CONFIDENCE, Power
from ..audits.scoring import play
from ..core import Claim, Counts, Demonstration, Source, TacitError
from ..core.fault import FAULTS, Fault
from ..fleet import Fleet, Runs
from ..loss import Plan
from .fleets import runner

SHARE, MOST = 4, 250
"""Each fault is played with this share of the audit's runs; runs of a fleet are cheap."""


def would_catch(
    fleet: Fleet, game: Pair, plan: Plan, claim: Claim, shown: Demonstration, runs: int, chance: Source
) -> tuple[Fault, ...]:
    """The panel of a game of `runs` in a fleet, of which `shown` is a reading; unknown where there are few runs."""
    if runs < LEAST:
        return unknown()
    each = min(max(runs // SHARE, FEWEST), MOST)
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
    """Hits and alarms of a small game at a threshold that half of its runs chose; None where none can be played."""
    try:
        wrong = Runs(fleet, plan).planted(fault)
        if wrong is None:
            return None
        scores = play(runner(fleet, game, wrong.schedule, chance), runs, chance)
        first, second = scores.split(chance)
        return counts(second, chosen(first, claim, CONFIDENCE))
    except TacitError:
        return None
