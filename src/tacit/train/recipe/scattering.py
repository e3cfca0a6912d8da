r"""Scattering features: fixed wavelets instead of learned layers, which cost no privacy and leave little to learn.

With psi a Morlet wavelet at scales 2^j, j < J, and L angles, and phi a Gaussian of width 2^J, an image x becomes

    x * phi,     |x * psi_{j,l}| * phi,     ||x * psi_{j,l}| * psi_{k,m}| * phi  for j < k,

each sampled every 2^J pixels: 1 + L J + L^2 J (J - 1)/2 channels (81 for J = 2, L = 8). Nothing is learned, so the
features of a record are a function of that record alone.

Reference: Bruna and Mallat 2013, sections 2 and 4; Oyallon and Mallat 2015 (the wavelets' constants); Tramer and Boneh
2021 (features for private learning).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...core import BadInput, check

# Bruna and Mallat's: width of the first wavelet, its centre frequency, and how far angles are told apart.
WIDTH, FREQUENCY, SLANT = 0.8, 3 * math.pi / 4, 4.0


class Scattering(nn.Module):
    """Fixed wavelet features of images; the module has no trained parameters.

    It turns (batch, colours, height, width) into (batch, colours * channels, height / 2^J, width / 2^J), J = `scales`.
    """

    waves: Tensor
    blur: Tensor

    def __init__(self, height: int, width: int, *, scales: int = 2, angles: int = 8) -> None:
        super().__init__()
        self.scales, self.angles = check.whole("scales", scales), check.whole("angles", angles)
        self.size = check.whole("height", height), check.whole("width", width)
        step = 2**scales
        if min(self.size) < 2 * step or any(side % step for side in self.size):
            raise BadInput(f"Images must have sides that are multiples of {step}, at least {2 * step}.")
        padded = tuple(side + 2 * step for side in self.size)
        waves = [_morlet(padded, j, angle, angles) for j in range(scales) for angle in range(angles)]
        self.register_buffer("waves", torch.stack(waves).unflatten(0, (scales, angles)), persistent=False)
        self.register_buffer("blur", _gaussian(padded, WIDTH * 2 ** (scales - 1)), persistent=False)

    @property
    def channels(self) -> int:
        """Feature maps for each colour."""
        pairs = self.scales * (self.scales - 1) // 2
        return 1 + self.angles * self.scales + self.angles**2 * pairs

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        if images.ndim != 4 or tuple(images.shape[2:]) != self.size:
            raise BadInput(f"Scattering takes images of shape (batch, colours, {self.size[0]}, {self.size[1]}).")
        pad = 2**self.scales
        spectrum = torch.fft.fft2(F.pad(images, (pad,) * 4, mode="reflect"))
        found = [self._smoothed(spectrum, 0)[:, :, None]]
        later = []
        for j in range(self.scales):
            first = self._modulus(spectrum[:, :, None], j, 0)
            found.append(self._smoothed(first, j))
            coarser = range(j + 1, self.scales)
            second = [self._smoothed(self._modulus(first[:, :, :, None], k, j), k) for k in coarser]
            later += [torch.cat(second, dim=3).flatten(2, 3)] if second else []
        return torch.cat(found + later, dim=2).flatten(1, 2)

    def _modulus(self, spectrum: Tensor, j: int, coarse: int) -> Tensor:
        """Spectrum of |x * psi_j| for every angle, sampled every 2^j pixels; x is sampled every 2^coarse."""
        passed = _passed(spectrum, _cropped(self.waves[j], coarse), 2 ** (j - coarse))
        return torch.fft.fft2(torch.fft.ifft2(passed).abs())

    def _smoothed(self, spectrum: Tensor, coarse: int) -> Tensor:
        """x * phi, sampled every 2^J pixels, without the margin."""
        passed = _passed(spectrum, _cropped(self.blur, coarse), 2 ** (self.scales - coarse))
        return torch.fft.ifft2(passed).real[..., 1:-1, 1:-1]


def _passed(spectrum: Tensor, wave: Tensor, step: int) -> Tensor:
    """The spectrum of a filtered signal, sampled every `step` pixels: the mean over the frequencies that coincide."""
    height, width = (side // step for side in spectrum.shape[-2:])
    found: Tensor | None = None
    for top in range(0, step * height, height):
        for left in range(0, step * width, width):
            part = spectrum[..., top : top + height, left : left + width]
            share = wave[..., top : top + height, left : left + width] / step**2
            found = part * share if found is None else found.addcmul_(part, share.to(part.dtype))
    assert found is not None  # a step is at least 1
    return found


def _cropped(wave: Tensor, coarse: int) -> Tensor:
    """A filter for signals sampled every 2^coarse pixels: its low frequencies."""
    for axis in (-2, -1) if coarse else ():
        size = wave.shape[axis]
        kept = size >> coarse
        low = kept // 2
        wave = torch.cat((wave.narrow(axis, 0, low), wave.narrow(axis, size - (kept - low), kept - low)), dim=axis)
    return wave


def _morlet(size: tuple[int, ...], j: int, angle: int, angles: int) -> Tensor:
    """The spectrum of psi_{j,l}: a tilted wave under a Gaussian, less as much Gaussian as makes its mean zero."""
    width, turn, slant = WIDTH * 2**j, math.pi * (angles // 2 - 1 - angle) / angles, SLANT / angles
    wave = _gaussian(size, width, turn, slant, FREQUENCY / 2**j)
    envelope = _gaussian(size, width, turn, slant)
    return wave - wave[0, 0] / envelope[0, 0] * envelope


def _gaussian(size: tuple[int, ...], width: float, turn: float = 0.0, slant: float = 1.0, wave: float = 0.0) -> Tensor:
    r"""The spectrum, which is real, of s/(2 pi w^2) e^{-(a^2 + s^2 b^2)/2w^2 + i xi a} where (a, b) is (u, v), turned.

    Made periodic by adding its copies up to two periods away.
    """
    u, v = (torch.arange(-2 * side, 3 * side, dtype=torch.float64) for side in size)
    along = u[:, None] * math.cos(turn) + v * math.sin(turn)
    across = v * math.cos(turn) - u[:, None] * math.sin(turn)
    decay = torch.exp(-(along**2 + (slant * across) ** 2) / (2 * width**2))
    values = torch.polar(decay, wave * along).unflatten(1, (5, size[1])).unflatten(0, (5, size[0])).sum((0, 2))
    return torch.fft.fft2(values * slant / (2 * math.pi * width**2)).real.float()
