"""CSIL's reward, cloning and pre-training on cases worked out by hand."""

import math

import numpy as np
import pytest
import torch as th

from imitbench.algorithms.off_policy.agent import AgentOptions
from imitbench.algorithms.off_policy.csil import CSIL, refinement_loss
from imitbench.algorithms.off_policy.trainer import OffPolicyOptions
from imitbench.algorithms.off_policy.transitions import Batch, store_of

SHORT = {"bc_updates": 5, "critic_updates": 5}


def options(hidden_sizes=(), batch_size=8, **agent):
    agent = AgentOptions(hidden_sizes=hidden_sizes, learn_temperature=False, **agent)
    return OffPolicyOptions(agent=agent, batch_size=batch_size, buffer_size=500, learning_starts=20)


@pytest.fixture
def linear(make, pendulum_demos):
    """Nets are linear in three observations, and in one action for critics."""

    def linear(**given):
        settings = given.pop("options", options())
        return make(CSIL, "Pendulum-v1", pendulum_demos, options=settings, **SHORT | given)

    return linear


def policy(trainer, mean, std):
    """A policy that is the same in all states."""
    net = trainer.agent.actor.copy()
    net.vector.zero_()
    net.vector[:, -2:] = th.tensor([mean, math.log(std)])
    return net


def batch(obs, acts, next_obs=None, terminal=None):
    obs, acts = th.tensor([obs]), th.tensor([acts])
    zeros = th.zeros(obs.shape[:2])
    return Batch(
        obs=obs,
        acts=acts,
        next_obs=obs if next_obs is None else th.tensor([next_obs]),
        terminal=zeros if terminal is None else th.tensor([terminal]),
        rewards=zeros,
    )


def test_log_ratios_are_those_of_squashed_normal_and_uniform_actions(linear):
    trainer = linear()
    acts = th.tensor([[[0.0], [math.tanh(1.0)]]])
    found = trainer.log_ratio(policy(trainer, 0.0, 1.0), th.zeros(1, 2, 3), acts)
    normal = -0.5 * math.log(2 * math.pi)
    slope = math.log(1 - math.tanh(1.0) ** 2)
    wanted = th.tensor([[normal + math.log(2), normal - 0.5 - slope + math.log(2)]])
    th.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


def test_the_clone_is_the_best_policy_for_its_own_reward(linear):
    # That policy is p * exp(r / alpha) / exp(V / alpha), and V is 0 (theorem 1 without shaping).
    trainer = linear(reward_scale=0.7)
    with th.no_grad():
        trainer._reward.vector.copy_(policy(trainer, 0.3, 0.8).vector)
    acts = th.linspace(-1, 1, 20_001)[None, :, None]
    same = th.zeros(1, acts.shape[1], 3)
    zeros = th.zeros(same.shape[:2])
    rewards = trainer.rewards(Batch(same, acts, same, zeros, zeros))
    best = 0.5 * (rewards / 0.7).exp()
    assert float(th.trapezoid(best[0], acts[0, :, 0])) == pytest.approx(1.0, abs=2e-3)
    outputs = th.tensor([0.3, math.log(0.8)])
    raw = th.atanh(acts[0, 4000:16_000, 0])
    normal = th.distributions.Normal(outputs[0], outputs[1].exp())
    wanted = normal.log_prob(raw) - th.log1p(-acts[0, 4000:16_000, 0].square())
    th.testing.assert_close(best[0, 4000:16_000].log(), wanted, atol=1e-4, rtol=0)


def test_rewards_and_deviations_have_lower_bounds(linear):
    trainer = linear(least_std=0.5)
    with th.no_grad():
        trainer._reward.vector.copy_(policy(trainer, 0.0, 0.001).vector)
    found = trainer.rewards(batch([[0.0] * 3] * 2, [[0.0], [0.99]]))
    wanted = -math.log(0.5) - 0.5 * math.log(2 * math.pi) + math.log(2)
    th.testing.assert_close(found, th.tensor([[wanted, -5.0]]))


def test_the_absorbing_state_has_no_reward_and_does_not_count_when_cloning(linear):
    trainer = linear(allow_variable_horizon=True, prior_weight=0.0)
    rows = batch([[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]], [[0.0], [0.5]])
    net = policy(trainer, 0.0, 1.0)
    found = trainer.log_ratio(net, rows.obs, rows.acts)
    assert float(found[0, 0]) == 0.0 != float(found[0, 1])
    other = Batch(rows.obs, th.tensor([[[0.9], [0.5]]]), rows.obs, rows.terminal, rows.rewards)
    assert th.equal(trainer.cloning_loss(net, rows), trainer.cloning_loss(net, other))


def test_cloning_loss_is_error_and_likelihood(linear):
    trainer = linear(prior_weight=0.0)
    net = policy(trainer, 0.0, 1.0)
    net.vector.requires_grad_()
    loss = trainer.cloning_loss(net, batch([[0.0] * 3], [[math.tanh(1.5)]]))
    act, slope = math.tanh(1.5), math.log(1 - math.tanh(1.5) ** 2)
    nll = 0.5 * math.log(2 * math.pi) + 1.125 + slope
    assert loss.item() == pytest.approx(act**2 + nll, abs=1e-4)
    (gradient,) = th.autograd.grad(loss.sum(), net.vector)
    # By the mean at 0, -2 * act from the error and -1.5 from the likelihood; by log std 1 - 1.5^2.
    wanted = th.tensor([-2 * act - 1.5, -1.25])
    th.testing.assert_close(gradient[0, -2:], wanted, atol=1e-3, rtol=0)


def test_the_deviation_stays_small_where_the_expert_is_at_a_bound(linear):
    trainer = linear(prior_weight=0.0)
    net = policy(trainer, 0.0, 1.0)
    adam = th.optim.Adam([net.vector.requires_grad_()], lr=0.02)
    rows = batch([[0.0] * 3] * 8, [[1.0]] * 8)
    for _ in range(500):
        adam.zero_grad()
        trainer.cloning_loss(net, rows).sum().backward()
        adam.step()
    mean, log_std = net.vector[0, -2:].tolist()
    assert mean - math.exp(log_std) > math.atanh(0.95)


def test_the_clone_fits_demonstrations_and_is_uniform_elsewhere(linear):
    trainer = linear(options=options((32, 32)))
    generator = th.Generator().manual_seed(0)
    net = trainer.agent.actor.copy()
    adam = th.optim.Adam([net.vector.requires_grad_()], lr=0.01)
    for _ in range(500):
        obs = 0.1 * th.randn(1, 64, 3, generator=generator) + 1.0
        acts = th.tanh(0.5 + 0.2 * th.randn(1, 64, 1, generator=generator))
        adam.zero_grad()
        loss = trainer.cloning_loss(net, Batch(obs, acts, obs, acts[..., 0] * 0, acts[..., 0]))
        loss.sum().backward()
        adam.step()
    mean, log_std = net(th.ones(1, 1, 3))[0, 0].tolist()
    assert mean == pytest.approx(0.5, abs=0.15)
    assert math.exp(log_std) == pytest.approx(0.2, abs=0.08)
    far, acts = th.full((1, 500, 3), -1.5), 2 * th.rand(1, 500, 1, generator=generator) - 1
    ratio = trainer.log_ratio(net, far, acts).detach()
    assert float(ratio.mean()) == pytest.approx(0.0, abs=0.2)


def test_refinement_raises_the_experts_reward_and_pulls_the_learners_to_zero():
    theirs, ours = th.tensor([[1.0, 3.0]]), th.tensor([[0.0, math.log(2.0)]])
    wanted = 0.5 * (0.5 - 1 + math.log(2.0)) - 2.0
    assert float(refinement_loss(theirs, ours)) == pytest.approx(wanted)
    x = th.tensor([[-9.0, -1.0, 0.0, 2.0]], requires_grad=True)
    (slope,) = th.autograd.grad(refinement_loss(th.zeros(1, 1), x).sum(), x)
    wanted = th.tensor([[0.0, 1 - math.e, 0.0, 1 - math.exp(-2.0)]]) / 4
    th.testing.assert_close(slope, wanted)


def test_steps_of_the_reward_tell_expert_and_learner_apart(linear):
    trainer = linear(reward_learning_rate=0.02)
    with th.no_grad():
        trainer._reward.vector.copy_(policy(trainer, 0.0, 0.5).vector)
    expert, own = (batch([[x, 0.0, 0.0]] * 4, [[0.0]] * 4) for x in (1.0, -1.0))
    start = trainer.learn(own, expert)
    assert float(start["reward/expert"]) == pytest.approx(float(start["reward/own"]))
    for _ in range(300):
        end = trainer.learn(own, expert)
    assert float(end["reward/expert"]) > float(start["reward/expert"]) + 0.3
    assert abs(float(end["reward/own"])) < 0.5 * abs(float(start["reward/own"]))


def test_without_a_learning_rate_the_reward_stays_the_clones(make, pendulum_demos):
    made = {}
    for rate in (0.0, 0.1):
        settings = options((16, 16))
        trainer = make(
            CSIL, "Pendulum-v1", pendulum_demos, options=settings, reward_learning_rate=rate,
            **SHORT,
        )  # fmt: skip
        trainer.train(40)
        made[rate] = trainer
    still, moved = made[0.0], made[0.1]
    assert th.equal(still._reward.vector, still._clone.vector)
    assert not th.equal(moved._reward.vector, moved._clone.vector)
    assert th.equal(moved._clone.vector, still._clone.vector)
    assert not th.equal(moved.agent.actor.vector, moved._clone.vector)


def test_the_slope_by_actions_is_the_critics_weight(linear):
    trainer = linear(action_gradient_weight=0.5)
    with th.no_grad():
        trainer.agent.critics.vector[:, 3] = th.tensor([2.0, -3.0])
    found = trainer.action_gradient(batch([[0.0] * 3] * 2, [[0.0], [0.7]]))
    assert found.item() == pytest.approx(0.5 * (2 + 3))


def test_sarsa_reaches_the_values_of_the_demonstrations(linear):
    agent = {"gamma": 0.5, "tau": 1.0, "critic_learning_rate": 0.05}
    trainer = linear(action_gradient_weight=0.0, options=options(batch_size=6, **agent))
    states = np.eye(3, dtype=np.float32)
    trainer._expert = store_of(
        [
            {
                "obs": states,
                "acts": np.array([[0.1], [-0.6], [0.9]], np.float32),
                "next_obs": states[[1, 2, 0]],
                "terminal": np.array([0, 0, 1], np.float32),
                "rewards": np.zeros(3, np.float32),
            }
        ]
    )
    rewards = th.tensor([1.0, 2.0, 4.0])
    trainer.rewards = lambda batch: batch.obs @ rewards
    for _ in range(400):
        trainer.agent.update_critics(trainer.sarsa_loss().sum())
        trainer.agent.follow()
    acts = th.tensor([[[0.1], [-0.6], [0.9]]])
    found = trainer.agent.values(th.eye(3)[None], acts)
    wanted = th.tensor([1 + 0.5 * 2 + 0.25 * 4, 2 + 0.5 * 4, 4.0]).expand(2, 1, 3)
    th.testing.assert_close(found.detach(), wanted, atol=0.05, rtol=0)


def test_a_deviation_of_zero_is_refused(linear):
    with pytest.raises(ValueError, match="least_std must be positive, not 0"):
        linear(least_std=0.0)
