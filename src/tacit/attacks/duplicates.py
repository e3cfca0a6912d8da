"""Outsiders that are members in all but a digit: a model that knows the member knows them too.

They make a leak look small, as an attack "wrongly" accuses them. They are found without the model, counted, and left
out of what is judged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ..core import Control

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NEAR = 0.05
"""Of the usual distance from a member to the next one: nearer than this is the same record."""
RARE = 0.2
"""Of the usual spread of a feature: features that hardly ever differ count no more than that."""
DIRECTIONS, SAMPLE = 12, 2000
"""Random directions that neighbours are looked for in, and members whose usual distance is measured."""
MOST = 0.5
"""Share of the outsiders that may be left out before nothing is judged."""
DUPLICATES = "near-duplicates"


def near_duplicates(features: Floats, member: Flags, label: NDArray[np.generic] | None = None) -> Flags:
    """Which outsiders lie as near to a member of the same label as only a copy does: records, true or false.

    Distances are over features that differ among members, in units of their spread there. The usual distance is the
    median, over members, of that to the next different member. Candidates come from random directions, which never
    lengthen a distance much, and are then measured in full.
    """
    scale = features[member].std(axis=0)
    scale = np.where(
        scale > 0, np.maximum(scale, RARE * np.median(scale[scale > 0])) if (scale > 0).any() else 0.0, 0.0
    )
    z = np.asarray((features - features[member].mean(axis=0)) / np.where(scale > 0, scale, np.inf))
    found, inside, outside = np.zeros(len(z), dtype=bool), np.flatnonzero(member), np.flatnonzero(~member)
    alike = np.ones(len(z), dtype=np.int64) if label is None else _names(label)
    apart_by = _usual(z[inside])
    chance = np.random.default_rng(0)
    width = min(DIRECTIONS, z.shape[1])
    turn = np.eye(z.shape[1]) if z.shape[1] <= DIRECTIONS else chance.normal(size=(z.shape[1], width)) / np.sqrt(width)
    low, reach = z @ turn, NEAR * apart_by
    tree = cKDTree(low[inside])
    near = tree.query_ball_point(low[outside], r=2 * reach + 1e-12, return_sorted=False)
    for row, places in zip(outside, near, strict=True):
        if places:
            them = inside[places]
            apart = np.linalg.norm(z[them] - z[row], axis=1)
            found[row] = bool(((apart <= reach + 1e-12) & (alike[them] == alike[row])).any())
    return found


def duplicates_control(found: Flags, member: Flags) -> Control:
    """How many outsiders are copies of members; too many leave nobody to compare with."""
    count, outsiders = int(found.sum()), int((~member).sum())
    passed = count <= MOST * outsiders and outsiders - count >= 2
    text = f"{count} of {outsiders} outsiders are copies of members, and were left out"
    return Control(
        DUPLICATES,
        "most outsiders are no copies of members",
        text if passed else f"{count} of {outsiders} outsiders are copies of members: more outsiders are needed",
        passed,
    )


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
