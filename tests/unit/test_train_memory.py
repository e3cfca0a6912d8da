"""Memory that outlives a step: kept for what is written out, and never shared by what is released."""

import pytest
import torch

from tacit.loss import Plan
from tacit.train import private
from tacit.train.clip.arrays import Room
from tacit.train.clip.rules.terms import Dense, Outer, housed, norm2
from tacit.train.noise.gaussian import PAIRS, Normals
from tacit.train.noise.release import Release

CPU = torch.device("cpu")
KEY = bytes(range(32))


def outer(seed, batch=3, positions=40):
    torch.manual_seed(seed)
    return Outer(torch.randn(batch, 1, positions, 6), torch.randn(batch, 1, positions, 5), torch.Size((6, 5)))


def test_a_room_gives_the_same_memory_in_the_same_order() -> None:
    room = Room()
    like = torch.empty(0)
    first = [room.take((4, 3), like), room.take((2, 5), like)]
    room.clear()
    again = [room.take((2, 3), like), room.take((2, 5), like)]
    assert [tensor.data_ptr() for tensor in again] == [tensor.data_ptr() for tensor in first]
    assert again[0].shape == (2, 3)
    room.clear()
    assert room.take((9, 9), like).shape == (9, 9)
    assert room.take((1,), like.double()).dtype == torch.float64
    assert len({tensor.data_ptr() for tensor in room.blocks}) == len(room.blocks) == 2


def test_kept_memory_changes_no_norm_and_no_sum() -> None:
    room, weight = Room(), torch.tensor([0.5, 0.0, 2.0])
    sums = []
    for seed in (1, 2):
        plain, kept = outer(seed), outer(seed)
        room.clear()
        housed([kept], room)
        assert torch.equal(norm2([kept]), norm2([plain]))
        assert room.used == 1
        sums.append((kept.weighted(weight), plain.weighted(weight)))
    for mine, other in sums:  # the second step has not written into what the first gave
        assert torch.equal(mine, other)


def test_a_bias_and_a_weight_share_the_squares_of_one_gradient() -> None:
    torch.manual_seed(0)
    left, right = torch.randn(4, 1, 1, 7), torch.randn(4, 1, 1, 3)
    memo: dict = {}
    weight, bias = Outer(left, right, torch.Size((7, 3)), (1, 2)), Dense(left.view(4, 7), 1)
    found = [norm2([weight], memo), norm2([bias], memo)]
    assert len(memo) == 2
    left2, right2 = (side.double().square().sum((1, 2, 3)) for side in (left, right))
    torch.testing.assert_close(found[0], left2 * right2, rtol=1e-6, atol=0)
    torch.testing.assert_close(found[1], left2, rtol=1e-6, atol=0)
    rounded = Outer(left.bfloat16(), right.bfloat16(), torch.Size((7, 3)), (1, 2))
    assert not torch.equal(norm2([rounded], memo), found[0])


@pytest.mark.parametrize("sizes", [(1,), (0, 5), (2 * PAIRS, 3), (2 * PAIRS - 1, 7, 2 * PAIRS), (100, 4 * PAIRS + 9)])
def test_noise_over_several_tensors_is_one_flat_draw(sizes) -> None:
    torch.manual_seed(0)
    rows = [torch.randn(size) for size in sizes]
    flat = torch.empty(sum(sizes))
    normals = Normals(CPU)
    normals.fill(flat, KEY, 3.0)
    expected = flat + 0.25 * torch.cat(rows)
    normals.add(rows, KEY, 3.0, 0.25)
    torch.testing.assert_close(torch.cat(rows), expected)


def release(plan=None):
    parameters = {"a": torch.nn.Parameter(torch.zeros(3, 4)), "b": torch.nn.Parameter(torch.zeros(4, 3))}
    return Release(plan or Plan(10, 0.5, 3, 2.0), parameters, "float32", "float32"), parameters


def gradients(total):
    made, parameters = release()
    flat = torch.empty(24)
    made.normals.fill(flat, KEY, made._scale(1.0))
    sums = torch.cat([tensor.flatten() for tensor in total]) if total else torch.zeros(24)
    expected = flat + sums / 5
    assert made.noise(KEY, 1.0) is None
    made(total, None, KEY, 1.0)
    return torch.cat([parameter.grad.flatten() for parameter in parameters.values()]), expected


def test_sums_that_share_memory_get_noise_of_their_own() -> None:
    shared = torch.randn(12)
    found, expected = gradients([shared.view(3, 4), shared.view(4, 3)])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("total", [[], [torch.ones(3, 4), torch.ones(3, 4).T], [torch.ones(4, 3).T, torch.ones(4, 3)]])
def test_gradients_are_made_where_sums_lie_whatever_their_layout(total) -> None:
    found, expected = gradients(total)
    torch.testing.assert_close(found, expected)


def test_memory_of_a_gradient_holds_nothing_but_gradients() -> None:
    """Saved, it would take along all that lies there: padding, a neighbour, a sum without noise."""
    made, _ = release()
    alone, beside, wide, little = torch.randn(3, 4), torch.randn(24), torch.randn(5, 4), torch.randn(1007, 3)
    side_by_side = beside[:12].view(3, 4), beside[12:].view(4, 3)
    cases = {
        "alone": ([alone, side_by_side[1]], [True, False]),
        "side by side": (list(side_by_side), [True, True]),
        "overlapping": ([beside[:12].view(3, 4), beside[11:23].view(4, 3)], [False, False]),
        "padded": ([wide[:3], side_by_side[0].clone().view(4, 3)], [False, True]),
        "padded a little": ([little[:1000], side_by_side[0].clone()], [True, True]),
    }
    for name, (total, kept) in cases.items():
        found = made.own(total)
        assert [one.data_ptr() == other.data_ptr() for one, other in zip(found, total, strict=True)] == kept, name
        for one, other in zip(found, total, strict=True):
            assert torch.equal(one, other)
    assert made.own([alone, side_by_side[1]])[1].untyped_storage().nbytes() == 48
    assert little[:1000].all()
    assert not little[1000:].any()


def test_a_step_leaves_no_sum_behind() -> None:
    """The memory of the sums holds the noisy gradients afterwards, and nothing else keeps them."""
    model = torch.nn.Linear(6, 3)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.0), Plan(50, 1.0, 2, 1.0), rng=0)
    seen = []
    keep = step.parted.totals.settled
    step.parted.totals.settled = lambda *given: seen.append(keep(*given)) or seen[-1]
    for batch in step.batches((torch.randn(50, 6), torch.arange(50) % 3)):
        step(batch)
        for parameter, tensor in zip(model.parameters(), seen.pop().total, strict=True):
            assert parameter.grad.data_ptr() == tensor.data_ptr()


def test_gradients_do_not_lie_where_a_recording_writes_its_next_sum() -> None:
    """It would be a sum without noise, for whoever looks before the noise is there."""
    model = torch.nn.Linear(6, 3)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.0), Plan(50, 1.0, 3, 1.0), rng=0)
    clip, memory = step.parted.totals.clipper, {}

    def recorded(rows, mask):
        found = clip(rows, mask)
        for name, total in found.sums.items():
            found.sums[name] = memory.setdefault(name, total).copy_(total)
        return found

    recorded.weigh, recorded.clip_norm = clip.weigh, clip.clip_norm
    step.parted.totals.clipper, step.parted.totals.replayed = recorded, True
    for batch in step.batches((torch.randn(50, 6), torch.arange(50) % 3)):
        step(batch)
        for name, parameter in model.named_parameters():
            assert parameter.grad.data_ptr() != memory[name].data_ptr()


def test_a_room_holds_the_highest_block_of_the_heap_and_none_that_is_mapped_by_itself() -> None:
    base = 2**44

    class Block:
        def __init__(self, place: int, size: int = 2**20) -> None:
            self.place, self.size = place, size

        def data_ptr(self) -> int:
            return self.place

        def untyped_storage(self):
            return self

        def nbytes(self) -> int:
            return self.size

    room = Room()
    mapped, low, high, middle = (Block(base + far) for far in (2**42, 2**20, 2**30, 2**25))
    huge = Block(base + 2**31, 2**25)
    found = []
    for block in (mapped, low, high, middle, mapped, huge):
        room.hold(block)
        found.append(room.top)
    assert found == [mapped, low, high, high, high, high]
