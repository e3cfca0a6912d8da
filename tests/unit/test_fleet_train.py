"""Fleets: membership is kept, clipping and noise are DP-SGD's, own records are sampled per model."""

import contextlib
import functools
import io

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tacit import BadInput, Plan
from tacit.core import source
from tacit.fleet import Epochs, Fleet
from tacit.fleet.certified import Clip
from tacit.fleet.fleet import ROOM, ROUNDING, _gradients
from tacit.fleet.order import Draws, Pool, sampled
from tacit.fleet.progress import Line
from tacit.fleet.stack import stack, stacked
from tacit.fleet.vmap_guard import Apart

RECORDS, FEATURES, CLASSES = 40, 4, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(RECORDS, FEATURES)).astype(np.float32)
Y = RNG.integers(0, CLASSES, RECORDS)


def make():
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def fleet(**more):
    return Fleet(make, lambda parameters: torch.optim.SGD(parameters, lr=0.5, momentum=0.5), **more)


def members(models=6):
    return np.random.default_rng(1).random((RECORDS, models)) < 0.5


def alone(member, schedule_batches, seed_model):
    """One model trained by an ordinary loop on the same batches, its own members only."""
    optimizer = torch.optim.SGD(seed_model.parameters(), lr=0.5, momentum=0.5)
    for rows in schedule_batches:
        rows = [row for row in rows.tolist() if member[row]]
        optimizer.zero_grad()
        if rows:
            nn.functional.cross_entropy(seed_model(torch.as_tensor(X[rows])), torch.as_tensor(Y[rows])).backward()
        else:
            for parameter in seed_model.parameters():
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
    return seed_model


def test_a_fleet_equals_training_each_model_alone(monkeypatch):
    """Within 1e-4 after two epochs in float32: same start, same batches, its own members."""
    from tacit.fleet import fleet as room
    from tacit.fleet import order

    made, batches = [], []
    original_make, original_order = room._make, order.shared_order
    monkeypatch.setattr(room, "_make", lambda *args: made.append(original_make(*args)) or made[-1])

    def recorded(*args):
        for rows in original_order(*args):
            batches.append(rows)
            yield rows

    monkeypatch.setattr(order, "shared_order", recorded)
    member = members(3)
    models = fleet().train(X, Y, member, Epochs(2, 8), rng=3)
    for k, start in enumerate(made):
        single = alone(member[:, k], batches, start)
        with torch.no_grad():
            expected = single(torch.as_tensor(X)).numpy()
        assert np.abs(models.logits(X)[:, k] - expected).max() < 1e-4


@pytest.mark.parametrize("schedule", [Epochs(2, 8), Plan(20, 0.3, 5, 1.0)])
def test_the_result_does_not_depend_on_how_many_are_trained_at_once(schedule):
    results = [
        fleet(models_at_once=size).train(X, Y, members(130), schedule, own=[0], rng=5).logits(X)
        for size in (1, 65, 999)
    ]
    assert np.allclose(results[0], results[1], atol=1e-5)
    assert np.allclose(results[0], results[2], atol=1e-5)


def test_with_its_own_order_a_fleet_equals_training_each_model_alone(monkeypatch):
    from tacit.fleet import fleet as room

    made, batches = [], []
    original_make, original_batches = room._make, room.own_batches
    monkeypatch.setattr(room, "_make", lambda *args: made.append(original_make(*args)) or made[-1])

    def recorded(pool, *args):
        numbered = Pool(torch.arange(RECORDS), pool.y, pool.member, ())
        for rows in original_batches(numbered, *args):
            batches.append(rows.x)
            yield pool.take(rows.x)

    monkeypatch.setattr(room, "own_batches", recorded)
    member = members(3)
    models = fleet(order="own").train(X, Y, member, Epochs(2, 8), rng=3)
    for k, start in enumerate(made):
        mine = [rows[k] for rows in batches]
        assert sorted(torch.cat(mine[:5]).tolist()) == list(range(RECORDS))
        single = alone(member[:, k], mine, start)
        with torch.no_grad():
            expected = single(torch.as_tensor(X)).numpy()
        assert np.abs(models.logits(X)[:, k] - expected).max() < 1e-4
    assert not torch.equal(batches[0][0], batches[0][1])


@pytest.mark.parametrize("rate", [0.04, 0.5, 1.0])
def test_own_samples_are_poisson(rate):
    """2,000 samples of 50 records: counts of records and of pairs within six standard errors (total error 1e-6)."""
    draws = Draws(list(range(100)), "cpu")
    seen = np.zeros((2000, 50))
    for k in range(20):
        rows, taken = sampled(50, rate, draws)
        for place in range(100):
            chosen = rows[place][taken[place]].numpy()
            assert len(set(chosen)) == len(chosen)
            seen[100 * k + place, chosen] = 1
    error = np.sqrt(rate * (1 - rate) / 2000)
    assert (np.abs(seen.mean(0) - rate) <= 6 * error).all()
    together = seen.T @ seen / 2000 - rate**2
    np.fill_diagonal(together, 0.0)
    assert (np.abs(together) <= 6 * np.sqrt(rate**2 * (1 - rate**2) / 2000)).all()


@pytest.mark.parametrize("own", [(3, 3), [RECORDS], [-1], [True], np.array([True, False] * 20), [2.0]])
def test_own_records_are_numbers_of_rows_each_named_once(own):
    """A record that is named twice would be in a batch twice, and move its sum by two clip norms."""
    plan = Plan(RECORDS, 1.0, 1, 1e-3, clip_norm=1e-2)
    with pytest.raises(BadInput, match="each named once"):
        fleet().train(X, Y, members(2), plan, own=own, rng=1)
    fleet().train(X, Y, members(2), plan, own=np.array([3, 4]), rng=1)


def test_a_private_fleet_of_own_orders_samples_every_record_anew():
    x = np.eye(2, dtype=np.float32)
    maker = Fleet(
        lambda: _zeroed(nn.Sequential(nn.Linear(2, 2, bias=False))), lambda p: torch.optim.SGD(p, lr=1.0), order="own"
    )
    models = maker.train(x, np.zeros(2), np.ones((2, 400), dtype=bool), Plan(2, 0.5, 1, 1e-9), rng=9)
    moved = (torch.cat([item.parameters["0.weight"] for item in models.stacks]).abs() > 1e-3).any(1).numpy()
    assert (np.abs(moved.mean(0) - 0.5) < 6 * 0.5 / 20).all()
    assert abs(moved.all(1).mean() - 0.25) < 6 * 0.44 / 20


def test_tf32_keeps_room_under_the_clip_norm_and_is_not_for_clipped_convolutions():
    """The room is that of two factors, each longer by 2^-11."""
    assert (1 + 2.0**-11) ** 2 * ROOM["tf32"] <= 1
    net = lambda: nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(2, CLASSES))  # noqa: E731
    with pytest.raises(BadInput, match="float32 only"):
        Fleet(net, precision="tf32").train(X.reshape(-1, 1, 2, 2), Y, members(), Plan(20, 0.5, 1, 1.0), rng=1)


@pytest.mark.parametrize(("precision", "during"), [("float32", ("highest", False)), ("tf32", ("high", True))])
def test_precision_is_the_fleet_s_and_the_program_s_comes_back(precision, during):
    seen, now = [], lambda: (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)
    before = now()
    maker = Fleet(make, lambda p: seen.append(now()) or torch.optim.SGD(p, lr=0.1), precision=precision)
    maker.train(X, Y, members(), Plan(20, 0.5, 1, 1.0), rng=1)
    assert seen == [during]
    assert now() == before


@pytest.mark.parametrize("schedule", [Epochs(3, 8), Plan(20, 0.3, 5, 1.0)])
def test_snapshots_are_the_models_of_a_shorter_training(schedule):
    models = fleet().train(X, Y, members(70), schedule, snapshots=[2], rng=3)
    shorter = Epochs(2, 8) if isinstance(schedule, Epochs) else Plan(20, 0.3, 2, 1.0)
    assert np.array_equal(models.snapshots[2].logits(X), fleet().train(X, Y, members(70), shorter, rng=3).logits(X))
    assert not np.array_equal(models.snapshots[2].logits(X), models.logits(X))
    with pytest.raises(BadInput, match="ends after"):
        fleet().train(X, Y, members(2), schedule, snapshots=[6], rng=3)


def test_as_many_models_as_fit_are_trained_at_once(monkeypatch):
    """A step that is played through empty counts at least what it needs, and memory decides."""
    from tacit.fleet import memory

    wide = nn.Sequential(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 24 * 24, 10))
    deep = nn.Sequential(nn.Linear(4, 50), nn.Tanh(), nn.Linear(50, 20, bias=False), nn.ReLU(), nn.Linear(20, 3))
    for net, shape, least in ((make(), (4,), 256), (deep, (4,), 256 * 70), (wide, (1, 28, 28), 256 * 16 * 24 * 24 * 8)):
        models = stack(net, stacked([net]))
        for clip_norm in (None, 1.0):
            step = functools.partial(_gradients, clip_norm=clip_norm)
            two, four = (memory.step_bytes(models, count, shape, 256, step) for count in (2, 4))
            each = (four - two) // 2
            assert least < each
            if models.linear:
                assert each < memory.linear_bytes(models, 256) < 8 * each
                each = memory.linear_bytes(models, 256)
            for blocks, most in ((0.5, 64), (2.5, 128), (99, 256)):
                room = int(blocks * 64 * each / memory.USED)
                monkeypatch.setattr(memory, "available", lambda device, room=room: room)
                assert memory.at_once(models, shape, 256, step, torch.device("cpu")) == most
    monkeypatch.setattr(memory, "available", lambda device: 1)
    seen = []
    fleet().train(X, Y, members(130), Epochs(1, 8), rng=1, progress=lambda done, count: seen.append(done))
    assert seen == [64, 128, 130]


def test_progress_says_models_per_second(monkeypatch):
    clock = iter([10.0, 12.0, 20.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    told = io.StringIO()
    line = Line(told)
    line(64, 130)
    line(130, 130)
    assert told.getvalue() == "64 of 130 models, 32.0 per second\r130 of 130 models, 13.0 per second\n"


@pytest.mark.parametrize("more", [{"order": "random"}, {"precision": "half"}])
def test_unknown_settings(more):
    with pytest.raises(BadInput, match="'shared' or 'own'"):
        fleet(**more)


def test_records_left_out_leave_no_trace():
    """Two membership matrices that differ in nothing a model saw give the same model."""
    other = X.copy()
    member = members(4)
    member[7] = False
    other[7] = 100.0
    for schedule in (Epochs(2, 8), Plan(20, 0.5, 6, 0.5)):
        first, second = (fleet().train(data, Y, member, schedule, rng=6).logits(X) for data in (X, other))
        assert np.allclose(first, second, atol=1e-5)


def test_a_module_is_everybodys_start():
    torch.manual_seed(0)
    start = make()
    models = Fleet(start, lambda p: torch.optim.SGD(p, lr=0.0)).train(X, Y, members(3), Epochs(1, 8), rng=1)
    with torch.no_grad():
        assert np.allclose(models.logits(X), start(torch.as_tensor(X)).numpy()[:, None], atol=1e-6)


def test_clipping_bounds_every_contribution():
    norms = torch.tensor([[0.5, 2.0, 1e9, float("nan"), float("inf"), 0.0]])
    factor = Clip(torch.ones(1, 6, dtype=torch.bool), 1.0)(norms)
    assert torch.allclose(factor, torch.tensor([[1.0, 0.5, 1e-9, 0.0, 0.0, 1.0]]))
    assert not Clip(torch.zeros(1, 6, dtype=torch.bool), 1.0)(norms).any()
    assert Clip(torch.ones(1, 1, dtype=torch.bool), 1.0)(torch.tensor([[2.0**64 * 1.001]])) == 0


def test_autocast_around_a_private_fleet_changes_nothing():
    plan = Plan(RECORDS, 0.5, 2, 1.0)
    plainly = fleet().train(X, Y, members(), plan, rng=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = fleet().train(X, Y, members(), plan, rng=4)
    assert all(
        torch.equal(value, cast.stacks[0].parameters[name]) for name, value in plainly.stacks[0].parameters.items()
    )


def test_one_private_step_is_the_clipped_sum_over_the_expected_batch():
    """With rate 1 and next to no noise, one step moves every parameter by lr * clipped mean."""
    from tacit.fleet import fleet as room

    plan = Plan(RECORDS, 1.0, 1, 1e-9, 0.1)
    models = fleet().train(X, Y, np.ones((RECORDS, 1), dtype=bool), plan, rng=7)
    start = room._make(make, int(source(7).words(2)[1] >> np.uint64(1)))
    parameters = list(start.parameters())
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for k in range(RECORDS):
        loss = nn.functional.cross_entropy(start(torch.as_tensor(X[k : k + 1])), torch.as_tensor(Y[k : k + 1]))
        each = torch.autograd.grad(loss, parameters)
        norm = sum(g.square().sum() for g in each) ** 0.5
        for sum_, g in zip(total, each, strict=True):
            sum_ += g * min(1.0, 0.1 * ROOM["float32"] / float(norm))
    for (name, found), parameter, sum_ in zip(models.stacks[0].parameters.items(), parameters, total, strict=True):
        assert torch.allclose(found[0], parameter - 0.5 * sum_ / RECORDS, atol=1e-6), name


@pytest.mark.parametrize("scale", [1.0, 0.9, 1.1])
def test_noise_has_its_scale_and_is_drawn_per_model(scale):
    """Zero gradients: a step is -lr z C (1 + r) / b times a standard normal. 240,000 draws; six standard errors."""
    plan = Plan(10, 0.5, 1, 2.0 * scale, 3.0)
    start = lambda: nn.Sequential(nn.Linear(600, 2, bias=False))  # noqa: E731
    member = np.zeros((10, 200), dtype=bool)
    plain = Fleet(lambda: _zeroed(start()), lambda p: torch.optim.SGD(p, lr=1.0))
    weight = plain.train(np.zeros((10, 600)), np.zeros(10), member, plan, rng=8).stacks[0].parameters["0.weight"]
    noise = weight.double().numpy().reshape(200, -1) * plan.expected_batch / (2.0 * 3.0 * (1 + ROUNDING["float32"]))
    error = abs(noise.var() - 1.0) / np.sqrt(2 / noise.size)
    assert (error < 6) == (scale == 1.0)
    assert abs(np.corrcoef(noise[:2])[0, 1]) < 6 / np.sqrt(1200)


def test_the_noise_is_not_drawn_from_the_seed_of_the_public_start():
    """A start that is the first draws of its own seed: noise from that seed would equal it (16 seeds, 1200 numbers)."""
    starts = []

    def start():
        model = nn.Sequential(nn.utils.skip_init(nn.Linear, 600, 2, bias=False))
        with torch.no_grad():
            model[0].weight.copy_(torch.randn(2, 600))
        starts.append(model[0].weight.detach().clone())
        return model

    maker = Fleet(start, lambda p: torch.optim.SGD(p, lr=1.0))
    for rng in range(16):
        starts.clear()
        models = maker.train(
            np.zeros((10, 600)), np.zeros(10), np.zeros((10, 1), dtype=bool), Plan(10, 0.5, 1, 1.0), rng=rng
        )
        noise = starts[0] - models.stacks[0].parameters["0.weight"][0]
        assert abs(float(torch.corrcoef(torch.stack((noise.flatten(), starts[0].flatten())))[0, 1])) < 6 / 1200**0.5


def test_an_own_record_is_sampled_anew_for_every_model_and_step():
    """Rule 16: its inclusion differs between models; a shared record's does not."""
    x = np.zeros((2, 2), dtype=np.float32)
    x[0, 0], x[1, 1] = 1.0, 1.0
    plan = Plan(2, 0.5, 1, 1e-9)
    maker = Fleet(lambda: _zeroed(nn.Sequential(nn.Linear(2, 2, bias=False))), lambda p: torch.optim.SGD(p, lr=1.0))
    models = maker.train(x, np.zeros(2), np.ones((2, 400), dtype=bool), plan, own=[1], rng=9)
    weight = torch.cat([item.parameters["0.weight"] for item in models.stacks])
    moved = (weight.abs() > 1e-3).any(1).numpy()
    assert moved[:, 0].all() or not moved[:, 0].any()
    assert abs(moved[:, 1].mean() - 0.5) < 6 * 0.5 / 20


@pytest.mark.parametrize(
    ("x", "y", "member"),
    [(X, Y[:-1], members()), (X, Y, members()[:-1]), (X, Y, members()[:, 0]), (X, Y, members()[:, :0])],
)
def test_bad_input(x, y, member):
    with pytest.raises(BadInput):
        fleet().train(x, y, member, Epochs(1, 8), rng=1)


@pytest.mark.parametrize(("y", "own"), [(Y - 1, []), (Y, [RECORDS]), (Y, [-1])])
def test_labels_and_own_records_that_are_not_there(y, own):
    schedule = Plan(20, 0.5, 1, 1.0) if own else Epochs(1, 8)
    with pytest.raises(BadInput):
        fleet().train(X, y, members(), schedule, own=own, rng=1)


class Scaled(nn.Module):
    """A network with a learned temperature: a parameter that is a single number."""

    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Linear(FEATURES, CLASSES), nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return self.scale * self.layer(x)


@pytest.mark.parametrize("schedule", [Epochs(1, 8), Plan(RECORDS, 0.3, 2, 1.0)])
def test_a_parameter_may_be_a_single_number(schedule):
    (models,) = Fleet(Scaled).train(X, Y, members(3), schedule, rng=0).stacks
    scale = models.parameters["scale"]
    assert scale.shape == (3,)
    assert bool(scale.isfinite().all())
    assert bool((scale != 1.0).all())


def test_frozen_parameters_are_refused():
    """The released training would leave them alone, and the fleet would not be what it audits."""
    model = make()
    model[0].weight.requires_grad_(False)
    with pytest.raises(BadInput, match="frozen"):
        Fleet(model).train(X, Y, members(), Epochs(1, 8), rng=1)


def test_a_layer_used_twice_is_refused():
    """Children are listed once each: the second use would be left out of the network."""
    layer = nn.Linear(FEATURES, FEATURES)
    with pytest.raises(BadInput, match="one place"):
        Fleet(nn.Sequential(layer, nn.Tanh(), layer)).train(X, Y, members(2), Epochs(1, 8), rng=1)


def test_a_layer_of_ones_own_is_not_taken_for_a_linear_one():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    torch.manual_seed(0)
    start = nn.Sequential(Doubled(FEATURES, CLASSES))
    models = Fleet(start, lambda p: torch.optim.SGD(p, lr=0.0)).train(X, Y, members(2), Epochs(1, 8), rng=1)
    with torch.no_grad():
        assert np.allclose(models.logits(X)[:, 0], start(torch.as_tensor(X)).numpy(), atol=1e-6)


def test_models_answer_without_dropout():
    maker = Fleet(lambda: nn.Sequential(nn.Linear(FEATURES, 20), nn.Dropout(0.5), nn.Linear(20, CLASSES)))
    models = maker.train(X, Y, members(2), Epochs(1, 8), rng=1)
    assert np.array_equal(models.logits(X), models.logits(X))


def test_models_with_buffers_are_refused():
    maker = Fleet(lambda: nn.Sequential(nn.Linear(FEATURES, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)))
    with pytest.raises(BadInput, match="group norm"):
        maker.train(X, Y, members(), Epochs(1, 8), rng=1)


def _zeroed(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


class Looking(nn.Module):
    """A table of ten rows, and a layer."""

    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(10, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(self.table(x.long()[:, 0]))


def test_a_number_beyond_a_models_table_is_refused_and_reads_no_other_models_row():
    """In plain training; a private fleet goes on without that record (test_fleet_total.py)."""
    x, y, schedule = np.arange(8.0)[:, None], np.arange(8) % 2, Epochs(1, 4)
    fleet = Fleet(Looking, lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    models = fleet.train(x, y, np.ones((8, 3), dtype=bool), schedule, rng=1)
    with pytest.raises(BadInput, match="beyond the table"):
        models.logits(np.array([[12.0]]))
    with pytest.raises(BadInput, match="beyond the table"):
        fleet.train(x + 5, y, np.ones((8, 3), dtype=bool), schedule, rng=1)


class Remembering(Looking):
    """Keeps the largest number that it has seen."""

    def forward(self, x):
        self.seen = max(getattr(self, "seen", 0.0), float(x.max()) if not x.requires_grad and _plain(x) else 0.0)
        return super().forward(x)


def _plain(x):
    return not torch._C._functorch.is_functorch_wrapped_tensor(x)


def test_a_look_at_positions_leaves_nothing_of_a_record_in_a_private_training():
    made = stack(Remembering(), stacked([Remembering(), Remembering()]))
    made.gradients(torch.arange(8.0)[:, None], torch.arange(8) % 2, Clip(torch.ones(2, 8, dtype=torch.bool), 1.0))
    assert not hasattr(made._model, "seen")


def dropping():
    return nn.Sequential(nn.Linear(FEATURES, 20), nn.Dropout(0.5), nn.Linear(20, CLASSES))


def after_a_seed(seed, rng):
    """Logits of a private fleet with dropout, trained after the script has set torch's numbers."""
    x = torch.ones(12, FEATURES)
    torch.manual_seed(seed)
    member = np.ones((12, 2), dtype=bool)
    models = Fleet(dropping).train(x, np.zeros(12, dtype=int), member, Plan(12, 0.5, 3, 1.0), rng=rng)
    return models.logits(x[:1])


def test_dropout_in_a_private_fleet_follows_from_its_own_source_and_not_from_a_seed_that_a_script_sets(monkeypatch):
    """With numbers that are known, one record more would give later ones others, and the sum would tell."""
    first = after_a_seed(0, 1)
    np.testing.assert_array_equal(first, after_a_seed(5, 1))
    assert not np.array_equal(first, after_a_seed(0, 2))
    monkeypatch.setattr("tacit.fleet.fleet.drawn_from", lambda key, device, read: contextlib.nullcontext())
    assert not np.array_equal(after_a_seed(0, 1), after_a_seed(5, 1))


class Odd(nn.Module):
    """Looks at more than one record, in a way that `vmap` lets through."""

    def __init__(self, look):
        super().__init__()
        self.look, self.a = look, nn.Linear(FEATURES, CLASSES)

    def forward(self, x):
        return self.look(self.a, x)


class Onlooker(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def in_a_mode(layer, x):
    with Onlooker():
        return layer(x).square()


class Centred(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 1.0

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient

    @staticmethod
    def vmap(info, dims, x):
        return (x - x.mean(dims[0], keepdim=True)) * 1.0, dims[0]


LOOKS = {
    "all records": lambda layer, x: layer(x if torch._is_all_true(x < 3) else -x),
    "a mode of torch": in_a_mode,
    "rule of its own": lambda layer, x: layer(Centred.apply(x)),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_fleet_refuses_code_that_torch_shows_several_records(look, monkeypatch):
    def trained():
        member = np.ones((6, 2), dtype=bool)
        Fleet(lambda: Odd(LOOKS[look])).train(
            torch.ones(6, FEATURES), np.zeros(6, dtype=int), member, Plan(6, 1.0, 1, 1.0), rng=1
        )

    with pytest.raises(BadInput, match=look):
        trained()
    monkeypatch.setattr("tacit.fleet.stack.apart", lambda: contextlib.nullcontext(Apart()))
    monkeypatch.setattr("tacit.fleet.stack.check_agreement", lambda *_: None)  # the second line
    trained()


def test_newer_settings_of_tf32_change_nothing_and_stay() -> None:
    plan, place = Plan(RECORDS, 0.5, 3, 1.0), torch.backends.cuda.matmul
    before, kind = fleet().train(X, Y, members(), plan, rng=2).logits(X), place.fp32_precision
    place.fp32_precision = "tf32"
    try:
        found = fleet().train(X, Y, members(), plan, rng=2).logits(X)
        assert place.fp32_precision == "tf32"
    finally:
        place.fp32_precision = kind
    assert np.array_equal(found, before)
