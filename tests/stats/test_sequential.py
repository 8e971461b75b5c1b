"""Races: comparisons that decide after each batch of seeds."""

from dataclasses import replace

import numpy as np
import pytest

from imitbench.stats.aggregates import interquartile_mean
from imitbench.stats.coverage import FailurePolicy
from imitbench.stats.mean_test import mean_test
from imitbench.stats.sequential import EQUIVALENCE_RUNS, Needed, SequentialDesign, race
from imitbench.stats.significance import welch
from imitbench.stats.spending import LINEAR, nominal_levels

DESIGN = replace(SequentialDesign.batches(5, 20), exponent=LINEAR, replicates=500)
PAIR = ("new", "old")


def rng(seed=0):
    return np.random.default_rng(seed)


def linear(fractions, alpha):
    return nominal_levels(fractions, alpha, LINEAR)


def scores(mean, environments=("e",), spread=0.1, runs=20, seed=0):
    generator = rng(seed)
    return {env: list(generator.normal(mean, spread, runs)) for env in environments}


def between(new, old, design=DESIGN):
    return race({"sampled": {"new": new, "old": old}}, [PAIR], list(new), design)


@pytest.mark.parametrize(("shift", "outcome"), [(0.6, "better"), (-0.6, "worse")])
def test_a_clear_difference_stops_at_the_first_look(shift, outcome):
    found = between(scores(0.5 + shift), scores(0.5, seed=1))
    assert found.outcomes == {(PAIR, None): outcome}
    assert found.needed == ()
    [look] = found.looks
    assert (look.runs, look.outcome, look.look) == ((5, 5), outcome, 0)
    assert np.sign(look.low) == np.sign(look.high) == np.sign(shift)


def test_a_look_tests_at_its_nominal_level():
    new, old = scores(0.5), scores(0.5, seed=1)
    levels = linear(DESIGN.fractions, DESIGN.alpha)
    found = between(new, old, replace(DESIGN, margin=None))
    assert [look.level for look in found.looks] == list(levels)
    assert [look.runs for look in found.looks] == [(5, 5), (10, 10), (15, 15), (20, 20)]
    for look, runs in zip(found.looks, DESIGN.looks, strict=True):
        one, other = {"e": np.array(new["e"][:runs])}, {"e": np.array(old["e"][:runs])}
        interval = welch(one, other, level=1 - look.level)
        assert (look.low, look.high) == pytest.approx((interval.low, interval.high))
        assert look.p_value <= mean_test(one, other, rng=rng(), replicates=500) + 1e-12
        assert look.iqm == pytest.approx(interquartile_mean(one) - interquartile_mean(other))
    assert found.outcomes[PAIR, None] == "undecided"
    assert found.needed == ()  # the limit is reached


def test_a_look_that_could_not_reject_spends_nothing():
    """Three against three have p = 0.1 at best, so that six against six may spend more."""
    design = replace(DESIGN, looks=(3, 6, 9, 12), margin=None)
    found = between(scores(0.5), scores(0.5, seed=1), design)
    assert np.isnan(found.looks[0].p_value)
    assert [look.level for look in found.looks] == [0, *linear((0.5, 0.75, 1.0), 0.05)]
    interval = linear(design.fractions, 0.05)[1]
    one, other = ({"e": each["e"][:6]} for each in (scores(0.5), scores(0.5, seed=1)))
    assert found.looks[1].low == pytest.approx(welch(one, other, level=1 - interval).low)


def test_the_next_batch_is_named_until_all_is_decided():
    new, old = scores(0.5, runs=7), scores(0.5, seed=1, runs=10)
    start = between({"e": []}, {"e": []})
    assert start.looks == ()
    assert start.needed == (Needed("new", "e", 0, 5), Needed("old", "e", 0, 5))
    later = between(new, old)
    assert [look.look for look in later.looks] == [0]
    assert later.needed == (Needed("new", "e", 7, 10),)


def test_runs_that_come_later_change_no_earlier_look():
    new, old = scores(0.53), scores(0.5, seed=1)
    whole = between(new, old)
    for runs in (5, 10, 15):
        part = between({"e": new["e"][:runs]}, {"e": old["e"][:runs]})
        assert part.looks == whole.looks[: len(part.looks)]


def test_equal_methods_are_equivalent_once_the_interval_is_within_the_margin():
    found = between(scores(0.8, spread=0.01), scores(0.8, spread=0.01, seed=1))
    assert found.outcomes[PAIR, None] == "equivalent"
    last = found.looks[-1]
    assert last.runs == (EQUIVALENCE_RUNS, EQUIVALENCE_RUNS)
    assert -0.05 < last.low < last.high < 0.05
    never = between(
        scores(0.8, spread=0.01), scores(0.8, spread=0.01, seed=1), replace(DESIGN, margin=None)
    )
    assert never.outcomes[PAIR, None] == "undecided"


def test_the_same_scores_are_never_better():
    same = scores(0.7)
    assert between(same, same).outcomes[PAIR, None] in ("equivalent", "undecided")
    constant = {"e": [1.0] * 20}
    found = between(constant, constant)
    assert found.outcomes[PAIR, None] == "undecided"  # a collapse in 5 % of runs is not excluded


def test_a_difference_passes_its_level_on():
    runs = {"a": scores(0.9), "b": scores(0.5, seed=2), "old": scores(0.5, seed=1)}
    pairs = [("a", "old"), ("b", "old")]
    found = race({"sampled": runs}, pairs, ["e"], replace(DESIGN, margin=None))
    assert found.outcomes == {(("a", "old"), None): "better", (("b", "old"), None): "undecided"}
    levels = {name: [x.level for x in found.looks if x.pair[0] == name] for name in "ab"}
    # Five against five cannot reject at a fourth of 2.5 %: the first look is the second.
    assert levels["a"] == [0, linear((0.5, 0.75, 1.0), 0.025)[0]]
    assert levels["b"] == [0, *linear((0.5, 0.75, 1.0), 0.05)]
    assert [x.low for x in found.looks if x.pair[0] == "b"] == pytest.approx(
        [
            welch({"e": runs["b"]["e"][:n]}, {"e": runs["old"]["e"][:n]}, level=1 - level).low
            for n, level in zip(DESIGN.looks, linear(DESIGN.fractions, 0.025), strict=True)
        ]
    )


def test_equivalence_passes_nothing_on():
    steady = {"a": scores(0.8, spread=0.001), "old": scores(0.8, spread=0.001, seed=1)}
    runs = {**steady, "b": scores(0.8, spread=0.2, seed=2)}
    pairs = [("a", "old"), ("b", "old")]
    found = race({"sampled": runs}, pairs, ["e"], DESIGN)
    assert found.outcomes == {(pairs[0], None): "equivalent", (pairs[1], None): "undecided"}
    assert found.looks[-1].level == linear((0.5, 0.75, 1.0), 0.025)[-1]


def test_what_is_decided_trains_no_further():
    environments = ["x", "y"]
    runs = {
        "a": scores(0.9, environments, runs=5),
        "b": {"x": scores(1.5, runs=5)["e"], "y": scores(-0.5, runs=5, seed=3)["e"]},
        "old": scores(0.5, environments, runs=5, seed=1),
    }
    runs["b"]["y"][0] += 1  # so that only x is clear
    pairs = [("a", "old"), ("b", "old")]
    found = race({"sampled": runs}, pairs, environments, replace(DESIGN, alpha=0.5))
    assert found.outcomes[("a", "old"), None] == "better"
    assert found.outcomes[("b", "old"), "x"] == "better"
    assert found.outcomes[("b", "old"), None] == "undecided"
    assert found.needed == (Needed("b", "y", 5, 10), Needed("old", "y", 5, 10))


def test_overall_and_environments_have_half_of_the_level_each():
    environments = ["x", "y"]
    runs = {"new": scores(0.5, environments), "old": scores(0.5, environments, seed=1)}
    found = race({"sampled": runs}, [PAIR], environments, replace(DESIGN, margin=None))
    levels = {look.environment: look.level for look in found.looks if look.look == 0}
    assert levels == {
        None: linear(DESIGN.fractions, 0.025)[0],
        "x": 0,  # five against five cannot reject
        "y": 0,
    }
    levels = {look.environment: look.level for look in found.looks if look.look == 1}
    assert levels["x"] == linear((0.5, 0.75, 1.0), 0.0125)[0]


def test_a_decision_must_hold_for_either_way_to_count_failed_runs():
    new = {"e": [None] * 3 + [0.9, 0.91, 0.92, 0.9, 0.93] + [0.91] * 12}
    old = scores(0.6, spread=0.02, seed=1)
    design = SequentialDesign.batches(10, 20)
    first = {
        policy: between(new, old, replace(design, policy=policy)).looks[0].outcome
        for policy in (None, FailurePolicy.EXCLUDE, FailurePolicy.COUNT_AS_RANDOM)
    }
    assert first[FailurePolicy.EXCLUDE] == "better"
    assert first[FailurePolicy.COUNT_AS_RANDOM] == first[None] == "undecided"


def test_a_method_that_fails_every_run_is_worse_or_undecided():
    failing, old = {"e": [None] * 20}, scores(0.6, spread=0.02, seed=1)
    counted = replace(DESIGN, policy=FailurePolicy.COUNT_AS_RANDOM)
    assert between(failing, old, counted).outcomes[PAIR, None] == "worse"
    assert between(failing, old).outcomes[PAIR, None] == "undecided"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"margin": 0.0}, "margin must be positive, not 0.0"),
        ({"looks": ()}, "looks must ascend"),
        ({"looks": (5, 5)}, "looks must ascend"),
        ({"looks": (1, 5)}, "at least 2 seeds"),
        ({"alpha": 0.0}, "alpha must be inside"),
    ],
)
def test_an_impossible_design_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(DESIGN, **change)


@pytest.mark.parametrize(("batch", "most"), [(1, 10), (11, 10)])
def test_a_batch_fits_between_two_seeds_and_the_limit(batch, most):
    with pytest.raises(ValueError, match="a batch needs 2 to 10 seeds"):
        SequentialDesign.batches(batch, most)
    assert SequentialDesign.batches(4, 10).looks == (4, 8, 10)


def test_scores_are_finite():
    with pytest.raises(ValueError, match="new on e has a score that is not finite"):
        between({"e": [0.5, float("nan")] * 10}, scores(0.5))


def test_a_race_needs_someone_to_race():
    with pytest.raises(ValueError, match="a pair and an environment"):
        race({}, [], ["e"], DESIGN)


def both(sampled, likely, pairs=(PAIR,), environments=("e",), design=DESIGN):
    """Races runs with a score of each way of acting; alone: races of the single ways."""
    ways = {"sampled": sampled, "likely": likely}
    alone = {way: race({way: runs}, pairs, environments, design) for way, runs in ways.items()}
    return race(ways, pairs, environments, design), alone


def test_a_decision_waits_for_both_ways_of_acting_and_what_one_has_said_stays():
    old = scores(0.5, seed=1)
    found, alone = both({"new": scores(1.1), "old": old}, {"new": scores(0.62), "old": old})
    assert [len(one.looks) for one in alone.values()] == [1, 2]
    assert [(look.acting, look.look, look.outcome) for look in found.looks] == [
        ("sampled", 0, "better"),
        ("likely", 0, "undecided"),
        ("likely", 1, "better"),
    ]
    assert found.looks[0] == alone["sampled"].looks[0]
    assert found.looks[1:] == alone["likely"].looks
    assert found.outcomes == {(PAIR, None): "better"}
    assert found.needed == ()


def test_a_way_of_acting_that_says_nothing_keeps_the_race_open_to_the_limit():
    same = scores(0.5, seed=1)
    found, alone = both(
        {"new": scores(1.1), "old": same}, {"new": same, "old": same},
        design=replace(DESIGN, margin=None),
    )  # fmt: skip
    assert alone["sampled"].outcomes[PAIR, None] == "better"
    assert found.outcomes[PAIR, None] == "undecided"
    assert {way: said[PAIR, None] for way, said in found.by_acting.items()} == {
        "sampled": "better",
        "likely": "undecided",
    }
    assert found.looks[-1].look == len(DESIGN.looks) - 1
    some = {"e": same["e"][:5]}
    begun, _ = both({"new": {"e": scores(1.1)["e"][:5]}, "old": some}, {"new": some, "old": some})
    assert begun.needed == (Needed("new", "e", 5, 10), Needed("old", "e", 5, 10))


def test_ways_of_acting_that_say_different_things_end_a_race():
    old = scores(0.5, seed=1)
    found, _ = both({"new": scores(1.1), "old": old}, {"new": scores(-0.1), "old": old})
    assert {way: said[PAIR, None] for way, said in found.by_acting.items()} == {
        "sampled": "better",
        "likely": "worse",
    }
    assert found.outcomes[PAIR, None] == "undecided"
    assert found.needed == ()
    assert {look.look for look in found.looks} == {0}


def test_an_environment_stops_once_both_ways_have_spoken_about_it():
    environments = ["x", "y"]
    old = scores(0.5, environments, seed=1)
    wild = scores(0.5, spread=5.0, seed=3)["e"]
    sampled = {"new": {"x": scores(1.5)["e"], "y": wild}, "old": old}
    likely = {"new": {"x": scores(-0.5)["e"], "y": wild}, "old": old}
    found, _ = both(sampled, likely, environments=environments)
    said = [found.by_acting[way][PAIR, "x"] for way in ("sampled", "likely")]
    assert said == ["better", "worse"]
    assert found.outcomes[PAIR, "x"] == "undecided"
    last = {env: max(x.look for x in found.looks if x.environment == env) for env in environments}
    assert last["x"] < last["y"]


def test_what_a_single_way_of_acting_finds_passes_no_level_on():
    """Else two equal comparisons could each get the alpha of the other, in different ways."""
    pairs, design = [("a", "old"), ("b", "old")], replace(DESIGN, margin=None)
    equal = {"b": scores(0.5, seed=2), "old": scores(0.5, seed=1)}
    sampled, likely = {"a": scores(0.9), **equal}, {"a": scores(0.5), **equal}
    found, alone = both(sampled, likely, pairs, design=design)
    assert alone["sampled"].outcomes[pairs[0], None] == "better"
    levels = [x.level for x in found.looks if (x.pair[0], x.acting) == ("b", "sampled")]
    assert levels == [0, *linear((0.5, 0.75, 1.0), 0.025)]
    found, _ = both(sampled, sampled, pairs, design=design)
    assert found.outcomes[pairs[0], None] == "better"
    levels = [x.level for x in found.looks if (x.pair[0], x.acting) == ("b", "likely")]
    assert levels == [0, *linear((0.5, 0.75, 1.0), 0.05)]


def test_the_same_scores_in_both_ways_decide_as_in_one():
    runs = {"new": scores(0.65), "old": scores(0.5, seed=1)}
    found, alone = both(runs, runs)
    assert found.outcomes == alone["sampled"].outcomes
    assert [look for look in found.looks if look.acting == "likely"] == [*alone["likely"].looks]
