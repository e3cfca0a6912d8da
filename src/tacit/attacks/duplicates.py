"""Outsiders that are members in all but a digit: a model that knows the member knows them too.

They make a leak look small, as an attack "wrongly" accuses them. They are found without the model and counted. Only
records without a copy anywhere are then judged: leaving out copies on one side alone would leave rare outsiders beside
common members, which any model tells apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from ..core import Control

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NEAR = 0.05
"""Of the usual distance from a record to the next one: nearer than this is the same record."""
RARE = 0.2
"""Of the usual spread of a feature: features that hardly ever differ count no more than that."""
DIRECTIONS, SAMPLE = 12, 2000
"""Random directions that neighbours are looked for in, and members whose usual distance is measured."""
CANDIDATES = 4
"""Nearest records that are measured in full."""
MOST = 0.5
"""Share of either side that may be left out."""
SURE = 4.0
"""Standard deviations by which outsiders must equal members more often than members do to be called copied."""
DUPLICATES = "near-duplicates"


@dataclass(frozen=True, eq=False)
class Copies:
    """For every record: whether another member is a near copy of it, and whether another outsider is.

    A near copy equals the record in all but a digit.
    `first` is the first record of its own side that is linked to it by a chain of equal records.
    """

    of_members: Flags
    of_outsiders: Flags
    first: NDArray[np.intp]

    def settled(self, member: Flags) -> tuple[Flags, Control | None]:
        """Which records to leave out, and a control where an outsider equals a member.

        Where too few would be left, and outsiders equal members no more often than members equal each other, the table
        is coarse and the split may be honest: everybody stays.
        """
        crossing, nobody = self.of_members & ~member, np.zeros(member.size, dtype=bool)
        if not crossing.any():
            return nobody, None
        told = f"{int(crossing.sum())} of {int((~member).sum())} outsiders are copies of members"
        alike = self.of_members | self.of_outsiders
        sides = [alike[member], alike[~member]]
        if all(side.mean() <= MOST and (~side).sum() >= 2 for side in sides):
            return alike, _control(f"{told}; the {int(alike.sum())} records with a copy were left out", passed=True)
        inside = int((self.of_members & member).sum())
        if natural(int(crossing.sum()), int((~member).sum()), inside, int(member.sum())):
            return nobody, _control(f"{told}, as members are of each other in this coarse table: all stay", passed=True)
        return nobody, _control(f"{told}: more outsiders are needed", passed=False)


def natural(crossing: int, outsiders: int, inside: int, members: int, sure: float = SURE) -> bool:
    """Whether outsiders equal members no more often than members equal each other, up to `sure` standard deviations.

    The share of members that are there twice estimates the chance of one more record to equal a member (Good 1953).
    """
    rate, usual = crossing / max(outsiders, 1), inside / max(members, 1)
    both = (crossing + inside) / max(outsiders + members, 1)
    return rate <= usual + sure * float(np.sqrt(both * (1 - both) * (1 / max(outsiders, 1) + 1 / max(members, 1))))


def near_duplicates(features: Floats, member: Flags, label: NDArray[np.generic] | None = None) -> Copies:
    """Find records that are copies, up to small changes, of another record with the same label.

    Distances are over features that differ among members, in units of their spread there. The usual distance is the
    median, over members, of that to the next different member; or over outsiders where that is larger, since members
    may have copies among themselves. Outsiders far fewer than members lie farther apart and are not asked. Equal
    records are counted first; candidates among different ones come from random directions, which never lengthen a
    distance much, and are then measured in full.
    """
    z = _scaled(features, member)
    alike = np.ones(len(z), dtype=np.int64) if label is None else _names(label)
    first, place = _distinct(z, alike)
    inside = np.bincount(place[member], minlength=first.size)
    outside = np.bincount(place[~member], minlength=first.size)
    points = _points(z[first], alike[first])
    reach = NEAR * max(_usual(z[side]) for side in (member, ~member) if 2 * side.sum() >= member.sum())
    near, same = [], np.arange(member.size)
    for side, rows in ((inside > 0, np.flatnonzero(member)), (outside > 0, np.flatnonzero(~member))):
        some, them = _near(z[first], points, np.flatnonzero(side), reach)
        near.append(np.isin(np.arange(first.size), some))
        same[rows] = rows[_linked(some[side[some]], them[side[some]], first.size, place[rows])]
    of_members = near[0][place] | (inside[place] > member)
    of_outsiders = near[1][place] | (outside[place] > ~member)
    return Copies(np.asarray(of_members), np.asarray(of_outsiders), same)


def _control(text: str, *, passed: bool) -> Control:
    return Control(DUPLICATES, "most outsiders are no copies of members", text, passed)


def _scaled(features: Floats, member: Flags) -> Floats:
    """Features in units of their spread among members; one that does not differ there is 0."""
    scale = features[member].std(axis=0)
    some = scale > 0
    scale = np.where(some, np.maximum(scale, RARE * np.median(scale[some])) if some.any() else 0.0, 0.0)
    return np.asarray((features - features[member].mean(axis=0)) / np.where(scale > 0, scale, np.inf)) + 0.0


def _distinct(z: Floats, alike: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first row of every different (record, label), and for every row which of those it is."""
    known: dict[tuple[bytes, int], int] = {}
    place = [known.setdefault((row.tobytes(), name), len(known)) for row, name in zip(z, alike.tolist(), strict=True)]
    found = np.asarray(place, dtype=np.intp)
    return np.unique(found, return_index=True)[1], found


def _points(z: Floats, alike: NDArray[np.int64]) -> Floats:
    """Records in few directions, those of different labels far apart."""
    width = z.shape[1]
    few = width <= DIRECTIONS
    turn = np.eye(width) if few else np.random.default_rng(0).normal(size=(width, DIRECTIONS)) / np.sqrt(DIRECTIONS)
    low = z @ turn
    return np.column_stack((low, alike * (10.0 + 10.0 * np.abs(low).max(initial=0.0))))


def _near(
    z: Floats, points: Floats, others: NDArray[np.intp], reach: float
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs (record, other record) at a distance of at most `reach`; a record is never paired with itself."""
    pairs: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = [(others[:0], others[:0])]
    most = min(CANDIDATES, others.size)
    if most:
        tree = cKDTree(points[others])
        _, place = tree.query(points, k=np.arange(1, most + 1), distance_upper_bound=2 * reach + 1e-12)
        for column in np.asarray(place).T:
            some = np.flatnonzero(column < others.size)
            them = others[column[some]]
            some, them = some[them != some], them[them != some]
            for part in np.array_split(np.arange(some.size), max(1, some.size * z.shape[1] // 10**7)):
                apart = np.linalg.norm(z[some[part]] - z[them[part]], axis=1) <= reach + 1e-12
                pairs.append((some[part][apart], them[part][apart]))
    return np.concatenate([one for one, _ in pairs]), np.concatenate([other for _, other in pairs])


def _linked(some: NDArray[np.intp], them: NDArray[np.intp], count: int, place: NDArray[np.intp]) -> NDArray[np.intp]:
    """For every row at a `place` the first row whose place is linked to its own by pairs of places below `count`."""
    links = sparse.csr_matrix((np.ones(some.size), (some, them)), shape=(count, count))
    group = csgraph.connected_components(links, directed=False)[1][place]
    _, first, back = np.unique(group, return_index=True, return_inverse=True)
    return np.asarray(first[back.ravel()])


def _names(label: NDArray[np.generic]) -> NDArray[np.int64]:
    """Labels as numbers that are equal where they are; a regression's in twentieths of their spread."""
    if label.dtype.kind == "f":
        value = label.astype(np.float64)
        return np.asarray(np.round(value / max(NEAR * float(value.std()), 1e-300)).astype(np.int64))
    return np.asarray(np.unique(label, return_inverse=True)[1].ravel().astype(np.int64))


def _usual(x: Floats) -> float:
    """The median distance from a record to the next that differs from it; 0 where none does."""
    step = max(1, len(x) // SAMPLE)
    some = x[::step]
    square = (x**2).sum(axis=1)
    nearest = []
    for first in range(0, len(some), 256):
        part = some[first : first + 256]
        apart = np.maximum(square - 2 * part @ x.T + (part**2).sum(axis=1)[:, None], 0.0)
        apart[apart < 1e-9 * np.maximum(square, 1.0)] = np.inf  # itself, and its equals
        nearest.append(np.sqrt(apart.min(axis=1)))
    known = np.concatenate(nearest)
    known = known[np.isfinite(known)]
    return float(np.median(known)) if known.size else 0.0
