"""A sample of `benchmarks/operators.py`: what is accepted of torch's operators keeps what is promised; so does the kept
result."""

import gc
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.train.clip import Clipper
from train_mutants import last_twice

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = (
    "addmm", "cat", "cdist", "cummax", "cumsum", "einsum", "gather", "index_put", "linalg_solve", "masked_fill",
    "matmul", "nn_functional_conv1d", "nn_functional_conv2d", "nn_functional_cross_entropy",
    "nn_functional_embedding_bag", "nn_functional_group_norm", "nn_functional_pad_reflect",
    "nn_functional_scaled_dot_product_attention", "scatter_add", "sort", "take_along_dim", "topk", "unfold", "where",
    "nn_GRUCell", "nn_Bilinear", "nn_LayerNorm", "nn_MultiheadAttention",
)  # fmt: skip


@pytest.fixture(scope="module")
def benchmark() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        found = importlib.import_module("operators")
        found.operators()
        gc.freeze()  # as the benchmark does: torch's tests are many objects
        yield found
        gc.unfreeze()


@pytest.mark.parametrize("place", range(len(NAMES)), ids=NAMES)
def test_an_operator_of_torch_keeps_what_is_promised(
    benchmark: Any, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spelling = ("parameter", "rows", "weights", "calls")[place % 4]
    monkeypatch.setattr(benchmark, "ODD", benchmark.ODD[:3])
    rows = benchmark.looked_at(NAMES[place], [spelling], 1) or benchmark.looked_at(NAMES[place], ["calls"], 1)
    assert rows
    assert not [row for row in rows if benchmark.broken(row)]


def test_mutant_a_sum_in_which_a_record_counts_twice(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clipper, "together", last_twice(Clipper.together))
    assert {benchmark.broken(row) for row in benchmark.looked_at("abs", ["rows"], 1)} == {"bound"}


def test_the_kept_operators_keep_what_is_promised(benchmark: Any) -> None:
    found = json.loads((BENCHMARKS / "results" / "operators.json").read_text(encoding="utf-8"))["rows"]
    every = found["by operator"].values()
    assert not [row for row in every if any(map(benchmark.broken, (row, *row["others run"])))]
    assert all(row["why"] for each in every for row in each["others run"])
    assert found["ways"]["at once"] >= 1500
