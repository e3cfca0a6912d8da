"""The allowances for rounding in docs/proofs/rounding.md, each against 120-digit ball arithmetic."""

import math

import numpy as np
import pytest
from scipy import fft, special

from event_examples import KINDS, Wild
from tacit.core.adjacency import Adjacency
from tacit.core.errors import Unsupported
from tacit.core.events import Gaussian
from tacit.loss import steps, window
from tacit.loss.cells import bell
from tacit.loss.costs.registry import loss_of
from tacit.loss.noise import (
    BITS,
    EPS,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
)
from tacit.loss.pairs import Discrete, Location
from tacit.loss.steps import CELL, EDGE, lower_step, upper_step

flint = pytest.importorskip("flint")
arb = flint.arb
NOISES = (GaussianNoise, LaplaceNoise, DiscreteGaussianNoise, DiscreteLaplaceNoise)


@pytest.fixture(autouse=True)
def digits():
    before, flint.ctx.prec = flint.ctx.prec, 400
    yield
    flint.ctx.prec = before


def off(found, truth):
    """Relative error in units of the last digit; the truth must not be subnormal."""
    return abs(float((arb(float(found)) - truth) / truth)) / EPS


def normal(x, scale):
    return (-(arb(float(x)) / arb(scale)) / arb(2).sqrt()).erfc() / 2 if math.isfinite(x) else arb(int(x > 0))


def laplace(x, scale):
    x = arb(float(x)) / arb(scale)
    return x.exp() / 2 if x < 0 else 1 - (-x).exp() / 2


def discrete_laplace(x, scale):
    r, k = (-1 / arb(scale)).exp(), arb(math.floor(x))
    return (k / arb(scale)).exp() / (1 + r) if k < 0 else 1 - (-(k + 1) / arb(scale)).exp() / (1 + r)


def mass(below, noise, a, b):
    """P(a < X <= b) from the side with the smaller tail."""
    moved = 1 if noise.whole else 0
    if a > -b:
        a, b = -b - moved, -a - moved
    return below(b, noise.scale) - below(a, noise.scale)


def places(rng, scale, far, count):
    """Ends of cells, narrow and wide, near and far: multiples of a power of two, as cuts are."""
    step = 2.0 ** (math.ceil(math.log2(41 * scale)) - BITS)
    a = rng.uniform(-far, far, count) * scale
    b = np.minimum(a + 10 ** rng.uniform(-6, 1, count) * scale, (far + 0.5) * scale)
    return np.floor(a / step) * step, np.maximum(np.floor(b / step), np.floor(a / step) + 1) * step


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "sin", "cos", "arctan"])
def test_library_functions_are_right_to_four_units(name):
    """The one assumption that is not proven: it is tested on the machine at hand."""
    rng = np.random.default_rng(1)
    x = rng.uniform(0.0, 30.0, 400) if name.startswith("log") else rng.uniform(-30.0, 30.0, 400)
    x = np.append(x, 10 ** rng.uniform(-12, 1, 200))
    exact = getattr(arb, {"arctan": "atan"}.get(name, name))
    assert max(off(found, exact(arb(float(at)))) for at, found in zip(x, getattr(np, name)(x), strict=True)) <= 4


def test_scaled_tails_are_right_to_eight_units():
    x = np.append(np.linspace(0.0, 30.0, 700), np.geomspace(1e-8, 1.0, 100))
    for at, found in zip(x, special.erfcx(x), strict=True):
        assert off(found, (arb(float(at)) ** 2).exp() * arb(float(at)).erfc()) <= 8


@pytest.mark.parametrize("scale", [0.013, 1.0, 7.3, 1234.567])
def test_cells_of_gaussian_noise_keep_their_digits(scale):
    noise, rng = GaussianNoise(scale), np.random.default_rng(2)
    a, b = places(rng, scale, 36.0, 600)
    edge, step = rng.uniform(-8.0, 8.0, 300) * scale, 2.0 ** (math.ceil(math.log2(41 * scale)) - BITS)
    near = np.floor(edge / step) * step, np.floor(edge / step) * step + step * np.floor(0.1 * scale / step / 8)
    a, b = np.append(a, near[0]), np.append(b, near[1])  # at the border of narrow and wide
    found = noise.between(np.append(a, -np.inf), np.append(b, -3.0 * scale))
    truth = [mass(normal, noise, *ends) for ends in zip(a, b, strict=True)] + [normal(-3.0 * scale, scale)]
    assert max(map(off, found, truth)) <= 370
    assert off(noise.between(np.array([1.5 * scale]), np.array([np.inf]))[0], normal(-1.5 * scale, scale)) <= 370


def test_differences_of_tails_would_lose_digits():
    """The mutant that cells were computed by before: tens of thousands of units far out."""
    a = np.array([-33.576864798417816])
    b = a + 0.0006105682825265432
    plain = special.ndtr(b) - special.ndtr(a)
    assert off(plain[0], mass(normal, GaussianNoise(1.0), float(a[0]), float(b[0]))) > 10_000


@pytest.mark.parametrize("scale", [0.3, 1.5, 13.7, 2500.5])
def test_cells_of_discrete_gaussian_noise_keep_their_digits(scale):
    noise, rng = DiscreteGaussianNoise(scale), np.random.default_rng(3)
    one = lambda k: (-(arb(int(k)) ** 2) / (2 * arb(scale) ** 2)).exp()  # noqa: E731
    whole = sum((one(k) for k in range(-90, 91)), arb(0)) if scale < 2 else arb(scale) * (2 * arb.pi()).sqrt()
    for width in (1, 3, 20):
        k = rng.integers(-int(36 * scale), int(36 * scale) + 1, 60).astype(np.float64)
        truth = [sum((one(last - j) for j in range(width)), arb(0)) / whole for last in k]
        assert max(map(off, noise.between(k - width, k), truth)) <= 200


@pytest.mark.parametrize("scale", [0.02, 0.7, 50.0, 30_000.0])
def test_cells_of_laplace_noise_keep_their_digits(scale):
    rng = np.random.default_rng(4)
    a, b = places(rng, scale, 300.0, 400)
    a[::2], b[::2] = rng.uniform(-3, 0, 200) * scale, rng.uniform(0, 3, 200) * scale
    found = LaplaceNoise(scale).between(a, b)
    truth = [mass(laplace, LaplaceNoise(scale), *ends) for ends in zip(a, b, strict=True)]
    assert max(map(off, found, truth)) <= 312
    noise, k = DiscreteLaplaceNoise(scale), np.append(np.floor(a), [-1.0, -2.0, 0.0, -1.0])
    wide = np.append(np.maximum(np.floor(b - a), 1.0), [1.0, 1.0, 1.0, 2.0])
    held = np.abs(k) / scale < 600
    truth = [mass(discrete_laplace, noise, *ends) for ends in zip(k[held], (k + wide)[held], strict=True)]
    assert max(map(off, noise.between(k, k + wide)[held], truth)) <= 312


def test_squares_in_exponents_are_exact():
    x = np.random.default_rng(5).uniform(-37, 37, 500) * 3.7
    assert (
        max(off(v, (-(arb(float(a)) ** 2) / (2 * arb(3.7) ** 2)).exp()) for a, v in zip(x, bell(x, 3.7), strict=True))
        <= 8
    )


PAIRS = [
    Location(GaussianNoise(0.4), ((1.0, 1.0),)),
    Location(GaussianNoise(40.0), ((0.999, 0.0), (0.001, 1.0))),
    Location(GaussianNoise(0.7), ((0.99, 0.0), (0.01, 1.0))),
    Location(GaussianNoise(0.7), ((0.2, 0.0), (0.8, 1.0))),
    Location(GaussianNoise(1.3), ((0.9025, 0.0), (0.095, 1.0), (0.0025, 2.0))),
    Location(GaussianNoise(0.9), ((0.98, 0.0), (0.02, 1.0)), ((0.98, 0.0), (0.02, -1.0))),
    Location(LaplaceNoise(0.8), ((0.9, 0.0), (0.1, 1.0))),
    Location(LaplaceNoise(0.05), ((1.0, 1.0),)),
    Location(DiscreteGaussianNoise(3.3), ((0.97, 0.0), (0.03, 2.0))),
    Location(DiscreteLaplaceNoise(2.2), ((0.5, 0.0), (0.5, 3.0))),
]


def loss_at(pair, x):
    """log dP/dQ at x, exactly; discrete noise has the same ratios."""
    x, scale = arb(float(x)), arb(pair.noise.scale)

    def log_density(place):
        away = x - arb(place)
        return -(away**2) / (2 * scale**2) if isinstance(pair.noise, GaussianNoise) else -abs(away) / scale

    sides = [sum((arb(w) * log_density(c).exp() for w, c in parts), arb(0)) for parts in (pair.p, pair.q)]
    return sides[0].log() - sides[1].log()


def cut_losses(pair):
    """Lattice losses, and the exact loss where their cells are cut."""
    low, high = pair.reach(-60.0)
    losses = np.linspace(low, high, 203)[1:-1]
    edge = EDGE * (1 + float(np.abs(losses).max()))
    cuts = pair.noise.cut(pair.position(losses - edge), 2.0)
    return losses, cuts, edge


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if not pair.noise.whole], ids=str)
def test_cells_are_cut_at_or_just_below_their_point(pair):
    losses, cuts, edge = cut_losses(pair)
    for loss, x in zip(losses, cuts, strict=True):
        if math.isfinite(x):
            assert -2 * edge <= float(loss_at(pair, x) - arb(float(loss))) <= 0


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.noise.whole], ids=str)
def test_integers_left_of_a_cut_are_not_above_its_point(pair):
    losses, cuts, edge = cut_losses(pair)
    for loss, x in zip(losses, cuts, strict=True):
        if math.isfinite(x):
            assert float(loss_at(pair, x) - arb(float(loss))) <= 0
            assert float(loss_at(pair, x + 1) - arb(float(loss))) >= -2 * edge


def true_u(pair, k):
    """u(K) = sup P(E) - K Q(E): from exact masses beyond the place where the loss is log K."""
    noise, log_k = pair.noise, float(k.log())
    if noise.whole:
        x = np.arange(-900, 900)
        total = arb(0)
        law = (
            (lambda z: (-(arb(int(z)) ** 2) / (2 * arb(noise.scale) ** 2)).exp())
            if isinstance(noise, GaussianNoise)
            else (lambda z: (-arb(abs(int(z))) / arb(noise.scale)).exp())
        )
        table = {int(z): law(z) for z in x}
        whole = sum(table.values(), arb(0))
        for z in x[10:-10]:
            sides = [sum((arb(w) * table[int(z - c)] for w, c in parts), arb(0)) for parts in (pair.p, pair.q)]
            if sides[0] - k * sides[1] > 0:
                total += (sides[0] - k * sides[1]) / whole
        return total
    below = normal if isinstance(noise, GaussianNoise) else laplace
    x = float(pair.position(np.array([log_k]))[0])
    if math.isinf(x):
        return arb(0) if x > 0 else 1 - k
    sides = [sum((arb(w) * below(c - x, noise.scale) for w, c in parts), arb(0)) for parts in (pair.p, pair.q)]
    return sides[0] - k * sides[1]


def lattice_u(step, k):
    """What the lattice measure says of K, exactly."""
    total = arb(step.infinite)
    for index in np.flatnonzero(step.mass):
        loss = arb(step.origin) + arb(step.width) * int(step.start + index)
        part = arb(float(step.mass[index])) * (1 - k * (-loss).exp())
        if part > 0:
            total += part
    return total


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_steps_bound_the_pair_from_both_sides(pair):
    """With `doubt` alone an upper step dominates the pair; with twice as much a lower one is dominated."""
    low, high = pair.reach(-45.0)
    width = (high - low) / 150
    above, below = upper_step(pair, width, -45.0), lower_step(pair, width, -45.0)
    for log_k in np.append(above.losses[[3, 40, 75, 110, 140]], np.linspace(low, high, 5)[1:-1]):
        k = arb(float(log_k)).exp()
        truth = true_u(pair, k)
        assert lattice_u(above, k) / (1 - arb(above.doubt)) - truth >= 0
        moved = true_u(pair, k * (-2.02 * arb(below.doubt)).exp())
        assert lattice_u(below, k) - (1 + arb(1.01 * below.doubt)) * moved <= arb(1e-60)


def test_mutant_without_room_for_masses_is_caught(monkeypatch):
    """P masses that are too small by a quarter of what Lemma 2 allows: all of P, at K near 0, is then missing."""
    pair, right = PAIRS[1], Location.masses
    monkeypatch.setattr(Location, "masses", lambda *given: (right(*given)[0] * (1 - CELL / 4), right(*given)[1]))
    step, k = upper_step(pair, 1e-4, -45.0), arb(-60).exp()
    assert lattice_u(step, k) / (1 - arb(step.doubt)) > 1 - k
    monkeypatch.setattr(steps, "CELL", 0.0)
    step = upper_step(pair, 1e-4, -45.0)
    assert lattice_u(step, k) / (1 - arb(step.doubt)) < 1 - k


def test_mutant_without_room_for_edges_is_caught(monkeypatch):
    """An outcome just above a lattice point, by less than rounding, belongs to the cell above it."""
    more = 1 / (1 + math.exp(-0.7))
    loss = math.log(more) - math.log(1 - more)
    pair = Discrete(((more, 1 - more), (1 - more, more)), (loss - 3e-15, 0.1))
    truth = arb(more) / arb(1 - more)
    k = truth * (1 - arb(1e-15))
    missing = lambda: arb(more) - k * arb(1 - more) - lattice_u(upper_step(pair, 0.1, -45.0), k)  # noqa: E731
    assert missing() < 0
    monkeypatch.setattr(steps, "EDGE", 0.0)
    monkeypatch.setattr(steps, "CELL", 0.0)
    assert missing() > 0


@pytest.mark.parametrize("size", [64, 81, 125, 960, 1000, 2025, 4096])
def test_transforms_are_as_right_as_proven(size):
    """Against the exact transform: spikes, plateaus, huge ranges; the claim is a bound of the Euclidean norm."""
    rng = np.random.default_rng(size)
    flint.ctx.prec = 120
    spike = np.zeros(size)
    spike[size // 3] = 1.0
    vectors = spike, np.exp(-rng.uniform(0, 600, size)), np.exp(-(((np.arange(size) - 20.0) / 9) ** 2))
    turns = (
        [(2 * arb.pi() * j / size).cos() for j in range(size)],
        [(2 * arb.pi() * j / size).sin() for j in range(size)],
    )
    asked = range(0, size // 2 + 1, max(size // 60, 1))
    for vector in vectors:
        found, wrong = fft.rfft(vector), 0.0
        held = np.flatnonzero(vector > 1e-40)
        for f in asked:
            real = sum((arb(float(vector[j])) * turns[0][f * j % size] for j in held), arb(0))
            imag = -sum((arb(float(vector[j])) * turns[1][f * j % size] for j in held), arb(0))
            wrong += float((arb(float(found[f].real)) - real) ** 2 + (arb(float(found[f].imag)) - imag) ** 2)
        norm = math.sqrt(size) * float(np.linalg.norm(vector))
        assert math.sqrt(wrong * size / len(asked)) <= window.transform_error(size) * norm


def test_places_of_additive_noise_have_few_digits():
    """Cuts minus places are exact only then."""
    for kind in KINDS.values():
        for seed in range(4):
            for adjacency in Adjacency:
                try:
                    found = loss_of(kind.draw(Wild(seed), Gaussian(1.3)), adjacency, 1)
                except (Unsupported, ArithmeticError, NotImplementedError):
                    continue
                for release, _ in found.releases:
                    for pair in (release.remove.upper, release.remove.lower, release.add.upper, release.add.lower):
                        if isinstance(pair, Location):
                            ends = [place for _, place in (*pair.p, *pair.q)]
                            cut = pair.noise.cut(np.array([0.4321]), max(map(abs, ends)))[0]
                            assert all(arb(float(cut - place)) == arb(float(cut)) - arb(place) for place in ends), kind


def test_the_closed_form_of_laplace_mixtures_agrees_with_the_search():
    """Groups, replaced groups and their mirror images: the loss at the place is the one asked for."""
    rng = np.random.default_rng(7)
    for _ in range(60):
        rate, size, scale = 10 ** rng.uniform(-6, -0.01), int(rng.integers(1, 6)), 10 ** rng.uniform(-2, 3)
        weights = [math.comb(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1)]
        p, q = (tuple((w, float(sign * j)) for j, w in enumerate(weights)) for sign in (1, -1))
        pair = Location(LaplaceNoise(scale), p, q if rng.random() < 0.6 or size == 1 else ((1.0, 0.0),))
        pair = pair.mirrored() if rng.random() < 0.3 else pair
        low, high = pair.reach(-math.inf)
        losses = np.linspace(low, high, 42)[1:-1]
        fast, slow = pair.position(losses), pair._search(losses)
        assert np.array_equal(np.isfinite(fast), np.isfinite(slow))
        room = 12 * EPS * (1 + float(np.abs(losses).max()))
        for x, loss in zip(fast, losses, strict=True):
            assert abs(float(loss_at(pair, x) - arb(float(loss)))) <= room


def exchanged(rng):
    rate, scale, place = 10 ** rng.uniform(-12, -1e-3), 10 ** rng.uniform(-1.5, 3), float(rng.integers(1, 4))
    sides = [((1 - rate, 0.0), (rate, sign * place)) for sign in (1, -1)]
    return Location(GaussianNoise(scale), *sides)


def largest_miss(pair, losses, places):
    """How far the loss at places is from the one asked for, in units of the last digit of 1 + the largest."""
    room = EPS * (1 + float(np.abs(losses).max()))
    return max(abs(float(loss_at(pair, x) - arb(float(loss)))) / room for x, loss in zip(places, losses, strict=True))


def test_the_closed_form_of_exchanged_records_has_the_loss_asked_for():
    """Lemma 3: replacing one sampled record, from losses of 1e-9 of the largest to the largest, both signs."""
    rng = np.random.default_rng(11)
    for _ in range(60):
        pair = exchanged(rng)
        assert pair._exchanged
        most = min(pair.reach(-40.0)[1], 600.0)
        losses = np.sort(np.append(most * np.geomspace(1e-9, 1, 12), -most * np.geomspace(1e-9, 1, 12)))
        assert largest_miss(pair, losses, pair.position(losses)) <= 100
        assert float(pair.position(np.zeros(1))[0]) == 0


def test_mutant_closed_form_is_caught(monkeypatch):
    """A closed form that leaves out the distance between the places."""
    pair = Location(GaussianNoise(0.9), ((0.98, 0.0), (0.02, 1.0)), ((0.98, 0.0), (0.02, -1.0)))
    losses = np.linspace(-2.0, 2.0, 8)
    assert largest_miss(pair, losses, pair.position(losses)) <= 100
    monkeypatch.setattr(math, "exp", lambda x: 1.0)
    assert largest_miss(pair, losses, pair.position(losses)) > 1e6


def test_other_pairs_have_no_such_closed_form():
    """Another weight, another distance, three places, and integers are searched for."""
    sides = ((0.98, 0.0), (0.02, 1.0)), ((0.98, 0.0), (0.02, -1.0))
    others = [
        Location(GaussianNoise(0.9), sides[0], ((0.97, 0.0), (0.03, -1.0))),
        Location(GaussianNoise(0.9), sides[0], ((0.98, 0.0), (0.02, -2.0))),
        Location(GaussianNoise(0.9), ((0.5, 0.0), (0.3, 1.0), (0.2, 2.0)), ((0.5, 0.0), (0.3, -1.0), (0.2, -2.0))),
        Location(GaussianNoise(0.9), ((0.3, 1.0), (0.7, 2.0)), ((0.3, -1.0), (0.7, -2.0))),
    ]
    losses = np.linspace(-1.5, 1.5, 10)
    for pair in others:
        assert not pair._exchanged
        assert np.array_equal(pair.position(losses), pair._search(losses))
    whole = Location(DiscreteGaussianNoise(3.0), *sides)
    assert np.array_equal(whole.position(losses), whole._search(losses))
