"""Acting in NumPy draws what Stable-Baselines3 would draw."""

import numpy as np
import pytest
import stable_baselines3
import torch as th
from stable_baselines3 import A2C, DQN
from stable_baselines3.common.policies import ActorCriticPolicy

from imitbench.policies.base import FeedForward32Policy, NormalizeFeaturesExtractor
from imitbench.rl.numpy_policy import NumpyActor, can_act
from imitbench.rl.ppo import PPO


def make(cls, venv, policy="MlpPolicy", **options):
    return cls(policy, venv, seed=0, device="cpu", **options)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("cls", [PPO, stable_baselines3.PPO, A2C])
def test_draws_are_those_of_predict(cls, name, make_venv):
    venv = make_venv(name)
    kwargs = {"features_extractor_class": NormalizeFeaturesExtractor}
    algorithm = make(cls, venv, FeedForward32Policy, policy_kwargs=kwargs, n_steps=16)
    algorithm.learn(64)  # so that features are normalized by something
    assert can_act(algorithm)
    act = NumpyActor(algorithm).policy()
    obs = venv.reset()
    for _ in range(20):
        th.manual_seed(1)
        expected, _ = algorithm.predict(obs, deterministic=False)
        th.manual_seed(1)
        found, state = act(obs, None, None)
        assert state is None
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, atol=1e-5)
        obs = venv.step(found)[0]


def test_actions_are_clipped_to_their_bounds(make_venv):
    venv = make_venv("Pendulum-v1")
    algorithm = make(PPO, venv)
    with th.no_grad():
        algorithm.policy.action_net.bias.fill_(100.0)
    actions, _ = NumpyActor(algorithm).policy()(venv.reset(), None, None)
    np.testing.assert_array_equal(actions, venv.action_space.high[None].repeat(4, axis=0))


def test_later_parameters_count_from_the_next_call(make_venv):
    venv = make_venv("CartPole-v1")
    algorithm = make(PPO, venv)
    actor, obs = NumpyActor(algorithm), venv.reset()
    for action in (0, 1):
        with th.no_grad():
            algorithm.policy.action_net.bias.copy_(th.eye(2)[action] * 100)
        assert (actor.policy()(obs, None, None)[0] == action).all()


class OwnPredict(ActorCriticPolicy):
    def predict(self, *args, **kwargs):
        return super().predict(*args, **kwargs)


class OwnDraw(ActorCriticPolicy):
    def _predict(self, observation, deterministic=False):
        return super()._predict(observation, True)


@pytest.mark.parametrize("policy", [OwnPredict, OwnDraw])
def test_policies_that_choose_in_their_own_way_are_left_alone(policy, make_venv):
    assert not can_act(make(stable_baselines3.PPO, make_venv("CartPole-v1"), policy))


def test_what_has_no_copy_or_is_listened_to_is_left_alone(make_venv):
    venv = make_venv("CartPole-v1")
    assert not can_act(make(DQN, venv))
    listened = make(PPO, venv)
    listened.policy.action_net.register_forward_hook(lambda *_: None)
    assert not can_act(listened)
