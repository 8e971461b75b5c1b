PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: quickstart install test test-all test-slurm test-browser test-lowest coverage docs lint \
	wheel clean

quickstart: install  ## from a clone to a report
	$(BIN)/imitbench run --algo bc --suite classic --seeds 3 --jobs 2
	$(BIN)/imitbench report

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --constraint constraints.txt torch
	$(INSTALL) --constraint constraints.txt --editable '.[dev]'
	touch $@

test: install  ## the default test suite
	$(BIN)/python -m pytest -n logical

test-all: install  ## with the slow tests
	$(BIN)/python -m pytest -n logical -m 'not slurm'

test-slurm: install  ## on a SLURM cluster of one node, which it starts: Debian, as root
	$(BIN)/python -m pytest -m slurm

test-browser: install  ## the HTML report in Chromium, which must be installed
	IMITBENCH_REQUIRE_BROWSER=1 $(BIN)/python -m pytest -m browser

# Torch is that of constraints.txt: its old wheels bring gigabytes of CUDA along.
LOWEST ?= .venv-lowest
LOWEST_TESTS := $(addprefix tests/,cards data hub policies regularization rewards rl store util)
test-lowest:  ## with the lowest versions that pyproject.toml accepts; Python 3.11 or newer
	$(PYTHON) .ci/lowest_versions.py torch > constraints-lowest.txt
	grep '^torch==' constraints.txt >> constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints-lowest.txt --editable . pytest pytest-xdist hypothesis jsonpickle psutil
	$(LOWEST)/bin/imitbench run --algo bc --env Pendulum-v1 --seeds 1 --budget quick --out $(LOWEST)/runs
	$(LOWEST)/bin/imitbench report --out $(LOWEST)/runs
	$(LOWEST)/bin/python -m pytest -n logical $(LOWEST_TESTS)

coverage: install  ## the default tests, with the lines of the package that they reach
	$(BIN)/python -m pytest -n logical --cov --cov-report=term --cov-report=html

docs: install  ## the documentation, into site/; broken links are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict imitbench

wheel: install
	$(BIN)/python -m build --wheel --outdir dist .

clean:
	rm -rf build dist site htmlcov .coverage* *.egg-info
