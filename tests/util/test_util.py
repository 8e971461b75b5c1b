"""Helpers of the public API."""

import itertools
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import SubprocVecEnv
from torch.utils.data import DataLoader

from imitbench.util import util
from imitbench.util.serial_vec_env import SerialVecEnv


def first_observations(seed, **options):
    venv = util.make_vec_env("Pendulum-v1", rng=np.random.default_rng(seed), **options)
    try:
        return venv.reset()
    finally:
        venv.close()


def test_environments_are_seeded_from_the_generator():
    np.testing.assert_array_equal(first_observations(0), first_observations(0))
    assert not np.array_equal(first_observations(0), first_observations(1))
    assert len(np.unique(first_observations(0)[:, 0])) == 8


@pytest.mark.parametrize(("parallel", "kind"), [(False, SerialVecEnv), (True, SubprocVecEnv)])
def test_environments_live_in_one_process_unless_asked_otherwise(parallel, kind):
    venv = util.make_vec_env(
        "seals:seals/CartPole-v0", rng=np.random.default_rng(0), n_envs=1, parallel=parallel
    )
    assert type(venv) is kind
    assert venv.num_envs == 1
    venv.close()


def test_options_of_environments(tmp_path):
    seen = []

    class Marked(gym.Wrapper):
        pass

    def mark(env, index):
        seen.append(index)
        return Marked(env)

    venv = util.make_vec_env(
        "Pendulum-v1",
        rng=np.random.default_rng(0),
        n_envs=2,
        max_episode_steps=5,
        log_dir=str(tmp_path),
        post_wrappers=[mark],
        env_make_kwargs={"g": 1.0},
    )
    assert seen == [0, 1]
    assert venv.get_attr("g") == [1.0, 1.0]
    venv.reset()
    ends = [venv.step(np.zeros((2, 1)))[2].all() for _ in range(5)]
    assert ends == [False] * 4 + [True]
    venv.close()
    assert len(list((tmp_path / "monitor").glob("mon*.monitor.csv"))) == 2


def test_seeds():
    assert (
        util.make_seeds(np.random.default_rng(0)) == util.make_seeds(np.random.default_rng(0), 1)[0]
    )
    assert len(set(util.make_seeds(np.random.default_rng(0), 100))) == 100
    assert util.make_seeds(np.random.default_rng(0), 0) == []


def test_endless_iter_repeats_and_refuses_iterators():
    assert list(itertools.islice(util.endless_iter(range(2)), 5)) == [0, 1, 0, 1, 0]
    with pytest.raises(ValueError, match="iterator"):
        util.endless_iter(iter([1]))


class Countdown:
    """An iterable without a length."""

    def __init__(self, start):
        self.start = start

    def __iter__(self):
        return iter(range(self.start, 0, -1))


def test_endless_iter_refuses_what_is_empty():
    for empty in ([], Countdown(0)):
        with pytest.raises(ValueError, match="no elements"):
            util.endless_iter(empty)
    assert list(itertools.islice(util.endless_iter(Countdown(2)), 3)) == [2, 1, 2]


def test_endless_iter_draws_no_random_numbers_in_advance():
    loader = DataLoader([1, 2, 3], shuffle=True)
    before = th.get_rng_state()
    util.endless_iter(loader)
    assert th.equal(th.get_rng_state(), before)


@pytest.mark.parametrize("make", [list, iter])
def test_the_first_element_is_seen_without_being_lost(make):
    first, rest = util.get_first_iter_element(make([1, 2, 3]))
    assert (first, list(rest)) == (1, [1, 2, 3])
    with pytest.raises(ValueError, match="no elements"):
        util.get_first_iter_element(make([]))


def test_tensors_share_memory_only_with_writable_arrays():
    array = np.zeros(2)
    util.safe_to_tensor(array)[0] = 1
    assert array[0] == 1
    array.flags.writeable = False
    util.safe_to_tensor(array)[0] = 2
    assert array[0] == 1


def test_arrays_from_tensors():
    assert util.safe_to_numpy(None) is None
    array = np.ones(1)
    assert util.safe_to_numpy(array) is array
    with pytest.warns(UserWarning, match="copies"):
        assert util.safe_to_numpy(th.ones(1, requires_grad=True), warn=True) == array


@pytest.mark.parametrize("order", [1, 2, 3.5, np.inf])
def test_norm_of_pieces_is_the_norm_of_the_whole(order):
    pieces = [th.randn(3, 2), th.randn(4)]
    whole = th.cat([piece.flatten() for piece in pieces])
    th.testing.assert_close(
        util.tensor_iter_norm(pieces, ord=order), th.linalg.vector_norm(whole, ord=order)
    )
    with pytest.raises(ValueError, match="ord"):
        util.tensor_iter_norm(pieces, ord=0)


@given(st.lists(st.floats(0, 50), min_size=1, max_size=12))
def test_oric_keeps_the_sum_and_moves_nothing_by_one_or_more(parts):
    x = np.array(parts)
    x[0] += np.ceil(x.sum()) - x.sum()
    rounded = util.oric(x)
    assert rounded.sum() == round(x.sum())
    assert np.all(np.abs(rounded - x) < 1 + 1e-9)


def test_paths():
    assert util.parse_path("a", base_directory=Path("/b")) == Path("/b/a")
    assert util.parse_path("a") == Path.cwd() / "a"
    assert util.parse_path("a", base_directory=Path("b")) == Path.cwd() / "b" / "a"
    assert util.parse_optional_path(None) is None
    assert util.parse_optional_path(b"/x") == Path("/x")
    with pytest.raises(ValueError, match="absolute"):
        util.parse_path("a", allow_relative=False)
    with pytest.raises(ValueError, match="base_directory"):
        util.parse_path("/a", allow_relative=False, base_directory=Path("/b"))


def test_docstrings_are_filled():
    @util.docstring_parameter(thing="world")
    def f():
        """Hello {thing}."""

    assert f.__doc__ == "Hello world."


def test_timestamps_do_not_collide():
    assert len({util.make_unique_timestamp() for _ in range(100)}) == 100


@pytest.mark.parametrize("number", [0, 1, 6, 7])
def test_halves_have_the_sum_of_the_whole(number):
    first, second = util.split_in_half(number)
    assert first + second == number
    assert second - first in (0, 1)


def test_only_terminals_are_cleared(capsys, monkeypatch):
    util.clear_screen()
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    util.clear_screen()
    assert capsys.readouterr().out == "\033[2J\033[H"
