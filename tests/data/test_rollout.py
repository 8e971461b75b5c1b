import dataclasses
import logging

import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401 -- registers its environments
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize
from support.environments import CoinFlip, Counter, DictCounter

from imitbench.data import rollout, serialize
from imitbench.data.episode_buffer import EpisodeBuffer
from imitbench.data.observations import DictObs
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew
from imitbench.data.wrappers import RolloutInfoWrapper


def collect(policy, venv, rng=0, *, episodes=1, **kwargs):
    kwargs = {"unwrap": False, **kwargs}
    until = rollout.make_min_episodes(episodes)
    return rollout.rollout(policy, venv, until, np.random.default_rng(rng), **kwargs)


def test_episodes_are_whole(counters):
    trajectories = collect(None, counters(2, 3, 70), episodes=40, exclude_infos=False)
    assert {len(t) for t in trajectories} == {2, 3, 70}
    for trajectory in trajectories:
        steps = len(trajectory)
        assert trajectory.obs[:, 0].tolist() == list(range(steps + 1))
        assert trajectory.obs.dtype == np.float32
        assert trajectory.rews.tolist() == list(range(1, steps + 1))
        assert [info["action"] for info in trajectory.infos] == trajectory.acts.tolist()
        assert trajectory.terminal


@pytest.mark.parametrize("truncate", [False, True])
def test_the_last_observation_is_the_episodes_own_and_not_that_after_the_reset(counters, truncate):
    (trajectory,) = collect(None, counters(4, truncate=truncate), exclude_infos=False)
    assert trajectory.obs[-1].tolist() == [4, 0]
    assert trajectory.terminal
    assert trajectory.infos[-1]["TimeLimit.truncated"] == truncate


def test_actions_are_those_the_environment_received(counters):
    def policy(obs, state, starts):
        return (obs[:, 0] % 3).astype(int), state

    (trajectory,) = collect(policy, counters(5))
    assert trajectory.acts.tolist() == [0, 1, 2, 0, 1]


def test_dictionary_observations_are_collected_per_key(counters):
    (trajectory,) = collect(None, counters(3, wrap=DictCounter))
    assert trajectory.obs == DictObs(
        {"count": np.arange(4, dtype=np.float32)[:, None], "episode": np.zeros(4, int)}
    )
    assert trajectory.obs.dtype["count"] == np.float32


def test_a_stateful_policy_gets_its_state_and_the_starts_of_episodes(counters):
    seen = []

    def policy(obs, state, starts):
        count = np.zeros(len(obs), int) if state is None else state[0]
        count = np.where(starts, 0, count + 1)
        seen.append((obs[:, 0].tolist(), count.tolist()))
        return np.zeros(len(obs), int), (count,)

    collect(policy, counters(2, 3), episodes=6)
    assert len(seen) > 6
    for observed, counted in seen:
        assert observed == counted


def means_of_lengths(collect_once):
    venv = DummyVecEnv([CoinFlip] * 8)
    venv.seed(0)
    lengths = [len(t) for i in range(60) for t in collect_once(venv, i)]
    return np.mean(lengths)


def test_short_episodes_are_not_favored():
    mean = means_of_lengths(lambda venv, i: collect(None, venv, i, episodes=8))
    assert mean == pytest.approx(CoinFlip.mean_length, abs=1.5)


def test_stopping_immediately_would_favor_short_episodes():
    def stop_at_once(venv, _):
        acts = np.zeros(8, int)
        buffer = EpisodeBuffer(venv.reset(), acts)
        trajectories = []
        while len(trajectories) < 8:
            trajectories += buffer.add(acts, *venv.step(acts))
        return trajectories

    assert means_of_lengths(stop_at_once) < 0.6 * CoinFlip.mean_length


def test_no_environment_starts_another_episode_once_there_are_enough(counters):
    trajectories = collect(None, counters(2, 5, 100), episodes=1)
    assert sorted(map(len, trajectories)) == [2, 5, 100]


def test_the_order_is_shuffled_by_the_generator(counters):
    orders = [
        [len(t) for t in collect(None, counters(1, 2, 4, 8), seed, episodes=15)]
        for seed in (0, 0, 1)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) != orders[0]


@pytest.mark.parametrize("kind", ["random", "sampled"])
def test_a_generator_and_seeded_environments_determine_everything(kind):
    def run(seed):
        venv = DummyVecEnv([lambda: gym.make("CartPole-v1")] * 3)
        policy = None
        if kind == "sampled":
            policy = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, seed=0, device="cpu").policy
        venv.seed(0)
        return collect(policy, venv, seed, episodes=5)

    assert run(0) == run(0)
    assert run(0) != run(1)


@pytest.mark.parametrize(
    ("name", "steps"),
    [("seals/CartPole-v0", 500), ("seals/MountainCar-v0", 200), ("Pendulum-v1", 200)],
)
def test_episodes_of_fixed_length_are_complete(name, steps):
    venv = DummyVecEnv([lambda: RolloutInfoWrapper(gym.make(name))] * 2)
    venv.seed(0)
    trajectories = collect(None, venv, episodes=3, unwrap=True)
    assert [len(t) for t in trajectories] == [steps] * 4
    assert trajectories[0].rews.dtype == np.float64
    venv.close()


def test_subprocesses_give_the_same_episodes():
    def run(cls, **options):
        venv = cls([lambda: RolloutInfoWrapper(gym.make("CartPole-v1"))] * 2, **options)
        venv.seed(0)
        trajectories = collect(None, venv, episodes=4, unwrap=True)
        venv.close()
        return trajectories

    # A fork has all packages already.
    assert run(SubprocVecEnv, start_method="fork") == run(DummyVecEnv)


@pytest.mark.parametrize("wrap", [lambda env: env, DictCounter])
def test_unwrapping_undoes_what_outer_wrappers_did(counters, wrap):
    inner = counters(4, 4, wrap=lambda env: RolloutInfoWrapper(wrap(env)))
    keys = None if wrap is not DictCounter else ["count"]
    venv = VecNormalize(inner, norm_obs_keys=keys)
    changed = collect(None, venv, episodes=2)
    original = collect(None, venv, episodes=2, unwrap=True)
    for before, after in zip(changed, original, strict=True):
        count = after.obs.get("count")[:, 0] if keys else after.obs[:, 0]
        assert count.tolist() == [0, 1, 2, 3, 4]
        assert after.rews.tolist() == [1, 2, 3, 4]
        assert before.rews.tolist() != [1, 2, 3, 4]


def test_unwrapping_works_after_saving_and_loading(counters, tmp_path):
    venv = counters(4, 4, wrap=RolloutInfoWrapper)
    collected = collect(None, venv, episodes=2, exclude_infos=False)
    serialize.save(tmp_path / "set", collected)
    for loaded, before in zip(serialize.load(tmp_path / "set"), collected, strict=True):
        got, wanted = rollout.unwrap_traj(loaded), rollout.unwrap_traj(before)
        assert got.rews.dtype == np.float64
        assert dataclasses.replace(got, infos=None) == dataclasses.replace(wanted, infos=None)


def test_unwrapping_turns_lists_into_arrays_key_by_key(counters):
    (trajectory,) = collect(None, counters(2), exclude_infos=False)
    kept = {"obs": {"a": [[0], [1], [2]], "b": [0.5, 1.5, 2.5]}, "rews": [1, 2]}
    infos = np.array([{}, {"rollout": kept}])
    got = rollout.unwrap_traj(dataclasses.replace(trajectory, infos=infos))
    assert got.obs.get("a").shape == (3, 1)
    assert got.obs.get("b").tolist() == [0.5, 1.5, 2.5]
    assert (got.rews.dtype, got.rews.tolist()) == (np.float64, [1, 2])


def test_unwrapping_needs_the_wrapper_and_infos(counters):
    with pytest.raises(ValueError, match="RolloutInfoWrapper"):
        collect(None, counters(2), unwrap=True)
    (trajectory,) = collect(None, counters(2))
    with pytest.raises(ValueError, match="no infos"):
        rollout.unwrap_traj(trajectory)


def test_infos_are_excluded_by_default(counters):
    assert collect(None, counters(2))[0].infos is None
    assert len(collect(None, counters(2), exclude_infos=False)[0].infos) == 2


def test_stats_are_logged_if_verbose(counters, caplog):
    with caplog.at_level(logging.INFO, logger="imitbench"):
        collect(None, counters(2), verbose=False)
        assert not caplog.records
        collect(None, counters(2), verbose=True)
    assert "return_mean" in caplog.text


@pytest.mark.parametrize(
    ("minima", "enough"),
    [
        ({"min_episodes": 2}, [False, True, True]),
        ({"min_timesteps": 7}, [False, False, True]),
        ({"min_timesteps": 6, "min_episodes": 3}, [False, False, True]),
        ({"min_timesteps": 3}, [True, True, True]),
    ],
)
def test_sample_until_requires_both_minima(trajectories, minima, enough):
    until = rollout.make_sample_until(**minima)
    episodes = [trajectories()[0]] * 3  # of 3 steps each
    assert [until(episodes[: n + 1]) for n in range(3)] == enough


@pytest.mark.parametrize(
    "arguments", [{}, {"min_episodes": 0}, {"min_timesteps": -1}, {"min_timesteps": 0}]
)
def test_sample_until_needs_a_positive_minimum(arguments):
    with pytest.raises(ValueError, match="min_"):
        rollout.make_sample_until(**arguments)
    with pytest.raises(ValueError, match="min_episodes is 0"):
        rollout.make_min_episodes(0)
    with pytest.raises(ValueError, match="min_timesteps is 0"):
        rollout.make_min_timesteps(0)


def test_any_function_of_the_trajectories_can_decide_when_to_stop(counters):
    trajectories = rollout.generate_trajectories(
        None, counters(2), lambda t: len(t) == 5, np.random.default_rng(0)
    )
    assert len(trajectories) == 5


@pytest.mark.parametrize(("truncate", "length"), [(True, 10), (False, 12)])
def test_transitions_are_truncated_on_request(counters, truncate, length):
    transitions = rollout.generate_transitions(
        None, counters(4), 10, np.random.default_rng(0), truncate=truncate
    )
    assert len(transitions) == length
    assert transitions.obs[:5, 0].tolist() == [0, 1, 2, 3, 0]
    assert transitions.next_obs[:5, 0].tolist() == [1, 2, 3, 4, 1]
    assert transitions.dones[:5].tolist() == [False, False, False, True, False]
    assert transitions.rews[:5].tolist() == [1, 2, 3, 4, 1]


def test_flattening_keeps_order_and_marks_only_terminal_ends(trajectories):
    parts = trajectories()  # the second one is a fragment
    flat = rollout.flatten_trajectories_with_rew(parts)
    assert len(flat) == 3 + 4 + 5
    assert np.flatnonzero(flat.dones).tolist() == [2, 11]
    assert np.array_equal(flat.obs[3:7], parts[1].obs[:-1])
    assert np.array_equal(flat.next_obs[3:7], parts[1].obs[1:])
    assert np.array_equal(flat.rews, np.concatenate([t.rews for t in parts]))
    assert list(flat.infos) == [{}] * 12


def test_flattening_takes_any_iterable_and_dictionary_observations():
    obs = DictObs({"a": np.arange(4.0)})
    part = Trajectory(obs, np.zeros(3), np.array([{"i": i} for i in range(3)]), True)
    flat = rollout.flatten_trajectories(iter([part, part]))
    assert flat.obs == DictObs({"a": np.array([0.0, 1, 2, 0, 1, 2])})
    assert flat.next_obs == DictObs({"a": np.array([1.0, 2, 3, 1, 2, 3])})
    assert [info["i"] for info in flat.infos] == [0, 1, 2, 0, 1, 2]


def test_flattening_and_stats_need_trajectories():
    for function in (
        rollout.flatten_trajectories,
        rollout.flatten_trajectories_with_rew,
        rollout.rollout_stats,
    ):
        with pytest.raises(ValueError, match="no trajectories"):
            function([])


def test_stats_summarise_returns_lengths_and_monitor():
    def episode(rews, info):
        steps = len(rews)
        infos = np.array([{}] * (steps - 1) + [info])
        return TrajectoryWithRew(np.zeros((steps + 1, 1)), np.zeros(steps), infos, True, rews)

    first = episode(np.array([1.0, 2.0]), {"episode": {"r": 30.0}})
    second = episode(np.array([5.0]), {})
    stats = rollout.rollout_stats([first, second])
    assert stats == {
        "n_traj": 2,
        **{"return_min": 3.0, "return_mean": 4.0, "return_std": 1.0, "return_max": 5.0},
        **{"len_min": 1, "len_mean": 1.5, "len_std": 0.5, "len_max": 2},
        **{"monitor_return_len": 1, "monitor_return_min": 30.0, "monitor_return_mean": 30.0},
        **{"monitor_return_std": 0.0, "monitor_return_max": 30.0},
    }
    without = rollout.rollout_stats([dataclasses.replace(first, infos=None)])
    assert not any(name.startswith("monitor") for name in without)


def test_the_monitor_reports_the_environments_own_returns():
    venv = DummyVecEnv([lambda: Monitor(Counter((4,)))])
    stats = rollout.rollout_stats(collect(None, venv, exclude_infos=False))
    assert stats["monitor_return_mean"] == stats["return_mean"] == 10.0


def test_discounted_sum_weights_the_last_axis():
    rows = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert rollout.discounted_sum(rows[0], 0.5) == 1 + 1 + 0.75
    assert rollout.discounted_sum(rows, 0.5).tolist() == [2.75, 8.0]
    assert rollout.discounted_sum(rows[0], 0.0) == 1.0
    assert rollout.discounted_sum(np.array([1, 2, 3]), 1.0) == 6.0
    with pytest.raises(ValueError, match="3 dimensions"):
        rollout.discounted_sum(rows[None], 0.5)
