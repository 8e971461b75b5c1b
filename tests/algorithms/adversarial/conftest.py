"""A small environment with expert transitions, and trainers for it."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401 (registers environments)
import torch as th
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.algorithms.adversarial.airl import AIRL
from imitbench.algorithms.adversarial.gaifo import GAIfO
from imitbench.algorithms.adversarial.gail import GAIL
from imitbench.data.resumable_env import ResumableEnv
from imitbench.data.types import Transitions
from imitbench.rewards.reward_nets import BasicRewardNet, BasicShapedRewardNet
from imitbench.rl.ppo import PPO
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.networks import RunningNorm

NETS = {
    GAIL: BasicRewardNet,
    GAIfO: partial(BasicRewardNet, use_action=False, use_next_state=True),
    AIRL: BasicShapedRewardNet,
}


def make_venv(name="seals/CartPole-v0", count=2, seed=0):
    venv = DummyVecEnv([lambda: ResumableEnv(Monitor(gym.make(name)))] * count)
    venv.seed(seed)
    return venv


def random_transitions(venv, count=200, seed=0):
    """Made-up transitions of the environment's shapes."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(count + 1, *venv.observation_space.shape))
    obs = obs.astype(venv.observation_space.dtype)
    venv.action_space.seed(seed)
    return Transitions(
        obs=obs[:-1],
        acts=np.array([venv.action_space.sample() for _ in range(count)]),
        infos=np.array([{}] * count),
        next_obs=obs[1:],
        dones=np.arange(count) % 50 == 49,
    )


def make_trainer(algorithm=GAIL, venv=None, *, ppo=PPO, ppo_options=(), seed=0, **options):
    """Makes a trainer; Stable-Baselines3's PPO keeps its own loop unless `lean` is given."""
    th.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (PPO draws from the global generator)
    venv = make_venv() if venv is None else venv
    defaults = {
        "demonstrations": random_transitions(venv),
        "demo_batch_size": 32,
        "venv": venv,
        "gen_algo": ppo(
            "MlpPolicy",
            venv,
            seed=seed,
            device="cpu",
            **{"n_steps": 60, "batch_size": 40, "n_epochs": 2, **dict(ppo_options)},
        ),
        "reward_net": NETS[algorithm](
            venv.observation_space, venv.action_space, normalize_input_layer=RunningNorm
        ),
        "custom_logger": HierarchicalLogger(Logger(folder=None, output_formats=[]), []),
        "lean": ppo is PPO,
    }
    return algorithm(**(defaults | options))


@pytest.fixture(params=[GAIL, AIRL], ids=["gail", "airl"])
def algorithm(request):
    return request.param
