"""ValueDICE's objective and its parts on cases worked out by hand."""

import math

import pytest
import torch as th

from imitbench.algorithms.off_policy.agent import AgentOptions
from imitbench.algorithms.off_policy.discriminator import stacked_gradient_penalty
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp
from imitbench.algorithms.off_policy.trainer import OffPolicyOptions
from imitbench.algorithms.off_policy.transitions import Batch
from imitbench.algorithms.off_policy.value_dice import ValueDICE, donsker_varadhan, off_diagonal


def batch(obs, acts, next_obs, terminal):
    """Transitions with one observation that counts."""

    def states(values):
        return th.tensor([[[value, 0.0, 0.0] for value in values]])

    acts = th.tensor(acts)[None, :, None]
    zeros = th.zeros(1, len(obs))
    return Batch(states(obs), acts, states(next_obs), th.tensor([terminal]), zeros)


EXPERT = batch([1.0, 2.0], [0.5, -0.5], [2.0, 5.0], [0.0, 1.0])
OWN = batch([0.0, 3.0], [1.0, 0.0], [3.0, 0.0], [0.0, 0.0])


@pytest.fixture
def linear(make, pendulum_demos):
    """Nu is linear in observation and action; the policy is the same everywhere."""

    def linear(gamma=0.5, hidden_sizes=(), rates=(3e-4, 3e-4), **given):
        agent = AgentOptions(
            hidden_sizes=hidden_sizes, gamma=gamma, actor_learning_rate=rates[0],
            critic_learning_rate=rates[1],
        )  # fmt: skip
        options = OffPolicyOptions(agent=agent, batch_size=8, buffer_size=500, learning_starts=20)
        return make(ValueDICE, "Pendulum-v1", pendulum_demos, options=options, **given)

    return linear


def set_nu(trainer, by_obs, by_act, bias=0.0):
    with th.no_grad():
        trainer.agent.critics.vector.copy_(th.tensor([[by_obs, 0.0, 0.0, by_act, bias]]))


def test_numbers_of_the_objective():
    theirs, start = th.tensor([[0.0, math.log(3.0)]]), th.tensor([[0.25, 0.75]])
    ours = th.tensor([[math.log(6.0), 0.0, math.log(2.0)]])
    assert float(donsker_varadhan(theirs, ours, start, 0.0)) == pytest.approx(math.log(2) - 0.5)
    # The means of exp(x) are 2 and 3, those of x under the policy 0.5 and log(12) / 3.
    wanted = math.log(0.75 * 2 + 0.25 * 3) - 0.75 * 0.5 - 0.25 * math.log(12.0) / 3
    assert float(donsker_varadhan(theirs, ours, start, 0.25)) == pytest.approx(wanted)


def test_derivatives_are_weights_of_a_softmax():
    # Belghazi et al. 2018, "Mutual Information Neural Estimation", equation 12
    theirs = th.tensor([[0.3, -1.0]], requires_grad=True)
    ours = th.tensor([[0.8, 0.1]], requires_grad=True)
    loss = donsker_varadhan(theirs, ours, th.zeros(1, 1), 0.1)
    found = th.autograd.grad(loss.sum(), [theirs, ours])
    mass = th.cat([0.9 * theirs.exp(), 0.1 * ours.exp()], dim=1).detach()
    wanted = mass / mass.sum()
    th.testing.assert_close(found[0], wanted[:, :2])
    th.testing.assert_close(found[1], wanted[:, 2:] - 0.1 / 2)


def occupancy(policy, following, start, gamma):
    """(1 - gamma) * sum of gamma^t P(s_t, a_t), shape (states, actions)."""
    moves = th.zeros(len(start), len(start))
    for state, row in enumerate(following):
        for act, after in enumerate(row):
            moves[state, after] += policy[state, act]
    states = th.linalg.solve(th.eye(len(start)) - gamma * moves.t(), (1 - gamma) * start)
    return states[:, None] * policy


@pytest.mark.parametrize("replay_weight", [0.0, 0.25])
def test_the_best_nu_gives_the_divergence_of_the_mixtures(replay_weight):
    # Three states on a ring; an action stays or goes on.
    following, gamma = [[0, 1], [1, 2], [2, 0]], 0.8
    policy = th.tensor([[0.3, 0.7], [0.6, 0.4], [0.5, 0.5]])
    start = th.tensor([1.0, 0.0, 0.0])
    # Any distributions of expert and replay, by numbers of transitions.
    expert, replay = th.tensor([[3, 1], [2, 4], [1, 1]]), th.tensor([[1, 2], [1, 2], [3, 3]])
    pairs = [(state, act) for state in range(3) for act in range(2)]
    after = th.tensor([following[state][act] for state, act in pairs])
    places = [th.arange(6).repeat_interleave(each.flatten()) for each in (expert, replay)]
    nu = th.zeros(6, requires_grad=True)
    optimizer = th.optim.LBFGS([nu], max_iter=100, tolerance_grad=1e-9)

    def objective():
        values = (policy * nu.view(3, 2)).sum(dim=1)
        differences = nu - gamma * values[after]
        theirs, ours = (differences[index][None] for index in places)
        first = (1 - gamma) * (start @ values).view(1, 1)
        return donsker_varadhan(theirs, ours, first, replay_weight).sum()

    def closure():
        optimizer.zero_grad()
        loss = objective()
        loss.backward()
        return loss

    optimizer.step(closure)
    share = replay_weight * replay / replay.sum()
    visited = (1 - replay_weight) * occupancy(policy, following, start, gamma) + share
    wanted = (1 - replay_weight) * expert / expert.sum() + share
    divergence = (visited * (visited / wanted).log()).sum()
    assert objective().item() == pytest.approx(-float(divergence), abs=1e-5)


def test_a_batch_enters_the_objective_as_in_the_paper(linear):
    trainer = linear(replay_weight=0.25)
    set_nu(trainer, by_obs=1.0, by_act=2.0)
    # The policy's actions in 1, 2 (starts), 2, 5 (the expert's next), 3, 0 (the learner's next).
    acts = th.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])[None, :, None]
    found = trainer.objective(OWN, EXPERT, acts)
    theirs = [(1 + 1) - 0.5 * (2 + 0.6), 2 - 1]  # the second episode ended
    ours = [2 - 0.5 * (3 + 1), 3 - 0.5 * 1.2]
    start = [0.5 * (1 + 0.2), 0.5 * (2 + 0.4)]
    wanted = donsker_varadhan(*(th.tensor([each]) for each in (theirs, ours, start)), 0.25)
    th.testing.assert_close(found.detach(), wanted)


def test_the_objective_ignores_a_constant_in_nu(linear):
    trainer = linear(gamma=0.9)
    expert = batch([1.0, 2.0], [0.5, -0.5], [2.0, 5.0], [0.0, 0.0])
    acts = th.zeros(1, 6, 1)
    set_nu(trainer, 0.4, -0.3, bias=0.0)
    without = trainer.objective(OWN, expert, acts)
    set_nu(trainer, 0.4, -0.3, bias=7.0)
    th.testing.assert_close(trainer.objective(OWN, expert, acts), without, atol=1e-5, rtol=0)


def test_nu_pays_for_a_gradient_whose_norm_is_not_one(linear):
    plain, penalized = (linear(gradient_penalty=weight) for weight in (0.0, 10.0))
    for trainer in (plain, penalized):
        set_nu(trainer, by_obs=3.0, by_act=4.0)
        trainer.streams.torch[0].manual_seed(0)
    extra = penalized.critic_loss(OWN, EXPERT) - plain.critic_loss(OWN, EXPERT)
    assert extra.item() == pytest.approx(10 * (5 - 1) ** 2, rel=1e-4)


def test_the_penalty_lies_between_pairs_of_samples():
    streams = SeedStreams([0, 1])
    net = StackedMlp((2, 1), streams.torch)
    with th.no_grad():
        net.vector.copy_(th.tensor([[0.6, 0.8, 9.0], [0.0, 3.0, 9.0]]))
    found = stacked_gradient_penalty(net, th.zeros(2, 4, 2), th.ones(2, 4, 2), streams)
    th.testing.assert_close(found, th.tensor([0.0, 4.0]), atol=1e-5, rtol=0)


def test_products_of_different_columns_are_counted():
    net = StackedMlp((2, 2, 1), [th.Generator()])
    with th.no_grad():
        # Columns (1, 0) and (2, 3); the product 2 counts twice. One column has no others.
        net.vector.copy_(th.tensor([[1.0, 2.0, 0.0, 3.0, 5.0, 5.0, 7.0, 7.0, 5.0]]))
    assert off_diagonal(net).item() == 8.0


def test_the_policy_climbs_what_nu_descends(linear):
    trainer = linear(gradient_penalty=0.0, orthogonality=0.0, rates=(0.01, 0.01))
    acts = th.full((1, 6, 1), 0.1)
    before = trainer.objective(OWN, EXPERT, acts).item()
    trainer.agent.update_critics(trainer.objective(OWN, EXPERT, acts).sum())
    assert trainer.objective(OWN, EXPERT, acts).item() < before
    set_nu(trainer, by_obs=0.0, by_act=1.0)
    # x falls by gamma * pi(s') for the expert, and (1 - gamma) * pi(s) enters with a minus: the
    # objective falls with the policy's actions, so that the policy moves down.
    trainer.agent.actor.vector.data[:] = 0.0
    trainer.improve_policy(OWN, EXPERT)
    assert trainer.agent.actor.vector[0, -2].item() < 0.0


def test_demonstrations_alone_teach_the_experts_action(linear):
    trainer = linear(
        gamma=0.9, hidden_sizes=(16, 16), rates=(0.003, 0.01), replay_weight=0.0,
        gradient_penalty=1.0,
    )  # fmt: skip
    streams = trainer.streams
    for _ in range(400):
        obs, next_obs = streams.normal(32, 3), streams.normal(32, 3)
        acts = (0.5 + 0.1 * streams.normal(32, 1)).clamp(-1, 1)
        zeros = th.zeros(1, 32)
        expert = Batch(obs, acts, next_obs, zeros, zeros)
        own = Batch(obs, 2 * streams.uniform(32, 1) - 1, next_obs, zeros, zeros)
        trainer.agent.update_critics(trainer.critic_loss(own, expert).sum())
        trainer.improve_policy(own, expert)
    found = trainer.agent.act(streams.normal(500, 3))
    assert float(found.mean()) == pytest.approx(0.5, abs=0.1)
    assert float(found.std()) < 0.35


def test_nu_is_one_critic_without_a_constant(linear):
    trainer = linear(hidden_sizes=(4,))
    assert trainer.agent.n_critics == 1
    trainer.train(30)
    assert trainer.agent.critics.vector[0, -1].item() == 0.0
    assert trainer.agent.critics.vector[0, -2].item() != 0.0


def test_a_share_of_one_is_refused(linear):
    with pytest.raises(ValueError, match=r"replay_weight must lie in \[0, 1\), not 1"):
        linear(replay_weight=1.0)
