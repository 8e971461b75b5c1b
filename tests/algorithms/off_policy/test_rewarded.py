"""The agent of PEBBLE: novelty at first, then a reward that changes."""

import numpy as np
import pytest
import torch as th
from support.off_policy import batch, small_options

from imitbench.algorithms.off_policy.rewarded import RewardedTrainer, TrueRewardTrainer
from imitbench.algorithms.preference_comparisons.agent_trainer import ReplayAgent
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.data.wrappers import BufferingWrapper


def angle_reward(obs, acts, next_obs, dones):
    """Pendulum's height, and the action."""
    return next_obs[:, 0] + 10 * acts.reshape(len(acts), -1)[:, 0]


@pytest.fixture
def trainer(make):
    def build(env="Pendulum-v1", reward_fn=angle_reward, **given):
        options = small_options(absorbing_states=False)

        def of_method(demonstrations, **shared):
            del demonstrations
            return RewardedTrainer(reward_fn=reward_fn, **shared, **given)

        return make(of_method, env, None, options=options)

    return build


def stored(trainer, name):
    return trainer._replay.column(name, 0)


def test_novelty_is_the_distance_to_a_neighbour_in_standard_deviations(trainer):
    made = trainer(neighbours=2)
    line = th.tensor([0.0, 1.0, 3.0, 7.0])
    rows = {"obs": th.zeros(4, 3), "acts": th.zeros(4, 1), "next_obs": th.zeros(4, 3)}
    rows["obs"][:, 0] = line
    made._replay.add(0, rows | {"terminal": th.zeros(4), "rewards": th.zeros(4)})
    # Second nearest of 0, 1, 3, 7: at 3, at 3, at 0, at 1.
    distances = th.tensor([3.0, 2.0, 3.0, 6.0])
    given = made.novelty(rows["obs"].unsqueeze(0))
    assert th.allclose(given, (distances / distances.std()).unsqueeze(0), atol=1e-5)


def test_the_loss_is_of_novelty_first_and_of_the_stored_rewards_then(trainer):
    made = trainer()
    made.train_seeds(30)
    own = batch([[0.1, 0.2, 0.3], [1.0, 0.0, 0.0]], [[0.0], [0.5]], rewards=th.tensor([[1.0, 2.0]]))

    def loss_of(rewards):
        made.streams.torch[0].manual_seed(0)
        return made.td_loss(own, rewards)

    made.streams.torch[0].manual_seed(0)
    assert th.equal(made.critic_loss(own, own), loss_of(made.novelty(own.obs)))
    made.began = True
    made.streams.torch[0].manual_seed(0)
    assert th.equal(made.critic_loss(own, own), loss_of(own.rewards))


@pytest.mark.parametrize("env", ["Pendulum-v1", "seals/CartPole-v0"])
def test_relabelling_gives_every_stored_transition_the_rewards_of_now(trainer, env):
    factor = [1.0]
    made = trainer(env, lambda *steps: factor[0] * angle_reward(*steps))
    made.train_seeds(40)
    assert not stored(made, "rewards").any()
    made.begin()
    made.train_seeds(20)
    before = stored(made, "rewards").clone()
    assert before[:40].mean().item() == pytest.approx(0, abs=1e-5)
    assert before[:40].std(correction=0).item() == pytest.approx(1, abs=1e-4)
    factor[0] = -2.0
    made.relabel()
    whole = stored(made, "rewards")
    assert whole.mean().item() == pytest.approx(0, abs=1e-5)
    assert np.corrcoef(whole[:40], before[:40])[0, 1] == pytest.approx(-1, abs=1e-4)
    assert (made._mean, made._std) != (0.0, 1.0)
    # New transitions get the same scale.
    made.train_seeds(1)
    made_reward, mean, std = stored(made, "rewards")[-1].item(), made._mean, made._std
    made.relabel()
    again = stored(made, "rewards")[-1].item() * made._std + made._mean
    assert made_reward * std + mean == pytest.approx(again, rel=1e-4)


def test_rewards_are_of_raw_observations_and_actions(make, trainer):
    seen = []

    def reward_fn(obs, acts, next_obs, dones):
        seen.append((obs, acts, next_obs, dones))
        return np.zeros(len(obs), np.float32)

    made = trainer(reward_fn=reward_fn)
    buffering = BufferingWrapper(made.venv)
    made._collector._venv = buffering
    made.train_seeds(25)
    made.begin()
    (whole,), _ = buffering.pop_trajectories()
    obs, acts, next_obs, dones = seen[0]
    assert obs.dtype == np.float32
    np.testing.assert_allclose(obs, whole.obs[:-1], atol=1e-4)
    np.testing.assert_allclose(next_obs, whole.obs[1:], atol=1e-4)
    np.testing.assert_allclose(acts, whole.acts, atol=1e-5)
    assert not dones.any()


def test_critics_are_new_after_exploration_and_the_actor_is_kept(trainer):
    made = trainer(reset_updates=0)
    made.train_seeds(40)
    agent, actor = made.actor_critic, made.actor_critic.actor.vector.clone()
    critics = agent.critics.vector.clone()
    made.begin()
    assert not th.equal(agent.critics.vector, critics)
    assert th.equal(agent.critics.vector, agent.targets.vector)
    assert th.equal(agent.actor.vector, actor)
    assert not agent._critic_adam.state_dict()["state"]
    updates = trainer(reset_updates=3)
    updates.train_seeds(40)
    before = updates.n_updates
    updates.begin()
    assert updates.n_updates == before + 3


def test_rewards_that_are_not_finite_are_reported(trainer):
    made = trainer(reward_fn=lambda *steps: np.full(len(steps[0]), np.nan))
    made.train_seeds(5)
    with pytest.raises(ValueError, match="rewards that are not finite"):
        made.begin()


def test_wrong_settings_are_refused(trainer):
    with pytest.raises(ValueError, match="neighbours must be at least 1"):
        trainer(neighbours=0)
    with pytest.raises(ValueError, match="reset_updates must be at least 0"):
        trainer(reset_updates=-1)


@pytest.fixture
def agent(trainer):
    def build(**given):
        made = trainer()
        buffering = BufferingWrapper(made.venv)
        made.venv = made._collector._venv = buffering
        return ReplayAgent(made, buffering, **given), made

    return build


def test_the_latest_episodes_of_training_are_sampled(agent):
    made, trainer = agent(recent=2)
    made.pretrain(150)
    with pytest.raises(RuntimeError, match="no episode has ended yet"):
        made.sample(10)
    made.pretrain(60)
    assert [len(each) for each in made.sample(10)] == [200]
    made.train(400)
    assert trainer.began
    whole = made.sample(10)
    assert [len(each) for each in whole] == [200, 200]
    assert trainer.num_timesteps == 610
    assert all((each.rews < 0).all() for each in whole)


def test_a_restored_agent_goes_on_bit_for_bit(agent):
    made, trainer = agent()
    made.pretrain(210)
    made.train(20)
    environments = trainer.venv.venv
    states, state = episode_states(environments), made.state_dict()
    made.train(20)
    again, other = agent()
    restore_episodes(other.venv.venv, states)
    again.load_state_dict(state)
    again.train(20)
    assert th.equal(other.agent.critics.vector, trainer.agent.critics.vector)
    assert th.equal(stored(other, "rewards"), stored(trainer, "rewards"))
    np.testing.assert_equal(again.sample(1)[0].rews, made.sample(1)[0].rews)


@pytest.mark.parametrize("absorbing", [True, False])
def test_the_true_reward_is_stored_with_its_transition(make, absorbing):
    options = small_options(absorbing_states=absorbing, standardize=False)
    task = "seals/EarlyTermPos-v0"
    made = make(TrueRewardTrainer, task, None, (0, 1), 2, options, allow_variable_horizon=True)
    made._collector._venv = buffering = BufferingWrapper(made.venv)
    made.train_seeds(60)
    rewards = made._replay.column("rewards", 1)
    # Both seeds act in the same task, whose reward is 1 until it ends.
    assert len(rewards) >= 60
    trajectories, _ = buffering.pop_finished_trajectories()
    ends = sum(trajectory.terminal for trajectory in trajectories)
    assert ends > 0
    zero = int((rewards == 0).sum())
    assert zero == (len(rewards) - 60 if absorbing else 0)
    assert set(rewards.unique().tolist()) == ({0.0, 1.0} if zero else {1.0})
