"""The folder of recorded episodes is a data set at any moment."""

import errno
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.recording import UNEVEN, Point, act, session_in, store_of, task_of

from imitbench.data.inspection import inspect_demonstrations
from imitbench.data.sources import open_trajectories
from imitbench.errors import InputError
from imitbench.recording import episode_store
from imitbench.recording.session import NotNowError


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "set"
    with session_in(folder) as (session, _):
        for length in (3, 5):
            act(session, length)
            session.perform("keep")
    return folder


@pytest.fixture
def folder(recorded, tmp_path):
    return shutil.copytree(recorded, tmp_path / "set")


def test_it_is_a_valid_data_set_with_a_card(folder):
    found = inspect_demonstrations(open_trajectories(folder))
    assert (found.problems, found.rows, found.steps) == ([], 2, 8)
    card = (folder / "README.md").read_text()
    assert "| trajectories | 2 |" in card
    assert "asked for 20 steps per second; reached 20.00 to 20.00 per episode" in card
    assert "success (a step says is_success): 0 of 2" in card


def test_an_episode_is_flushed_before_it_counts(tmp_path, flushed):
    with session_in(tmp_path / "to") as (session, store):
        act(session, 3)
        session.perform("keep")
        names = [path.name for path, _ in flushed if path.name.startswith(".train-00000.parquet")]
        assert names
        data = tmp_path / "to" / "data"
        assert any(path == data and "train-00000.parquet" in beside for path, beside in flushed)
        assert len(store) == 1


def test_what_a_killed_process_left_is_removed_and_the_card_completed(folder):
    (folder / "data" / ".train-00002.parquet.abc123.tmp").write_bytes(b"half")
    card = (folder / "README.md").read_text()
    (folder / "README.md").unlink()
    assert len(open_trajectories(folder)) == 2  # already before the next start
    task = task_of()
    store = store_of(folder, task)
    store.close()
    names = [path.name for path in (folder / "data").iterdir()]
    assert sorted(names) == ["train-00000.parquet", "train-00001.parquet"]
    assert (folder / "README.md").read_text() == card


def test_a_folder_is_open_once(folder):
    store = store_of(folder, task_of())
    with pytest.raises(InputError, match="another recording has this folder open"):
        store_of(folder, task_of())
    store.close()
    store_of(folder, task_of()).close()


def test_data_of_another_environment_is_refused(folder):
    with pytest.raises(InputError, match=r"holds episodes of .*Point-v0, not of .*Uneven-v0"):
        store_of(folder, task_of(UNEVEN))
    store_of(folder, task_of()).close()


@pytest.mark.parametrize("name", ["notes.txt", "data/train-00000-of-00001.parquet", "data/x"])
def test_what_is_no_recording_is_refused(folder, name):
    shutil.copy(folder / "data" / "train-00000.parquet", folder / name)
    with pytest.raises(InputError, match=r"holds '.*', which is no part of a recording"):
        store_of(folder, task_of())


def test_a_data_set_that_was_not_recorded_is_refused(folder):
    path = folder / "data" / "train-00001.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    with pytest.raises(InputError, match="no part of a recording"):
        store_of(folder, task_of())


def test_a_folder_without_episodes_is_not_left_behind(tmp_path):
    store_of(tmp_path / "to", task_of()).close()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"--to .*file: cannot be written"):
        store_of(tmp_path / "file", task_of())


def test_an_episode_whose_card_cannot_be_written_is_kept_once(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with session_in(tmp_path / "to") as (session, store):
        act(session, 3)
        with monkeypatch.context() as disk:
            disk.setattr(episode_store, "atomic_write_text", full)
            assert session.perform("keep") == "Episode 1 of 3 kept."
        act(session, 4)
        session.perform("keep")
        assert [len(episode) for episode in open_trajectories(store.folder)] == [3, 4]
    assert "| trajectories | 2 |" in (tmp_path / "to" / "README.md").read_text()


def test_an_episode_that_does_not_fit_is_not_left_in_the_folder(folder, monkeypatch):
    with session_in(folder) as (session, store):
        monkeypatch.setattr(Point, "_observe", lambda _: np.zeros(3))
        session.perform("discard")
        act(session, 3)
        with pytest.raises(NotNowError, match="observations are float64"):
            session.perform("keep")
        assert len(store) == 2
    store_of(folder, task_of()).close()
    assert len(open_trajectories(folder)) == 2
