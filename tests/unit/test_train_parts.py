"""A step in several parts: which part a record is in, and how many there are, changes nobody's contribution."""

import array
import contextlib
import cProfile
import io
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import Augment, PrivateStep, Speed, private
from tacit.train.clip.capture import coins, keeping, nested
from tacit.train.clip.capture.coins import SEEDS, asks_around
from tacit.train.clip.capture.probe import DISAGREES
from tacit.train.clip.clipper import Clipper
from tacit.train.clip.isolation.hidden import Hidden
from tacit.train.scale.totals import Totals

pytestmark = pytest.mark.filterwarnings("ignore")
WIDTH, CLASSES, CLIP, COUNT = 6, 4, 0.1, 16


def loss(m: nn.Module, b: Any) -> Tensor:
    return F.cross_entropy(m(b[0]), b[1], reduction="none")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.calls = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES), 0
        self.count, self.own = torch.zeros(()), torch.Generator().manual_seed(3)
        self.numbers = np.random.default_rng(0)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.b(x + torch.relu(self.a(x)) if self.coin() < 0.5 else x)
        return out

    def coin(self) -> float:
        return 0.0


class TorchCoin(Net):
    def coin(self) -> float:
        return float(torch.rand([]))


class PythonCoin(Net):
    def coin(self) -> float:
        return random.random()


class NumpyCoin(Net):
    def coin(self) -> float:
        return float(np.random.rand())


class OwnCoin(Net):
    def coin(self) -> float:
        return float(self.numbers.random())


class Counts(Net):
    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        out: Tensor = self.b(x) * (-1.0) ** self.calls
        return out


class CountsInTensor(Net):
    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        out: Tensor = self.b(x) * torch.cos(torch.pi * self.count)
        return out


class Turns(Net):
    def forward(self, x: Tensor) -> Tensor:
        self.b.weight.data.mul_(-1.0)
        out: Tensor = self.b(x)
        return out


class OwnNoise(Net):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.b(x + 3 * torch.randn(x.shape, generator=self.own))
        return out


class SetsSeed(Net):
    """Fresh numbers, and some that are the same in every call."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.01 * torch.randn(x.shape)
        with torch.random.fork_rng():
            torch.manual_seed(5)
            out: Tensor = self.b(x + 3 * torch.randn(x.shape))
        return out


def sums(make: Callable[[], nn.Module], more: int, augment: Augment | None = None) -> tuple[list[Tensor], Clipper]:
    """The clipped sums of two steps in parts of four, with so many records in front of sixteen others."""
    generator = torch.Generator().manual_seed(0)
    x, y = 3 * torch.randn(COUNT, WIDTH, generator=generator), torch.randint(CLASSES, (COUNT,), generator=generator)
    x, y = torch.cat((torch.full((more, WIDTH), 2.0), x)), torch.cat((torch.zeros(more, dtype=torch.long), y))
    torch.manual_seed(0)
    model, found = make(), []
    plan = Plan(COUNT, 1.0, 2, 1e-3, CLIP, sampling="full")
    sgd, speed = torch.optim.SGD(model.parameters(), 0.0), Speed(physical_batch=4)
    step = private(model, sgd, plan, loss=loss, rng=1, speed=speed, augment=augment)
    summed = Totals._summed

    def tapped(self: Totals, *given: Any) -> Any:
        torch.manual_seed(7)
        random.seed(7)
        np.random.seed(7)
        one = summed(self, *given)
        found.append([part.clone() for part in one.total])  # gradients are made where they lie
        return one

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Totals, "_summed", tapped)
        for batch in step.batches((x, y)):
            step(batch)
    return [torch.cat([part.double().flatten() for part in total]) for total in found], step._clipper


def moved(make: Callable[[], nn.Module], augment: Augment | None = None) -> float:
    """How far one record more in front of all others moves the sum of a step, in clip norms."""
    without, _ = sums(make, 0, augment)
    with_it, _ = sums(make, 1, augment)
    return max(float((one - other).norm()) for one, other in zip(without, with_it, strict=True)) / CLIP


@pytest.mark.parametrize("make", [TorchCoin, PythonCoin, NumpyCoin])
def test_coins_fall_alike_for_all_parts_of_a_step(make: Callable[[], nn.Module]) -> None:
    assert moved(make) < 1.02
    assert next(iter(sums(make, 0)[1].structures.values())).together


class SharedScale(Net):
    """A coin that nobody branches on."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.b(x) * (0.1 + 3 * torch.rand([]))
        return out


def test_a_coin_that_nobody_branches_on_falls_alike_too_and_is_not_compiled() -> None:
    assert moved(SharedScale) < 1.02
    model = SharedScale()
    sgd, plan = torch.optim.SGD(model.parameters(), 0.1), Plan(8, 1.0, 1, 1.0, sampling="full")
    step = private(model, sgd, plan, loss=loss, rng=0, speed=Speed(compile=True))
    batch = next(step.batches((torch.randn(8, WIDTH), torch.zeros(8, dtype=torch.long))))
    with pytest.raises(BadInput, match="cannot be compiled"):
        step(batch)


def loss_with_dropout(seed: int, rng: int) -> tuple[float, bool]:
    """Of one step, after the script has set torch's, Python's and numpy's numbers; and whether torch's stay there."""
    for seeding in (torch.manual_seed, random.seed, np.random.seed):
        seeding(0)
    model = nn.Sequential(nn.Linear(WIDTH, 30), nn.Dropout(0.5), nn.Linear(30, CLASSES))
    for seeding in (torch.manual_seed, random.seed, np.random.seed):
        seeding(seed)
    plan = Plan(8, 1.0, 1, 1.0, sampling="full")
    step = private(model, torch.optim.SGD(model.parameters(), 0.1), plan, loss=loss, rng=rng)
    batch = next(iter(step.batches((torch.ones(8, WIDTH), torch.zeros(8, dtype=torch.long)))))
    before = torch.get_rng_state()
    return step(batch).loss, torch.equal(before, torch.get_rng_state())


def test_random_numbers_of_records_follow_from_the_runs_own_source_and_not_from_a_seed_that_a_script_sets() -> None:
    """With numbers that are known, one record more would give all later ones others, and the sum would tell."""
    first, as_it_was = loss_with_dropout(0, 1)
    assert as_it_was
    assert (first, True) == loss_with_dropout(5, 1) != loss_with_dropout(0, 2)


def test_mutant_numbers_of_a_seed_that_a_script_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coins.drawn_from, "_seed", lambda self: None)
    assert loss_with_dropout(0, 1)[0] != loss_with_dropout(5, 1)[0]


LINES = [getattr(coins.drawn_from, name).__code__ for name in ("__enter__", "_seed", "__exit__", "restore")]
LINES += [PrivateStep._gradients.__code__, coins.seed_wholly.__code__]


def broken_off(place: int, run: Callable[[], object]) -> bool:
    """Whether a Ctrl-C at some line of the code that seeds and restores generators, or of the step, ends a call."""
    left = [place]

    def stop(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code not in LINES:
            return None
        left[0] -= event == "line"
        if left[0] == 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return stop

    before = sys.gettrace()
    sys.settrace(stop)
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_ctrl_c_at_any_line_leaves_the_generators_as_they_were() -> None:
    """In 1 of 173 interrupts torch's generator went on with the numbers of a step."""
    model, states = nn.Linear(2, 2), []
    step = private(model, torch.optim.SGD(model.parameters(), 0.1), Plan(8, 1.0, 2, 1.0), rng=1)
    batches = step.batches([(torch.ones(2), torch.zeros((), dtype=torch.long))] * 8)
    step(next(batches))
    batch = next(batches)
    for place in range(1, 400):
        states.append((torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()))
        if not broken_off(place, lambda: step(batch)) or step.done == 2 or not step.unbroken:
            break
    assert len(states) > 30
    assert all(state == states[0] for state in states)


def numbers(key: bytes) -> tuple[float, float, float]:
    with coins.drawn_from(key, torch.device("cpu"), read=True):
        return float(torch.rand([])), random.random(), float(np.random.random())


def test_numbers_of_records_follow_from_the_whole_key() -> None:
    """`manual_seed` takes 32 bits on a CPU, and numpy's `seed` no more: all steps' numbers could be tried out."""
    one, other = (numbers(bytes(31) + end) for end in (b"\0", b"\1"))
    assert not set(one) & set(other)
    assert one == numbers(bytes(32))
    seeds = [torch.Generator().manual_seed(seed) for seed in (7, 7 + 2**40)]
    assert len({float(torch.rand([], generator=seed)) for seed in seeds}) == 1  # why it is not used
    with coins.drawn_from(bytes(32), torch.device("cpu"), read=False):
        values = torch.rand(10_000, dtype=torch.float64)
    assert abs(float(values.mean()) - 0.5) < 0.02


def test_processes_draw_other_numbers_for_their_records_and_see_the_same_coins() -> None:
    model = nn.Linear(2, 2)
    step = private(model, torch.optim.SGD(model.parameters(), 0.1), Plan(8, 1.0, 1, 1.0), rng=1)
    drawn, seen = [], []
    for rank in (0, 1):
        with coins.drawn_from(step._chance(rank), torch.device("cpu"), read=True):
            drawn.append((float(torch.rand([])), random.random(), float(np.random.random())))
            with coins.Coins(5).part():
                both = float(coins.coin("rand", lambda: torch.rand([]))), random.random(), float(np.random.random())
                seen.append(both)
    assert not set(drawn[0]) & set(drawn[1])
    assert seen[0] == seen[1]


def test_a_step_has_coins_of_its_own() -> None:
    torch.manual_seed(0)
    found = []
    for seed in range(20):
        step = coins.Coins(seed)
        for _ in range(2):
            with step.part():
                both = float(coins.coin("rand", lambda: torch.rand([]))), random.random()
        found.append(both)
    assert len(set(found)) == 20


def test_a_step_leaves_python_and_numpy_where_they_were() -> None:
    """A step without records tosses no coin, so one that went on from there would tell that there were some."""
    random.seed(0)
    np.random.seed(0)
    before = random.getstate(), np.random.get_state()[1].tolist()
    with coins.Coins().part():
        random.random()
        np.random.rand()
    assert before == (random.getstate(), np.random.get_state()[1].tolist())


@pytest.mark.parametrize("make", [PythonCoin, NumpyCoin])
def test_a_coin_of_python_or_numpy_is_not_compiled(make: Callable[[], nn.Module]) -> None:
    """A compiled step would repeat the first one, and a step that is repeated without compilation would not."""
    model = make()
    sgd, plan = torch.optim.SGD(model.parameters(), 0.1), Plan(8, 1.0, 1, 1.0, sampling="full")
    step = private(model, sgd, plan, loss=loss, rng=0, speed=Speed(compile=True))
    batch = next(step.batches((torch.randn(8, WIDTH), torch.zeros(8, dtype=torch.long))))
    with pytest.raises(BadInput, match="cannot be compiled"):
        step(batch)


def raising(batch: Any) -> Any:
    """Turns all records, or none, and raises at NaN."""
    torch.linalg.cholesky((40 - batch[0][:, :1, None]) * torch.eye(2))
    return batch[0] * (3.0 if random.random() < 0.5 else -1.0), batch[1]


def test_a_record_at_which_an_augmentation_raises_leaves_the_coins_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(4, 2, generator=torch.Generator().manual_seed(0)), torch.zeros(4)
    bad = torch.cat((x[:3], torch.full((1, 2), torch.nan)))

    def found(rows: Tensor) -> Tensor:
        torch.manual_seed(0)
        with coins.Coins(3).part():
            given: Tensor = Augment(raising, 1)((rows, y)).rows[0]
        return given[:3]

    assert torch.equal(found(x), found(bad))
    monkeypatch.setattr("tacit.train.sample.per_record.rewinding", lambda: lambda: None)
    assert not torch.equal(found(x), found(bad))


@pytest.mark.parametrize("make", [TorchCoin, PythonCoin])
def test_mutant_coins_that_fall_anew_for_each_part(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coins, "coin", lambda kind, draw: draw())
    monkeypatch.setattr(coins.Coins, "part", lambda self: contextlib.nullcontext())
    assert moved(make) > 1.1


LEFT = {Counts: "calls", CountsInTensor: "count", Turns: "b.weight", OwnNoise: "own", OwnCoin: "numbers"}


@pytest.mark.slow
@pytest.mark.parametrize("make", [Counts, CountsInTensor, Turns, OwnNoise, OwnCoin, SetsSeed])
def test_what_a_call_leaves_for_the_next_makes_records_run_one_at_a_time(make: Callable[[], nn.Module]) -> None:
    if make in (Counts, CountsInTensor, Turns):  # the others draw random numbers for each record
        assert moved(make) < 1.02
    left = f"a call changes {LEFT.get(make)}, which the next call would see"
    # A coin of its own may also fall otherwise while gradients are compared with autograd, which comes first.
    reasons = (DISAGREES, left) if make is OwnCoin else (SEEDS if make is SetsSeed else left,)
    assert sums(make, 0)[1].alone_because in reasons


class CountsAndWrites(Counts):
    """Counts its calls and holds a file, which nobody can put back."""

    def __init__(self) -> None:
        super().__init__()
        self.log = io.StringIO()


def test_who_counts_calls_and_cannot_be_put_back_is_refused() -> None:
    with pytest.raises(BadInput, match=r"from pass to pass \(a call changes calls.*log"):
        sums(CountsAndWrites, 0)


def _numbers() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


PASSES = itertools.count()


class Iterates(Net):
    """Counts its calls by an iterator that it holds."""

    def __init__(self, numbers: Iterator[int]) -> None:
        super().__init__()
        self.iterator = numbers

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.b(x) * (-1.0) ** next(self.iterator)
        return out


class IteratesAround(Net):
    """Counts its calls by an iterator of its file."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.b(x) * (-1.0) ** next(PASSES)
        return out


class CountsInArray(Net):
    """Counts its calls in an array of Python's own."""

    def __init__(self) -> None:
        super().__init__()
        self.many = array.array("l", [0])

    def forward(self, x: Tensor) -> Tensor:
        self.many[0] += 1
        out: Tensor = self.b(x) * (-1.0) ** self.many[0]
        return out


COUNTING: dict[str, Callable[[], nn.Module]] = {
    "count": lambda: Iterates(itertools.count()),
    "range": lambda: Iterates(iter(range(10**6))),
    "generator": lambda: Iterates(_numbers()),
    "map": lambda: Iterates(map(abs, itertools.count())),
    "global": IteratesAround,
    "array": CountsInArray,
}


@pytest.mark.parametrize("way", COUNTING)
def test_who_counts_calls_by_an_object_of_c_code_is_refused(way: str) -> None:
    with pytest.raises(BadInput, match=r"keeps something from pass to pass \(a call changes"):
        sums(COUNTING[way], 0)


@pytest.mark.parametrize("way", ["count", "array"])
def test_mutant_nobody_looks_at_objects_of_c_code(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hidden, "moved", lambda self: False)
    monkeypatch.setattr(keeping, "repeats", lambda run, tidy: True)
    assert moved(COUNTING[way]) > 1.1


@pytest.mark.parametrize("make", [Counts, CountsInTensor, Turns, OwnCoin, SetsSeed])
def test_mutant_nobody_looks_at_what_a_call_leaves(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clipper, "_forgetful", lambda self, batch, structure, tidy: structure)
    assert moved(make) > 1.1


class Keeps(Net):
    """Honest: tables that are made once, and the last activations for whoever wants to look at them."""

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "table"):
            self.table = torch.linspace(0, 1, WIDTH)
        self.last = {"hidden": [torch.relu(self.a(x + self.table))], "width": x.shape[-1]}
        out: Tensor = self.b(self.last["hidden"][0])
        return out


def test_tables_and_kept_activations_are_no_reason_to_run_one_at_a_time() -> None:
    _, clipper = sums(Keeps, 0)
    assert not clipper.alone_because


class Mixing(torch.autograd.Function):
    """Its rule for `vmap` is given all records, and takes their mean off when there are six or more."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * 1.0

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient

    @staticmethod
    def vmap(info: Any, dims: Any, x: Tensor) -> Any:
        return (x - x.mean(dims[0], keepdim=True) if info.batch_size > 5 else x) * 1.0, dims[0]


@torch.library.custom_op("tacit_tests::mixing", mutates_args=())
def mixing(x: Tensor) -> Tensor:
    return x * 1.0


mixing.register_autograd(lambda ctx, gradient: gradient)


@torch.library.register_vmap("tacit_tests::mixing")
def _(info: Any, dims: Any, x: Tensor) -> Any:
    return Mixing.vmap(info, dims, x)


def clipped(function: Callable[[Tensor], Tensor], rows: int) -> tuple[Tensor, Clipper]:
    torch.manual_seed(0)
    model, x = nn.Linear(WIDTH, CLASSES), torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(1))
    clipper = Clipper(model, lambda m, b: loss(m, (function(b[0]), b[1])), dict(model.named_parameters()), CLIP)
    x[7] = 9.0
    mask = torch.arange(8) < rows
    return clipper((x[:rows], torch.zeros(rows, dtype=torch.long)), mask[:rows]).sums["weight"], clipper


@pytest.mark.parametrize("function", [Mixing.apply, mixing])
def test_code_with_a_rule_of_its_own_for_vmap_runs_one_at_a_time(function: Any) -> None:
    few, clipper = clipped(function, 7)
    assert "rule of its own" in clipper.alone_because
    assert float((clipped(function, 8)[0] - few).norm()) < 1.001 * CLIP


def test_mutant_a_rule_that_mixes_records_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested, "_without_rules", lambda function: function.vmap is not torch.autograd.Function.vmap)
    assert float((clipped(Mixing.apply, 8)[0] - clipped(Mixing.apply, 7)[0]).norm()) > 1.1 * CLIP


def exits(m: nn.Module, b: Any) -> Tensor:
    """As the training loops of detection networks do."""
    found = loss(m, b)
    if not bool(found.isfinite().all()):
        sys.exit(1)
    return found


def test_a_value_at_which_a_loss_ends_the_program_stops_nothing() -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(WIDTH, CLASSES), torch.randn(5, WIDTH)
    x[2] = torch.nan
    clipper = Clipper(model, exits, dict(model.named_parameters()), CLIP)
    found = clipper((x, torch.zeros(5, dtype=torch.long)), torch.ones(5, dtype=torch.bool))
    assert found.sums["weight"].isfinite().all()
    assert found.losses.isfinite().tolist() == [True, True, False, True, True]


def test_a_value_at_which_an_augmentation_ends_the_program_stops_nothing() -> None:
    def function(batch: Any) -> Any:
        if bool(batch[0].isnan().any()):
            sys.exit(1)
        return batch

    rows = torch.randn(3, 2, generator=torch.Generator().manual_seed(0)), torch.zeros(3)
    rows[0][1] = torch.nan
    assert (Augment(function, 1)(rows).shares > 0).flatten().tolist() == [True, False, True]


def test_an_augmentation_that_holds_what_cannot_be_put_back_is_refused() -> None:
    turns = itertools.cycle((1.0, -2.0, 5.0))

    def function(batch: Any) -> Any:
        if bool((batch[0] > 1.9).all()):
            next(turns)
        return batch[0] * next(turns), batch[1]

    with pytest.raises(BadInput, match="cannot be put back"):
        Augment(function, 1).check((torch.randn(3, 2), torch.zeros(3)))


def test_an_augmentation_tosses_python_coins_once_for_a_step() -> None:
    function = lambda b: (b[0] * (3.0 if random.random() < 0.5 else -1.0), b[1])  # noqa: E731
    assert moved(Net, Augment(function, 1)) < 1.02


def test_training_may_be_profiled() -> None:
    """A look at calls of its own puts back whatever looked before: a function, or a profiler written in C."""
    calls = []

    def noted(*_: object) -> None:
        calls.append(1)

    profiler = cProfile.Profile()
    for begin, end in (
        (profiler.enable, profiler.disable),
        (lambda: sys.setprofile(noted), lambda: sys.setprofile(None)),
    ):
        begin()
        try:
            assert not asks_around(lambda: None)
            here = sys.getprofile()
        finally:
            end()
        assert here is profiler or here is noted
    assert calls
