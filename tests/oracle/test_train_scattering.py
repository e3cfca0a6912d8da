"""Scattering features against kymatio, and against wavelets convolved by hand."""

import math

import numpy as np
import pytest
import torch

from tacit.core import BadInput
from tacit.train.recipe.scattering import FREQUENCY, SLANT, WIDTH, Scattering


@pytest.mark.needs("kymatio")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("side", "scales", "angles"), [(28, 2, 8), (32, 2, 8), (32, 3, 4), (16, 1, 6)])
def test_features_are_those_of_kymatio(side: int, scales: int, angles: int) -> None:
    from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D

    x = torch.rand(3, 2, side, side, generator=torch.Generator().manual_seed(0))
    ours = Scattering(side, side, scales=scales, angles=angles)
    theirs = ScatteringTorch2D(scales, (side, side), L=angles)(x)
    found = ours(x)
    assert found.shape == (3, 2 * ours.channels, side // 2**scales, side // 2**scales)
    torch.testing.assert_close(found, theirs.flatten(1, 2), rtol=1e-4, atol=2e-5)


def wave(size: int, scale: float, turn: float, slant: float, frequency: float) -> np.ndarray:
    """A wave under a Gaussian, added up over five periods, at every pair of places; by loops over places."""
    found = np.zeros((size, size), dtype=complex)
    for u in range(-2 * size, 3 * size):
        for v in range(-2 * size, 3 * size):
            along = u * math.cos(turn) + v * math.sin(turn)
            across = v * math.cos(turn) - u * math.sin(turn)
            value = math.exp(-(along**2 + (slant * across) ** 2) / (2 * scale**2))
            found[u % size, v % size] += value * complex(math.cos(frequency * along), math.sin(frequency * along))
    return found * slant / (2 * math.pi * scale**2)


def convolved(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    found = np.zeros_like(kernel)
    for u in range(len(kernel)):
        for v in range(len(kernel)):
            found += kernel[u, v] * np.roll(image, (u, v), axis=(0, 1))
    return found


def test_features_are_moduli_of_wavelets_smoothed_and_sampled() -> None:
    image = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    found = Scattering(8, 8, scales=1, angles=2)(image)[0].numpy()
    padded = np.pad(image[0, 0].numpy().astype(float), 2, mode="reflect")
    blur = wave(12, WIDTH, 0.0, 1.0, 0.0)
    maps = [padded]
    for angle in range(2):
        turn = math.pi * (0 - angle) / 2
        kernel = wave(12, WIDTH, turn, SLANT / 2, FREQUENCY)
        envelope = wave(12, WIDTH, turn, SLANT / 2, 0.0)
        maps.append(np.abs(convolved(padded, kernel - kernel.sum() / envelope.sum() * envelope)))
    expected = [convolved(part, blur).real[::2, ::2][1:-1, 1:-1] for part in maps]
    np.testing.assert_allclose(found, np.array(expected), atol=1e-5)


def test_a_shifted_image_has_nearby_features_and_a_record_its_own() -> None:
    torch.manual_seed(0)
    scattering = Scattering(28, 28)
    x = torch.nn.functional.interpolate(torch.rand(4, 1, 7, 7), size=28, mode="bilinear")
    features = scattering(x)
    moved = scattering(x.roll(1, dims=3))
    assert (features - moved).norm() < 0.5 * (x - x.roll(1, dims=3)).norm()
    torch.testing.assert_close(scattering(x[1:2]), features[1:2])
    assert not list(scattering.parameters())
    assert not scattering.state_dict()


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(BadInput, match="multiples of 4"):
        Scattering(30, 30)
    with pytest.raises(BadInput, match="shape"):
        Scattering(28, 28)(torch.zeros(2, 1, 32, 32))
