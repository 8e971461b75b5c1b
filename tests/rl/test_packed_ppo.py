"""PPO of several seeds as one network trains each as it would be trained alone."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from torch import nn

from imitbench.policies.base import NormalizeFeaturesExtractor
from imitbench.rl.packed_ppo import OwnGenerators, PackedPPO
from imitbench.rl.ppo import PPO
from imitbench.rl.rollout import ReturnScaling
from imitbench.rl.training import algorithm_state, continue_learning, load_algorithm_state
from imitbench.util.networks import EMANorm, RunningNorm
from imitbench.util.serial_vec_env import SerialVecEnv

SEEDS = (3, 8, 5)
N_ENVS, N_STEPS = 3, 32
NORMALIZED = {
    "features_extractor_class": NormalizeFeaturesExtractor,
    "features_extractor_kwargs": {"normalize_class": RunningNorm},
}


class Nothing(BaseCallback):
    """Counts rollouts."""

    def __init__(self):
        super().__init__()
        self.rollouts = 0

    def _on_rollout_end(self):
        self.rollouts += 1

    def _on_step(self):
        return True


def make_venv(name, seeds):
    # Pendulum's episodes end by time, CartPole's by failure.
    length = {"max_episode_steps": 20} if name == "Pendulum-v1" else {}
    venv = SerialVecEnv([lambda: gym.make(name, **length)] * (N_ENVS * len(seeds)))
    venv.seed_each([seed + index for seed in seeds for index in range(N_ENVS)])
    return venv


def make_ppo(name, seed, **changes):
    ppo = PPO(
        "MlpPolicy",
        make_venv(name, [seed]),
        **{
            "seed": seed,
            "n_steps": N_STEPS,
            "batch_size": 32,
            "n_epochs": 2,
            "ent_coef": 0.01,
            "device": "cpu",
            "policy_kwargs": {"net_arch": [8, 8], **NORMALIZED},
        }
        | changes,
    )
    ppo.set_logger(Logger(None, []))
    ppo.return_scaling = ReturnScaling(N_ENVS, ppo.gamma)
    ppo.reward_fn = lambda obs, *_: -np.abs(obs).sum(axis=1) - seed
    return ppo


def parameters_of(ppo):
    return {name: value.clone() for name, value in ppo.policy.state_dict().items()}


def make_pack(name, **changes):
    members, generators = [], []
    for seed in SEEDS:
        members.append(make_ppo(name, seed, **changes))
        generators.append(OwnGenerators())
    return members, PackedPPO(members, make_venv(name, SEEDS), generators)


def learn(pack, rollouts):
    callbacks = [Nothing() for _ in SEEDS]
    pack.learn(rollouts * N_ENVS * N_STEPS, callbacks)
    return [callback.rollouts for callback in callbacks]


def alone(name, seed, rollouts, **changes):
    ppo = make_ppo(name, seed, **changes)
    continue_learning(ppo, rollouts * N_ENVS * N_STEPS, Nothing(), {"log_interval": None})
    return ppo


ARCHITECTURES = {
    "normalized": {},
    "plain": {"policy_kwargs": {"net_arch": [8, 8]}},
    "relu": {"policy_kwargs": {"net_arch": {"pi": [7], "vf": [9, 8]}, "activation_fn": nn.ReLU}},
    "linear": {"policy_kwargs": {"net_arch": []}},
}


@pytest.mark.parametrize("name", ["Pendulum-v1", "CartPole-v1"])
@pytest.mark.parametrize("changes", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_first_rollout_and_update_are_those_of_each_seed_alone(name, changes):
    members, pack = make_pack(name, **changes)
    assert learn(pack, 1) == [1, 1, 1]
    for own, seed in zip(members, SEEDS, strict=True):
        expected = alone(name, seed, 1, **changes)
        for field in ("obs", "acts", "next_obs", "dones", "env_rews", "rews", "log_probs"):
            mine, theirs = (getattr(ppo.last_rollout, field) for ppo in (own, expected))
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
        for field in ("advantages", "returns", "episode_starts", "actions"):
            mine, theirs = (getattr(ppo.rollout_buffer, field) for ppo in (own, expected))
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
        parameters = expected.policy.state_dict()
        for key, value in own.policy.state_dict().items():
            np.testing.assert_allclose(value, parameters[key], rtol=1e-5, atol=1e-5)
        assert own.num_timesteps == expected.num_timesteps
        assert own._n_updates == expected._n_updates


OTHERWISE = {
    "a smaller last minibatch": {"batch_size": 40},
    "a minibatch larger than the rollout": {"batch_size": 200},
    "a last minibatch of one": {"batch_size": 95},
    "one epoch without normalized advantages": {"n_epochs": 1, "normalize_advantage": False},
    "short gradients": {"max_grad_norm": 0.01, "clip_range": 0.01, "learning_rate": 0.003},
}


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
@pytest.mark.parametrize("changes", OTHERWISE.values(), ids=OTHERWISE)
def test_settings_mean_the_same(changes):
    members, pack = make_pack("Pendulum-v1", **changes)
    learn(pack, 1)
    for own, seed in zip(members, SEEDS, strict=True):
        parameters = alone("Pendulum-v1", seed, 1, **changes).policy.state_dict()
        for key, value in own.policy.state_dict().items():
            np.testing.assert_allclose(value, parameters[key], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["Pendulum-v1", "CartPole-v1"])
def test_each_seed_stops_at_its_own_divergence(name):
    changes = {"target_kl": 0.002, "learning_rate": 0.003, "n_epochs": 6}
    members, pack = make_pack(name, **changes)
    learn(pack, 1)
    updates = set()
    for own, seed in zip(members, SEEDS, strict=True):
        expected = alone(name, seed, 1, **changes)
        due = expected.policy.state_dict()
        for key, value in own.policy.state_dict().items():
            np.testing.assert_allclose(value, due[key], rtol=1e-5, atol=1e-5)
        (steps,), (due_steps,) = (
            {float(state["step"]) for state in ppo.policy.optimizer.state.values()}
            for ppo in (own, expected)
        )
        assert steps == due_steps
        assert own._n_updates == expected._n_updates
        updates.add(steps)
        # `alone` leaves NumPy's global generator after its last permutation.
        position = OwnGenerators().numpy.get_state()[2]
        assert pack.generators[SEEDS.index(seed)].numpy.get_state()[2] == position
    assert len(updates) > 1


def test_only_the_critics_can_be_trained_and_statistics_fixed():
    members, pack = make_pack("Pendulum-v1")
    for ppo in members:
        ppo.critic_only = True
        ppo.policy.features_extractor.normalize.fixed = True
    before = [parameters_of(ppo) for ppo in members]
    learn(pack, 1)
    for ppo, earlier in zip(members, before, strict=True):
        now = parameters_of(ppo)
        changed = {name for name, value in now.items() if not value.equal(earlier[name])}
        assert changed
        assert all("value_net" in name for name in changed)


def test_a_restored_pack_continues_bit_for_bit():
    members, pack = make_pack("CartPole-v1")
    learn(pack, 2)
    states = [algorithm_state(ppo) for ppo in members]
    drawn = copy.deepcopy([own.state_dict() for own in pack.generators])
    environments = copy.deepcopy(pack.venv)
    learn(pack, 1)
    others = [make_ppo("CartPole-v1", seed) for seed in SEEDS]
    generators = [OwnGenerators() for _ in SEEDS]
    for ppo, own, state, numbers in zip(others, generators, states, drawn, strict=True):
        load_algorithm_state(ppo, state)
        own.load_state_dict(numbers)
    learn(PackedPPO(others, environments, generators), 1)
    for own, expected in zip(others, members, strict=True):
        assert own.num_timesteps == 3 * N_ENVS * N_STEPS
        due = parameters_of(expected)
        assert all(value.equal(due[name]) for name, value in parameters_of(own).items())


def test_no_seed_changes_the_global_generators():
    _, pack = make_pack("Pendulum-v1")
    before = OwnGenerators().state_dict()
    learn(pack, 1)
    now = OwnGenerators().state_dict()
    assert now["torch"].equal(before["torch"])
    assert now["numpy"]["state"]["pos"] == before["numpy"]["state"]["pos"]


def test_generators_are_global_while_in_use():
    own, outside = OwnGenerators(), OwnGenerators()
    with own.in_use():
        drawn = th.rand(3), np.random.rand(3)  # noqa: NPY002
    with outside.in_use():
        assert th.rand(3).equal(drawn[0])
        assert np.array_equal(np.random.rand(3), drawn[1])  # noqa: NPY002
    with own.in_use():
        assert not th.rand(3).equal(drawn[0])
    assert th.rand(3).equal(drawn[0])  # nobody outside has drawn


def test_diverged_training_is_reported_and_policies_are_as_before():
    members, pack = make_pack("Pendulum-v1")
    members[1].reward_fn = lambda obs, *_: np.full(len(obs), 1e30)
    members[1].return_scaling = None
    before = [ppo.policy.action_net.weight.detach().clone() for ppo in members]
    with pytest.raises(ValueError, match="not finite: training diverged"):
        learn(pack, 1)
    for ppo, earlier in zip(members, before, strict=True):
        assert ppo.policy.action_net.weight.equal(earlier)


EMA = {
    "features_extractor_class": NormalizeFeaturesExtractor,
    "features_extractor_kwargs": {"normalize_class": EMANorm},
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clip_range_vf": 0.2}, "clip_range_vf is set"),
        ({"lean": False}, "needs the lean path, but it was switched off"),
        ({"policy_kwargs": EMA}, "normalized by a EMANorm"),
    ],
)
def test_what_a_pack_cannot_do_is_refused(changes, said):
    with pytest.raises(ValueError, match=f"several seeds as one network: .*{said}"):
        make_pack("Pendulum-v1", **changes)


def test_other_environments_are_refused():
    members, _ = make_pack("Pendulum-v1")
    venv = make_venv("Pendulum-v1", SEEDS[:2])
    with pytest.raises(ValueError, match="venv has 6 environments, not 3 for each of 3 seeds"):
        PackedPPO(members, venv, [OwnGenerators() for _ in members])
