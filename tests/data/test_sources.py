import dataclasses
import json
import pickle
import sys
import types

import numpy as np
import pytest

from imitbench.data import serialize
from imitbench.data.demonstrations import write_demonstrations
from imitbench.data.sources import open_trajectories
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew
from imitbench.errors import InputError


def refusal(path, **options):
    with pytest.raises(InputError) as caught:
        open_trajectories(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["ppo-Pendulum-v1", "ppo-seals-CartPole-v0"])
def test_both_folder_layouts_give_the_same_trajectories(shared_dir, name):
    hub = open_trajectories(shared_dir / "hub-fixtures" / "imitation" / "datasets" / name)
    legacy = open_trajectories(shared_dir / "legacy-fixtures" / "datasets_disk" / name)
    assert (hub.form, legacy.form) == ("Parquet", "datasets folder")
    assert hub.read(with_infos=True) == legacy.read(with_infos=True)
    (arrow,) = (shared_dir / "legacy-fixtures" / "datasets_disk" / name).glob("*.arrow")
    assert open_trajectories(arrow).read() == hub.read()


def test_an_old_archive_is_read_with_and_without_infos(shared_dir):
    path = shared_dir / "legacy-fixtures" / "expert_models_cartpole_0_rollouts_final.npz"
    trusted = open_trajectories(path, trust=True).read(with_infos=True)
    with pytest.warns(UserWarning, match="skipped"):
        bare = open_trajectories(path)
    assert len(bare) == len(trusted) == 57
    assert [dataclasses.replace(each, infos=None) for each in trusted] == bare.read()
    assert {len(each.infos) - len(each) for each in trusted} == {0}


def test_an_archive_of_one_trajectory_is_read(tmp_path, trajectories):
    first, fragment, _ = trajectories()
    for made in (first, fragment):
        np.savez(
            tmp_path / "a.npz", obs=made.obs, acts=made.acts, rews=made.rews, terminal=made.terminal
        )
        assert open_trajectories(tmp_path / "a.npz").read() == [made]
    np.savez_compressed(tmp_path / "a.npz", obs=first.obs, acts=first.acts, terminal=True)
    assert open_trajectories(tmp_path / "a.npz").read() == [
        Trajectory(first.obs, first.acts, None, True)
    ]


def test_the_train_split_of_several_is_read(tmp_path, trajectories):
    made = trajectories()
    serialize.save(tmp_path / "train", made)
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert open_trajectories(tmp_path).read() == made
    (tmp_path / "train").rename(tmp_path / "test")
    assert "no split 'train' among train, test" in refusal(tmp_path)
    (tmp_path / "dataset_dict.json").write_text("{")
    assert "damaged data set" in refusal(tmp_path)


def test_formats_are_detected_by_content(tmp_path, trajectories):
    made = trajectories()
    write_demonstrations(tmp_path, made).rename(tmp_path / "no-suffix")
    assert open_trajectories(tmp_path / "no-suffix").form == "Parquet"
    serialize.save(tmp_path / "a", made)
    (tmp_path / "a" / "data-00000-of-00001.arrow").rename(tmp_path / "b")
    assert open_trajectories(tmp_path / "b").read() == made


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"unknown format '.dat' (empty): expected a folder"),
        (b"hello world", "starts with b'hello '"),
        (b"\x89HDF\r\n", "not readable as HDF5"),
        (b"\x80\x04]", "can execute any code"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "a.dat").write_bytes(content)
    if content.startswith(b"\x89HDF"):
        pytest.importorskip("h5py")
    assert message in refusal(tmp_path / "a.dat")


def test_other_folders_are_refused_in_one_line(tmp_path):
    assert "holds nothing" in refusal(tmp_path)
    (tmp_path / "run.json").touch()
    (tmp_path / "plots").mkdir()
    assert "holds plots/, run.json, and neither data/train-*.parquet" in refusal(tmp_path)
    assert "no such file or folder" in refusal(tmp_path / "absent")


@pytest.fixture
def reference_types(monkeypatch):
    """Classes that pickle under the names of the reference library's."""
    module = types.ModuleType("imitation.data.types")
    for name, kind in (("Trajectory", Trajectory), ("TrajectoryWithRew", TrajectoryWithRew)):
        fields = [field.name for field in dataclasses.fields(kind)]
        made = dataclasses.make_dataclass(name, fields, frozen=True)
        made.__module__ = module.__name__
        setattr(module, name, made)
    for name in ("imitation", "imitation.data"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ""])
def test_trusted_pickles_of_the_reference_library_are_read(
    tmp_path, reference_types, monkeypatch, trajectories, protocol, suffix
):
    made = trajectories()
    infos = [{"a": np.float32(1.5), "flag": True, "odd": protocol} for _ in range(3)]
    pickled = [
        reference_types.TrajectoryWithRew(t.obs, t.acts, None, t.terminal, t.rews) for t in made
    ]
    pickled[0] = dataclasses.replace(pickled[0], infos=np.array(infos))
    path = tmp_path / f"final{suffix}"
    path.write_bytes(pickle.dumps(pickled, protocol=protocol))
    monkeypatch.undo()  # reading them does not need the reference library
    source = open_trajectories(path, trust=True)
    assert source.form == "pickle"
    first, *rest = source.read()
    assert rest == made[1:]
    assert first.infos.tolist() == infos
    assert dataclasses.replace(first, infos=None) == made[0]
    assert "can execute any code" in refusal(path)


def test_pickles_without_rewards_are_read(tmp_path, reference_types, trajectories):
    made = [Trajectory(t.obs, t.acts, None, t.terminal) for t in trajectories()]
    pickled = [reference_types.Trajectory(t.obs, t.acts, None, t.terminal) for t in made]
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(pickled))
    assert open_trajectories(tmp_path / "a.pkl", trust=True).read() == made


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps({"a": 1}), "holds a dict, not a list of trajectories"),
        (pickle.dumps([]), "no trajectories in it"),
        (pickle.dumps([1, 2]), "episode 0: not a trajectory (a int)"),
        (pickle.dumps([np.zeros(3)]), "episode 0: not a trajectory (a ndarray)"),
        (b"\x80\x04", "not pickled trajectories"),
        (b"", "not pickled trajectories"),
        (b"garbage", "not pickled trajectories"),
    ],
)
def test_other_pickles_are_refused(tmp_path, content, message):
    (tmp_path / "a.pkl").write_bytes(content)
    assert message in refusal(tmp_path / "a.pkl", trust=True)


def test_an_invalid_row_of_a_pickle_is_named(tmp_path, reference_types, trajectories):
    first = trajectories()[0]
    bad = reference_types.TrajectoryWithRew(first.obs[1:], first.acts, None, True, first.rews)
    good = reference_types.TrajectoryWithRew(first.obs, first.acts, None, True, first.rews)
    (tmp_path / "a.pkl").write_bytes(pickle.dumps([good, bad]))
    assert "episode 1: not a trajectory" in refusal(tmp_path / "a.pkl", trust=True)


def test_saved_folders_have_the_state_file_of_datasets(tmp_path, trajectories):
    serialize.save(tmp_path / "a", trajectories())
    state = json.loads((tmp_path / "a" / "state.json").read_text())
    assert [entry["filename"] for entry in state["_data_files"]] == ["data-00000-of-00001.arrow"]
