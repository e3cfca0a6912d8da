"""Is the noise the noise, and the sample the sample? Fixed seeds; each test errs with probability below 1e-8."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from tacit.core import source
from tacit.loss import Plan
from tacit.train import private
from tacit.train.clip.rounding import ROUNDING
from tacit.train.noise.gaussian import on_processor as normal
from tacit.train.noise.keys import Keystream, Secret
from tacit.train.noise.release import Release
from tacit.train.sample.draw import poisson

ERROR = 1e-9
COUNT = 200_000


def looks_normal(values: np.ndarray, scale: float) -> bool:
    """Mean, variance, tails, shape and independence of neighbours, each at level ERROR."""
    z = values / scale
    n = len(z)
    mean = abs(z.mean()) * math.sqrt(n) < stats.norm.isf(ERROR / 2)
    variance = stats.chi2.ppf(ERROR / 2, n) < np.square(z).sum() < stats.chi2.isf(ERROR / 2, n)
    tail = stats.binom.ppf(ERROR, n, 0.0027) <= (np.abs(z) > 3).sum() <= stats.binom.isf(ERROR, n, 0.0027)
    shape = stats.kstest(z, "norm").pvalue > ERROR
    pairs = abs((z[1:] * z[:-1]).sum()) / math.sqrt(n - 1) < stats.norm.isf(ERROR / 2)
    return bool(mean and variance and tail and shape and pairs)


def released(noise_multiplier: float, clip_norm: float) -> np.ndarray:
    """What one step adds to the parameters of a model that no example moves, undone to the sum's scale."""
    model = nn.Linear(COUNT // 2, 2, bias=False)
    nn.init.zeros_(model.weight)
    plan = Plan(10, 1e-12, 1, noise_multiplier, clip_norm=clip_norm)
    step = private(model, torch.optim.SGD(model.parameters(), lr=1.0), plan, rng=11)
    step(next(step.batches((torch.zeros(10, COUNT // 2), torch.zeros(10, dtype=torch.long)))))
    return (-model.weight.detach().double().numpy() * plan.expected_batch).ravel()


SCALE = 1.5 * 0.4 * (1 + ROUNDING["float32"])


def test_a_step_adds_noise_multiplier_times_clip_norm() -> None:
    values = released(1.5, 0.4)
    assert looks_normal(values, SCALE)


@pytest.mark.parametrize("mutant", [0.9, 1.1, 0.98, 1.02])
def test_the_wrong_scale_is_caught(mutant: float) -> None:
    assert not looks_normal(released(1.5 * mutant, 0.4), SCALE)


@pytest.mark.parametrize("bands", [1, 2])
@pytest.mark.parametrize(("precision", "room"), [("float32", 1 + 2**-12 + 2**-6), ("bfloat16", 1 + 2**-7 + 2**-6)])
def test_all_parameters_share_one_stream_and_make_room_for_rounding(bands: int, precision: str, room: float) -> None:
    """Number by number: no piece of the noise is used twice, and each is z C (1 + r) / (expected batch) long."""
    plan = Plan(20, 0.25, 8, 1.5, clip_norm=3.0, adjacency="replace", sampling="cyclic", bands=bands)
    shapes = [(3, 5), (), (0, 2), (70_001,), (1, 65_521), (2,)]
    torch.manual_seed(0)
    parameters = {str(place): nn.Parameter(torch.zeros(shape)) for place, shape in enumerate(shapes)}
    sums = [torch.randn(shape) for shape in shapes]
    whole = torch.cat([part.flatten() for part in sums])
    for total, part in ((sums, whole), ([], torch.zeros_like(whole))):
        release, key = Release(plan, parameters, precision, "float32"), bytes(range(32))
        release([one.clone() for one in total], release.noise(key, 0.7), key, 0.7)
        found = torch.cat([tensor.grad.flatten() for tensor in parameters.values()])
        expected = (part.double() + 1.5 * 0.7 * room * normal(key, len(whole)).double()) / 5
        torch.testing.assert_close(found.double(), expected, rtol=2e-6, atol=1e-7)


def test_the_stream_is_normal_and_its_mutants_are_not() -> None:
    values = normal(bytes(range(32)), COUNT).double().numpy()
    assert looks_normal(values, 1.0)
    assert not looks_normal(np.tile(values[: COUNT // 2], 2)[:COUNT].clip(-3, 3), 1.0)
    assert not looks_normal(np.sort(values), 1.0)


def test_halves_of_a_pair_are_independent() -> None:
    values = normal(bytes(range(32)), COUNT).double().numpy()
    first, second = values[: COUNT // 2], values[COUNT // 2 :]
    limit = stats.norm.isf(ERROR / 2)
    for a, b in ((first, second), (first**2 - 1, second**2 - 1)):
        assert abs((a * b).mean()) * math.sqrt(len(a)) / (a.std() * b.std()) < limit


def test_the_radius_comes_from_53_bits() -> None:
    """32-bit uniforms cannot pass sqrt(2 ln 2^33) = 6.76; the smallest of ours gives 8.6 (soundness rule 11)."""
    smallest = 0.5 * 2.0**-53
    assert math.sqrt(-2 * math.log(smallest)) > 8.6
    words = torch.tensor([0, -1, 1 << 11], dtype=torch.int64)
    uniform = ((words >> 11) & (2**53 - 1)).double().add(0.5).mul(2.0**-53)
    assert uniform.tolist() == [smallest, 1 - 2.0**-54, 1.5 * 2.0**-53]


def test_odd_lengths_and_keys() -> None:
    key = bytes(32)
    assert normal(key, 1).shape == (1,)
    assert normal(key, 0).shape == (0,)
    assert torch.equal(normal(key, 7), normal(key, 7))
    assert not torch.equal(normal(key, 7), normal(bytes(31) + b"\x01", 7))
    assert normal(key, 5).dtype == torch.float32


def test_keys_do_not_collide_between_purposes() -> None:
    secret = Secret.of(source(0))
    assert secret.key(b"ab", b"c") != secret.key(b"a", b"bc")
    before = secret.key(b"noise")
    secret.advance()
    assert secret.key(b"noise") != before


@pytest.mark.parametrize(("count", "rate"), [(500, 0.02), (50, 0.5), (3, 0.9), (2000, 0.001)])
def test_every_record_is_taken_at_the_rate(count: int, rate: float) -> None:
    stream = Keystream(bytes(32))
    runs = 2000
    taken = np.zeros(count, dtype=np.int64)
    together = 0
    for _ in range(runs):
        index = poisson(count, rate, stream)
        assert (np.diff(index) > 0).all()
        taken[index] += 1
        together += int(len(index) > 1 and index[0] == 0 and index[1] == 1)
    level = 1e-9 / count
    assert (taken >= stats.binom.ppf(level, runs, rate)).all()
    assert (taken <= stats.binom.isf(level, runs, rate)).all()
    total = int(taken.sum())
    assert stats.binom.ppf(1e-10, runs * count, rate) <= total <= stats.binom.isf(1e-10, runs * count, rate)
    assert together <= stats.binom.isf(1e-10, runs, rate**2)


@pytest.mark.parametrize("mutant", [0.9, 1.1])
def test_a_wrong_rate_is_caught(mutant: float) -> None:
    stream = Keystream(bytes(32))
    runs, count, rate = 2000, 500, 0.02
    total = sum(len(poisson(count, rate * mutant, stream)) for _ in range(runs))
    assert not stats.binom.ppf(1e-10, runs * count, rate) <= total <= stats.binom.isf(1e-10, runs * count, rate)


def test_rates_at_the_ends() -> None:
    stream = Keystream(bytes(32))
    assert poisson(5, 1.0, stream).tolist() == [0, 1, 2, 3, 4]
    assert poisson(5, 0.0, stream).size == 0
    assert poisson(0, 0.5, stream).size == 0
