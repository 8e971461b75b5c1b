"""Labels in the format of Uni-RLHF are read as data, and cut from a D4RL data set."""

import pickle

import numpy as np
import pytest
from support.bombs import Bomb

from imitbench.data.preference_table import read_preferences
from imitbench.errors import InputError
from imitbench.labelling.exchange import DATA_FILE
from imitbench.labelling.human_preferences import (
    read_d4rl,
    read_human_preferences,
    to_rows,
    write_imported,
)

h5py = pytest.importorskip("h5py")
SUFFIX = "domain_mujoco_env_hopper-medium-v2_num_4_len_5_0123456789abcdef.pkl"
LABELS = np.array([0, 1, -1, 0])
FIRST, SECOND = np.array([0, 6, 12, 3]), np.array([20, 2, 30, 11])
STEPS, CUT = 60, 14  # the step after which an episode was cut


def write_task(folder, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"human_label": LABELS, "indices_1": FIRST, "indices_2": SECOND} | changes
    for number, (name, array) in enumerate(arrays.items()):
        content = array if isinstance(array, bytes) else pickle.dumps(array, protocol=2 + number)
        (folder / f"{name}_{SUFFIX}").write_bytes(content)
    return folder


@pytest.fixture
def steps_file(tmp_path):
    path = tmp_path / "hopper.hdf5"
    with h5py.File(path, "w") as file:
        file["observations"] = np.arange(STEPS * 2, dtype=np.float32).reshape(STEPS, 2)
        file["actions"] = -np.arange(STEPS, dtype=np.float32)[:, None]
        file["rewards"] = np.arange(STEPS, dtype=np.float32)
        file["terminals"] = np.zeros(STEPS, dtype=bool)
        file["timeouts"] = np.arange(STEPS) == CUT
    return path


def test_labels_are_read_from_a_folder_and_from_its_parent(tmp_path):
    folder = write_task(tmp_path / "labels" / "hopper-medium-v2_human_labels")
    for place in (folder, folder.parent):
        [task] = read_human_preferences(place)
        assert (task.domain, task.env, task.length, task.human) == (
            "mujoco", "hopper-medium-v2", 5, True,
        )  # fmt: skip
        np.testing.assert_array_equal(task.labels, LABELS)
        np.testing.assert_array_equal(task.second, SECOND)


def test_segments_are_numbered_without_the_steps_at_which_episodes_were_cut(tmp_path, steps_file):
    [task] = read_human_preferences(write_task(tmp_path / "task"))
    rows = to_rows(task, read_d4rl(steps_file))
    assert [row.preference for row in rows] == [1.0, 0.0, 0.5, 1.0]
    np.testing.assert_array_equal(rows[0].first.rews, np.arange(5))
    # Step 14 of the file is left out, so that step 20 there is step 21 of the file.
    np.testing.assert_array_equal(rows[0].second.rews, np.arange(21, 26))
    np.testing.assert_array_equal(rows[2].first.rews, [12, 13, 15, 16, 17])
    np.testing.assert_array_equal(rows[0].second.obs[-1], [52, 53])  # after step 25
    assert len(rows[0].second.obs) == 6


def test_an_import_is_read_again(tmp_path, steps_file):
    [task] = read_human_preferences(write_task(tmp_path / "task"))
    rows = to_rows(task, read_d4rl(steps_file))
    digest = write_imported(task, rows, tmp_path / "out")
    again = read_preferences(tmp_path / "out" / DATA_FILE)
    assert [(row.pair, row.preference) for row in again] == [
        (row.pair, row.preference) for row in rows
    ]
    assert digest in (tmp_path / "out" / "README.md").read_text()


def test_a_pickle_that_would_execute_code_is_refused_unexecuted(tmp_path):
    mark = tmp_path / "executed"
    folder = write_task(tmp_path / "task", indices_2=pickle.dumps(Bomb(mark)))
    with pytest.raises(InputError, match="it was not executed"):
        read_human_preferences(folder)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"human_label": np.array([0, 1, 2, 0])}, "label 2 is none of 0, 1 and -1"),
        ({"human_label": np.array([0, 1])}, "not 4 integers"),
        ({"human_label": np.array([0.0, 1, 0, 1])}, "not 4 integers"),
        ({"indices_1": np.array([0, -6, 12, 3])}, "before the first step"),
        ({"indices_1": b"\x80\x04 damaged"}, "not a pickled array"),
    ],
)
def test_damaged_labels_are_told(tmp_path, changes, told):
    with pytest.raises(InputError, match=told):
        read_human_preferences(write_task(tmp_path / "task", **changes))


def test_a_missing_file_and_an_empty_folder_are_told(tmp_path):
    folder = write_task(tmp_path / "task")
    (folder / f"indices_2_{SUFFIX}").unlink()
    with pytest.raises(InputError, match="has no file indices_2_"):
        read_human_preferences(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no human_label_domain_"):
        read_human_preferences(tmp_path / "empty")


def test_another_data_set_is_told(tmp_path, steps_file):
    [task] = read_human_preferences(write_task(tmp_path / "task", indices_1=FIRST + 100))
    with pytest.raises(InputError, match="name the data set hopper-medium-v2"):
        to_rows(task, read_d4rl(steps_file))
