"""White-box observations against naive loops, and learned attacks that see what they are shown and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from tacit import BadInput, attacks
from tacit.attacks.white_box import _direction, _views, in_stages
from tacit.core import Observations

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tacit.attacks.internals import look_inside  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(23, 3, 6, 6)).astype(np.float32)
Y = RNG.integers(0, 4, 23)


class Small(nn.Module):
    """Convolution, batch norm, dropout, two linear layers, registered in another order than they run."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(7, 4)
        self.conv = nn.Conv2d(3, 5, 3)
        self.norm = nn.BatchNorm2d(5)
        self.drop = nn.Dropout(0.5)
        self.hidden = nn.Linear(5, 7)

    def forward(self, x):
        z = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.last(torch.tanh(self.hidden(self.drop(z))))


def model():
    torch.manual_seed(0)
    made = Small()
    made(torch.as_tensor(X))  # gives batch norm something to remember
    return made


def naive(made, name):
    """Gradient of one parameter and the norm of all, record after record."""
    made.eval()
    grads, norms = [], []
    for x, y in zip(X, Y, strict=True):
        made.zero_grad()
        nn.functional.cross_entropy(made(torch.as_tensor(x)[None]), torch.as_tensor([y])).backward()
        grads.append(dict(made.named_parameters())[name].grad.flatten(1).numpy().copy())
        norms.append(np.sqrt(sum(float(p.grad.square().sum()) for p in made.parameters())))
    return np.stack(grads), np.array(norms)


def test_factors_are_the_gradient_of_a_linear_layer():
    seen = look_inside(model(), X, Y, batch=10)
    expected, norms = naive(model(), "last.weight")
    formed = seen.internals["error/last"][:, 0, :, None] * seen.internals["input/last"][:, 0, None, :]
    np.testing.assert_allclose(formed, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(seen.gradient_norm[:, 0], norms, rtol=1e-4)


def test_other_layers_gradients_are_formed():
    seen = look_inside(model(), X, Y, gradients=["conv", "hidden"])
    np.testing.assert_allclose(
        seen.internals["gradient/conv"][:, 0], naive(model(), "conv.weight")[0], rtol=1e-4, atol=1e-6
    )
    assert {"error/hidden", "input/hidden", "gradient/conv"} <= set(seen.internals)
    assert "error/last" not in seen.internals
    fewer = look_inside(model(), X, Y, gradients=["conv", "hidden"], norm=False)
    assert fewer.gradient_norm is None
    np.testing.assert_allclose(fewer.internals["gradient/conv"], seen.internals["gradient/conv"], rtol=1e-4, atol=1e-6)


def test_a_linear_layer_on_sequences_is_formed_too():
    made = nn.Sequential(nn.Linear(6, 5), nn.Flatten(), nn.Linear(5 * 18, 4))
    x = X.reshape(23, 18, 6)
    seen = look_inside(made, x, Y, gradients=["0"])
    nn.functional.cross_entropy(made(torch.as_tensor(x[:1])), torch.as_tensor(Y[:1])).backward()
    np.testing.assert_allclose(seen.internals["gradient/0"][0, 0], made[0].weight.grad, rtol=1e-4, atol=1e-6)


def test_a_layer_whose_output_is_worked_on_in_place():
    torch.manual_seed(2)
    made = nn.Sequential(nn.Flatten(), nn.Linear(108, 5), nn.ReLU(inplace=True), nn.Linear(5, 4))
    seen = look_inside(made, X, Y, layers=["1"], gradients=["1"])
    plain = nn.functional.linear(torch.as_tensor(X).flatten(1), made[1].weight, made[1].bias)
    np.testing.assert_allclose(seen.internals["layer/1"][:, 0], plain.detach(), rtol=1e-4, atol=1e-5)
    nn.functional.cross_entropy(made(torch.as_tensor(X[:1])), torch.as_tensor(Y[:1])).backward()
    formed = np.outer(seen.internals["error/1"][0, 0], seen.internals["input/1"][0, 0])
    np.testing.assert_allclose(formed, made[1].weight.grad, rtol=1e-4, atol=1e-6)


def test_layers_come_in_the_order_they_run_and_the_model_is_left_as_it_was():
    made = model()
    before = {name: value.clone() for name, value in made.state_dict().items()}
    made.norm.eval()
    seen = look_inside(made, X, Y, batch=7)
    assert [name for name in seen.internals if name.startswith("layer/")] == ["layer/conv", "layer/hidden"]
    assert made.training
    assert not made.norm.training
    assert all(torch.equal(before[name], value) for name, value in made.state_dict().items())
    made.eval()
    np.testing.assert_allclose(seen.logits[:, 0], made(torch.as_tensor(X)).detach().numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("far", [1.0, 60.0])
def test_lengths_are_those_of_the_margins_gradient(far):
    """Naively, record by record; also where 1 - p_y rounds to 0 and the loss has no gradient left."""
    made = model()
    with torch.no_grad():
        made.last.weight.mul_(far)
    seen = look_inside(made, X, Y, batch=10)
    made.eval()
    for k in range(5):
        made.zero_grad()
        z = made(torch.as_tensor(X[k])[None])[0]
        (z[Y[k]] - torch.cat((z[: Y[k]], z[Y[k] + 1 :])).logsumexp(0)).backward()
        expected = [float(getattr(made, name).weight.grad.norm()) for name in ("conv", "hidden", "last")]
        np.testing.assert_allclose(seen.internals["length/margin"][k, 0], expected, rtol=1e-4)
    assert (seen.gradient_norm > 0).all()


class Tied(nn.Module):
    """Two layers of one weight, and one whose weight is made of other parameters."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight
        self.made = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))

    def forward(self, x):
        return self.b(torch.tanh(self.made(torch.tanh(self.a(x)))))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_tied_weights_and_kinds_of_numbers(kind):
    """The gradient of a weight used in two layers is that of both uses; a weight made of others is only part of all."""
    torch.manual_seed(3)
    made = Tied().to(kind)
    x = X.reshape(23, -1)[:, :4]
    with torch.inference_mode():
        seen = look_inside(made, x, Y, gradients=["b"])
    assert seen.internals["length/margin"].shape == (23, 1, 2)
    for k in range(3):
        made.zero_grad()
        row = torch.as_tensor(x[k : k + 1], dtype=kind)
        nn.functional.cross_entropy(made(row), torch.as_tensor(Y[k : k + 1])).backward()
        np.testing.assert_allclose(seen.internals["gradient/b"][k, 0], made.a.weight.grad, rtol=1e-4, atol=1e-6)
        whole = torch.cat([value.grad.flatten() for value in made.parameters()]).norm()
        np.testing.assert_allclose(seen.gradient_norm[k, 0], float(whole), rtol=1e-4)


def test_a_large_linear_layer_is_not_written_out_for_every_record():
    """100 gradients of 4 million numbers would be 1.6 GB."""
    made = nn.Sequential(nn.Linear(4, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 4))
    x = np.repeat(X.reshape(23, -1)[:, :4], 5, axis=0)[:100]
    most = 0

    class Most(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal most
            found = func(*args, **(kwargs or {}))
            most = max([most, *(part.numel() for part in (found,) if isinstance(part, torch.Tensor))])
            return found

    with Most():
        seen = look_inside(made, x, np.repeat(Y, 5)[:100])
    assert most <= 2048**2
    made.zero_grad()
    nn.functional.cross_entropy(made(torch.as_tensor(x[:1])), torch.as_tensor(Y[:1])).backward()
    whole = torch.cat([value.grad.flatten() for value in made.parameters()]).norm()
    np.testing.assert_allclose(seen.gradient_norm[0, 0], float(whole), rtol=1e-4)


def test_directions_of_the_shortest_gradients():
    """Squares of float32 numbers below 1e-23 vanish; a zero stays one."""
    array = np.array([[3e-25, 4e-25], [3e-36, 4e-36], [3.0, 4.0], [0.0, 0.0]], dtype=np.float32)
    flat, length = _direction(array)
    np.testing.assert_allclose(flat, [[0.6, 0.8]] * 3 + [[0.0, 0.0]], rtol=1e-5)
    np.testing.assert_allclose(np.exp(length[:, 0]), [5e-25, 1e-30, 5.0, 1e-30], rtol=1e-4)


def test_steps_of_snapshots_stand_side_by_side():
    """Two halves are two views, of however many snapshots."""
    last = observed()
    steps = {f"step/{k}": RNG.normal(size=(400, 1, 3)) for k in (0, 1)}
    last = replace(last, internals={**last.internals, **steps})
    views = _views(attacks.with_snapshots(last, [last]))
    assert [view["step"].shape for view in views] == [(400, 12)] * 2
    for k, view in enumerate(views):
        np.testing.assert_array_equal(view["step"][:, :3], steps[f"step/{k}"][:, 0])
        np.testing.assert_array_equal(view["step"][:, 6:], view["step"][:, :6])


@pytest.fixture
def fewer_epochs(monkeypatch):
    """A third of the epochs: enough to see what tells, and the stages are the same."""
    from tacit.attacks import network

    monkeypatch.setattr(network, "EPOCHS", 20)


def observed(records=400, tells="error/last", seed=0):
    """Only one internal array knows who was a member."""
    rng = np.random.default_rng(seed)
    member = rng.permutation(records) < records // 2
    seen = Observations.from_logits(
        rng.normal(size=(records, 3)), rng.integers(0, 3, records), member=member, record=np.arange(records)
    )
    arrays = {name: rng.normal(size=(records, 1, 6)) for name in ("layer/first", "error/last", "input/last")}
    if tells:
        arrays[tells] = arrays[tells] * np.where(member, 1.0, 2.0)[:, None, None]
    return replace(seen, internals=arrays)


def broken():
    """One number of one record is none."""
    seen = observed(records=60)
    seen.internals["input/last"][5, 0, 2] = np.nan
    return seen


def test_what_an_attack_does_not_see_may_be_broken():
    assert np.isfinite(attacks.white_box_outputs(*attacks.known_split(broken(), 0)).score).all()


@pytest.mark.parametrize(
    ("tells", "finders"),
    [("error/last", {"white-box-gradients"}), ("layer/first", {"white-box-gradients", "white-box-outputs"})],
)
def test_each_sees_what_it_is_shown(tells, finders, fewer_epochs):
    """Fixed seed; a finder's area is above 0.5, another's is not, at confidence 0.999."""
    judged, known = attacks.known_split(observed(tells=tells), 1)
    found = {
        name
        for name in ("learned-black-box", "white-box-outputs", "white-box-gradients")
        if attacks.named(name)(judged, known).auc(0.999).lower > 0.5
    }
    assert found == finders


def test_snapshots_stand_beside_the_last_one(fewer_epochs):
    last, early = observed(tells=""), observed(tells="error/last")
    early = replace(early, member=last.member)
    both = attacks.with_snapshots(last, [early])
    assert {"0:output", "0:loss", "0:error/last", "0:input/last", "error/last"} <= set(both.internals)
    alone = attacks.white_box_gradients(*attacks.known_split(last, 1)).auc(0.999)
    found = attacks.white_box_gradients(*attacks.known_split(both, 1)).auc(0.999)
    assert alone.lower <= 0.5 < found.lower
    with pytest.raises(BadInput, match="same models"):
        attacks.with_snapshots(last, [early.select(records=np.arange(5))])


def test_known_split_takes_the_same_share_of_both_sides():
    judged, known = attacks.known_split(observed(), 0, share=0.25)
    assert (known.records, known.member.sum(), judged.records) == (100, 50, 300)
    assert not set(known.record) & set(judged.record)


@pytest.mark.parametrize(
    "call",
    [
        lambda: look_inside(model(), X, Y[:5]),
        lambda: look_inside(model(), X, Y, layers=["nowhere"]),
        lambda: look_inside(nn.Sequential(nn.Flatten(), nn.LayerNorm(108)), X, Y),
        lambda: look_inside(model(), X, Y, batch=0),
        lambda: look_inside(nn.Flatten(), X, Y),
        lambda: look_inside(nn.Sequential(model(), nn.Unflatten(1, (2, 2))), X, Y),
        lambda: look_inside(nn.Sequential(nn.Flatten(), nn.Linear(108, 1)), X, 0 * Y),
        lambda: attacks.white_box_gradients(*attacks.known_split(broken(), 0)),
        lambda: attacks.known_split(observed(), 0, share=1.0),
        lambda: attacks.white_box_gradients(*attacks.known_split(observed(records=20), 0, share=0.5)),
        lambda: replace(observed(), internals={"layer/a": np.zeros((3, 1))}),
        lambda: replace(observed(), features=np.zeros((3, 1))),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()


def test_a_stage_that_sees_noise_costs_little():
    """Fixed seed: beside a telling part, 200 columns of noise change the area by less than 0.03."""
    from tacit.attacks.network import learned
    from tacit.core import Scores

    rng = np.random.default_rng(3)
    member = rng.permutation(1200) < 600
    parts = {"told": rng.normal(size=(1200, 1)) + member[:, None], "noise": rng.normal(size=(1200, 200))}
    known, asked = ({name: array[rows] for name, array in parts.items()} for rows in (slice(600), slice(600, None)))
    areas = [
        Scores(learned(stages, known, member[:600], [asked])[-1], member[600:], attack="x", randomised=False)
        .auc()
        .value
        for stages in ([["told"]], [["told"], ["noise"]])
    ]
    assert areas[0] > 0.7
    assert areas[1] > areas[0] - 0.03


def test_one_pass_gives_what_each_attack_gives_alone(monkeypatch):
    from tacit.attacks import network

    monkeypatch.setattr(network, "EPOCHS", 3)
    judged, known = attacks.known_split(observed(), 1)
    found = in_stages(judged, known)
    assert found.shape == (6, judged.records, 1)
    for name, after in (("learned-black-box", 2), ("white-box-outputs", 3), ("white-box-gradients", 6)):
        np.testing.assert_allclose(attacks.named(name)(judged, known).score, found[after - 1, :, 0], atol=1e-9)
