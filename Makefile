# Two commands on a fresh machine with Python 3.11+: `make quickstart` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
BENCH := accounting training_speed fleet audit bugs
GPU_PYTHON ?= $(BIN)/python
GPU_OUT ?= build/gpu
GPU_TESTS := $(shell grep -rl --include='test_*.py' 'needs("gpu")' tests)
GPU_STEPS := gpu-steps-1 gpu-steps-2 gpu-steps-3
GPU_PIECES := gpu-training gpu-tests $(GPU_STEPS) gpu-runs
RUN_ON_GPU = mkdir -p $(GPU_OUT) && PYTHONPATH=src$${PYTHONPATH:+:$$PYTHONPATH} PYTHONUNBUFFERED=1 TACIT_REQUIRE=gpu $(GPU_PYTHON)
export TACIT_DATA ?= $(wildcard ../shared/data)
export PIP_NO_WARN_SCRIPT_LOCATION := 1

.PHONY: quickstart test suite lint bench docs clean gpu gpu-median $(GPU_PIECES)
.DELETE_ON_ERROR:

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tacit needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.quickstart: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[quickstart]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.quickstart

quickstart: $(VENV)/.quickstart  ## train, attack, audit and report on embedded data
	$(BIN)/tacit quickstart

test: $(VENV)/.dev  ## all tests, on two cores, and lint beside them
	@$(MAKE) --no-print-directory --jobs=2 lint suite

suite: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

lint: $(VENV)/.dev  ## style, types, and which room may import which
	$(BIN)/ruff check src tests examples benchmarks
	$(BIN)/ruff format --check src tests examples benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

bench: $(VENV)/.dev  ## measure against the peers on a CPU; results go to benchmarks/results
	$(PIP) -e '.[dev,oracles]'
	for name in $(BENCH); do OMP_NUM_THREADS=1 $(BIN)/python benchmarks/$$name.py || exit 1; done

gpu: $(GPU_PIECES) gpu-median  ## on a machine with a GPU: its tests, and its benchmarks into build/gpu; docs/decisions/gpu-speed.md

gpu-training:
	$(RUN_ON_GPU) -m pytest -q -k gpu tests/oracle/test_gpu_training.py

gpu-tests:
	$(RUN_ON_GPU) -m pytest -q -k gpu $(filter-out %/test_gpu_training.py,$(GPU_TESTS))

$(GPU_STEPS): gpu-steps-%:
	$(RUN_ON_GPU) benchmarks/training_speed_gpu.py --together --only "plain, bf16, compiled" "tacit, bf16, compiled" --out $(GPU_OUT)/steps-$*.json

gpu-median:
	$(RUN_ON_GPU) benchmarks/medians.py $(GPU_OUT)/steps-*.json

gpu-runs:
	$(RUN_ON_GPU) benchmarks/whole_runs_gpu.py --cases wrn-4096 gpt2-256 gpt2-32 wrn-16-versions --out $(GPU_OUT)/runs.json

docs: $(VENV)/.dev  ## build the documentation into docs/_build
	$(PIP) -e '.[docs]'
	$(BIN)/sphinx-build -q -W -b html docs docs/_build

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache
