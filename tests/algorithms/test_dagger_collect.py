"""Collecting for DAgger: schedules, who acts, and what is saved."""

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter, DictCounter

from imitbench.algorithms.dagger import (
    ExponentialBetaSchedule,
    InteractiveTrajectoryCollector,
    LinearBetaSchedule,
)
from imitbench.algorithms.dagger_storage import read_demos, write_demos
from imitbench.data import serialize
from imitbench.data.types import Trajectory


class Sweeper(Counter):
    """`Counter` with actions from a box."""

    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def step(self, action):
        obs, reward, ended, cut, _ = super().step(0)
        return obs, reward, ended, cut, {"action": np.array(action)}


def collector(folder, *, beta=0.5, envs=1, lengths=(5,), robot=lambda obs: np.ones(len(obs), int),
              seed=0, env=Counter):  # fmt: skip
    venv = DummyVecEnv([lambda: env(lengths) for _ in range(envs)])
    return InteractiveTrajectoryCollector(venv, robot, beta, folder, np.random.default_rng(seed))


def run(venv, steps, action=2):
    """Gives the same action again and again; returns the actions that were carried out."""
    venv.reset()
    carried_out = []
    for _ in range(steps):
        _, _, _, infos = venv.step(np.full(venv.num_envs, action))
        carried_out.append([info["action"] for info in infos])
    return np.array(carried_out)


def test_linear_schedule_falls_to_zero_and_stays_there():
    schedule = LinearBetaSchedule(4)
    assert [schedule(number) for number in range(6)] == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]


def test_exponential_schedule_decays_by_its_factor():
    schedule = ExponentialBetaSchedule(0.5)
    assert [schedule(number) for number in range(4)] == [1.0, 0.5, 0.25, 0.125]
    assert ExponentialBetaSchedule(1.0)(100) == 1.0


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.1, float("nan")])
def test_exponential_schedule_refuses_invalid_probabilities(probability):
    with pytest.raises(ValueError, match="decay_probability"):
        ExponentialBetaSchedule(probability)


def test_linear_schedule_refuses_zero_rounds():
    with pytest.raises(ValueError, match="rampdown_rounds"):
        LinearBetaSchedule(0)


@pytest.mark.parametrize("schedule", [LinearBetaSchedule(3), ExponentialBetaSchedule(0.5)])
def test_schedules_refuse_negative_rounds(schedule):
    with pytest.raises(ValueError, match="round_num"):
        schedule(-1)


@pytest.mark.parametrize(("beta", "acts"), [(1.0, {2}), (0.0, {1})])
def test_beta_zero_or_one_means_only_one_acts(tmp_path, beta, acts):
    assert set(run(collector(tmp_path, beta=beta, envs=3), 40).ravel()) == acts


def test_the_robot_is_not_called_where_it_does_not_act(tmp_path):
    def robot(obs):
        raise AssertionError("asked")

    run(collector(tmp_path, beta=1.0, robot=robot), 20)


def test_the_expert_acts_at_the_given_rate_independently_in_each_environment(tmp_path):
    by_expert = run(collector(tmp_path, beta=0.3, envs=4, lengths=(1000,)), 2500) == 2
    # Four standard errors of a mean of 10,000 coins, and of a correlation of 2,500 pairs.
    assert abs(by_expert.mean() - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 10_000)
    correlations = np.corrcoef(by_expert.T)[np.triu_indices(4, k=1)]
    assert np.abs(correlations).max() < 4 / np.sqrt(2500)


def test_the_robot_sees_the_current_observations_of_its_environments_only(tmp_path):
    asked = []

    def robot(obs):
        asked.append(np.array(obs))
        return np.ones(len(obs), int)

    # Episodes of different length, so that environments differ in what they observe.
    venv = DummyVecEnv([lambda n=n: Counter((n,)) for n in (2, 3, 5)])
    venv = InteractiveTrajectoryCollector(venv, robot, 0.5, tmp_path, np.random.default_rng(0))
    obs = venv.reset()
    expected = []
    for _ in range(30):
        before = obs
        obs, _, _, infos = venv.step(np.full(3, 2))
        by_robot = np.array([info["action"] for info in infos]) == 1
        if by_robot.any():  # otherwise there is no call
            expected.append(before[by_robot])
    assert len(asked) == len(expected) > 20
    for own, wanted in zip(asked, expected, strict=True):
        np.testing.assert_array_equal(own, wanted)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_the_experts_actions_are_saved_regardless_of_who_acted(tmp_path, beta):
    run(collector(tmp_path, beta=beta, envs=2, lengths=(5, 3)), 20)
    demos = read_demos(tmp_path)
    assert len(demos) >= 8
    assert {int(action) for demo in demos for action in demo.acts} == {2}


def test_a_saved_episode_is_aligned_up_to_its_last_observation(tmp_path):
    venv = collector(tmp_path, beta=0.5, lengths=(4, 2))
    venv.reset()
    given, carried_out = [], []
    for step in range(6):
        given.append(step % 3)
        _, _, _, infos = venv.step(np.array([step % 3]))
        carried_out.append(infos[0]["action"])
    first, second = (serialize.load(tmp_path / f"demo_{n:03d}")[0] for n in range(2))
    # Counter observes (steps so far, number of the episode) and pays the count.
    np.testing.assert_array_equal(first.obs, [[n, 0] for n in range(5)])
    np.testing.assert_array_equal(second.obs, [[n, 1] for n in range(3)])
    assert first.obs.dtype == np.float32
    np.testing.assert_array_equal(np.concatenate([first.acts, second.acts]), given)
    np.testing.assert_array_equal(first.rews, [1, 2, 3, 4])
    assert first.terminal and second.terminal
    infos = [*first.infos, *second.infos]
    assert [info["action"] for info in infos] == carried_out != given
    assert first.infos[-1]["terminal_observation"] == [4.0, 0.0]


def test_box_actions_are_mixed_and_saved_too(tmp_path):
    robot = lambda obs: np.full((len(obs), 2), -0.5, np.float32)  # noqa: E731
    venv = collector(tmp_path, robot=robot, env=Sweeper, lengths=(40,))
    venv.reset()
    seen = [venv.step(np.array([[0.25, 0.75]]))[3][0]["action"][0] for _ in range(40)]
    assert set(np.array(seen).tolist()) == {-0.5, 0.25}
    (demo,) = read_demos(tmp_path)
    np.testing.assert_array_equal(demo.acts, np.tile([0.25, 0.75], (40, 1)))


def test_unfinished_episodes_are_not_saved(tmp_path):
    venv = collector(tmp_path, lengths=(5,))
    run(venv, 4)
    run(venv, 9)  # a reset drops the four steps before it
    (demo,) = read_demos(tmp_path)
    assert len(demo) == 5
    assert list(tmp_path.rglob("*.tmp")) == []


def test_collectors_share_a_folder_without_overwriting_each_other(tmp_path):
    one, other = collector(tmp_path, lengths=(2,)), collector(tmp_path, lengths=(3,))
    one.reset(), other.reset()
    for _ in range(6):
        one.step(np.array([0]))
        other.step(np.array([0]))
    assert sorted(len(demo) for demo in read_demos(tmp_path)) == [2, 2, 2, 3, 3]


def test_demonstrations_are_read_in_the_order_of_their_names(tmp_path):
    for number in (4, 1, 5, 3, 2):
        write_demos(tmp_path / f"demo_{number:03d}", [
            Trajectory(np.zeros((number + 1, 1)), np.zeros(number), None, True)
        ])  # fmt: skip
    assert [len(demo) for demo in read_demos(tmp_path)] == [1, 2, 3, 4, 5]


def test_a_demonstration_is_written_atomically(tmp_path, monkeypatch):
    venv = collector(tmp_path, lengths=(2,))
    run(venv, 2)
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        run(venv, 2)
    assert len(read_demos(tmp_path)) == 1


def test_demonstrations_are_saved_without_infos_that_are_not_json(tmp_path):
    class Secretive(Counter):
        def step(self, action):
            *result, _ = super().step(action)
            return *result, {"object": object(), "action": 0}

    with pytest.warns(UserWarning, match="without infos.*object"):
        run(collector(tmp_path, env=Secretive), 5)
    (demo,) = serialize.load(tmp_path / "demo_000")
    np.testing.assert_array_equal(demo.acts, [2] * 5)
    assert demo.infos.tolist() == [{}] * 5


def test_seeding_repeats_who_acts(tmp_path):
    venv = collector(tmp_path, beta=0.5, lengths=(100,), seed=None)
    runs = []
    for seed in (7, 7, 8):
        seeds = venv.seed(seed)
        assert len(seeds) == 1
        runs.append(run(venv, 40).ravel().tolist())
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("beta", [-0.01, 1.01, float("nan")])
def test_beta_is_a_probability(tmp_path, beta):
    with pytest.raises(ValueError, match="beta"):
        collector(tmp_path, beta=beta)


def test_stepping_needs_a_reset(tmp_path):
    with pytest.raises(RuntimeError, match="reset"):
        collector(tmp_path).step(np.array([0]))


def test_actions_of_another_shape_are_refused(tmp_path):
    venv = collector(tmp_path, beta=0.0, envs=2, robot=lambda obs: np.ones((len(obs), 3)))
    venv.reset()
    with pytest.raises(ValueError, match=r"^actions must have shape \(2,\)"):
        venv.step(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="get_robot_acts"):
        venv.step(np.zeros(2))


def test_actions_that_are_not_finite_are_never_saved(tmp_path):
    venv = collector(tmp_path, beta=1.0, env=Sweeper)
    venv.reset()
    with pytest.raises(ValueError, match="acts holds values that are not finite"):
        for _ in range(5):
            venv.step(np.array([[0.0, np.nan]]))
    assert read_demos(tmp_path) == []


def test_dictionary_observations_are_refused_at_construction(tmp_path):
    venv = DummyVecEnv([lambda: DictCounter(Counter())])
    with pytest.raises(ValueError, match=r"venv: .*flatten"):
        InteractiveTrajectoryCollector(venv, None, 0.5, tmp_path, np.random.default_rng(0))
