"""What an audit would have caught, and what gave a refuted claim away."""

import numpy as np
import pytest
from scipy import stats

from preprocessing_fits import CLAIM, largest, prepared, public, table
from tacit.audits import ClopperPearson, ExactCurve, audit, audit_mechanism, stated, verify
from tacit.audits.panel import of_release
from tacit.audits.planting import ONE_SEED, PREPROCESSING, planted
from tacit.audits.power import Power
from tacit.core import Adjacency, BadInput, Counts, Estimate, Evidence, Verdict
from tacit.core.events import Gaussian
from tacit.core.fault import FAULTS, Fault, chance_words, panel_words

ADD = Adjacency.ADD_REMOVE


def test_power_is_that_of_the_test_by_brute_force():
    """All outcomes of 30 + 24 runs, summed."""
    claim = stated((0.5, 1e-5), delta=1e-5)
    power, p, q = Power(claim, 0.95, 30, 24), 0.9, 0.3
    use = ClopperPearson(1e-5)
    exact = sum(
        stats.binom.pmf(h, 30, p) * stats.binom.pmf(a, 24, q)
        for h in range(31)
        for a in range(25)
        if use.read(Counts(h, a, 30, 24), 0.95) > 0.5
    )
    assert power.at(p, q) == pytest.approx(exact, abs=0.03)
    assert power.at(p, q) <= exact + 1e-6  # never overstated


def test_power_agrees_with_the_frequency_of_refutations():
    claim, rng = stated(Gaussian(1.0), delta=1e-5), np.random.default_rng(0)
    power, use = Power(claim, 0.95, 100, 100), ExactCurve(Gaussian(1.0), ADD, 1e-5)
    p, q = 0.8, 0.25
    found = sum(
        use.ruled_out(1.0, Counts(int(h), int(a), 100, 100), 0.95)
        for h, a in zip(rng.binomial(100, p, 60), rng.binomial(100, q, 60), strict=True)
    )
    assert stats.binom.cdf(found, 60, power.at(p, q)) > 1e-3
    assert stats.binom.sf(found - 1, 60, min(power.at(p, q) + 0.05, 1.0)) > 1e-3
    chance = power.chance(Counts(40, 2, 50, 50), "")
    assert 0 <= chance.lower <= chance.value <= chance.upper <= 1


def test_faults_are_planted_as_they_are_called():
    x, y = table(30)
    seen = []

    def fit(x, y, rng):
        seen.append((np.abs(x).max(), rng.random(), np.random.random()))
        return lambda q: np.stack([q[:, 0], q[:, 0] * 0], axis=1)

    rng = np.random.default_rng(5)
    scaled = planted(fit, PREPROCESSING, x)
    model = scaled(np.concatenate((x, 10 * x[:1])), np.append(y, 0), rng)
    assert seen[-1][0] == pytest.approx(np.abs(x).max())  # whatever the data hold, they are brought to the public size
    assert np.abs(model(x)[:, 0]).max() < np.abs(x[:, 0]).max()
    np.testing.assert_allclose(scaled(x, y, rng)(x)[:, 0], x[:, 0])
    fixed = planted(fit, ONE_SEED, x)
    fixed(x, y, rng)
    fixed(x, y, rng)
    assert seen[-1][1:] == seen[-2][1:]
    assert planted(fit, "no noise", x) is None
    assert planted(fit, PREPROCESSING, np.array([["a"]])) is None


def test_a_consistent_verdict_says_what_it_could_have_seen():
    evidence = audit(prepared(public), table(), claim=CLAIM, runs=500, rng=1, isolation="none")
    assert evidence.verdict is Verdict.CONSISTENT
    assert [fault.name for fault in evidence.caught] == list(FAULTS)
    chance = {fault.name: fault.chance for fault in evidence.caught}
    assert chance["no noise"] is None
    assert chance[PREPROCESSING].lower > 0.9
    assert chance[ONE_SEED].lower > 0.9
    assert "would probably have refuted: preprocessing read off the data, one seed for all runs" in evidence.sentence
    assert "For 7 other usual faults the chance is not known." in evidence.sentence
    again = Evidence.from_json(evidence.to_json())
    assert again.caught == evidence.caught
    assert again.sentence == evidence.sentence
    assert verify(evidence).ok


def test_a_game_that_sees_nothing_says_so():
    """A canary like any other record shows no preprocessing."""
    evidence = audit(prepared(public), table(), claim=CLAIM, canary="mislabelled", runs=500, rng=1, isolation="none")
    chance = {fault.name: fault.chance for fault in evidence.caught}[PREPROCESSING]
    assert chance.value < 0.5
    assert "refuted: preprocessing read off the data" not in evidence.sentence
    assert "preprocessing read off the data" in evidence.sentence


def told(lower, value, upper):
    return Fault("no clipping", Estimate(value, lower, upper, 0.95, 300, "planted"))


@pytest.mark.parametrize(
    ("fault", "said", "row"),
    [
        (told(0.8, 0.9, 1.0), "would probably have refuted: no clipping.", "chance 90 % (80 to 100 %)"),
        (told(0.0, 0.01, 0.2), "would probably have missed: no clipping.", "chance 1 % (0 to 20 %)"),
        (told(0.786, 1.0, 1.0), "may have missed: no clipping (refuted with a chance of 78 to 100 %).", "79 to 100 %"),
        (
            told(5e-17, 0.98, 1.0),
            "gives no clear answer, with the few runs that were planted, on: no clipping.",
            "not known well: the chance is anything from 0 to 100 %",
        ),
        (told(1.0, 1.0, 1.0), "would probably have refuted: no clipping.", "chance 100 %"),
    ],
)
def test_a_wide_interval_is_said_in_words(fault, said, row):
    """The middle of an interval from 0 to 100 % is no number to be read."""
    assert panel_words((fault,)) == f"This audit {said}"
    assert row in chance_words(fault)
    assert "98" not in chance_words(fault) + panel_words((fault,))


def test_few_runs_know_nothing():
    evidence = audit(prepared(public), table(), claim=(2.0, 1e-5), runs=120, rng=1, isolation="none")
    assert all(fault.chance is None for fault in evidence.caught)
    assert "is not known" in panel_words(evidence.caught)
    assert panel_words(()) == ""


def grid(data, rng):
    """Noise on a grid: a discretised Gaussian with deviation 1.5, so finely that its curve is the Gaussian's."""
    return np.round((data + 1.5 * rng.normal()) * 64) / 64


def weaker(data, rng):
    """The same with noise three times too small."""
    return np.round((data + 0.5 * rng.normal()) * 64) / 64


def test_a_mechanism_with_additive_noise_knows_its_power():
    evidence = audit_mechanism(grid, (1.0, 0.0), claim=Gaussian(1.5), runs=4000, rng=1)
    chance = {fault.name: fault.chance for fault in evidence.caught}
    assert chance["no noise"].lower > 0.99
    assert chance["noise 2 times too small"].value < chance["noise 3 times too small"].value
    assert chance["no clipping"] is None
    weak = [audit_mechanism(weaker, (1.0, 0.0), claim=Gaussian(1.5), runs=4000, rng=seed) for seed in range(3)]
    found = sum(one.verdict is Verdict.REFUTED for one in weak)
    assert stats.binom.cdf(found, 3, chance["noise 3 times too small"].lower) > 1e-3
    assert all(
        fault.chance is None for fault in of_release(stated((1.0, 1e-5), delta=1e-5), evidence.demonstrations[0])
    )


@pytest.mark.parametrize(
    ("release", "words"),
    [
        (lambda data, rng: data + rng.laplace(), "noise was added in floating point"),
        (lambda data, rng: data, "noise is missing"),
    ],
)
def test_a_refuted_mechanism_says_why(release, words):
    evidence = audit_mechanism(release, (1.0, 0.0), claim=(0.5, 1e-5), runs=4000, rng=1)
    assert evidence.verdict is Verdict.REFUTED
    assert words in evidence.reason
    assert words in evidence.sentence
    assert "What would be right" in evidence.reason
    assert evidence.caught == ()


def test_a_refuted_training_says_why():
    evidence = audit(prepared(largest), table(), claim=CLAIM, runs=300, rng=1, isolation="none")
    assert "extreme values changed what the model says of" in evidence.reason
    assert "public ranges" in evidence.reason
    plain = audit(prepared(public), table(), claim=(0.01, 1e-5), canary="blank", runs=300, rng=1, isolation="none")
    assert plain.verdict is not Verdict.REFUTED or "too little noise" in plain.reason
    assert Evidence("nothing").reason == ""


def test_a_chance_lies_in_its_interval():
    with pytest.raises(BadInput, match="interval"):
        Fault("no noise", Estimate(0.9, 0.95, 1.0, 0.95, 10))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_a_chance_near_1_lies_in_its_interval(epsilon):
    """Both limits are sums near 1, and the upper one may be rounded to less than the lower."""
    power = Power(stated((epsilon, 1e-5), delta=1e-5), 0.95, 100, 100)
    for hits, alarms in ((100, 0), (100, 1), (99, 0), (99, 1)):
        found = power.chance(Counts(hits, alarms, 100, 100), "planted")
        assert found.lower <= found.value <= found.upper
