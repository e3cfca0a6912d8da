"""Fleets in the service of attacks and audits: reference models for one, runs of a canary game for the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..attacks import ATTACKS, leave_one_out
from ..audits.canary import Pair
from ..audits.scoring import Runner
from ..core import Adjacency, BadInput, Observations, Scores, Source
from ..fleet import Epochs, Fleet
from ..loss import Plan


def attacked(observations: Observations, names: Sequence[str], targets: int) -> list[Scores]:
    """Each of the first `targets` models attacked in turn with all others as references."""
    return [leave_one_out(ATTACKS[name], observations, range(targets)) for name in names]


def runner(
    fleet: Fleet, pair: Pair, schedule: Epochs | Plan, rng: Source, progress: Callable[[int, int], None] | None = None
) -> Runner:
    """Runs of a canary game in a fleet: all models learn the same records, coins decide who also learns the canary.

    The others' order is shared, the canary's inclusion is drawn per (model, step), so an amplified claim may be
    tested (soundness rule 16). The score is the canary's margin. `progress(done, count)` hears how far it is.
    """
    if pair.adjacency is not Adjacency.ADD_REMOVE:
        raise BadInput("A fleet plays its canary game under add-remove adjacency.")
    x, y = np.concatenate((pair.x, pair.canary_x)), np.concatenate((pair.y, pair.canary_y))

    def run(coins: NDArray[np.bool_]) -> NDArray[np.float64]:
        member = np.ones((len(x), coins.size), dtype=bool)
        member[-1] = coins
        models = fleet.train(x, y, member, schedule, own=[len(x) - 1], rng=rng, progress=progress)
        return models.observations(pair.canary_x, pair.canary_y).need("margin")[0]

    return run
