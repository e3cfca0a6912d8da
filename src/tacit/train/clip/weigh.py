r"""How much of each example's gradient is kept: c_ig for example i and group g of parameters.

    c_ig = m_i min(1, C_g / |G_ig|)        C_g = C s_g, \sum_g s_g^2 = 1; one group of share 1 is flat clipping
    c_ig = m_i C_g / (|G_ig| + gamma)      automatic clipping

so that |(c_ig G_ig)_g| <= (\sum_g C_g^2)^{1/2} = C, whatever the example.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ...core import BadInput
from ...loss import Automatic, Clipping, PerLayer
from .rounding import MOST


@dataclass(frozen=True)
class Weigh:
    """Weights of gradients from their norms. `groups` says where parameters belong; the rest are in group 0.

    `most`: how many records a step's sample has at most; sums over more are made more exactly (`rounding`).
    """

    shares: tuple[float, ...] = (1.0,)
    gamma: float | None = None
    groups: Mapping[str, int] = field(default_factory=dict)
    most: int = MOST

    @classmethod
    def of(cls, clipping: Clipping, names: Iterable[str]) -> Weigh:
        """The weights that a plan's clipping prescribes for parameters of these names."""
        if isinstance(clipping, PerLayer):
            given = list(dict(clipping.weights))
            layers = {name: _layer(name, given) for name in names}
            distinct = tuple(dict.fromkeys(layers.values()))
            if unused := [layer for layer in given if layer not in distinct]:
                raise BadInput(f"No trained parameter lies in {unused[0]!r}, which has a clip norm of its own.")
            groups = {name: distinct.index(layer) for name, layer in layers.items()}
            return cls(clipping.shares(distinct), None, groups)
        return cls((1.0,), clipping.gamma if isinstance(clipping, Automatic) else None)

    def group(self, name: str) -> int:
        return self.groups.get(name, 0)

    def __call__(self, norms: Tensor, kept: Tensor, clip_norm: float | Tensor) -> Tensor:
        """(groups, B) from norms of that shape; zero for examples that are not kept."""
        if len(self.shares) == 1:
            return torch.where(kept, self._weight(norms, self.shares[0] * clip_norm), 0.0)
        weights = [self._weight(norm, share * clip_norm) for norm, share in zip(norms, self.shares, strict=True)]
        return torch.where(kept, torch.stack(weights), 0.0)

    def _weight(self, norm: Tensor, limit: float | Tensor) -> Tensor:
        return (limit / norm).clamp(max=1.0) if self.gamma is None else limit / (norm + self.gamma)


FLAT = Weigh()


def _layer(name: str, given: list[str]) -> str:
    """The module that holds a parameter, or the longest of the given paths that contains it."""
    if not given:
        return name.rpartition(".")[0]
    covering = [path for path in given if name == path or name.startswith(f"{path}.")]
    if not covering:
        raise BadInput(
            f"Parameter {name} lies in no layer that has a clip norm.",
            fix="Name every layer, or give no weights for equal ones.",
        )
    return max(covering, key=len)
