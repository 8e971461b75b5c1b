"""f-IRL and ML-IRL: their reward's gradient on cases worked out by hand, and what others get."""

import itertools

import numpy as np
import pytest
import torch as th
from support.off_policy import EXPLICIT, OftenFIRL, OftenMLIRL, small_options
from torch.nn import functional

from imitbench.algorithms.off_policy.episodes import (
    Episode,
    RecentEpisodes,
    Trajectories,
    demonstrated_episodes,
    take_trajectories,
)
from imitbench.algorithms.off_policy.f_irl import ratio_term
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.transitions import Batch, TransitionStore
from imitbench.data.types import Trajectory

NO, YES = np.array([False]), np.array([True])


def batch_of(obs):
    """A batch of one seed with these observations, shape (n, features)."""
    obs = th.as_tensor(obs, dtype=th.float32).unsqueeze(0)
    nothing = th.zeros(obs.shape[:2])
    return Batch(obs, nothing.unsqueeze(-1), obs, nothing, nothing)


def trajectories_of(obs, weights=None):
    """Trajectories of one seed; observations of shape (trajectories, steps, features)."""
    obs = th.as_tensor(obs, dtype=th.float32)
    shape = obs.shape[:2]
    weights = th.ones(shape) if weights is None else th.as_tensor(weights, dtype=th.float32)
    return Trajectories(batch_of(obs.flatten(0, 1)), weights.reshape(1, *shape))


# Episodes.


def test_a_step_counts_by_the_discount_and_an_absorbed_episode_until_the_horizon():
    rows = np.arange(3)
    assert Episode(rows, absorbed=False).weights(6, 0.5).tolist() == [1.0, 0.5, 0.25]
    # Steps 2 to 5 are in the absorbing state.
    tail = 0.25 + 0.125 + 0.0625 + 0.03125
    assert Episode(rows, absorbed=True).weights(6, 0.5).tolist() == [1.0, 0.5, tail]
    assert Episode(rows, absorbed=True).weights(6, 1.0).tolist() == [1.0, 1.0, 4.0]
    # One that was longer than the horizon has no step left there.
    assert Episode(rows, absorbed=True).weights(2, 1.0).tolist() == [1.0, 1.0, 0.0]


def test_the_latest_episodes_are_kept_and_what_was_overwritten_is_left_out():
    episodes = RecentEpisodes(1, 1, kept=2)
    for place in range(7):
        episodes.add(0, place, YES if place in (1, 3, 5) else NO, NO)
    whole = [each.rows.tolist() for each in episodes.latest(0, oldest=0, capacity=100)]
    assert whole == [[2, 3], [4, 5]]
    # A ring buffer of 4 holds places 3 to 6, in rows 3, 0, 1 and 2.
    left = [each.rows.tolist() for each in episodes.latest(0, oldest=3, capacity=4)]
    assert left == [[3], [0, 1]]


def test_running_episodes_serve_until_the_first_has_ended():
    episodes = RecentEpisodes(1, 2, kept=2)
    for first in (0, 2):
        episodes.add(0, first, np.array([False, False]), np.array([False, False]))
    assert [each.rows.tolist() for each in episodes.latest(0, 0, 9)] == [[0, 2], [1, 3]]
    # Both end, the second in the absorbing state, whose transition follows.
    episodes.add(0, 4, np.array([True, True]), np.array([False, True]))
    found = episodes.latest(0, 0, 9)
    assert [each.rows.tolist() for each in found] == [[0, 2, 4], [1, 3, 5, 6]]
    assert [each.absorbed for each in found] == [False, True]


def test_demonstrations_are_split_where_they_begin():
    rows = {
        "dones": np.array([False, True, False, True, True]),
        "timeouts": np.array([False, False, False, True, False]),
        "starts": np.array([True, False, True, False, True]),
    }
    found = demonstrated_episodes(rows, absorbing=True)
    # The first and the third end for good; their absorbing transitions are rows 5 and 6.
    assert [(each.rows.tolist(), each.absorbed) for each in found] == [
        ([0, 1, 5], True), ([2, 3], False), ([4, 6], True),
    ]  # fmt: skip
    assert [each.rows.tolist() for each in demonstrated_episodes(rows, absorbing=False)] == [
        [0, 1], [2, 3], [4],
    ]  # fmt: skip


def test_shorter_trajectories_are_filled_up_with_weight_zero():
    store = TransitionStore(1, 4, 1, (1,))
    obs = np.arange(4.0)[:, np.newaxis]
    column = np.zeros(4)
    store.add(0, {"obs": obs, "acts": obs, "next_obs": obs, "terminal": column, "rewards": column})
    episodes = [Episode(np.array([1, 2, 3]), False), Episode(np.array([3]), False)]
    taken = take_trajectories(store, [episodes], horizon=3)
    values = 10.0 ** taken.batch.obs[..., 0]
    assert taken.sums(values).tolist() == [[1110.0, 1000.0]]
    drawn = taken.sample(SeedStreams([0]), 400).obs[0, :, 0]
    # Of four steps with equal weights, two are observation 3, and none is 0.
    assert set(drawn.tolist()) == {1.0, 2.0, 3.0}
    assert float((drawn == 3.0).float().mean()) == pytest.approx(0.5, abs=0.1)


# Gradients.


@pytest.fixture
def linear(make, pendulum_demos):
    """A method whose reward is linear in Pendulum's three entries, all parameters 0."""

    def made(method, **given):
        options = small_options(agent={"hidden_sizes": ()})
        trainer = make(
            method, "Pendulum-v1", pendulum_demos, options=options, reward_hidden_sizes=(), **given
        )
        with th.no_grad():
            trainer._reward.vector.zero_()
        return trainer

    return made


def test_ml_irl_moves_the_reward_from_the_learners_states_to_the_experts(linear):
    trainer = linear(OftenMLIRL)
    own = trajectories_of([[[1.0, 0, 0], [3.0, 0, 0]], [[0, 4.0, 0], [0, 0, 0]]])
    expert = trajectories_of([[[0, 0, 2.0], [0, 0, 2.0]], [[0, 0, 6.0], [2.0, 0, 2.0]]])
    logged = trainer.update_reward(own, expert)
    # Means over four steps: (1, 1, 0) of the learner, (0.5, 0, 3) of the expert.
    assert trainer._reward.vector.grad[0].tolist() == [0.5, 1.0, -3.0, 0.0]
    assert [float(logged[f"reward/{name}"]) for name in ("own", "expert")] == [0.0, 0.0]


def test_ml_irl_weighs_steps_by_the_discount_and_decays_parameters(linear):
    trainer = linear(OftenMLIRL, reward_decay=0.1)
    with th.no_grad():
        trainer._reward.vector.copy_(th.tensor([[1.0, 2.0, 3.0, 4.0]]))
    own = trajectories_of([[[8.0, 0, 0], [4.0, 0, 0]]], [[1.0, 0.5]])
    expert = trajectories_of([[[0, 2.0, 0], [0, 8.0, 0]]], [[1.0, 0.5]])
    logged = trainer.update_reward(own, expert)
    wanted = th.tensor([10 / 1.5 + 0.1, -6 / 1.5 + 0.2, 0.3, 0.4])
    th.testing.assert_close(trainer._reward.vector.grad[0], wanted)
    assert float(logged["reward/own"]) == pytest.approx(10 / 1.5 + 4)
    assert float(logged["reward/expert"]) == pytest.approx(2 * 6 / 1.5 + 4)


@pytest.mark.parametrize("method", EXPLICIT)
def test_rounding_errors_do_not_move_all_rewards_together(method, make, pendulum_demos):
    trainer = make(method, "Pendulum-v1", pendulum_demos)
    rng = np.random.default_rng(0)
    before = trainer._reward.vector.detach().clone()
    for _ in range(5):
        own, expert = (trajectories_of(rng.normal(size=(3, 200, 3))) for _ in range(2))
        trainer.update_reward(own, expert)
    after = trainer._reward.vector.detach()
    assert after[0, -1] == before[0, -1]
    assert not th.equal(after[0, :-1], before[0, :-1])
    # Where lengths differ, what is added to all rewards has a meaning.
    shorter = trajectories_of(rng.normal(size=(3, 200, 3)), np.arange(600).reshape(3, 200) < 500)
    trainer.update_reward(shorter, expert)
    assert trainer._reward.vector[0, -1] != before[0, -1]


DIVERGENCES = {
    "fkl": lambda p, q: (p * (p / q).log()).sum(),
    "rkl": lambda p, q: (q * (q / p).log()).sum(),
    "js": lambda p, q: (p * (2 * p / (p + q)).log() + q * (2 * q / (p + q)).log()).sum(),
}


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_f_irl_has_the_gradient_of_the_divergence_where_every_path_can_be_enumerated(
    divergence, linear
):
    """Three states and four steps, of which each can lead to any state, with temperature 1."""
    target = th.tensor([0.5, 0.3, 0.2], dtype=th.float64)
    paths = th.tensor(list(itertools.product(range(3), repeat=4)))
    visits = functional.one_hot(paths, 3).double()
    rewards = th.zeros(3, dtype=th.float64, requires_grad=True)  # all paths are equally likely
    likelihood = th.softmax((visits @ rewards).sum(dim=1), dim=0)
    visited = (likelihood[:, None] * visits.mean(dim=1)).sum(dim=0)
    (wanted,) = th.autograd.grad(DIVERGENCES[divergence](target, visited), rewards)
    trainer = linear(OftenFIRL, divergence=divergence)
    ratios = (target / visited.detach()).log().float()
    trainer.discriminator.logits = lambda batch: batch.obs @ ratios
    trainer.discriminator.update = lambda *_: {}
    # The covariance is over both sides together; so every path may be on both.
    trainer.update_reward(trajectories_of(visits), trajectories_of(visits))
    th.testing.assert_close(
        trainer._reward.vector.grad[0, :3].double(), wanted, atol=1e-6, rtol=1e-4
    )
    assert float(trainer._reward.vector.grad[0, 3]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_density_ratios_are_bounded(divergence):
    edge, beyond = ratio_term(th.tensor([[-10.0, 10.0], [-99.0, 99.0]]), divergence)
    assert th.equal(edge, beyond)
    assert edge.isfinite().all()


def test_f_irls_discriminator_sees_actions_only_if_the_reward_does(make, pendulum_demos):
    for use_actions in (False, True):
        trainer = make(OftenFIRL, "Pendulum-v1", pendulum_demos, use_actions=use_actions)
        trainer.train(60)
        same = batch_of([[0.1, 0.2, 0.3]])
        other = Batch(same.obs, same.acts + 0.5, same.next_obs, same.terminal, same.rewards)
        for values in (trainer.discriminator.logits, trainer.rewards):
            assert th.equal(values(same), values(other)) is not use_actions


# What the agent and others get.


@pytest.mark.parametrize("method", EXPLICIT)
def test_critics_learn_the_reward_as_it_is_when_a_batch_is_drawn(method, linear):
    trainer = linear(method)
    with th.no_grad():
        trainer.agent.critics.vector.zero_()
    states = batch_of([[1.0, 0, 0], [2.0, 0, 0]])
    ends = Batch(states.obs, states.acts, states.obs, th.ones(1, 2), states.rewards + 7.0)
    assert trainer.critic_loss(ends, ends).tolist() == [0.0]
    with th.no_grad():
        trainer._reward.vector.copy_(th.tensor([[2.0, 0, 0, 0]]))
    # Two critics, each with half of the mean of 4 and 16; the stored reward of 7 has no influence.
    assert trainer.critic_loss(ends, ends).tolist() == [10.0]


@pytest.mark.parametrize("method", EXPLICIT)
def test_the_reward_comes_to_tell_the_expert_from_the_learner(method, make, pendulum_demos):
    trainer = make(method, "Pendulum-v1", pendulum_demos, reward_learning_rate=3e-3)
    trainer.train(150)
    logged = trainer.train(150)
    assert float(logged["reward/expert"]) > float(logged["reward/own"]) + 0.1


@pytest.mark.parametrize(
    ("env", "use_actions", "hidden"),
    [
        ("Pendulum-v1", False, ()),
        ("Pendulum-v1", True, (1,)),
        ("seals/CartPole-v0", True, ()),
    ],
)
def test_the_exported_reward_is_that_of_the_agent(
    env, use_actions, hidden, make, pendulum_demos, cartpole_demos
):
    demos = pendulum_demos if env.startswith("Pendulum") else cartpole_demos
    trainer = make(
        OftenMLIRL, env, demos, seeds=(0, 1), use_actions=use_actions, hidden_entries=hidden
    )
    trainer.train(60)
    steps = slice(0, 50)
    obs, acts, after = demos[0].obs[:-1][steps], demos[0].acts[steps], demos[0].obs[1:][steps]
    stored = trainer.expert.take(np.arange(50)[np.newaxis].repeat(2, axis=0))
    own = trainer.rewards(stored)
    for seed, net in enumerate(trainer.reward_nets):
        found = net.predict(obs, acts, after, np.zeros(50, bool))
        np.testing.assert_allclose(found, own[seed].numpy(), atol=1e-4)
    assert not np.allclose(own[0].numpy(), own[1].numpy(), atol=1e-3)


def test_the_absorbing_states_reward_is_subtracted(make):
    obs = np.float32([[0.0, 0, 0, 0], [0.1, 0, 0, 0], [0.2, 0, 0, 0]])
    demos = [Trajectory(obs=obs, acts=np.array([0, 1]), infos=None, terminal=True)] * 2
    trainer = make(OftenMLIRL, "CartPole-v1", demos, allow_variable_horizon=True)
    trainer.train(120)
    # The last rows of the store are transitions inside the absorbing state.
    rewards = trainer.rewards(trainer.expert.take(np.array([[0, 1, 4, 5]])))[0].numpy()
    assert rewards[2] == rewards[3] != 0
    found = trainer.reward_nets[0].predict(obs[:-1], np.array([0, 1]), obs[1:], np.zeros(2, bool))
    np.testing.assert_allclose(found, rewards[:2] - rewards[2], atol=1e-4)


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        (OftenMLIRL, {"reward_interval": 0}, "reward_interval must be at least 1, not 0"),
        (OftenMLIRL, {"trajectories": 0}, "trajectories must be at least 1, not 0"),
        (OftenMLIRL, {"reward_discount": 1.5}, r"reward_discount must lie in \[0, 1\], not 1.5"),
        (OftenFIRL, {"disc_updates": 0}, "disc_updates must be at least 1, not 0"),
    ],
)
def test_values_out_of_range_are_refused(method, given, message, make, pendulum_demos):
    with pytest.raises(ValueError, match=message):
        make(method, "Pendulum-v1", pendulum_demos, **given)
