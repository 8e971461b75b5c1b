"""What all algorithms share."""

import numpy as np
import pytest

from imitbench.algorithms import base
from imitbench.data import types
from imitbench.util import logger as imit_logger


def transitions(n):
    return types.TransitionsMinimal(
        obs=np.arange(n, dtype=np.float32)[:, None], acts=np.arange(n), infos=np.array([{}] * n)
    )


def trajectory(n):
    return types.Trajectory(
        obs=np.zeros((n + 1, 1), np.float32), acts=np.zeros(n), infos=None, terminal=True
    )


class Minimal(base.DemonstrationAlgorithm):
    def set_demonstrations(self, demonstrations):
        self.demonstrations = demonstrations

    @property
    def policy(self):
        return None


def make(**options):
    log = imit_logger.configure(format_strs=[])
    return Minimal(demonstrations=None, custom_logger=log, **options)


def test_demonstrations_given_at_construction_are_set():
    log = imit_logger.configure(format_strs=[])
    assert Minimal(demonstrations=[1], custom_logger=log).demonstrations == [1]


def test_episodes_of_different_length_are_refused_whenever_they_are_seen():
    algorithm = make()
    algorithm._check_fixed_horizon([5, 5])
    algorithm._check_fixed_horizon([])
    with pytest.raises(ValueError, match=r"\[5, 6\].*allow_variable_horizon"):
        algorithm._check_fixed_horizon([6])
    with pytest.raises(ValueError, match=r"\[1, 2\]"):
        make()._check_fixed_horizon([1, 2])


def test_episodes_of_different_length_are_accepted_on_request():
    make(allow_variable_horizon=True)._check_fixed_horizon([1, 2])


@pytest.mark.parametrize("data", [transitions(10), [trajectory(6), trajectory(4)]])
def test_batches_are_full_and_shuffled_anew(data):
    loader = base.make_data_loader(data, batch_size=4)
    passes = [[batch["acts"] for batch in loader] for _ in range(2)]
    assert [len(batch) for batch in passes[0]] == [4, 4]


def test_given_batches_pass_through():
    batches = [{"obs": np.zeros((2, 1)), "acts": np.zeros(2)}] * 3
    assert list(base.make_data_loader(batches, batch_size=2)) == batches


@pytest.mark.parametrize(
    ("data", "batch_size", "message"),
    [
        (transitions(3), 4, "3 transitions, fewer than batch_size 4"),
        (transitions(3), 0, "batch_size must be positive"),
        (transitions(0), 1, "no transitions"),
        ([], 1, "empty"),
        ([{"obs": np.zeros((2, 1)), "acts": np.zeros(2)}], 3, "batch_size is 3"),
    ],
)
def test_bad_data_are_told(data, batch_size, message):
    with pytest.raises(ValueError, match=message):
        list(base.make_data_loader(data, batch_size))
