"""Our ChaCha20 against OpenSSL's, and the device's normal numbers against the processor's."""

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from tacit.core import BadInput
from tacit.train.chacha import keystream, stream_of
from tacit.train.gaussian import PAIRS, Normals, eager_pieces, on_device, on_processor

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


@pytest.mark.parametrize("count", [0, 1, 7, 2 * PAIRS, 2 * PAIRS + 3, 6 * PAIRS - 1])
def test_devices_agree_about_the_noise(count: int) -> None:
    key = bytes(range(32))
    ours, theirs = on_device(key, count, CPU, eager_pieces), on_processor(key, count)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [1, 8, 2 * PAIRS + 3])
def test_noise_is_added_in_place_at_its_scale(count: int) -> None:
    key, start = bytes(range(32)), torch.randn(count)
    total = start.clone()
    Normals(CPU).add(total, key, 3.0)
    torch.testing.assert_close(total, start + 3.0 * on_processor(key, count))


def test_a_compiled_kernel_that_differs_is_refused(monkeypatch) -> None:
    key = bytes(range(32))
    monkeypatch.setattr(torch, "compile", lambda function, **_: lambda *args: 0.9 * function(*args))
    with pytest.raises(BadInput, match="not the eager noise"):
        on_device(key, 100, CPU, Normals(CPU)._compiled)
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    found = on_device(key, 4 * PAIRS + 10, CPU, Normals(CPU)._compiled)
    torch.testing.assert_close(found, on_processor(key, 4 * PAIRS + 10), rtol=1e-4, atol=1e-5)
