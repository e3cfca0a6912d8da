"""What all processes of a run, and every continuation of it, must have in common.

A run is described by named terms: the plan's fields, the model, the loss, the optimizer and its settings, speed
settings, versions, and the data by a keyed hash. Two processes with other terms would release something that no plan
describes; a continuation with other terms would release its first steps twice, with other noise. Either is refused,
and the refusal names the terms that differ. Long values are compared by their hash.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from .. import __version__
from ..core import BadInput, TacitError
from .sample.collate import Collate, record
from .sample.examples import Examples, Rows

if TYPE_CHECKING:
    from .step import PrivateStep

Terms = dict[str, str]
SHORT = 60
"""Values up to this length are shown in a refusal; longer ones are compared by their hash."""
DEPTH = 6
"""How far functions inside functions are followed."""
DATA = "data"
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Where an object lies in memory, which its description may tell."""


def terms(step: PrivateStep) -> Terms:
    """All terms but the data's, which `batches` gets."""
    plan = {f"plan.{item.name}": repr(getattr(step.plan, item.name)) for item in fields(step.plan) if item.compare}
    speed = {f"speed.{item.name}": repr(getattr(step.speed, item.name)) for item in fields(step.speed)}
    found = {
        **plan,
        **speed,
        "model": _model(step.model),
        "loss": described(step.loss),
        "augment": described(step.augment),
        "project": described(step.project),
        "noise": step.noise,
        **optimizer_terms(step.optimizer, step.parameters),
        **versions(),
    }
    return {name: value if len(value) <= SHORT else _hash(value) for name, value in found.items()}


def optimizer_terms(optimizer: torch.optim.Optimizer, parameters: Mapping[str, Tensor]) -> Terms:
    """The optimizer's class, its settings over all groups of parameters, and which parameters each group holds."""
    names = {id(tensor): name for name, tensor in parameters.items()}
    held = [[names.get(id(tensor), "?") for tensor in group["params"]] for group in optimizer.param_groups]
    settings = sorted({key for group in optimizer.param_groups for key in group} - {"params", "initial_lr"})
    found = {"optimizer": f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"}
    for key in settings:
        found[f"optimizer.{key}"] = ", ".join(_plain(group.get(key)) for group in optimizer.param_groups)
    found["optimizer.parameters"] = _hash(repr(held))
    return found


def versions() -> Terms:
    """Another version may round otherwise, so that a step done again would draw other noise."""
    return {
        "version.tacit": __version__,
        "version.torch": torch.__version__,
        "version.numpy": np.__version__,
        "version.python": platform.python_version(),
    }


def data_term(
    data: Any, users: ArrayLike | None, most: int | None, key: bytes, collate: Collate | None = None
) -> tuple[str, TacitError | None]:
    """A keyed hash of the data and of whose records they are, or why they were refused.

    Tensors and arrays are hashed whole, and so are lists of records, as tensors. Another map-style data set is known by
    its kind, its length and the fingerprint that data sets of Hugging Face carry: its items may be costly to load, and
    random.
    """
    code = hmac.new(key, digestmod=hashlib.sha256)
    try:
        examples = Examples.of(data, collate)
    except TacitError as error:
        return "refused", error
    if examples.direct:
        _update(code, examples.data)
    elif isinstance(examples.data, list | Rows):
        _update_records(code, examples.data, collate)
    else:
        mark = getattr(examples.data, "_fingerprint", "")
        kind = type(examples.data)
        code.update(f"{kind.__module__}.{kind.__qualname__} {examples.count} {mark}".encode())
    if users is not None:
        names = np.asarray(users)
        body = repr(names.tolist()).encode() if names.dtype == object else np.ascontiguousarray(names).tobytes()
        code.update(f"users {names.shape} {names.dtype} {most};".encode() + body)
    return code.hexdigest(), None


def _update(code: hmac.HMAC, data: Any) -> None:
    if isinstance(data, Tensor):
        flat = data.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        code.update(f"{tuple(data.shape)} {data.dtype};".encode())
        code.update(flat.numpy().data)
        return
    items: Iterable[tuple[Any, Any]] = data.items() if isinstance(data, Mapping) else enumerate(data)
    for name, value in items:
        code.update(f"{name!r}:".encode())
        _update(code, value)


def _update_records(code: hmac.HMAC, records: list[Any] | Rows, collate: Collate | None) -> None:
    """Records in memory; one that cannot be read is known by that alone, since it contributes nothing."""
    for row in range(len(records)):
        try:
            _update(code, record(records[row], collate))
        except Exception:
            code.update(b"unread;")


def differing(every: list[Terms]) -> list[str]:
    """Names of the terms that are not the same in all of several descriptions."""
    names = dict.fromkeys(name for found in every for name in found)
    return [name for name in names if len({found.get(name) for found in every}) > 1]


def check_same(every: list[Terms]) -> None:
    """Refuse processes that do not agree; every one of them raises the same sentence."""
    if not (names := differing(every)):
        return
    told = "; ".join(_told(name, [found.get(name, "absent") for found in every]) for name in names[:4])
    raise BadInput(
        f"The processes of this run do not agree: {told}.", fix="Start all of them with the same settings and data."
    )


def check_continues(saved: Terms, now: Terms, current: Terms) -> None:
    """Refuse to go on under other terms than the saved run began with; `current` are the optimizer's when saved."""
    moved = [name for name in current if now.get(name) == current[name]]
    names = [name for name in differing([saved, now]) if name != DATA and name not in moved]
    if names:
        pairs = {name: [saved.get(name, "absent"), now.get(name, "absent")] for name in names[:4]}
        told = "; ".join(_told(name, pair, "was", "is now") for name, pair in pairs.items())
        whose = "another plan" if names[0].startswith("plan.") else "other settings"
        raise BadInput(f"The state belongs to {whose}: {told}.", fix="Repeat the settings of the run that was saved.")


def _told(name: str, values: list[str], *words: str) -> str:
    shown = all(not value.startswith("#") for value in values) and name != DATA
    if not shown:
        return f"{name} differs" if not words else f"{name} is not the same"
    if words:
        return f"{name} {words[0]} {values[0]} and {words[1]} {values[1]}"
    first = {value: values.index(value) for value in values}
    return f"{name} is " + " and ".join(f"{value} in process {rank}" for value, rank in first.items())


def _model(model: nn.Module) -> str:
    """Its layers with their settings and modes, its parameters and buffers by shape and kind, and its own code."""
    parts = [ADDRESS.sub("", repr(model))]
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        parts.append(f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.requires_grad}")
    kinds = {type(module) for module in model.modules()}
    own = sorted(
        (f"{kind.__module__}.{kind.__qualname__}", described(kind.forward))
        for kind in kinds
        if not kind.__module__.startswith("torch.")
    )
    return _hash("\n".join([*parts, repr(own)]))


def described(value: Any, depth: int = 0) -> str:
    """A function by its name, code, defaults and what it encloses; an object by its class and plain attributes."""
    if depth > DEPTH:
        return "..."
    if isinstance(value, functools.partial):
        inner = [value.func, *value.args, *value.keywords.values()]
        return f"partial({', '.join(described(item, depth + 1) for item in inner)})"
    if isinstance(value, MethodType):
        return f"{described(value.__func__, depth + 1)} of {type(value.__self__).__qualname__}"
    if isinstance(value, FunctionType):
        return _function(value, depth)
    if isinstance(value, nn.Module):
        return _hash(ADDRESS.sub("", repr(value)))
    if isinstance(value, str | int | float | bool | bytes | type(None)):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(described(item, depth + 1) for item in value)}]"
    return _object(value, depth)


def _function(value: FunctionType, depth: int) -> str:
    cells = value.__closure__ or ()
    enclosed = [described(cell.cell_contents, depth + 1) for cell in cells if _filled(cell)]
    given = [described(item, depth + 1) for item in value.__defaults__ or ()]
    return f"{value.__module__}.{value.__qualname__} {_code(value.__code__)} {_hash(repr([*enclosed, *given]))}"


def _object(value: Any, depth: int) -> str:
    kind = value if isinstance(value, type) else type(value)
    own = vars(kind).get("__call__")
    call = described(own, depth + 1) if isinstance(own, FunctionType) else ""
    held = {} if isinstance(value, type) else getattr(value, "__dict__", {})
    inner = [f"{name}={described(item, depth + 1)}" for name, item in sorted(held.items()) if _simple(item)]
    return f"{kind.__module__}.{kind.__qualname__} {call} {_hash(repr(inner))}"


def _simple(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | bytes | tuple | list | FunctionType | type(None))


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that is bound later
        return False


def _code(code: CodeType) -> str:
    """A hash of what the code does; where it stands in its file does not matter."""
    inner = [_code(item) if isinstance(item, CodeType) else _constant(item) for item in code.co_consts]
    return _hash(repr((code.co_code.hex(), code.co_names, inner)))


def _constant(value: Any) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _plain(value: Any) -> str:
    return repr(value.tolist()) if isinstance(value, Tensor) else described(value)


def _hash(text: str) -> str:
    return f"#{hashlib.sha256(text.encode()).hexdigest()[:24]}"
