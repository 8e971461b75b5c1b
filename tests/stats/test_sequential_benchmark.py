"""Races keep their promises in simulation; `benchmarks/sequential.py` does the same at length."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from imitbench.stats.spending import DEFAULT_EXPONENT

PATH = Path(__file__).parents[2] / "benchmarks" / "sequential.py"


@pytest.fixture(scope="module")
def simulations():
    spec = importlib.util.spec_from_file_location("sequential_benchmark", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PATH.parent))  # as if it were run
        spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def above(count, draws, rate=0.05):
    """Whether a rate above `rate` is certain at three standard errors."""
    return count > draws * rate + 3 * np.sqrt(draws * rate * (1 - rate))


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["normal", "skewed", "0 or 1", "heavy-tailed"])
@pytest.mark.parametrize(("environments", "methods"), [(1, 2), (1, 6), (5, 2)])
@pytest.mark.parametrize("batch", [3, 5, 10])
def test_identical_methods_rarely_differ(simulations, shape, environments, methods, batch):
    draws = 200
    share = simulations.false_decisions(shape, environments, methods, batch, draws)
    assert not above(share * draws, draws)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["normal", "skewed", "skewed downwards", "0 or 1"])
@pytest.mark.parametrize("environments", [1, 5])
def test_methods_apart_by_the_margin_are_rarely_equivalent(simulations, shape, environments):
    draws = 200
    share = simulations.wrongly_equivalent(shape, environments, 5, draws)
    assert not above(share * draws, draws)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scores", ["10 % of runs lose 0.5, steady", "skewed up, steady", "skewed up, steady, P 1/2"]
)
def test_skew_and_rare_collapses_mislead_few_races(simulations, scores):
    draws = 200
    assert not above(simulations.misled(scores, 5, 5, draws) * draws, draws)


@pytest.mark.slow
def test_a_race_needs_fewer_runs_than_a_fixed_number(simulations):
    cells = list(simulations.published_cells(*simulations.SPREADS).values())
    assert len(cells) >= 5
    fixed, limit, seeds = simulations.saving(cells, 5, DEFAULT_EXPONENT, 25)
    assert seeds <= 0.7 * fixed
    assert limit >= fixed * 0.95


@pytest.mark.slow
def test_adastop_decides_as_races_do(simulations):
    pytest.importorskip("adastop")
    ours, *_ = simulations.by_race(simulations.walker(), 5, 6)
    theirs, _ = simulations.by_adastop(simulations.walker(), 5, 6, 1_000)
    assert ours == theirs
    found = simulations.agreement(24, 300)
    assert np.mean([same for same, _ in found]) >= 0.85
