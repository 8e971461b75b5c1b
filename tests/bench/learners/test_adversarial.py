"""GAIL and AIRL in the harness: budget, curve, the choice of PPO, and the learned reward."""

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch as th

from imitbench.rewards.base import RewardNet
from imitbench.rewards.reward_nets import BasicRewardNet, NormalizedRewardNet, ShapedRewardNet
from imitbench.rewards.storage import load_reward_net, save_reward

SMALL = {"n_envs": "2", "n_steps": "100", "hidden_size": "8", "demo_batch_size": "64"}


@pytest.fixture(params=["gail", "airl"])
def name(request):
    return request.param


@pytest.fixture
def set_up(set_up):
    return partial(set_up, **SMALL)


@pytest.fixture
def demos(demos_of):
    return demos_of["Pendulum-v1"][:4]


def test_rounds_fill_the_budget_and_never_exceed_it(set_up, train, name):
    spent, points = train(set_up(name), 1199)
    assert spent == 1000
    assert [step for step, _ in points] == [200, 400, 600, 800, 1000]


def test_a_budget_below_one_round_is_reported(set_up, train, name):
    with pytest.raises(ValueError, match=r"199 environment steps is less than .* 200"):
        train(set_up(name), 199)


def test_the_curve_shows_policy_and_discriminator(set_up, train, name):
    _, points = train(set_up(name), 800)
    for _, metrics in points:
        assert 0 <= metrics["discriminator/accuracy"] <= 1
        assert metrics["discriminator/loss"] > 0
    # Both environments' episodes end with every second round; the return is the true one.
    ended = [metrics for _, metrics in points if "rollout/return_mean" in metrics]
    assert len(ended) == 2
    for metrics in ended:
        assert -2000 < metrics["rollout/return_mean"] < 0
        assert metrics["rollout/length_mean"] == 200
        assert metrics["rollout/termination_rate"] == 0


@pytest.mark.parametrize(("lean", "due"), [("true", True), ("false", False)])
def test_the_lean_ppo_can_be_switched_off(set_up, train, name, lean, due):
    learner = set_up(name, lean_ppo=lean)
    assert learner.ppo.lean is due
    assert train(learner, 200)[0] == 200


def test_few_demonstrations_make_smaller_batches(set_up, train, demos, name):
    learner = set_up(name, demos=demos[:1], demo_batch_size="1024")
    assert learner.trainer.demo_batch_size == 200
    train(learner, 200)


@pytest.mark.parametrize(("decay", "last"), [("linear", 0.001 / 4), ("none", 0.001)])
def test_the_learning_rate_can_decay_over_the_whole_budget(set_up, train, decay, last):
    learner = set_up("gail", learning_rate="0.001", learning_rate_decay=decay)
    train(learner, 800)
    assert learner.ppo.policy.optimizer.param_groups[0]["lr"] == pytest.approx(last)


def test_the_learned_reward_can_be_saved(set_up, train, demos, name, tmp_path):
    learner = set_up(name)
    train(learner, 200)
    reward = learner.reward()
    save_reward(reward, tmp_path)
    demo = demos[0]
    batch = demo.obs[:-1], demo.acts, demo.obs[1:], np.zeros(200, bool)
    np.testing.assert_allclose(
        load_reward_net(tmp_path).predict(*batch), reward.predict(*batch), rtol=1e-6
    )
    if name == "airl":
        assert isinstance(reward, BasicRewardNet)
        assert not isinstance(reward, ShapedRewardNet)


class TrueReward(RewardNet):
    """Pendulum's own reward."""

    def forward(self, state, action, next_state, done):
        angle = th.atan2(state[:, 1], state[:, 0])
        return -(angle**2 + 0.1 * state[:, 2] ** 2 + 0.001 * action[:, 0] ** 2)


def test_airl_compares_the_learned_reward_with_the_true_one(set_up, monkeypatch):
    learner = set_up("airl")
    assert -1 <= learner.measures()["reward_correlation"] <= 1
    known = TrueReward(learner.task.observation_space, learner.task.action_space)
    monkeypatch.setattr(learner, "reward", lambda: known)
    assert learner.measures()["reward_correlation"] > 0.999


def test_rewards_of_demonstrations_are_not_used(set_up, train, demos, name):
    """Rewards in demonstrations change nothing."""
    blind = [dataclasses.replace(demo, rews=np.full_like(demo.rews, np.nan)) for demo in demos]
    results = []
    for given in (demos, blind):
        learner = set_up(name, demos=given)
        train(learner, 400)
        results.append(learner.policy().action_net.weight.detach().clone())
    assert th.equal(*results)


@pytest.mark.parametrize(
    ("name", "options", "due"),
    [
        ("gail", {"reward_scaling": "none"}, False),
        ("gail", {"reward_scaling": "running"}, True),
        ("gail", {"reward_scaling": "returns"}, False),
        ("airl", {"reward_scaling": "running"}, True),
        ("airl", {"reward_scaling": "running", "normalize_reward": "false"}, False),
        ("airl", {"reward_scaling": "none"}, False),
        ("airl", {"reward_scaling": "returns"}, False),
    ],
)
def test_at_most_one_reward_scaling_applies(set_up, train, name, options, due):
    learner = set_up(name, **options)
    train(learner, 200)
    assert isinstance(learner.trainer.reward_train, NormalizedRewardNet) is due
    assert (learner.ppo.return_scaling is not None) == ("returns" in options.values())
    assert not isinstance(learner.reward(), NormalizedRewardNet)


def test_hidden_entries_do_not_change_the_reward(demos_of, set_up, train, name, tmp_path):
    """Here the entry is the first of Pendulum's; the saved network takes whole observations."""
    learner = set_up(name, disc_absolute_positions="hide", hidden=[0])
    train(learner, 400)
    save_reward(learner.reward(), tmp_path)
    net = load_reward_net(tmp_path)
    demo = demos_of["Pendulum-v1"][0]
    ends = np.zeros(200, bool)
    seen = net.predict(demo.obs[:-1], demo.acts, demo.obs[1:], ends)
    for entry, same in ((0, True), (1, False)):
        obs = demo.obs.copy()
        obs[:, entry] += 1.0
        found = net.predict(obs[:-1], demo.acts, obs[1:], ends)
        assert np.array_equal(found, seen) is same


@pytest.mark.parametrize(("limit", "due"), [("null", 0.01), ("400", 0.01), ("25", 0.0025)])
def test_large_budgets_have_smaller_learning_rates(set_up, train, limit, due):
    learner = set_up(
        "gail", learning_rate="0.01", learning_rate_budget=limit, learning_rate_decay="none",
        n_envs="2", n_steps="100", hidden_size="8", demo_batch_size="64",
    )  # fmt: skip
    train(learner, 400)
    assert learner.ppo.lr_schedule(0.5) == pytest.approx(due)


@pytest.mark.parametrize(
    ("env", "continuous", "due"),
    [
        ("Pendulum-v1", "0.5", 0.5),
        ("Pendulum-v1", "0", 0.0),
        ("Pendulum-v1", "null", 0.25),
        ("seals/CartPole-v0", "0.5", 0.25),
    ],
)
def test_continuous_actions_have_an_entropy_bonus_of_their_own(set_up, env, continuous, due):
    learner = set_up("gail", env, ent_coef="0.25", ent_coef_continuous=continuous)
    assert learner.ppo.ent_coef == due


@pytest.mark.parametrize("option", ["log_std_init", "target_kl"])
def test_ppo_gets_its_options(set_up, name, option):
    learner = set_up(name, **{option: "-1.5" if option == "log_std_init" else "0.02"})
    if option == "target_kl":
        assert learner.ppo.target_kl == 0.02
    else:
        np.testing.assert_array_equal(learner.policy().log_std.detach(), -1.5)
