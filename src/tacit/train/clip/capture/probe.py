"""Before the first step: where do the examples lie, and are they clipped exactly?

Three made-up examples, shaped like the real ones and drawn from a public stream, are run through the model. Comparing
the shapes of a run on two of them with a run on all three shows which axis of every operation holds the examples.
Then each example alone goes through ordinary autograd, and its gradient norm must be the captured one. A model that
mixes examples, or an operation whose rule is wrong, is refused here; no private value decides (soundness rule 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ....core import BadInput, TacitError
from ..recompute.hooks import AsItIs, checkpointed
from ..recompute.two_pass import clipped_again
from ..sums import Forward, check_losses, clipped_sum
from ..tree import mapped, size, tensors
from .capture import Capture, Changed, Entry, Overwritten, changed, no_rule
from .layout import Layout

_DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout)
_ROUNDS = 200
_SEED = 20_210_907
# Relative error of a norm that passes: rounding is far below it, an example that sees another is far above.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1}


@dataclass(frozen=True)
class Structure:
    """What a probe found: the treatment of every operation on parameters, and whether outputs must be copied.

    `checked`: the norms were compared (not possible for a model that draws random numbers of its own).
    `made_up`: the examples were made up; False when the model cannot run on such, and rows of the batch served.
    `checkpointed`: parts of the model are computed again in the backward pass.
    """

    entries: tuple[Entry, ...]
    copies: bool = False
    checked: bool = True
    made_up: bool = True
    checkpointed: bool = False


class _NoDropout(TorchFunctionMode):
    """Dropout does nothing, so that runs on different batches can be compared."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func is F.scaled_dot_product_attention:
            kwargs.pop("dropout_p", None)
            args = args[:4] + ((0.0, *args[5:]) if len(args) > 4 else ())
        return func(*args, **kwargs)


def probe(
    loss: Callable[[Any], Tensor],
    parameters: Mapping[str, Tensor],
    constants: Sequence[Tensor],
    batch: Any,
    precision: str = "float32",
) -> Structure:
    """Read the structure from made-up examples shaped like `batch`, and test the clipping on them."""
    examples = made_up(batch, 3)
    if not (made := _runs(loss, examples)):
        examples = mapped(lambda tensor: tensor[torch.arange(3) % len(tensor)], batch)
        _runs(loss, examples, last=True)
    with same_random(), _NoDropout():
        for copies in (False, True):
            try:
                entries, parts = _entries(loss, parameters, constants, examples, copies)
                structure = Structure(entries, copies, made_up=made, checkpointed=parts)
                return _checked(loss, parameters, constants, examples, structure, TOLERANCE[precision])
            except Overwritten:
                continue
    raise BadInput("A parameter's output is overwritten in place in a way that cannot be followed.")


def _runs(loss: Callable[[Any], Tensor], examples: Any, *, last: bool = False) -> bool:
    """Whether the loss can be had of examples; if not of the `last` ones tried either, that is said."""
    with same_random(), _NoDropout(), checkpointed(AsItIs()), torch.enable_grad():
        try:
            loss(examples)
        except TacitError:
            raise
        except (RuntimeError, ValueError, TypeError, LookupError, AssertionError) as error:
            if last:
                raise not_run(error) from error
            return False
    return True


def not_run(error: Exception) -> BadInput:
    """The one sentence for a model that does not go with its data; the reason is told where it holds no values."""
    reason = str(error).split("\n")[0].rstrip(".")
    if isinstance(error, IndexError):
        reason = "a label or an id is out of range"
    return BadInput(
        f"The loss of these examples cannot be computed: {reason}.",
        fix="loss(model, batch) is given rows of the data; labels and ids are whole numbers (int64) from 0 on.",
    )


def made_up(batch: Any, count: int) -> Any:
    """`count` public examples shaped like those of a batch: standard normal numbers, zeros and ones for integers."""
    generator = torch.Generator().manual_seed(_SEED)

    def invent(tensor: Tensor) -> Tensor:
        shape = (count, *tensor.shape[1:])
        if tensor.is_floating_point() or tensor.is_complex():
            return torch.randn(shape, generator=generator, dtype=tensor.dtype).to(tensor.device)
        coins = torch.randint(0, 2, shape, generator=generator)
        if coins.ndim > 1:
            coins[:, 0] = 1
        return coins.to(tensor.device, tensor.dtype)

    return mapped(invent, batch)


def _entries(loss: Any, parameters: Any, constants: Any, examples: Any, copies: bool) -> tuple[tuple[Entry, ...], bool]:
    """Treatments of all operations, repeated until no derived tensor grows with the batch; and if any part of the
    model is checkpointed."""
    forced: frozenset[int] = frozenset()
    two = mapped(lambda tensor: tensor[:2], examples)
    for _ in range(_ROUNDS):
        runs = [_run(loss, parameters, constants, part, copies, forced) for part in (two, examples)]
        if [entry.function for entry, _ in runs[0].seen] != [entry.function for entry, _ in runs[1].seen]:
            raise BadInput("The model does other operations for two examples than for three, so it cannot be clipped.")
        pairs = list(zip(*(run.seen for run in runs), strict=True))
        grown = [
            order
            for order, ((entry, small), (_, large)) in enumerate(pairs)
            if not entry.consumes and small.shape != large.shape
        ]
        if not grown:
            entries = tuple(_entry(entry, small, large) for (entry, small), (_, large) in pairs)
            return entries, runs[0].parts > 0
        forced |= {grown[0]}
    raise BadInput("Tensors made from parameters alone grow with the batch in a way that cannot be followed.")


def _run(loss: Any, parameters: Any, constants: Any, batch: Any, copies: bool, forced: frozenset[int]) -> Capture:
    capture = Capture(parameters, constants, None, copies, forced)
    with torch.enable_grad(), checkpointed(capture), capture:
        losses = loss(batch)
    check_losses(losses, size(batch))
    return capture


def _entry(entry: Entry, small: Tensor, large: Tensor) -> Entry:
    if not entry.consumes:
        return entry
    axes = [axis for axis, sizes in enumerate(zip(small.shape, large.shape, strict=True)) if sizes[0] != sizes[1]]
    if len(axes) != 1 or small.shape[axes[0]] * 3 != large.shape[axes[0]] * 2:
        raise no_rule(entry.function, entry.names, "its output does not grow in step with the batch")
    (axis,) = axes
    if small.shape[axis] == 2:
        return replace(entry, layout=Layout(axis))
    return replace(entry, layout=Layout(axis, _inner(small, large, axis)))


def _inner(small: Tensor, large: Tensor, axis: int) -> int | None:
    """How many rows of one example lie side by side: with that many, the first two of three examples are the two."""
    rows = small.shape[axis] // 2
    runs = [run for run in range(1, rows + 1) if rows % run == 0]

    def off(run: int) -> float:
        first = large.unflatten(axis, (-1, 3, run)).narrow(axis + 1, 0, 2).flatten(axis, axis + 2)
        return float((first - small).detach().abs().sum())

    best = min(reversed(runs), key=off)
    return None if best == rows else best


def _checked(
    loss: Any, parameters: Any, constants: Any, examples: Any, structure: Structure, allowed: float
) -> Structure:
    """Captured norms against plain autograd, one example at a time."""
    every = torch.ones(3, dtype=torch.bool, device=tensors(examples)[0].device)
    clip = partial(clipped_again, within=_NoDropout) if structure.checkpointed else clipped_sum

    def captured(batch: Any) -> Tensor:
        forward = Forward(lambda: loss(batch), parameters, constants)
        return clip(forward, every, 1.0, structure.entries, copies=structure.copies).norms

    try:
        found = captured(examples)
    except Changed:
        raise changed() from None
    alone, again = (_alone(loss, parameters, examples) for _ in range(2))
    if not torch.equal(alone.nan_to_num(), again.nan_to_num()):
        _check_forgetful(loss, parameters, examples, allowed)
        _check_apart(captured, examples, allowed)
        return replace(structure, checked=False)
    _same(found, alone, allowed)
    return structure


def _same(found: Tensor, expected: Tensor, allowed: float) -> None:
    usable = expected.isfinite() & found.isfinite()
    if bool(((found - expected).abs() > allowed * expected.clamp(min=1e-6))[usable].any()):
        raise BadInput(
            "An example's gradient depends on the other examples of its batch, or its operations cannot be followed, "
            "so it cannot be clipped.",
            fix="Average and normalise within each example only; `tacit doctor` lists the rule of every parameter.",
        )


def _check_apart(captured: Callable[[Any], Tensor], examples: Any, allowed: float) -> None:
    """With the same random numbers and another third example the first two have the gradients they had."""
    found = []
    for batch in (examples, mapped(lambda tensor: torch.cat((tensor[:2], tensor[:1])), examples)):
        with same_random():
            found.append(captured(batch)[:2])
    _same(found[0], found[1], allowed)


def _check_forgetful(loss: Any, parameters: Mapping[str, Tensor], examples: Any, allowed: float) -> None:
    """The same examples and random numbers give the same gradients, or the model remembers what it saw before."""
    found = []
    for _ in range(2):
        with same_random():
            found.append(_alone(loss, parameters, examples).nan_to_num())
    limit = allowed if found[0].is_cuda else 1e-6
    if bool(((found[0] - found[1]).abs() > limit * found[0].clamp(min=1e-6)).any()):
        raise BadInput(
            "The model gives other gradients for the same examples, so what it keeps could carry data past the noise.",
            fix="Keep nothing from call to call, and draw random numbers from torch's own generator.",
        )


def _alone(loss: Any, parameters: Mapping[str, Tensor], examples: Any) -> Tensor:
    norms = []
    for index in range(3):
        one = mapped(lambda tensor, index=index: tensor[index : index + 1], examples)
        with torch.enable_grad(), checkpointed(AsItIs()):
            value = loss(one).sum()
        found: tuple[Tensor | None, ...] = ()
        if value.requires_grad:
            found = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
        squares = [gradient.detach().double().square().sum() for gradient in found if gradient is not None]
        norms.append(torch.stack(squares).sum().sqrt() if squares else value.detach().double() * 0)
    return torch.stack(norms)


@contextmanager
def same_random() -> Iterator[None]:
    """A model that draws numbers draws the same ones each time; the ambient random state is left as it was."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(_SEED)
        yield
