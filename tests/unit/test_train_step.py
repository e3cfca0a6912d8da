"""The three-line loop, fit, the account, non-finite gradients, empty samples, accumulation, checkpoints."""

import stat

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch._C import _len_torch_function_stack, _pop_torch_function_stack, _push_on_torch_function_stack
from torch._C._functorch import (
    _vmap_increment_nesting,
    get_dynamic_layer_stack_depth,
    pop_dynamic_layer_stack_and_undo_to_depth,
)
from torch.overrides import TorchFunctionMode

from tacit.core import BadInput, BudgetExceeded, PrivacyWarning
from tacit.loss import Plan
from tacit.train import Speed, fit, private
from tacit.train.checkpoint import read, write
from tacit.train.clip import Clipper
from tacit.train.noise.keys import Secret, sum_hash
from tacit.train.noise.release import Release
from tacit.train.sample.examples import Batch, Examples
from tacit.train.scale.execution import Keys
from train_zoo import CLASSES, ZOO, classify, furthest, naive, trainable

DATA = torch.randn(100, 5, generator=torch.Generator().manual_seed(0)), torch.arange(100) % CLASSES
PLAN = Plan(100, 0.1, 6, 1.0)


def small(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, CLASSES)).eval()


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in model.parameters()])


def digits() -> tuple:
    x, y = load_digits(return_X_y=True)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0)).numpy()
    x, y = x[order] / 16, y[order]
    return (x[:1400], y[:1400]), (x[1400:], y[1400:])


def test_the_three_line_loop_learns_digits() -> None:
    train, test = digits()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    step = private(model, optimizer, Plan(1400, 0.2, 100, 2.0), rng=0)
    for batch in step.batches(train):
        step(batch)
        scheduler.step()
    right = model(torch.tensor(test[0], dtype=torch.float32)).argmax(1) == torch.tensor(test[1])
    assert right.float().mean() > 0.88
    assert 1 < step.spent(1e-4).epsilon < 15


def test_fit_learns_digits_and_holds_evidence() -> None:
    train, test = digits()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    plan = Plan(1400, 0.2, 100, 2.0)
    trained = fit(model, train, plan, validation=test, rng=0)
    evidence = trained.evidence
    assert evidence.utility["accuracy"] > 0.88
    assert evidence.claim.event == plan.event
    assert evidence.upper == plan.bound(1e-5)
    assert evidence.provenance["cryptographic"] is False
    assert evidence.provenance["steps"] == 100
    assert any("tuning" in line or "choices" in line for line in evidence.not_covered)
    assert any("weights that it starts from" in line for line in evidence.not_covered)
    assert evidence.from_json(evidence.to_json()).upper == evidence.upper
    assert len(trained.history) == 100


@pytest.mark.entropy
def test_the_default_source_is_cryptographic_and_never_repeats() -> None:
    first, second = (fit(small(), DATA, PLAN) for _ in range(2))
    assert first.evidence.provenance["cryptographic"] is True
    assert not torch.equal(flat(first.model), flat(second.model))
    third, fourth = (fit(small(), DATA, PLAN, rng=3) for _ in range(2))
    assert torch.equal(flat(third.model), flat(fourth.model))


def test_delta_not_below_one_over_n_warns() -> None:
    model = small()
    step = private(model, adam(model), PLAN, rng=0)
    with pytest.warns(PrivacyWarning):
        step.spent(0.02)
    with pytest.warns(PrivacyWarning):
        step.evidence(0.02)


def test_a_step_is_the_clipped_mean_when_noise_is_negligible() -> None:
    model = small()
    plan = Plan(100, 0.3, 1, 1e-9, clip_norm=0.5)
    step = private(model, torch.optim.SGD(model.parameters(), lr=1.0), plan, rng=0)
    batch = next(step.batches(DATA))
    rows = Examples.of(DATA).rows(batch.index)
    sums, _ = naive(model, classify, rows, 0.5)
    before = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    step(batch)
    moved = {name: (before[name] - tensor.detach()) * plan.expected_batch for name, tensor in model.named_parameters()}
    assert furthest(moved, sums) < 1e-4


@pytest.mark.parametrize("physical", [1, 7, 64])
def test_accumulation_changes_nothing(physical: int) -> None:
    plan = Plan(100, 0.5, 3, 1e-9)
    found = []
    for speed in (Speed(), Speed(physical_batch=physical)):
        model = small()
        step = private(model, torch.optim.SGD(model.parameters(), lr=0.5), plan, rng=0, speed=speed)
        for batch in step.batches(DATA):
            step(batch)
        found.append(flat(model))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("how", [{"foreach": True}, {"fused": True}])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad])
def test_optimizers_that_step_all_parameters_at_once_see_what_the_usual_ones_see(kind, how) -> None:
    model, twin = small(), small()
    plain = kind(twin.parameters(), lr=0.1, foreach=False)
    step, seen = private(model, kind(model.parameters(), lr=0.1, **how), PLAN, rng=1), []
    for batch in step.batches(DATA):
        step(batch)
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            theirs.grad = mine.grad.clone()
        plain.step()
        seen.append(float(next(twin.parameters()).grad.norm()))
        assert torch.allclose(flat(model), flat(twin), atol=1e-6)
    assert len(set(seen)) == PLAN.steps
    assert min(seen) > 0.05


def test_a_table_that_asks_for_sparse_gradients_is_given_dense_ones_with_noise_everywhere() -> None:
    """A row that no record looks up must move as well: that it stays would tell."""
    model = nn.Sequential(nn.Embedding(9, 5, sparse=True), nn.Flatten(), nn.Linear(10, CLASSES))
    before = model[0].weight.detach().clone()
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(100, 0.1, 1, 1.0), rng=1)
    for batch in step.batches((torch.randint(3, (100, 2)), DATA[1])):
        step(batch)
    assert (model[0].weight != before).all()


def test_padding_contributes_nothing() -> None:
    model = small()
    clipper = Clipper(model, classify, trainable(model), 1.0)
    batch = Batch(Examples.of(DATA), torch.arange(5).numpy(), 0, physical=8, fixed=True)
    ((rows, mask),) = batch.parts()
    assert mask.tolist() == [True] * 5 + [False] * 3
    free = Batch(Examples.of(DATA), torch.arange(5).numpy(), 0, physical=8, fixed=False)
    ((plain, all_true),) = free.parts()
    padded, exact = clipper(rows, mask), clipper(plain, all_true)
    assert furthest(padded.sums, exact.sums) < 1e-6


def test_an_empty_sample_is_noised_all_the_same() -> None:
    model = small()
    before = flat(model)
    step = private(model, torch.optim.SGD(model.parameters(), lr=1.0), Plan(100, 1e-9, 2, 1.0), rng=0)
    for batch in step.batches(DATA):
        assert len(batch.index) == 0
        info = step(batch)
        assert (info.loss, info.clipped) == (None, None)
    assert (flat(model) != before).all()


def test_an_empty_sample_does_not_mind_how_parameters_lie() -> None:
    """An error that comes with empty samples alone would tell that nobody was there."""
    model = nn.Sequential(nn.Unflatten(1, (5, 1, 1)), nn.Conv2d(5, 8, 1), nn.Flatten(), nn.Linear(8, CLASSES))
    model.to(memory_format=torch.channels_last)
    model[3].weight = nn.Parameter(torch.randn(8, CLASSES).T)
    before = flat(model)
    step = private(model, torch.optim.SGD(model.parameters(), lr=1.0), Plan(100, 1e-9, 1, 1.0), rng=0)
    for batch in step.batches(DATA):
        step(batch)
    assert (flat(model) != before).all()


def test_unused_parameters_are_noised_too() -> None:
    model = ZOO["unused layer"].make()
    before = model.unused.weight.detach().clone()
    step = private(model, torch.optim.SGD(model.parameters(), lr=1.0), Plan(100, 0.1, 1, 1.0), rng=0)
    step(next(step.batches(DATA)))
    assert (model.unused.weight != before).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e38])
def test_examples_without_a_finite_gradient_contribute_zero(bad: float) -> None:
    model = small()
    x, y = DATA[0][:6].clone(), DATA[1][:6]
    x[2] = bad
    clipper = Clipper(model, classify, trainable(model), 1.0)
    found = clipper((x, y), torch.ones(6, dtype=torch.bool))
    kept = [0, 1, 3, 4, 5]
    sums, _ = naive(model, classify, (x[kept], y[kept]), 1.0)
    assert all(bool(tensor.isfinite().all()) for tensor in found.sums.values())
    assert furthest(found.sums, sums) < 1e-5


class Account:
    def __init__(self, *, full: bool = False) -> None:
        self.charges: list[tuple] = []
        self.full = full

    def charge(self, event, *, key, purpose="", analyst=""):
        if self.full:
            raise BudgetExceeded(2.0, 1.0)
        self.charges.append((event, key))


def test_the_whole_plan_is_charged_before_the_first_sample() -> None:
    account, model = Account(), small()
    step = private(model, adam(model), PLAN, ledger=account, rng=0)
    batches = step.batches(DATA)
    assert account.charges == []
    step(next(batches))
    assert [event for event, _ in account.charges] == [PLAN.event]
    for batch in batches:
        step(batch)
    assert len(account.charges) == 1


def test_an_empty_budget_stops_before_anything_is_drawn() -> None:
    model = small()
    before = flat(model)
    with pytest.raises(BudgetExceeded):
        fit(model, DATA, PLAN, ledger=Account(full=True))
    assert torch.equal(flat(model), before)


@pytest.mark.parametrize("rng", [None, 5])
def test_a_restored_run_continues_bit_for_bit_and_pays_under_the_same_key(rng, tmp_path) -> None:
    account, model = Account(), small().train()
    step = private(model, adam(model), PLAN, ledger=account, rng=rng)
    batches = step.batches(DATA)
    for _ in range(3):
        step(next(batches))
    path = write(step.state_dict(), tmp_path / "run.ckpt")
    for batch in batches:
        step(batch)
    again = small(seed=9).train()
    resumed = private(again, adam(again), PLAN, ledger=account)
    resumed.load_state_dict(read(path))
    for batch in resumed.batches(DATA):
        resumed(batch)
    assert torch.equal(flat(model), flat(again))
    assert len({key for _, key in account.charges}) == 1
    assert resumed.cryptographic is (rng is None)


def test_a_step_that_takes_up_another_run_pays_for_it() -> None:
    """The state of a run that had not begun, loaded into a step that had paid for its own, went on without a charge."""
    account, model = Account(), small()
    step, other = (private(model, adam(model), PLAN, ledger=account) for _ in range(2))
    step(next(step.batches(DATA)))
    step.load_state_dict(other.state_dict())
    for batch in step.batches(DATA):
        step(batch)
    assert step.run == other.run
    assert len({key for _, key in account.charges}) == 2


def test_another_batch_after_a_restore_meets_other_noise() -> None:
    model = small()
    step = private(model, torch.optim.SGD(model.parameters(), lr=1.0), Plan(100, 0.5, 2, 1.0), rng=0)
    state = step.state_dict()
    secret = step._secret.value
    keys = []
    for data in (DATA, (DATA[0] + 0.01, DATA[1])):
        model.load_state_dict(state["model"])
        step.done, step._secret.value = 0, secret
        batch = next(step.batches(data))
        keys.append(step.parted.noise_key(batch, step.parted.totals(batch), step.keys(batch)))
    assert keys[0] != keys[1]


def test_the_noise_secret_moves_on() -> None:
    model = small()
    step = private(model, adam(model), PLAN, rng=0)
    seen = set()
    for batch in step.batches(DATA):
        seen.add(step._secret.value)
        step(batch)
    assert len(seen) == PLAN.steps


def test_a_state_of_another_plan_is_refused() -> None:
    model = small()
    state = private(model, adam(model), PLAN).state_dict()
    for other in (Plan(100, 0.1, 6, 1.1), Plan(100, 0.1, 6, 1.0, clip_norm=2.0)):
        with pytest.raises(BadInput, match="another plan"):
            private(model, adam(model), other).load_state_dict(state)
    with pytest.raises(BadInput, match="schema"):
        private(model, adam(model), PLAN).load_state_dict({})


def test_fit_resumes_from_its_checkpoint_and_destroys_it(tmp_path) -> None:
    path = tmp_path / "run.ckpt"
    plan = Plan(100, 0.1, 20, 1.0)
    whole = fit(small(), DATA, plan, rng=4)
    model = small().train()
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9), plan, rng=4)
    for batch in step.batches(DATA):
        step(batch)
        if step.done == 8:
            break
    write(step.state_dict(), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    resumed = fit(small(seed=7), DATA, plan, checkpoint=path)
    assert torch.equal(flat(whole.model), flat(resumed.model))
    assert len(resumed.history) == 12
    assert not path.exists()


def test_a_checkpoint_that_is_none_is_refused(tmp_path) -> None:
    path = tmp_path / "run.ckpt"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(BadInput, match="not a checkpoint"):
        fit(small(), DATA, PLAN, checkpoint=path)


def test_the_trained_model_holds_weights_only() -> None:
    model = small()
    before = set(model.state_dict()), set(vars(model))
    trained = fit(model, DATA, PLAN, rng=0)
    assert (set(trained.model.state_dict()), set(vars(trained.model))) == before
    assert not any(module._forward_hooks or module._backward_hooks for module in trained.model.modules())


def test_datasets_and_dicts_work() -> None:
    class Words:
        """Not a torch Dataset, as those of Hugging Face are not."""

        def __len__(self) -> int:
            return 100

        def __getitem__(self, row: int) -> dict:
            return {"x": DATA[0][row], "y": DATA[1][row]}

    def loss(model, batch):
        return classify(model, (batch["x"], batch["y"]))

    first = fit(small(), Words(), PLAN, loss=loss, rng=1)
    second = fit(small(), {"x": DATA[0], "y": DATA[1]}, PLAN, loss=loss, rng=1)
    assert torch.equal(flat(first.model), flat(second.model))


def test_other_labels_meet_other_noise_even_where_losses_and_norms_agree() -> None:
    """A linear model that starts at zero: every label has the same loss and the same norm."""
    keys = []
    for shift in (0, 1):
        model = nn.Linear(4, 3)
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(30, 1.0, 2, 1.0), rng=0)
        x = torch.randn(30, 4, generator=torch.Generator().manual_seed(1))
        batch = next(step.batches((x, (torch.arange(30) + shift) % 3)))
        keys.append(step.parted.noise_key(batch, step.parted.totals(batch), step.keys(batch)))
    assert keys[0] != keys[1]


@pytest.mark.parametrize("pattern", [[1.0, -1.0, 2.0, -2.0], [1.0, -1.0, -1.0, 1.0], [1.0, -3.0, 3.0, -1.0]])
def test_other_labels_meet_other_noise_even_where_numbers_of_a_record_add_up_to_zero(pattern: list[float]) -> None:
    """Without a bias the sum of every row is 0, whatever the labels; so are sums with evenly growing weights."""
    keys = []
    for shift in (0, 1):
        model = nn.Linear(4, 2, bias=False)
        nn.init.zeros_(model.weight)
        step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(16, 1.0, 2, 1.0), rng=0)
        x = torch.tensor([pattern, [-number for number in pattern]]).repeat(8, 1)
        batch = next(step.batches((x, (torch.arange(16) + shift) % 2)))
        keys.append(step.parted.noise_key(batch, step.parted.totals(batch), step.keys(batch)))
    assert keys[0] != keys[1]


@pytest.mark.parametrize("shape", [(), (7,), (5, 3), (64, 784)])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_the_last_bit_of_any_number_of_a_sum_changes_the_key(shape: tuple[int, ...], kind: torch.dtype) -> None:
    """With equal noise, two releases of a step differ by what their sums do, to the last bit and without noise.

    The key was made of weighted sums of rows, which 39 of 40 such changes of 64 rows of 784 numbers left as they were.
    """
    keys = Keys(Secret(bytes(32)), 3, b"plan", np.arange(4))
    total = torch.randn(shape, dtype=kind, generator=torch.Generator().manual_seed(0))
    seen = {keys.of([], [sum_hash([torch.ones(2), total], keys.hashes)])}
    places = torch.randint(total.numel(), (50,), generator=torch.Generator().manual_seed(1)).unique()
    for place in places.tolist():
        other = total.clone().flatten()
        other[place] = torch.nextafter(other[place], torch.tensor(9.0, dtype=kind))
        seen.add(keys.of([], [sum_hash([torch.ones(2), other.view(shape)], keys.hashes)]))
    assert len(seen) == 1 + len(places)


def test_a_parameter_without_rows_has_a_hash() -> None:
    assert len(sum_hash([torch.zeros(0, 3), torch.zeros(3, 4).T], bytes(32))) == 16
    assert len(sum_hash([], bytes(32))) == 16


class Interrupted(Exception):
    """What Ctrl-C does, at a place of our choice."""


PLACES = {
    "tacit.train.noise.correlated.Correlated.advance": False,
    "tacit.train.noise.keys.Secret.advance": False,
    "tacit.train.noise.release.Release.hand_over": True,
    "tacit.train.scale.totals.Totals.settled": True,
}


@pytest.mark.parametrize(("place", "again"), PLACES.items())
def test_a_step_that_breaks_off_is_taken_again_alike_or_not_at_all(place: str, again: bool, monkeypatch) -> None:
    """Correlated noise that took in a step twice, or a clip norm that moved twice, would be another mechanism."""
    plan = Plan(40, 0.25, 8, 0.7, adjacency="replace", sampling="cyclic", bands=2)
    data = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    ends = []
    for broken in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.3))
        step = private(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), plan, rng=4)
        for batch in step.batches(data):
            if broken and step.done == 3:
                with monkeypatch.context() as patch:
                    patch.setattr(place, _raise)
                    with pytest.raises(Interrupted):
                        step(batch)
                if not again:
                    with pytest.raises(BadInput, match="cannot go on"):
                        step.gradients(batch)
                    with pytest.raises(BadInput, match="cannot go on"):
                        step.state_dict()
                    return
            step(batch)
        ends.append(torch.cat([tensor.detach().flatten() for tensor in model.parameters()]))
    assert torch.equal(*ends)


def _raise(*_: object) -> None:
    raise Interrupted


class Through(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _raise_in_modes(self: Release, *_: object) -> None:
    """As Ctrl-C between entering a context and the code that would leave it, when gradients have been set."""
    for parameter in self.parameters:
        parameter.grad = torch.ones_like(parameter)
    _push_on_torch_function_stack(Through())
    _vmap_increment_nesting(3, "error")
    raise Interrupted


def _in_force() -> tuple[int, int]:
    return _len_torch_function_stack(), get_dynamic_layer_stack_depth()


@pytest.mark.parametrize("mended", [True, False])
def test_a_step_that_breaks_off_leaves_no_gradient_and_no_mode_in_force(mended: bool, monkeypatch) -> None:
    """A gradient that is released beside the one of the step taken again, with other noise, would not be paid for."""
    model = nn.Linear(3, 2)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(40, 0.25, 8, 0.7), rng=4)
    batch = next(step.batches((torch.randn(40, 3), torch.arange(40) % 2)))
    before = _in_force()
    with monkeypatch.context() as patch:
        patch.setattr(Release, "hand_over", _raise_in_modes)
        if not mended:
            patch.setattr(Release, "withdraw", lambda _: None)
            patch.setattr("tacit.train.clip.arrays._depths", lambda: (99, 99, 99))
        with pytest.raises(Interrupted):
            step(batch)
    left = _in_force(), any(parameter.grad is not None for parameter in model.parameters())
    if not mended:
        _pop_torch_function_stack()
        pop_dynamic_layer_stack_and_undo_to_depth(before[1])
    assert (left == (before, False)) is mended
