import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.data import rollout
from imitbench.data.policy_callable import policy_to_callable, seeded_sampling
from imitbench.policies.base import NormalizeFeaturesExtractor


def vectorised(name, n=4):
    venv = DummyVecEnv([lambda: gym.make(name)] * n)
    venv.seed(0)
    return venv


MODELS = {
    "categorical": (PPO, "CartPole-v1", {"n_steps": 8, "batch_size": 8}),
    "gaussian": (PPO, "Pendulum-v1", {"n_steps": 8, "batch_size": 8}),
    "normalized": (
        PPO,
        "Pendulum-v1",
        {
            "n_steps": 8,
            "batch_size": 8,
            "policy_kwargs": {"features_extractor_class": NormalizeFeaturesExtractor},
        },
    ),
    "state-dependent noise": (PPO, "Pendulum-v1", {"n_steps": 8, "batch_size": 8, "use_sde": True}),
    "squashed": (SAC, "Pendulum-v1", {"buffer_size": 10}),
    "greedy": (DQN, "CartPole-v1", {"buffer_size": 10, "exploration_initial_eps": 0.0}),
}


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("part", ["algorithm", "policy"])
def test_actions_are_those_of_predict(kind, deterministic, part):
    cls, name, kwargs = MODELS[kind]
    venv = vectorised(name)
    model = cls("MlpPolicy", venv, seed=0, device="cpu", **kwargs)
    policy = model if part == "algorithm" else model.policy
    act = policy_to_callable(policy, venv, deterministic)
    obs = venv.reset()
    for seed in range(20):
        with th.random.fork_rng():
            th.manual_seed(seed)
            np.random.seed(seed)  # noqa: NPY002 -- DQN explores with the global generator
            expected, _ = policy.predict(obs, deterministic=deterministic)
            th.manual_seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            acts, state = act(obs, None, None)
        assert state is None
        assert acts.dtype == expected.dtype
        np.testing.assert_allclose(acts, expected, rtol=1e-6)


def test_a_policy_acts_in_evaluation_mode():
    venv = vectorised("CartPole-v1")
    policy = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, device="cpu").policy
    act = policy_to_callable(policy, venv)
    policy.set_training_mode(True)
    act(venv.reset(), None, None)
    assert not policy.training


def test_hooks_on_layers_are_called_for_every_batch():
    venv = vectorised("CartPole-v1")
    policy = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, device="cpu").policy
    heard = []
    policy.action_net.register_forward_hook(lambda *args: heard.append(args[-1].shape))
    policy_to_callable(policy, venv)(venv.reset(), None, None)
    assert heard == [(venv.num_envs, 2)]


@pytest.mark.parametrize("name", ["Pendulum-v1", "CartPole-v1"])
def test_an_action_that_is_not_finite_is_an_error(name):
    venv = vectorised(name)
    policy = PPO("MlpPolicy", venv, n_steps=8, batch_size=8, device="cpu").policy
    with th.no_grad():
        policy.action_net.bias.fill_(float("nan"))
    with pytest.raises(ValueError, match="not finite"):
        policy_to_callable(policy, venv)(venv.reset(), None, None)


def test_a_policy_for_other_spaces_is_refused():
    policy = PPO("MlpPolicy", vectorised("Pendulum-v1"), n_steps=8, batch_size=8).policy
    with pytest.raises(ValueError, match="spaces do not match"):
        policy_to_callable(policy, vectorised("CartPole-v1"))


def test_other_types_and_deterministic_functions_are_refused():
    with pytest.raises(TypeError, match="policy is a str"):
        policy_to_callable("expert", vectorised("CartPole-v1"))
    with pytest.raises(ValueError, match="deterministic_policy"):
        policy_to_callable(lambda *inputs: inputs[:2], vectorised("CartPole-v1"), True)


class Spaces(gym.Env):
    observation_space = spaces.Box(0, 1, (1,))

    def __init__(self, action_space):
        self.action_space = action_space


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=2),
        spaces.Box(-2.0, 3.0, (2,), np.float32),
        spaces.MultiDiscrete([2, 5]),
        spaces.MultiBinary(4),
    ],
)
def test_random_actions_cover_the_space_and_follow_the_generator(space):
    venv = DummyVecEnv([lambda: Spaces(space)] * 5)

    def draw(seed):
        act = policy_to_callable(None, venv, rng=np.random.default_rng(seed))
        return np.stack([act(None, None, None)[0] for _ in range(100)])

    acts = draw(0)
    assert acts.shape == (100, 5, *space.shape)
    assert all(space.contains(action) for action in acts.reshape(-1, *space.shape))
    assert np.array_equal(acts, draw(0))
    assert not np.array_equal(acts, draw(1))
    if isinstance(space, spaces.Discrete):
        assert set(acts.ravel().tolist()) == {2, 3, 4}


def test_without_a_generator_random_actions_follow_the_action_space():
    venv = DummyVecEnv([lambda: Spaces(spaces.Discrete(100))] * 5)

    def draw():
        venv.action_space.seed(3)
        return policy_to_callable(None, venv)(None, None, None)[0].tolist()

    assert draw() == draw()


def test_sampling_depends_on_the_generator_and_restores_that_of_torch():
    th.manual_seed(0)
    before = th.get_rng_state()
    draws = []
    for seed in (1, 1, 2):
        with seeded_sampling(None, np.random.default_rng(seed)):
            draws.append(th.rand(1).item())
    assert draws[0] == draws[1] != draws[2]
    assert th.equal(th.get_rng_state(), before)


class TestExploration:
    """DQN explores with NumPy's global generator and that of its action space."""

    @pytest.fixture
    def model(self):
        model = DQN("MlpPolicy", vectorised("CartPole-v1", 2), buffer_size=10, device="cpu")
        model.exploration_rate = 0.5
        return model

    @staticmethod
    def actions(model, seed, before):
        np.random.seed(before)  # noqa: NPY002
        model.action_space.seed(before)
        venv = vectorised("CartPole-v1", 2)
        until = rollout.make_min_episodes(3)
        collected = rollout.generate_trajectories(model, venv, until, np.random.default_rng(seed))
        return [each.acts.tolist() for each in collected]

    def test_the_same_generator_gives_the_same_trajectories(self, model):
        first = self.actions(model, seed=1, before=0)
        assert self.actions(model, seed=1, before=5) == first
        assert self.actions(model, seed=2, before=0) != first

    def test_generators_are_restored(self, model):
        def numbers():
            return np.random.rand(), model.action_space.np_random.random()  # noqa: NPY002

        np.random.seed(3)  # noqa: NPY002
        model.action_space.seed(3)
        wanted = numbers()
        self.actions(model, seed=1, before=3)
        assert numbers() == wanted
