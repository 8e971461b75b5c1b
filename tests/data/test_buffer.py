"""Ring buffers return what was stored and drop the oldest samples first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imitbench.data.buffer import Buffer, ReplayBuffer, Reservoir, num_samples
from imitbench.data.types import Transitions
from imitbench.util.util import make_vec_env


def content(buffer):
    drawn = buffer.sample(2000, np.random.default_rng(0))["x"]
    return set(drawn.tolist())


@given(
    capacity=st.integers(1, 12),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8),
)
def test_it_holds_the_last_samples_for_any_batch_sizes(capacity, sizes):
    buffer = Buffer(capacity, {"x": ()}, {"x": np.int64})
    total = 0
    for size in sizes:
        buffer.store({"x": np.arange(total, total + size)}, truncate_ok=True)
        total += size
        assert buffer.size() == min(total, capacity)
        assert content(buffer) == set(range(max(0, total - capacity), total))


def test_arrays_of_one_draw_stay_aligned():
    x = np.arange(10)
    buffer = Buffer.from_data({"x": x, "y": np.stack([x, -x], axis=1)})
    drawn = buffer.sample(100, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn["y"], np.stack([drawn["x"], -drawn["x"]], axis=1))


def test_the_draw_follows_the_generator():
    buffer = Buffer.from_data({"x": np.arange(100)})
    first, second = (buffer.sample(20, np.random.default_rng(3))["x"] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.random.seed(0)  # noqa: NPY002
    first = buffer.sample(20)["x"]
    np.random.seed(0)  # noqa: NPY002
    np.testing.assert_array_equal(first, buffer.sample(20)["x"])


@pytest.mark.parametrize("sizes", [[40], [3, 2, 20, 15], [1] * 40])
def test_a_reservoir_keeps_all_samples_with_the_same_probability(sizes):
    rng = np.random.default_rng(0)
    kept = np.zeros(40)
    for _ in range(2_000):
        reservoir = Reservoir(10, {"x": ()}, {"x": np.int64})
        for size, end in zip(sizes, np.cumsum(sizes), strict=True):
            reservoir.add({"x": np.arange(end - size, end)}, rng)
        found = reservoir.state_dict()["arrays"]["x"]
        assert len(set(found)) == 10
        kept[found] += 1
    assert kept / 2_000 == pytest.approx(np.full(40, 0.25), abs=0.05)  # five standard errors


def test_a_restored_reservoir_continues_like_the_original():
    def reservoir():
        return Reservoir(8, {"x": ()}, {"x": np.int64})

    one, other, rng = reservoir(), reservoir(), np.random.default_rng(0)
    one.add({"x": np.arange(30)}, rng)
    other.load_state_dict(one.state_dict())
    for buffer in (one, other):
        buffer.add({"x": np.arange(30, 60)}, np.random.default_rng(1))
    assert content(one) == content(other)


def test_a_restored_buffer_continues_like_the_original():
    original = Buffer(5, {"x": ()}, {"x": np.int64})
    original.store({"x": np.arange(4)})
    original.store({"x": np.arange(4, 7)})
    copy = Buffer(5, {"x": ()}, {"x": np.int64})
    copy.load_state_dict(original.state_dict())
    for buffer in (original, copy):
        buffer.store({"x": np.array([7, 8])})
    draws = [b.sample(50, np.random.default_rng(0))["x"] for b in (original, copy)]
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": np.zeros((0, 2))}, "empty"),
        ({"x": np.zeros((3, 3))}, r"'x'.*shape \(3,\)"),
        ({"y": np.zeros((3, 2))}, "keys"),
        ({"x": np.zeros((6, 2))}, "more than capacity 5"),
    ],
)
def test_bad_data_are_refused(data, message):
    with pytest.raises(ValueError, match=message):
        Buffer(5, {"x": (2,)}, {"x": np.float64}).store(data)


def test_bad_arguments_are_refused():
    with pytest.raises(KeyError, match="different keys"):
        Buffer(1, {"x": ()}, {"y": int})
    with pytest.raises(ValueError, match="capacity"):
        Buffer(0, {}, {})
    with pytest.raises(ValueError, match="buffer is empty"):
        Buffer(1, {"x": ()}, {"x": int}).sample(1)
    with pytest.raises(ValueError, match=r"\[1, 2\]"):
        num_samples({"x": np.zeros(1), "y": np.zeros(2)})
    with pytest.raises(ValueError, match="empty"):
        Buffer.from_data({"x": np.zeros(0)})


def transitions(n):
    return Transitions(
        obs=np.arange(n, dtype=np.float32)[:, None],
        acts=np.arange(n),
        infos=np.array([{"i": i} for i in range(n)]),
        next_obs=np.arange(1, n + 1, dtype=np.float32)[:, None],
        dones=np.arange(n) % 3 == 0,
    )


def test_fields_of_sampled_transitions_stay_aligned():
    buffer = ReplayBuffer.from_data(transitions(10), capacity=20)
    assert (buffer.size(), buffer.capacity) == (10, 20)
    drawn = buffer.sample(50, np.random.default_rng(0))
    assert drawn.obs.dtype == np.float32
    np.testing.assert_array_equal(drawn.obs[:, 0], drawn.acts)
    np.testing.assert_array_equal(drawn.next_obs, drawn.obs + 1)
    np.testing.assert_array_equal(drawn.dones, drawn.acts % 3 == 0)
    assert [info["i"] for info in drawn.infos] == drawn.acts.tolist()


def test_more_transitions_than_capacity_need_truncate_ok():
    with pytest.raises(ValueError, match="capacity 5"):
        ReplayBuffer.from_data(transitions(10), capacity=5)
    buffer = ReplayBuffer.from_data(transitions(10), capacity=5, truncate_ok=True)
    assert set(buffer.sample(200, np.random.default_rng(0)).acts) == {5, 6, 7, 8, 9}


def test_shapes_come_from_an_environment_or_are_given():
    venv = make_vec_env("Pendulum-v1", rng=np.random.default_rng(0), n_envs=1)
    assert ReplayBuffer(3, venv).size() == 0
    with pytest.raises(ValueError, match="not both"):
        ReplayBuffer(3, venv, obs_shape=(1,))
    with pytest.raises(ValueError, match="obs_dtype"):
        ReplayBuffer(3, obs_shape=(1,), act_shape=())
    venv.close()
