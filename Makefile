# Two commands on a fresh machine with Python 3.11+: `make quickstart` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
BENCH := accounting training_speed fleet audit bugs
export TACIT_DATA ?= $(wildcard ../shared/data)
export PIP_NO_WARN_SCRIPT_LOCATION := 1

.PHONY: quickstart test suite lint bench docs clean
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

docs: $(VENV)/.dev  ## build the documentation into docs/_build
	$(PIP) -e '.[docs]'
	$(BIN)/sphinx-build -q -W -b html docs docs/_build

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache
