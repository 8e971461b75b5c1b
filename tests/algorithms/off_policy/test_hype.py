"""HyPE's reward and its critics' loss on cases worked out by hand."""

import numpy as np
import pytest
import torch as th
from support.off_policy import batch, linear_discriminator, small_options

from imitbench.algorithms.off_policy.hype import HyPE

OWN = batch([[0.0, 0.0], [1.0, 0.0]], [[0.0], [1.0]])
EXPERT = batch([[0.0, 2.0], [0.0, 2.0]], [[0.0], [0.0]])
# The expert's mean of (observation, action) minus the learner's.
GAP = th.tensor([-0.5, 2.0, -0.5])


def moments(weights, bias=0.0, **given):
    return linear_discriminator(weights, bias, objective="moments", **given)


def test_the_objective_is_the_difference_of_means():
    logged = moments([1.0, 1.0, 1.0], -1.0).update(OWN, EXPERT)
    # f: expert 1 and 1; learner -1 and 1. Half of the difference of the means is logged.
    assert float(logged["discriminator/loss"]) == pytest.approx((0 - 1) / 2)
    assert float(logged["discriminator/accuracy"]) == 0.75


@pytest.mark.parametrize("penalty", [0.0, 10.0])
def test_its_gradient_is_the_gap_between_the_means_and_ignores_a_constant(penalty):
    f = moments([2.0, 2.0, 1.0], penalty=penalty)
    f.update(OWN, EXPERT)
    # The norm of the weights is 3, so the penalty's derivative is 2 * (3 - 1) * weights / 3.
    wanted = -GAP + penalty * 2 * (3 - 1) * th.tensor([2.0, 2.0, 1.0]) / 3
    th.testing.assert_close(f._net.vector.grad[0, :3], wanted, atol=1e-4, rtol=1e-5)
    assert float(f._net.vector.grad[0, 3]) == 0.0


def test_the_best_linear_reward_points_along_the_gap():
    # Minimizes -w * gap + penalty * (|w| - 1)^2: |w| = 1 + |gap| / (2 * penalty).
    f = moments([1.0, 1.0, 1.0], penalty=2.0, learning_rate=0.02)
    for _ in range(600):
        f.update(OWN, EXPERT)
    size = GAP.norm()
    wanted = GAP / size * (1 + size / 4)
    th.testing.assert_close(f._net.vector[0, :3].detach(), wanted, atol=0.02, rtol=0)


@pytest.fixture
def trainer(make, pendulum_demos):
    """Critics that are 0 everywhere, and f = the first entry of the observation."""
    options = small_options(agent={"hidden_sizes": ()})
    made = make(
        HyPE, "Pendulum-v1", pendulum_demos, options=options, disc_hidden_sizes=(),
        reward_interval=3,
    )  # fmt: skip
    with th.no_grad():
        made.agent.critics.vector.zero_()
        made.discriminator._net.vector.copy_(th.tensor([[1.0, 0, 0, 0, 0]]))
    return made


def ends(*first_entries):
    """Transitions after which there is no value."""
    obs = [[each, 0.0, 0.0] for each in first_entries]
    return batch(obs, [[0.0]] * len(obs), terminal=1.0)


def test_critics_learn_the_reward_of_both_halves(trainer):
    loss = trainer.critic_loss(ends(1.0, 2.0), ends(3.0, 4.0))
    # Two critics, each with half of the mean of 1, 4, 9 and 16.
    assert loss.tolist() == [7.5]


def test_the_policy_improves_in_observations_of_both_halves(trainer):
    obs = trainer.actor_obs(ends(1.0, 2.0), ends(3.0, 4.0))
    assert obs[0, :, 0].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_the_reward_is_learned_at_its_interval(trainer):
    due = []
    for trainer.n_updates in range(7):
        due.append(bool(trainer.learn(ends(1.0), ends(2.0))))
    assert due == [True, False, False, True, False, False, True]


def test_means_are_over_the_updates_that_logged(trainer):
    trainer.discriminator.update = lambda *_: {"reward": th.tensor([7.0])}
    logged = trainer.train(30)
    assert trainer.n_updates == 11
    assert logged["reward"] == 7.0


def test_a_reward_learned_by_cross_entropy_is_dacs(make, pendulum_demos):
    made = make(HyPE, "Pendulum-v1", pendulum_demos, objective="cross_entropy")
    same = batch([[0.0, 0.0, 0.0]], [[0.0]])
    with th.no_grad():
        made.discriminator._net.vector.zero_()
    logged = made.discriminator.update(same, same)
    assert float(logged["discriminator/loss"]) == pytest.approx(np.log(2))


def test_discrete_actions_are_refused(make, cartpole_demos):
    with pytest.raises(ValueError, match="HyPE needs continuous actions"):
        make(HyPE, "seals/CartPole-v0", cartpole_demos)


def test_an_interval_of_nothing_is_refused(make, pendulum_demos):
    with pytest.raises(ValueError, match="reward_interval must be at least 1"):
        make(HyPE, "Pendulum-v1", pendulum_demos, reward_interval=0)
