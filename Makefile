# make demo | test | check | docs | bench | peers | study, from a bare Python 3.11 or newer: each sets up .venv by itself, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test check docs bench peers study clean

demo: $(VENV)/.ready-lab
	$(BIN)/mnemesh reproduce fig1b --quick --out out/demo

test: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not study"

check: $(VENV)/.ready-dev
	$(BIN)/ruff check src tests benchmarks examples docs .ci
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m build --wheel --no-isolation --outdir dist >/dev/null
	$(BIN)/python .ci/lengths.py

docs: $(VENV)/.ready-dev
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html docs out/site
	@echo "the documentation is in out/site/index.html"

bench: $(VENV)/.ready-dev
	OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python benchmarks/bench.py $(BENCH)  # a second BLAS thread would spin, and flatter us

peers: $(VENV)/.ready-dev $(PEERS)/.ready
	OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python benchmarks/peers/compare.py --json out/peers.json

study: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -m study

clean:
	rm -rf $(VENV) $(PEERS) dist build

$(VENV)/.ready-%: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing into $(VENV): once, about a minute"
	@start=$$(date +%s) && PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet -e '.[$*]' \
	  && echo "installed in $$(( $$(date +%s) - start )) s"
	@touch $@

$(PEERS)/.ready: benchmarks/peers/requirements.txt $(VENV)/.made  # an environment of its own: what peers need, and their licences, stay out of ours
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --no-deps -r benchmarks/peers/requirements.txt
	touch $@

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit("mnemesh needs Python 3.11 or newer; make PYTHON=/path/to/one" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	touch $@
