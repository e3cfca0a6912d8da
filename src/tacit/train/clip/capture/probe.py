"""Before the first step, find out how a model can be run, and check that this gives the right gradients.

The records are made up: shaped like the real ones and drawn from a public stream, so no private value decides anything
here (soundness rules 8 and 26). A model runs with all records at once if a `Level` supports it, and one record at a
time otherwise. Both are exact by construction, and both are checked nevertheless. For every parameter, the gradient of
each made-up record must equal the one that ordinary autograd gives for that record alone, at the initial weights and at
changed ones. A loss that changes when other records join the batch is refused: trained one record at a time, it would
not be what its author meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter

import torch
from torch import Tensor, nn

from ....core import BadInput, TacitError
from ..alone import alone
from ..arrays import REDUCED
from ..isolation import Surroundings
from ..recompute.hooks import AsItIs, checkpointed
from ..sums import Forward, by_parameter, check_losses, per_example, watched, weighted_sums
from ..tree import mapped, size, tensors
from ..weigh import FLAT
from .dropout import NoDropout
from .errors import Failing, NoRule, Overwritten, Remembered, changed, remembered
from .level import Level
from .made_up import COUNT, RANGES, SHARE, Loss, made_up, moved_weights, same_random, usable
from .ranges import InRange
from .watch import Capture
from .where import by_values, place_of, why

DISAGREES = "all records at once do not give what each gives alone"
TOLERANCE = {False: 1e-3, True: 0.2}
"""The relative error of a gradient that passes, for ordinary and for reduced precision; rounding is far below it."""


@dataclass(frozen=True)
class Structure:
    """How a model is run. `together`: all records at once; if not, `reason` says why.

    `copies`, `owned`: see `Capture`; `traced`: see `Level`. `checkpointed`: parts of the model are recomputed in the
    backward pass.
    """

    together: bool = True
    copies: bool = False
    owned: bool = False
    traced: bool = False
    checkpointed: bool = False
    reason: str = ""

    def forward(
        self, loss: Loss, batch: object, parameters: Mapping[str, Tensor], lasting: Sequence[Tensor] = ()
    ) -> Forward:
        """The forward pass over a batch, run in this way."""
        return Forward(loss, batch, parameters, self.copies, self.owned, lasting, self.traced)


WAYS = [Structure(copies=copies, owned=owned) for copies, owned in ((False, False), (True, False), (True, True))]


def probe(
    loss: Loss,
    parameters: Mapping[str, Tensor],
    batch: object,
    lasting: Sequence[Tensor] = (),
    model: nn.Module | None = None,
) -> Structure:
    """Find out, on made-up records shaped like `batch`, how to run the loss; `agrees` checks the gradients.

    `lasting`: tensors that outlive a pass, so no record may be written into them. `model` is used for messages only.
    """
    with same_random(), NoDropout(), unchanged(lasting, model):
        examples = _first_look(loss, parameters, batch)
        structure = _structure(loss, parameters, examples, lasting, model)
        _check_apart(loss, parameters, examples)
    return structure


@contextmanager
def unchanged(lasting: Sequence[Tensor], model: nn.Module | None = None) -> Iterator[None]:
    """Refuse a model that writes into what outlives a pass, and undo what it wrote."""
    before = [(tensor, tensor._version, tensor.detach().clone()) for tensor in lasting if not tensor.requires_grad]
    try:
        yield
    finally:
        written = [(tensor, copy) for tensor, version, copy in before if tensor._version != version]
        with torch.no_grad():
            for tensor, copy in written:
                tensor.resize_(copy.shape).copy_(copy)
    for tensor, _ in written:
        raise changed(model, tensor)


def _first_look(loss: Loss, parameters: Mapping[str, Tensor], batch: object) -> object:
    """Made-up records that the model accepts; if there are none, a captured pass may give the better reason."""
    try:
        return usable(loss, parameters, batch)
    except BadInput:
        try:
            _parts(Forward(loss, made_up(batch, COUNT), parameters))
        except NoRule:
            pass
        except TacitError:
            raise
        except Exception:  # what torch says of one record says it better
            pass
        raise


def _structure(
    loss: Loss, parameters: Mapping[str, Tensor], examples: object, lasting: Sequence[Tensor], model: nn.Module | None
) -> Structure:
    """The first way of running that works, tried twice, since state that a model keeps shows the second time."""
    reason, ways = "", list(WAYS)
    while ways:
        way = ways.pop(0)
        forward = way.forward(loss, examples, parameters, lasting)
        try:
            parts = _parts(forward)
            _check_forgetful(forward)
        except NoRule as error:
            reason = reason or error.message
        except TacitError:
            raise
        except Overwritten:
            reason = reason or "it writes into a tensor in a way that cannot be followed"
        except Remembered:
            reason = reason or "a tensor comes from an operation that cannot be seen"
        except Exception as error:  # user code: whatever it raises, one record at a time may go
            reason = f"{place_of(error, model) if model is not None else 'the model'}: {why(error)}"
            if by_values(error) and not way.traced:
                ways = [replace(other, traced=True) for other in WAYS]
        else:
            return replace(way, checkpointed=parts)
    _check_alone(loss, examples, parameters)
    return Structure(together=False, reason=reason.rstrip("."))


def _parts(forward: Forward) -> bool:
    """Run a pass with its backward pass; returns whether parts of the model are checkpointed."""
    return run_through(forward)[0]


def run_through(forward: Forward) -> tuple[bool, Tensor]:
    """Like `_parts`, with the losses."""
    capture = Capture(forward.parameters, Level(COUNT, forward.traced), forward.copies, forward.owned, forward.lasting)
    losses = watched(forward, capture)
    gradients = capture.gradients(losses, torch.ones_like(losses))
    with torch.no_grad():
        by_parameter(capture, gradients, COUNT)
    return capture.parts > 0, losses.detach()


def _check_forgetful(forward: Forward) -> None:
    try:
        _parts(forward)
    except Remembered:
        raise remembered() from None


def _check_alone(loss: Loss, examples: object, parameters: Mapping[str, Tensor]) -> None:
    """What a record gives must not depend on who came before: neither may it raise, which none did before a pass."""
    try:
        with InRange():
            first = alone(loss, examples, parameters)
            again = alone(loss, mapped(lambda rows: rows.flip(0), examples), parameters)
    except TacitError:
        raise
    except Exception:  # user code that found what a pass over all records left
        raise remembered() from None
    for (gradients, _), (others, _) in zip(first, reversed(again), strict=True):
        if not _near(gradients, others, 1e-3) and not _random(loss, parameters, examples):
            raise BadInput(
                "The model gives other gradients for the same record after other records, so what it keeps could carry "
                "data past the noise.",
                fix="Keep nothing from call to call but constants.",
            )


def agrees(loss: Loss, parameters: Mapping[str, Tensor], batch: object, structure: Structure, seed: int = 0) -> bool:
    """Whether a joint pass gives, for each record and parameter, the gradient that ordinary autograd gives for it
    alone.

    Compared at the present weights and at changed ones, with few and with more records, and with integers in a small
    and in a wide range. A model that draws its own random numbers is compared on single records (`_same_drawn`).
    """
    with same_random(seed), NoDropout():
        if _random(loss, parameters, made_up(batch, COUNT, seed)):
            with moved_weights(parameters, SHARE, seed):
                return _same_drawn(loss, parameters, batch, structure, seed)
        for count, moved in ((COUNT, 0.0), (COUNT + 2, SHARE)):
            with moved_weights(parameters, moved, seed):
                examples = usable(loss, parameters, batch, count, seed + count, *RANGES[count > COUNT :], 2)
                if not _same(loss, parameters, examples, structure):
                    return False
    return True


def _same(loss: Loss, parameters: Mapping[str, Tensor], examples: object, structure: Structure) -> bool:
    """Compare gradients; shared draws, such as LayerDrop's coin, are equal for single records and for all at once."""
    forward = structure.forward(loss, examples, parameters)
    mask = torch.ones(size(examples), dtype=torch.bool, device=tensors(examples)[0].device)
    expected = []
    for row in range(len(mask)):
        with same_random(), InRange():
            expected += alone(loss, mapped(itemgetter(slice(row, row + 1)), examples), parameters)
    with same_random():
        try:
            terms, losses, _ = per_example(forward, mask)
        except (Failing, NoRule):  # what raises at a record, and is caught by code for it alone
            return False
        except (RuntimeError, ValueError):  # at changed weights, which may be outside of a domain
            return False
    allowed = TOLERANCE[any(tensor.dtype in REDUCED for tensor in parameters.values())]
    with torch.no_grad():
        for place, (gradients, _) in enumerate(expected):
            here = torch.arange(len(mask), device=mask.device) == place
            own = {name: [term.only(here) for term in parts] for name, parts in terms.items()}  # others may be NaN
            found = weighted_sums(parameters, own, here.to(losses.dtype)[None], FLAT)
            if not _near(found, gradients, allowed):
                return False
    return True


def _same_drawn(loss: Loss, parameters: Mapping[str, Tensor], batch: object, structure: Structure, seed: int) -> bool:
    """Compare gradients of single records where the loss draws random numbers.

    A single record draws the same numbers in both ways as a rule. Whether it does shows in its loss, at three seeds.
    """
    examples = [usable(loss, parameters, batch, 1, seed + turn) for turn in range(3)]
    pairs = [_drawn(loss, parameters, one, structure, turn) for turn, one in enumerate(examples)]
    allowed = TOLERANCE[any(tensor.dtype in REDUCED for tensor in parameters.values())]
    found = [pair for pair in pairs if pair is not None]
    if not all(bool((a[1] - b[1]).abs() <= 1e-2 * allowed * b[1].abs().clamp(min=1e-3)) for a, b in found):
        return True
    return len(found) == len(pairs) and all(_near(a[0], b[0], allowed) for a, b in found)


Drawn = tuple[Mapping[str, Tensor], Tensor]


def _drawn(
    loss: Loss, parameters: Mapping[str, Tensor], one: object, structure: Structure, seed: int
) -> tuple[Drawn, Drawn] | None:
    """Gradients and loss of a record in a joint pass and by ordinary autograd, or None if a joint pass fails."""
    with same_random(seed), InRange():
        (expected, value), *_ = alone(loss, one, parameters)
    with same_random(seed):
        try:
            mask = torch.ones(1, dtype=torch.bool, device=tensors(one)[0].device)
            terms, losses, _ = per_example(structure.forward(loss, one, parameters), mask)
        except (Failing, NoRule):
            return None
    with torch.no_grad():
        found = weighted_sums(parameters, terms, torch.ones_like(losses)[None], FLAT)
    return (found, losses.double()), (expected, value.double())


def _near(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], allowed: float) -> bool:
    """Whether every parameter's gradient is within `allowed` of its norm, or negligible beside the whole gradient."""
    lengths = {name: float(tensor.double().norm()) for name, tensor in expected.items()}
    whole = math.hypot(*lengths.values())
    if not math.isfinite(whole):
        return True
    for name, tensor in found.items():
        other = expected.get(name)
        off = float((tensor.double() - (0.0 if other is None else other.double())).norm())
        if not off <= allowed * lengths.get(name, 0.0) + 1e-2 * allowed * whole + 1e-9:
            return False
    return True


def _random(loss: Loss, parameters: Mapping[str, Tensor], examples: object) -> bool:
    """Whether the loss draws its own random numbers, at the present weights or at changed ones.

    Where a weight is zero, or equals the one that it is mixed with, gradients may be random and losses not yet. A coin
    may fall alike at two seeds, so there are three.
    """
    for share in (0.0, SHARE):
        first: Tensor | None = None
        with moved_weights(parameters, share, 0), torch.enable_grad(), checkpointed(AsItIs()):
            for seed in (1, 2, 3):
                with same_random(seed), InRange():
                    try:
                        found = loss(mapped(torch.clone, examples)).detach().nan_to_num()
                    except (RuntimeError, ValueError, LookupError, AssertionError, TypeError):
                        return False
                first = found if first is None else first
                if not torch.equal(first, found):
                    return True
    return False


def _check_apart(loss: Loss, parameters: Mapping[str, Tensor], examples: object) -> None:
    """Check that each record's loss stays the same when all others are replaced, with equal random numbers.

    At the present weights and at changed ones, since a layer that starts at zero hides what comes before it. If the
    loss does not run on a batch, nothing is compared, because records are never run as a batch here.
    """
    unlike = _rolled(examples), _unlike(examples, lambda whole: whole ^ 1), _unlike(examples, lambda whole: whole + 2)
    for seed, (moved, others) in enumerate(zip((0.0, 0.0, SHARE), unlike, strict=True)):
        with moved_weights(parameters, moved, seed):
            around = Surroundings(loss, parameters, near=True)
            if not _apart(loss, examples, others, around, seed):
                raise BadInput(
                    "An example's loss depends on the other examples of its batch, so it cannot be clipped.",
                    fix="Average, normalise and compare within each example only; `tacit doctor` lists every rule.",
                )


def _apart(loss: Loss, examples: object, others: object, around: Surroundings, seed: int) -> bool:
    """Whether every record's loss among the other `examples` is the one that it has among `others`."""
    rows = range(size(examples))
    found = []
    for batch in (examples, examples, *(_beside(row, examples, others) for row in rows), examples):
        with same_random(seed), torch.enable_grad(), checkpointed(AsItIs()), InRange():
            try:
                found.append(around.run(seed, partial(loss, mapped(torch.clone, batch))).detach())
            except TacitError:
                raise
            except Exception:  # user code, on public numbers
                return True
    check_losses(found[0], len(rows))
    if not torch.equal(found[0].nan_to_num(), found[1].nan_to_num()):  # random numbers that torch does not draw
        return True
    kept = found[0].double()
    changed = torch.stack([losses[row] for row, losses in zip(rows, found[2:-1], strict=True)]).double()
    usable = kept.isfinite() & changed.isfinite()
    apart = not bool(((kept - changed).abs() > 1e-4 * kept.abs().clamp(min=1e-3))[usable].any())
    if not apart and not torch.equal(found[0].nan_to_num(), found[-1].nan_to_num()):
        raise BadInput(
            "The same examples and random numbers gave other losses after some calls, so the losses follow something "
            "else too: a clock, say.",
            fix="Compute the loss from examples, parameters and torch's random numbers alone.",
        )
    return apart


def _rolled(examples: object) -> object:
    return mapped(lambda tensor: tensor.roll(1, 0), examples)


def _unlike(examples: object, other: Callable[[Tensor], Tensor]) -> object:
    """Records with numbers of the other sign and `other` integers."""

    def changed(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point() or tensor.is_complex():
            return -tensor
        return ~tensor if tensor.dtype == torch.bool else other(tensor)

    return mapped(changed, examples)


def _beside(row: int, examples: object, others: object) -> object:
    """One of the examples, in its place among others."""
    theirs = iter(tensors(others))

    def joined(tensor: Tensor) -> Tensor:
        found = next(theirs).clone()
        found[row] = tensor[row]
        return found

    return mapped(joined, examples)
