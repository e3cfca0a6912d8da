"""A saved run goes on once, as it began, or not at all: checksums, settings, data, seeds, and numbers of a ledger."""

import copy
import os
import pickle
import stat
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tacit.core import BadInput, Mismatch, NotFinished
from tacit.core.files import Lasting
from tacit.loss import Plan
from tacit.train import checkpoint, fit, private
from tacit.train.course import REPEATED, UNFENCED
from tacit.train.packing import packed, unpacked

PLAN = Plan(60, 0.5, 20, 1.0)
X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
DATA = X, torch.arange(60) % 3


class Numbering:
    """Stands in for a ledger: charges, numbers, marks and ends by key, as `Fence` asks."""

    def __init__(self) -> None:
        self.paid, self.latest, self.marks, self.over = [], {}, {}, set()

    def charge(self, event, *, key, purpose="", analyst=""):
        if key not in self.paid:
            self.paid.append(key)

    def fence(self, key, *, number, step, mark, last=False):
        if key in self.over:
            raise Mismatch("This run has ended; nothing goes on from it.")
        if number is None:
            number = self.latest[key] = self.latest.get(key, 0) + 1
        if number != self.latest[key]:
            raise Mismatch("This run was taken up elsewhere.")
        if self.marks.setdefault((key, step), mark) != mark:
            raise Mismatch("This run went on otherwise before.")
        if last:
            self.over.add(key)
        return number


class Stop(Exception):
    pass


def small(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


def step_of(ledger=None, lr=0.2, rng=3, plan=PLAN, **more):
    model = small()
    return private(
        model, torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9), plan, rng=rng, ledger=ledger, **more
    )


def advance(step, upto, data=DATA):
    for batch in step.batches(data):
        step(batch)
        if step.done == upto:
            return


def stopping(at):
    def stop(step, info):
        if step.done == at:
            raise Stop

    return stop


def run(path, *, stop=None, data=DATA, **more):
    asked = {"rng": 3, "checkpoint": path, "progress": stopping(stop), **more}
    return fit(small(), data, asked.pop("plan", PLAN), **asked)


def flat(model):
    return torch.cat([tensor.detach().flatten() for tensor in model.parameters()])


@pytest.mark.parametrize("at", [1, 2, 9, 19, 20])
def test_a_run_that_was_stopped_anywhere_ends_as_if_it_had_not(tmp_path, at) -> None:
    path = tmp_path / "run.ckpt"
    whole = run(None)
    with pytest.raises(Stop):
        run(path, stop=at)
    again = run(path)
    assert torch.equal(flat(whole.model), flat(again.model))
    assert whole.history == again.history
    assert not path.exists()


def test_a_lasting_checkpoint_gives_the_ended_run_back(tmp_path) -> None:
    path = tmp_path / "run.ckpt"
    first, second = (run(Lasting(path), average="tail") for _ in range(2))
    assert torch.equal(flat(first.model), flat(second.model))
    assert first.history == second.history
    assert path.exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def sgd(lr):
    def make(model):
        return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    return make


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"data": (X + 1e-6, DATA[1])}, "other data"),
        ({"data": (X, (DATA[1] + 1) % 3)}, "other data"),
        ({"optimizer": 0.3}, "optimizer.lr was 0.2 and is now 0.3"),
        ({"rng": 4}, "another seed"),
        ({"plan": Plan(60, 0.5, 20, 0.5)}, "another plan: plan.noise_multiplier was 1.0 and is now 0.5"),
        ({"loss": lambda model, batch: model(batch[0]).sum(1)}, "loss is not the same"),
        ({"average": "ema"}, "average"),
        ({"noise": "grid"}, "noise was float32 and is now grid"),
    ],
)
def test_other_settings_or_data_are_named_and_the_checkpoint_stays(tmp_path, change, named) -> None:
    path = tmp_path / "run.ckpt"
    with pytest.raises(Stop):
        run(path, stop=8)
    before = path.read_bytes()
    model = small()
    if "optimizer" in change:
        change = {"optimizer": torch.optim.SGD(model.parameters(), lr=change["optimizer"], momentum=0.9)}
    asked = {"rng": 3, "checkpoint": path, **change}
    with pytest.raises(BadInput, match=named):
        fit(model, asked.pop("data", DATA), asked.pop("plan", PLAN), **asked)
    assert path.read_bytes() == before


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory) -> bytes:
    """The checkpoint of a run that was stopped."""
    path = tmp_path_factory.mktemp("unfinished") / "run.ckpt"
    with pytest.raises(Stop):
        run(path, stop=8)
    return path.read_bytes()


@pytest.mark.parametrize("place", np.linspace(0, 1, 23).tolist())
def test_a_flipped_bit_or_a_cut_is_refused_and_nothing_is_lost(tmp_path, unfinished, place) -> None:
    path = tmp_path / "run.ckpt"
    whole = bytearray(unfinished)
    at = int(place * (len(whole) - 1))
    for data in (whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :], whole[:at]):
        path.write_bytes(data)
        with pytest.raises(BadInput, match=r"run\.ckpt is (damaged|not a checkpoint)"):
            run(path)
        assert path.read_bytes() == data


def test_plain_values_and_tensors_survive_packing() -> None:
    state = {
        "a": torch.arange(6, dtype=torch.int16).reshape(2, 3), "b": [1.5, float("inf"), None, True, "x"],
        "c": {0: (1, 2), "k": b"\x00\xff"}, "d": torch.empty(0), "f": 2**80,
        "e": torch.tensor(2.0, dtype=torch.bfloat16),
    }  # fmt: skip
    again = unpacked(bytearray(b"".join(bytes(part) for part in packed(state))), "s")
    assert repr(again) == repr(state)
    assert again["e"].dtype == torch.bfloat16
    with pytest.raises(BadInput, match="cannot be saved"):
        b"".join(packed({"a": object()}))


def test_a_full_disk_ends_a_run_with_one_sentence_and_the_last_checkpoint_stays(tmp_path, monkeypatch) -> None:
    path = tmp_path / "run.ckpt"
    whole, real, calls = run(None), os.fsync, []

    def full(handle):
        calls.append(1)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotFinished, match=r"run\.ckpt cannot be written: the disk is full\."):
        run(path)
    assert [file.name for file in tmp_path.iterdir()] == ["run.ckpt"]
    assert torch.equal(flat(run(path).model), flat(whole.model))


def test_every_continuation_takes_a_number_and_an_identical_one_may_end(tmp_path) -> None:
    ledger, path = Numbering(), tmp_path / "run.ckpt"
    for at in (3, 11):
        with pytest.raises(Stop):
            run(path, stop=at, ledger=ledger)
    found = run(path, ledger=ledger)
    (key,) = ledger.paid
    assert ledger.latest == {key: 3}
    assert ledger.over == {key}
    assert UNFENCED not in found.evidence.not_covered


def test_from_one_state_comes_one_model() -> None:
    """Five models with other learning rates came of one state and one charge: now one ends, the others are refused."""
    ledger = Numbering()
    step = step_of(ledger)
    advance(step, 5)
    state = step.state_dict()

    def go_on(lr):
        again = step_of(ledger)
        again.load_state_dict(state)
        again.optimizer.param_groups[0]["lr"] = lr
        advance(again, PLAN.steps)
        return again.evidence(1e-5)

    assert go_on(0.2).claim is not None
    for lr in (0.1, 0.2, 0.4):
        with pytest.raises(Mismatch, match="ended"):
            go_on(lr)
    assert len(ledger.paid) == 1


def test_a_continuation_that_differs_is_refused_at_the_next_public_place() -> None:
    ledger = Numbering()
    step = step_of(ledger)
    advance(step, 5)
    state = step.state_dict()
    for lr, upto in ((0.2, 12), (0.3, PLAN.steps)):
        again = step_of(ledger)
        again.load_state_dict(state)
        again.optimizer.param_groups[0]["lr"] = lr
        if lr == 0.2:
            advance(again, upto)
            continue
        with pytest.raises(Mismatch, match="otherwise"):
            advance(again, upto)
        assert again.done == 6


def test_a_continuation_that_was_overtaken_gets_no_evidence() -> None:
    ledger = Numbering()
    step = step_of(ledger)
    advance(step, 5)
    state = step.state_dict()
    other = step_of(ledger)
    other.load_state_dict(state)
    advance(other, 6)
    with pytest.raises(Mismatch, match="elsewhere"):
        step.evidence(1e-5)


def test_what_cannot_be_fenced_is_said() -> None:
    step = step_of()
    advance(step, PLAN.steps)
    assert UNFENCED not in step.evidence(1e-5).not_covered
    step.state_dict()
    assert UNFENCED in step.evidence(1e-5).not_covered

    class Plain:
        def charge(self, event, **_):
            pass

    charged = step_of(Plain())
    advance(charged, 2)
    charged.state_dict()
    assert UNFENCED in charged.evidence(1e-5).not_covered


@pytest.mark.parametrize("fenced", [True, False])
def test_what_was_published_of_steps_that_are_taken_again_is_not_covered(fenced) -> None:
    """Between two of the ten places a ledger does not see a continuation under another learning rate."""
    plan, models = Plan(60, 0.5, 50, 1.0), []
    ledger = Numbering() if fenced else None
    step = step_of(ledger, plan=plan)
    advance(step, 6)
    state = step.state_dict()
    assert REPEATED not in step.evidence(1e-5).not_covered
    for lr in (0.3, 0.2):
        again = step_of(ledger, plan=plan)
        again.load_state_dict(state)
        again.optimizer.param_groups[0]["lr"] = lr
        advance(again, 9)
        models.append(flat(again.model))
    advance(again, plan.steps)
    assert REPEATED in again.evidence(1e-5).not_covered
    assert not torch.equal(*models)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_step_is_neither_copied_nor_pickled(how) -> None:
    step = step_of()
    advance(step, 3)
    with pytest.raises(BadInput, match="for one charge"):
        how(step)


def test_states_of_the_wrong_shape_are_refused_with_a_sentence() -> None:
    state = step_of().state_dict()
    for name in state:
        for value in (None, 3, "x", [], {}, torch.zeros(2)):
            if name == "device_dropout" or (name, value) == ("noise", []) or name == "schema":
                continue
            try:
                step_of().load_state_dict({**state, name: value})
            except BadInput:
                continue
            except Exception as error:
                raise AssertionError((name, value)) from error
    with pytest.raises(BadInput, match="damaged"):
        step_of().load_state_dict({key: value for key, value in state.items() if key != "model"})


def test_a_batch_that_another_step_drew_is_refused() -> None:
    """It was drawn, and paid for, under another plan; the step that took it would have charged nothing."""
    ledgers = Numbering(), Numbering()
    first, second = (step_of(ledger) for ledger in ledgers)
    for batch in first.batches(DATA):
        with pytest.raises(BadInput, match="its own `batches`"):
            second(batch)
        with pytest.raises(BadInput, match="its own `batches`"):
            first(replace(batch, index=batch.index[:1]))
        first(batch)
        if first.done == 2:
            break
    assert (len(ledgers[0].paid), len(ledgers[1].paid), second.done) == (1, 0, 0)


def test_a_state_is_a_copy_to_which_the_same_step_can_go_back() -> None:
    """It was the live tensors: after a rollback, the next step was repeated from other weights, with other noise."""
    step = step_of()
    advance(step, 3)
    state, ends = step.state_dict(), []
    for _ in range(2):
        advance(step, 6)
        ends.append(flat(step.model))
        step.load_state_dict(state)
    assert torch.equal(*ends)


def test_batches_that_were_asked_for_before_a_state_was_loaded_compare_their_data() -> None:
    """In another order, a record of a pass that has begun could take part in it twice."""
    plan = Plan(60, 0.25, 8, 1.0, sampling="shuffled", adjacency="replace")
    step = step_of(plan=plan)
    advance(step, 2)
    state = step.state_dict()
    for order, right in ((torch.arange(60), True), (torch.arange(60).flip(0), False)):
        again = step_of(plan=plan)
        batches = again.batches((DATA[0][order], DATA[1][order]))
        again.load_state_dict(state)
        if right:
            again(next(batches))
            continue
        with pytest.raises(BadInput, match="in another order"):
            next(batches)


@pytest.mark.parametrize("call", ["step", "save", "load"])
def test_a_step_that_is_under_way_is_taken_by_nobody_else(call, monkeypatch) -> None:
    """Three threads with one batch released three sums of it, and counted three steps."""
    step, found = step_of(), []
    batch, state = next(step.batches(DATA)), step.state_dict()
    calls = {"step": lambda: step(batch), "save": step.state_dict, "load": lambda: step.load_state_dict(state)}
    real = step._release.hand_over

    def meanwhile(noisy):
        with pytest.raises(BadInput, match="in another thread"):
            calls[call]()
        found.append(real(noisy))

    monkeypatch.setattr(step._release, "hand_over", meanwhile)
    step(batch)
    assert (step.done, len(found)) == (1, 1)
    step.state_dict()


def test_a_state_that_is_refused_leaves_the_step_as_it_was() -> None:
    """Weights of the saved run stayed, in a run that had another name and another secret."""
    plan = Plan(60, 0.25, 8, 1.0, sampling="cyclic", adjacency="replace", bands=3)
    step = step_of(plan=plan)
    advance(step, 2)
    state = step.state_dict()
    for name in state.keys() - {"device_dropout", "metadata", "optimizer_terms"}:
        again = step_of(plan=plan)
        before, generator, key = flat(again.model), torch.get_rng_state(), again.course.key
        for damaged in ({part: state[part] for part in state.keys() - {name}}, {**state, name: []}):
            with pytest.raises(BadInput):
                again.load_state_dict(damaged)
        assert torch.equal(before, flat(again.model))
        assert torch.equal(generator, torch.get_rng_state())
        assert (again.course.key, again.done, dict(again.optimizer.state)) == (key, 0, {})


def test_a_file_of_another_kind_is_named(tmp_path) -> None:
    path = tmp_path / "x.ckpt"
    torch.save({"schema": "tacit.private-step/1"}, path)
    with pytest.raises(BadInput, match=r"x\.ckpt is not a checkpoint of this version"):
        checkpoint.read(path)
    with pytest.raises(BadInput, match="not an ordinary file"):
        checkpoint.read("/dev/zero")


def test_a_process_that_ends_while_it_destroys_a_checkpoint_leaves_none(tmp_path, monkeypatch):
    """What is half overwritten is not taken for a checkpoint: the run can start again, and sweeps it away."""
    path = tmp_path / "run.secret"

    class Killed(BaseException):
        pass

    def kill(handle):
        raise Killed

    path.write_bytes(b"secret" * 100)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", kill)
        with pytest.raises(Killed):
            checkpoint.destroy(path)
    assert not path.exists()
    assert list(tmp_path.iterdir()) == [tmp_path / "run.secret.gone"]
    checkpoint.forget(path)
    assert not list(tmp_path.iterdir())


def test_two_processes_that_clear_up_the_same_remains_do_not_mind_each_other(tmp_path, monkeypatch):
    """Both see what a third left behind; one of them removes it first."""
    left = tmp_path / "run.secret.gone"
    left.write_bytes(b"secret")
    synced = os.fsync

    def meanwhile(handle: int) -> None:
        synced(handle)
        left.unlink(missing_ok=True)

    monkeypatch.setattr(os, "fsync", meanwhile)
    checkpoint.forget(tmp_path / "run.secret")
    assert not left.exists()
