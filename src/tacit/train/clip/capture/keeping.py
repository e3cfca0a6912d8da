"""What a pass over all records at once leaves behind that the next pass would see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from torch import Tensor

from ..isolation import Surroundings
from .coins import asks_around, looked_backwards
from .dropout import NoDropout
from .made_up import SHARE, Loss, moved_weights, same_random, usable
from .probe import Structure, run_through


def keeps(
    loss: Loss,
    parameters: Mapping[str, Tensor],
    batch: object,
    structure: Structure,
    around: Callable[[], Surroundings],
    tidy: Callable[[], bool],
) -> str:
    """What a joint pass leaves behind that differs from pass to pass; empty if nothing.

    No record's values can be in it, but the number of passes is private: it follows from the sample's size. The same
    holds for a generator that is reseeded in every pass: what a record draws would depend on its position. A value may
    stop a pass in torch's part of the backward pass. So state that code changes there is compared before and after each
    of its calls. `tidy` takes back what passes put into attributes, as is done after each pass of a step, and says
    whether there was something. Then code that runs only where it is missing is looked at, too.
    """
    with same_random(), NoDropout():
        run = partial(run_through, structure.forward(loss, usable(loss, parameters, batch), parameters))
        if asked := asks_around(run):
            return asked
        # What is made once, such as a table of positions, is there now. Weights are moved: code that keeps them within
        # bounds does nothing where it was before.
        with moved_weights(parameters, SHARE if _runs_at(run, parameters) else 0.0, 0):
            now, between = around(), list[str]()
            left = now.moved_by(lambda: looked_backwards(run, lambda: between.append(now.otherwise())))
            if not left and tidy():
                left = around().moved_by(lambda: (run(), tidy()))
        if left:
            return f"a call changes {left}, which the next call would see"
        if not repeats(lambda: [run()[1]], tidy):
            return "the same records and seeds give other losses from call to call"
    met = next(filter(None, between), "")
    return f"{met} is changed while the backward pass runs, and would stay so if a value stopped it" if met else ""


def repeats(run: Callable[[], Sequence[Tensor]], tidy: Callable[[], object] = lambda: None) -> bool:
    """Whether a run gives the same, but for rounding, each time that the generators start alike.

    It does not where numbers come from elsewhere, such as a generator that is made and seeded anew in every pass. The
    last run begins after a `tidy`: code that asks whether an earlier pass has left something gives other numbers there.
    """
    found = []
    for turn in range(3):
        if turn == 2:
            tidy()
        with same_random():
            found.append([one.detach().double().nan_to_num() for one in run()])
    first, *others = found
    pairs = [(a, b) for other in others for a, b in zip(first, other, strict=True)]
    return all(bool(((a - b).abs() <= 1e-4 * a.abs().clamp(min=1e-3)).all()) for a, b in pairs)


def _runs_at(run: Callable[[], object], parameters: Mapping[str, Tensor]) -> bool:
    """Whether a pass runs at moved weights."""
    try:
        with moved_weights(parameters, SHARE, 0):
            run()
    except Exception:  # user code, on public numbers
        return False
    return True
