"""DAC's discriminator and reward on cases worked out by hand."""

import math

import pytest
import torch as th
from support.off_policy import batch, linear_discriminator

from imitbench.algorithms.off_policy.discriminator import Discriminator
from imitbench.algorithms.off_policy.randomness import SeedStreams

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
    logits = linear_discriminator([5.0, 1.0, 0.0], hidden_entries=[0]).logits(OWN)
    assert logits.tolist() == [[0.0, 0.0]]


def test_discrete_actions_are_one_hot():
    made = Discriminator(
        1, 3, discrete=True, hidden_sizes=(), learning_rate=0.1, penalty=0.0,
        streams=SeedStreams([0]),
    )  # fmt: skip
    with th.no_grad():
        made._net.vector.copy_(th.tensor([0.0, 1.0, 2.0, 3.0, 0.5]))
    assert made.logits(batch([[9.0], [9.0]], [2, 0])).tolist() == [[3.5, 1.5]]
