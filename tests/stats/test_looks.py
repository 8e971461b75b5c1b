"""What one look of a race finds."""

from types import SimpleNamespace

import numpy as np
import pytest

from imitbench.stats.looks import Levels, look_at
from imitbench.stats.mean_test import mean_tests
from imitbench.stats.significance import welch

LEVELS = Levels(0.02, 0.01)


def rng(seed=0):
    return np.random.default_rng(seed)


def look(columns, levels=LEVELS, margin=0.05):
    return look_at(columns, levels, margin=margin, replicates=500, seed=(0, 0))


def columns(sizes, experiments=20, spread=0.1, seed=0):
    generator = rng(seed)
    return [
        tuple(generator.normal(0.5, spread * (1 + i), (experiments, size)) for size in pair)
        for i, pair in enumerate(sizes)
    ]


@pytest.mark.parametrize("sizes", [[(5, 5)], [(4, 9)], [(3, 3), (5, 4), (6, 6)]])
def test_many_experiments_at_once_are_as_single_ones(sizes):
    found = look(columns(sizes))
    for at in range(0, 20, 5):
        one, other = (
            {f"e{i}": pair[side][at] for i, pair in enumerate(columns(sizes))} for side in (0, 1)
        )
        interval = welch(one, other, level=1 - LEVELS.interval)
        single = [tuple(scores[at : at + 1] for scores in pair) for pair in columns(sizes)]
        options = {"significance": LEVELS.test, "replicates": 500, "bounds": True}
        assert found.p_value[at] == pytest.approx(mean_tests(single, rng=rng((0, 0)), **options)[0])
        assert found.difference[at] == pytest.approx(interval.difference)
        assert (found.low[at], found.high[at]) == pytest.approx((interval.low, interval.high))


def test_a_single_run_has_an_unknown_spread():
    found = look(columns([(5, 1)]))
    assert np.isnan(found.low).all() and np.isnan(found.high).all()
    assert set(found.outcome) == {"undecided"}


def test_an_unseen_collapse_is_allowed_for():
    """Clopper and Pearson: no failure in 20 runs leaves a rate of 1 - 0.025^(1/20)."""
    ones = np.ones((1, 20))
    found = look([(ones, ones)], Levels(0.0, 0.05))
    assert (found.low[0], found.high[0]) == pytest.approx((-0.16843, 0.16843), abs=1e-5)
    seen = np.append(np.ones(19), 0.0)
    found = look([(seen[None], ones)], Levels(0.0, 0.05))
    assert found.low[0] == pytest.approx(welch({"e": seen}, {"e": ones[0]}).low)


def test_successes_that_no_episode_showed_are_allowed_for():
    """Two policies that never succeeded in 25 episodes may differ by more than the margin."""
    never, seldom = np.zeros((1, 25)), np.zeros((1, 200))
    assert look([(never, never)]).outcome[0] == "undecided"
    assert look([(seldom, seldom)]).outcome[0] == "equivalent"
    found = look([(never, never)], Levels(0.0, 0.05))
    bound = 1 - 0.025 ** (1 / 25)
    assert (found.low[0], found.high[0]) == pytest.approx((-bound, bound))
    found = look([(never, np.ones((1, 25)))], Levels(0.0, 0.05))
    assert (found.low[0], found.high[0]) == pytest.approx((-1, -1 + 2 * bound))


def test_a_collapse_that_one_run_shows_is_not_the_last_one():
    """One failure in 20 hides a difference of 0.2 easily, although Welch's interval excludes it."""
    steady = rng().normal(1.0, 0.005, (1, 20))
    failing = np.append(np.ones(19), 0.0)[None]
    found = look([(steady, failing)], margin=0.2)
    assert -0.2 < found.low[0] < found.high[0] < 0.2
    assert found.outcome[0] == "undecided"
    assert look([(steady, steady[:, ::-1])], margin=0.2).outcome[0] == "equivalent"


def test_without_a_level_there_is_no_test():
    far = [(np.full((1, 12), 0.9) + rng().normal(0, 0.01, (1, 12)), np.zeros((1, 12)))]
    assert look(far).outcome[0] == "better"
    none = look(far, Levels(0.0, 0.01))
    assert none.outcome[0] == "undecided" and np.isnan(none.p_value[0])


def test_an_extreme_level_does_not_fill_the_memory(monkeypatch):
    asked = []

    def found(columns, *, replicates, **_):
        asked.append(replicates)
        return SimpleNamespace(p_value=np.ones(len(columns[0][0])))

    monkeypatch.setattr("imitbench.stats.looks.difference_tests", found)
    for level in (0.01, 1e-5, 1e-12):
        look(columns([(20, 20)]), Levels(level, 0.01))
    assert asked == [1000, 1_024_000, 8_192_000]
