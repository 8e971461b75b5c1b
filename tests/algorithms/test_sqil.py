"""SQIL learns from demonstrations alone, with any off-policy algorithm."""

from pathlib import Path

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch as th
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from imitbench.algorithms.sqil import SQIL, SQILReplayBuffer
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.resumable_env import ResumableEnv, episode_states, restore_episodes
from imitbench.rl import dqn, sac
from imitbench.util.logger import configure
from imitbench.util.state_file import load_state, save_state

SUITE = Path(__file__).parents[2] / "suites/classic/demos"
# Returns of random actions and of the expert, from suites/classic/suite.yaml.
PENDULUM_RANDOM, PENDULUM_EXPERT = -1199.6, -146.0


@pytest.fixture(scope="module")
def cartpole():
    return read_demonstrations(SUITE / "ppo-seals-CartPole-v0")[:10]


@pytest.fixture(scope="module")
def pendulum():
    return read_demonstrations(SUITE / "sac-Pendulum-v1")[:10]


@pytest.fixture
def make(tmp_path):
    def make(env, demonstrations, rl_algo_class=sb3.DQN, n_envs=1, lean=True, **rl_kwargs):
        defaults = {"learning_starts": 50, "buffer_size": 5000, "seed": 0, "device": "cpu"}
        return SQIL(
            venv=make_vec_env(env, n_envs, seed=0, wrapper_class=ResumableEnv),
            demonstrations=demonstrations,
            policy="MlpPolicy",
            custom_logger=configure(tmp_path, []),
            rl_algo_class=rl_algo_class,
            rl_kwargs=defaults | rl_kwargs,
            lean=lean,
        )

    return make


def seed():
    """Apart from the environments, only torch's and NumPy's global generators are random."""
    th.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002


def score(algorithm, env):
    return evaluate_policy(algorithm.policy, make_vec_env(env, 1, seed=99), 10)[0]


def test_dqn_learns_to_balance_a_pole(make, cartpole):
    algorithm = make(
        "CartPole-v1", cartpole, learning_rate=1e-3, buffer_size=50_000, learning_starts=500,
        batch_size=64, target_update_interval=500, exploration_final_eps=0.02,
    )  # fmt: skip
    for _ in range(6):  # Q-learning goes up and down: stop when up
        algorithm.train(total_timesteps=5_000, reset_num_timesteps=False)
        if score(algorithm, "CartPole-v1") > 400:
            return
    pytest.fail(f"{score(algorithm, 'CartPole-v1')} after 30,000 steps")


@pytest.mark.slow
def test_sac_learns_to_swing_up_a_pendulum(make, pendulum):
    algorithm = make(
        "Pendulum-v1", pendulum, sb3.SAC, learning_rate=1e-3, learning_starts=200,
        batch_size=64, gamma=0.98, policy_kwargs={"net_arch": [64, 64]},
    )  # fmt: skip
    algorithm.train(total_timesteps=3_000)
    normalized = (score(algorithm, "Pendulum-v1") - PENDULUM_RANDOM) / (
        PENDULUM_EXPERT - PENDULUM_RANDOM
    )
    assert normalized > 0.8


@pytest.mark.parametrize("cls", [sb3.SAC, sb3.TD3, sb3.DDPG])
def test_continuous_actions(make, pendulum, cls):
    algorithm = make("Pendulum-v1", pendulum, cls, n_envs=2, policy_kwargs={"net_arch": [8]})
    algorithm.train(total_timesteps=200)
    assert algorithm.rl_algo.num_timesteps == 200
    assert algorithm.policy is algorithm.rl_algo.policy
    assert algorithm.rl_algo.logger is algorithm.logger
    batch = algorithm.rl_algo.replay_buffer.sample(10)
    assert batch.rewards.flatten().tolist() == [0.0] * 5 + [1.0] * 5
    assert batch.actions.abs().max() <= 1


def test_the_experts_episodes_that_filled_the_time_limit_are_bootstrapped(make, cartpole):
    """The pole is still up after 500 steps: the environment ends there, the task does not."""
    expert = make("CartPole-v1", cartpole).expert_buffer
    assert expert.dones.sum() == expert.timeouts.sum() == 10


@pytest.mark.parametrize(("cls", "env"), [(sb3.DQN, "CartPole-v1"), (sb3.SAC, "Pendulum-v1")])
def test_lean_training_equals_stable_baselines3(make, cartpole, pendulum, cls, env):
    demonstrations = cartpole if cls is sb3.DQN else pendulum
    algorithms = []
    for lean in (True, False):
        algorithm = make(env, demonstrations, cls, lean=lean, policy_kwargs={"net_arch": [16]})
        seed()
        algorithm.train(total_timesteps=100)
        algorithms.append(algorithm)
    assert type(algorithms[0].rl_algo) in (dqn.DQN, sac.SAC)
    assert type(algorithms[1].rl_algo) is cls
    th.testing.assert_close(
        *(each.policy.state_dict() for each in algorithms), rtol=1e-3, atol=1e-4
    )


def test_subclasses_are_not_replaced(make, cartpole):
    class Own(sb3.DQN):
        pass

    assert type(make("CartPole-v1", cartpole, Own).rl_algo) is Own


@pytest.mark.parametrize("lean", [True, False])
@pytest.mark.parametrize(("cls", "env"), [(sb3.DQN, "CartPole-v1"), (sb3.SAC, "Pendulum-v1")])
def test_a_resumed_training_equals_an_uninterrupted_one(
    make, cartpole, pendulum, tmp_path, cls, env, lean
):
    def fresh():
        demonstrations = cartpole if cls is sb3.DQN else pendulum
        return make(env, demonstrations, cls, lean=lean, policy_kwargs={"net_arch": [16]})

    whole = fresh()
    seed()
    whole.train(total_timesteps=80)
    save_state(tmp_path / "state", whole.state_dict())
    episodes = episode_states(whole.venv)
    seed()
    whole.train(total_timesteps=80, reset_num_timesteps=False)

    resumed = fresh()
    resumed.load_state_dict(load_state(tmp_path / "state"))
    resumed.venv.reset()
    restore_episodes(resumed.venv, episodes)
    seed()
    resumed.train(total_timesteps=80, reset_num_timesteps=False)
    for name, value in whole.policy.state_dict().items():
        assert th.equal(value, resumed.policy.state_dict()[name]), name
    assert resumed.rl_algo.num_timesteps == 160
    for name in ("observations", "actions", "dones"):
        ours, theirs = (getattr(each.rl_algo.replay_buffer, name) for each in (whole, resumed))
        assert np.array_equal(ours, theirs)


def test_demonstrations_may_come_later(make, cartpole):
    algorithm = make("CartPole-v1", None)
    assert algorithm.expert_buffer is None
    with pytest.raises(ValueError, match="no demonstrations"):
        algorithm.train(total_timesteps=100)
    algorithm.set_demonstrations(cartpole)
    algorithm.train(total_timesteps=100)
    assert isinstance(algorithm.rl_algo.replay_buffer, SQILReplayBuffer)


@pytest.mark.parametrize(
    ("env", "cls", "options", "message"),
    [
        ("Pendulum-v1", sb3.DQN, {}, "rl_algo_class: DQN does not fit action_space Box"),
        ("CartPole-v1", sb3.SAC, {}, "rl_algo_class: SAC does not fit action_space Discrete"),
        ("CartPole-v1", sb3.TD3, {}, "rl_algo_class: TD3 does not fit action_space Discrete"),
        ("CartPole-v1", sb3.PPO, {}, "is not an off-policy algorithm"),
        ("CartPole-v1", "DQN", {}, "is not an off-policy algorithm"),
        ("CartPole-v1", sb3.DQN, {"replay_buffer_class": object}, "replay_buffer_class is set"),
        ("CartPole-v1", sb3.DQN, {"replay_buffer_kwargs": {}}, "replay_buffer_kwargs is set"),
    ],
)
def test_bad_arguments_are_refused(make, cartpole, env, cls, options, message):
    with pytest.raises(ValueError, match=message):
        make(env, cartpole, cls, **options)


def test_demonstrations_of_another_environment_are_refused(make, pendulum):
    with pytest.raises(ValueError, match="obs has shape"):
        make("CartPole-v1", pendulum)
