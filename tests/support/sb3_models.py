"""Models of every kind that Stable-Baselines3 saves."""

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.policies.base import (
    FeedForward32Policy,
    NormalizeFeaturesExtractor,
    SAC1024Policy,
)
from imitbench.util.networks import EMANorm
from support.drift import CHOICE, TORQUE, drift_venv


class Images(gym.Env):
    """Observes random images."""

    observation_space = spaces.Box(0, 255, (36, 36, 3), np.uint8)
    action_space = CHOICE

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.integers(0, 256, (36, 36, 3), np.uint8), {}

    def step(self, action):
        return *self.reset()[:1], 0.0, False, False, {}


class Parts(Images):
    """Observes dictionaries of an image and numbers."""

    observation_space = spaces.Dict(
        {"image": Images.observation_space, "numbers": spaces.Box(-1, 1, (4,), np.float32)}
    )

    def reset(self, *, seed=None, options=None):
        image, info = super().reset(seed=seed)
        return {"image": image, "numbers": self.np_random.normal(size=4)}, info


SHORT = {"n_steps": 8, "batch_size": 8, "n_epochs": 2}
OFF = {"buffer_size": 100, "learning_starts": 4, "batch_size": 4}
SMALL = {"net_arch": [8, 6]}
NORMALIZED = {"features_extractor_class": NormalizeFeaturesExtractor}


def ppo(policy="MlpPolicy", action_space=TORQUE, policy_kwargs=None, **kwargs):
    # Copied because algorithms modify it.
    settings = dict(policy_kwargs or {})
    return PPO(policy, drift_venv(action_space), policy_kwargs=settings, seed=0, **SHORT, **kwargs)


def off(cls, action_space=TORQUE, policy="MlpPolicy", policy_kwargs=None, **kwargs):
    settings = dict(policy_kwargs or {})
    kwargs = {**OFF, **kwargs}
    return cls(policy, drift_venv(action_space), policy_kwargs=settings, seed=0, **kwargs)


def images(env, policy, cls=PPO, settings=SHORT):
    return cls(policy, DummyVecEnv([env]), seed=0, **settings)


MODELS = {
    "ppo": ppo,
    "ppo discrete": lambda: ppo(action_space=CHOICE),
    "ppo multi-discrete": lambda: ppo(action_space=spaces.MultiDiscrete([2, 3])),
    "ppo multi-binary": lambda: ppo(action_space=spaces.MultiBinary(2)),
    "ppo relu, separate": lambda: ppo(
        policy_kwargs={"activation_fn": th.nn.ReLU, "net_arch": {"pi": [8], "vf": [6, 4]}}
    ),
    "ppo linear": lambda: ppo(policy_kwargs={"net_arch": []}),
    "ppo feed-forward 32": lambda: ppo(FeedForward32Policy),
    "ppo normalized": lambda: ppo(policy_kwargs={**NORMALIZED, **SMALL}),
    "ppo normalized, EMA": lambda: ppo(
        policy_kwargs={**NORMALIZED, "features_extractor_kwargs": {"normalize_class": EMANorm}}
    ),
    "ppo normalized, unshared": lambda: ppo(
        policy_kwargs={**NORMALIZED, "share_features_extractor": False}
    ),
    "ppo gSDE": lambda: ppo(use_sde=True, policy_kwargs=SMALL),
    "ppo gSDE, squashed": lambda: ppo(
        use_sde=True, policy_kwargs={"squash_output": True, "full_std": False, "use_expln": True}
    ),
    "ppo images": lambda: images(Images, "CnnPolicy"),
    "ppo dictionaries": lambda: images(Parts, "MultiInputPolicy"),
    "a2c": lambda: A2C("MlpPolicy", drift_venv(), seed=0),
    "sac": lambda: off(SAC),
    "sac separate": lambda: off(SAC, policy_kwargs={"net_arch": {"pi": [8], "qf": [6, 4]}}),
    "sac elu, three critics": lambda: off(
        SAC, policy_kwargs={"activation_fn": th.nn.ELU, "n_critics": 3}
    ),
    "sac 1024": lambda: off(SAC, policy=SAC1024Policy, learning_starts=100),
    "sac gSDE": lambda: off(SAC, use_sde=True, policy_kwargs=SMALL),
    "sac gSDE, unclipped": lambda: off(
        SAC, use_sde=True, policy_kwargs={**SMALL, "clip_mean": 0.0}
    ),
    "sac normalized": lambda: off(SAC, policy_kwargs=NORMALIZED),
    "td3": lambda: off(TD3),
    "ddpg": lambda: off(DDPG, policy_kwargs=SMALL),
    "dqn images": lambda: images(Images, "CnnPolicy", DQN, OFF),
    "dqn": lambda: off(DQN, action_space=CHOICE, policy_kwargs=SMALL),
}
