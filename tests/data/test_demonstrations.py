import subprocess
import sys

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from imitbench.data.demonstration_checks import validate_demonstrations
from imitbench.data.demonstrations import (
    read_demonstrations,
    write_demonstrations,
)
from imitbench.data.trajectories import Trajectory
from imitbench.errors import InputError


def refusal(call, *args, **kwargs):
    """The one-line message of a refusal."""
    with pytest.raises(InputError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("act_shape", [(), (3,)])
def test_demonstrations_survive_the_round_trip(tmp_path, trajectories, act_shape):
    made = trajectories(act_shape)
    path = write_demonstrations(tmp_path, made)
    assert path == tmp_path / "data" / "train-00000-of-00001.parquet"
    assert read_demonstrations(tmp_path) == made
    assert read_demonstrations(path) == made


def test_the_same_demonstrations_give_the_same_bytes(tmp_path, trajectories):
    first = write_demonstrations(tmp_path / "a", trajectories()).read_bytes()
    assert write_demonstrations(tmp_path / "b", trajectories()).read_bytes() == first
    assert [p.name for p in (tmp_path / "a" / "data").iterdir()] == ["train-00000-of-00001.parquet"]


def test_other_tools_read_the_features(tmp_path, trajectories):
    import datasets

    path = write_demonstrations(tmp_path, trajectories())
    loaded = datasets.load_dataset(
        "parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache")
    )
    row = loaded[0]
    assert np.array_equal(np.array(row["obs"], np.float32), trajectories()[0].obs)
    assert row["infos"] == ["{}"] * 3
    schema = pq.read_schema(path)
    assert str(schema.field("obs").type) == "list<element: list<element: float>>"
    assert str(schema.field("acts").type) == "list<element: int64>"
    assert str(schema.field("rews").type) == "list<element: double>"
    assert loaded.features["rews"].feature.dtype == "float64"


def test_shards_are_read_in_order_and_must_be_complete(tmp_path, trajectories):
    made = trajectories()
    second = write_demonstrations(tmp_path, made[1:], shard="train-00001-of-00002")
    assert "not one complete data set" in refusal(read_demonstrations, tmp_path)
    write_demonstrations(tmp_path, made[:1], shard="train-00000-of-00002")
    assert read_demonstrations(tmp_path) == made
    write_demonstrations(tmp_path, made[:1])
    assert "not one complete data set" in refusal(read_demonstrations, tmp_path)
    assert read_demonstrations(second) == made[1:]


def test_demonstrations_need_rewards(tmp_path, trajectories):
    first = trajectories()[0]
    bare = Trajectory(first.obs, first.acts, None, True)
    assert "trajectory 1 has no rewards" in refusal(write_demonstrations, tmp_path, [first, bare])
    assert "no trajectories" in refusal(write_demonstrations, tmp_path, [])
    assert not list(tmp_path.iterdir())


def test_missing_paths_and_empty_data_sets_are_refused(tmp_path):
    assert "no such file or folder" in refusal(read_demonstrations, tmp_path / "absent")
    assert "no file data/train-*.parquet" in refusal(read_demonstrations, tmp_path)
    empty = pa.table(
        {
            "obs": pa.array([], pa.list_(pa.list_(pa.float32()))),
            "acts": pa.array([], pa.list_(pa.int64())),
            "terminal": pa.array([], pa.bool_()),
            "rews": pa.array([], pa.list_(pa.float64())),
        }
    )
    pq.write_table(empty, tmp_path / "empty.parquet")
    assert "no trajectories" in refusal(read_demonstrations, tmp_path / "empty.parquet")


def test_missing_columns_are_named(tmp_path):
    pq.write_table(pa.table({"obs": [[1.0]], "reward": [1.0]}), tmp_path / "other.parquet")
    message = refusal(read_demonstrations, tmp_path / "other.parquet")
    assert "no column acts, terminal among obs, reward" in message


def test_damage_anywhere_in_the_numbers_is_detected(tmp_path, trajectories):
    path = write_demonstrations(tmp_path, trajectories((3,)))
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    assert footer > 500
    for place in range(4, footer, 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            back = read_demonstrations(path)
        except InputError as error:
            assert "\n" not in str(error)
        else:  # in a column that is not read, or in a header that does not matter
            assert back == trajectories((3,))


@pytest.mark.parametrize("kept", [0, 3, 0.3, 0.9, 0.999])
def test_truncated_files_are_refused(tmp_path, trajectories, kept):
    path = write_demonstrations(tmp_path, trajectories())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if kept < 1 else kept])
    assert "not readable as Parquet" in refusal(read_demonstrations, path)


@pytest.mark.parametrize(
    ("name", "environment", "rows", "steps", "mean_return"),
    [
        ("ppo-seals-CartPole-v0", "CartPole-v1", 24, 500, 500.0),
        ("ppo-Pendulum-v1", "Pendulum-v1", 32, 200, None),
    ],
)
def test_real_data_sets_are_read_and_rewritten_unchanged(
    shared_dir, tmp_path, name, environment, rows, steps, mean_return
):
    folder = shared_dir / "hub-fixtures" / "imitation" / "datasets" / name
    made = read_demonstrations(folder)
    assert len(made) == rows
    assert {len(t) for t in made} == {steps}
    returns = [t.rews.sum() for t in made]
    if mean_return is None:
        assert -250 < np.mean(returns) < -130
    else:
        assert np.mean(returns) == mean_return
    env = gym.make(environment)
    validate_demonstrations(made, env.observation_space, env.action_space, where=str(folder))
    table = pq.read_table(folder / "data" / "train-00000-of-00001.parquet")
    assert made[-1].obs.tolist() == table["obs"][-1].as_py()
    write_demonstrations(tmp_path, made)
    assert read_demonstrations(tmp_path) == made


def test_neither_torch_nor_datasets_is_imported():
    code = (
        "import sys, imitbench.data.demonstrations; "
        "sys.exit(bool({'torch', 'datasets'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
