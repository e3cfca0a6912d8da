"""Run a user's function of a batch for every record as if it were alone.

The function sees a batch of one. Where possible, all records run at once inside a `Level`, in which no record can reach
another. Otherwise records run one after the other, each with its own random numbers. A record at whose values the
function raises is left out (soundness rule 8).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import call
from typing import Any

import torch
from torch import Tensor

from ...core import BadInput, TacitError
from ..clip.capture.coins import replayed, rewinding, seed_torch
from ..clip.capture.errors import Failing, Remembered, left, stops
from ..clip.capture.keeping import repeats
from ..clip.capture.level import Level
from ..clip.capture.made_up import made_up, not_run, same_random
from ..clip.capture.nested import nested
from ..clip.capture.ranges import InRange
from ..clip.capture.watch import Capture, flat
from ..clip.isolation import Stopped, Surroundings
from ..clip.replaced import drawn_alike, replaced
from ..clip.sums import unbroken
from ..clip.tree import describe, mapped, size, tensors

Function = Callable[[Any], object]


def each(function: Function, rows: Any, *, at_once: bool = True) -> tuple[Any, Tensor]:
    """The function's result for every record, and a mask (B,) of the records that it accepted.

    Not `at_once`: one record after the other, and all that a call changes is put back.
    """
    if not at_once:
        return alone(function, rows)
    found = _tried_together(function, rows)
    if found is not None:
        return found
    with same_random():
        usually = _tried_together(function, made_up(rows, 3)) is not None
    return alone(function, rows, shared=usually)


def _tried_together(function: Function, rows: object) -> tuple[object, Tensor] | None:
    """All records at once; None if that is not possible."""
    for owned in (False, True):
        try:
            with torch.no_grad():
                return _without_failing(function, rows, owned=owned)
        except Remembered:
            raise kept() from None
        except BaseException as error:  # user code: one record at a time may go
            if stops(error):
                raise
    return None


def _without_failing(function: Function, rows: object, *, owned: bool) -> tuple[object, Tensor]:
    """All records at once, without those at whose values an operation raises; nothing changes for the others.

    A made-up record stands in for them, and all random draws are repeated.
    """
    device = tensors(rows)[0].device
    out, alike, back = torch.zeros(size(rows), dtype=torch.bool, device=device), drawn_alike(device), rewinding()
    instead = made_up(rows, 1)
    while True:
        with alike():
            back()
            try:
                found, taken = together(function, replaced(rows, out, instead), owned=owned)
            except Failing as error:
                if not bool((error.places & ~out).any()):
                    raise
                out = out | error.places
                continue
        return found, taken & ~out


def together(function: Function, rows: object, *, owned: bool = False) -> tuple[Any, Tensor]:
    """All records at once; `owned` as in `Capture`."""
    level = Level(size(rows))
    capture = Capture({}, level, owned=owned)
    with level.entered(), nested(capture):
        inside = mapped(capture.enter, rows)
        with capture:
            found = function(inside)
        capture.check_caught()
        capture.check_own(flat((found,), {}))
        found = mapped(lambda tensor: level.all(_single(tensor).squeeze(0)), found)
        if any(level.owns(tensor) for tensor in flat((found,), {})):
            raise miscounted()
    mask = torch.ones(level.batch, dtype=torch.bool, device=tensors(rows)[0].device)
    return found, unbroken(capture, mask)


def alone(function: Function, rows: Any, *, shared: bool = False) -> tuple[Any, Tensor]:
    """One record after the other; made-up records determine the shape of a result.

    `shared`: random draws that no record takes part in are the step's, as in a joint run.
    """
    around = Surroundings(function)
    try:
        usual = around.run(0, partial(_usual, function, rows))
    except Stopped:  # at a made-up record
        raise left("augmentation", *next(iter(around.lost.items()))) from None
    found, taken, coins = [], [], replayed if shared else call
    device = tensors(rows)[0].device
    with torch.no_grad(), torch.random.fork_rng(devices=[device.index or 0] if device.type == "cuda" else []):
        for place, seed in enumerate(torch.randint(2**62, (size(rows),)).tolist()):
            seed_torch(seed)
            result = _unless_stopped(around, seed, partial(coins, partial(_tried, function, _row(rows, place))))
            taken.append(result is not None and describe(result) == describe(usual))
            found.append(result if taken[-1] else mapped(torch.zeros_like, usual))
    joined = iter([torch.cat(parts) for parts in zip(*map(tensors, found), strict=True)])
    return mapped(lambda _: next(joined), usual), torch.tensor(taken, device=device)


def check_apart(function: Function, rows: object) -> bool:
    """Check with made-up records that changing one does not change the results of others, nor does their order.

    Returns whether records run at once; not, if a call leaves something behind that the next would see.
    """
    first = made_up(rows, 3)
    for seed in range(4):
        batches = first, first, _changed(first), _changed(first, start=True)
        once, again, last, start = (_on_batch(function, batch, seed) for batch in batches)
        if once is None or again is None or last is None or start is None:
            break
        if any(len(result) != 3 for result in once):
            raise miscounted()
        same = all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
        apart = all(torch.equal(a[:2], b[:2]) for a, b in zip(once, last, strict=True))
        if same and not (apart and all(torch.equal(a[1:], b[1:]) for a, b in zip(once, start, strict=True))):
            raise BadInput(
                "The augmentation mixes the records of a batch, so their gradients cannot be clipped one by one.",
                fix="Change every record on its own, and keep their number and order.",
            )
    each(function, first)
    at_once = _leaves_nothing(function, first)
    if not at_once:
        around = Surroundings(function)
        for place in range(size(first)):
            _unless_stopped(around, 0, partial(_tried, function, _row(first, place)))
        for path, kind in around.lost.items():
            raise left("augmentation", path, kind)
    _check_forgetful(function, first)
    return at_once


def _leaves_nothing(function: Function, first: object) -> bool:
    """Whether made-up records run at once, give the same each time, and change nothing that the next call would see.

    A counter or a generator of the function's own would tell how many calls there were: which part of a step a record
    is in, and how many there are, depends on other records.
    """
    if _tried_together(function, first) is None:
        return False
    near = Surroundings(function, near=True)
    found: list[Any] = []
    if near.moved_by(lambda: found.append(_tried_together(function, first))):
        return False
    return repeats(lambda: _results(function, first))


def _results(function: Function, first: object) -> list[Tensor]:
    found = _tried_together(function, first)
    return [] if found is None else tensors(found[0])


def _check_forgetful(function: Function, first: object) -> None:
    """Check that made-up records give the same results in forward and in reverse order, with equal random numbers."""
    rows = [_row(first, place) for place in range(3)]
    forwards = [_drawn_alike(function, row) for row in rows]
    backwards = [_drawn_alike(function, row) for row in reversed(rows)][::-1]
    again = [_drawn_alike(function, rows[0]) for _ in range(2)]
    if not _equal(again[:1], again[1:]):  # random numbers that torch does not draw
        return
    if not _equal(forwards, backwards):
        raise kept()


def _drawn_alike(function: Function, row: object) -> list[Tensor]:
    with same_random(), torch.no_grad(), InRange():
        found = _tried(function, row)
    return [] if found is None else tensors(found)


def _equal(found: list[list[Tensor]], others: list[list[Tensor]]) -> bool:
    pairs = [(a, b) for one, other in zip(found, others, strict=True) for a, b in zip(one, other, strict=False)]
    return all(a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)


def _on_batch(function: Function, batch: object, seed: int) -> list[Tensor] | None:
    """The results on a whole batch, as the author intended; None if the function does not run on one."""
    with same_random(seed), torch.no_grad(), InRange():
        found = _tried(function, mapped(Tensor.clone, batch))
    return None if found is None else tensors(found)


def _row(rows: object, place: int) -> Any:
    """One record as a batch of one, in memory of its own."""
    return mapped(lambda tensor: tensor[place : place + 1].clone(), rows)


def _changed(rows: object, *, start: bool = False) -> object:
    """Three records of which the last or the first was exchanged."""
    if start:
        return mapped(lambda tensor: torch.cat((tensor[2:], tensor[1:])), rows)
    return mapped(lambda tensor: torch.cat((tensor[:2], tensor[:1])), rows)


def _usual(function: Function, rows: object) -> Any:
    """The result for one made-up record."""
    with same_random(), torch.no_grad(), InRange():
        try:
            found = function(made_up(rows, 1))
        except TacitError:
            raise
        except Exception as error:
            raise not_run(error, "augmentation") from error
    return mapped(_single, found)


def _unless_stopped(around: Surroundings, seed: int, run: Callable[[], object]) -> object:
    """The result of a run, or None if it reached state that cannot be restored."""
    try:
        return around.run(seed, run)
    except Stopped:
        return None


def _tried(function: Function, one: object) -> object:
    try:
        return function(one)
    except BaseException as error:  # the record's own values
        if stops(error):
            raise
        return None


def _single(tensor: Tensor) -> Tensor:
    if tensor.shape[0] != 1:
        raise miscounted()
    return tensor


def miscounted() -> BadInput:
    return BadInput(
        "The augmentation must give one record for each record that it is given.",
        fix="Keep the number and order of records; for several versions of each, raise times.",
    )


def kept() -> BadInput:
    return BadInput(
        "The augmentation keeps records from call to call, so one record's gradient would hold others.",
        fix="Change every record on its own, and keep nothing but constants.",
    )
