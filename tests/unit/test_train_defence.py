"""Defences as training objectives: each does what its formula says, and bad input is refused."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tacit import BadInput
from tacit.train.recipe.defence import (
    AdversarialRegularisation,
    EarlyStopping,
    LabelSmoothing,
    Mixup,
    Plain,
    _Attacker,
    defend,
)

RNG = np.random.default_rng(0)
X = torch.as_tensor(RNG.normal(size=(60, 5)), dtype=torch.float32)
Y = torch.as_tensor(RNG.integers(0, 3, 60))
OTHERS = torch.as_tensor(RNG.normal(size=(40, 5)), dtype=torch.float32), torch.as_tensor(RNG.integers(0, 3, 40))
ALL = [Plain(), LabelSmoothing(), Mixup(), EarlyStopping(), AdversarialRegularisation()]


def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))


def trained(defence, rng=0, epochs=3, **more):
    return defend(model(), (X, Y), defence, epochs=epochs, batch_size=20, reference=OTHERS, rng=rng, **more)


def fast(parameters):
    return torch.optim.Adam(parameters, lr=0.02)


def test_plain_is_an_ordinary_loop():
    ours = trained(Plain(), epochs=2, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    theirs, chance = model(), np.random.default_rng(0)
    from tacit.core import source

    chance = source(0).generator()
    chance.integers(2**62)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for _ in range(2):
        for rows in torch.as_tensor(chance.permutation(60)).split(20):
            optimizer.zero_grad()
            F.cross_entropy(theirs(X[rows]), Y[rows]).backward()
            optimizer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_label_smoothing_by_hand():
    made, log_p = model(), F.log_softmax(model()(X), 1)
    own = -log_p[torch.arange(60), Y]
    expected = (0.8 * own - 0.2 * log_p.mean(1)).mean()
    torch.testing.assert_close(LabelSmoothing(0.2).loss(made, X, Y, np.random.default_rng(0)), expected)


def test_mixup_by_hand():
    chance = np.random.default_rng(3)
    share, order = chance.beta(0.4, 0.4), torch.as_tensor(chance.permutation(60))
    log_p = F.log_softmax(model()(share * X + (1 - share) * X[order]), 1)
    rows = torch.arange(60)
    expected = -(share * log_p[rows, Y] + (1 - share) * log_p[rows, Y[order]]).mean()
    torch.testing.assert_close(Mixup(0.4).loss(model(), X, Y, np.random.default_rng(3)), expected)


def test_adversarial_regularisation_by_hand():
    torch.manual_seed(1)
    attacker, made = _Attacker(3), model()
    loss = AdversarialRegularisation(2.0, 1, attacker).loss(made, X, Y, np.random.default_rng(0))
    h = torch.sigmoid(attacker(made(X).softmax(1), Y))
    torch.testing.assert_close(loss, F.cross_entropy(made(X), Y) + 2.0 * h.log().mean())


def test_the_attacker_learns_to_tell_members():
    torch.manual_seed(1)
    attacker, sure = _Attacker(3), F.one_hot(Y, 3).float()
    unsure = torch.full((40, 3), 1 / 3)
    for _ in range(200):
        attacker.learn((sure, Y), (unsure, OTHERS[1]))
    assert float(torch.sigmoid(attacker(sure, Y)).detach().mean()) > 0.95
    assert float(torch.sigmoid(attacker(unsure, OTHERS[1])).detach().mean()) < 0.05


def test_adversarial_regularisation_brings_members_nearer_to_others():
    """Random labels: all that can be learned is memorised, and what the defence leaves of it is less."""

    def gap(defence):
        made = trained(defence, epochs=60, optimizer=fast)
        with torch.no_grad():
            return float(F.cross_entropy(made(OTHERS[0]), OTHERS[1]) - F.cross_entropy(made(X), Y))

    assert gap(AdversarialRegularisation(5.0)) < 0.6 * gap(Plain())


def test_early_stopping_keeps_the_best_epoch():
    stopped, long = (trained(each, epochs=60, optimizer=fast) for each in (EarlyStopping(0.3, 2), Plain()))
    with torch.no_grad():
        losses = [float(F.cross_entropy(made(OTHERS[0]), OTHERS[1])) for made in (stopped, long)]
    assert losses[0] < 0.7 * losses[1]


@pytest.mark.parametrize("defence", ALL, ids=lambda defence: type(defence).__name__)
def test_a_run_repeats_and_leaves_the_global_generator_alone(defence):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second, third = trained(defence), trained(defence), trained(defence, rng=1)
    torch.manual_seed(5)
    assert torch.equal(before, torch.get_rng_state())
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not all(torch.equal(a, b) for a, b in zip(first.parameters(), third.parameters(), strict=True))
    assert not first.training


@pytest.mark.parametrize(
    "call",
    [
        lambda: defend(model(), (X, Y), AdversarialRegularisation(), epochs=1),
        lambda: defend(model(), (X, Y[:5]), Plain(), epochs=1),
        lambda: defend(model(), (X[:0], Y[:0]), Plain(), epochs=1),
        lambda: defend(model(), X, Plain(), epochs=1),
        lambda: defend(model(), (X, Y), Plain(), epochs=0),
        lambda: defend(model(), (X[:1], Y[:1]), EarlyStopping(), epochs=1),
        lambda: LabelSmoothing(1.0),
        lambda: Mixup(0.0),
        lambda: EarlyStopping(0.0),
        lambda: EarlyStopping(patience=0),
        lambda: AdversarialRegularisation(-1.0),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()
