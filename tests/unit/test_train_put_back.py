"""What a record changes beyond Python's own objects is put back after it: C objects, settings, modes, caches."""

import functools
import gc
import os
import struct
import sys
import threading
import time
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from tacit.train.clip.isolation import Surroundings
from tacit.train.clip.isolation.c_objects import kept_by_c
from tacit.train.clip.isolation.settings import FLAGS


def around(**held: object) -> Surroundings:
    return Surroundings(types.SimpleNamespace(**held))


def test_objects_of_c_code_are_put_back() -> None:
    lock, counted, packed = threading.Lock(), threading.RLock(), struct.Struct("<i")
    kind = np.dtype([("a", "f4")])

    def change() -> None:
        lock.acquire()
        counted.acquire()
        struct.Struct.__init__(packed, "<ii")
        kind.names = ("b",)

    around(held=(lock, counted, packed, kind)).run(0, change)
    assert (lock.locked(), counted._is_owned(), packed.format, kind.names) == (False, False, "<i", ("a",))


def test_a_lock_that_another_thread_uses_is_waited_for_and_one_that_stays_taken_costs_no_time() -> None:
    """A lock counts as taken only if it stays taken; asking later whether that changed does not wait."""
    lock = threading.Lock()
    lock.acquire()
    threading.Timer(0.01, lock.release).start()
    assert not kept_by_c(lock).noted
    lock.acquire()
    taken = kept_by_c(lock)
    began = time.perf_counter()
    assert not any(taken.moved() for _ in range(20))
    assert time.perf_counter() - began < 0.5
    lock.release()
    taken.restore()
    assert lock.locked()


def test_settings_of_torch_are_put_back() -> None:
    noted = [get() for get, _ in FLAGS]

    def change() -> None:
        torch.set_anomaly_enabled(False, False)
        torch._C._set_nnpack_enabled(False)
        torch._C._set_deterministic_fill_uninitialized_memory(False)
        torch._C._set_check_sparse_tensor_invariants(True)

    around().run(0, change)
    assert [get() for get, _ in FLAGS] == noted


def test_settings_of_the_process_are_put_back() -> None:
    def change() -> None:
        os.chdir("/")
        gc.disable()
        gc.set_threshold(999)
        sys.setswitchinterval(0.5)
        sys.set_int_max_str_digits(5000)

    def now() -> tuple[object, ...]:
        return Path.cwd(), gc.isenabled(), gc.get_threshold(), sys.getswitchinterval(), sys.get_int_max_str_digits()

    noted = now()
    around().run(0, change)
    assert now() == noted


def test_a_working_folder_that_is_gone_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert around().run(0, lambda: 1) == 1


class Quiet(TorchFunctionMode):
    """A mode that does nothing but be there."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def in_force() -> tuple[object, ...]:
    saving = torch._C._autograd._top_saved_tensors_default_hooks(True)
    forbidden = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()
    return torch._C._len_torch_function_stack(), saving, forbidden, torch.autograd.forward_ad._current_level


def test_what_a_record_left_in_force_is_left_for_it() -> None:
    def change() -> None:
        Quiet().__enter__()
        torch._C._autograd._push_saved_tensors_default_hooks(abs, abs)
        torch.autograd.forward_ad.enter_dual_level()

    before = in_force()
    around().run(0, change)
    assert in_force() == before
    around().run(0, lambda: torch._C._autograd._saved_tensors_hooks_disable("no"))
    assert in_force() == before


def test_what_a_record_took_out_of_force_is_in_force_again() -> None:
    with Quiet() as mode, torch.autograd.graph.saved_tensors_hooks(abs, abs):
        before = in_force()
        around().run(0, lambda: (torch.overrides._pop_mode(), torch._C._autograd._pop_saved_tensors_default_hooks()))
        assert in_force() == before
        assert torch.overrides._get_current_function_mode_stack()[-1] is mode


def test_sparse_and_nested_tensors_are_put_back_in_their_place() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of kinds of tensors that torch calls new
        pairs, rows = torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr()
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    places = pairs._values().data_ptr(), rows.values().data_ptr()

    def change() -> None:
        pairs._values().fill_(7)
        pairs.copy_(torch.ones(2, 2).to_sparse())
        rows.values().fill_(7)
        nested.values().fill_(7)
        pairs.grad = torch.ones(2, 2).to_sparse()

    around(held=[pairs, rows, nested]).run(0, change)
    assert torch.equal(pairs.to_dense(), torch.eye(2))
    assert torch.equal(rows.to_dense(), torch.eye(2))
    assert torch.equal(nested.values(), torch.ones(5))
    assert (pairs._values().data_ptr(), rows.values().data_ptr(), pairs.grad) == (*places, None)


def test_every_record_is_given_the_same_children_of_a_generator() -> None:
    numbers = np.random.default_rng(5)
    kept = around(held=numbers)
    assert len({kept.run(0, lambda: float(numbers.spawn(1)[0].random())) for _ in range(2)}) == 1
    assert numbers.bit_generator.seed_seq.n_children_spawned == 0


@functools.lru_cache
def remembered() -> list[int]:
    return []


def test_the_first_record_too_meets_empty_caches() -> None:
    """What the script had put there would tell a record that it comes first."""
    remembered()
    kept = around(held=remembered)
    assert [kept.run(0, lambda: (remembered.cache_info().currsize, remembered())[0]) for _ in range(2)] == [0, 0]
