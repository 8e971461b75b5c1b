"""A normalized policy observes what `VecNormalize` would pass to it."""

import numpy as np
import pytest
import torch as th
from stable_baselines3 import SAC
from stable_baselines3.common.vec_env import VecNormalize
from support.drift import TORQUE, drift_venv

from imitbench.data.policy_callable import policy_to_callable
from imitbench.policies.base import ZeroPolicy
from imitbench.policies.observation_statistics import NormalizedPolicy


@pytest.fixture
def normalizer():
    venv = VecNormalize(drift_venv(), clip_obs=0.5, epsilon=0.01)
    venv.reset()
    for _ in range(20):
        venv.step(np.zeros((2, 2)))
    venv.training = False
    return venv


def normalized(policy, venv):
    return NormalizedPolicy(
        policy, venv.obs_rms.mean, venv.obs_rms.var, epsilon=venv.epsilon, clip_obs=venv.clip_obs
    )


def test_it_acts_like_the_policy_on_normalized_observations(normalizer):
    model = SAC("MlpPolicy", drift_venv(), buffer_size=10, policy_kwargs={"net_arch": [8]})
    policy = normalized(model.policy, normalizer)
    raw = normalizer.get_original_obs()
    shown = normalizer.normalize_obs(raw)
    assert (np.abs(shown) == 0.5).any()
    wanted = model.predict(shown, deterministic=True)[0]
    np.testing.assert_array_equal(policy.predict(raw, deterministic=True)[0], wanted)
    acts = policy_to_callable(policy, normalizer.venv, deterministic_policy=True)
    np.testing.assert_array_equal(acts(raw, None, None)[0], wanted)
    th.manual_seed(0)
    sampled = policy.predict(raw)[0]
    th.manual_seed(0)
    np.testing.assert_array_equal(sampled, model.predict(shown)[0])


def test_statistics_of_another_shape_are_refused(normalizer):
    policy = ZeroPolicy(normalizer.observation_space, TORQUE)
    with pytest.raises(ValueError, match=r"var: has shape \(2,\)"):
        NormalizedPolicy(policy, np.zeros(3), np.ones(2))
