"""Taxi trips that an hour and two places name."""

from pathlib import Path

import numpy as np
import pandas

from tacit import Table, disclosure
from tacit.disclosure import Bar

from .shown import EPSILON, Shown


def trips(folder: Path) -> Shown:
    """Who saw somebody get in and out knows the tip; private means of tips by zone tell next to nothing of one trip."""
    table = pandas.read_csv(folder / "nyc_taxis.csv.gz").dropna().reset_index(drop=True)
    known = {"hour": table.pickup.str[:13], "from": table.pickup_zone, "to": table.dropoff_zone}
    alone = disclosure.uniqueness({name: column.to_numpy() for name, column in known.items()})
    zones = sorted(table.pickup_zone.unique())
    query = Table(table, unit="row").group_by("pickup_zone", keys=zones).mean("tip", (0, 10))
    means = query.release(epsilon=EPSILON, rng=1).to_pandas().set_index("pickup_zone").value
    large = (table.tip > table.tip.median()).to_numpy()
    guesses = (table.pickup_zone.map(means) > means.median()).to_numpy()
    base = float(max(np.mean(large), np.mean(~large)))
    right = float(np.mean(guesses == large))
    bars = Bar("the table of trips", alone.unique), Bar("private means by zone", right, "private")
    told = f"{alone.sentence} From private mean tips by zone {right:.0%} of tips are guessed (above the median or not)."
    return Shown("Trips whose tip is told", told, (*bars, Bar("most frequent", base, "guessing")))
