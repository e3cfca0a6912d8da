"""Private training on a GPU against the processor: clipping, noise, recorded steps, checkpoints, memory.

python -m pytest tests/oracle/test_gpu_training.py tests/oracle/test_fleet_gpu.py -q
"""

from __future__ import annotations

import copy
import gc
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tacit.loss import Plan
from tacit.train import Augment, Speed, fit, private
from tacit.train.clip import Clipper, Compiled
from tacit.train.clip.tree import mapped
from tacit.train.noise.chacha import keystream
from tacit.train.noise.derive import derived, words_of
from tacit.train.noise.fingerprint import fingerprint
from tacit.train.noise.gaussian import PAIRS, Normals, add, on_processor
from tacit.train.noise.joined import LANES, Joined
from tacit.train.noise.release import ROUNDING
from train_zoo import CLASSES, ZOO, classify, furthest, length, naive, trainable

DEVICE = torch.device("cuda")
pytestmark = [pytest.mark.needs("gpu"), pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
KEY = bytes(range(32))
DATA = torch.randn(96, 5, generator=torch.Generator().manual_seed(0)), torch.arange(96) % CLASSES
CLIP = 0.5


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()


def there(item: Any) -> Any:
    return item.to(DEVICE) if isinstance(item, nn.Module) else mapped(lambda tensor: tensor.to(DEVICE), item)


def here(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.float().cpu() for name, tensor in sums.items()}


def pair(name: str) -> tuple[nn.Module, nn.Module, Any, Any]:
    """A model of the zoo on the processor, the same on the device, its loss and a batch."""
    torch.manual_seed(1)
    case = ZOO[name]
    model = case.make()
    return model, there(copy.deepcopy(model)), case.loss, case.batch(4)


@pytest.mark.parametrize("name", ZOO)
def test_norms_and_sums_are_those_of_the_loop_on_a_processor(name: str) -> None:
    model, moved, loss, batch = pair(name)
    found = Clipper(moved, loss, trainable(moved), CLIP)(there(batch), torch.ones(4, dtype=torch.bool, device=DEVICE))
    sums, norms = naive(model, loss, batch, CLIP)
    torch.testing.assert_close(found.norms.double().cpu(), norms, rtol=2e-5, atol=1e-6)
    assert furthest(here(found.sums), sums) < 2e-5


@pytest.mark.parametrize("name", [name for name in ZOO if name != "weight standardisation"])  # autocast has no PReLU
def test_in_bfloat16_no_contribution_is_longer_than_the_noise_has_room_for(name: str) -> None:
    """Each example alone, re-evaluated in float64 (soundness rule 11); and norms near those in float32."""
    model, moved, loss, batch = pair(name)
    clipper = Clipper(moved, loss, trainable(moved), CLIP, "bfloat16")
    _, norms = naive(model, loss, batch, CLIP)
    for row in range(4):
        mask = torch.arange(4, device=DEVICE) == row
        found = clipper(there(batch), mask)
        assert length(tensor.cpu() for tensor in found.sums.values()) <= CLIP * (1 + ROUNDING["bfloat16"])
        assert abs(float(found.norms[row]) - float(norms[row])) < 0.1 * float(norms[row]) + 0.02


def test_the_stream_is_the_processors_bit_for_bit() -> None:
    assert torch.equal(keystream(KEY, 100_001, DEVICE).cpu(), keystream(KEY, 100_001))
    seen = torch.randn(1001, generator=torch.Generator().manual_seed(0))
    keys = words_of(KEY + KEY, seen.device)
    assert torch.equal(derived(seen.to(DEVICE), keys.to(DEVICE)).cpu(), derived(seen, keys))


@pytest.mark.parametrize("count", [1, 31, 2 * PAIRS, 4 * PAIRS + 1001])
def test_the_noise_is_the_processors_to_rounding(count: int) -> None:
    found = torch.empty(count, device=DEVICE)
    Normals(DEVICE).fill(found, KEY, 3.0)
    torch.testing.assert_close(found.cpu(), 3.0 * on_processor(KEY, count), rtol=1e-4, atol=1e-5)


def test_radii_and_turns_are_right_to_rounding() -> None:
    from train_noise_kernel import check_radii, check_turns

    check_radii(DEVICE, 1e-6)
    check_turns(DEVICE, 1e-6)


def test_one_flat_draw_is_added_to_several_arrays() -> None:
    """As on a processor, in one kernel; nothing beside the arrays is written."""
    sizes = 5, 2 * PAIRS, 0, 700, 70_001
    padded = [torch.ones(size + 2, device=DEVICE) for size in sizes]
    theirs = [torch.ones(size) for size in sizes]
    add(Joined(sizes, DEVICE).at([row[1:-1] for row in padded]), KEY, 3.0, 0.5)
    Normals(torch.device("cpu")).add(theirs, KEY, 3.0, 0.5)
    for ours, right in zip(padded, theirs, strict=True):
        torch.testing.assert_close(ours[1:-1].cpu(), right, rtol=1e-4, atol=1e-5)
        assert ours[0] == ours[-1] == 1


@pytest.mark.parametrize("sizes", [(1,), (5, 0, 9 * LANES + 3, 768), (2_000_001, 7), (768,) * 300])
def test_a_fingerprint_is_the_processors_bit_for_bit(sizes: tuple[int, ...]) -> None:
    keys = torch.arange(16, dtype=torch.int32)
    arrays = [torch.randn(size, generator=torch.Generator().manual_seed(size)) for size in sizes]
    theirs = fingerprint(Joined(sizes, torch.device("cpu")).at(arrays), keys)
    whole = Joined(sizes, DEVICE).at(there(arrays))
    assert torch.equal(fingerprint(whole, keys.to(DEVICE)).cpu(), theirs)
    whole.arrays[0][0] = torch.nextafter(whole.arrays[0][0], torch.tensor(9.0, device=DEVICE))
    assert not torch.equal(fingerprint(whole, keys.to(DEVICE)).cpu(), theirs)


def small(device: torch.device, *, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, CLASSES))
    return model.to(device)


USERS = np.arange(96) // 3
CASES: dict[str, dict[str, Any]] = {
    "flat": {"plan": Plan(96, 0.3, 6, 0.5)},
    "adaptive": {"plan": Plan(96, 0.3, 6, 0.5, clipping="adaptive")},
    "per layer": {"plan": Plan(96, 0.3, 6, 0.5, clipping="per-layer")},
    "automatic": {"plan": Plan(96, 0.3, 6, 0.5, clipping="automatic")},
    "augmented": {"plan": Plan(96, 0.3, 6, 0.5), "augment": Augment(lambda batch: (2 * batch[0], batch[1]), 3)},
    "bands": {"plan": Plan(96, 0.25, 8, 0.5, adjacency="replace", sampling="cyclic", bands=3)},
    "users": {"plan": Plan(32, 0.3, 6, 0.5, unit="user"), "users": USERS},
    "grid": {"plan": Plan(96, 0.3, 4, 0.5), "noise": "grid"},
    "empty": {"plan": Plan(96, 1e-9, 3, 0.5)},
}


def trained(
    device: torch.device, *, plan: Plan, compiled: bool = False, users: Any = None, **options: Any
) -> tuple[Tensor, float]:
    """Parameters and clip norm after a run whose noise keys are pinned: rounding moves the norms they depend on."""
    model = small(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    step = private(model, optimizer, plan, rng=5, speed=Speed(physical_batch=16, compile=compiled), **options)
    step.parted.noise_key = lambda *_: bytes(31) + bytes([step.done])
    step.recorded = None  # part by part, since a step recorded whole makes its keys itself
    asked = {} if users is None else {"users": users, "records_per_user": 2}
    for batch in step.batches(there(DATA) if device == DEVICE else DATA, **asked):
        step(batch)
    return torch.cat([tensor.detach().flatten() for tensor in model.parameters()]).cpu(), step.clip_norm


@pytest.mark.parametrize("name", CASES)
def test_eager_steps_end_where_the_processors_do(name: str) -> None:
    ours, norm = trained(DEVICE, **CASES[name])
    theirs, right = trained(torch.device("cpu"), **CASES[name])
    atol = max(1e-4, 1e-6 * float(theirs.abs().max()))  # an empty sample's noise is large, and may cancel
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=atol)
    assert norm == pytest.approx(right, rel=1e-5)


@pytest.mark.parametrize("name", [name for name in CASES if name != "grid"])
def test_recorded_steps_end_where_eager_ones_do(name: str, monkeypatch) -> None:
    """The traced graph is recorded and replayed without the compiler between, which would take most of the time."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    ours, norm = trained(DEVICE, compiled=True, **CASES[name])
    theirs, right = trained(DEVICE, **CASES[name])
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
    assert norm == pytest.approx(right, rel=1e-5)


def test_compiled_and_recorded_steps_end_where_eager_ones_do() -> None:
    ours, norm = trained(DEVICE, compiled=True, **CASES["adaptive"])
    theirs, right = trained(DEVICE, **CASES["adaptive"])
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
    assert norm == pytest.approx(right, rel=1e-5)


def test_an_example_that_is_not_finite_counts_for_nothing(monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    x, y = DATA[0].clone(), DATA[1]
    x[7] = torch.inf
    released = []
    for compiled in (True, False):
        model = small(DEVICE)
        step = private(
            model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(96, 1.0, 2, 0.5), rng=0,
            speed=Speed(physical_batch=32, compile=compiled),
        )  # fmt: skip
        step.parted.noise_key = lambda *_: KEY
        for batch in step.batches(there((x, y))):
            step(batch)
        released.append(torch.cat([tensor.detach().flatten() for tensor in model.parameters()]))
    assert released[0].isfinite().all()
    torch.testing.assert_close(released[0], released[1], rtol=0, atol=1e-4)


def test_a_record_that_is_not_finite_moves_no_other_in_bfloat16() -> None:
    """512 equal records: another way of computing them would round all of them otherwise, and by the same."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 10)).to(DEVICE)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")

    compiled = Compiled(Clipper(model, loss, dict(model.named_parameters()), 1.0, "bfloat16"))
    x, y = torch.randn(1, 64, device=DEVICE).repeat(512, 1), torch.full((512,), 3, device=DEVICE)
    every = torch.ones(512, dtype=torch.bool, device=DEVICE)
    others = every.clone()
    others[5] = False
    without = {name: total.clone() for name, total in compiled((x, y), others).sums.items()}
    x[5] = torch.nan
    for mask in (every, others):
        found = compiled((x, y), mask)
        apart = sum(float((found.sums[name] - total).double().square().sum()) for name, total in without.items())
        assert apart**0.5 < 1e-3
        assert int(found.norms.isinf().sum()) == int(mask[5])


@pytest.mark.parametrize("broken", [False, True], ids=["finite", "not finite"])
def test_a_step_recorded_whole_is_the_step_part_by_part(broken: bool, monkeypatch) -> None:
    """Bit for bit: the key of the noise depends on every norm."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    x = DATA[0].clone()
    if broken:
        x[::4] = torch.inf
    released = []
    for recorded in (True, False):
        model = small(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        step = private(model, optimizer, Plan(96, 0.3, 12, 0.5), rng=7, speed=Speed(physical_batch=32, compile=True))
        step.recorded = step.recorded if recorded else None
        make, keys = step.parted.noise_key, []
        step.parted.noise_key = lambda *given, make=make, keys=keys: keys.append(make(*given)) or keys[-1]
        for batch in step.batches(there((x, DATA[1]))):
            step(batch)
        assert recorded is (step.recorded is not None and step.recorded.whole is not None)
        assert all(isinstance(key, Tensor) and key.is_cuda for key in keys)  # of every bit of a sum made again, too
        assert keys or (recorded and not broken)
        if recorded and broken:  # what was not released stays nowhere
            assert not any(one.any() for one in step.recorded.whole.sums)
        released.append(torch.cat([tensor.detach().flatten() for tensor in model.parameters()]))
    assert torch.equal(*released)
    assert released[0].isfinite().all()


def test_recorded_steps_do_not_mind_what_becomes_of_other_memory(monkeypatch) -> None:
    """A recording holds addresses: all that it reads is kept, and its noise goes where its sums lie."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    ends = []
    for disturbed in (True, False):
        model = small(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = private(model, optimizer, Plan(96, 0.3, 60, 0.5), rng=7, speed=Speed(physical_batch=32, compile=True))
        for batch in step.batches(there(DATA)):
            step(batch)
            if disturbed:
                gc.collect()
                torch.cuda.empty_cache()
                litter = [torch.full((2**size,), torch.nan, device=DEVICE) for size in range(20) for _ in range(8)]
                del litter
            if len(batch.index) <= 32:
                places = [parameter.grad.data_ptr() for parameter in model.parameters()]
                assert step.recorded.whole.joined.places.tolist() == places
        ends.append(torch.cat([tensor.detach().flatten() for tensor in model.parameters()]))
    assert torch.equal(*ends)


@pytest.mark.parametrize("name", ["flat", "adaptive"])
def test_gradients_of_a_recorded_part_do_not_lie_where_the_next_sum_will(name: str, monkeypatch) -> None:
    """They would be a sum without noise, until its noise is added."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    model, plan = small(DEVICE), CASES[name]["plan"]
    step = private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), plan, rng=7, speed=Speed(physical_batch=64, compile=True)
    )
    step.recorded = None
    for batch in step.batches(there(DATA)):
        before = [parameter.grad for parameter in model.parameters()]
        seen = [None if one is None else one.clone() for one in before]
        step.parted.totals(batch)
        for one, same in zip(before, seen, strict=True):
            assert one is None or torch.equal(one, same)
        step(batch)


def test_gradients_take_the_memory_of_the_sums_and_no_more(monkeypatch) -> None:
    """256 MiB of parameters and as much of gradients; a flat draw of noise beside them would be as much again.

    cuBLAS keeps a workspace of 32 MiB for each of five streams: the usual one, those of the trial and of the recording,
    and those of the norms of two weights.
    """
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    before = torch.cuda.memory_allocated()
    model = nn.Sequential(nn.Linear(4096, 8192), nn.ReLU(), nn.Linear(8192, 4096)).to(DEVICE)
    speed = Speed(physical_batch=16, compile=True)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(96, 0.05, 4, 0.5), rng=7, speed=speed)
    data = there((torch.randn(96, 4096), torch.arange(96)))
    for batch in step.batches(data):
        step(batch)
    gc.collect()
    torch.cuda.synchronize()
    assert step.recorded.whole is not None
    assert torch.cuda.memory_allocated() - before < 2.75 * 4 * sum(one.numel() for one in model.parameters())


@pytest.mark.parametrize(("compiled", "rows"), [(False, 16), (True, 16), (True, 96)], ids=["eager", "parts", "whole"])
def test_a_killed_run_goes_on_bit_for_bit(tmp_path, compiled: bool, rows: int, monkeypatch) -> None:
    """Dropout's random numbers of the device included; the checkpoint is gone in the end."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    plan, path = Plan(96, 0.3, 20, 1.0), tmp_path / "run.ckpt"

    def run(**options: Any) -> Tensor:
        model = small(DEVICE, dropout=0.3)
        fit(model, there(DATA), plan, rng=3, speed=Speed(physical_batch=rows, compile=compiled), **options)
        return torch.cat([tensor.detach().flatten() for tensor in model.parameters()])

    def kill(step: Any, info: Any) -> None:
        if step.done == 13:
            raise KeyboardInterrupt

    torch.manual_seed(9)
    whole = run()
    torch.manual_seed(9)
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=path, progress=kill)
    torch.manual_seed(123)
    assert torch.equal(run(checkpoint=path), whole)
    assert not path.exists()


def peak(act: Any) -> int:
    """Most bytes on the device above those before."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    act()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def test_no_gradient_is_written_out_for_every_example() -> None:
    """512 gradients of a million numbers would be 2 GiB; the step takes a small part of it."""
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).to(DEVICE)
    batch = torch.randn(512, 1024, device=DEVICE), torch.arange(512, device=DEVICE) % 10
    clipper = Clipper(model, classify, trainable(model), CLIP)
    every = torch.ones(512, dtype=torch.bool, device=DEVICE)
    clipper(batch, every)
    assert peak(lambda: clipper(batch, every)) < 100 * 2**20


class Tower(nn.Module):
    """Blocks that are computed again in the backward pass, or not."""

    def __init__(self, blocks: int, width: int, *, again: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.Tanh(), nn.Dropout(0.1), nn.Linear(4 * width, width))
            for _ in range(blocks)
        )
        self.head, self.again = nn.Linear(width, CLASSES), again

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + (checkpoint(block, x, use_reentrant=False) if self.again else block(x))
        return self.head(x.mean(1))


def test_activations_computed_again_give_the_same_for_less_memory() -> None:
    found, most = [], []
    for again in (True, False):
        model = Tower(8, 128, again=again).to(DEVICE)
        torch.manual_seed(1)
        batch = there((torch.randn(64, 64, 128), torch.arange(64) % CLASSES))
        clipper = Clipper(model, classify, trainable(model), CLIP)
        every = torch.ones(64, dtype=torch.bool, device=DEVICE)
        clipper.structure(batch)
        clipper(batch, every)
        torch.manual_seed(2)
        torch.cuda.manual_seed(2)
        most.append(peak(lambda clipper=clipper, batch=batch, every=every: found.append(clipper(batch, every))))
    torch.testing.assert_close(found[0].norms, found[1].norms, rtol=1e-4, atol=0)
    assert furthest(found[0].sums, found[1].sums) < 1e-4
    assert most[0] < most[1] / 2
