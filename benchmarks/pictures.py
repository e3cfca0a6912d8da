"""CIFAR from the data folder: JPEGs in one array, decoded once."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import BadInput
from tacit.data.loaders import folder

Bytes = NDArray[np.uint8]
MEAN, SPREAD = 120.0, 64.0


def load(name: str, split: int, count: int | None = None) -> tuple[Bytes, NDArray[np.int64]]:
    """(records x 3 x 32 x 32 bytes, labels) of `cifar10` or `cifar100`; split 0 is training, 1 is test."""
    path = folder() / f"{name}.npz"
    if not path.is_file():
        raise BadInput(f"The data set {name} is not in the data folder.", fix="Name the folder in TACIT_DATA.")
    with np.load(path) as arrays:
        blob, offsets = arrays["blob"], arrays["offsets"]
        rows = np.flatnonzero(arrays["split"] == split)[:count]
        labels = arrays["labels"][rows].astype(np.int64)
    found = np.empty((len(rows), 32, 32, 3), np.uint8)
    decoded = _decoder()
    for k, row in enumerate(rows):
        found[k] = decoded(blob[offsets[row] : offsets[row + 1]])
    return np.ascontiguousarray(found.transpose(0, 3, 1, 2)), labels


def _decoder() -> Callable[[Bytes], Bytes]:
    """By Pillow, a package of its own, or by torchvision where that is installed instead."""
    try:
        from PIL import Image
    except ImportError:
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg

        return lambda data: decode_jpeg(torch.as_tensor(data), ImageReadMode.RGB).permute(1, 2, 0).numpy()
    return lambda data: np.asarray(Image.open(io.BytesIO(data.tobytes())).convert("RGB"))


def scaled(x: Bytes, mean: float = MEAN, spread: float = SPREAD) -> NDArray[np.float32]:
    """About mean 0 and spread 1."""
    return (x.astype(np.float32) - np.float32(mean)) / np.float32(spread)
