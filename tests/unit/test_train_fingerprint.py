"""Arrays joined where they lie, and the fingerprint of a sum against whole numbers worked out one by one."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from torch import Tensor

from tacit.core import BadInput
from tacit.train.noise.fingerprint import blocks, fingerprint, length
from tacit.train.noise.gaussian import PAIRS, Normals, add
from tacit.train.noise.joined import FEWEST, LANES, MOST, TILE, Joined

CPU = torch.device("cpu")
KEYS = torch.arange(1, 17, dtype=torch.int32)


def arrays(*sizes: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator) for size in sizes]


def joined(given: list[Tensor], lanes: int = 4) -> Joined:
    return Joined([len(one) for one in given], CPU, lanes).at(given)


def by_hand(given: list[Tensor], lanes: int, rows: int) -> list[int]:
    """With OpenSSL's stream and Python's whole numbers; part by part, both fingerprints."""
    place = (2**31).to_bytes(8, "little") + bytes(8)
    stream = Cipher(algorithms.ChaCha20(KEYS[:8].numpy().tobytes(), place), None).encryptor()
    keys = [int.from_bytes(stream.update(bytes(8)), "little") for _ in range(4 * lanes + 2 * rows)]
    found = []
    for one in given:
        raw = one.numpy().tobytes()
        words = [int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw), 4)]
        for first in range(0, len(words), rows * lanes):
            part = words[first : first + rows * lanes]
            for which in range(2):
                total = 0
                for lane in range(lanes):
                    column = sum(keys[4 * lanes + 2 * r + which] * m for r, m in enumerate(part[lane::lanes])) % 2**64
                    low, high = (keys[(2 * which + half) * lanes + lane] for half in range(2))
                    total += low * (column % 2**32) + high * (column >> 32)
                found.append(total % 2**64)
    return found


@pytest.mark.parametrize("sizes", [(1,), (0, 5), (33, 32, 1, 0, 95), (3, 4 * FEWEST + 1)])
def test_a_fingerprint_is_what_its_formula_says(sizes) -> None:
    given = arrays(*sizes)
    whole = joined(given)
    found = fingerprint(whole, KEYS)
    assert len(found) == length(whole)
    assert [number % 2**64 for number in found.view(torch.int64).tolist()] == by_hand(given, 4, whole.rows)


def test_any_other_bit_place_or_key_gives_another_fingerprint() -> None:
    given = arrays(40, 7)
    found = {tuple(fingerprint(joined(given), KEYS).tolist())}
    for place in range(47):
        for bit in (0, 13, 31):
            other = torch.cat(given).view(torch.int32).clone()
            other[place] ^= torch.tensor(1 << bit).to(torch.int32)
            found.add(tuple(fingerprint(joined(list(other.view(torch.float32).split([40, 7]))), KEYS).tolist()))
    found.add(tuple(fingerprint(joined([given[0].flip(0), given[1]]), KEYS).tolist()))
    for place in range(8):
        other = KEYS.clone()
        other[place] += 1
        found.add(tuple(fingerprint(joined(given), other).tolist()))
    assert len(found) == 1 + 3 * 47 + 1 + 8


def test_zeros_of_either_sign_and_numbers_that_are_not_finite_are_told_apart() -> None:
    values = [0.0, -0.0, torch.inf, -torch.inf, torch.nan]
    assert len({tuple(fingerprint(joined([torch.full((3,), value)]), KEYS).tolist()) for value in values}) == 5


def test_the_step_of_the_proof_by_counting() -> None:
    """Words of 4 bits, keys of 8: u d takes any value for at most 2^3 of the 2^8 keys; one bit less would be false."""
    most = max(
        max([(u * d) % 256 for u in range(256)].count(value) for value in range(256)) for d in range(-15, 16) if d
    )
    assert most == 2**3


@pytest.mark.parametrize("sizes", [(1,), (0, 5, 0), (TILE - 1, 1, TILE, 3), (700, 0, 0, 1500)])
def test_tables_say_where_every_number_lies(sizes) -> None:
    given = arrays(*sizes)
    whole = joined(given)
    assert whole.places.tolist() == [one.data_ptr() for one in given]
    assert torch.equal(torch.cat(list(whole.pieces())), torch.cat(given))
    assert max(map(len, whole.pieces())) <= 4 * whole.rows
    starts = whole.starts.tolist()
    assert [after - before for before, after in pairwise(starts)] == list(sizes)
    for number, owner in enumerate(whole.owners.tolist()):
        assert starts[owner] <= number * TILE < starts[owner + 1]


def test_a_large_sum_has_few_parts_and_a_small_one_short_ones() -> None:
    large, small = ([300_000_000, 5, 7], [30_000])
    assert Joined(large, CPU).parts.shape[1] <= MOST + len(large)
    assert Joined(small, CPU).rows == FEWEST
    assert blocks(Joined(small, CPU)) * 8 >= 4 * LANES + 2 * FEWEST


@pytest.mark.parametrize("bad", [[torch.ones(2, 3).T], [torch.ones(6).double()], [torch.ones(7)], []])
def test_arrays_of_another_kind_are_refused(bad) -> None:
    with pytest.raises(BadInput, match="contiguous, of float32 and of the sizes"):
        Joined([6], CPU).at(bad)


@pytest.mark.parametrize("sizes", [(1,), (0, 5), (2 * PAIRS - 1, 7, 2 * PAIRS)])
def test_noise_into_joined_arrays_is_the_processors(sizes) -> None:
    ours, theirs = arrays(*sizes), arrays(*sizes)
    add(joined(ours), bytes(range(32)), 3.0, 0.25)
    Normals(CPU).add(theirs, bytes(range(32)), 3.0, 0.25)
    torch.testing.assert_close(torch.cat(ours), torch.cat(theirs), rtol=1e-4, atol=1e-5)
