"""Where compared trajectories come from: fixed ones, and several sources side by side."""

import numpy as np
import pytest
from stable_baselines3.common.logger import Logger

from imitbench.algorithms.preference_comparisons.trajectory_generators import (
    TrajectoryDataset,
    TrajectoryGenerator,
    TrajectoryMixture,
)
from imitbench.data.types import TrajectoryWithRew
from imitbench.util.logger import HierarchicalLogger


def trajectory(label, steps):
    return TrajectoryWithRew(
        obs=np.full((steps + 1, 1), label, np.float32),
        acts=np.zeros(steps, np.int64),
        infos=None,
        terminal=True,
        rews=np.arange(steps, dtype=np.float32),
    )


def labels(trajectories):
    return [int(each.obs[0, 0]) for each in trajectories]


def silent():
    return HierarchicalLogger(Logger(folder=None, output_formats=[]), [])


def dataset(number=10, steps=5, seed=0, first=0):
    trajectories = [trajectory(first + i, steps) for i in range(number)]
    return TrajectoryDataset(trajectories, np.random.default_rng(seed), silent())


class Learner(TrajectoryGenerator):
    """Records the arguments of its calls."""

    def __init__(self):
        super().__init__(silent())
        self.sampled, self.trained = [], []

    def sample(self, steps):
        self.sampled.append(steps)
        return [trajectory(-1, max(steps, 1))]

    def train(self, steps, **kwargs):
        self.trained.append((steps, kwargs))


class Untrainable(TrajectoryGenerator):
    def sample(self, steps):
        return []


def test_a_generator_without_an_agent_ignores_training():
    generator = Untrainable(silent())
    generator.train(100, anything=True)
    assert generator.state_dict() == {}
    generator.load_state_dict({})


def test_a_logger_is_created_by_default(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert isinstance(Untrainable().logger, HierarchicalLogger)


def test_a_dataset_gives_the_fewest_whole_trajectories_with_enough_steps():
    assert [len(dataset().sample(steps)) for steps in (0, 1, 5, 6, 50)] == [0, 1, 1, 2, 10]


def test_a_dataset_gives_no_trajectory_twice_and_keeps_its_rewards():
    sample = dataset().sample(50)
    assert sorted(labels(sample)) == list(range(10))
    assert all(each.rews.tolist() == [0, 1, 2, 3, 4] for each in sample)


def test_a_dataset_shuffles_for_each_sample():
    one, two, other = dataset(seed=0), dataset(seed=0), dataset(seed=1)
    first, second = labels(one.sample(50)), labels(one.sample(50))
    assert first != second
    assert (first, second) == (labels(two.sample(50)), labels(two.sample(50)))
    assert labels(other.sample(50)) != first


def test_every_trajectory_is_as_likely_to_come_first():
    source = dataset(number=4)
    counts = np.bincount([labels(source.sample(1))[0] for _ in range(2000)], minlength=4)
    np.testing.assert_allclose(counts / 2000, 0.25, atol=0.04)


def test_too_few_steps_are_reported():
    with pytest.raises(RuntimeError, match=r"51 transitions .* 10 trajectories have only 50"):
        dataset().sample(51)


def test_an_empty_dataset_is_reported():
    with pytest.raises(ValueError, match="trajectories is empty"):
        TrajectoryDataset([], np.random.default_rng(0))


def test_a_restored_dataset_continues_the_same_shuffling():
    one, two = dataset(), dataset(seed=5)
    one.sample(3)
    two.load_state_dict(one.state_dict())
    assert labels(one.sample(50)) == labels(two.sample(50))


@pytest.mark.parametrize(
    ("weights", "shares"), [(None, [5, 5]), ((3, 1), [8, 3]), ((1, 9), [1, 9])]
)
def test_a_mixture_keeps_proportions(weights, shares):
    # Trajectories of one step, so that shares can be exact.
    sources = [dataset(20, steps=1), dataset(20, steps=1, first=100)]
    steps = sum(shares)
    sample = labels(TrajectoryMixture(sources, weights, silent()).sample(steps))
    assert [sum(label < 100 for label in sample), sum(label >= 100 for label in sample)] == shares


def test_generators_without_a_share_are_sampled_too():
    learner = Learner()
    TrajectoryMixture([dataset(), learner], custom_logger=silent()).sample(1)
    assert learner.sampled in ([0], [1])
    TrajectoryMixture([dataset(), learner], custom_logger=silent()).sample(0)
    assert learner.sampled[1:] == [0]


def test_a_mixture_trains_its_agents():
    learner = Learner()
    mixture = TrajectoryMixture([dataset(), learner], (9, 1), silent())
    mixture.train(100, log_interval=3)
    assert learner.trained == [(100, {"log_interval": 3})]
    TrajectoryMixture([dataset()], custom_logger=silent()).train(100)


def test_several_agents_share_the_steps_also_inside_other_mixtures():
    inner, outer = Learner(), Learner()
    nested = TrajectoryMixture([dataset(), inner], custom_logger=silent())
    TrajectoryMixture([nested, outer, dataset()], (3, 1, 1), silent()).train(100)
    assert (inner.trained, outer.trained) == ([(75, {})], [(25, {})])


def test_a_mixture_passes_its_logger_on():
    learner, logger = Learner(), silent()
    mixture = TrajectoryMixture([learner], custom_logger=silent())
    mixture.logger = logger
    assert learner.logger is mixture.logger is logger


def test_a_restored_mixture_continues_the_same_draws():
    one, two = (TrajectoryMixture([dataset(), dataset(seed=1)], None, silent()) for _ in range(2))
    one.sample(40)
    two.load_state_dict(one.state_dict())
    assert labels(one.sample(40)) == labels(two.sample(40))
    with pytest.raises(ValueError, match="state is of 2 generators, not 1"):
        TrajectoryMixture([dataset()], None, silent()).load_state_dict(one.state_dict())


@pytest.mark.parametrize(
    ("weights", "message"),
    [((1,), "weights: 1 for 2"), ((1, 0), "positive"), ((1, -1), "positive"),
     ((1, np.inf), "positive"), ((1, np.nan), "positive")],
)  # fmt: skip
def test_unusable_weights_are_reported(weights, message):
    with pytest.raises(ValueError, match=message):
        TrajectoryMixture([dataset(), dataset()], weights)


def test_an_empty_mixture_is_reported():
    with pytest.raises(ValueError, match="generators is empty"):
        TrajectoryMixture([])
