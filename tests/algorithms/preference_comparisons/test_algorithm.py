"""The whole algorithm: what a round does, its budget, its seeds and its resumption."""

import functools

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from scipy.stats import spearmanr
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.algorithms.preference_comparisons import (
    AgentTrainer,
    BasicRewardTrainer,
    CrossEntropyRewardLoss,
    EnsembleTrainer,
    PreferenceComparisons,
    PreferenceGatherer,
    PreferenceModel,
    RandomFragmenter,
    SyntheticGatherer,
    TrajectoryDataset,
)
from imitbench.bench.checkpoint import generator_states, restore_generators
from imitbench.data import rollout
from imitbench.data.resumable_env import ResumableEnv, episode_states, restore_episodes
from imitbench.data.types import TrajectoryWithRew
from imitbench.rewards.reward_nets import AddSTDRewardWrapper, BasicRewardNet, RewardEnsemble
from imitbench.rl.ppo import PPO
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.networks import RunningNorm
from imitbench.util.state_file import load_state, save_state


def silent():
    return HierarchicalLogger(Logger(folder=None, output_formats=[]), [])


def pendulums(seed=0, steps=50):
    make = functools.partial(gym.make, "Pendulum-v1", max_episode_steps=steps)
    venv = DummyVecEnv([lambda: ResumableEnv(Monitor(make()))] * 2)
    venv.seed(seed)
    return venv


def make(seed=0, ensemble=False, **options):
    """The algorithm on Pendulum, small, and its environment."""
    th.manual_seed(seed)
    venv = pendulums(seed)
    spaces = venv.observation_space, venv.action_space
    if ensemble:
        members = [BasicRewardNet(*spaces, normalize_input_layer=RunningNorm) for _ in range(2)]
        net = AddSTDRewardWrapper(RewardEnsemble(*spaces, members), default_alpha=0.1)
    else:
        net = BasicRewardNet(*spaces, normalize_input_layer=RunningNorm)
    agent = PPO("MlpPolicy", venv, seed=seed, n_steps=100, batch_size=50, n_epochs=2)
    rng = np.random.default_rng(seed)
    options = {
        "num_iterations": 2,
        "fragment_length": 20,
        "initial_epoch_multiplier": 2,
        "custom_logger": silent(),
        "rng": rng,
        **options,
    }
    generator = AgentTrainer(agent, net, venv, rng, exploration_frac=0.2, custom_logger=silent())
    return PreferenceComparisons(generator, net, **options), venv


def parameters(algorithm):
    return [tensor.clone() for tensor in algorithm.model.state_dict().values()] + [
        tensor.clone() for tensor in algorithm.trajectory_generator.algorithm.policy.parameters()
    ]


def test_training_gathers_learns_and_reports():
    algorithm, _ = make()
    called = []
    before = parameters(algorithm)
    result = algorithm.train(1000, 30, callback=called.append)
    assert set(result) == {"reward_loss", "reward_accuracy"}
    assert 0 <= result["reward_accuracy"] <= 1
    assert result["reward_loss"] > 0
    assert called == [0, 1, 2]
    assert len(algorithm.dataset) == 30
    assert not any(
        th.equal(*pair) for pair in zip(before, parameters(algorithm), strict=True) if pair[0].ndim
    )
    algorithm.train(400, 10, callback=called.append)
    assert called == [0, 1, 2, 3, 4, 5]
    assert len(algorithm.dataset) == 40


def test_the_agent_is_trained_for_exactly_the_total():
    algorithm, _ = make()
    algorithm.train(1200, 30)  # three rounds of two rollouts of 2 x 100 steps
    assert algorithm.trajectory_generator.algorithm.num_timesteps == 1200


def test_the_queue_keeps_the_latest_comparisons():
    algorithm, _ = make(comparison_queue_size=12)
    algorithm.train(600, 30)
    assert len(algorithm.dataset) == 12


def test_held_out_accuracy_is_measured_before_training_on_the_answers():
    answers = []

    class Recorder(SyntheticGatherer):
        def __call__(self, pairs):
            preferences = super().__call__(pairs)
            net = algorithm.model
            for pair, preference in zip(pairs, preferences, strict=True):
                first, second = (
                    net.predict(f.obs[:-1], f.acts, f.obs[1:], np.zeros(len(f), bool)).sum()
                    for f in pair
                )
                answers.append((first > second) == (preference > 0.5))
            return preferences

    rng = np.random.default_rng(1)
    algorithm, _ = make(preference_gatherer=Recorder(rng=rng))
    step = algorithm.plan(200, 30)[1]
    metrics = algorithm.run_round(step)
    assert metrics["held_out_accuracy"] == pytest.approx(np.mean(answers))
    assert len(answers) == step.comparisons


def test_pairs_without_an_answer_are_skipped():
    class Sceptic(PreferenceGatherer):
        def __call__(self, pairs):
            preferences = np.ones(len(pairs), np.float32)
            preferences[::2] = np.nan
            return preferences

    algorithm, _ = make(preference_gatherer=Sceptic())
    metrics = algorithm.run_round(algorithm.plan(200, 60)[0])
    assert len(algorithm.dataset) == 3
    assert np.isfinite(metrics["held_out_accuracy"])


@pytest.mark.parametrize("ensemble", [False, True])
def test_the_same_seed_gives_the_same_numbers(ensemble):
    first, _ = make(ensemble=ensemble)
    result = first.train(600, 30)
    second, _ = make(ensemble=ensemble)  # which seeds torch's generator again
    assert second.train(600, 30) == result
    for left, right in zip(parameters(first), parameters(second), strict=True):
        assert th.equal(left, right)
    other, _ = make(seed=1, ensemble=ensemble)
    other.train(600, 30)
    assert not th.equal(parameters(other)[-1], parameters(first)[-1])


@pytest.mark.parametrize("ensemble", [False, True])
def test_a_resumed_training_equals_an_uninterrupted_one(ensemble, tmp_path):
    whole, _ = make(ensemble=ensemble)
    rounds = whole.plan(1200, 30)
    metrics = [whole.run_round(step) for step in rounds]

    stopped, venv = make(ensemble=ensemble)
    stopped.run_round(rounds[0])
    state = {
        "algorithm": stopped.state_dict(),
        "environments": episode_states(venv),
        "generators": generator_states(),
    }
    save_state(tmp_path / "a.state", state)

    resumed, venv = make(ensemble=ensemble)
    state = load_state(tmp_path / "a.state")
    resumed.load_state_dict(state["algorithm"])
    restore_episodes(venv, state["environments"])
    restore_generators(state["generators"])
    assert [resumed.run_round(step) for step in rounds[1:]] == metrics[1:]
    for left, right in zip(parameters(resumed), parameters(whole), strict=True):
        assert th.equal(left, right)


@pytest.mark.parametrize("ensemble", [False, True])
def test_a_state_does_not_change_while_training_continues(ensemble):
    algorithm, _ = make(ensemble=ensemble)
    rounds = algorithm.plan(1200, 30)
    algorithm.run_round(rounds[0])
    best, at_best = algorithm.state_dict(), parameters(algorithm)
    algorithm.run_round(rounds[1])
    algorithm.load_state_dict(best)
    for left, right in zip(parameters(algorithm), at_best, strict=True):
        assert th.equal(left, right)


def test_an_ensemble_is_trained_by_bagging():
    algorithm, _ = make(ensemble=True)
    assert isinstance(algorithm.reward_trainer, EnsembleTrainer)
    assert isinstance(make()[0].reward_trainer, BasicRewardTrainer)


def fixed_trajectories(lengths, rng):
    return [
        TrajectoryWithRew(
            obs=rng.normal(size=(n + 1, 3)).astype(np.float32),
            acts=rng.uniform(-2, 2, (n, 1)).astype(np.float32),
            infos=None,
            terminal=True,
            rews=rng.normal(size=n),
        )
        for n in lengths
    ]


def on_fixed_data(lengths, **options):
    rng = np.random.default_rng(0)
    venv = pendulums()
    net = BasicRewardNet(venv.observation_space, venv.action_space)
    generator = TrajectoryDataset(fixed_trajectories(lengths, rng), rng)
    options = {"num_iterations": 1, "custom_logger": silent(), "rng": rng, **options}
    return PreferenceComparisons(generator, net, **options)


def test_a_reward_can_be_learned_from_a_fixed_dataset():
    algorithm = on_fixed_data([100] * 10, fragment_length=10)
    assert algorithm.train(0, 20)["reward_loss"] > 0


def test_episodes_of_different_length_are_refused_unless_allowed():
    options = {"fragment_length": 10, "transition_oversampling": 4}
    with pytest.raises(ValueError, match="episodes of different length"):
        on_fixed_data([100, 90] * 5, **options).train(0, 10)
    on_fixed_data([100, 90] * 5, allow_variable_horizon=True, **options).train(0, 10)


def test_trajectories_shorter_than_fragments_are_reported():
    with pytest.raises(ValueError, match=r"(?s)fragment.*20"):
        on_fixed_data([10] * 60, fragment_length=20).train(0, 10)


def test_too_few_comparisons_are_reported_before_training():
    algorithm, _ = make(num_iterations=20)
    with pytest.raises(ValueError, match="total_comparisons=5 is too small"):
        algorithm.train(1000, 5)
    assert len(algorithm.dataset) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rng": None}, "rng: give numpy"),
        ({"query_schedule": "never"}, "no schedule 'never'"),
        ({"num_iterations": 0}, "num_iterations must be at least 1"),
        ({"fragment_length": 0}, "fragment_length must be at least 1"),
        ({"initial_comparison_frac": 1.5}, "initial_comparison_frac must be from 0 to 1"),
    ],
)
def test_invalid_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_an_unused_random_generator_is_refused():
    rng = np.random.default_rng(0)
    algorithm, _ = make()
    with pytest.raises(ValueError, match="rng would not be used"):
        make(
            fragmenter=RandomFragmenter(rng),
            preference_gatherer=SyntheticGatherer(rng=rng),
            reward_trainer=algorithm.reward_trainer,
        )


def test_the_learned_reward_ranks_new_episodes_of_pendulum():
    """From comparisons of random behavior alone."""
    rng = np.random.default_rng(0)
    th.manual_seed(0)
    venv = pendulums(steps=100)
    data = rollout.generate_trajectories(None, venv, rollout.make_min_episodes(100), rng)
    held_out, seen = data[:40], data[40:]
    net = BasicRewardNet(
        venv.observation_space, venv.action_space, normalize_input_layer=RunningNorm
    )
    algorithm = PreferenceComparisons(
        TrajectoryDataset(seen, rng),
        net,
        num_iterations=1,
        fragmenter=RandomFragmenter(rng, warning_threshold=0),
        preference_gatherer=SyntheticGatherer(rng=rng),
        reward_trainer=BasicRewardTrainer(
            PreferenceModel(net), CrossEntropyRewardLoss(), rng, epochs=30
        ),
        fragment_length=25,
        transition_oversampling=0.5,
        initial_epoch_multiplier=1,
        custom_logger=silent(),
    )
    algorithm.train(0, 260)
    learnt = [
        net.predict(t.obs[:-1], t.acts, t.obs[1:], np.zeros(len(t), bool)).sum() for t in held_out
    ]
    true = [t.rews.sum() for t in held_out]
    assert spearmanr(learnt, true).statistic >= 0.8
