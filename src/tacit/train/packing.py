"""Nested plain values and tensors as bytes, and back: no pickle, no code, nothing that depends on a class.

    line 1       {"schema": "tacit.packed/1", "tree": <bytes of the tree>, "body": <bytes of all tensors>}
    tree         JSON; every value is [tag, content], so that types survive
    body         the tensors' bytes, one after the other, little-endian as they lie in memory
    last 32      SHA-256 of everything before

A flipped bit, a cut or a foreign file does not pass the checksum; what passes it is still read with checked types,
sizes and depth.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core import BadInput

SCHEMA = "tacit.packed/1"
DEPTH = 32
SUM = 32
HEAD = 256
"""The maximal length of the first line in bytes."""
KINDS = {
    str(kind).removeprefix("torch."): kind
    for kind in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}


def packed(state: Mapping[str, object]) -> Iterator[bytes | memoryview]:
    """The bytes of `state` in parts, the last of which is their checksum."""
    tensors: list[Tensor] = []
    tree = json.dumps(_encoded(dict(state), tensors, 0), separators=(",", ":")).encode()
    body = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    line = json.dumps({"schema": SCHEMA, "tree": len(tree), "body": body}).encode() + b"\n"
    code = hashlib.sha256()
    for part in (line, tree):
        code.update(part)
        yield part
    for tensor in tensors:
        if tensor.numel():
            flat = tensor.reshape(-1).view(torch.uint8).numpy().data
            code.update(flat)
            yield flat
    yield code.digest()


def unpacked(data: bytes | bytearray, name: str) -> dict[str, object]:
    """What `packed` made; anything else is refused with one sentence that says where it is wrong."""
    line, end, _ = bytes(data[:HEAD]).partition(b"\n")
    try:
        head = json.loads(line) if end else {}
        found = head.get("schema") == SCHEMA and type(head["tree"]) is int and type(head["body"]) is int
    except (ValueError, RecursionError, AttributeError, KeyError):
        found = False
    if not found:
        raise BadInput(
            f"{name} is not a checkpoint of this version.", fix="It was not written by tacit, or by another version."
        )
    start = len(line) + 1
    middle = start + head["tree"]
    if head["tree"] < 0 or head["body"] < 0 or len(data) != middle + head["body"] + SUM:
        raise BadInput(f"{name} is damaged: it is not as long as its first line says.", fix="Go back to a copy of it.")
    view = memoryview(data)
    if hashlib.sha256(view[:-SUM]).digest() != bytes(view[-SUM:]):
        raise BadInput(f"{name} is damaged: its checksum does not fit.", fix="Go back to a copy of it.")
    try:
        state, left = _decoded(json.loads(bytes(view[start:middle])), view[middle:-SUM], 0, 0)
        if not isinstance(state, dict) or left != head["body"]:
            raise ValueError
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError):
        raise BadInput(f"{name} is not a checkpoint: a part is of the wrong type.") from None
    return state


def _encoded(value: object, tensors: list[Tensor], depth: int) -> list[Any]:
    if depth > DEPTH:
        raise BadInput(f"A state nested more than {DEPTH} deep cannot be saved.")
    if isinstance(value, Tensor):
        return _tensor(value, tensors)
    if isinstance(value, Mapping):
        inner = [[_encoded(part, tensors, depth + 1) for part in pair] for pair in value.items()]
        return ["dict", inner]
    if isinstance(value, list | tuple):
        inner = [_encoded(item, tensors, depth + 1) for item in value]
        return ["list" if isinstance(value, list) else "tuple", inner]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return ["plain", value]
    if isinstance(value, int):
        return ["int", str(value)]
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    raise BadInput(
        f"A {type(value).__name__} in the state of the model or the optimizer cannot be saved.",
        fix="Checkpoints hold tensors, numbers and text.",
    )


def _tensor(value: Tensor, tensors: list[Tensor]) -> list[object]:
    kind = str(value.dtype).removeprefix("torch.")
    if kind not in KINDS or value.layout != torch.strided or type(value.data) is not Tensor:
        raise BadInput(f"A tensor of kind {kind} ({type(value).__name__}) cannot be saved.")
    tensors.append(value.detach().cpu().contiguous())
    return ["tensor", [kind, list(value.shape)]]


def _decoded(value: Any, body: memoryview, at: int, depth: int) -> tuple[object, int]:
    """The value, and the offset of the next tensor."""
    tag, content = value
    if depth > DEPTH:
        raise ValueError
    if tag == "tensor":
        return _from(body, at, *content)
    if tag == "dict":
        found: dict[Any, Any] = {}
        for key, item in content:
            name, at = _decoded(key, body, at, depth + 1)
            found[name], at = _decoded(item, body, at, depth + 1)
        return found, at
    if tag in ("list", "tuple"):
        items = []
        for item in content:
            one, at = _decoded(item, body, at, depth + 1)
            items.append(one)
        return (items if tag == "list" else tuple(items)), at
    plain: dict[str, Callable[[str], Any]] = {"int": int, "float": float.fromhex, "bytes": bytes.fromhex}
    if tag == "plain" and (content is None or isinstance(content, bool | str)):
        return content, at
    if not isinstance(content, str):
        raise TypeError
    return plain[tag](content), at


def _from(body: memoryview, at: int, kind: str, shape: list[int]) -> tuple[Tensor, int]:
    dtype = KINDS[kind]
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError
    count = math.prod(shape)
    end = at + count * dtype.itemsize
    if end > len(body):
        raise ValueError
    flat = torch.frombuffer(bytearray(body[at:end]), dtype=dtype) if count else torch.empty(0, dtype=dtype)
    return flat.reshape(shape), end
