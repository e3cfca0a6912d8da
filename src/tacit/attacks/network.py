"""The attack network of Nasr et al. 2019: an encoder for each thing that is seen, and one classifier over all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Parts = dict[str, tuple[NDArray[np.floating], ...]]
"""By name: a vector per record (records x d); a matrix (records x rows x columns); or a matrix by its two factors."""

FILTERS, EPOCHS, BATCH, LEARNING_RATE, DECAY = 32, 50, 64, 1e-3, 1e-4
HELD_OUT, PATIENCE = 5, 8
"""One in 5 known records decides which epoch is taken; 8 epochs without a better one end the training."""
TINY = 1e-30


class Vector(nn.Module):
    """d -> 100 -> 64."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, 100), nn.ReLU(), nn.Dropout(0.2), nn.Linear(100, 64), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


class Matrix(nn.Module):
    r"""Kernels over whole rows (1 x fan-in), then rows x 32 -> 128 -> 64.

    A matrix given by factors e a^T is never formed: kernel k on row r is e_r (w_k . a).
    """

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.kernels = nn.Linear(columns, FILTERS, bias=False)
        self.bias = nn.Parameter(torch.zeros(FILTERS))
        self.layers = nn.Sequential(
            nn.Linear(rows * FILTERS, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.ReLU()
        )
        self.scale = float(rows * columns) ** 0.5

    def forward(self, *given: Tensor) -> Tensor:
        if len(given) == 1:
            filtered = self.kernels(given[0])
        else:
            error, entered = given
            filtered = error[:, :, None] * self.kernels(entered)[:, None, :]
        return self.layers(torch.relu(self.scale * filtered + self.bias).flatten(1))  # type: ignore[no-any-return]


class Network(nn.Module):
    """All encoders side by side, then 256 -> 64 -> 1."""

    def __init__(self, parts: dict[str, tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.names = list(parts)
        self.encoders = nn.ModuleList([_encoder(part) for part in parts.values()])
        self.classifier = nn.Sequential(
            nn.Linear(64 * len(parts), 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, parts: dict[str, tuple[Tensor, ...]]) -> Tensor:
        codes = [encoder(*parts[name]) for name, encoder in zip(self.names, self.encoders, strict=True)]
        return self.classifier(torch.cat(codes, dim=1))[:, 0]  # type: ignore[no-any-return]


def learned(known: Parts, member: NDArray[np.bool_], asked: Parts) -> NDArray[np.float64]:
    """Log-odds of membership of the asked records, from a network that learned on the known ones.

    The start, the order of batches and dropout are fixed: an attack is a pure function. The network of the epoch with
    the least loss on one in five known records is taken. Answers are computed in float64.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scaled, asked_scaled = _scaled(known, asked)
    parts, truth = _tensors(scaled, device), torch.as_tensor(member, dtype=torch.float32, device=device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        network = Network(parts).to(device)
        _train(network, parts, truth)
    network.double().eval()
    answers = []
    with torch.no_grad():
        for rows in np.array_split(np.arange(len(next(iter(asked_scaled.values()))[0])), _pieces(asked_scaled)):
            piece = {name: tuple(array[rows] for array in part) for name, part in asked_scaled.items()}
            answers.append(network(_tensors(piece, device, torch.float64)).cpu().numpy())
    return np.concatenate(answers)


def _train(network: Network, parts: dict[str, tuple[Tensor, ...]], truth: Tensor) -> None:
    order = torch.randperm(len(truth)).to(truth.device)
    held, rows = order[: max(len(order) // HELD_OUT, 1)], order[max(len(order) // HELD_OUT, 1) :]
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, weight_decay=DECAY, fused=True)
    best, when, state = float("inf"), 0, network.state_dict()
    for epoch in range(EPOCHS):
        network.train()
        for batch in torch.split(rows[torch.randperm(len(rows)).to(rows.device)], max(BATCH, len(rows) // 100)):
            optimizer.zero_grad()
            _loss(network, parts, truth, batch).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        network.eval()
        with torch.no_grad():
            found = float(_loss(network, parts, truth, held))
        if found < best:
            best, when, state = found, epoch, {name: value.clone() for name, value in network.state_dict().items()}
        if epoch - when >= PATIENCE:
            break
    network.load_state_dict(state)


def _loss(network: Network, parts: dict[str, tuple[Tensor, ...]], truth: Tensor, rows: Tensor) -> Tensor:
    chosen = {name: tuple(tensor[rows] for tensor in part) for name, part in parts.items()}
    return nn.functional.binary_cross_entropy_with_logits(network(chosen), truth[rows])


def _encoder(part: Sequence[Tensor]) -> nn.Module:
    if len(part) == 2:
        return Matrix(part[0].shape[1], part[1].shape[1])
    return Vector(part[0].shape[1]) if part[0].dim() == 2 else Matrix(part[0].shape[1], part[0].shape[2])


def _scaled(known: Parts, asked: Parts) -> tuple[Parts, Parts]:
    """Vectors standardised by the known records; a matrix as its direction, with the log of its length beside it."""
    first: Parts = {}
    second: Parts = {}
    for name in known:
        if known[name][0].ndim == 2 and len(known[name]) == 1:
            first[name], second[name] = _standardised(known[name][0], asked[name][0])
            continue
        lengths = []
        for made, part in ((first, known[name]), (second, asked[name])):
            norms = [np.sqrt((array**2).reshape(len(array), -1).sum(1)) for array in part]
            made[name] = tuple(
                array / np.maximum(norm, TINY).reshape(-1, *(1,) * (array.ndim - 1))
                for array, norm in zip(part, norms, strict=True)
            )
            lengths.append(np.log(np.maximum(np.prod(norms, axis=0), TINY))[:, None])
        first[f"{name} length"], second[f"{name} length"] = _standardised(*lengths)
    return first, second


def _standardised(
    known: NDArray[np.floating], asked: NDArray[np.floating]
) -> tuple[tuple[NDArray[np.floating]], tuple[NDArray[np.floating]]]:
    centre, scale = known.mean(axis=0), known.std(axis=0)
    scale = np.where(scale > 0, scale, np.inf)
    return ((known - centre) / scale,), ((asked - centre) / scale,)


def _tensors(parts: Parts, device: torch.device, kind: torch.dtype = torch.float32) -> dict[str, tuple[Tensor, ...]]:
    return {
        name: tuple(torch.as_tensor(array, dtype=kind, device=device) for array in part) for name, part in parts.items()
    }


def _pieces(parts: Parts) -> int:
    return max(1, len(next(iter(parts.values()))[0]) // 1000)
