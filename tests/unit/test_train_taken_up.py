"""What a loaded state brings along: how records ran, buffers that torch does not save, and the charge; and what stays
as it was when the step was made.
"""

from dataclasses import replace

import pytest
import torch
from torch import nn

from tacit.core import BadInput, BudgetExceeded
from tacit.loss import Plan
from tacit.train import fit, private
from tacit.train.clip.isolation import UNCOVERED
from tacit.train.course import REPEATED

PLAN = Plan(60, 0.5, 14, 1.0)
DATA = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3


class Deciding(nn.Linear):
    def forward(self, x):
        return super().forward(x) * float(x.abs().sum().item() > 0)


class Features(nn.Module):
    """Random features that torch does not save with the model."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("directions", torch.randn(5, 4), persistent=False)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(torch.tanh(x @ self.directions))


class Paid:
    def __init__(self, room=1) -> None:
        self.keys, self.room = {}, room

    def charge(self, event, *, key, purpose="", analyst=""):
        if key not in self.keys and len(self.keys) == self.room:
            raise BudgetExceeded(1.0, 0.0)
        self.keys[key] = event


def step_of(model=None, ledger=None, optimizer=torch.optim.SGD, **more):
    model = model or nn.Linear(5, 3)
    return private(model, optimizer(model.parameters(), lr=0.1), PLAN, rng=3, ledger=ledger, **more)


def advance(step, upto=PLAN.steps, data=DATA):
    for batch in step.batches(data):
        step(batch)
        if step.done == upto:
            return step
    return step


def flat(step):
    return torch.cat([tensor.detach().flatten() for tensor in step.model.parameters()])


@pytest.mark.filterwarnings("ignore:The model runs one record")
@pytest.mark.parametrize("at", [3, 11, 14])
def test_evidence_of_a_run_that_was_taken_up_says_how_all_records_ran(at) -> None:
    """A step looks at it after 1, 10, 100 ... steps: one that begins at the eleventh would not look again."""
    straight, again = step_of(Deciding(5, 3)), step_of(Deciding(5, 3))
    again.load_state_dict(advance(straight, at).state_dict())
    found = [advance(step).evidence(1e-3) for step in (straight, again)]
    assert all("one at a time" in one.provenance["records"] for one in found)
    assert all(UNCOVERED in one.not_covered for one in found)
    assert (*found[0].not_covered, REPEATED) == found[1].not_covered


@pytest.mark.filterwarnings("ignore:The model runs one record")
def test_evidence_knows_what_was_found_between_two_looks() -> None:
    """Texts of another length may be the first that run one at a time."""

    class Long(nn.Linear):
        def forward(self, x):
            told = float(x.abs().sum().item() > 0) if x.shape[1] > 5 else 1.0
            return super().forward(x[:, :5]) * told

    step = advance(step_of(Long(5, 3)), 3)
    assert "at once" in step.evidence(1e-3).provenance["records"]
    advance(step, 5, (torch.cat((DATA[0], DATA[0]), 1), DATA[1]))
    assert "one at a time" in step.evidence(1e-3).provenance["records"]


def test_records_that_were_read_stay_in_the_evidence() -> None:
    step, again = step_of(), step_of()
    again.load_state_dict(advance(step, data=list(zip(*DATA, strict=True))).state_dict())
    assert again.evidence(1e-3).not_covered == (*step.evidence(1e-3).not_covered, REPEATED)


@pytest.mark.parametrize("at", [0, 5, 14])
def test_buffers_that_torch_does_not_save_go_on_too(at) -> None:
    """With other numbers there the steps since the state was saved would be taken twice, for one charge."""
    straight, again = step_of(Features()), step_of(Features())
    state = straight.state_dict() if not at else advance(straight, at).state_dict()
    again.load_state_dict(state)
    assert torch.equal(again.model.directions, straight.model.directions)
    assert torch.equal(flat(advance(straight)), flat(advance(again)))


def test_a_state_that_is_refused_leaves_unsaved_buffers_as_they_were() -> None:
    step = step_of(Features())
    state, was = advance(step_of(Features()), 3).state_dict(), step.model.directions.clone()
    for damage in ({"unsaved": {"directions": torch.zeros(1)}}, {"unsaved": {}}, {"optimizer": {"param_groups": []}}):
        with pytest.raises(BadInput):
            step.load_state_dict({**state, **damage})
        assert torch.equal(step.model.directions, was)


@pytest.mark.parametrize("at", [5, 14])
def test_evidence_from_a_ledger_that_was_never_charged_charges_it(at) -> None:
    state = advance(step_of(), at).state_dict()
    ledger, full = Paid(), Paid(0)
    step = step_of(ledger=ledger)
    step.load_state_dict(state)
    step.evidence(1e-3)
    assert list(ledger.keys.values()) == [PLAN.event]
    step.evidence(1e-3)
    advance(step).evidence(1e-3)
    assert list(ledger.keys) == [f"train-{step.run}"]
    refused = step_of(ledger=full)
    refused.load_state_dict(state)
    with pytest.raises(BudgetExceeded):
        refused.evidence(1e-3)


class Halved(nn.Sequential):
    """It saves its last layer alone, as adapters do that leave out the weights they were put on."""

    def state_dict(self, *given, **more):
        return {name: value for name, value in super().state_dict(*given, **more).items() if name.startswith("1")}

    def load_state_dict(self, state, *given, **more):
        return super().load_state_dict(state, strict=False)


def test_a_model_that_leaves_out_weights_is_not_gone_on_with() -> None:
    """Its first layer was trained, and a new run went on from untrained ones."""
    step = advance(step_of(Halved(nn.Linear(5, 4), nn.Linear(4, 3))), 3)
    state = step.state_dict()
    step.load_state_dict(state)
    again = step_of(Halved(nn.Linear(5, 4), nn.Linear(4, 3)))
    before = flat(again)
    with pytest.raises(BadInput, match="did not load the weights that it saved"):
        again.load_state_dict(state)
    assert torch.equal(before, flat(again))


def test_nothing_is_charged_for_evidence_before_the_first_step() -> None:
    ledger = Paid()
    step_of(ledger=ledger).evidence(1e-3)
    assert not ledger.keys


def test_a_ledger_that_is_given_between_two_steps_is_charged() -> None:
    first, second = Paid(), Paid()
    step = advance(step_of(ledger=first), 3)
    step.ledger = second
    advance(step, 4)
    assert list(first.keys) == list(second.keys)


@pytest.mark.parametrize("name", ["model", "optimizer", "plan", "loss", "speed", "augment", "noise"])
def test_what_a_step_was_made_of_stays(name) -> None:
    """A longer plan would go on for the charge of the first one; another loss would never be called."""
    step = step_of()
    other = replace(PLAN, steps=100) if name == "plan" else getattr(step_of(), name)
    with pytest.raises(BadInput, match=f"The {name} of a private step"):
        setattr(step, name, other)
    assert advance(step).done == PLAN.steps


def test_no_state_is_saved_while_the_optimizer_steps() -> None:
    """A signal handler or a thread would save parameters of which some were moved already."""
    seen = []

    class Saving(torch.optim.SGD):
        def step(self, closure=None):
            with pytest.raises(BadInput, match="being taken"):
                self.owner.state_dict()
            seen.append(super().step(closure))

    step = step_of(optimizer=Saving)
    step.optimizer.owner = step
    advance(step, 2)
    assert len(seen) == 2
    assert step.state_dict()["done"] == 2


@pytest.mark.parametrize("at", [1, 5, 13, 14])
def test_settings_of_a_model_that_a_schedule_moved_go_on_where_they_were(at, tmp_path) -> None:
    """A dropout rate that follows the step began anew, and steps since the checkpoint were taken otherwise."""

    class Stop(Exception):
        pass

    def moving(stop):
        def move(step, info):
            step.model[1].p = step.done / 30
            if step.done == stop:
                raise Stop

        return move

    def run(path=None, stop=0):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.2), nn.Linear(8, 3))
        return fit(model, DATA, replace(PLAN, steps=30), rng=3, checkpoint=path, progress=moving(stop))

    whole, path = run(), tmp_path / "run.ckpt"
    with pytest.raises(Stop):
        run(path, stop=2 * at)
    again = run(path)
    assert whole.history == again.history
    assert all(map(torch.equal, whole.model.parameters(), again.model.parameters()))
    assert again.model[1].p == 1.0


def test_the_mode_of_a_model_and_what_a_process_calls_its_own_stay() -> None:
    step, again = step_of(), step_of()
    step.model.path, again.model.path = "/there", "/here"
    step.model.eval()
    again.load_state_dict(step.state_dict())
    assert (again.model.training, again.model.path) == (True, "/here")
