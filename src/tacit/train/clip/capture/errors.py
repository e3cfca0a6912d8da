"""What can be wrong with a watched forward pass, one sentence each."""

from __future__ import annotations

from typing import Any

from ....core import BadInput
from .functions import name_of


class Overwritten(Exception):
    """A later operation writes into a kept output; the pass must be repeated with copies."""


class Remembered(Exception):
    """A tensor of the records' own that this pass has not made: the model kept it from an earlier one."""


class NoRule(BadInput):
    """An operation that cannot be followed for all records at once; it can be for one record at a time."""


def kept_data(where: str) -> BadInput:
    """The one sentence for a model that stores what it sees."""
    return BadInput(
        f"The forward pass changes {where}, which would carry data past the noise.",
        fix="Switch running statistics off (track_running_stats=False) or put that part in eval mode.",
    )


def left(what: str, path: str, kind: str) -> BadInput:
    """The one sentence for code that runs one record at a time and holds what cannot be put back after each."""
    return BadInput(
        f"The {what} runs one record at a time, and {path} is a {kind}, which cannot be put back after each record: it "
        "could carry data from one to the next.",
        fix=f"Keep iterators, generators, files and objects of C libraries out of the {what}.",
    )


def unseen(name: str) -> NoRule:
    """The one sentence for a parameter that received a gradient itself."""
    return NoRule(
        f"Parameter {name} is used by an operation that cannot be seen, so it cannot be clipped.",
        fix="Use it in ordinary torch operations outside scripted or custom autograd code, or freeze it.",
    )


def own_rule(name: str) -> NoRule:
    """The one sentence for code that brings its own rule for `vmap`, in which it sees all records."""
    return NoRule(
        f"{name} has a rule of its own for torch.vmap, in which it is given all records together.",
        fix="Leave the rule out, or set generate_vmap_rule = True.",
    )


def looked_on(what: str) -> NoRule:
    """The one sentence for user code that would be shown all records together."""
    return NoRule(f"It uses {what}.", fix="Leave it out of training.")


def no_rule(func: Any, names: str, why: str) -> NoRule:
    """The one sentence for an operation that cannot be clipped exactly."""
    return NoRule(
        f"Parameter {names} is used by {name_of(func)} and there is no exact clipping for that: {why}.",
        fix="Write it with operations that keep examples apart, or freeze the parameter.",
    )
