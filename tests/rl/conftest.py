"""Policies and environments for reinforcement learning."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.policies import ActorCriticPolicy

from imitbench.util.serial_vec_env import SerialVecEnv


@pytest.fixture
def make_policy():
    """Makes a policy for observations of five numbers, in any precision."""

    def make(action_space, dtype=th.float32, cls=ActorCriticPolicy, **kwargs):
        th.manual_seed(0)
        box = spaces.Box(-np.inf, np.inf, (5,), np.float32)
        policy = cls(box, action_space, lambda _: 3e-4, ortho_init=False, **kwargs)
        if hasattr(policy, "log_std"):
            policy.log_std.data += th.linspace(-0.5, 0.5, len(policy.log_std))
        return policy.to(dtype)

    return make


@pytest.fixture
def make_venv():
    """Makes environments of a registered name, seeded."""

    def make(name, n_envs=4, **kwargs):
        return make_vec_env(name, n_envs, seed=0, vec_env_cls=SerialVecEnv, **kwargs)

    return make


@pytest.fixture
def evaluate():
    """`policy.evaluate_actions` that does not round observations to single precision."""

    def evaluate(policy, obs, acts):
        features = policy.features_extractor(th.as_tensor(obs))
        actor, critic = policy.mlp_extractor(features)
        distribution = policy._get_action_dist_from_latent(actor)
        log_prob = distribution.log_prob(th.as_tensor(acts))
        return policy.value_net(critic).flatten(), log_prob, distribution.entropy()

    return evaluate
