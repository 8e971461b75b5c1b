"""An environment on a line with an expert, and DAgger trainers on it."""

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.algorithms import bc
from imitbench.algorithms.dagger import (
    DAggerTrainer,
    SimpleDAggerTrainer,
)
from imitbench.algorithms.dagger_storage import read_demos
from imitbench.data.types import Trajectory, TrajectoryWithRew
from imitbench.util import logger as imit_logger

QUIET = {"progress_bar": False, "log_rollouts_venv": None}
SMALL_ROUNDS = {
    "rollout_round_min_episodes": 2,
    "rollout_round_min_timesteps": 40,
    "bc_train_kwargs": {"n_epochs": 1, **QUIET},
}


class Corridor(gym.Env):
    """Moves on a line from a random position for 20 steps; the expert moves towards 0."""

    observation_space = spaces.Box(-20.0, 20.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.normal()), 0
        return self._observe(), {}

    def step(self, action):
        self.place += 0.2 * (2 * int(action) - 1)
        self.steps += 1
        return self._observe(), -abs(self.place), False, self.steps == 20, {}

    def _observe(self):
        return np.array([self.place, self.steps / 20], np.float32)


class Homing(BasePolicy):
    """The expert of `Corridor`; counts the observations that it gets."""

    calls: tuple = ()

    def _predict(self, observation, deterministic=False):
        self.calls = (*self.calls, (len(observation), deterministic))
        return (observation[:, 0] < 0).long()


def corridor(envs=2):
    return DummyVecEnv([Corridor for _ in range(envs)])


def quiet_logger():
    return imit_logger.configure(format_strs=[])


def make_trainer(folder, *, seed=0, venv=None, simple=True, shared_rng=True, batch_size=16,
                 bc_options=None, **options):  # fmt: skip
    th.manual_seed(seed)
    venv = venv or corridor()
    rng = np.random.default_rng(seed)
    learner = bc.BC(
        observation_space=venv.observation_space,
        action_space=venv.action_space,
        rng=rng if shared_rng else np.random.default_rng(seed + 100),
        batch_size=batch_size,
        device="cpu",
        custom_logger=quiet_logger(),
        **(bc_options or {}),
    )
    options.setdefault("custom_logger", quiet_logger())
    options |= {"venv": venv, "scratch_dir": folder, "rng": rng, "bc_trainer": learner}
    if not simple:
        return DAggerTrainer(**options)
    options.setdefault("expert_policy", Homing(venv.observation_space, venv.action_space))
    return SimpleDAggerTrainer(**options)


def collect(trainer, steps, expert=None):
    collector = trainer.create_trajectory_collector()
    obs = collector.reset()
    for _ in range(steps):
        actions = (obs[:, 0] < 0).astype(int) if expert is None else expert(obs)
        obs, _, _, _ = collector.step(actions)
    return collector


def episodes(count=1, *, with_rewards=True):
    """Returns hand-written demonstrations for `Corridor`."""
    rng = np.random.default_rng(count)
    made = []
    for _ in range(count):
        obs = rng.normal(size=(21, 2)).astype(np.float32)
        fields = (obs, (obs[:-1, 0] < 0).astype(np.int64), None, True)
        made.append(TrajectoryWithRew(*fields, np.zeros(20)) if with_rewards
                    else Trajectory(*fields))  # fmt: skip
    return made


def fingerprint(trainer):
    """Returns everything that could differ: parameters, demonstrations, later random numbers."""
    parameters = [p.detach().numpy().copy() for p in trainer.policy.parameters()]
    demos = [t for n in range(trainer.round_num) for t in read_demos(trainer.round_folder(n))]
    return parameters, demos, trainer.rng.bit_generator.state, trainer.round_num


def assert_same(one, other):
    for a, b in zip(one[0], other[0], strict=True):
        np.testing.assert_array_equal(a, b)
    assert one[1:] == other[1:]
