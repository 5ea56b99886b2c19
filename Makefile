# make demo | test | check | docs | bench | study, from a bare Python 3.11 or newer: each sets up .venv by itself, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test check docs bench study clean

demo: $(VENV)/.ready-sim
	$(BIN)/python examples/first.py

test: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not study"

check: $(VENV)/.ready-dev
	$(BIN)/ruff check src tests benchmarks examples docs .ci
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m build --wheel --no-isolation --outdir dist >/dev/null
	$(BIN)/python .ci/lengths.py

docs: $(VENV)/.ready-dev
	$(BIN)/python -m pytest tests/test_docs.py

bench: $(VENV)/.ready-dev
	OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python benchmarks/bench.py $(BENCH)  # a second BLAS thread would spin, and flatter us

study: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -m study

clean:
	rm -rf $(VENV) dist build

$(VENV)/.ready-%: $(VENV)/.made pyproject.toml constraints.txt
	PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet -e '.[$*]'
	touch $@

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit("mnemesh needs Python 3.11 or newer; make PYTHON=/path/to/one" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	touch $@
