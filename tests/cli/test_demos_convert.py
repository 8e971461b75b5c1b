"""`imitbench demos convert` and `imitbench demos validate`, as people run them."""

import json
import pickle

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.minari_sets import record

from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.sources import open_trajectories


@pytest.fixture
def archive(shared_dir):
    return shared_dir / "legacy-fixtures" / "expert_models_cartpole_0_rollouts_final.npz"


def test_convert_then_validate_then_show(imitbench, tmp_path, archive):
    done = imitbench(
        "demos", "convert", archive, "demos/CartPole", "--env", "CartPole-v1", "--json"
    )
    assert done.code == 0
    summary = json.loads(done.out)
    assert (summary["rows"], summary["steps"]) == (57, 26964)
    assert "infos are pickled" in done.err
    assert "57 trajectories, 26964 steps, 1 files" in done.err
    assert len(read_demonstrations(tmp_path / "demos" / "CartPole")) == 57
    checked = imitbench("demos", "validate", "demos/CartPole", "--env", "CartPole-v1", "--strict")
    assert (checked.code, checked.out) == (0, "")
    assert "no problems" in checked.err
    shown = imitbench("demos", "show", "demos/CartPole", "--json")
    assert json.loads(shown.out)["n_traj"] == 57


def test_trust_limit_force_and_quiet(imitbench, tmp_path, archive):
    first = imitbench("demos", "convert", archive, "out", "--trust", "--limit", 5, "--quiet")
    assert (first.code, first.out, first.err) == (0, "", "")
    assert len(read_demonstrations(tmp_path / "out")) == 5
    again = imitbench("demos", "convert", "out", "out", "--force", "--limit", 2, "--float32")
    assert again.code == 0
    assert len(read_demonstrations(tmp_path / "out")) == 2


def test_bad_input_is_one_line(refused, tmp_path, archive):
    assert "expected IN and OUT" in refused("demos", "convert", archive)
    assert "expected OUT alone" in refused("demos", "convert", "a", "b", "--source", "minari:x-v0")
    assert "must be minari:NAME" in refused("demos", "convert", "b", "--source", "hub")
    assert "neither a path nor one of the bundled" in refused("demos", "convert", "absent", "out")
    (tmp_path / "rollouts.pkl").write_bytes(pickle.dumps([1]))
    assert "--trust" in refused("demos", "convert", "rollouts.pkl", "out")
    line = refused("demos", "convert", "ppo-seals-CartPole-v0", "out", "--env", "Pendulum-v1")
    assert "episode 0: observations have shape (4,) each, the environment has (3,)" in line
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x").touch()
    assert "exists already" in refused("demos", "convert", "ppo-seals-CartPole-v0", "there")
    assert "is it a data set folder" in refused("demos", "validate", "there")
    assert not (tmp_path / "out").exists()


def test_validate_names_rows_with_exit_code_1(imitbench, tmp_path):
    table = pa.table(
        {
            "obs": [[[0.0] * 4] * 3, [[float("nan")] * 4] * 3, [[9.0] * 4] * 3],
            "acts": [[0, 1], [0, 1], [0, 2]],
            "terminal": [True] * 3,
            "rews": [[1.0, 1.0]] * 3,
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    answer = imitbench("demos", "validate", "a.parquet", "--env", "CartPole-v1")
    assert answer.code == 1
    first, second = answer.out.splitlines()
    assert first.startswith("episode 1: observations are not finite at step 0")
    assert second.startswith("episode 2: actions hold 2 at step 1")
    assert "note: episode 2: observations leave the bounds" in answer.err
    document = json.loads(imitbench("demos", "validate", "a.parquet", "--json", "--limit", 1).out)
    assert document["valid"] is True
    bounded = imitbench("demos", "validate", "a.parquet", "--json", "--env", "CartPole-v1")
    assert (bounded.code, json.loads(bounded.out)["valid"]) == (1, False)


def test_notes_count_when_strict(imitbench, tmp_path):
    table = pa.table(
        {"obs": [np.zeros((3, 4)).tolist()], "acts": [[0, 1]], "terminal": [False],
         "rews": [[1.0, 1.0]]}
    )  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    assert imitbench("demos", "validate", "a.parquet").code == 0
    assert imitbench("demos", "validate", "a.parquet", "--strict").code == 1


def test_sets_of_minari(imitbench, refused, tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    record("test/cartpole-v0", gym.make("CartPole-v1").unwrapped, episodes=4)
    done = imitbench(
        "demos", "convert", "--source", "minari:test/cartpole-v0", "out", "--env", "CartPole-v1"
    )
    assert done.code == 0, done.err
    assert len(read_demonstrations(tmp_path / "out")) == 4
    assert "# Demonstrations on CartPole-v1" in (tmp_path / "out" / "README.md").read_text()
    assert imitbench("demos", "validate", "minari:test/cartpole-v0").code == 0
    line = refused("demos", "convert", "minari:test/cartpole-v9", "other")
    assert "did you mean 'test/cartpole-v0'" in line


def test_actions_beyond_the_bounds_of_the_environment_are_noted(imitbench, tmp_path):
    ends = np.arange(6) % 3 == 2
    arrays = {"observations": np.zeros((6, 3), np.float32), "terminals": ends}
    np.savez(tmp_path / "a.npz", actions=np.full((6, 1), 6.0, np.float32), **arrays)
    answer = imitbench("demos", "convert", "a.npz", "out", "--env", "Pendulum-v1")
    assert answer.code == 0
    assert "note: episode 0: actions leave the bounds of the environment: 6 at" in answer.err
    assert "bounds -2 to 2 (2 episodes in all)" in answer.err


@pytest.mark.parametrize("kind", [np.int64, np.float32])
def test_discrete_actions_in_lists_of_one_are_accepted(kind, imitbench, tmp_path):
    arrays = {"obs": np.zeros((4, 4), np.float32), "dones": np.arange(4) == 3}
    np.savez(tmp_path / "a.npz", chosen=np.ones((4, 1), kind), **arrays)
    rename = ("--rename", "chosen=acts")
    answer = imitbench("demos", "convert", "a.npz", "out", "--env", "CartPole-v1", *rename)
    assert answer.code == 0, answer.err
    [episode] = open_trajectories(tmp_path / "out").read()
    assert (episode.acts.dtype, episode.acts.shape) == (np.int64, (4,))


def test_arrays_are_renamed_wherever_files_are_read(imitbench, refused, tmp_path):
    arrays = {"obs": np.zeros((4, 4), np.float32), "dones": np.arange(4) == 3}
    np.savez(tmp_path / "a.npz", chosen=np.ones(4, np.int64), gains=np.ones(4), **arrays)
    rename = ("--rename", "chosen=acts", "--rename", "gains=rewards")
    for words in (
        ("demos", "export", "a.npz", "out.csv"),
        ("demos", "validate", "a.npz"),
        ("demos", "show", "a.npz"),
        ("init-suite", "mine", "--from-demos", "a.npz", "--env", "CartPole-v1"),
    ):
        refused(*words)
        answer = imitbench(*words, *rename)
        assert answer.code == 0, answer.err
    [episode] = open_trajectories(tmp_path / "out.csv").read()
    assert (episode.acts.tolist(), episode.rews.tolist()) == ([1] * 4, [1.0] * 4)
    assert "--rename: needs --from-demos" in refused("init-suite", "other", *rename)


def test_rename_needs_two_names(refused):
    assert "--rename obs: must be NAME=NAME" in refused(
        "demos", "convert", "a.npz", "out", "--rename", "obs"
    )
