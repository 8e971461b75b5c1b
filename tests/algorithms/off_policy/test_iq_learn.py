"""IQ-Learn's loss on batches worked out by hand, and its fixed points on a small environment."""

import pytest
import torch as th
from support.off_policy import StubAgent, small_options, stub_batches
from support.soft_mdp import SoftMdp, minimized

from imitbench.algorithms.off_policy.iq_learn import IQLearn, iq_loss

MDP = SoftMdp()
EXPERT = MDP.occupancy(MDP.expert)
UNIFORM = MDP.occupancy(MDP.uniform)


def loss_of(q, alpha=5.0, visits=EXPERT, penalized=EXPERT):
    """The method's loss for a table of Q, with expectations in place of samples."""
    values = MDP.values(q)
    ahead = MDP.ahead(values)
    return iq_loss(
        (q - ahead).flatten(),
        (values.unsqueeze(1) - ahead).flatten(),
        expert=EXPERT.flatten(),
        visits=visits.flatten(),
        penalized=penalized.flatten(),
        alpha=alpha,
    )


def random_q(seed=0):
    return th.randn(4, 2, generator=th.Generator().manual_seed(seed), dtype=th.float64)


def test_loss_and_gradient_on_two_samples():
    rewards = th.tensor([[3.0, -2.0]], requires_grad=True)
    differences = th.tensor([[5.0, 1.0]], requires_grad=True)
    halves = th.tensor([0.5, 0.5])
    loss = iq_loss(
        rewards, differences, expert=th.tensor([1.0, 0.0]), visits=halves, penalized=halves,
        alpha=0.5,
    )  # fmt: skip
    # -3 + (5 + 1) / 2 + (9 + 4) / 2 / 2
    assert loss.tolist() == [3.25]
    loss.sum().backward()
    assert rewards.grad.tolist() == [[-1 + 0.5 * 3, 0.5 * -2]]  # -w_E + w_P r / (2 alpha)
    assert differences.grad.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        # Rewards Q - 0.5 V(s'): learner 8 and 21, expert 27 and 36, so E_expert[r] = 31.5.
        # V(s) - 0.5 V(s'): learner -1 and 2, expert -1 and -1. Mean squares: 632.5 and 1012.5.
        ({}, -31.5 - 0.25 + 632.5 / 2),
        ({"value_loss": "expert", "regularization": "expert"}, -31.5 - 1 + 1012.5 / 2),
        ({"value_loss": "replay", "alpha": 2.5}, -31.5 + 0.5 + 632.5 / 10),
        # (1 - 0.5) V(s_0) with V(s_0) of 6 and 8
        ({"value_loss": "initial", "regularization": "expert"}, -31.5 + 3.5 + 1012.5 / 2),
        # Without targets V(s') halves. Rewards: 9 and 21, 29 and 38.5; differences: 0 and 2,
        # 1 and 1.5.
        ({"use_targets": False}, -33.75 + 1.125 + (81 + 441 + 841 + 1482.25) / 8),
    ],
)
def test_a_batch_is_weighed_as_the_options_say(make, pendulum_demos, options, wanted):
    settings = small_options(batch_size=2, agent={"gamma": 0.5})
    trainer = make(IQLearn, "Pendulum-v1", pendulum_demos, options=settings, **options)
    trainer.agent = StubAgent()
    trainer.initial_obs = lambda _: th.tensor([[[6.0], [8.0]]])
    # Both critics have the same values here, and their losses add up.
    assert trainer.critic_loss(*stub_batches()).tolist() == pytest.approx([2 * wanted])


def test_the_value_term_is_the_same_under_every_occupancy():
    q = random_q()
    start = (1 - MDP.gamma) * (MDP.initial @ MDP.values(q))
    rewards = MDP.rewards(q).flatten()
    weights = {"expert": EXPERT.flatten(), "penalized": EXPERT.flatten(), "alpha": 5.0}
    from_start = iq_loss(rewards, start[None], visits=th.ones(1).double(), **weights)
    for occupancy in (EXPERT, UNIFORM, MDP.occupancy(MDP.policy(q))):
        th.testing.assert_close(loss_of(q, visits=occupancy), from_start)


@pytest.mark.parametrize("alpha", [0.5, 5.0])
def test_the_minimum_is_the_closest_policy_in_chi_square_less_entropy(alpha):
    q = minimized(lambda q: loss_of(q, alpha), th.zeros_like(EXPERT))
    policy = MDP.policy(q)
    occupancy = MDP.occupancy(policy)
    ratios = 1 - occupancy / EXPERT
    # Where the inner maximum over rewards of E_expert[phi(r)] - E_policy[r] lies.
    th.testing.assert_close(MDP.rewards(q), 2 * alpha * ratios, atol=1e-5, rtol=0)
    # Strong duality: J(Q) is the least of alpha * chi-square - temperature * entropy.
    entropy = -(occupancy * policy.log()).sum()
    dual = alpha * (EXPERT * ratios.square()).sum() - MDP.temperature * entropy
    th.testing.assert_close(-loss_of(q, alpha), dual)


def test_the_experts_occupancy_is_recovered_as_the_penalty_vanishes():
    q, distances = th.zeros_like(EXPERT), []
    for alpha in (0.5, 5.0, 500.0):
        q = minimized(lambda q, alpha=alpha: loss_of(q, alpha), q)
        occupancy = MDP.occupancy(MDP.policy(q))
        distances.append(float((occupancy - EXPERT).abs().sum()) / 2)
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 0.01 > 0.001 > distances[-1]


def test_a_penalty_on_both_bounds_the_reward():
    alpha, q, replay = 1.0, th.zeros_like(EXPERT), UNIFORM
    for _ in range(25):
        mixture = (EXPERT + replay) / 2
        q = minimized(lambda q, r=replay, m=mixture: loss_of(q, alpha, r, m), q)
        occupancy = MDP.occupancy(MDP.policy(q))
        replay = (replay + occupancy) / 2
    rewards = MDP.rewards(q)
    wanted = 4 * alpha * (EXPERT - occupancy) / (EXPERT + occupancy)
    th.testing.assert_close(rewards, wanted, atol=1e-3, rtol=0)
    assert rewards.abs().max() < 4 * alpha
    assert (occupancy - EXPERT).abs().sum() / 2 < 0.1


def test_targets_without_derivatives_lead_to_the_same_fixed_point():
    alpha, q, replay = 1.0, th.zeros_like(EXPERT), UNIFORM
    for _ in range(50):
        ahead = MDP.ahead(MDP.values(q))

        def loss(q, ahead=ahead, replay=replay):
            return iq_loss(
                (q - ahead).flatten(),
                (MDP.values(q).unsqueeze(1) - ahead).flatten(),
                expert=EXPERT.flatten(),
                visits=replay.flatten(),
                penalized=(EXPERT + replay).flatten() / 2,
                alpha=alpha,
            )

        q = minimized(loss, q)
        occupancy = MDP.occupancy(MDP.policy(q))
        replay = replay.lerp(occupancy, 0.3)
    wanted = 4 * alpha * (EXPERT - occupancy) / (EXPERT + occupancy)
    th.testing.assert_close(MDP.rewards(q), wanted, atol=1e-3, rtol=0)


def test_a_constant_changes_only_the_penalty():
    q, constant = random_q(), 3.0
    shift = (1 - MDP.gamma) * constant  # of every reward and of the value term
    mean = (EXPERT * MDP.rewards(q)).sum()
    wanted = (2 * shift * mean + shift**2) / (4 * 5.0)
    th.testing.assert_close(loss_of(q + constant) - loss_of(q), wanted)
    th.testing.assert_close(MDP.policy(q + constant), MDP.policy(q))


def test_a_potential_changes_only_the_penalty():
    q = random_q()
    potential = th.tensor([[1.0], [-2.0], [0.5], [3.0]], dtype=th.float64)
    shaped = q + potential
    shaping = potential - MDP.ahead(potential.squeeze(1))
    th.testing.assert_close(MDP.rewards(shaped), MDP.rewards(q) + shaping)
    th.testing.assert_close(MDP.policy(shaped), MDP.policy(q))
    # Expert and visits telescope to the same initial states.
    without = {"visits": UNIFORM, "penalized": th.zeros_like(EXPERT)}
    th.testing.assert_close(loss_of(shaped, **without), loss_of(q, **without))
    squares = MDP.rewards(shaped).square() - MDP.rewards(q).square()
    with_penalty = loss_of(shaped) - loss_of(q)
    th.testing.assert_close(with_penalty, (EXPERT * squares).sum() / (4 * 5.0))


def test_the_policy_improves_in_states_of_both(make, pendulum_demos):
    own, expert = stub_batches()
    trainer = make(IQLearn, "Pendulum-v1", pendulum_demos)
    assert trainer.actor_obs(own, expert)[0, :, 0].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"value_loss": "v0"}, "value_loss must be one of initial, replay, expert, both"),
        ({"regularization": "none"}, "regularization must be one of expert, both"),
        ({"alpha": 0.0}, "alpha must be positive"),
    ],
)
def test_options_out_of_range_are_refused(make, pendulum_demos, options, words):
    with pytest.raises(ValueError, match=words):
        make(IQLearn, "Pendulum-v1", pendulum_demos, **options)
