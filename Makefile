PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: quickstart install test test-all test-slurm test-browser lint wheel clean

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

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict imitbench

wheel: install
	$(BIN)/python -m build --wheel --outdir dist .

clean:
	rm -rf build dist *.egg-info
