"""Join the small gradients of a traced step into one array: one norm and one sum, in place of two launches for each.

A network has many biases and normalisation weights. A gradient of a few hundred entries per record occupies a GPU for
less time than the launch takes. Gradients that are written out anyway are concatenated here, with a row per record.
Their squared norms are computed together, and their weighted sum is split again, so every sum has the same terms in the
same order.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..arrays import flat
from ..rules.terms import Dense, Term
from ..sums import Terms
from ..weigh import Weigh

SMALL = 2**14
"""The number of entries up to which a gradient counts as small."""
Shapes = dict[str, torch.Size]


def pays(losses: Tensor) -> bool:
    """Whether launches cost more than the work they start: on a GPU."""
    return losses.is_cuda


def side_by_side(terms: Terms, weigh: Weigh) -> tuple[Terms, dict[str, Shapes]]:
    """Join all small terms of a group in place of the first; also returns the names and shapes that were joined."""
    groups: dict[tuple[int, torch.dtype], dict[str, Tensor]] = {}
    for name, parts in terms.items():
        if (values := _small(parts)) is not None:
            groups.setdefault((weigh.group(name), values.dtype), {})[name] = values
    joined, shapes = dict(terms), {}
    for members in groups.values():
        if len(members) > 1:
            first = next(iter(members))
            shapes[first] = {name: values.shape[1:] for name, values in members.items()}
            for name in members:
                del joined[name]
            joined[first] = [Dense(torch.cat([flat(values) for values in members.values()], dim=1))]
    return joined, shapes


def apart(sums: Mapping[str, Tensor], shapes: dict[str, Shapes]) -> dict[str, Tensor]:
    """Split the sums of joined terms into sums per parameter."""
    found = dict(sums)
    for first, members in shapes.items():
        pieces = sums[first].split([shape.numel() for shape in members.values()])
        found |= {name: piece.view(shape) for (name, shape), piece in zip(members.items(), pieces, strict=True)}
    return found


def _small(parts: list[Term]) -> Tensor | None:
    """The entries of a small gradient that is written out and is no part of another term; None for any other."""
    only = parts[0]
    if len(parts) > 1 or not isinstance(only, Dense) or only.key is not None:
        return None
    return only.values if only.values.shape[1:].numel() <= SMALL else None
