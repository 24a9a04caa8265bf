# Each target does its own set-up: a virtual environment in this checkout, brought up to date when pyproject.toml changes.
# Another interpreter:  PYTHON=python3.12 make test  (after `make clean` if there is an environment already).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GPU_PYTHON ?= $(BIN)/python

# Two test workers, one thread each: more only get in each other's way.
QUIET_THREADS := JAX_PLATFORMS=cpu OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help demo docs test long proof gpu kills malformed package format coverage clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-plots  ## sample the paper's coal-mining posterior; writes demo/coal_posterior.nc and demo/coal_intensity.png
	@$(BIN)/ellipslice demo

test: $(VENV)/.installed-test  ## format, lint, types, import rules, doctests and all tests but the long ones (10 minutes)
	@echo "ruff format";  $(BIN)/ruff format --check --quiet .
	@echo "ruff check";   $(BIN)/ruff check --quiet .
	@echo "pyright";      PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --warnings
	@echo "lint-imports"; $(BIN)/lint-imports --no-logo
	@$(QUIET_THREADS) $(BIN)/python -m pytest -n 2 --dist worksteal --doctest-modules -m "not long and not gpu" src tests

long: $(VENV)/.installed-test  ## the tests marked `long`, among them those in a browser
	@$(QUIET_THREADS) $(BIN)/python -m pytest -n 2 --dist worksteal -m "long and not gpu" tests

proof: $(VENV)/.installed-test  ## calibration over many fits and many seeds; results in tests/proof/results
	@$(QUIET_THREADS) $(BIN)/python tests/proof/run.py

gpu: $(if $(filter $(BIN)/python,$(GPU_PYTHON)),$(VENV)/.installed-test)  ## tests and a short benchmark on a GPU; GPU_PYTHON=python3 names an interpreter that has JAX for it
	@PYTHONPATH=src:$$PYTHONPATH $(GPU_PYTHON) -m pytest -m gpu tests/gpu
	@PYTHONPATH=src:$$PYTHONPATH $(GPU_PYTHON) -m ellipslice bench --problems R01 --chains 256 --seconds 0.5 --rounds 3 --out gpu_bench.json

docs: $(VENV)/.installed-docs  ## build the pages, examples run: docs/_build/html/index.html (first ten minutes, then seconds)
	@$(QUIET_THREADS) $(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "docs/_build/html/index.html"

kills: $(VENV)/.installed-test  ## kill runs with a store a hundred times, resume them and compare the stores
	@$(QUIET_THREADS) $(BIN)/python tests/faults/kills.py --kills 100

malformed: $(VENV)/.installed-test  ## thousands of malformed inputs to the command line, to stores and to the API
	@MALFORMED_EXAMPLES=500 $(QUIET_THREADS) $(BIN)/python -m pytest -q tests/faults/test_malformed.py

package: $(VENV)/.installed-test  ## build sdist and wheel, install them in empty environments with each extra, and use them there
	@$(QUIET_THREADS) $(BIN)/python tests/packaging/check.py

# One stamp for each set of extras: the demo need not wait for the test tools.
$(VENV)/.installed-%: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "ellipslice needs Python 3.11 or newer; '$(PYTHON)' is not. Choose another: PYTHON=python3.12 make ..." >&2; exit 1; }
	@test -x $(BIN)/python || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); } || { rm -rf $(VENV); exit 1; }
	@echo "installing ellipslice[$*] into $(VENV) (a minute or two, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

format: $(VENV)/.installed-test  ## put the code into its one format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

coverage: $(VENV)/.installed-test  ## which lines the tests reach
	@$(QUIET_THREADS) $(BIN)/coverage run -m pytest --doctest-modules src tests
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

clean:  ## remove the environment, caches and what the demo wrote
	rm -rf $(VENV) demo build dist docs/_build docs/gallery .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.* htmlcov
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
