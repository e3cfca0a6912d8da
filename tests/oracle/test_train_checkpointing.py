"""Activations that are computed again: the same clipped sums as the loop over examples, and less memory."""

import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from tacit.core import BadInput
from tacit.loss import PerLayer, Plan
from tacit.train import Speed, private
from tacit.train.clip import Clipper, Compiled, Weigh
from train_zoo import CLASSES, KINDS, ZOO, classify, furthest, naive, trainable

ALL = torch.ones(4, dtype=torch.bool)


def whole(case):
    """The whole model as one checkpointed part."""
    return lambda model, batch: case.loss(lambda *x: checkpoint(model, *x, use_reentrant=False), batch)


class Block(nn.Module):
    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale, self.dropout = nn.Parameter(torch.randn(width)), nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, *, shift: torch.Tensor | None = None) -> torch.Tensor:
        x = x if shift is None else x + shift
        return x + self.back(self.dropout(torch.relu(self.wide(self.norm(x))))) * self.scale


class Tower(nn.Module):
    """Blocks upon blocks, each computed again; what one passes on reaches the next through a closure too."""

    def __init__(self, blocks: int, width: int = 6, *, tied: bool = False, dropout: float = 0.0, again: bool = True):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(blocks))
        self.head, self.again = nn.Linear(width, CLASSES), again
        if tied:
            self.blocks[-1].wide = self.blocks[0].wide
            self.blocks[-1].norm.weight = self.blocks[0].norm.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            shift = torch.tanh(x)

            def run(y, block=block, shift=shift):
                return block(y, shift=shift)

            x = checkpoint(run, x, use_reentrant=False) if self.again else run(x)
        return self.head(x.mean(1))


def tower(**options) -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    model = Tower(3, **options)
    return model, (torch.randn(4, 5, 6), torch.arange(4) % CLASSES)


@pytest.mark.parametrize("name", KINDS)
def test_a_model_of_each_kind_as_one_part_computed_again(name: str) -> None:
    case = ZOO[name]
    torch.manual_seed(1)
    model, batch = case.make(), case.batch(4)
    clipper = Clipper(model, whole(case), trainable(model), 0.5)
    found = clipper(batch, ALL)
    (structure,) = clipper.structures.values()
    assert structure.checkpointed
    sums, norms = naive(model, case.loss, batch, 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-6)
    assert furthest(found.sums, sums) < 1e-5


@pytest.mark.parametrize("tied", [False, True])
def test_parts_with_closures_and_tied_parameters(tied: bool) -> None:
    model, batch = tower(tied=tied)
    found = Clipper(model, classify, trainable(model), 0.5)(batch, ALL)
    sums, norms = naive(model, classify, batch, 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-6)
    assert furthest(found.sums, sums) < 1e-5


def test_compiled_steps_run_parts_as_they_are(monkeypatch) -> None:
    """The traced graph, run without the compiler behind it, is what gets compiled."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    model, batch = tower(tied=True)
    found = Compiled(Clipper(model, classify, trainable(model), 0.5))(batch, ALL)
    sums, norms = naive(model, classify, batch, 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-6)
    assert furthest(found.sums, sums) < 1e-5
    assert all(not torch._subclasses.fake_tensor.is_fake(tensor) for tensor in model.parameters())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_random_numbers_are_the_same_in_every_run(precision: str) -> None:
    """Against the same model that is not checkpointed, from the same random state."""
    found = []
    for again in (True, False):
        model, batch = tower(dropout=0.5, again=again)
        clipper = Clipper(model, classify, trainable(model), 0.5, precision)
        clipper.structure(batch)
        torch.manual_seed(3)
        found.append(clipper(batch, ALL))
        assert next(iter(clipper.structures.values())).checkpointed is again
    torch.testing.assert_close(found[0].norms, found[1].norms, rtol=1e-6, atol=0)
    assert furthest(found[0].sums, found[1].sums) < 1e-6


def test_layers_and_broken_examples_are_weighed_as_ever() -> None:
    found = []
    for again in (True, False):
        model, (x, y) = tower(again=again)
        x[1] = torch.inf
        weigh = Weigh.of(PerLayer(), trainable(model))
        mask = torch.tensor([True, True, False, True])
        found.append(Clipper(model, classify, trainable(model), 0.5, weigh=weigh)((x, y), mask))
    assert not found[0].norms[1].isfinite()
    assert furthest(found[0].sums, found[1].sums) < 1e-6
    torch.testing.assert_close(found[0].norms, found[1].norms, rtol=1e-6, atol=0, equal_nan=True)
    assert torch.equal(found[0].shortened, found[1].shortened)


def test_parts_within_parts() -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Tower(2)

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False, preserve_rng_state=False)

    torch.manual_seed(0)
    model, batch = Nested(), tower()[1]
    found = Clipper(model, classify, trainable(model), 0.5)(batch, ALL)
    assert furthest(found.sums, naive(model, classify, batch, 0.5)[0]) < 1e-5


@pytest.mark.parametrize("leaf", ["input", "frozen table"])
def test_inputs_that_ask_for_a_gradient_of_their_own(leaf: str) -> None:
    """As libraries have it for frozen embeddings: gradients end there, and pass all operations on their way."""

    class Asking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.inner = nn.Embedding(7, 6), Tower(2)
            self.table.weight.requires_grad_(False)

        def forward(self, x):
            x = x if leaf == "input" else self.table(x)
            return self.inner(x.detach().requires_grad_() * 2)

    torch.manual_seed(0)
    model, (x, y) = Asking(), tower()[1]
    batch = (x if leaf == "input" else torch.randint(0, 7, (4, 5)), y)
    found = Clipper(model, classify, trainable(model), 0.5)(batch, ALL)
    sums, norms = naive(model, classify, batch, 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-6)
    assert furthest(found.sums, sums) < 1e-5


def test_losses_that_no_parameter_moves() -> None:
    model, (x, y) = tower()

    def constant(net, rows):
        checkpoint(net, rows[0], use_reentrant=False)
        return rows[0].sum((1, 2))

    found = Clipper(model, constant, trainable(model), 0.5)((x, y), ALL)
    assert not found.norms.any()
    assert not any(part.any() for part in found.sums.values())


def test_operations_that_no_gradient_reached_are_not_left_out_in_silence(monkeypatch) -> None:
    """A parameter measured in no pass and added in the other would not be clipped."""
    from tacit.train.clip.recompute import two_pass as again

    model, batch = tower()
    monkeypatch.setattr(again.Slot, "ready", property(lambda slot: "blocks.1.scale" not in slot.names))
    found = Clipper(model, classify, trainable(model), 0.5)(batch, ALL)  # one record at a time instead
    assert furthest(found.sums, naive(model, classify, batch, 0.5)[0]) < 1e-5


RESTLESS = {
    "large": lambda inner, rng: lambda x: inner(x * (1 + float(rng.normal()))),
    "small": lambda inner, rng: lambda x: inner(x * (1 + 1e-3 * float(rng.normal()))),
    "in another order": lambda inner, rng: lambda x: inner(x[:, rng.permutation(x.shape[1])]),
    "after all parameters": lambda inner, rng: lambda x: inner(x) * torch.as_tensor(rng.normal(size=CLASSES)).float(),
}


@pytest.mark.parametrize("how", RESTLESS)
def test_a_part_with_random_numbers_of_its_own_runs_alone_and_never_in_two_passes(how: str, monkeypatch) -> None:
    """What was measured must be what is added: numbers that torch does not draw are others in every run."""
    rng = np.random.default_rng(0)

    class Restless(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Tower(1, again=False)

        def forward(self, x):
            return checkpoint(RESTLESS[how](self.inner, rng), x, use_reentrant=False)

    model, batch = Restless(), tower()[1]
    assert "rng" in Clipper(model, classify, trainable(model), 0.5).structure(batch).reason
    # as if nobody had seen it
    monkeypatch.setattr(Clipper, "_forgetful", lambda self, batch, structure, tidy: structure)
    with pytest.raises(BadInput, match="other numbers"):
        Clipper(model, classify, trainable(model), 0.5)(batch, ALL)


@pytest.mark.parametrize("name", ["mlp", "tied layer", "words", "unused layer"])
@pytest.mark.parametrize("torch_is", ["without it", "not calling it", "calling it otherwise"])
def test_another_torch_is_right_or_refused(name: str, torch_is: str, monkeypatch) -> None:
    """What we hear of parts by is no promise of torch's. Models without parts are clipped as ever."""
    from torch.utils import checkpoint as module

    from tacit.train.clip.recompute import hooks as parts

    theirs = getattr(module, parts.GENERATOR)
    if torch_is == "calling it otherwise":
        monkeypatch.setattr(parts, "_told", lambda watcher, _: lambda *, function: None)
    else:
        monkeypatch.setattr(parts, "GENERATOR", "_another_name")
        if torch_is == "not calling it":
            monkeypatch.setattr(module, "_another_name", theirs, raising=False)
    monkeypatch.setattr(parts, "followed", parts.followed.__wrapped__)
    assert not parts.followed()
    case = ZOO[name]
    torch.manual_seed(1)
    model, batch = case.make(), case.batch(4)
    sums, _ = naive(model, case.loss, batch, 0.5)
    assert furthest(Clipper(model, case.loss, trainable(model), 0.5)(batch, ALL).sums, sums) < 1e-5
    again = Clipper(model, whole(case), trainable(model), 0.5)
    assert furthest(again(batch, ALL).sums, sums) < 1e-5


class Peak(TorchDispatchMode):
    """The most bytes that tensors made in here hold at one time."""

    __module__ = "tacit.tests"  # one of somebody else's would be shown all records, which is not allowed

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[int, int] = {}
        self.now = self.most = 0

    def _gone(self, key: int) -> None:
        self.now -= self.held.pop(key)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                key = storage._cdata
                if key not in self.held:
                    self.held[key] = storage.nbytes()
                    self.now += storage.nbytes()
                    weakref.finalize(storage, self._gone, key)
                    self.most = max(self.most, self.now)
        return out


def test_memory_no_longer_grows_with_every_block() -> None:
    """Twelve blocks: what is held at one time is a fraction of what it was."""
    most = []
    for again in (True, False):
        torch.manual_seed(0)
        model = Tower(12, 16, again=again)
        batch = torch.randn(64, 32, 16), torch.arange(64) % CLASSES
        clipper = Clipper(model, classify, trainable(model), 0.5)
        clipper(batch, torch.ones(64, dtype=torch.bool))
        with Peak() as peak:
            clipper(batch, torch.ones(64, dtype=torch.bool))
        most.append(peak.most)
    assert most[0] < most[1] / 3


def test_steps_take_it_and_what_cannot_be_done_is_refused() -> None:
    plan = Plan(4, 1.0, 2, 1.0)
    model, batch = tower()
    for options in ({"noise": "grid"}, {}):
        step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), plan, rng=0, **options)
        assert [step(part).examples for part in step.batches(batch)] == [4, 4]
    with pytest.raises(BadInput, match="which parts"):
        private(model, torch.optim.SGD(model.parameters(), lr=0.1), plan, speed=Speed(checkpointing=True))
    with pytest.raises(BadInput, match="keeps its activations"):
        Speed(checkpointing=True, compile=True)

    def reentrant(net, rows):
        return classify(lambda x: checkpoint(net, x, use_reentrant=True), rows)

    with pytest.raises(BadInput, match="use_reentrant"):
        Clipper(model, reentrant, trainable(model), 0.5)(batch, ALL)
    from torch.utils import checkpoint as theirs

    assert theirs.CheckpointFunction.__module__ == theirs.__name__
    assert theirs._checkpoint_without_reentrant_generator.__module__ == theirs.__name__


@pytest.mark.needs("transformers")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "t5", "vit"])
def test_unmodified_models_compute_again_on_request(name: str) -> None:
    from train_transformers import make

    torch.manual_seed(0)
    model, loss = make(name)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    model.train()
    ids = torch.randint(3, 50, (4, 7))
    batch = {"ids": ids, "mask": (torch.arange(7) < torch.tensor([[7], [5], [5], [7]])).long()}
    if name == "vit":
        batch = {"pixels": torch.randn(4, 3, 8, 8), "y": torch.tensor([0, 1, 0, 1])}
    step = private(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        Plan(4, 1.0, 1, 1.0),
        loss=loss,
        speed=Speed(checkpointing=True),
    )
    clipper = step._clipper
    found = clipper(batch, ALL)
    assert [structure.checkpointed for structure in clipper.structures.values()] == [True]
    model.gradient_checkpointing_disable()
    sums, norms = naive(model, loss, batch, 1.0)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-7)
    assert furthest(found.sums, sums) < 1e-5
