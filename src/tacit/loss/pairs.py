r"""Dominating pairs: the two output distributions that are hardest to tell apart, for one release in one direction.

For a pair (P, Q) the privacy loss is L = log dP/dQ and delta(epsilon) = E_P (1 - e^{epsilon - L})_+. Pairs compose by
products, adaptively too (Zhu, Dong and Wang 2022), so everything else here only ever asks a pair for the
masses of P and Q between given losses.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import logsumexp

from ..core.errors import BadInput
from .cached import cached
from .crossing import crossing
from .laplace import laplace_position, places_of
from .noise import EPS, Array, GaussianNoise, LaplaceNoise, Noise

Parts = tuple[tuple[float, float], ...]
"""A mixture of one noise at several places: (weight, place), weights summing to 1."""
RUNGS = 513
"""Places at which the loss of a mixture is tabled before it is searched."""
WHOLE = 2.0**53
"""Beyond, doubles do not hold every integer."""
LARGE = 20.0
"""Log of an argument of sinh^-1 from which on it is a logarithm, up to e^-40."""
LOSS = 32 * EPS
"""How far off the largest loss of a pair may be: logarithms of probabilities are, however small the loss itself is."""
FEW = 60.0
"""Scale up to which the outcomes of noise on the integers are looked at one by one."""


class Pair(ABC):
    """One direction of one release."""

    @abstractmethod
    def mirrored(self) -> Pair:
        """The pair (Q, P), with its loss rising again."""

    def renyi(self, tilts: Array) -> Array | None:
        """A bound of D_{1+t}(P || Q) in closed form, where one is known."""
        return None

    @property
    def doubt(self) -> float:
        """How far off the masses may be, relatively, beyond `steps.CELL`, where the pair itself is computed."""
        return 0.0

    @property
    def leveled(self) -> bool:
        """Whether the pair is computed in several ways."""
        return False

    def level(self, delta: float) -> Pair:
        """The pair to read a delta of about this size from, where it is computed in several ways."""
        return self

    @property
    def upper(self) -> Pair:
        """The pair that upper bounds are read from; differs from `lower` only where the pair itself is computed."""
        return self

    @property
    def lower(self) -> Pair:
        return self

    @abstractmethod
    def masses(self, losses: Array) -> tuple[Array, Array]:
        """P and Q masses of (-inf, l_0], (l_0, l_1], ..., (l_n, inf) of the finite loss, for rising losses."""

    @abstractmethod
    def reach(self, log_mass: float) -> tuple[float, float]:
        """Losses outside of which P has mass at most e^log_mass on either side (infinite losses not counted)."""

    @property
    def largest(self) -> float:
        """The supremum of the finite loss."""
        return self.reach(-math.inf)[1]

    @property
    def infinite(self) -> float:
        """P(L = infinity): what no epsilon covers."""
        return 0.0

    @property
    def grid(self) -> tuple[float, float] | None:
        """(origin, step) of a lattice that holds every loss of positive mass, where there is such a lattice."""
        return None

    @property
    def scattered(self) -> tuple[Array, Array] | None:
        """Losses and P masses of the likely outcomes, where they are few and on no lattice."""
        return None


@dataclass(frozen=True)
class Location(Pair):
    r"""P = sum_j w_j g(x - c_j) against Q = sum_j v_j g(x - d_j), with all c_j >= 0 >= all d_j.

    For log-concave g the ratio rises with x, so a loss is a place. One release with sensitivity c is
    P = g(x - c), Q = g(x); Poisson sampling mixes in the place 0 (docs/proofs/accounting.md, Lemma 1).
    """

    noise: Noise
    p: Parts
    q: Parts = ((1.0, 0.0),)

    def mirrored(self) -> Location:
        p, q = (tuple((weight, -place) for weight, place in parts) for parts in (self.q, self.p))
        return Location(self.noise, p, q)

    def masses(self, losses: Array) -> tuple[Array, Array]:
        shift = max(abs(place) for _, place in (*self.p, *self.q))
        x = np.concatenate([[-np.inf], self.noise.cut(self.position(losses), shift), [np.inf]])
        return self._masses(x)

    def beyond(self, loss: float) -> tuple[float, float, float]:
        """The place of a loss, and P and Q masses beyond it."""
        shift = max(abs(place) for _, place in (*self.p, *self.q))
        x = np.append(self.noise.cut(self.position(np.array([loss])), shift), np.inf)
        p, q = self._masses(x)
        return float(x[0]), float(p[0]), float(q[0])

    def _masses(self, x: Array) -> tuple[Array, Array]:
        """P and Q masses between neighbouring places x; noise at a place that both have is looked at once."""
        places = dict.fromkeys(place for _, place in (*self.p, *self.q))
        cells = {place: self.noise.between(x[:-1] - place, x[1:] - place) for place in places}
        return _mixed(self.p, cells), _mixed(self.q, cells)

    def reach(self, log_mass: float) -> tuple[float, float]:
        tail = self.noise.lower_quantile(min(log_mass, -0.7))
        places = [place for _, place in self.p]
        low, high = self.loss(np.array([min(places) + tail, max(places) - tail]))
        return float(low), float(high)

    @property
    def largest(self) -> float:
        if not isinstance(self.noise, GaussianNoise):
            return self.reach(-math.inf)[1]
        if any(place > 0 for _, place in self.p):
            return math.inf
        still = math.fsum(weight for weight, place in self.q if place == 0)
        return -math.log(still) if still > 0 else math.inf

    @property
    def grid(self) -> tuple[float, float] | None:
        """Laplace noise has its least and largest loss with positive mass, discrete Gaussian noise all of them."""
        if not self.noise.atoms:
            return None
        if (isinstance(self.noise, GaussianNoise) or self.noise.whole) and len(self.p) + len(self.q) > 2:
            return None
        if isinstance(self.noise, GaussianNoise):
            shift = self.p[0][1] - self.q[0][1]
            return float(self.loss(np.array([self.p[0][1]]))[0]), shift / self.noise.scale**2
        low, high = self.reach(-math.inf)
        return low, high - low

    @property
    def scattered(self) -> tuple[Array, Array] | None:
        if not self.noise.whole or self.grid is not None or not self.noise.scale < FEW:
            return None
        ends = [place for _, place in (*self.p, *self.q)]
        far = math.ceil(8 * self.noise.scale)
        x = np.arange(min(ends) - far, max(ends) + far + 1)
        return self.loss(x), self._masses(np.append(x[0] - 1, x))[0]

    def renyi(self, tilts: Array) -> Array | None:
        """(1 + t) c^2/2s^2 for Gaussian noise, on the integers too, c the distance of the farthest places.

        Reference: Canonne, Kamath and Steinke 2020, Theorem 4; quasi-convexity of the divergence for mixtures.
        """
        if not isinstance(self.noise, GaussianNoise):
            return None
        apart = max(place for _, place in self.p) - min(place for _, place in self.q)
        return np.asarray((1 + tilts) * (apart / self.noise.scale) ** 2 / 2)

    def loss(self, x: Array) -> Array:
        """log dP/dQ at x."""
        return self._log_mix(self.p, x) - self._log_mix(self.q, x)

    def _log_mix(self, parts: Parts, x: Array) -> Array:
        """log sum_j w_j g(x - c_j)/g(x); near 0 by log1p so that small rates keep their digits."""
        exponents = np.array([self.noise.log_ratio(x, place) if place else np.zeros_like(x) for _, place in parts])
        if len(parts) == 1:
            return np.asarray(exponents[0])
        weights = np.array([weight for weight, _ in parts])[:, None]
        change = np.sum(weights * np.expm1(np.minimum(exponents, 500.0)), axis=0)
        near = (exponents.max(axis=0) < 500.0) & (change > -0.9)
        small = np.log1p(np.where(near, change, 0.0))
        return np.asarray(small) if near.all() else np.where(near, small, logsumexp(exponents, axis=0, b=weights))

    def position(self, losses: Array) -> Array:
        """The largest x with loss at most the given one."""
        moved = [place for _, place in (*self.p, *self.q) if place != 0]
        if len(moved) == 1 and self.q == ((1.0, 0.0),):
            return self._one_sided(self.p, losses)
        if len(moved) == 1 and self.p == ((1.0, 0.0),):
            return -self._one_sided(self.mirrored().p, -losses)
        if type(self.noise) is LaplaceNoise:
            return laplace_position(self.p, self.q, self.noise.scale, self._at_places, losses)
        if type(self.noise) is GaussianNoise and self._exchanged:
            return self._two_sided(losses)
        return self._search(losses)

    @property
    def _exchanged(self) -> bool:
        """Whether P has two places, one of them 0, and Q is P mirrored at 0."""
        still = [weight for weight, place in self.p if place == 0]
        return len(self.p) == 2 and len(still) == 1 and self.q == tuple((weight, -place) for weight, place in self.p)

    def _two_sided(self, losses: Array) -> Array:
        r"""Where (v + w e^{z - k}) / (v + w e^{-z - k}) = e^l, z = c x/s^2, k = c^2/2s^2: at z = l/2 + v,

        sinh v = (v/w) e^k sinh(l/2). Large arguments of sinh by their logarithms: nothing overflows.
        Reference: docs/proofs/rounding.md, Lemma 3.
        """
        (still, _), (moved, place) = sorted(self.p, key=lambda part: part[1])
        odds, bend = math.log(still / moved), place * place / (2 * self.noise.scale**2)
        size = np.abs(losses)
        half = np.expm1(np.minimum(size, 80.0) / 2)
        with np.errstate(divide="ignore"):
            log_y = odds + bend + size / 2 + np.log(-np.expm1(-size) / 2)
        y = still / moved * math.exp(min(bend, 600.0)) * (half + half / (1 + half)) / 2
        y = np.minimum(y, 1e9)
        near = np.log1p(y + y * y / (1 + np.sqrt(1 + y * y)))
        far = log_y + math.log(2.0)  # asinh y = log 2y + 1/4y^2 - ...
        z = size / 2 + np.where(log_y > LARGE, far, near)
        return np.asarray(np.copysign(z * (self.noise.scale**2 / place), losses))

    @cached
    def _at_places(self) -> Array:
        """The losses at the places of Laplace noise; between them the loss has a closed form."""
        return np.maximum.accumulate(self.loss(places_of(self.p, self.q, self.noise.scale)))

    def _one_sided(self, parts: Parts, losses: Array) -> Array:
        """Where sum_j w_j g(x - c_j)/g(x) has the given logarithm, for one c_j > 0: not a place of this pair's own."""
        ((weight, place),) = [(weight, place) for weight, place in parts if place > 0]
        still = math.fsum(weight for weight, place in parts if place == 0)
        if still == 0:
            return self.noise.position(losses, place)
        with np.errstate(divide="ignore", invalid="ignore"):
            near = np.log1p(np.expm1(np.minimum(losses, 30.0)) / weight)
            if still < weight:  # near the least loss, where 1 + (e^l - 1)/weight has lost its digits
                low = np.log(np.expm1(np.minimum(losses, 0.0) - math.log(still))) + math.log(still / weight)
                near = np.where(losses < max(-1.0, math.log(still) / 2), low, near)
        far = np.maximum(losses, 30.0)
        exponent = np.where(losses > 30.0, far + np.log1p((weight - 1) * np.exp(-far)) - math.log(weight), near)
        return self.noise.position(np.where(np.isnan(exponent), -np.inf, exponent), place)

    def _search(self, losses: Array) -> Array:
        """Between two places of a table, then on the integers by bisection, else by inverse interpolation."""
        places, values = self._ladder
        index = np.searchsorted(values, losses + (4 * EPS * (1 + np.abs(losses)) if self.noise.whole else 0.0), "right")
        inner = np.clip(index, 1, places.size - 1)
        if self.noise.whole:
            found = self._last_integer(losses, places[inner - 1], places[inner])
        else:
            found = crossing(self.loss, losses, (places[inner - 1], places[inner]), (values[inner - 1], values[inner]))
        return np.where(index == 0, -np.inf, np.where(index == places.size, np.inf, found))

    @cached
    def _ladder(self) -> tuple[Array, Array]:
        """Places between those beyond which nothing has mass or the loss stays as it is, and the loss there."""
        ends = [place for _, place in (*self.p, *self.q)]
        tail = 0.0 if isinstance(self.noise, LaplaceNoise) else -self.noise.lower_quantile(-740.0)
        low, high = min(ends) - tail, max(ends) + tail
        if self.noise.whole:
            if max(-low, high) >= WHOLE:
                raise BadInput("Noise that reaches beyond 2^53 cannot be searched here.", fix="Use a coarser grid.")
            places = np.unique(np.rint(np.linspace(math.floor(low), math.ceil(high), RUNGS)))
        else:
            places = np.union1d(np.linspace(low, high, RUNGS), ends)  # between places it is smooth
        return places, np.maximum.accumulate(self.loss(places))

    def _last_integer(self, losses: Array, low: Array, high: Array) -> Array:
        """The largest integer between whose loss is at most the given one, up to the rounding of a loss."""
        most = losses + 4 * EPS * (1 + np.abs(losses))
        while np.any(high - low > 1):
            middle = np.floor((low + high) / 2)
            inside = self.loss(middle) <= most
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return low


def _mixed(parts: Parts, cells: dict[float, Array]) -> Array:
    return np.asarray(np.maximum(np.sum([weight * cells[place] for weight, place in parts], axis=0), 0.0))


@dataclass(frozen=True)
class Discrete(Pair):
    """Finitely many outcomes (p, q); q = 0 is an outcome that tells all.

    `told` is what tells all under P and under Q, exactly, for numbers as they are written: 0.01 times 1e-5 is 1e-7.
    """

    atoms: tuple[tuple[float, float], ...]
    lattice: tuple[float, float] | None = None
    told: tuple[Fraction, Fraction] | None = None

    def mirrored(self) -> Discrete:
        lattice = None if self.lattice is None else (-self.lattice[0], self.lattice[1])
        told = None if self.told is None else (self.told[1], self.told[0])
        return Discrete(tuple((q, p) for p, q in self.atoms), lattice, told)

    @property
    def infinite(self) -> float:
        return math.fsum(p for p, q in self.atoms if q == 0)

    @property
    def grid(self) -> tuple[float, float] | None:
        finite = self.losses()
        if self.lattice is None and len(finite) == 2:
            return finite[0][0], finite[1][0] - finite[0][0]
        return self.lattice

    @property
    def scattered(self) -> tuple[Array, Array] | None:
        finite = self.losses()
        if self.grid is not None or not finite:
            return None
        return np.array([loss for loss, _, _ in finite]), np.array([p for _, p, _ in finite])

    def losses(self) -> list[tuple[float, float, float]]:
        """(loss, p, q) of the outcomes both sides can have."""
        return sorted((math.log(p) - math.log(q), p, q) for p, q in self.atoms if p > 0 and q > 0)

    def masses(self, losses: Array) -> tuple[Array, Array]:
        p_mass, q_mass = np.zeros(losses.size + 1), np.zeros(losses.size + 1)
        for loss, p, q in self.losses():
            cell = int(np.searchsorted(losses, loss - 4e-15 * (1.0 + abs(loss)), side="left"))
            p_mass[cell] += p
            q_mass[cell] += q
        return p_mass, q_mass

    def reach(self, log_mass: float) -> tuple[float, float]:
        finite = [loss for loss, _, _ in self.losses()] or [0.0]
        return min(finite), max(finite)
