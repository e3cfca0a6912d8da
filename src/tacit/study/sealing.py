"""Which data was it? A keyed hash in the evidence; the key stays with the operator.

Without the key the hash tells nothing about the data, not even to somebody who could guess them (soundness rule 12).
Who holds the key and the data can show that the evidence is about these data: `tacit verify --data ... --key ...`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

import numpy as np

from ..core import BadInput, Evidence
from ..core.arrays import Array
from ..core.files import content, unwritten

FIELD = "data_hmac"
KEY_FILE = "data.key"
BYTES = 32
MOST = 4096


def sealed(evidence: Evidence, x: Array, y: Array, key_file: str | Path) -> Evidence:
    """The evidence with the keyed hash of its data; a key is made, for its owner to read, where there is none."""
    path = Path(key_file)
    if not path.exists():
        partial = path.with_name(path.name + ".partial")
        with unwritten(path, partial):
            partial.unlink(missing_ok=True)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(os.urandom(BYTES))
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
    return evidence.with_(provenance={**evidence.provenance, FIELD: keyed_hash(x, y, _key(path))})


def same_data(evidence: Evidence, x: Array, y: Array, key_file: str | Path) -> bool:
    """Whether the evidence was made from these data."""
    stored = evidence.provenance.get(FIELD)
    if not isinstance(stored, str):
        raise BadInput("The evidence holds no keyed hash of its data.")
    return hmac.compare_digest(stored.encode(), keyed_hash(x, y, _key(Path(key_file))).encode())


def keyed_hash(x: Array, y: Array, key: bytes) -> str:
    """HMAC-SHA256 over shapes, kinds and values, in an order that depends on no machine."""
    code = hmac.new(key, digestmod=hashlib.sha256)
    for array in (x, y):
        plain = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        code.update(f"{plain.shape} {plain.dtype.str};".encode())
        code.update(plain.tobytes())
    return code.hexdigest()


def _key(path: Path) -> bytes:
    key = bytes(content(path, MOST, fix="Give the key file that was written beside it."))
    if len(key) != BYTES:
        raise BadInput(f"{path.name} is not a key of {BYTES} bytes.")
    return key
