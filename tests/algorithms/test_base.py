"""What all algorithms share."""

import numpy as np
import pytest
import torch as th
from torch.utils.data import DataLoader

from imitbench.algorithms import base
from imitbench.data import types
from imitbench.util import logger as imit_logger


def transitions(n):
    return types.TransitionsMinimal(
        obs=np.arange(n, dtype=np.float32)[:, None], acts=np.arange(n), infos=np.array([{}] * n)
    )


def trajectory(n):
    return types.Trajectory(
        obs=np.zeros((n + 1, 1), np.float32), acts=np.arange(n), infos=None, terminal=True
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


def test_episodes_of_different_length_are_refused_across_calls():
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
def test_batches_are_full_and_shuffled_in_each_pass(data):
    th.manual_seed(0)
    loader = base.make_data_loader(data, batch_size=4)
    passes = [[batch["acts"] for batch in loader] for _ in range(2)]
    assert [len(batch) for batch in passes[0]] == [4, 4]
    assert not np.array_equal(np.concatenate(passes[0]), np.concatenate(passes[1]))


def full_transitions(obs):
    n = len(obs)
    return types.Transitions(
        obs=obs, acts=np.arange(n), infos=np.array([{"i": i} for i in range(n)]), next_obs=obs,
        dones=np.zeros(n, bool),
    )  # fmt: skip


@pytest.mark.parametrize(
    "obs",
    [np.arange(7.0)[:, None], types.DictObs({"a": np.arange(7.0), "b": np.ones((7, 2))})],
    ids=["array", "dict"],
)
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_are_those_of_a_plain_data_loader(obs, shuffle, drop_last):
    data = full_transitions(obs)
    options = {"shuffle": shuffle, "drop_last": drop_last}

    def seeded():
        return {"generator": th.Generator().manual_seed(0), **options}

    plain = DataLoader(data, 3, collate_fn=types.transitions_collate_fn, **seeded())
    loader = base.make_data_loader(data, 3, seeded())
    assert len(loader) == len(plain) == (2 if drop_last else 3)
    for batch, wanted in zip(loader, plain, strict=True):
        assert batch.keys() == wanted.keys()
        assert batch["infos"] == wanted["infos"]
        assert batch["obs"] == wanted["obs"] if isinstance(obs, types.DictObs) else True
        for key, value in wanted.items():
            assert type(batch[key]) is type(value)
            if isinstance(value, th.Tensor):
                th.testing.assert_close(batch[key], value, rtol=0, atol=0)


def test_a_custom_sampler_decides_the_order():
    loader = base.make_data_loader(
        transitions(6), 2, {"shuffle": False, "sampler": [5, 4, 3, 2, 1, 0]}
    )
    assert [batch["acts"].tolist() for batch in loader] == [[5, 4], [3, 2], [1, 0]]


def test_given_batches_are_not_changed():
    batches = [{"obs": np.zeros((2, 1)), "acts": np.zeros(2)}] * 3
    assert list(base.make_data_loader(batches, batch_size=2)) == batches
    assert list(base.make_data_loader(iter(batches), batch_size=2)) == batches
    dictionaries = [{"obs": {"a": np.zeros((2, 1))}, "acts": np.zeros(2)}]
    assert list(base.make_data_loader(dictionaries, batch_size=2)) == dictionaries


@pytest.mark.parametrize(
    ("data", "batch_size", "message"),
    [
        (transitions(3), 4, "3 transitions, fewer than batch_size 4"),
        (transitions(3), 0, "batch_size must be positive"),
        (transitions(0), 1, "no transitions"),
        ([], 1, "empty"),
        ([{"obs": np.zeros((2, 1)), "acts": np.zeros(2)}], 3, "batch_size is 3"),
        ([{"obs": np.zeros((2, 1)), "acts": np.zeros(1)}], 2, "1 entries in 'acts'"),
        ([{"acts": np.zeros(2)}], 2, "no 'obs'"),
    ],
)
def test_bad_data_are_reported(data, batch_size, message):
    with pytest.raises(ValueError, match=message):
        list(base.make_data_loader(data, batch_size))
