"""A training of Stable-Baselines3 goes on from its state as if it had never stopped."""

import copy

import numpy as np
import pytest
import torch as th
from stable_baselines3 import SAC
from stable_baselines3.common.buffers import ReplayBuffer
from support.drift import drift_venv

from imitbench.policies.replay_buffer_wrapper import ReplayBufferRewardWrapper
from imitbench.rl.training import algorithm_state, load_algorithm_state


def first_of_obs(obs, acts, next_obs, dones):
    return obs[:, 0]


def sum_of_acts(obs, acts, next_obs, dones):
    return acts.sum(axis=1)


class Relabelled(ReplayBufferRewardWrapper):
    """A wrapper that another one can be put around."""

    def __init__(self, *args, **kwargs):
        kwargs = {"replay_buffer_class": ReplayBuffer, "reward_fn": first_of_obs, **kwargs}
        super().__init__(*args, **kwargs)


BUFFERS = {
    "plain": {},
    "relabelled": {"replay_buffer_class": Relabelled},
    "twice": {
        "replay_buffer_class": ReplayBufferRewardWrapper,
        "replay_buffer_kwargs": {"replay_buffer_class": Relabelled, "reward_fn": sum_of_acts},
    },
}


def learner(buffer, buffer_size=200):
    return SAC(
        "MlpPolicy",
        drift_venv(),
        buffer_size=buffer_size,
        learning_starts=10,
        batch_size=8,
        policy_kwargs={"net_arch": [8]},
        seed=0,
        **BUFFERS[buffer],
    )


def sampled(model):
    np.random.seed(0)  # noqa: NPY002 (buffers of Stable-Baselines3 draw from it)
    return model.replay_buffer.sample(50)


def gone_on(model, venv):
    """Parameters after more training in a copy of an environment."""
    model.set_env(copy.deepcopy(venv), force_reset=False)
    np.random.seed(0)  # noqa: NPY002
    th.manual_seed(0)
    model.learn(40, reset_num_timesteps=False)
    return th.nn.utils.parameters_to_vector(model.policy.parameters())


@pytest.mark.parametrize("buffer", BUFFERS)
@pytest.mark.parametrize("buffer_size", [200, 30])  # partly filled, and gone round
def test_what_a_replay_buffer_holds_is_restored(buffer, buffer_size):
    model = learner(buffer, buffer_size).learn(60)
    venv = copy.deepcopy(model.get_env())
    state = algorithm_state(model)
    again = learner(buffer, buffer_size)
    load_algorithm_state(again, state)
    for name, wanted in sampled(model)._asdict().items():
        if wanted is not None:
            assert th.equal(getattr(sampled(again), name), wanted), name
    assert sampled(again).observations.abs().sum(dim=1).min() > 0
    goes_on = gone_on(model, venv)
    load_algorithm_state(again, state)  # both draw actions from the same generator
    assert th.equal(gone_on(again, venv), goes_on)
