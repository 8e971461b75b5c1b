"""LS-IQ's loss on batches worked out by hand, and its fixed points on a small environment."""

import dataclasses

import pytest
import torch as th
from support.off_policy import StubAgent, small_options, stub_batches
from support.soft_mdp import SoftMdp, minimized

from imitbench.algorithms.off_policy.iq_learn import iq_loss
from imitbench.algorithms.off_policy.ls_iq import LSIQ, bounded_targets, ls_iq_loss

MDP = SoftMdp()
EXPERT = MDP.occupancy(MDP.expert)
UNIFORM = MDP.occupancy(MDP.uniform)
REGULARIZATION = 0.5
REWARD = 1 / REGULARIZATION
BOUND = REWARD / (1 - MDP.gamma)


def improved(q, expert, replay, *, reward=REWARD, fixed=False, shaping=0.0):
    """Q that minimizes the method's loss with targets of the Q before."""
    ahead = MDP.transitions @ MDP.values(q)
    bound = reward / (1 - MDP.gamma)
    settings = {"gamma": MDP.gamma, "bound": bound}
    by_expert = bounded_targets(reward, ahead, **settings) + shaping
    if fixed:
        by_expert = th.full_like(q, bound)
    by_policy = bounded_targets(-reward, ahead, **settings) + shaping
    return minimized(
        lambda q: ls_iq_loss(
            q.flatten(), by_expert.flatten(), q.flatten(), by_policy.flatten(),
            expert=expert.flatten(), policy=replay.flatten(),
        ),
        q,
    )  # fmt: skip


def settled(steps=50, **given):
    q = th.zeros_like(EXPERT)
    for _ in range(steps):
        q = improved(q, EXPERT, UNIFORM, **given)
    return q


def test_targets_are_bounded_and_fixed_at_the_end():
    values = th.tensor([1.0, 30.0, -30.0, 5.0])
    ended = th.tensor([False, False, False, True])
    settings = {"gamma": 0.5, "bound": 4.0, "ended": ended}
    # Rewards of ±2 add up to ±4 for gamma = 0.5, at and after the end as well.
    assert bounded_targets(2.0, values, value_at_end=4.0, **settings).tolist() == [2.5, 4, 0, 4]
    assert bounded_targets(-2.0, values, value_at_end=-4.0, **settings).tolist() == [
        -1.5,
        0,
        -4,
        -4,
    ]
    assert bounded_targets(2.0, values, gamma=0.5).tolist() == [2.5, 17, -13, 4.5]


def test_loss_and_gradient_on_two_samples():
    q = th.tensor([[1.0, 3.0]], requires_grad=True)
    v = th.tensor([[2.0, 0.0]], requires_grad=True)
    loss = ls_iq_loss(
        q, th.tensor([[4.0, 4.0]]), v, th.tensor([[0.0, -2.0]]),
        expert=th.tensor([0.5, 0.5]), policy=th.tensor([0.25, 0.75]),
    )  # fmt: skip
    assert loss.tolist() == [0.5 * ((9 + 1) / 2 + 0.25 * 4 + 0.75 * 4)]
    loss.sum().backward()
    assert q.grad.tolist() == [[0.5 * -3, 0.5 * -1]]
    assert v.grad.tolist() == [[0.25 * 2, 0.75 * 2]]


def test_it_is_iq_learns_objective_with_a_penalty_on_both():
    generator = th.Generator().manual_seed(0)
    rewards = th.randn(8, generator=generator)
    expert, replay = (th.softmax(th.randn(8, generator=generator), 0) for _ in range(2))
    # With targets ±1/c + gamma * V(s'), errors are rewards less ±1/c.
    loss = ls_iq_loss(
        rewards, th.tensor(REWARD), rewards, th.tensor(-REWARD), expert=expert, policy=replay
    )
    objective = iq_loss(
        rewards, rewards, expert=expert, visits=replay, penalized=(expert + replay) / 2,
        alpha=1 / (4 * REGULARIZATION),
    )  # fmt: skip
    th.testing.assert_close(loss, objective / REGULARIZATION + REWARD**2)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        # Rewards are ±2 and values at most 4. The expert's Q of 31 and 41 is trained on 4. V(s) of
        # 1 to 4 is trained on -2 + 0.5 * 4, except after the learner's end: -2 + 0.5 * -4.
        ({}, (27**2 + 37**2) / 2 + (1 + 6**2 + 3**2 + 4**2) / 4),
        # 2 + 0.5 * V(s') with V(s') of 8 and 10; and the learner's Q of 10 and 21 on -2 + 0.5 * 4
        # and on the least value.
        (
            {"expert_targets": "bootstrap", "policy_loss": "replay", "clip_targets": False},
            (25**2 + 34**2) / 2 + (10**2 + 25**2) / 2,
        ),
        # Without an absorbing state a learned value of the end is 0.
        (
            {"policy_loss": "replay", "absorbing_values": "learned"},
            (27**2 + 37**2) / 2 + (10**2 + 23**2) / 2,
        ),
    ],
)
def test_a_batch_is_trained_on_the_targets_of_the_options(make, pendulum_demos, options, wanted):
    settings = small_options(batch_size=2, agent={"gamma": 0.5})
    trainer = make(LSIQ, "Pendulum-v1", pendulum_demos, options=settings, **options)
    trainer.agent = StubAgent()
    # Halves of squares, by two critics of the same values.
    assert trainer.critic_loss(*stub_batches()).tolist() == pytest.approx([wanted])


def test_the_experts_end_is_worth_the_most_to_it_and_nothing_to_the_policy(make, pendulum_demos):
    settings = small_options(batch_size=2, agent={"gamma": 0.5})
    trainer = make(
        LSIQ, "Pendulum-v1", pendulum_demos, options=settings, expert_targets="bootstrap"
    )
    trainer.agent = StubAgent()
    own, expert = stub_batches()
    expert = dataclasses.replace(expert, terminal=th.tensor([[0.0, 1.0]]))
    # The expert's targets are 2 + 0.5 * 4 either way; the policy's in its last state -2 + 0.5 * 0.
    wanted = (27**2 + 37**2) / 2 + (1 + 6**2 + 3**2 + 6**2) / 4
    assert trainer.critic_loss(own, expert).tolist() == pytest.approx([wanted])


def test_marked_ends_are_worth_the_same_as_those_without_a_mark(make, pendulum_demos):
    settings = small_options(batch_size=2, agent={"gamma": 0.5})
    losses = []
    for marked in (False, True):
        trainer = make(
            LSIQ, "Pendulum-v1", pendulum_demos, options=settings, allow_variable_horizon=marked
        )
        trainer.agent = StubAgent()
        own, expert = stub_batches()
        if marked:
            own, expert = with_marks(own), with_marks(expert)
        losses.append(trainer.critic_loss(own, expert).tolist())
    assert losses[0] == losses[1]


def with_marks(batch):
    obs = th.cat([batch.obs, th.zeros_like(batch.obs)], dim=-1)
    next_obs = th.cat([batch.next_obs, batch.terminal.unsqueeze(-1)], dim=-1)
    terminal = th.zeros_like(batch.terminal)
    return dataclasses.replace(batch, obs=obs, next_obs=next_obs, terminal=terminal)


def test_the_fixed_point_is_the_soft_optimum_of_a_bounded_reward():
    q = settled()
    reward = REWARD * (EXPERT - UNIFORM) / (EXPERT + UNIFORM)
    assert MDP.values(q).abs().max() < BOUND  # otherwise the clipping would show
    th.testing.assert_close(q, MDP.solved(reward), atol=1e-4, rtol=0)


def test_the_experts_occupancy_is_recovered_as_rewards_outweigh_entropy():
    distances = []
    for reward in (REWARD, 10 * REWARD):
        q, replay = th.zeros_like(EXPERT), UNIFORM
        for step in range(60):
            q = improved(q, EXPERT, replay, reward=reward)
            occupancy = MDP.occupancy(MDP.policy(q))
            replay = replay.lerp(occupancy, 1 / (step + 2))  # as a replay buffer fills
        th.testing.assert_close(replay, occupancy, atol=1e-3, rtol=0)
        wanted = reward * (EXPERT - occupancy) / (EXPERT + occupancy)
        th.testing.assert_close(MDP.rewards(q), wanted, atol=0.1, rtol=0)
        distances.append(float((occupancy - EXPERT).abs().sum()) / 2)
    assert distances[1] < 0.012 < 0.05 < distances[0] < 0.1


def test_fixed_targets_recover_an_expert_without_randomness():
    best = th.eye(2, dtype=th.float64)[[0, 1, 1, 0]]
    expert, replay, q = MDP.occupancy(best), UNIFORM, th.zeros_like(EXPERT)
    for _ in range(60):
        q = improved(q, expert, replay, fixed=True)
        replay = 0.8 * replay + 0.2 * MDP.occupancy(MDP.policy(q))
    assert (MDP.policy(q) * best).sum(-1).min() > 0.99
    # Q of the expert's actions lies between both targets, by their shares of the samples.
    ahead = MDP.ahead(MDP.values(q))
    after = improved(q, expert, replay, fixed=True)
    wanted = (expert * BOUND + replay * (ahead - REWARD)) / (expert + replay)
    th.testing.assert_close(after, wanted, atol=1e-3, rtol=0)


def test_a_constant_or_a_potential_does_not_change_the_policy():
    q, constant = settled(), 0.5
    shifted = settled(shaping=constant)
    th.testing.assert_close(shifted, q + constant / (1 - MDP.gamma), atol=1e-4, rtol=0)
    potential = th.tensor([1.0, -2.0, 0.5, 1.5], dtype=th.float64)
    shaped = settled(shaping=potential.unsqueeze(1) - MDP.ahead(potential))
    th.testing.assert_close(shaped, q + potential.unsqueeze(1), atol=1e-4, rtol=0)


def test_ending_where_the_expert_never_is_does_not_pay():
    # One state that the expert never visits: stay in it, or end the episode.
    def by_policy(value_at_end):
        q = th.zeros(2, dtype=th.float64)
        for _ in range(100):
            ahead = q.max().expand(2)
            ended = th.tensor([False, True])
            q = bounded_targets(
                -REWARD, ahead, gamma=0.8, bound=BOUND, ended=ended, value_at_end=value_at_end
            )
        return q.tolist()

    # With a value of 0 the episode is ended to avoid the negative rewards.
    assert by_policy(0.0) == pytest.approx([-REWARD - 0.8 * REWARD, -REWARD])
    assert by_policy(-BOUND) == pytest.approx([-BOUND, -BOUND])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"regularization": 0.0}, "regularization must be positive"),
        ({"expert_targets": "fix"}, "expert_targets must be one of fixed, bootstrap"),
        ({"policy_loss": "v"}, "policy_loss must be one of value, replay"),
        ({"absorbing_values": "no"}, "absorbing_values must be one of fixed, learned"),
    ],
)
def test_options_out_of_range_are_refused(make, pendulum_demos, options, words):
    with pytest.raises(ValueError, match=words):
        make(LSIQ, "Pendulum-v1", pendulum_demos, **options)


def test_values_need_a_discount(make, pendulum_demos):
    with pytest.raises(ValueError, match="gamma must be below 1"):
        make(LSIQ, "Pendulum-v1", pendulum_demos, options=small_options(agent={"gamma": 1.0}))
