"""AdRIL's rounds and rewards on cases worked out by hand."""

import math

import pytest
import torch as th
from support.off_policy import batch, small_options

from imitbench.algorithms.off_policy.adril import AdRIL
from imitbench.data.resumable_env import episode_states, restore_episodes


@pytest.fixture
def trainer(make, pendulum_demos):
    """Three demonstrations of 200 steps, and rounds of 20 steps, of which two are over."""
    made = make(AdRIL, "Pendulum-v1", pendulum_demos, round_steps=20)
    made.num_timesteps = 40
    return made


def from_rounds(*numbers):
    return batch([[0.0] * 3] * len(numbers), [[0.0]] * len(numbers), rewards=[[*numbers]])


def test_rewards_are_those_of_the_round(trainer):
    rewards = trainer.rewards(from_rounds(0.0, 1.0, 2.0), from_rounds(0.0, 0.0))
    # Earlier rounds have 40 steps, and the demonstrations 600.
    th.testing.assert_close(rewards, th.tensor([[-15.0, -15.0, 0.0, 1.0, 1.0]]))


def test_rewards_cancel_over_the_demonstrations_and_all_earlier_rounds(trainer):
    # So the reward of a pair is 0 if both have it equally often, whatever its share.
    rewards = trainer.rewards(from_rounds(*[0.0] * 20, *[1.0] * 20), from_rounds(*[0.0] * 600))
    assert float(rewards[:, :40].sum()) == pytest.approx(-600)
    assert float(rewards[:, 40:].sum()) == pytest.approx(600)


def test_earlier_pairs_are_those_that_the_buffer_holds(trainer):
    trainer.num_timesteps = 10_000  # 500 rounds, in a buffer of 500 steps
    rewards = trainer.rewards(from_rounds(0.0, 499.0, 500.0), from_rounds(0.0))
    th.testing.assert_close(rewards, th.tensor([[-1.2, -1.2, 0.0, 1.0]]))


def test_a_scale_multiplies_all_rewards(trainer):
    usual = trainer.rewards(from_rounds(0.0, 2.0), from_rounds(0.0))
    trainer.reward_scale = 3.0
    th.testing.assert_close(trainer.rewards(from_rounds(0.0, 2.0), from_rounds(0.0)), 3 * usual)


def test_in_the_first_round_and_without_rounds_the_learners_pairs_have_no_reward(
    make, pendulum_demos
):
    for settings, steps in (({}, 1249), ({"round_steps": 0}, 10_000)):
        made = make(AdRIL, "Pendulum-v1", pendulum_demos, **settings)
        made.num_timesteps = steps
        assert made.rewards(from_rounds(0.0, 0.0), from_rounds(0.0))[0, :2].tolist() == [0, 0]


def test_transitions_remember_their_round(make, pendulum_demos):
    made = make(AdRIL, "Pendulum-v1", pendulum_demos, round_steps=20, n_envs=2)
    made.train(60)
    assert made._replay.column("rewards", 0).tolist() == [0.0] * 20 + [1.0] * 20 + [2.0] * 20


def cartpole(make, cartpole_demos, **agent):
    options = small_options(agent={"hidden_sizes": (), **agent}, buffer_size=1000)
    return make(AdRIL, "seals/CartPole-v0", cartpole_demos, options=options, round_steps=500)


def test_critics_settle_at_the_mean_reward_of_a_pair(make, cartpole_demos):
    made = cartpole(make, cartpole_demos, critic_learning_rate=0.05)
    made.num_timesteps = 1000  # the length of two of the three demonstrations
    eye = th.eye(4).tolist()
    # The learner in states 0 (an earlier round) and 1 (this one), the expert in states 0 and 2.
    own = batch([eye[0], eye[1]], [0, 0], terminal=1.0, rewards=[[0.0, 2.0]])
    expert = batch([eye[0], eye[2]], [0, 0], terminal=1.0)
    for _ in range(400):
        made.agent.update_critics(made.critic_loss(own, expert).sum())
    values = made.agent.values(th.eye(4)[None], th.zeros(1, 4, dtype=th.int64))[0, 0].detach()
    wanted = th.tensor([(1 - 3 / 2) / 2, 0.0, 1.0])
    th.testing.assert_close(values[:3], wanted, atol=1e-3, rtol=0)


def test_the_value_of_staying_with_the_expert_is_a_fixed_point(make, cartpole_demos):
    made = cartpole(make, cartpole_demos, gamma=0.5, temperature=0.1)
    # Both actions stay in the state: V = q + 0.1 * log 2 and q = 1 + 0.5 * V.
    value = (1 + 0.5 * 0.1 * math.log(2)) / 0.5
    for stack in (made.agent.critics, made.agent.targets):
        with th.no_grad():
            stack.vector.copy_(th.tensor([[0.0] * 8 + [value] * 2]))
    both = batch([[0.0] * 4] * 2, [0, 1])
    loss = made.td_loss(both, made.rewards(both, both)[:, 2:]).detach()
    assert float(loss) == pytest.approx(0.0, abs=1e-10)


def test_resuming_in_a_later_round_gives_the_same_bits(make, pendulum_demos):
    whole = make(AdRIL, "Pendulum-v1", pendulum_demos, round_steps=15)
    whole.train(35)
    state, envs = whole.state_dict(), episode_states(whole.venv)
    whole.train(20)
    again = make(AdRIL, "Pendulum-v1", pendulum_demos, round_steps=15)
    restore_episodes(again.venv, envs)
    again.load_state_dict(state)
    again.train(20)
    assert again.current_round == 3
    assert th.equal(whole.agent.critics.vector, again.agent.critics.vector)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"round_steps": -1}, "round_steps must not be negative"),
     ({"reward_scale": 0.0}, "reward_scale must be positive")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(make, pendulum_demos, settings, words):
    with pytest.raises(ValueError, match=words):
        make(AdRIL, "Pendulum-v1", pendulum_demos, **settings)
