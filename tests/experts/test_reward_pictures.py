"""What is drawn of a reward, from rewards that are known."""

import dataclasses

import numpy as np
import pytest

from imitbench.errors import InputError
from imitbench.experts.lookup import find_environment
from imitbench.experts.reward_pictures import GRID, RewardSubject, make_picture
from imitbench.policies.base import RandomPolicy
from imitbench.rewards.pictures import RewardPicture


def pendulum(obs, acts, next_obs, dones):
    """The true reward, without the small cost of actions."""
    return -(np.arctan2(obs[:, 1], obs[:, 0]) ** 2) - 0.1 * obs[:, 2].astype(float) ** 2


def subject(env="Pendulum-v1", reward=pendulum, **more):
    return RewardSubject("mine", reward, find_environment(env), **more)


@pytest.fixture(scope="module")
def picture():
    return make_picture(subject(), episodes=2)


def test_a_reward_that_equals_the_true_one_has_the_same_map(picture):
    drawn = picture.map
    assert drawn.learned.shape == drawn.true.shape == (GRID, GRID)
    np.testing.assert_allclose(drawn.learned, drawn.true, atol=1e-4)
    angle, velocity = np.meshgrid(drawn.x, drawn.y)
    np.testing.assert_allclose(drawn.true, -(angle**2) - 0.1 * velocity**2, atol=1e-4)
    assert drawn.agreement.pearson == pytest.approx(1)
    assert drawn.labels[0].startswith("angle")
    assert drawn.action == "zero (no policy is stored)"


def test_it_agrees_along_episodes_and_ignores_the_action(picture):
    [random] = picture.behaviors
    assert random.name == "random actions"
    assert [len(each) for each in random.true] == [200, 200]
    assert random.agreement.spearman > 0.999
    shares = {each.name: each.share for each in picture.sensitivities}
    assert list(shares) == ["cos(angle)", "sin(angle)", "angular velocity", "action"]
    assert shares["action"] == 0
    assert min(shares["cos(angle)"], shares["angular velocity"]) > 0.1
    assert picture.steps == 400


def test_the_seed_determines_all_numbers(picture):
    again = make_picture(subject(), episodes=2)
    np.testing.assert_equal(dataclasses.asdict(again), dataclasses.asdict(picture))
    other = make_picture(subject(), episodes=2, seed=1)
    assert not np.array_equal(other.behaviors[0].true[0], picture.behaviors[0].true[0])
    assert other.sensitivities != picture.sensitivities


def test_dimensions_that_do_not_determine_the_state_leave_a_scatter():
    drawn = make_picture(subject(), dims=(0, 2), episodes=1).map
    assert drawn.true is None
    assert drawn.agreement is None
    assert drawn.labels == ("cos(angle)", "angular velocity")
    assert drawn.visited.shape == (3, 200)
    assert "median of visited states" in drawn.rest
    assert "same" in drawn.rest


def test_other_dimensions_are_those_of_the_demonstrations():
    demos = np.tile([[1.0, -1.5, 0.1, 0.2]], (5, 1))
    seen = []

    def reward(obs, acts, next_obs, dones):
        seen.append(obs)
        return obs[:, 2].astype(float)

    drawn = make_picture(subject("CartPole-v1", reward, demonstrations=demos), episodes=1).map
    np.testing.assert_array_equal(np.unique(seen[-1][:, :2], axis=0), [[1.0, -1.5]])
    assert "median of the expert's demonstrations" in drawn.rest
    np.testing.assert_allclose(drawn.learned, np.tile(drawn.x, (GRID, 1)), atol=1e-6)
    assert set(np.unique(drawn.true)) == {1.0}
    assert drawn.agreement.spearman is None


def test_the_policy_chooses_the_actions_of_the_map():
    known = subject("imitbench/PointMaze-v0", lambda _, acts, *__: acts[:, 0].astype(float))
    assert np.ptp(make_picture(known, episodes=1).map.learned) == 0

    class Left(RandomPolicy):
        def _choose_action(self, obs):
            return np.array([-1.0, 0.0], np.float32)

    from imitbench.bench.environments import make_environment

    made = make_environment(known.environment)
    left = Left(made.observation_space, made.action_space)
    found = make_picture(dataclasses.replace(known, policy=left), episodes=1)
    assert found.map.action == "the most likely one of the run's policy"
    np.testing.assert_array_equal(found.map.learned, -1.0)
    assert [each.name for each in found.behaviors] == ["policy", "random actions"]


def test_unknown_tasks_show_the_two_dimensions_that_matter_most():
    def reward(obs, acts, next_obs, dones):
        return obs[:, 4].astype(float) - 2 * obs[:, 1]

    found = make_picture(subject("Acrobot-v1", reward), episodes=1)
    assert found.map.labels == ("obs[1]", "obs[4]")
    assert found.map.true is None
    document = found.as_document()
    assert document["map"]["true"] is None
    assert document["map"]["action"].startswith("action 1, the middle")


@pytest.mark.parametrize("dims", [(0, 3), (1, 1), (-1, 0)])
def test_dimensions_are_checked(dims):
    with pytest.raises(InputError, match=f"--dims {dims[0]},{dims[1]}: "):
        make_picture(subject(), dims=dims, episodes=1)


def test_rewards_that_are_not_finite_are_refused():
    with pytest.raises(InputError, match="mine: gives rewards that are not finite"):
        make_picture(subject(reward=lambda obs, *_: np.full(len(obs), np.nan)), episodes=1)


def test_the_picture_is_a_frozen_record(picture):
    assert isinstance(picture, RewardPicture)
    with pytest.raises(dataclasses.FrozenInstanceError):
        picture.seed = 1
