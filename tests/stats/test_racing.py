"""Simulated races."""

from dataclasses import replace

import numpy as np
import pytest

from imitbench.stats.racing import Collapsing, Normal, Resampled, simulate
from imitbench.stats.sequential import SequentialDesign, race

DESIGN = replace(SequentialDesign.batches(4, 16), replicates=300)
PAIR = ("new", "old")


class Recording:
    """A source that remembers what it drew."""

    def __init__(self, source):
        self.source = source

    def draw(self, shape, rng):
        self.scores = self.source.draw(shape, rng)
        return self.scores


@pytest.mark.parametrize(
    ("new", "environments", "margin"),
    [
        (Normal(0.6, 0.1), ["e"], 0.05),
        (Normal(0.5, 0.02), ["e"], 0.05),
        (Normal(0.58, 0.1), ["x", "a"], None),
        (Collapsing(1.0, 0.0, 0.5), ["e"], 0.3),
        (Resampled((0.5, 0.52, None, 0.9)), ["x", "a"], 0.3),
    ],
)
def test_simulated_races_decide_as_races_do(new, environments, margin):
    design = replace(DESIGN, margin=margin, alpha=0.2)
    sources = {
        "new": {env: Recording(new) for env in environments},
        "old": {env: Recording(Normal(0.5, 0.02)) for env in environments},
        "third": {env: Recording(new) for env in environments},
    }
    pairs = [PAIR] if len(environments) == 1 else [PAIR, ("third", "old")]
    found = simulate(sources, pairs, environments, design, draws=8)
    counts, total = dict.fromkeys(found.chances, 0), 0
    for at in range(8):
        runs = {
            name: {
                env: [None if np.isnan(score) else score for score in sources[name][env].scores[at]]
                for env in environments
            }
            for name in dict.fromkeys(name for pair in pairs for name in pair)
        }
        ended = race({"sampled": runs}, pairs, environments, design)
        for place, outcome in ended.outcomes.items():
            counts[place] += outcome == "better"
        used = {}
        for look in ended.looks:
            if look.environment or len(environments) == 1:
                for name in look.pair:
                    used[name, look.environment] = design.looks[look.look]
        total += sum(used.values())
    assert {place: each["better"] * 8 for place, each in found.chances.items()} == pytest.approx(
        counts
    )
    assert found.runs.sum() == total == pytest.approx(8 * sum(found.seeds.values()))


def test_each_race_has_one_outcome_and_costs_what_its_runs_cost():
    sources = {"new": {"e": Normal(0.6, 0.1)}, "old": {"e": Normal(0.5, 0.1)}}
    costs = {("new", "e"): 2.0, ("old", "e"): 0.5}
    found = simulate(sources, [PAIR], ["e"], DESIGN, draws=50, costs=costs)
    assert sum(found.chances[PAIR, None].values()) == pytest.approx(1)
    assert found.any_difference == pytest.approx(
        found.chances[PAIR, None]["better"] + found.chances[PAIR, None]["worse"]
    )
    seeds = found.seeds["new", "e"]
    assert seeds == found.seeds["old", "e"] == found.runs.mean() / 2
    assert 4 <= seeds <= 16
    assert found.cost == pytest.approx(2.5 * seeds)
    assert simulate(sources, [PAIR], ["e"], DESIGN, draws=5).cost is None


def test_a_larger_effect_needs_fewer_seeds():
    def seeds(effect):
        sources = {"new": {"e": Normal(0.5 + effect, 0.1)}, "old": {"e": Normal(0.5, 0.1)}}
        return simulate(sources, [PAIR], ["e"], DESIGN, draws=60).runs.mean()

    assert seeds(0.3) < seeds(0.15) < seeds(0.05)


def test_sources_have_the_shape_they_promise():
    rng = np.random.default_rng(0)
    scores = Collapsing(0.9, 0.01, 0.25).draw((100, 50), rng)
    assert (scores == 0).mean() == pytest.approx(0.25, abs=0.03)
    assert scores[scores != 0].mean() == pytest.approx(0.9, abs=0.01)
    drawn = Resampled((0.2, None), shift=0.1).draw((100, 50), rng)
    assert np.isnan(drawn).mean() == pytest.approx(0.5, abs=0.03)
    assert set(drawn[~np.isnan(drawn)]) == {0.2 + 0.1}


def test_some_races_are_needed():
    with pytest.raises(ValueError, match="draws must be positive, not 0"):
        simulate({}, [PAIR], ["e"], DESIGN, draws=0)
