"""Whether one algorithm is better than another."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imitbench.stats.verdicts import in_all_views, verdicts

FEW = 2_000
SHAPES = {
    "normal": lambda rng, runs: rng.normal(0.8, 0.1, runs),
    "success or collapse": lambda rng, runs: (
        rng.choice([0.0, 1.0], runs) + rng.normal(0, 0.01, runs)
    ),
    "rare collapse": lambda rng, runs: (
        np.where(rng.random(runs) < 0.2, 0.1, 1.0) + rng.normal(0, 0.02, runs)
    ),
    "skewed": lambda rng, runs: 1 - rng.exponential(0.2, runs),
}


def cells(shape, environments, runs, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    return {f"env{i}": SHAPES[shape](rng, runs) + shift for i in range(environments)}


def against(first, second, replicates=FEW, **options):
    [verdict] = verdicts("new", first, {"old": second}, replicates=replicates, **options)
    return verdict


@pytest.mark.parametrize(("shift", "decision"), [(0.5, "better"), (-0.5, "worse")])
@pytest.mark.parametrize("runs", [4, 5, 10])
def test_a_clear_difference_is_decided_in_its_direction(shift, decision, runs):
    verdict = against(cells("normal", 1, runs, 1, shift), cells("normal", 1, runs, 2))
    assert (verdict.decision, verdict.reason) == (decision, "decided")
    [found] = verdict.environments
    assert found.decision == decision
    assert (
        found.difference.difference
        == pytest.approx(verdict.difference.difference)
        == pytest.approx(verdict.environments[0].means[0] - verdict.environments[0].means[1])
    )
    assert np.sign(verdict.iqm.low) == np.sign(verdict.iqm.high) == np.sign(shift)
    assert verdict.improvement.probability.point == (shift > 0)
    assert verdict.seeds.more == 0


def test_three_seeds_decide_over_environments_and_never_on_one():
    verdict = against(cells("normal", 3, 3, 1, 1.0), cells("normal", 3, 3, 2))
    assert verdict.decision == "better"
    assert {found.decision for found in verdict.environments} == {"undecided"}
    assert {found.reason for found in verdict.environments} == {"too few runs"}
    # 20 relabelings of 3 and 3 runs; 252 of 5 and 5, which is the first where 2 / n <= 0.05 / 3
    assert {found.test.lacking for found in verdict.environments} == {2}
    assert {found.seeds.more for found in verdict.environments} == {2}


# Not with (1, 3), where three runs never decide, as the test above says.
@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("environments", "runs"), [(1, 5), (3, 3), (5, 3), (5, 5)])
def test_false_alarms_are_rare(shape, environments, runs):
    experiments = 400
    overall = anywhere = 0
    for experiment in range(experiments):
        one = cells(shape, environments, runs, [experiment, 0])
        other = cells(shape, environments, runs, [experiment, 1])
        # The test decides by relabelings; resamples give only the intervals.
        verdict = against(one, other, replicates=100)
        overall += verdict.decision != "undecided"
        anywhere += any(found.decision != "undecided" for found in verdict.environments)
    # Of 400 at 5 %, more than 33 come with a probability of 0.2 %.
    assert overall <= 33
    assert anywhere <= 33


def test_baselines_are_corrected_for_each_other():
    new = cells("normal", 1, 5, 1, 0.17)
    old = {f"old{i}": cells("normal", 1, 5, 10 + i) for i in range(8)}
    alone = {name: against(new, scores).test.p_value for name, scores in old.items()}
    together = verdicts("new", new, old, replicates=FEW)
    assert [verdict.second for verdict in together] == list(old)
    assert {verdict.second: verdict.test.p_value for verdict in together} == alone
    assert min(verdict.test.adjusted for verdict in together) == pytest.approx(
        8 * min(alone.values())
    )


def test_one_lost_environment_of_many_is_said_there():
    # One environment of five is lost completely; the middle half of all runs does not change.
    old = {f"env{i}": np.full(6, 1.0) + 0.001 * np.arange(6) for i in range(5)}
    new = {**old, "env0": np.zeros(6)}
    verdict = against(new, old)
    assert verdict.test.means < 0.05 < verdict.test.typical == verdict.test.adjusted
    assert (verdict.decision, verdict.reason) == ("undecided", "no difference seen")
    assert [found.decision for found in verdict.environments] == ["worse"] + 4 * ["undecided"]
    assert (verdict.collapses.first.collapsed, verdict.collapses.second.collapsed) == (6, 0)
    assert verdict.collapses.p_value < 0.01


def test_a_mean_that_the_iqm_does_not_follow_decides_nothing():
    # The lowest and the highest quarter of all runs are worse, and the middle half is the same.
    levels = {"low": 0.1, "mid": 1.0, "middle": 1.1, "high": 2.0}
    old = {env: level + 0.001 * np.arange(6) for env, level in levels.items()}
    new = {env: runs - 0.05 * (env in ("low", "high")) for env, runs in old.items()}
    verdict = against(new, old)
    assert verdict.test.adjusted < 0.05
    assert (verdict.decision, verdict.reason) == ("undecided", "mean and IQM disagree")
    assert {f.environment for f in verdict.environments if f.decision == "worse"} == {"low", "high"}


def test_only_common_environments_count_and_the_others_are_named():
    new = cells("normal", 3, 5, 1, 1.0)
    old = {name: scores for name, scores in cells("normal", 4, 5, 2).items() if name != "env0"}
    verdict = against(new, old)
    assert [found.environment for found in verdict.environments] == ["env1", "env2"]
    assert {(cell.algorithm, cell.environment) for cell in verdict.coverage.missing} == {
        ("old", "env0"),
        ("new", "env3"),
    }


def test_without_common_environments_nothing_is_said():
    verdict = against({"a": [1.0, 2.0]}, {"b": [1.0, 2.0]})
    assert (verdict.decision, verdict.reason) == ("undecided", "nothing in common")
    assert verdict.environments == ()
    assert verdict.seeds is None


def test_single_runs_decide_nothing():
    verdict = against({"a": [1.0]}, {"a": [0.0]})
    assert (verdict.decision, verdict.reason) == ("undecided", "too few runs")
    assert verdict.seeds.outlook == "unknown spread"


def test_unequal_numbers_of_runs():
    verdict = against(cells("normal", 2, 10, 1, 0.5), cells("normal", 2, 4, 2))
    assert verdict.decision == "better"
    assert {found.runs for found in verdict.environments} == {(10, 4)}


def test_what_differs_between_two_ways_to_count_is_undecided():
    plain, old = cells("normal", 2, 6, 1, 0.4), cells("normal", 2, 6, 2)
    failing = {**plain, "env0": np.append(plain["env0"], 6 * [0.0])}
    one, other = against(plain, old), against(failing, old)
    assert [found.decision for found in one.environments] == ["better", "better"]
    assert other.environments[0].decision != "better"
    [combined] = in_all_views([[other], [one]], "failed runs decide")
    assert combined.environments[0].reason == "failed runs decide"
    assert combined.environments[1] == other.environments[1]
    assert combined.decision == (one.decision if one.decision == other.decision else "undecided")
    assert in_all_views([[one], [one]], "failed runs decide") == [one]


def test_views_are_corrected_together_and_not_each_by_itself():
    """Of two baselines, each is clearly worse in one view and nearly as good in the other."""
    ours = cells("normal", 1, 6, 1, 0.4)
    clear, near = cells("normal", 1, 6, 2, -9.0), None
    for shift in np.linspace(0.4, -0.6, 41):  # just decided against one baseline alone
        near = cells("normal", 1, 6, 3, shift)
        if 0.025 < verdicts("new", ours, {"near": near}, replicates=FEW)[0].test.p_value < 0.05:
            break
    one = verdicts("new", ours, {"a": near, "b": clear}, replicates=FEW)
    other = verdicts("new", ours, {"a": clear, "b": near}, replicates=FEW)
    assert {found.decision for found in (*one, *other)} == {"better"}
    together = in_all_views([one, other], "ways of acting differ")
    assert [found.decision for found in together] == ["undecided"] * 2
    assert [found.reason for found in together] == ["no difference seen"] * 2
    assert all(found.test.adjusted > 0.05 for found in together)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(2, 5))
def test_exchanged_sides_give_the_opposite(seed, environments, runs):
    one = cells("skewed", environments, runs, [seed, 0], 0.3)
    other = cells("skewed", environments, runs, [seed, 1])
    opposite = {"better": "worse", "worse": "better", "undecided": "undecided"}
    forward, backward = against(one, other), against(other, one)
    assert backward.difference.difference == pytest.approx(-forward.difference.difference)
    assert backward.improvement.probability.point == pytest.approx(
        1 - forward.improvement.probability.point
    )
    for found, mirrored in zip(forward.environments, backward.environments, strict=True):
        assert mirrored.decision == opposite[found.decision]


def test_the_same_seed_gives_the_same_verdict():
    one, other = cells("normal", 3, 8, 1, 0.05), cells("normal", 3, 8, 2)
    assert against(one, other) == against(one, other)
    assert against(one, other).iqm != against(one, other, seed=1).iqm


@pytest.mark.parametrize(("level", "runs"), [(0.9, 3), (0.8, 3), (0.95, 4)])
def test_the_least_p_that_there_can_be_is_enough(level, runs):
    """Three against three give 2 / 20, which is 0.1: as much as a level of 0.9 allows."""
    apart = {"env": np.arange(runs) * 0.01}, {"env": 1 + np.arange(runs) * 0.01}
    verdict = against(apart[1], apart[0], level=level)
    assert verdict.test.p_value <= round(1 - level, 12)
    assert (verdict.test.lacking, verdict.environments[0].decision) == (0, "better")


def test_few_replicates_of_the_bootstrap_do_not_keep_a_verdict_back():
    """Of a hundred relabelings no p is below 0.0099, and six baselines need 0.05 / 6."""
    rng = np.random.default_rng(0)
    new, *olds = ({"env": shift + rng.normal(0, 0.03, 12)} for shift in (0.9, *[0.1] * 6))
    found = verdicts("new", new, {f"old{i}": old for i, old in enumerate(olds)}, replicates=100)
    assert {verdict.decision for verdict in found} == {"better"}
