"""What is refused, in one sentence each, and before anything private is touched."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import Augment, Speed, fit, private, replace_batch_norm, rules
from tacit.train.clip import Clipper, Compiled
from train_zoo import CLASSES, Use, classify, furthest, naive, parameter, trainable

PLAN = Plan(100, 0.1, 5, 1.0)
DATA = torch.randn(100, 5), torch.randint(0, CLASSES, (100,))


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(zip(*DATA, strict=True))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def clip(model: nn.Module, x: torch.Tensor) -> object:
    batch = x, torch.zeros(len(x), dtype=torch.long)
    return Clipper(model, classify, trainable(model), 1.0)(batch, torch.ones(len(x), dtype=torch.bool))


def test_batch_norm_is_refused_with_its_replacement() -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, CLASSES))
    with pytest.raises(BadInput, match="replace_batch_norm"):
        private(model, sgd(model), PLAN)
    with pytest.raises(BadInput, match="mixes the examples"):
        clip(
            Use(lambda m, x: F.batch_norm(m.a(x), None, None, training=True), a=nn.Linear(5, CLASSES)),
            torch.randn(4, 5),
        )
    replaced = replace_batch_norm(model)
    assert isinstance(replaced[1], nn.GroupNorm)
    private(replaced, sgd(replaced), PLAN)


@pytest.mark.parametrize(
    "run",
    [
        lambda m, x: m.a(x - x.mean(0)),
        lambda m, x: m.a(x) / x.std(),
        lambda m, x: torch.softmax(m.a(x), 0),
        lambda m, x: m.a(x + x.flip(0)),
    ],
)
def test_a_model_that_mixes_examples_is_refused(run) -> None:
    with pytest.raises(BadInput, match="other examples"):
        clip(Use(run, a=nn.Linear(5, CLASSES)), torch.randn(6, 5))


@pytest.mark.parametrize(
    "run",
    [
        lambda m, x: m.a(x - x.mean(0) + torch.rand_like(x)),
        lambda m, x: m.a(0.7 * x + 0.3 * x[torch.randperm(len(x))]),
        lambda m, x: torch.softmax(m.a(x + torch.randn_like(x)), 0),
    ],
)
def test_a_model_that_mixes_examples_and_draws_numbers_of_its_own_is_refused(run) -> None:
    """Its examples have other gradients alone; with the same numbers drawn, and one of them another, they must not."""
    with pytest.raises(BadInput, match=r"other examples|shuffled"):
        clip(Use(run, a=nn.Linear(5, CLASSES)), torch.randn(6, 5))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_model_that_draws_numbers_for_each_example_is_taken(kind) -> None:
    for run in (
        lambda m, x: m.a(m.r(x)[0].mean(1) + torch.randn(len(x), 6)),
        lambda m, x: m.a(m.r(x * (torch.rand_like(x) < 0.8))[0].mean(1)),
    ):
        model = Use(run, r=kind(5, 6, 2, dropout=0.5, batch_first=True), a=nn.Linear(6, CLASSES))
        clip(model, torch.randn(4, 3, 5))


def alone(model: nn.Module, x: torch.Tensor) -> str:
    """Clip one record at a time, exactly; and why."""
    torch.manual_seed(0)
    batch = x, torch.arange(len(x)) % CLASSES
    clipper = Clipper(model, classify, trainable(model), 0.5)
    found = clipper(batch, torch.ones(len(x), dtype=torch.bool))
    sums, norms = naive(model, classify, batch, 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-7)
    assert furthest(found.sums, sums) < 1e-5
    (structure,) = clipper.structures.values()
    assert not structure.together
    return structure.reason


def test_a_parameter_used_where_nobody_sees_it_runs_one_record_at_a_time() -> None:
    class Hidden(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight

        @staticmethod
        def backward(ctx, gradient):
            x, weight = ctx.saved_tensors
            return gradient @ weight.t(), x.t() @ gradient

    model = Use(lambda m, x: Hidden.apply(m.a(x), m.secret), a=nn.Linear(5, 4), secret=parameter(4, CLASSES))
    assert "autograd function" in alone(model, torch.randn(4, 5))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences_run_one_record_at_a_time(kind) -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = kind(5, CLASSES, batch_first=True)

        def forward(self, x):
            rows = nn.utils.rnn.pack_padded_sequence(x, [2] * len(x), batch_first=True)
            state = self.words(rows)[1]
            return (state[0] if kind is nn.LSTM else state)[-1]

    assert alone(Packed(), torch.randn(4, 3, 5))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize("how", ["in place", "past its history", "anew", "into a parameter"])
def test_a_buffer_that_learns_is_refused(how: str, random: bool, compiled: bool, monkeypatch) -> None:
    """Also where the model draws numbers of its own, so that its compiled step is not compared with the eager one."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(5, CLASSES)
            self.register_buffer("seen", torch.zeros(5))

        def forward(self, x):
            found = x.detach().sum(0)
            if how == "in place":
                self.seen += found
            elif how == "past its history":
                self.seen.data.copy_(found)
            elif how == "anew":
                self.seen = self.seen + found
            else:
                self.a.bias.data.add_(found[:CLASSES])
            return self.a(x + torch.rand_like(x) if random else x)

    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    model = Counting()
    clipper = Clipper(model, classify, trainable(model), 1.0)
    batch = torch.randn(4, 5), torch.arange(4) % CLASSES
    with pytest.raises(BadInput, match="carry data past the noise"):
        (Compiled(clipper) if compiled else clipper)(batch, torch.ones(4, dtype=torch.bool))


def test_a_model_that_remembers_is_refused() -> None:
    """Its statistics are no buffer; one record would move the sums of later steps by any amount."""

    class Centred(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.mean = nn.Linear(5, CLASSES), torch.zeros(5)

        def forward(self, x):
            centred = x - self.mean
            self.mean = 0.99 * self.mean + 0.01 * x.detach().mean(0)
            return self.a(centred)

    with pytest.raises(BadInput, match="kept from an earlier call"):
        clip(Centred(), torch.randn(4, 5))
    clip(Use(lambda m, x: m.a(x + torch.randn_like(x)), a=nn.Linear(5, CLASSES)), torch.randn(4, 5))


def test_the_loss_must_be_one_number_per_example() -> None:
    model = nn.Linear(5, CLASSES)
    clipper = Clipper(model, lambda m, b: F.cross_entropy(m(b[0]), b[1]), trainable(model), 1.0)
    with pytest.raises(BadInput, match="one number per example"):
        clipper((DATA[0][:4], DATA[1][:4]), torch.ones(4, dtype=torch.bool))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ((torch.randn(120, 5), torch.zeros(120, dtype=torch.long)), "public_size"),
        ((torch.randn(100, 5), torch.zeros(99, dtype=torch.long)), "same number of rows"),
        (torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*DATA)), "DataLoader"),
        ("data.csv", "got str"),
        (Stream(), "got Stream"),
    ],
)
def test_data_that_does_not_fit_is_refused(data, sentence) -> None:
    model = nn.Linear(5, CLASSES)
    before = model.weight.clone()
    with pytest.raises(BadInput, match=sentence):
        fit(model, data, PLAN)
    assert torch.equal(model.weight, before)


def test_a_refusal_tells_no_private_number() -> None:
    with pytest.raises(BadInput) as caught:
        fit(nn.Linear(5, CLASSES), (torch.randn(117, 5), torch.zeros(117, dtype=torch.long)), PLAN)
    assert "117" not in str(caught.value)


def test_optimizer_and_model_must_belong_together() -> None:
    model, other = nn.Linear(5, CLASSES), nn.Linear(5, CLASSES)
    with pytest.raises(BadInput, match="not the model's"):
        private(model, sgd(other), PLAN)
    optimizer = sgd(model)
    model.requires_grad_(False)
    with pytest.raises(BadInput, match="No parameter"):
        private(model, optimizer, PLAN)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_compiled_models_and_line_searches_are_refused() -> None:
    model = nn.Linear(5, CLASSES)
    with pytest.raises(BadInput, match="compiled already"):
        private(torch.compile(model, backend="eager"), sgd(model), PLAN)
    with pytest.raises(BadInput, match="LBFGS"):
        private(model, torch.optim.LBFGS(model.parameters()), PLAN)
    with pytest.raises(BadInput, match="Use Adam"):
        private(model, torch.optim.SparseAdam(model.parameters()), PLAN)
    with pytest.raises(BadInput, match="by a closure"):
        private(model, AsksTwice(model.parameters()), PLAN)


@dataclass
class Row:
    """A record as a dataclass."""

    x: torch.Tensor
    y: torch.Tensor


def test_dataclasses_are_refused_as_data_with_what_to_give() -> None:
    model = nn.Linear(5, CLASSES)
    step = private(model, sgd(model), PLAN)
    with pytest.raises(BadInput, match=r"got Row\. Give \(x, y\), a dict of tensors"):
        step.batches(Row(*DATA))
    with pytest.raises(BadInput, match="other than numbers"):
        next(step.batches([Row(x, y) for x, y in zip(*DATA, strict=True)]))


class GrowsItsTable(nn.Module):
    """Its table of positions is resized in place in the first pass."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(5, CLASSES)
        self.register_buffer("table", torch.empty(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(self.table) < x.shape[1]:
            self.table.resize_(x.shape[1]).copy_(torch.arange(x.shape[1]))
        return self.head(x + self.table)


def test_a_buffer_that_is_resized_in_a_pass_is_named() -> None:
    """It was an error of torch about sizes."""
    model = GrowsItsTable()
    with pytest.raises(BadInput, match="changes buffer table"):
        clip(model, DATA[0][:3])
    assert model.table.shape == (0,)


class AsksTwice(torch.optim.SGD):
    """As sharpness-aware optimizers do."""

    def step(self, closure):
        return super().step(closure)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_scripted_layer_is_refused_in_one_sentence() -> None:
    model = nn.Sequential(torch.jit.script(nn.Linear(5, 4)), nn.Linear(4, CLASSES))
    step = private(model, sgd(model), PLAN)
    with pytest.raises(BadInput, match=r"ScriptMethod, which cannot be put back.*torch\.export may stay"):
        step(next(step.batches((torch.zeros(PLAN.public_size, 5), torch.zeros(PLAN.public_size).long()))))


def test_a_model_that_objects_to_some_values_runs_one_record_at_a_time() -> None:
    """And a record that it objects to contributes nothing, while the others contribute what they would."""

    def run(m, x):
        if (x[:, 0] < 2).any():
            raise ValueError("ids start at two")
        return m.a(m.e(x)).mean(1)

    model = Use(run, e=nn.Embedding(7, 5), a=nn.Linear(5, CLASSES))
    clipper = Clipper(model, classify, trainable(model), 1.0)
    ids, labels = torch.randint(2, 7, (3, 4)), torch.zeros(3, dtype=torch.long)
    every = torch.ones(3, dtype=torch.bool)
    expected = clipper((ids, labels), every & (torch.arange(3) != 1))
    ids[1, 0] = 0
    found = clipper((ids, labels), every)
    assert not next(iter(clipper.structures.values())).together
    assert furthest(found.sums, expected.sums) == 0
    assert found.norms[1].isinf()


@pytest.mark.parametrize("how", ["writes a parameter", "returns two losses"])
def test_a_record_that_does_something_else_contributes_nothing(how: str) -> None:
    """One record at a time, by its values alone: what it wrote is undone, and the others give what they would."""

    def run(m, x):
        if bool((x > 3).any()):
            if how == "returns two losses":
                return m.a(torch.cat((x, x)))
            with torch.no_grad():
                m.a.bias.add_(x[0, :CLASSES])
        return m.a(x)

    model = Use(run, a=nn.Linear(5, CLASSES))
    clipper = Clipper(
        model,
        lambda m, b: F.cross_entropy(m(b[0]), b[1].repeat(len(m(b[0])) // len(b[1])), reduction="none"),
        trainable(model),
        1.0,
    )
    x, y = torch.rand(3, 5), torch.zeros(3, dtype=torch.long)
    every = torch.ones(3, dtype=torch.bool)
    expected = clipper((x, y), every & (torch.arange(3) != 1))
    x[1, 0] = 9.0
    bias = model.a.bias.detach().clone()
    found = clipper((x, y), every)
    assert torch.equal(model.a.bias, bias)
    assert furthest(found.sums, expected.sums) == 0


def test_every_batch_is_stepped_exactly_once() -> None:
    model = nn.Linear(5, CLASSES)
    step = private(model, sgd(model), PLAN, rng=0)
    batches = step.batches(DATA)
    first = next(batches)
    with pytest.raises(BadInput, match="exactly once"):
        next(batches)
    step(first)
    with pytest.raises(BadInput, match="just gave"):
        step(first)
    with pytest.raises(BadInput, match="just gave"):
        step(DATA)


@pytest.mark.parametrize(
    "wrong",
    [{"physical_batch": 0}, {"compile": "yes"}, {"precision": "float16"}, {"compile": True, "checkpointing": True}],
)
def test_speed_is_checked(wrong) -> None:
    with pytest.raises(BadInput):
        Speed(**wrong)


def test_running_statistics_are_refused() -> None:
    model = nn.Sequential(nn.Conv1d(1, 2, 3), nn.InstanceNorm1d(2, affine=True, track_running_stats=True))
    with pytest.raises(BadInput, match="running statistics"):
        private(model, sgd(model), PLAN)


def test_rules_name_every_parameter() -> None:
    model = Use(
        lambda m, x: x,
        a=nn.Linear(2, 2),
        b=nn.BatchNorm1d(2),
        c=parameter(2),
        d=nn.Embedding(3, 2),
        e=nn.Conv2d(1, 1, 1),
    )
    model.a.weight.requires_grad_(False)
    found = dict(rules(model))
    assert set(found) == {name for name, _ in model.named_parameters()}
    assert found["a.weight"] == "frozen"
    assert found["a.bias"] == "linear"
    assert found["b.weight"].startswith("refused")
    assert found["c"] == "by the operations that use it"
    assert (found["d.weight"], found["e.weight"]) == ("embedding", "convolution")


def test_arrays_are_taken_as_they_come() -> None:
    x, y = np.random.default_rng(0).normal(size=(100, 5)), np.arange(100) % CLASSES
    trained = fit(nn.Linear(5, CLASSES), (x, y), PLAN, rng=0)
    assert len(trained.history) == PLAN.steps


@pytest.mark.parametrize("compiled", [False, True])
def test_code_that_decides_by_values_runs_one_record_at_a_time(compiled: bool, monkeypatch) -> None:
    """As a library skips a mask that leaves nothing out: by the record's own values, never by another's."""

    def run(m, x):
        return m.a(x) if bool((x > 0).all()) else m.a(x * (x > 0)) * m.b

    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    model = Use(run, a=nn.Linear(5, CLASSES), b=parameter(1))
    clipper = Clipper(model, classify, trainable(model), 1.0)
    x = torch.cat((torch.rand(2, 5) + 0.1, torch.randn(2, 5)))
    batch = x, torch.arange(4) % CLASSES
    found = (Compiled(clipper) if compiled else clipper)(batch, torch.ones(4, dtype=torch.bool))
    torch.testing.assert_close(found.norms.double(), naive(model, classify, batch, 1.0)[1])
    assert "decides by the values" in next(iter(clipper.structures.values())).reason


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"model": None}, "model must be a torch module, got NoneType"),
        ({"plan": (3, 1e-5)}, "plan must be a Plan, got tuple"),
        ({"optimizer": "sgd"}, "optimizer must be a torch optimizer"),
        ({"optimizer": torch.optim.SGD}, "optimizer must be a torch optimizer"),
        ({"speed": "fast"}, "speed must be a Speed"),
        ({"augment": lambda batch: batch}, "augment must be an Augment"),
        ({"loss": nn.CrossEntropyLoss()}, "called as loss"),
        ({"model": nn.Identity()}, "No parameter of the model is trainable"),
        ({"checkpoint": "no/such/folder/run.ckpt"}, "no folder"),
        ({"data": (DATA[0], DATA[1].float())}, "cannot be computed: expected target dtype"),
        ({"data": (DATA[0][:, :4], DATA[1])}, "cannot be computed: mat1 and mat2"),
        ({"data": {"x": DATA[0]}}, "cannot be computed: not enough values"),
        (
            {"model": Use(lambda m, x: {"logits": m.a(x)}, a=nn.Linear(5, CLASSES))},
            "cannot be computed: .* must be Tensor",
        ),
        (
            {"model": Use(lambda m, x: m.a(x)[:, 0], a=nn.Linear(5, 1))},
            "cannot be computed: Expected floating point type",
        ),
    ],
)
def test_typical_mistakes_get_a_sentence_before_any_step(given, sentence: str) -> None:
    model = nn.Linear(5, CLASSES)
    before = model.weight.clone()
    given = {"model": model, "data": DATA, "plan": PLAN, **given}
    with pytest.raises(BadInput, match=sentence) as caught:
        fit(given.pop("model"), given.pop("data"), given.pop("plan"), rng=0, **given)
    assert torch.equal(model.weight, before)
    assert "7" not in str(caught.value).replace("int64", "")


def test_labels_of_any_width_are_taken() -> None:
    for kind in ("int16", "int32", "int64", "uint8"):
        fit(nn.Linear(5, CLASSES), (DATA[0].numpy(), DATA[1].numpy().astype(kind)), PLAN, rng=0)


def test_gradients_from_before_move_nothing() -> None:
    """Also those of a parameter that was frozen afterwards and lies in the optimizer still."""
    model = nn.Linear(5, CLASSES)
    F.cross_entropy(model(DATA[0]), DATA[1]).backward()
    model.weight.requires_grad_(False)
    before = model.weight.clone()
    step = private(model, sgd(model), PLAN, rng=0)
    for batch in step.batches(DATA):
        step(batch)
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize("shape", [(1, 5), (3, 1), ()])
def test_a_parameter_whose_entries_share_memory_is_refused(shape: tuple[int, ...]) -> None:
    """Torch raised an error of its own in the first step."""
    model = nn.Linear(5, 3)
    model.weight = nn.Parameter(torch.zeros(shape).expand(3, 5))
    with pytest.raises(BadInput, match="Parameter weight holds several of its entries in one place"):
        private(model, sgd(model), PLAN)


CHANGES = {
    "unfrozen": (lambda m: m[0].weight.requires_grad_(True), "Parameter 0.weight was unfrozen or added"),
    "added": (lambda m: m[0].register_parameter("more", parameter(1)), "Parameter 0.more was unfrozen or added"),
    "a module added": (lambda m: m.add_module("new", nn.Linear(2, 2)), "Parameter new.weight was unfrozen or added"),
    "a module replaced": (lambda m: m.__setitem__(0, nn.Linear(5, 8)), "Parameter 0.weight was unfrozen or added"),
    "a tensor replaced": (lambda m: setattr(m[0], "weight", parameter(8, 5)), "Parameter 0.weight was unfrozen"),
    "a module taken out": (lambda m: m.__delitem__(2), "taken out of the model"),
    "other numbers": (lambda m: m.bfloat16(), "2.weight has another dtype"),
    "another shape": (
        lambda m: setattr(m[2].weight, "data", torch.zeros(CLASSES, 9)),
        "2.weight has another dtype, shape",
    ),
    "another order in memory": (lambda m: setattr(m[2].weight, "data", torch.zeros(8, CLASSES).T), "memory format"),
    "a trained one frozen": (lambda m: m[2].weight.requires_grad_(False), "frozen or replaced"),
}


def partly_frozen() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    model[0].requires_grad_(False)
    return model


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_model_gains_or_loses_after_the_step_was_made_is_said(change: str) -> None:
    act, said = CHANGES[change]
    model = partly_frozen()
    step = private(model, sgd(model), PLAN, rng=0)
    batches = step.batches(DATA)
    step(next(batches))
    act(model)
    batch = next(batches)
    with pytest.raises(BadInput, match=said):
        step(batch)


def test_an_optimizer_that_is_given_more_is_said() -> None:
    model = partly_frozen()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    step = private(model, optimizer, PLAN, rng=0)
    batch = next(step.batches(DATA))
    optimizer.add_param_group({"params": list(model[0].parameters())})
    with pytest.raises(BadInput, match="optimizer was given other parameters"):
        step(batch)


def test_changes_that_train_nothing_more_are_fine() -> None:
    """Frozen constants exchanged, a module without parameters added, one that never was in the optimizer."""
    model = partly_frozen()
    model.apart = nn.Identity()
    model.apart.scale = parameter(1)
    step = private(model, torch.optim.SGD(model[2].parameters(), lr=0.1), PLAN, rng=0)
    for batch in step.batches(DATA):
        model[0].weight = nn.Parameter(torch.randn(8, 5), requires_grad=False)
        model.cache = nn.Identity()
        step(batch)
    assert step.done == PLAN.steps


def test_a_slice_of_an_output_may_be_written_into() -> None:
    def run(m, x):
        h = m.c(x)
        h[:, :2].relu_()
        return h.mean(2)

    torch.manual_seed(0)
    model = Use(run, c=nn.Conv1d(1, CLASSES, 2))
    batch = torch.randn(4, 1, 5), torch.arange(4) % CLASSES
    found = Clipper(model, classify, trainable(model), 1.0)(batch, torch.ones(4, dtype=torch.bool))
    torch.testing.assert_close(found.norms.double(), naive(model, classify, batch, 1.0)[1], rtol=1e-5, atol=1e-7)


def _negatives_of_the_batch(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    scores = model["user"](batch["user"]) @ model["item"](batch["item"]).T
    return F.cross_entropy(scores, torch.arange(len(scores)), reduction="none")


def _scaled_by_the_sum(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    h = model["user"](batch["user"]).abs()
    return (h / (h.detach().sum() + 1)).sum(1)


def _behind_a_layer_of_zeros(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    h = model["user"](batch["user"])
    return F.cross_entropy(model["zero"](h - h.mean(0)), batch["item"] % 2, reduction="none")


@pytest.mark.parametrize("loss", [_negatives_of_the_batch, _scaled_by_the_sum, _behind_a_layer_of_zeros])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_loss_that_compares_records_by_their_ids_is_refused(loss, shape) -> None:
    """One record at a time such a loss is a constant, and nothing would be learnt from it."""
    model = nn.ModuleDict({"user": nn.Embedding(7, 4), "item": nn.Embedding(20, 4), "zero": nn.Linear(4, 2)})
    nn.init.zeros_(model["zero"].weight)
    count = 8
    batch = {"user": torch.arange(count) % 7, "item": torch.arange(count)}

    def given(m: nn.Module, b: dict[str, torch.Tensor]) -> torch.Tensor:
        return loss(m, {name: one.flatten() for name, one in b.items()})

    clipper = Clipper(model, given, trainable(model), 1.0)
    with pytest.raises(BadInput, match="other examples"):
        clipper.structure({name: one.view(count, *shape) for name, one in batch.items()})


class Mixing(nn.Linear):
    def forward(self, x):
        return super().forward(x - x.mean(0))


UNPAID = {
    "a loss that is a mean": {"loss": lambda model, batch: F.cross_entropy(model(batch[0]), batch[1])},
    "a loss that raises": {"loss": lambda model, batch: model(batch[0]).sum(9)},
    "no loss": {"loss": "cross_entropy"},
    "a model that mixes": {"model": Mixing(5, CLASSES)},
    "a model of another width": {"model": nn.Linear(4, CLASSES)},
    "an augmentation that mixes": {"augment": Augment(lambda batch: (batch[0].flip(0), batch[1]), 2)},
    "no projection": {"project": 5},
    "no progress": {"progress": 5},
    "no delta": {"delta": 1.5},
    "no file": {"checkpoint": ""},
    "records of users that are not given": {"records_per_user": 3},
    "records as a list": {"model": Mixing(5, CLASSES), "data": list(zip(*DATA, strict=True))},
    "records of users": {"model": Mixing(5, CLASSES), "users": range(100), "records_per_user": 2},
}


@pytest.mark.parametrize("given", UNPAID.values(), ids=UNPAID)
def test_what_is_refused_is_refused_before_anything_is_paid(given) -> None:
    """A budget was spent on a mistake in the loss, and a wrong delta was found after the last step."""
    paid = []

    class Ledger:
        def charge(self, *args: object, **more: object) -> None:
            paid.append(args)

    asked = {"model": nn.Linear(5, CLASSES), "data": DATA, "ledger": Ledger(), **given}
    plan = replace(PLAN, unit="user") if "users" in given else PLAN
    with pytest.raises(BadInput):
        fit(asked.pop("model"), asked.pop("data"), plan, **asked)
    assert not paid


def test_a_look_before_the_charge_changes_no_step() -> None:
    class Ledger:
        def charge(self, *args: object, **more: object) -> None:
            """Everything fits."""

    found = []
    for ledger in (None, Ledger()):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, CLASSES))
        fit(model, DATA, PLAN, rng=3, ledger=ledger, augment=Augment(lambda batch: batch, 2))
        found.append(torch.cat([tensor.detach().flatten() for tensor in model.parameters()]))
    assert torch.equal(*found)
