"""DAC's discriminator and reward on cases worked out by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from support.off_policy import (
    StubAgent,
    batch,
    linear_discriminator,
    small_options,
    stub_batches,
)

from imitbench.algorithms.off_policy.dac import DAC, DACfO
from imitbench.algorithms.off_policy.discriminator import Discriminator
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.transitions import PairInputs
from imitbench.data import types

OWN = batch([[0.0, 0.0], [1.0, 0.0]], [[0.0], [1.0]])
EXPERT = batch([[0.0, 2.0], [0.0, 2.0]], [[0.0], [0.0]])


def test_loss_and_accuracy_are_those_of_the_logits():
    logged = linear_discriminator([1.0, 1.0, 1.0], -1.0).update(OWN, EXPERT)
    # Logits: expert 1 and 1; learner -1 and 1.
    softplus = lambda x: math.log1p(math.exp(x))  # noqa: E731
    assert float(logged["discriminator/loss"]) == pytest.approx(
        (3 * softplus(-1) + softplus(1)) / 4
    )
    assert float(logged["discriminator/accuracy"]) == 0.75


def test_the_penalty_is_the_squared_distance_of_the_gradients_norm_from_one():
    logged = linear_discriminator([2.0, 2.0, 1.0], penalty=1.0).update(OWN, EXPERT)
    assert float(logged["discriminator/penalty"]) == pytest.approx((3 - 1) ** 2)


def test_the_penalty_alone_drives_the_gradients_norm_to_one():
    same = linear_discriminator([2.0, 2.0, 1.0], penalty=1.0)
    for _ in range(200):
        same.update(OWN, OWN)
    assert float(same._net.vector[0, :3].detach().norm()) == pytest.approx(1.0, abs=0.05)


def test_hidden_entries_do_not_reach_the_discriminator():
    logits = linear_discriminator([5.0, 1.0, 0.0], inputs={"hidden_entries": [0]}).logits(OWN)
    assert logits.tolist() == [[0.0, 0.0]]


def test_pairs_of_observations_are_told_apart_whatever_the_actions():
    own = replace(OWN, next_obs=th.tensor([[[3.0, 1.0], [5.0, 1.0]]]))
    inputs = {"hidden_entries": [1], "use_actions": False, "use_next_obs": True}
    seen = linear_discriminator([1.0, 0.0, 10.0, 100.0], inputs=inputs)
    assert seen.logits(own).tolist() == [[30.0, 51.0]]
    assert seen.logits(replace(own, acts=own.acts + math.nan)).tolist() == [[30.0, 51.0]]


def test_dac_from_observations_has_such_a_discriminator(make, cartpole_demos):
    trainer = make(DACfO, "seals/CartPole-v0", cartpole_demos)
    assert trainer.discriminator.inputs.size == 8
    assert make(DAC, "seals/CartPole-v0", cartpole_demos).discriminator.inputs.size == 6


def test_discrete_actions_are_one_hot():
    made = Discriminator(
        PairInputs(1, spaces.Discrete(3)),
        hidden_sizes=(),
        learning_rate=0.1,
        penalty=0.0,
        streams=SeedStreams([0]),
    )
    with th.no_grad():
        made._net.vector.copy_(th.tensor([0.0, 1.0, 2.0, 3.0, 0.5]))
    assert made.logits(batch([[9.0], [9.0]], [2, 0])).tolist() == [[3.5, 1.5]]


def test_critics_learn_the_logit_of_the_learners_pairs(make, pendulum_demos):
    trainer = make(DAC, "Pendulum-v1", pendulum_demos, options=small_options(agent={"gamma": 0.5}))
    trainer.agent = StubAgent()
    trainer.discriminator.logits = lambda _: th.tensor([[1.0, -1.0]])
    # Q of 10 and 21; targets 1 + 0.5 * 4, and -1 at the end. Two critics, halves of mean squares.
    assert trainer.critic_loss(*stub_batches()).tolist() == [(7**2 + 22**2) / 2]


@pytest.mark.parametrize("reward", [1.0, -1.0])
@pytest.mark.parametrize("env", ["Pendulum-v1", "seals/CartPole-v0"])
def test_ending_pays_as_much_as_staying_whatever_the_sign_of_the_reward(
    env, reward, make, pendulum_demos, cartpole_demos
):
    """In the absorbing state a reward of 1 is worth 1 / (1 - 0.5), as it is while staying alive."""
    demos = [
        types.Trajectory(obs=each.obs[:6], acts=each.acts[:5], infos=None, terminal=True)
        for each in (pendulum_demos if env == "Pendulum-v1" else cartpole_demos)
    ]
    agent = {"gamma": 0.5, "tau": 1.0, "critic_learning_rate": 0.01}
    trainer = make(DAC, env, demos, options=small_options(agent=agent), allow_variable_horizon=True)
    trainer.train(20)
    ended = trainer.expert.column("next_obs", 0)[:, -1].numpy()
    ends = trainer.expert.take(np.flatnonzero(ended)[None])
    assert ends.obs[..., -1].sum() == 3  # inside the absorbing state, and 3 that lead there
    for _ in range(400):
        loss = trainer.td_loss(ends, th.full_like(ends.rewards, reward))
        trainer.agent.update_critics(loss.sum())
        trainer.agent.follow()
    values = trainer.agent.values(ends.obs, ends.acts).detach()
    th.testing.assert_close(values, th.full_like(values, 2 * reward), atol=0.05, rtol=0)
