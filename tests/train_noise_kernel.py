"""Parts of the noise kernel against longer numbers: on a GPU, or as a script that Triton interprets."""

import numpy as np
import torch
import triton
import triton.language as tl

from tacit.train.noise.kernels import _radius, _turned

COUNT = 4096


@triton.jit
def radii(low, high, found, COUNT: tl.constexpr):
    lane = tl.arange(0, COUNT)
    tl.store(
        found + lane,
        _radius(tl.load(low + lane).to(tl.uint32, bitcast=True), tl.load(high + lane).to(tl.uint32, bitcast=True)),
    )


@triton.jit
def turns(word, cosines, sines, COUNT: tl.constexpr):
    lane = tl.arange(0, COUNT)
    cosine, sine = _turned(tl.load(word + lane).to(tl.uint32, bitcast=True))
    tl.store(cosines + lane, cosine)
    tl.store(sines + lane, sine)


def filled(edges, bits):
    """The edges and random numbers of all lengths, from both ends."""
    rng = np.random.default_rng(0)
    short = rng.integers(0, 2**bits, COUNT, dtype=np.uint64) >> rng.integers(0, bits, COUNT, dtype=np.uint64)
    many = np.where(rng.random(COUNT) < 0.5, short, np.uint64(2**bits - 1) - short)
    many[: len(edges)] = np.array(edges, dtype=np.uint64)
    return many


def words(numbers, device):
    return torch.from_numpy((numbers & np.uint64(2**32 - 1)).astype(np.uint32).view(np.int32).copy()).to(device)


def check_radii(device="cpu", most=3e-7):
    """Every one of the 53 bits counts, in the tail and next to 0, where a logarithm in float32 is lost."""
    root = round(2**53 * 0.5**0.5)
    edges = [0, 1, 2, 3, 2**53 - 1, 2**53 - 2, 2**52, 2**52 - 1, *range(root - 2**22, root + 2**22, 2**15)]
    drawn = filled(edges + [2**k + d for k in range(2, 53) for d in (-1, 0, 1)], 53)
    found = torch.zeros(COUNT, device=device)
    radii[(1,)](words(drawn << np.uint64(11), device), words(drawn >> np.uint64(21), device), found, COUNT=COUNT)
    exact = (2 * drawn.astype(object) + 1).astype(np.longdouble)
    far = np.longdouble(2) ** 54
    right = np.sqrt(-2 * np.where(exact > far / 2, np.log1p(-(far - exact) / far), np.log(exact / far)))
    assert np.abs(found.cpu().numpy() / right - 1).max() < most
    assert np.abs(np.sqrt(-2 * np.log((exact / far).astype(np.float32))) / right - 1).max() > 0.1
    assert 8.65 < found[0] < 8.66
    assert 1.0e-8 < found[4] < 1.1e-8


def check_turns(device="cpu", most=2e-7):
    edges = [k * 2**29 + d for k in range(8) for d in (-1, 0, 1) if 0 <= k * 2**29 + d < 2**32]
    drawn = filled(edges, 32)
    cosines, sines = torch.zeros(2, COUNT, device=device)
    turns[(1,)](words(drawn, device), cosines, sines, COUNT=COUNT)
    angle = 2 * np.pi * (drawn.astype(np.float64) / 2**32)
    assert np.abs(cosines.cpu().numpy() - np.cos(angle)).max() < most
    assert np.abs(sines.cpu().numpy() - np.sin(angle)).max() < most


if __name__ == "__main__":
    check_radii()
    check_turns()
