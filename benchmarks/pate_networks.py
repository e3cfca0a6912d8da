"""Networks and data of the PATE benchmark."""

from __future__ import annotations

import io

import numpy as np
import torch
from torch import nn

from tacit.data.loaders import folder


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))


def small_cnn():
    """A teacher on some hundred MNIST pictures; a sequence of layers that fleets know."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def teacher_cnn():
    """A teacher on some thousand SVHN pictures."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64 * 16, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def _block(inside, outside):
    return [nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.LeakyReLU(0.1)]


def student_cnn():
    return nn.Sequential(
        *_block(1, 32), *_block(32, 32), nn.MaxPool2d(2), *_block(32, 64), *_block(64, 64), nn.MaxPool2d(2),
        *_block(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


def wide_cnn():
    return nn.Sequential(
        *_block(3, 64), *_block(64, 64), *_block(64, 64), nn.MaxPool2d(2), *_block(64, 128), *_block(128, 128),
        *_block(128, 128), nn.MaxPool2d(2), *_block(128, 256), *_block(256, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(128, 10),
    )  # fmt: skip


def digits(quick=False):
    """MNIST as (train, test), pixels in [0, 1]; quick: a quarter of the training pictures."""
    with np.load(folder() / "mnist.npz") as file:
        x, test_x = ((file[name][:, None] / 255).astype(np.float32) for name in ("x_train", "x_test"))
        y, test_y = (file[name].astype(np.int64) for name in ("y_train", "y_test"))
    return ((x[:15_000], y[:15_000]) if quick else (x, y)), (test_x, test_y)


def house_numbers(split):
    """SVHN pictures (n, 3, 32, 32), standardised by public round numbers, and labels."""
    with np.load(folder() / "svhn_jpeg.npz") as file:
        blob, offsets, labels, part = (file[name] for name in ("blob", "offsets", "labels", "split"))
    names = {value: np.flatnonzero(part == value) for value in np.unique(part)}
    rows = names[min(names, key=lambda value: -len(names[value]) if split == "train" else len(names[value]))]
    read = _reader()
    pictures = np.stack([read(blob[offsets[i] : offsets[i + 1]]) for i in rows])
    x = (pictures.transpose(0, 3, 1, 2) / 255 - 0.45) / 0.2
    return x.astype(np.float32), labels[rows].astype(np.int64)


def _reader():
    try:
        from PIL import Image
    except ImportError:
        from torchvision.io import ImageReadMode, decode_jpeg

        return lambda data: decode_jpeg(torch.from_numpy(data.copy()), ImageReadMode.RGB).permute(1, 2, 0).numpy()
    return lambda data: np.asarray(Image.open(io.BytesIO(data.tobytes())).convert("RGB"))


ADULT = {
    "age": (0, 100), "education_num": (1, 16), "capital_gain": (0, 100_000), "capital_loss": (0, 5_000),
    "hours_per_week": (0, 100),
}  # fmt: skip


def adult():
    """Adult, the published split, numbers over round public ranges and words as indicators; no pandas."""
    import csv
    import gzip

    with gzip.open(folder() / "adult.csv.gz", "rt", encoding="utf-8") as file:
        rows = [{key.replace("-", "_"): value.strip() for key, value in row.items()} for row in csv.DictReader(file)]
    words = sorted(set(rows[0]) - {*ADULT, "income", "split", "fnlwgt"})
    parts = []
    for name, (low, high) in ADULT.items():
        value = np.array([float(row[name] or 0) for row in rows])
        parts.append((2 * (value - low) / (high - low) - 1)[:, None])
    for name in words:
        column = np.array([row[name] for row in rows])
        parts.append((column[:, None] == np.unique(column)).astype(float))
    x = np.concatenate(parts, axis=1).astype(np.float32)
    y = np.array([row["income"].startswith(">") for row in rows]).astype(np.int64)
    inside = np.array([row["split"] == "train" for row in rows])
    return (x[inside], y[inside]), (x[~inside], y[~inside])
