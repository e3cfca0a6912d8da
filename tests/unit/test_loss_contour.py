"""The parts of the contour: each bound against what it bounds, and bounds that are a little too small are noticed."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.core.events import Gaussian, Poisson, Repeat
from tacit.loss import decay, privacy_loss, quadrature, rough
from tacit.loss.contour import contour
from tacit.loss.decay import Layers
from tacit.loss.mixture import Mixture
from tacit.loss.quadrature import Nodes
from tacit.loss.tilted import Sum, best_tilt, chernoff, one_conversion

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "accounting.json").read_text(encoding="utf-8"))
CASES = {
    "many steps": (1.1, 256 / 60_000, 14_062, 1e-5),
    "little noise": (0.6, 0.01, 5000, 1e-5),
    "large rate": (9.4, 0.33, 2000, 1e-5),
    "few steps": (2.0, 0.05, 20, 1e-8),
    "small delta": (3.2, 0.002, 100_000, 1e-19),
}
WAYS = [("add-remove", 0), ("add-remove", 1), ("replace", 0)]


def direction(noise, rate, steps, adjacency="add-remove", way=0):
    return privacy_loss(Repeat(Poisson(rate, Gaussian(noise)), steps), adjacency)._directions[way].reader.saddle


def placed(case, adjacency="add-remove", way=0):
    """The composition, tilted for its own epsilon, and that epsilon."""
    *setting, delta = case
    saddle = direction(*setting, adjacency, way)
    total = Sum.of(saddle.pairs, saddle.gaussian, math.log(delta))
    epsilon = saddle.epsilon(delta).upper
    return total, total.at(best_tilt(total, chernoff(epsilon), 10.0)), epsilon


def moment(nodes, line, u):
    """M(t + iu)/M(t) as these nodes have it."""
    return np.array([np.sum(np.exp(nodes.base + line.tilt * nodes.loss - line.log_m + 1j * v * nodes.loss)) for v in u])


def split(nodes, pieces):
    """The same places on panels that are so many times finer."""
    left, right = nodes.edges[:-1], nodes.edges[1:]
    edges = np.concatenate([left + (right - left) * k / pieces for k in range(pieces)] + [nodes.edges[-1:]])
    return Nodes.of(nodes.pair, np.sort(edges))


def mixed(parts, z, scale):
    """log of the ratio to N(0, s^2) at complex places."""
    return np.log(sum(weight * np.exp(place * (z - place / 2) / scale**2) for weight, place in parts))


def suprema(line, u, ellipse):
    """log of the sum over panels of H sup |f|/M(t), over points all around the ellipses."""
    n, s = line.nodes, line.nodes.pair.noise.scale
    middle, half = (n.edges[1:] + n.edges[:-1]) / 2, (n.edges[1:] - n.edges[:-1]) / 2
    around = np.linspace(0, 2 * np.pi, 240)
    z = middle[:, None] + half[:, None] * (ellipse[0] * np.cos(around) + 1j * ellipse[1] * np.sin(around))
    power = line.tilt + 1j * u
    logs = (1 + power) * mixed(n.pair.p, z, s) - power * mixed(n.pair.q, z, s) - z * z / (2 * s * s)
    most = logs.real.max(axis=1) - line.log_m - math.log(s * math.sqrt(2 * math.pi))
    return np.logaddexp.reduce(most + np.log(half))


def excesses(case, adjacency, way, times=1):
    """How far the suprema are above what the quick bound takes them for, for rising frequencies."""
    _, tilted, _ = placed(case, adjacency, way)
    line = tilted.parts[0][0].nodes.line(times * tilted.tilt)
    s, turn = line.nodes.pair.noise.scale, line.nodes.turn
    ellipse = quadrature.WIDE if quadrature.WIDE[1] * line.nodes.half <= turn * s**2 else quadrature.NARROW
    u = np.array([0.0, 0.5, 2.0, 8.0]) / tilted.spread
    assumed = line.quick_error((), u) - ellipse[2] + math.log(3 / quadrature.SHARES[0])
    return np.array([suprema(line, v, ellipse) for v in u]) - assumed


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_integrands_are_bounded_around_all_panels(case, way):
    found = excesses(case, *way)
    assert found.max() <= 0
    assert found[0] >= -7
    assert excesses(case, *way, times=20).max() <= 0


RARE = 3.0, 2e-4, 1000, 1e-12


def steep(grown=True):
    """How far f on the axis goes above its last node's bound where the tilt is so large that it rises beyond it."""
    _, tilted, _ = placed(RARE)
    line = tilted.parts[0][0].nodes.line(120 * tilted.tilt)
    nodes, s = line.nodes, line.nodes.pair.noise.scale
    reach = (quadrature.WIDE[0] - 0.98) * nodes.half / s**2
    most = float(nodes.p.mean[-1]) * (math.exp(reach * nodes.p.largest) if grown else 1.0)
    x = nodes.x[-1] + np.linspace(0, reach * s**2, 200)
    logs = (1 + line.tilt) * mixed(nodes.pair.p, x, s) - x * x / (2 * s * s)
    return logs.max() - logs[0] - reach * max((1 + line.tilt) * most - nodes.x[-1], 0.0)


def test_integrands_rise_beyond_the_last_node_no_faster_than_assumed():
    assert steep() <= 0
    assert steep(grown=False) > 0
    assert excesses(RARE, "add-remove", 0, times=20).max() <= 0


def test_rare_records_need_no_ellipses(monkeypatch):
    """Their moments are shown by the nodes alone, far from the places at which a record is likely to take part."""
    monkeypatch.setattr(quadrature.Nodes, "log_error", None)
    assert privacy_loss(Repeat(Poisson(1.5e-4, Gaussian(7.8)), 4000), "add-remove").epsilon(1e-12).gap < 1e-6


def test_coarse_sums_leave_out_no_more_than_they_say():
    for case in CASES.values():
        total, tilted, epsilon = placed(case, "add-remove", 1)
        top, beyond = tilted.coarse_range
        u = top + np.arange(1, 4000) * (0.5 / tilted.spread)
        line, count = tilted.parts[0]
        phi = np.abs(moment(line.nodes, line, u)) ** count
        tail = np.sum(phi / np.abs((line.tilt + 1j * u) * (1 + line.tilt + 1j * u))) * (0.5 / tilted.spread) / math.pi
        assert tail <= beyond
        coarse = contour(total, tilted, math.log(case[-1]), epsilon, coarse=True)
        sharp = contour(total, tilted, math.log(case[-1]), epsilon)
        assert coarse.delta(epsilon)[1] >= sharp.delta(epsilon)[0]


@pytest.mark.parametrize("case", ["many steps", "large rate", "small delta"])
def test_the_best_tilt_lies_between_those_tried(case):
    total, _, epsilon = placed(CASES[case])
    bound = chernoff(epsilon)
    tilts = np.append(np.geomspace(1, 100, 501), best_tilt(total, bound, 10.0))
    values = bound(tilts, total.log_moments(tilts))
    assert values[-1] <= values.min() + 0.005


def test_smaller_angles_would_be_noticed(monkeypatch):
    arc = Mixture.arc
    monkeypatch.setattr(Mixture, "arc", lambda *given: 0.3 * arc(*given))
    assert max(excesses(case, *way).max() for case in CASES.values() for way in WAYS) > 0


def test_smaller_dips_would_be_noticed(monkeypatch):
    sag = Mixture.sag
    monkeypatch.setattr(Mixture, "sag", lambda *given: 0.3 * sag(*given))
    assert max(excesses(case, *way, times=20).max() for case in CASES.values() for way in WAYS[1:]) > 0


def test_panels_are_as_good_as_they_say():
    for case in CASES.values():
        _, tilted, _ = placed(case)
        line = tilted.parts[0][0]
        u = np.array([0.0, 1.0, 3.0, 6.0]) / tilted.spread
        error = np.abs(moment(line.nodes, line, u) - moment(split(line.nodes, 8), line, u))
        for bound in (line.quick_error((), u), line.log_error(np.full(4, line.tilt), u)):
            assert np.all(error <= np.exp(np.minimum(bound, 0.0)) + line.rounding(u))


def test_the_quick_bound_is_infinite_where_it_does_not_hold():
    _, tilted, _ = placed(CASES["many steps"], "add-remove", 1)
    line = tilted.parts[0][0]
    uneven = replace(line, nodes=replace(line.nodes, half=0.0))
    tilts, zero = (line.tilt, 2 * line.tilt), np.zeros(1)
    assert np.isinf(uneven.quick_error(tilts, zero)).all()
    assert np.isfinite(line.quick_error(tilts, zero)).tolist() == [True, False, True]


def test_bounds_of_the_sine_hold_at_every_place():
    y = np.linspace(1e-6, 60.0, 300_001)
    truth = np.maximum.accumulate(np.abs(np.sin(y) / y)[::-1])[::-1]
    bound = np.exp(Layers(np.array([1.0]), np.array([2.0])).log_bound(y))
    assert np.all(bound >= truth * (1 - 1e-12))
    assert np.all(bound <= truth + 0.06)
    assert np.all(np.diff(bound) <= 1e-15)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_decay_is_bounded(case, way):
    _, tilted, _ = placed(case, *way)
    line = tilted.parts[0][0]
    u = np.array([0.5, 1.0, 2.0, 4.0, 8.0]) / tilted.spread
    size = np.log(np.abs(moment(split(line.nodes, 4), line, u)))
    allowance = 1e-12
    assert np.all(size <= Layers.below(line).log_bound(u) + allowance)
    assert np.all(size <= decay.shifted(line, u) + allowance)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_peak_is_above_delta(case, way):
    """No value of M off the real line is used, and delta is still bounded within a factor."""
    _, tilted, epsilon = placed(case, *way)
    log_bound = tilted.log_m - tilted.tilt * epsilon + tilted.log_peak()
    assert math.log(case[3]) < log_bound < math.log(case[3]) + 1.5
    assert tilted.log_peak() < one_conversion(tilted.tilt)


def test_a_peak_with_too_little_decay_would_be_noticed(monkeypatch):
    """If the layers were three times as wide, the peak would fall below delta."""
    _, tilted, epsilon = placed(CASES["many steps"])
    fine = tilted.log_peak()
    below = Layers.below
    monkeypatch.setattr(Layers, "below", lambda line: replace(below(line), width=3 * below(line).width))
    again = replace(tilted)
    assert again.log_peak() < fine - 0.3
    assert tilted.log_m - tilted.tilt * epsilon + again.log_peak() < math.log(CASES["many steps"][3])


def test_many_frequencies_agree_with_few():
    """Products of two turns and powers of one, within the rounding that is allowed for."""
    _, tilted, _ = placed(CASES["many steps"])
    line = tilted.parts[0][0]
    u = 0.2 / tilted.spread * np.arange(200.0)
    many = line.values(u)
    few = line.values(u[: quadrature.FEW])
    assert np.all(np.abs(many[: quadrature.FEW] - few) <= line.rounding(u)[: quadrature.FEW])
    naive = np.exp(1j * u[:, None] * line.nodes.loss) @ line.weights
    assert np.all(np.abs(many - naive) <= line.rounding(u))


def test_the_rough_answer_is_near():
    off = []
    for case in GOLDEN[::3]:
        noise, rate, steps, delta, epsilon = case.values()
        if rate == 1 or steps == 1 or epsilon == 0:
            continue
        total = Sum.of(direction(noise, rate, steps).pairs, 0.0, math.log(delta))
        off += [abs(rough.rough(total.parts, 0.0, math.log(delta), start * epsilon) / epsilon - 1) for start in (1, 3)]
    assert len(off) >= 50
    assert np.quantile(off, 0.9) <= 0.01


def test_work_is_limited():
    total, tilted, epsilon = placed(CASES["many steps"])
    with pytest.raises(quadrature.TooMuch):
        contour(total, tilted, math.log(1e-5), epsilon, work=100)
