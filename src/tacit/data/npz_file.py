"""Arrays of an .npz file, read only where their headers, their sizes and the file agree; never a pickle."""

from __future__ import annotations

import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from ..core.errors import BadInput
from ..core.files import opened, shown

MOST = 2**40
LARGE, DENSE = 2**30, 250
"""Bytes from which an array may be at most so many times larger than it is on disk."""
BAD = (
    *(ValueError, OSError, EOFError, KeyError, RuntimeError, TypeError, OverflowError, SyntaxError, MemoryError),
    *(tokenize.TokenError, struct.error, zipfile.BadZipFile, zlib.error),
)
"""What zipfile and numpy raise for files that are damaged, encrypted or compressed in unknown ways."""


def read_npz(path: Path, wanted: Collection[str]) -> dict[str, Any]:
    """Read those of the `wanted` arrays that the file holds, by name."""
    try:
        with opened(path, MOST) as file, zipfile.ZipFile(file) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            return {name: _array(archive, members[name], path, name) for name in wanted if name in members}
    except BadInput:
        raise
    except BAD:
        raise BadInput(f"{shown(path)} is not an .npz file without pickles.") from None


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, name: str) -> Any:
    where = f"{shown(path)}: array {shown(name)}"
    if info.file_size > MOST or (info.file_size > LARGE and info.file_size > DENSE * info.compress_size):
        raise BadInput(f"{where} says that it has {info.file_size:,} bytes, which so small a file cannot hold.")
    with archive.open(info) as member:
        shape, fortran, kind = _header(member)
        if kind.hasobject or kind.kind not in "biufUS":
            raise BadInput(f"{where} holds neither numbers nor words.", fix="Objects and pickles are not read.")
        count = math.prod(shape)
        if count * kind.itemsize + member.tell() != info.file_size:
            raise BadInput(f"{where} is damaged: its header speaks of {count:,} values, and its size of others.")
        flat = np.frombuffer(member.read(), dtype=kind) if kind.itemsize else np.zeros(count, dtype=kind)
    return flat.reshape(shape, order="F" if fortran else "C")


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(member)
    if version not in readers:
        raise ValueError
    shape, fortran, kind = readers[version](member)
    if any(size < 0 for size in shape):
        raise ValueError
    return shape, fortran, kind
