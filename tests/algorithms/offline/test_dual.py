"""Weights of DemoDICE and SMODICE in two states, where the best distribution is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch as th

from imitbench.algorithms.offline.demodice import DemoDICE
from imitbench.algorithms.offline.dual import DualOptions, dual_value, dual_weights
from imitbench.algorithms.offline.smodice import SMODICE
from imitbench.algorithms.offline.weighted_cloning import DiscriminatorOptions

from .conftest import episode, settled

FREE = {
    "discriminator": DiscriminatorOptions(
        hidden_sizes=(8,), learning_rate=0.02, gradient_penalty=0.0
    ),
    "dual": DualOptions(
        gamma=0.5, hidden_sizes=(8,), learning_rate=0.02, gradient_penalty=0.0
    ),
}  # fmt: skip
# All episodes begin in state 0, and then stay in state 1 whatever is done. With gamma = 1/2, every
# policy is half of the time in each state. The expert chooses action 1, then 0.
EXPERT = episode((0, 1), (1, 0), last=1)
OTHERS = [episode((0, 1), (1, 0), (1, 1), last=1)] * 2 + [episode((0, 0), (1, 1), last=1)] * 4


def weights(trainer):
    """The weight of each transition of the union."""
    batch = trainer.data.union.take(np.arange(trainer.data.size)[None])
    return dual_weights(trainer.residuals(batch), trainer._divergence, trainer._temperature)


def test_weights_are_the_derivatives_of_the_dual():
    residuals = th.tensor([0.5, -0.25, -3.0], dtype=th.float64, requires_grad=True)
    for divergence in ("kl", "chi2"):
        (slopes,) = th.autograd.grad(dual_value(residuals, divergence, 2.0), residuals)
        expected = dual_weights(residuals.detach(), divergence, 2.0)
        assert th.allclose(3 * slopes, expected)
    assert dual_weights(residuals.detach(), "kl", 2.0).mean() == pytest.approx(1.0)
    # e / t + 1 = 1.25, 0.875 and -0.5.
    assert dual_weights(residuals.detach(), "chi2", 2.0).tolist() == [1.25, 0.875, 0.0]


def test_demodice_finds_the_experts_distribution_where_a_policy_has_it(make, probabilities):
    trainer = make(DemoDICE, [EXPERT], OTHERS, **FREE)
    found = settled(trainer, weights)
    # dE is 1/2 for (0, 1) and (1, 0), each 3 of the 16 of the union.
    expected = 0.5 / (3 / 16)
    for index in (0, 1, 2, 3, 5, 6):
        assert float(found[index]) == pytest.approx(expected, rel=0.1)
    assert float(found[[4, 7, *range(8, 16)]].max()) < 0.05
    first, second = probabilities(trainer)
    assert first > 0.95
    assert second < 0.05


def test_demodice_with_a_large_alpha_stays_with_the_data(make):
    trainer = make(DemoDICE, [EXPERT], OTHERS, alpha=1e4, **FREE)
    # The least divergence of a policy's distribution: 1/2 in each state, shared as the data do.
    found = settled(trainer, weights)
    states = trainer.data.obs
    assert th.allclose(found[states == 0], th.tensor(0.5 / (7 / 16)), rtol=0.1)
    assert th.allclose(found[states == 1], th.tensor(0.5 / (9 / 16)), rtol=0.1)


@pytest.mark.parametrize("divergence", ["kl", "chi2"])
def test_smodices_weights_are_those_of_states(make, divergence):
    trainer = make(SMODICE, [EXPERT], OTHERS, divergence=divergence, disc_batches=100, **FREE)
    found, states = settled(trainer, weights), trainer.data.obs
    scale = float(found.mean())
    assert scale == pytest.approx(1.0, abs=0.1)
    assert th.allclose(found[states == 0], th.tensor(0.5 / (7 / 16)), rtol=0.15)
    assert th.allclose(found[states == 1], th.tensor(0.5 / (9 / 16)), rtol=0.15)


@pytest.mark.parametrize("method", [DemoDICE, SMODICE])
def test_with_the_experts_own_data_as_supplement_weights_are_equal(make, method):
    given = {"disc_batches": 100} if method is SMODICE else {}
    trainer = make(method, [EXPERT], [EXPERT], **given, **FREE)
    assert th.allclose(settled(trainer, weights, 300), th.ones(4), atol=0.1)


# Here action 1 leads from state 0 to 1, and action 0 stays. The expert leaves state 0 at once.
STAY = [episode((0, 0), (0, 0), (0, 0))] * 3
LEAVE = episode((0, 0), (0, 1), (1, 0), (1, 0), last=1)


def leaving(actions):
    """Expert trajectories with given actions: state 0 once, then 1."""
    return episode(*zip((0, 1), actions, strict=True), last=1)


def best_share(reward_scale=1.0):
    """The share of action 1 in state 0 that is best for SMODICE with the KL divergence, by a grid.

    With gamma = 1/2 a policy with the share p is in state 0 for d = 1 / (1 + p) of the time. What
    it minimizes is the divergence of its choices there from the data's, 1 in 11, which counts d,
    plus that of its states from the data's, 11 in 13, minus its reward, the logarithm of the
    expert's half of the time in each state relative to the data's.
    """
    p = np.linspace(0.001, 0.999, 999)
    d = 1 / (1 + p)
    choices = d * (p * np.log(11 * p) + (1 - p) * np.log(1.1 * (1 - p)))
    data = np.array([11 / 13, 2 / 13])
    states = d * np.log(d / data[0]) + (1 - d) * np.log((1 - d) / data[1])
    rewards = d * np.log(0.5 / data[0]) + (1 - d) * np.log(0.5 / data[1])
    return p[np.argmin(choices + states - reward_scale * rewards)]


def test_smodice_leaves_as_often_as_the_states_of_the_expert_demand(make, probabilities):
    made = [
        make(SMODICE, [leaving(acts)], [LEAVE, *STAY], divergence="kl", clone_expert=False,
             disc_batches=100, **FREE)
        for acts in ((1, 0), (0, 1))
    ]  # fmt: skip
    first, second = (settled(trainer, probabilities) for trainer in made)
    assert th.equal(first, second)  # the expert's actions have no influence
    assert float(first[0]) == pytest.approx(best_share(), abs=0.06)
    assert best_share() > 2 / 11  # the data have 1 in 11


def test_the_scale_says_how_much_the_reward_counts_beside_the_divergence(make, probabilities):
    trainer = make(SMODICE, [leaving((1, 0))], [LEAVE, *STAY], divergence="kl", reward_scale=3.0,
                   clone_expert=False, disc_batches=100, **FREE)  # fmt: skip
    found = settled(trainer, probabilities)
    assert float(found[0]) == pytest.approx(best_share(3.0), abs=0.06)
    assert best_share(3.0) - best_share(1 / 3) > 0.4  # what the inverse scale would give


def test_until_the_discriminator_is_trained_the_policy_does_not_change(make):
    trainer = make(SMODICE, [EXPERT], OTHERS, disc_batches=5, **FREE)
    before = [each.clone() for each in trainer.policy.parameters()]
    trainer.train(5)
    assert all(map(th.equal, before, trainer.policy.parameters()))
    fixed = trainer.discriminator.state_dict()["net"]
    trainer.train(2)
    assert th.equal(trainer.discriminator.state_dict()["net"], fixed)
    assert not all(map(th.equal, before, trainer.policy.parameters()))


def test_values_out_of_range_are_refused(make):
    for method, given, message in [
        (DemoDICE, {"alpha": -1.0}, "alpha must be at least 0"),
        (SMODICE, {"reward_scale": 0.0}, "reward_scale must be positive"),
        (SMODICE, {"disc_batches": -1}, "disc_batches must be at least 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(method, [EXPERT], OTHERS, **given)
    with pytest.raises(ValueError, match="gamma must lie in"):
        replace(FREE["dual"], gamma=1.0)
