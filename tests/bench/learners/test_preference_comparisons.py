"""Preference comparisons in the harness: budget, curve, measurements, transfer, the reward."""

from functools import partial

import numpy as np
import pytest
import torch as th

from imitbench.errors import InputError
from imitbench.rewards.reward_nets import AddSTDRewardWrapper
from imitbench.rewards.storage import load_reward_net, save_reward

SMALL = {
    "n_envs": "2",
    "n_steps": "100",
    "n_epochs": "1",
    "batch_size": "50",
    "hidden_size": "8",
    "total_comparisons": "30",
    "num_iterations": "3",
    "fragment_length": "10",
    "reward_epochs": "1",
    "transfer_steps": "400",
}


@pytest.fixture
def set_up(set_up):
    return partial(set_up, "preference_comparisons", demos=[], **SMALL)


@pytest.mark.parametrize("amount", [4200, 6001])
def test_all_steps_count_and_never_exceed_the_budget(set_up, train, amount):
    learner = set_up(exploration_frac="0.1")
    spent, points = train(learner, amount)
    assert amount - 1000 < spent <= amount  # one rollout, and what sampling spared at the end
    assert len(points) == 4
    assert points[-1][0] == spent
    assert learner._ppo.num_timesteps <= spent
    assert len(learner._algorithm.dataset) == 30


def test_a_small_budget_has_fewer_rounds_with_all_comparisons(set_up, train):
    learner = set_up()
    spent, points = train(learner, 1700)
    assert spent <= 1700
    assert 2 <= len(points) < 4
    assert len(learner._algorithm.dataset) == 30


def test_a_budget_below_one_round_is_reported(set_up, train):
    with pytest.raises(ValueError, match=r"500 environment steps is too small .* 30 pairs"):
        train(set_up(), 500)


def test_the_curve_shows_policy_and_reward(set_up, train):
    _, points = train(set_up(), 3000)
    for _, metrics in points:
        assert metrics["rollout/length_mean"] == 200
        assert metrics["reward/loss"] > 0
        assert 0 <= metrics["reward/accuracy"] <= 1
        assert 0 <= metrics["reward/held_out_accuracy"] <= 1


def test_measuring_the_reward_does_not_change_the_training(set_up, train):
    learner = set_up()
    train(learner, 2400)
    before = {key: value.clone() for key, value in learner.reward().state_dict().items()}
    found = learner.measures()
    assert {"reward_correlation", "preference_accuracy"} < set(found)
    assert learner.measures() == found
    for key, value in learner.reward().state_dict().items():
        assert th.equal(value, before[key])


def test_a_new_agent_is_trained_on_the_final_reward(set_up, train):
    learner = set_up()
    train(learner, 2400)
    before = {key: value.clone() for key, value in learner.reward().state_dict().items()}
    first, again = learner.transfer_policy(), learner.transfer_policy()
    assert first is not learner.policy()
    for left, right in zip(first.parameters(), again.parameters(), strict=True):
        assert th.equal(left, right)
    for key, value in learner.reward().state_dict().items():
        assert th.equal(value, before[key])
    assert set_up(transfer_steps="0").transfer_policy() is None


def test_an_ensemble_selects_pairs_by_disagreement(set_up, train):
    learner = set_up(ensemble_size="2", active_selection_factor="3.0")
    train(learner, 2400)
    assert isinstance(learner.reward(), AddSTDRewardWrapper)
    assert len(learner._algorithm.dataset) == 30


def test_disagreement_needs_several_networks(set_up):
    message = "active_selection_factor=3 chooses .* add --set ensemble_size=3, or --set active_sel"
    with pytest.raises(InputError, match=message):
        set_up(active_selection_factor="3.0")


def test_the_learned_reward_can_be_saved(set_up, train, demos_of, tmp_path):
    learner = set_up()
    train(learner, 2400)
    save_reward(learner.reward(), tmp_path)
    demo = demos_of["Pendulum-v1"][0]
    batch = demo.obs[:-1], demo.acts, demo.obs[1:], np.zeros(200, bool)
    np.testing.assert_allclose(
        load_reward_net(tmp_path).predict(*batch), learner.reward().predict(*batch), rtol=1e-6
    )
