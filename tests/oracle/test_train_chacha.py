"""Our ChaCha20 against OpenSSL's, and the device's normal numbers against the processor's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from tacit.train.noise.chacha import keystream, stream_of
from tacit.train.noise.derive import derived, words_of
from tacit.train.noise.gaussian import PAIRS, Normals, eager, on_device, on_processor

CPU = torch.device("cpu")


def openssl(key: bytes, count: int, first: int = 0) -> np.ndarray:
    nonce = first.to_bytes(8, "little") + bytes(8)
    return np.frombuffer(Cipher(algorithms.ChaCha20(key, nonce), None).encryptor().update(bytes(4 * count)), np.int32)


@pytest.mark.parametrize("count", [1, 16, 17, 5000])
def test_the_stream_is_openssl_s(count: int) -> None:
    for key in (bytes(32), bytes(range(32)), b"\xff" * 32):
        assert np.array_equal(keystream(key, count).numpy(), openssl(key, count))


def test_the_counter_has_64_bits() -> None:
    key = bytes(range(32))
    words = torch.tensor(np.frombuffer(key, np.int32).copy())
    for first in (2**31 - 1, 2**32 - 1, 2**32, 2**40):
        found = stream_of(words, torch.tensor([first]))
        assert np.array_equal(found.flatten().numpy(), openssl(key, 16, first))


def test_many_keys_and_a_nonce_are_openssl_s() -> None:
    keys = [bytes(range(32)), bytes(range(1, 33))]
    words = torch.tensor(np.stack([np.frombuffer(key, np.int32) for key in keys]))
    found = stream_of(words[:, None], torch.arange(3), (7, 9))
    for key, blocks in zip(keys, found, strict=True):
        nonce = bytes(8) + (7).to_bytes(4, "little") + (9).to_bytes(4, "little")
        stream = Cipher(algorithms.ChaCha20(key, nonce), None).encryptor().update(bytes(4 * 48))
        assert np.array_equal(blocks.flatten().numpy(), np.frombuffer(stream, np.int32))


def test_a_key_per_row_is_a_stream_per_row() -> None:
    keys = torch.arange(24, dtype=torch.int32).view(3, 8)
    together, alone = torch.ones(2, 3, 41)
    eager(together, keys, 0, 32, 3.0, 0.5, (5, 1))
    for row, key in zip(alone, keys, strict=True):
        eager(row[None], key, 0, 32, 3.0, 0.5, (5, 1))
    assert torch.equal(together, alone)


@pytest.mark.parametrize("count", [0, 1, 7, 2 * PAIRS, 2 * PAIRS + 3, 6 * PAIRS - 1])
def test_devices_agree_about_the_noise(count: int) -> None:
    key, found = bytes(range(32)), torch.empty(count)
    on_device(found, key, 1.0, eager)
    torch.testing.assert_close(found, on_processor(key, count), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [1, 8, 2 * PAIRS + 3])
def test_noise_has_its_scale(count: int) -> None:
    key, found = bytes(range(32)), torch.empty(count)
    Normals(CPU).fill(found, key, 3.0)
    torch.testing.assert_close(found, 3.0 * on_processor(key, count))


EACH = """
import json, sys, traceback

said = {}
for program in json.load(sys.stdin):
    try:
        exec(compile(program, "a program of this test", "exec"), {"__name__": "__main__"})
        said[program] = ""
    except Exception:
        said[program] = traceback.format_exc()
print(json.dumps(said))
"""
ROUNDING = f"""
import runpy

runpy.run_path({str(Path(__file__).parents[1] / "train_noise_kernel.py")!r}, run_name="__main__")
"""


@pytest.fixture(scope="module")
def interpreted() -> dict[str, str]:
    """What went wrong in each program: Triton runs its kernels on a processor, statement by statement."""
    given = json.dumps([GPU_KERNEL, ROUNDING, INTO_KERNEL, MARK_KERNEL, KEY_KERNEL])
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", EACH]
    done = subprocess.run(command, input=given, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


GPU_KERNEL = """
import torch
from tacit.train.noise.chacha import key_words
from tacit.train.noise.gaussian import eager
from tacit.train.noise.kernels import noise

words = key_words(bytes(range(32)), "cpu")
for first, pieces, pairs, count, shares in (
    (0, 1, 1024, 2048, [0.5]), (9, 2, 272, 541, [0.0]), (2**32 - 5, 1, 16, 1, [0.5])
):
    for share in shares:
        ours, theirs = torch.full((2, pieces * count + 5), 7.0)
        noise(ours[:-5].view(pieces, count), words, first, pairs, 3.0, share)
        eager(theirs[:-5].view(pieces, count), words, first, pairs, 3.0, share)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        assert (ours[-5:] == 7).all() and (count < 99 or 2.8 < ours[:-5].std() < 3.2)
        assert abs(ours[:-5].mean() - 7 * share) < 0.5 or count < 99
keys = torch.arange(16, dtype=torch.int32).view(2, 8)
for pairs, count in ((272, 200), (16, 7)):
    ours, theirs = torch.ones(2, 2, count)
    noise(ours, keys, 0, pairs, 3.0, 0.5, (5, 1))
    eager(theirs, keys, 0, pairs, 3.0, 0.5, (5, 1))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
"""


@pytest.mark.needs("triton")
def test_the_gpu_kernel_makes_the_same_noise_when_interpreted(interpreted: dict[str, str]) -> None:
    """Triton runs its kernels on a processor, statement by statement."""
    assert interpreted[GPU_KERNEL] == ""


@pytest.mark.needs("triton")
def test_radii_and_turns_of_the_gpu_kernel_are_right_to_rounding_when_interpreted(interpreted: dict[str, str]) -> None:
    assert interpreted[ROUNDING] == ""


INTO_KERNEL = """
import torch
from tacit.train.noise.chacha import key_words
from tacit.train.noise.gaussian import eager, pairs_of, put
from tacit.train.noise.joined import Joined
from tacit.train.noise.kernels import noise_into

words, pairs = key_words(bytes(range(32)), "cpu"), 512
for sizes in ((5, 700, 0, 1500), (1024, 0), (1, 1, 16), (0, 513, 511)):
    count = sum(sizes)
    pieces, rest = divmod(count, 2 * pairs)
    padded = [torch.full((size + 2,), 7.0) for size in sizes]
    theirs, flat = [torch.full((size,), 7.0) for size in sizes], torch.empty(count)
    joined = Joined(sizes, torch.device("cpu")).at([row[1:-1] for row in padded])
    noise_into(joined, words, pairs, pairs_of(rest), 3.0, 0.5)
    if pieces:
        eager(flat[: count - rest].view(pieces, -1), words, 0, pairs, 3.0)
    if rest:
        eager(flat[count - rest :].view(1, -1), words, pieces * 3 * pairs // 16, pairs_of(rest), 3.0)
    put(iter([flat]), theirs, 0.5)
    for ours, right in zip(padded, theirs, strict=True):
        torch.testing.assert_close(ours[1:-1], right, rtol=1e-4, atol=1e-5)
        assert ours[0] == ours[-1] == 7
"""


@pytest.mark.needs("triton")
def test_the_gpu_kernel_adds_one_flat_draw_to_several_arrays_when_interpreted(interpreted: dict[str, str]) -> None:
    """And writes nothing beside them."""
    assert interpreted[INTO_KERNEL] == ""


MARK_KERNEL = """
import torch
from tacit.train.noise.fingerprint import eager, length
from tacit.train.noise.joined import Joined
from tacit.train.noise.kernels import fingerprint

generator = torch.Generator().manual_seed(1)
keys = torch.randint(-(2**31), 2**31, (16,), generator=generator).to(torch.int32)
for sizes in ((5, 0, 70, 9 * 16 + 3), (1,), (8 * 16, 1)):
    words = [torch.randint(-(2**31), 2**31, (size,), generator=generator).to(torch.int32) for size in sizes]
    joined = Joined(sizes, torch.device("cpu"), lanes=16).at([one.view(torch.float32) for one in words])
    ours, theirs = torch.zeros(2, length(joined), dtype=torch.int32)
    fingerprint(joined, keys, ours)
    eager(joined, keys, theirs)
    assert torch.equal(ours, theirs) and (ours != 0).all()
"""


@pytest.mark.needs("triton")
def test_the_gpu_kernel_makes_the_same_fingerprint_when_interpreted(interpreted: dict[str, str]) -> None:
    assert interpreted[MARK_KERNEL] == ""


KEY_KERNEL = """
import torch

from tacit.train.noise.derive import eager
from tacit.train.noise.kernels import derive

generator = torch.Generator().manual_seed(1)
keys = torch.randint(-(2**31), 2**31, (16,), generator=generator).to(torch.int32)
for count in (1, 1537):
    seen = torch.randint(-(2**31), 2**31, (count,), generator=generator).to(torch.int32)
    ours, theirs = torch.zeros(2, 8, dtype=torch.int32)
    derive(seen, keys, ours)
    eager(seen, keys, theirs)
    assert torch.equal(ours, theirs) and ours.any()
"""


@pytest.mark.needs("triton")
def test_the_gpu_kernel_makes_the_same_key_when_interpreted(interpreted: dict[str, str]) -> None:
    assert interpreted[KEY_KERNEL] == ""


def test_a_key_made_on_the_device_is_a_hash_of_chacha_blocks() -> None:
    """Against the processor's own ChaCha20, one block per three words."""
    seen = torch.tensor([1.5, -2.25, 3.0, 1e-20, 7.0])
    keys = bytes(range(64))

    def block(key: bytes, place: bytes) -> bytes:
        return Cipher(algorithms.ChaCha20(key, place), None).encryptor().update(bytes(64))

    words = seen.numpy().tobytes() + bytes(4)
    places = [number.to_bytes(4, "little") + words[12 * number : 12 * number + 12] for number in range(2)]
    one, two = (block(keys[:32], place)[:16] for place in places)
    mixed = bytes(a ^ b for a, b in zip(one, two, strict=True))
    assert derived(seen, words_of(keys, seen.device)).numpy().tobytes() == block(keys[32:], mixed)[:32]


def test_any_other_number_seen_gives_another_key() -> None:
    seen = torch.randn(40)
    found = {derived(seen, words_of(bytes(64), seen.device)).numpy().tobytes()}
    for place in range(40):
        other = seen.clone()
        other[place] = torch.nextafter(other[place], torch.tensor(9.0))
        found.add(derived(other, words_of(bytes(64), seen.device)).numpy().tobytes())
    found.add(derived(seen.flip(0), words_of(bytes(64), seen.device)).numpy().tobytes())
    found.add(derived(seen, words_of(bytes(63) + b"1", seen.device)).numpy().tobytes())
    assert len(found) == 43
