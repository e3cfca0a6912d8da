"""The errors of a captured forward pass, one sentence each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ....core import BadInput, TacitError
from .functions import name_of


class Overwritten(Exception):
    """A later operation writes into a kept output; the pass must be repeated with copies."""


class Remembered(Exception):
    """A per-record tensor that this pass did not make: the model kept it from an earlier pass."""


class Failing(Exception):
    """Operations raised at the values of the records `places` (B,); the pass is to be repeated without them."""

    def __init__(self, places: Tensor) -> None:
        super().__init__("An operation raises at the values of some records.")
        self.places = places


class NoRule(BadInput):
    """An operation that cannot be followed for all records at once, only for one record at a time."""


def stops(error: BaseException) -> bool:
    """Whether an error ends the run: our own errors about the model, out of memory, and an interrupt by the user.

    Any other error may be caused by a record's values, so it concerns that record alone (soundness rule 8). So may
    `NoRule`, which only says that records cannot run all at once.
    """
    if isinstance(error, torch.OutOfMemoryError | KeyboardInterrupt):
        return True
    return isinstance(error, TacitError) and not isinstance(error, NoRule)


def kept_data() -> BadInput:
    """The one sentence for a model that stores what it sees."""
    return BadInput(
        "The forward pass writes records into a parameter or buffer of the model, which would carry data past the "
        "noise.",
        fix="Switch running statistics off (track_running_stats=False), or put that part in eval mode.",
    )


def remembered() -> BadInput:
    """The one sentence for a model that reads what it kept from an earlier call."""
    return BadInput(
        "The model uses a tensor that it kept from an earlier call, which would carry data past the noise.",
        fix="Keep nothing from call to call but constants.",
    )


def changed(model: nn.Module | None, tensor: Tensor) -> BadInput:
    """The one sentence for a forward pass that leaves a buffer otherwise than it was."""
    name, module = _holder(model, tensor)
    if module is not None and _is_spectral(module, tensor):
        return BadInput(
            f"The forward pass changes buffer {name}: spectral normalisation improves its estimate in every pass. How "
            "many passes a step takes follows from the sample, which is private.",
            fix="Put it in eval mode (layer.parametrizations.eval(), or layer.eval() for the older form), and improve "
            "the estimate after each step by private(..., project=...); docs/training.md shows how.",
        )
    return BadInput(
        f"The forward pass changes buffer {name}. It could carry data past the noise, and how many passes there were.",
        fix="Switch running statistics off (track_running_stats=False), put that part in eval mode, or keep nothing "
        "from call to call but constants.",
    )


def _holder(model: nn.Module | None, tensor: Tensor) -> tuple[str, nn.Module | None]:
    """The name of a tensor that a model holds, and the module that holds it."""
    for path, module in model.named_modules() if model is not None else ():
        for name, held in (*module._buffers.items(), *module._parameters.items()):
            if held is tensor:
                return f"{path}.{name}" if path else name, module
    return "of the model", None


def _is_spectral(module: nn.Module, tensor: Tensor) -> bool:
    older = any(type(hook).__name__ == "SpectralNorm" for hook in module._forward_pre_hooks.values())
    held = [name for name, one in module._buffers.items() if one is tensor and name.endswith(("_u", "_v"))]
    return bool(held) and (older or type(module).__name__ == "_SpectralNorm")


def left(what: str, path: str, kind: str) -> BadInput:
    """The one sentence for code that runs one record at a time and holds what cannot be put back after each."""
    fix = f"Keep iterators, generators, files and objects of C libraries out of the {what}."
    if "Script" in kind:
        fix = "Use the module that was scripted or traced; parts made by torch.compile or torch.export may stay."
    return BadInput(
        f"The {what} runs one record at a time, and {path} is a {kind}, which cannot be put back after each record: it "
        "could carry data from one to the next.",
        fix=fix,
    )


def seen_again(what: str, path: str, kind: str) -> BadInput:
    """The one sentence for a model that sees how many passes there were and cannot be put back after each record."""
    return BadInput(
        f"The model keeps something from pass to pass ({what}), and {path} is a {kind}, which cannot be put back, so "
        "it cannot run one record at a time either.",
        fix="Change what forward keeps in code that runs once in a step, or keep iterators, files and objects of C "
        "libraries out of the model.",
    )


def unheard(precision: str) -> BadInput:
    """The one sentence for a model of which, one record at a time, no made-up record contributes."""
    reduced = f' If it raises in {precision} only, use Speed(precision="float32").'
    return BadInput(
        "The model runs one record at a time, and no made-up record would contribute anything: its code writes into a "
        "trained parameter in every pass, or raises.",
        fix="Move parameters after each step, by private(..., project=...), and not in the forward pass."
        + (reduced if precision != "float32" else ""),
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


def unwatched(name: str) -> NoRule:
    """The one sentence for code of somebody's own that torch runs in place of a function."""
    return NoRule(f"{name} is not torch's own, so what it does cannot be seen.", fix="Leave it out of training.")


def caught() -> NoRule:
    """The one sentence for code that catches what an operation raises, as one record's values may make it raise."""
    return NoRule("It catches what an operation on records raises.", fix="Leave it out of training.")


def together(name: str) -> NoRule:
    """The one sentence for an operation of torch's that makes one result of all records inside `vmap`."""
    return NoRule(
        f"Torch computes {name} once for all records together.",
        fix="Leave it out of training; torch.distributions takes validate_args=False.",
    )


def shaped(name: str) -> NoRule:
    """The one sentence for an operation whose result has as many numbers as the values of records say."""
    return NoRule(f"The shape of what {name} gives depends on the values of records.", fix="Use a mask in its place.")


def looked_on(what: str) -> NoRule:
    """The one sentence for user code that would be shown all records together."""
    return NoRule(f"It uses {what}.", fix="Leave it out of training.")


def no_rule(func: object, names: str, why: str) -> NoRule:
    """The one sentence for an operation that cannot be clipped exactly."""
    return NoRule(
        f"Parameter {names} is used by {name_of(func)} and there is no exact clipping for that: {why}.",
        fix="Write it with operations that keep examples apart, or freeze the parameter.",
    )
