"""What all processes of a run, and every continuation of it, must have in common.

A run is described by named terms: the plan's fields, the model, the loss, the optimizer and its settings, speed
settings, versions, and the data by a keyed hash. Two processes with other terms would release something that no plan
describes; a continuation with other terms would release its first steps twice, with other noise. Either is refused,
and the refusal names the terms that differ. Long values are compared by their hash.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import platform
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import Subset

from .. import __version__
from ..core import BadInput, TacitError
from ..core.global_randomness import turn
from .descriptions import described, hashed, model_term
from .sample.collate import Collate, record
from .sample.columns import Constant, Rows
from .sample.examples import Examples
from .sample.users import user_codes

if TYPE_CHECKING:
    from .step import PrivateStep

Terms = dict[str, str]
Groups = Sequence[Mapping[str, Any]]
SHORT = 60
"""Values up to this length are shown in a refusal; longer ones are compared by their hash."""
DATA = "data"
SCHEDULED = "optimizer.lr", "optimizer.momentum", "optimizer.betas"
"""Settings that torch's schedules move; the first of their values is set when a schedule is made."""
LOOKED_AT, READ = 16, 4
"""How many records of an unknown kind of data set are compared, and how often each is read. A data set that randomises
one record in ten passes for a constant one with probability 0.002.
"""


def terms(step: PrivateStep) -> Terms:
    """All terms except the data's, which are known to `batches` only."""
    plan = {f"plan.{item.name}": repr(getattr(step.plan, item.name)) for item in fields(step.plan) if item.compare}
    speed = {f"speed.{item.name}": repr(getattr(step.speed, item.name)) for item in fields(step.speed)}
    found = {
        **plan,
        **speed,
        "model": model_term(step.model),
        "loss": described(step.loss),
        "augment": described(step.augment),
        "project": described(step.project),
        "noise": step.noise,
        **optimizer_terms(step.optimizer, step.parameters),
        **versions(),
    }
    return {name: shortened(value) for name, value in found.items()}


def shortened(value: str) -> str:
    """A value as it is shown in a refusal, or its hash."""
    return value if len(value) <= SHORT else hashed(value)


def optimizer_terms(optimizer: torch.optim.Optimizer, parameters: Mapping[str, Tensor]) -> Terms:
    """The optimizer's class, its settings over all groups of parameters, and which parameters each group holds."""
    names = {id(tensor): name for name, tensor in parameters.items()}
    held = [[names.get(id(tensor), "?") for tensor in group["params"]] for group in optimizer.param_groups]
    settings = sorted({key for group in optimizer.param_groups for key in group} - {"params", "initial_lr"})
    found = {"optimizer": f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"}
    for key in settings:
        found[f"optimizer.{key}"] = ", ".join(_plain(group.get(key)) for group in optimizer.param_groups)
    found["optimizer.parameters"] = hashed(repr(held))
    return found


def versions() -> Terms:
    """The versions of libraries: another version may round differently, and a repeated step would draw other noise."""
    return {
        "version.tacit": __version__,
        "version.torch": str(torch.__version__),  # a class of its own, which torch.load would refuse
        "version.numpy": np.__version__,
        "version.python": platform.python_version(),
    }


@turn()
def data_term(
    data: object, users: ArrayLike | None, most: int | None, key: bytes, collate: Collate | None = None
) -> tuple[str, TacitError | None]:
    """A keyed hash of the data and of whose records they are, or why they were refused.

    Tensors and arrays are hashed whole, and so are lists of records, as tensors. Another map-style data set is
    identified by its kind, its length, the rows that a `Subset` takes, the fingerprint that data sets of Hugging Face
    carry, and some of its records. These are read several times: where one differs from itself, the data set is random
    and its records say nothing.
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
        _update_rows(code, examples.data)
        _update_some(code, examples.data, examples.count, key, collate)
    if users is not None:
        codes = user_codes(users)
        code.update(f"users {codes.shape} {most};".encode() + codes.tobytes())
    return code.hexdigest(), None


def _update(code: hmac.HMAC, data: Any) -> None:
    if isinstance(data, Tensor):
        flat = data.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        code.update(f"{tuple(data.shape)} {data.dtype};".encode())
        code.update(flat.numpy().data)
        return
    if isinstance(data, Constant):
        code.update(f"{data!r};".encode())
        return
    items: Iterable[tuple[Any, Any]] = data.items() if isinstance(data, Mapping) else enumerate(data)
    for name, value in items:
        code.update(f"{name!r}:".encode())
        _update(code, value)


def _update_rows(code: hmac.HMAC, data: object) -> None:
    """Hash which rows are taken of the data set inside; those of a random one tell processes with other parts apart."""
    while isinstance(data, Subset):
        code.update(repr([*data.indices]).encode())
        data = data.dataset


def _update_records(code: hmac.HMAC, records: list[object] | Rows, collate: Collate | None) -> None:
    """Hash records in memory; all unreadable records hash alike, since they contribute nothing."""
    for row in range(len(records)):
        try:
            _update(code, record(records[row], collate))
        except Exception:
            code.update(b"unread;")


def _update_some(code: hmac.HMAC, records: object, count: int, key: bytes, collate: Collate | None) -> None:
    """Hash some records of a map-style data set, unless it is random by itself: they identify nothing then.

    The usual random generators start from the same state in every process, and are restored afterwards.
    """
    chosen = np.random.default_rng(list(key)).permutation(count)[:LOOKED_AT]
    with _drawing():
        read = [[_read_record(records, place, key, collate) for _ in range(READ)] for place in sorted(chosen.tolist())]
    random_ = any(len(set(each)) > 1 for each in read)
    code.update(b"random;" if random_ else repr([each[0] for each in read]).encode())


@contextlib.contextmanager
def _drawing() -> Iterator[None]:
    """Restore the usual random generators afterwards."""
    with torch.random.fork_rng(devices=[]):
        kept, own = random.getstate(), np.random.get_state()  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(kept)
            np.random.set_state(own)  # noqa: NPY002


def _read_record(records: Any, place: int, key: bytes, collate: Collate | None) -> str:
    code = hmac.new(key, digestmod=hashlib.sha256)
    random.seed(place)
    np.random.seed(place % 2**32)  # noqa: NPY002
    torch.manual_seed(place)
    try:
        _update(code, record(records[place], collate))
    except Exception:
        return "unread"
    return code.hexdigest()


def differing(every: list[Terms]) -> list[str]:
    """Names of the terms that are not equal in all of several descriptions."""
    names = dict.fromkeys(name for found in every for name in found)
    return [name for name in names if len({found.get(name) for found in every}) > 1]


def check_same(every: list[Terms]) -> None:
    """Refuse processes that do not agree; all of them raise the same sentence."""
    if not (names := differing(every)):
        return
    told = "; ".join(_told(name, [found.get(name, "absent") for found in every]) for name in names[:4])
    raise BadInput(
        f"The processes of this run do not agree: {told}.", fix="Start all of them with the same settings and data."
    )


def check_continues(saved: Terms, now: Terms, current: Terms, scheduled: Sequence[str] = ()) -> None:
    """Refuse to continue under other terms than the saved run began with.

    `current` are the optimizer's when the state was saved, and `scheduled` those that a schedule moves.
    """
    moved = [*scheduled, *(name for name in current if now.get(name) == current[name])]
    names = [name for name in differing([saved, now]) if name != DATA and name not in moved]
    if names:
        pairs = {name: [saved.get(name, "absent"), now.get(name, "absent")] for name in names[:4]}
        told = "; ".join(_told(name, pair, "was", "is now") for name, pair in pairs.items())
        whose = "another plan" if names[0].startswith("plan.") else "other settings"
        raise BadInput(f"The state belongs to {whose}: {told}.", fix="Repeat the settings of the run that was saved.")


def scheduled(saved: Groups, now: Groups) -> Sequence[str]:
    """The settings that a schedule of the saved run moves, if both optimizers start from the same learning rates.

    A new schedule sets the first of its values when it is made; loading the state then puts the saved ones back.
    """
    moves = all("initial_lr" in group for group in saved)
    starts = ([_plain(group.get("initial_lr", group.get("lr"))) for group in groups] for groups in (saved, now))
    return SCHEDULED if moves and len(set(map(tuple, starts))) == 1 else ()


def _told(name: str, values: list[str], *words: str) -> str:
    shown = all(not value.startswith("#") for value in values) and name != DATA
    if not shown:
        return f"{name} differs" if not words else f"{name} is not the same"
    if words:
        return f"{name} {words[0]} {values[0]} and {words[1]} {values[1]}"
    first = {value: values.index(value) for value in values}
    return f"{name} is " + " and ".join(f"{value} in process {rank}" for value, rank in first.items())


def _plain(value: object) -> str:
    return repr(value.tolist()) if isinstance(value, Tensor) else described(value)
