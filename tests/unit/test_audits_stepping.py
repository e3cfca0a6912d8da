"""The game of updates on somebody's training: a generator that shows its models and takes the data of its next step."""

import numpy as np
import pytest

from tacit import BadInput, NotFinished, audit, verify
from tacit.audits.stepping import Handed, View
from tacit.core.events import Gaussian, Poisson, Repeat
from tacit.reports import report

STEPS = 50
X, Y = np.zeros((4, 2)), np.arange(4) % 2
CLAIM = Repeat(Gaussian(2.0), STEPS)
PLAY = {"claim": CLAIM, "game": "updates", "canary": "unseen", "isolation": "none", "rng": 1}


def model(weight):
    """Knows one number, its logit of the first class, which the blank records' rarest label (0) moves."""
    return lambda x: np.stack((np.full(len(x), weight), np.zeros(len(x))), axis=1)


def training(noise=2.0, rate=1.0, steps=STEPS):
    """The exact mechanism: a canary moves the number by 1, noise by its own."""

    def fit(x, y, rng):
        weight = 0.0
        for _ in range(steps):
            x, _ = yield model(weight)
            weight += (len(x) > 4 and rng.random() < rate) + noise * rng.normal()
        yield model(weight)

    return fit


@pytest.mark.parametrize(("noise", "verdict"), [(2.0, "consistent"), (1.0, "refuted")])
def test_the_right_noise_stands_and_half_of_it_falls(noise, verdict):
    found = audit(training(noise), (X, Y), runs=20, **PLAY)
    (shown,) = found.demonstrations
    assert found.verdict == verdict
    assert (shown.game, shown.planned, shown.failed) == ("updates", 20, 0)
    assert shown.counts.n_in + shown.counts.n_out == pytest.approx(0.8 * 20 * STEPS, abs=2)
    assert found.provenance["steps_per_run"] == STEPS
    assert not any("alike in every run" in text for text in shown.bound.assumptions)
    assert verify(found).ok


def test_a_few_runs_come_near_the_truth():
    found = audit(training(), (X, Y), runs=60, **PLAY)
    assert 0.6 * found.upper.epsilon < found.lower.bound.epsilon <= found.upper.epsilon


def test_an_amplified_claim_is_a_claim_about_every_step():
    claim = Repeat(Poisson(0.5, Gaussian(1.0)), STEPS)
    right = audit(training(1.0, 0.5), (X, Y), runs=20, **{**PLAY, "claim": claim})
    wrong = audit(training(1.0, 1.0), (X, Y), runs=20, **{**PLAY, "claim": claim})
    assert (right.verdict, wrong.verdict) == ("consistent", "refuted")


def test_noise_that_comes_back_is_seen_in_the_steps_before():
    """Drawn once per run: each step looks noisy enough, but the mean of those before takes it off."""

    def reused(x, y, rng):
        weight, drawn = 0.0, 2.0 * rng.normal()
        for _ in range(STEPS):
            x, _ = yield model(weight)
            weight += (len(x) > 4) + drawn + 0.5 * rng.normal()
        yield model(weight)

    assert audit(reused, (X, Y), runs=10, **PLAY).verdict == "refuted"


def plain(x, y, rng):
    return model(0.0)


def deaf(x, y, rng):
    for _ in range(STEPS + 1):
        yield model(rng.normal())


def shy(x, y, rng):
    for _ in range(STEPS):
        _ = (yield model(rng.normal()))[0]


def raising(x, y, rng):
    yield model(0.0)
    raise KeyError("a value of the data")


@pytest.mark.parametrize(
    ("fit", "said"),
    [
        (plain, "is not a generator that yields the model"),
        (deaf, "did not take the data of its next step"),
        (shy, "did not yield the model after its last one"),
        (training(steps=STEPS - 1), "made fewer steps than the claim counts"),
        (training(steps=STEPS + 1), "made more steps than the claim counts"),
        (raising, "raised KeyError"),
    ],
)
def test_what_does_not_keep_the_contract_is_said_in_one_sentence(fit, said):
    with pytest.raises(NotFinished, match=said) as error:
        audit(fit, (X, Y), runs=4, **PLAY)
    assert "a value of the data" not in str(error.value)


def test_a_pair_has_no_steps():
    with pytest.raises(BadInput, match="repeated step by step"):
        audit(training(), (X, Y), runs=4, **{**PLAY, "claim": (4.0, 1e-5)})


def test_failed_runs_count_against_refutation():
    """Without noise every step tells; when a fifth of the runs fail, what is left shows less."""

    def fails(x, y, rng):
        if rng.random() < 0.2:
            raise ValueError
        yield from training(0.5)(x, y, rng)

    sure, doubtful = (audit(fit, (X, Y), runs=30, **PLAY) for fit in (training(0.5), fails))
    assert doubtful.demonstrations[0].failed == doubtful.provenance["runs_failed"] > 0
    assert doubtful.lower.bound.epsilon < sure.lower.bound.epsilon


def test_a_fit_that_breaks_after_the_rehearsal_is_one_sentence():
    calls = []

    def breaks(x, y, rng):
        calls.append(1)
        if len(calls) > 8:
            raise ValueError
        yield from training()(x, y, rng)

    with pytest.raises(NotFinished, match="raised ValueError in 10 runs"):
        audit(breaks, (X, Y), runs=10, **PLAY)


def test_it_goes_on_after_an_interruption(tmp_path):
    class Stop(BaseException):
        pass

    calls = []

    def fit(x, y, rng):
        calls.append(1)
        if len(calls) == 12:
            raise Stop
        return (yield from training()(x, y, rng))

    asked = {**PLAY, "checkpoint": tmp_path / "journal"}
    with pytest.raises(Stop):
        audit(fit, (X, Y), runs=10, **asked)
    assert (tmp_path / "journal").exists()
    found = audit(fit, (X, Y), runs=10, **asked)
    assert found.demonstrations == audit(fit, (X, Y), runs=10, **PLAY).demonstrations
    assert not (tmp_path / "journal").exists()


def test_taking_data_by_place_is_taking_it():
    handed = Handed(X, Y)
    assert not handed.taken
    assert handed[0] is X
    assert handed.taken


def test_views_are_functions_of_the_steps_so_far():
    """Changing a later step must not change an earlier score: the proof asks for it."""
    rng = np.random.default_rng(0)
    changes, coins = rng.normal(size=(4, 30, 3)), rng.random((4, 30)) < 0.5
    later = changes.copy()
    later[:, 20:] += 5.0
    for behind in (False, True):
        view = View(np.zeros((30, 3)), np.array([0.5, -0.2]), np.ones(30), behind)
        assert np.array_equal(view(changes)[:, :20], view(later)[:, :20])
    assert View.fitted(changes, coins)[0].spread.shape == (30,)


def test_what_moves_every_record_is_taken_off():
    """The batch of the others moves all margins; a canary that is hidden in it is seen beside them."""
    rng = np.random.default_rng(1)
    common, coins = rng.normal(size=(20, 60)) * 30, rng.random((20, 60)) < 0.5
    own = rng.normal(size=(20, 60)) + coins
    changes = np.stack((common + own, common, -2 * common), axis=2)
    view, quality = View.fitted(changes[:8], coins[:8])
    assert quality > 0.7
    assert np.corrcoef(view(changes[8:]).ravel(), own[8:].ravel())[0, 1] > 0.95


def test_the_page_counts_steps(tmp_path):
    page = report(audit(training(), (X, Y), runs=8, **PLAY), tmp_path / "page.html")
    text = page.path.read_text()
    assert "of steps" in text
    assert "the model after every step" in text
