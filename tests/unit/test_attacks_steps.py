"""Steps from the model on known records: who is seen in which copy, and that members are forgotten."""

import numpy as np
import pytest

from tacit import BadInput, attacks
from tacit.core import Observations

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tacit.attacks.internals import look_inside  # noqa: E402
from tacit.attacks.steps import with_steps  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 60)
KNOWN = np.arange(60) % 3 > 0


def observed(model, x=X, y=Y, **more):
    return look_inside(model, x, y, **more)


def linear(inside=4):
    torch.manual_seed(0)
    return nn.Linear(inside, 3)


def test_known_records_are_seen_in_the_copy_that_was_not_trained_on_them():
    """One step of a huge rate on one batch: the copy that saw a record's half is known by hand."""
    model = nn.Sequential(nn.Flatten(), linear())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = with_steps(observed(model), model, X, KNOWN, rng=3, epochs=1, batch=100, learning_rate=0.5)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    first, second = (found.internals[f"step/{k}"][:, 0, 0] for k in (0, 1))
    np.testing.assert_array_equal(first[KNOWN], second[KNOWN])
    assert (first[~KNOWN] != second[~KNOWN]).all()
    half = np.full(60, -1)
    from tacit.core import source

    half[KNOWN] = source(3).permutation(int(KNOWN.sum())) % 2
    for k in (0, 1):
        after = one_step(before, half == k)
        np.testing.assert_allclose(found.internals[f"step/{k}"][~KNOWN, 0, 0], after[~KNOWN], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(first[half == 1 - k], after[half == 1 - k], rtol=1e-4, atol=1e-5)


def one_step(state, rows, rate=0.5, decay=5e-4):
    """Margins after one step by hand: w - rate (gradient + decay w)."""
    w, b = (state[name].numpy().astype(float) for name in ("1.weight", "1.bias"))
    z = X @ w.T + b
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    error = (p - np.eye(3)[Y])[rows] / rows.sum()
    w, b = w - rate * (error.T @ X[rows] + decay * w), b - rate * (error.sum(0) + decay * b)
    return Observations.from_logits((X @ w.T + b)[:, None], Y).margin[:, 0]


def test_members_are_forgotten():
    """Labels at random are known by heart or not at all; fixed seed, area above 0.5 at confidence 0.999."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(800, 30)).astype(np.float32), rng.integers(0, 3, 800)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.as_tensor(x[:400])), torch.as_tensor(y[:400])).backward()
        optimizer.step()
    seen = look_inside(model, x, y, member=np.arange(800) < 400, record=np.arange(800))
    _, known = attacks.known_split(seen, 0)
    told = np.isin(seen.record, known.record)
    stepped = with_steps(seen, model, x, told, rng=1, epochs=20, batch=16, learning_rate=0.1)
    lost = seen.margin[:, 0] - stepped.internals["step/0"][:, 0, -1]
    assert lost[~told & (np.arange(800) < 400)].mean() > lost[~told & (np.arange(800) >= 400)].mean() + 1
    scores = attacks.white_box_gradients(*attacks.known_split(stepped, 0))
    assert scores.auc(0.999).lower > 0.5


def test_batches_are_moved_and_runs_repeat():
    moved = []

    def move(x, generator):
        moved.append(len(x))
        return x + torch.rand(len(x), 1, generator=generator)

    runs = [
        with_steps(observed(linear()), linear(), X, KNOWN, rng=0, epochs=2, batch=15, move=move).internals
        for _ in range(2)
    ]
    assert moved == [15, 5] * 8
    for k in (0, 1):
        np.testing.assert_array_equal(runs[0][f"step/{k}"], runs[1][f"step/{k}"])


def test_a_model_with_dropout_and_batch_norm_repeats_and_leaves_all_as_it_was():
    """Also the state of torch's random numbers; a last batch of one is left out, since batch norm cannot take it."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 3)).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        state = torch.get_rng_state()
        with torch.no_grad():
            runs.append(with_steps(observed(model), model, X, KNOWN, rng=0, epochs=2, batch=19).internals)
        assert torch.equal(state, torch.get_rng_state())
    for k in (0, 1):
        np.testing.assert_array_equal(runs[0][f"step/{k}"], runs[1][f"step/{k}"])
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training


@pytest.mark.parametrize(
    "change",
    [
        {"x": X[:5]},
        {"known": KNOWN[:5]},
        {"known": KNOWN.astype(int)},
        {"known": np.ones(60, bool)},
        {"known": np.arange(60) < 3},
        {"epochs": 0},
        {"batch": 0},
        {"learning_rate": 0.0},
    ],
)
def test_bad_input(change):
    given = {"x": X, "known": KNOWN, "rng": 0} | change
    with pytest.raises(BadInput):
        with_steps(observed(linear()), linear(), given.pop("x"), given.pop("known"), **given)
