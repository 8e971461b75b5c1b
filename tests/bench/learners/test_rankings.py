"""T-REX and D-REX in the harness: budgets, the reward that is stored, and what is refused."""

import dataclasses

import numpy as np
import pytest

from imitbench.bench.learner import Supplement
from imitbench.errors import InputError
from imitbench.rewards.storage import load_reward_net, save_reward

SMALL = {
    "n_envs": "2", "n_steps": "20", "hidden_size": "8", "reward_hidden_size": "8", "pairs": "50",
    "reward_epochs": "1", "snippet_length": "10",
}  # fmt: skip
NOISE = {"bc_batches": "10", "noise_levels": "4", "noise_trajectories": "3"}


def mixture(demos, ranks):
    """Trajectories as in a mixture: rewards are not known."""
    blind = [dataclasses.replace(each, rews=np.full(len(each), np.nan)) for each in demos]
    return Supplement(blind, np.array(ranks))


@pytest.fixture
def trex(set_up, demos_of):
    def make(supplement=None, **options):
        given = supplement or mixture(demos_of["Pendulum-v1"][1:4], [0, 1, 2])
        return set_up("trex", demos=demos_of["Pendulum-v1"][:1], supplement=given, **options)

    return make


def test_the_reward_is_fitted_before_the_first_step(trex, train):
    learner = trex(steps=20, **SMALL)
    spent, points = train(learner, 100)
    assert spent == 80
    assert [step for step, _ in points] == [0, 40, 80]
    assert 0 <= points[0][1]["reward/accuracy"] <= 1
    assert all(np.isfinite(metrics["rollout/learned_return_mean"]) for _, metrics in points[1:])
    assert -1 <= learner.measures()["reward_correlation"] <= 1


@pytest.mark.parametrize(
    ("share", "levels", "count", "noise"),
    [
        ("0.9", 4, 3, 240),  # all that the card asks for
        ("0.5", 4, 2, 160),  # 10 episodes: two for each level
        ("0.15", 3, 1, 60),  # 3 episodes
    ],
)
def test_noisy_trajectories_take_no_more_than_their_share(
    set_up, train, share, levels, count, noise
):
    learner = set_up("drex", steps=20, noise_share=share, **NOISE, **SMALL)
    amount = 400
    spent, points = train(learner, amount)
    assert points[0][0] == learner.trainer.env_steps == noise <= amount * float(share)
    assert len(learner.trainer.noise_levels) == levels
    assert noise == levels * count * 20
    assert spent == noise + (amount - noise) // 40 * 40
    assert points[-1][0] == spent


def test_a_share_below_two_episodes_is_reported(set_up, train):
    learner = set_up("drex", steps=20, noise_share="0.1", **NOISE, **SMALL)
    with pytest.raises(ValueError, match=r"noise_share: leaves 39 .* two episodes of 20"):
        train(learner, 399)


def test_the_stored_reward_is_of_observations_without_hidden_entries(
    trex, train, demos_of, tmp_path
):
    learner = trex(hidden=[0], steps=20, **SMALL)
    train(learner, 40)
    save_reward(learner.reward(), tmp_path)
    net, demo = load_reward_net(tmp_path), demos_of["Pendulum-v1"][0]
    ends = np.zeros(len(demo), bool)

    def reward(obs, acts=demo.acts):
        return net.predict(obs[:-1], acts, obs[1:], ends)

    seen = reward(demo.obs)
    np.testing.assert_array_equal(seen, learner.ppo.reward_fn(
        demo.obs[:-1], demo.acts, demo.obs[1:], ends
    ))  # fmt: skip
    np.testing.assert_array_equal(reward(demo.obs, -demo.acts), seen)
    for entry, same in ((0, True), (1, False)):
        moved = demo.obs.copy()
        moved[:, entry] += 1
        assert np.array_equal(reward(moved), seen) is same


def test_hidden_actions_give_the_same_training(set_up, train, demos_of):
    found = []
    for hidden in (False, True):
        demos = demos_of["Pendulum-v1"][:4]
        if hidden:
            demos = [
                dataclasses.replace(each, acts=np.empty((len(each), 0), np.float32))
                for each in demos
            ]
        learner = set_up(
            "trex", demos=demos[:1], supplement=mixture(demos[1:], [0, 1, 2]), steps=20, **SMALL
        )
        found.append(train(learner, 80))
    assert found[0] == found[1]


def test_a_mixture_with_ties_only_and_none_at_all_are_refused(trex, demos_of, set_up):
    with pytest.raises(InputError, match="all 3 trajectories have rank 0"):
        trex(mixture(demos_of["Pendulum-v1"][1:4], [0, 0, 0]), **SMALL)
    with pytest.raises(InputError, match="choose a regime with a mixture"):
        set_up("trex", supplement=None, **SMALL)
