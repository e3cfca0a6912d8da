"""Operations that raise at some values stop a pass in its midst: does a model then keep what it meant to undo?

With all records at once, code sees no values, so it takes the same way for all records. Only torch's operations look at
values, and few of them raise. A record that brings such a value stops the pass where that operation stands. Code like

    model.eval(); root = torch.linalg.cholesky(matrix); model.train()

would then leave the model in another mode, and every later record would be computed by it. So each such operation of a
pass over made-up records is made to raise once. A model that is otherwise afterwards runs one record at a time, where
everything is put back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ..isolation import Surroundings

MOST = 64
"""Operations of one pass that are tried; a model with more of them runs one record at a time."""
LOOKING = frozenset((
    "_assert_async", "_assert_scalar", "_ctc_loss", "_embedding_bag", "_embedding_bag_forward_only",
    "_pack_padded_sequence", "_sample_dirichlet", "_standard_gamma", "bernoulli",
    "binary_cross_entropy", "bincount", "binomial", "cholesky", "cholesky_inverse", "cholesky_solve",
    "ctc_loss", "embedding_bag", "fractional_max_pool2d", "fractional_max_pool3d", "geometric",
    "geqrf", "histc", "histogram", "istft", "lstsq", "lu_solve", "lu_unpack", "masked_scatter",
    "masked_scatter_", "max_unpool2d", "max_unpool3d", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_margin_loss_forward", "multinomial", "mvlgamma", "nanquantile", "normal", "ormqr",
    "poisson", "quantile", "repeat_interleave", "searchsorted", "segment_reduce", "triangular_solve",
))  # fmt: skip
"""Operations that raise at some values of real numbers, beside the families."""
FAMILIES = ("linalg_", "sparse_", "fake_quantize", "quantize_", "sym_constrain", "validate_")
DRAWN = frozenset(("bernoulli_", "geometric_", "normal_"))
"""Those that raise at some chances, where these are a tensor."""
DIVIDED = frozenset(("div", "div_", "floor_divide", "floor_divide_", "fmod", "fmod_", "remainder", "remainder_"))
"""Those that raise at a zero among whole numbers, where these are not one number for all."""


def stays_halfway(run: Callable[[], object], around: Callable[[], Surroundings]) -> bool:
    """Whether a pass that stops at an operation which raises leaves something otherwise than it was."""
    with _Stops(-1) as counted:
        run()
    if counted.met > MOST:
        return True
    return any(around().moved_by(partial(_stopped, run, place)) for place in range(counted.met))


def _stopped(run: Callable[[], object], place: int) -> None:
    with suppress(Exception), _Stops(place):
        run()


class _Stops(TorchDispatchMode):
    """Counts the operations that may raise, and makes one of them do so."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place, self.met = place, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if may_raise(func, args):
            self.met += 1
            if self.met - 1 == self.place:
                raise RuntimeError("An operation raises at a value.")
        return func(*args, **(kwargs or {}))


def may_raise(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether an operation raises at some values, indices apart: those are moved inside their range."""
    name = func.overloadpacket.__name__
    if name in DRAWN:
        return any(isinstance(one, Tensor) for one in args[1:])
    if name in DIVIDED:
        by = args[1]
        return isinstance(by, Tensor) and by.dim() > 0 and not (by.is_floating_point() or by.is_complex())
    return name in LOOKING or name.lstrip("_").startswith(FAMILIES)
