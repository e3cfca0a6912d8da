"""Convert single records to tensors, and pad sequences to public lengths.

A record is never processed together with another here. Its padded length depends on that record and on public lengths
alone, so that the length of a text does not affect the gradient of another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from ...core import BadInput, check
from ..clip.tree import mapped

Field = str | int
Description = tuple[tuple[str, tuple[int, ...]], ...]
PADS: Mapping[Field, float] = {"input_ids": 0, "attention_mask": 0, "token_type_ids": 0, "labels": -100, 0: 0}
"""The fields of a record that are sequences by default, and the values that pad them."""
FIX = (
    "Give items of tensors and numbers, all of one shape: images of one size, and texts padded to public lengths by "
    "collate=tacit.train.Buckets((32, 64, 128))."
)


@dataclass(frozen=True)
class Buckets:
    """A `collate` that pads every record to the least of some public `lengths` that holds it; longer ones are cut.

    `pad` says which fields of a record are sequences (names of a dict, numbers of a tuple) and what fills them up; by
    default those that tokenizers give, or the first of a tuple. `prepare(item)`, if given, makes a record of an item
    first: it tokenises a text, say. Physical batches hold records of one length: there are as many shapes as lengths.

    Guarantee: a record's length depends on that record and on public numbers alone.
    """

    lengths: tuple[int, ...] | int
    pad: Mapping[Field, float] = field(default_factory=lambda: PADS)
    prepare: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:
        lengths = tuple(sorted({check.whole("a length of Buckets", length) for length in self.public}))
        if not lengths:
            raise BadInput("Buckets need at least one length.", fix="Give Buckets((32, 64, 128)), say.")
        object.__setattr__(self, "lengths", lengths)

    @property
    def public(self) -> tuple[int, ...]:
        """The lengths in order."""
        return (self.lengths,) if isinstance(self.lengths, int) else self.lengths

    def length(self, sample: object) -> int:
        """The public length of one record."""
        longest = max((len(value) for _, value in self.sequences(sample)), default=0)
        return self.public[min(bisect_left(self.public, longest), len(self.public) - 1)]

    def padded(self, sample: object, length: int) -> object:
        """The record with its sequences cut or filled up to `length`."""
        found = {name: _to(value, length, self.pad[name]) for name, value in self.sequences(sample)}
        return _with(sample, found)

    def sequences(self, sample: object) -> list[tuple[Field, Tensor]]:
        """Fields of the record that are padded: those named in `pad` that have a length."""
        named = sample.items() if isinstance(sample, Mapping) else enumerate(_fields(sample))
        return [(name, one) for name, one in named if name in self.pad and isinstance(one, Tensor) and one.ndim]


Collate = Callable[[list[Any]], object] | Buckets


def _fields(sample: object) -> list[object]:
    return list(sample) if isinstance(sample, tuple | list) else [sample]


def _with(sample: Any, found: Mapping[Any, Tensor]) -> Any:
    if isinstance(sample, Mapping):
        return {name: found.get(name, one) for name, one in sample.items()}
    fields = [found.get(place, one) for place, one in enumerate(_fields(sample))]
    return alike(sample, fields) if isinstance(sample, tuple | list) else fields[0]


def alike(sample: tuple[Any, ...] | list[Any], fields: Iterable[Any]) -> object:
    """Fields as a tuple, or with the names of the tuple that they come from."""
    named = isinstance(sample, tuple) and hasattr(sample, "_fields")
    return type(sample)(*fields) if named else tuple(fields)


def _to(values: Tensor, length: int, fill: float) -> Tensor:
    missing = length - len(values)
    if missing <= 0:
        return values[:length]
    return torch.cat((values, values.new_full((missing, *values.shape[1:]), fill)))


def record(item: Any, collate: Collate | None) -> Any:
    """One record as tensors: a dict, a tuple or a tensor. `collate` is given a list of this item alone."""
    if isinstance(collate, Buckets):
        return as_record(item if collate.prepare is None else collate.prepare(item))
    if collate is None:
        return as_record(item)
    return as_record(mapped(_only, _plain(collate([item]))))


def _only(values: Tensor) -> Tensor:
    if len(values) != 1:
        raise BadInput("collate was given one item and made another number of rows.", fix="One item is one record.")
    return values[0]


def as_record(value: object) -> object:
    """Numbers, arrays and lists of numbers become tensors, float32 and int64; tensors keep their kind of numbers."""
    if isinstance(value, Tensor):
        return _dense(value)
    if isinstance(value, Mapping):
        return {key: as_record(one) for key, one in value.items()}
    if isinstance(value, tuple) or (isinstance(value, list) and not _numeric(value)):
        return alike(value, (as_record(one) for one in value))
    if isinstance(value, str | bytes) or value is None:
        raise BadInput(f"Items hold {type(value).__name__}, which is no number.", fix=_WORDS)
    return array(np.asarray(value))


def _dense(value: Tensor) -> Tensor:
    """An ordinary dense tensor with the same values: other kinds cannot be stacked with the rest of a batch."""
    if value.is_meta or value.is_nested:
        raise BadInput("A record holds a tensor that is nested or without memory.")
    value = value.detach()
    value = value.dequantize() if value.is_quantized else value
    value = value if value.layout is torch.strided else value.to_dense()
    return signed(value.as_subclass(Tensor).resolve_conj().resolve_neg())


def signed(values: Tensor) -> Tensor:
    """Whole numbers of more than eight bits without a sign as int64: torch can hardly select or add such numbers."""
    return values.long() if values.dtype in (torch.uint16, torch.uint32, torch.uint64) else values


_WORDS = "Leave that field out, or turn it into numbers: collate=tacit.train.Buckets((64, 128), prepare=tokenise)."


def array(values: np.ndarray[Any, Any]) -> Tensor:
    """A tensor: double-precision numbers become float32, and whole numbers of any width int64."""
    if values.dtype.kind not in "fiub":
        raise BadInput("Data hold something other than numbers.", fix=_WORDS)
    if values.dtype.kind in "iu" and values.dtype != np.uint8:
        values = values.astype(np.int64)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    tensor = torch.from_numpy(np.require(values, requirements=["C", "W"]))
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def _numeric(value: list[object]) -> bool:
    """Whether a list is one array of numbers, of any depth, rather than several fields of a record.

    Numbers beside lists of them are fields: features and a label, say.
    """
    if any(isinstance(one, list) for one in value):
        return all(isinstance(one, list) and _numeric(one) for one in value)
    return all(isinstance(one, int | float | np.number) for one in value)


def _plain(batch: object) -> object:
    """The mapping that transformers' collators return, as a plain dict."""
    return dict(batch) if isinstance(batch, Mapping) else batch


def describe(sample: Any, buckets: Buckets | None) -> Description:
    """Names and shapes of a record's tensors, without the lengths that are padded: what all records must share."""
    padded = {id(value) for _, value in buckets.sequences(sample)} if buckets is not None else set()
    found: list[tuple[str, tuple[int, ...]]] = []

    def note(name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            found.append((name, tuple(value.shape[1:] if id(value) in padded else value.shape)))
            return
        for key, one in value.items() if isinstance(value, Mapping) else enumerate(value):
            note(f"{name}.{key}", one)

    note("", sample)
    return tuple(sorted(found))


def fitted(pattern: Any, sample: Any) -> Any:
    """The record in the field order and with the dtypes of a pattern that has the same names.

    Integers may be converted to the pattern's floats; the reverse would truncate, and is refused.
    """
    if isinstance(pattern, Tensor):
        if sample.numel() and _rank(sample.dtype) > max(_rank(pattern.dtype), 1):
            raise BadInput("A record has other numbers than most records have.")
        return sample.to(pattern.device, pattern.dtype)
    if isinstance(pattern, Mapping):
        return {key: fitted(one, sample[key]) for key, one in pattern.items()}
    return alike(pattern, (fitted(one, other) for one, other in zip(pattern, sample, strict=True)))


def _rank(kind: torch.dtype) -> int:
    """The order of dtypes by what they can represent: booleans and integers, then floats, then complex numbers."""
    return 3 if kind.is_complex else 2 if kind.is_floating_point else 1


def pattern_of(samples: list[Any]) -> object:
    """Zeros with the shapes of the first of some similar records, and the dtypes that `usual_kind` gives."""
    first = samples[0]
    if isinstance(first, Tensor):
        kinds = [one.dtype for one in samples if one.numel()]  # an empty list does not say of what it is
        place = Counter(one.device for one in samples).most_common(1)[0][0]
        return torch.zeros(first.shape, dtype=usual_kind(kinds or [first.dtype]), device=place)
    if isinstance(first, Mapping):
        return {key: pattern_of([one[key] for one in samples]) for key in first}
    return alike(first, (pattern_of(list(same)) for same in zip(*samples, strict=True)))


def usual_kind(kinds: list[torch.dtype]) -> torch.dtype:
    """The widest dtype that at least two records have, so that no single record decides it."""
    counts = Counter(kinds)
    often = [kind for kind, count in counts.items() if count > 1] or kinds[:1]
    try:
        return reduce(torch.promote_types, often)
    except RuntimeError:  # torch does not say which of them is wider
        return max(often, key=lambda kind: counts[kind])


def stacked(samples: list[object]) -> object:
    """One batch of records with equal shapes."""
    return default_collate(samples)
