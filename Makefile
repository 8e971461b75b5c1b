PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL = @$(PYTHON) scripts/install.py --venv $(VENV)

# Container images often set it; then each process would compile torch's sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: quickstart install test test-all test-slurm test-browser test-lowest fuzz docs figures lint \
	wheel clean

quickstart:  ## from a clone to a report
	$(INSTALL)
	$(BIN)/imitbench run --algo bc --suite classic --seeds 3 --jobs 2
	$(BIN)/imitbench report

install:  ## everything for development of the project
	$(INSTALL) dev

# One more than cores, because some tests wait for processes or for time to pass.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
test:  ## the default test suite; COVERAGE=1 measures line coverage
	$(INSTALL) test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(if $(COVERAGE),--cov --cov-report=term --cov-report=html)

test-all:  ## with the slow tests
	$(INSTALL) test
	$(BIN)/python -m pytest -n logical --dist loadgroup -m 'not slurm and not browser'

test-slurm:  ## on a SLURM cluster of one node, which is started: Debian, as root
	$(INSTALL) test
	$(BIN)/python -m pytest -m slurm

SCREENSHOTS ?= screenshots
test-browser:  ## HTML reports and the search of the documentation in Chromium, which must be installed
	$(INSTALL) browser docs
	IMITBENCH_SCREENSHOTS=$(SCREENSHOTS) IMITBENCH_REQUIRE_BROWSER=1 $(BIN)/python -m pytest -m browser

# Torch has the version of constraints.txt: its old wheels need gigabytes of CUDA libraries.
LOWEST ?= .venv-lowest
LOWEST_EXTRAS := datasets,density,pandas,slurm,tensorboard
LOWEST_TESTS := $(addprefix tests/,cards data hub policies regularization rewards rl store util)
test-lowest:  ## with the lowest versions that pyproject.toml accepts; Python 3.11 or newer
	$(PYTHON) .ci/lowest_versions.py --extras $(LOWEST_EXTRAS) torch > constraints-lowest.txt
	grep '^torch==' constraints.txt >> constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
		--constraint constraints-lowest.txt --editable '.[$(LOWEST_EXTRAS)]' \
		pytest pytest-xdist hypothesis jsonpickle psutil
	$(LOWEST)/bin/imitbench run --algo bc --env Pendulum-v1 --seeds 1 --budget quick --out $(LOWEST)/runs
	$(LOWEST)/bin/imitbench report --out $(LOWEST)/runs
	$(LOWEST)/bin/python -m pytest -n logical $(LOWEST_TESTS)

MINUTES ?= 20
fuzz:  ## hostile files of every format, for MINUTES=20
	$(INSTALL) test
	$(BIN)/python tests/fuzz/run.py --minutes $(MINUTES)

# The proxy leads nowhere: the site is built of what is here.
docs:  ## the documentation in build/docs/; broken links are errors
	$(INSTALL) docs
	NO_PROXY='*' https_proxy=http://localhost:9 NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

figures:  ## the figures of the README and the documentation, from results/
	$(INSTALL) dev
	$(BIN)/python docs/figures.py

lint:
	$(INSTALL) lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict imitbench

wheel:
	$(INSTALL) build
	$(BIN)/python -m build --wheel --outdir dist .

clean:
	rm -rf build dist site htmlcov .coverage* *.egg-info
