"""Runs learn from parts of the demonstrations, and these are a condition of comparisons."""

import numpy as np
import pytest
from support.plans import make_plan

from imitbench.bench.artifacts import demos_of_run
from imitbench.bench.plan import DemoChoice
from imitbench.bench.request import plan_requests
from imitbench.cards.catalog import load_suite, suite_directory, suite_names
from imitbench.cards.demonstrations import Regime
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.rollout import flatten_trajectories
from imitbench.data.trajectories import Segment
from imitbench.errors import InputError
from imitbench.store.comparability import Conditions
from imitbench.store.sweep_file import SweepRequest

ROOT = suite_directory("classic")


def runs_of(algorithms=("bc",), seeds=(0, 1, 2), **settings):
    return list(
        make_plan(
            algorithms=list(algorithms), suite="classic", environment="Pendulum-v1",
            seeds=list(seeds), **settings,
        )
    )  # fmt: skip


def test_all_demonstrations_are_recorded_as_before():
    for run in runs_of():
        assert run.demos is not None
        assert run.demos.whole
        assert "every" not in run.model_dump()["demos"]
        assert run.demos.subsample_seed == 0


def test_a_part_of_the_steps_is_part_of_what_a_run_is():
    whole, half = runs_of(seeds=[3])[0], runs_of(seeds=[3], demo_every=2)[0]
    assert half.model_dump()["demos"]["every"] == 2
    assert half.demos.subsample_seed == 3
    assert half.run_id != whole.run_id
    conditions = [Conditions.of_spec(run) for run in (whole, half)]
    assert [each.demo_every for each in conditions] == [1, 2]
    assert not conditions[0].compatible(conditions[1])
    assert not conditions[1].is_part_of(conditions[0])
    assert conditions[1].title.endswith("all demonstrations, one step in 2, source bundled")


def test_kept_steps_have_their_own_next_observation_and_place():
    (run,) = runs_of(seeds=[5], n_demos=2, demo_every=7)
    rng = np.random.default_rng(5)
    rows = np.sort(rng.choice(run.demos.available, size=2, replace=False)).tolist()
    folder = ROOT / "demos" / run.demos.repo
    whole = list(read_demonstrations(folder, rows=rows))
    offsets = [int(rng.integers(7)) for _ in whole]
    kept = demos_of_run(run, ROOT)
    assert all(isinstance(step, Segment) and len(step) == 1 for step in kept)
    expected = [
        (trajectory, step)
        for trajectory, offset in zip(whole, offsets, strict=True)
        for step in range(offset, len(trajectory), 7)
    ]
    assert [step.start for step in kept] == [step for _, step in expected]
    flat = flatten_trajectories(kept)
    for index, (trajectory, step) in enumerate(expected):
        np.testing.assert_array_equal(flat.obs[index], trajectory.obs[step])
        np.testing.assert_array_equal(flat.acts[index], trajectory.acts[step])
        np.testing.assert_array_equal(flat.next_obs[index], trajectory.obs[step + 1])
        assert flat.dones[index] == (trajectory.terminal and step == len(trajectory) - 1)
        assert kept[index].rews[0] == trajectory.rews[step]


def test_each_seed_begins_at_steps_of_its_own():
    first = [
        tuple(step.start for step in demos_of_run(run, ROOT)[:3])
        for run in runs_of(seeds=range(6), n_demos=3, demo_every=100)
    ]
    assert len(set(first)) > 1


def test_one_step_of_a_short_demonstration_stays():
    (run,) = runs_of(seeds=[0], n_demos=4, demo_every=100_000)
    kept = demos_of_run(run, ROOT)
    assert len(kept) == 4


def test_steps_that_no_demonstration_has_are_told(tmp_path):
    request = SweepRequest(
        algorithms=["bc"], suite="classic", environment="Pendulum-v1", seeds=[0],
        folder=str(tmp_path),
    )  # fmt: skip
    told = []
    plan_requests([request], DemoChoice((1,), 201), told.append)
    assert told == [
        "--demo-every 201: keeps one step of each demonstration of Pendulum-v1 (200 steps)"
    ]


def test_methods_that_need_whole_demonstrations_say_so():
    plan = make_plan(
        algorithms=["mce_irl", "bc"], suite="tabular", environment="*7x4*", seeds=[0], demo_every=2
    )
    assert {run.algo for run in plan} == {"bc"}
    assert {pair.why for pair in plan.not_applicable} == {
        "needs demonstrations with all their steps; omit --demo-every, or name another regime"
    }


@pytest.mark.parametrize("name", suite_names())
def test_cards_name_their_regimes(name):
    card = load_suite(name)
    assert card.regime("full") == Regime()
    for regime in card.regimes:
        assert card.regime(regime) != Regime()
        assert any(
            (card.regimes[regime].n_demos or 1) <= environment.demos.trajectories
            for environment in card.environments.values()
        )


def test_an_environment_with_too_few_demonstrations_is_left_out_in_one_line():
    plan = make_plan(algorithms=["bc"], suite="mujoco", seeds=[0], n_demos=5)
    [pair] = plan.not_applicable
    assert (pair.env, pair.why) == ("Humanoid-v5", "has 2 demonstrations, fewer than 5")
    assert len(list(plan)) == 4
    alone = make_plan(
        algorithms=["bc"], suite="mujoco", environment="Humanoid-v5", seeds=[0], n_demos=5
    )
    with pytest.raises(InputError, match="has 2 trajectories; choose 1 to 2"):
        list(alone)


@pytest.mark.parametrize(
    ("given", "regimes"),
    [
        ((None, None, None), [Regime()]),
        (("1,all", None, None), [Regime(n_demos=1), Regime()]),
        (("1,3", 20, None), [Regime(n_demos=1, demo_every=20), Regime(n_demos=3, demo_every=20)]),
        ((None, 20, None), [Regime(demo_every=20)]),
        (("2", 1, None), [Regime(n_demos=2)]),
        ((None, None, "few, full"), [Regime(n_demos=1, demo_every=20), Regime()]),
        ((None, None, None, "hidden"), [Regime(actions="hidden")]),
        (
            (None, None, "few", "hidden", "medium:2, random:1"),
            [
                Regime(
                    n_demos=1, demo_every=20, actions="hidden", mixture={"medium": 2, "random": 1}
                )
            ],
        ),
        ((None, None, "few, few-no-actions", "shown"), [Regime(n_demos=1, demo_every=20)]),
        (("2", None, None, None, "medium:3"), [Regime(n_demos=2, mixture={"medium": 3})]),
    ],
)
def test_options_choose_regimes(given, regimes):
    assert DemoChoice.parse(*given).of(load_suite("seals")) == regimes


def test_a_suite_has_a_default_regime():
    card = load_suite("seals").model_copy(update={"default_regime": "few"})
    assert DemoChoice.parse(None, None, None).of(card) == [Regime(n_demos=1, demo_every=20)]
    assert DemoChoice.parse("all", None, None).of(card) == [Regime()]
    assert DemoChoice.parse(None, 5, None).of(card) == [Regime(demo_every=5)]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ((None, 0, None), "--demo-every 0: must be 1 or more"),
        (("2", None, "few"), "--regime few: says what --n-demos says; give one of them"),
        ((None, 3, "few"), "--regime few: says what --demo-every says; give one of them"),
        ((None, None, None, None, "medium"), "--mixture medium: must be a set and its number"),
        ((None, None, None, None, "medium:0"), "--mixture medium:0: must be a set and its number"),
        ((None, None, None, None, ""), "--mixture '': must be a set and its number"),
        ((None, None, None, None, "medium:1,medium:2"), "--mixture medium: named twice"),
    ],
)
def test_wrong_options_are_refused(given, line):
    with pytest.raises(InputError, match=line):
        DemoChoice.parse(*given)


def test_a_regime_that_the_card_lacks_is_refused():
    with pytest.raises(InputError, match="suite seals has no regime fwe; did you mean 'few'"):
        DemoChoice.parse(None, None, "fwe").of(load_suite("seals"))


def test_races_and_tuning_take_one_regime():
    with pytest.raises(InputError, match="a race takes one at a time"):
        DemoChoice.parse("1,2", None, None).only("seals", "a race")
