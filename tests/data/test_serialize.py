import dataclasses
import pickle
import shutil
import warnings

import numpy as np
import pytest

from imitbench.data import serialize
from imitbench.data.demonstrations import read_demonstrations, write_demonstrations
from imitbench.data.infos import OPAQUE
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew
from imitbench.errors import InputError

NAMES = ["ppo-Pendulum-v1", "ppo-seals-CartPole-v0"]


@pytest.fixture
def made(trajectories):
    return [
        dataclasses.replace(t, infos=np.array([{"i": i} for i in range(len(t))]))
        for t in trajectories()
    ]


def test_trajectories_survive_the_round_trip(tmp_path, made):
    for path in (tmp_path / "a", str(tmp_path / "b"), bytes(tmp_path / "c")):
        serialize.save(path, made)
        assert list(serialize.load(path)) == made
        assert list(serialize.load_with_rewards(path)) == made


def test_loaded_trajectories_can_be_saved_and_folders_overwritten(tmp_path, made):
    serialize.save(tmp_path / "a", made)
    serialize.save(tmp_path / "b", serialize.load(tmp_path / "a")[1:])
    assert list(serialize.load(tmp_path / "b")) == made[1:]
    serialize.save(tmp_path / "a", made[:1])
    assert list(serialize.load(tmp_path / "a")) == made[:1]


def test_rewards_are_required_only_on_request(tmp_path, made):
    plain = [Trajectory(t.obs, t.acts, t.infos, t.terminal) for t in made]
    serialize.save(tmp_path / "plain", plain)
    assert list(serialize.load(tmp_path / "plain")) == plain
    with pytest.raises(InputError, match="no rewards"):
        serialize.load_with_rewards(tmp_path / "plain")


def test_infos_that_json_cannot_hold_are_refused_by_key(tmp_path, made):
    bad = dataclasses.replace(made[0], infos=np.array([{}, {}, {"game": object()}]))
    with pytest.raises(ValueError, match="step 2, key 'game'"):
        serialize.save(tmp_path / "bad", [bad])
    assert not (tmp_path / "bad").exists()


def test_folders_and_files_in_the_hub_layout_are_loaded(tmp_path, made):
    file = write_demonstrations(tmp_path, made)
    assert list(serialize.load(tmp_path)) == made
    assert list(serialize.load_with_rewards(file)) == made


@pytest.mark.parametrize("name", NAMES)
def test_folders_of_the_reference_library_are_loaded(shared_dir, name):
    loaded = serialize.load_with_rewards(shared_dir / "legacy-fixtures" / "datasets_disk" / name)
    hub = shared_dir / "hub-fixtures" / "imitation" / "datasets" / name
    assert [dataclasses.replace(t, infos=None) for t in loaded] == read_demonstrations(hub)
    assert all(info == {} for info in loaded[0].infos)
    assert list(serialize.load(hub)) == list(loaded)


def test_old_archives_are_read_without_their_pickled_infos(shared_dir):
    path = shared_dir / "legacy-fixtures" / "expert_models_cartpole_0_rollouts_final.npz"
    with pytest.warns(UserWarning, match="infos are pickled"):
        loaded = serialize.load_with_rewards(path)
    assert len(loaded) == 57
    assert sum(map(len, loaded)) == 26964
    with np.load(path) as archive:
        assert np.array_equal(np.concatenate([t.obs for t in loaded]), archive["obs"])
        assert np.array_equal(np.concatenate([t.acts for t in loaded]), archive["acts"])
    assert all(t.infos is None and t.terminal for t in loaded)


class Bomb:
    """Fails the test when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


def archive_of(path, trajectories, **extra):
    """An archive as old versions of the reference library wrote them."""
    np.savez(
        path,
        obs=np.concatenate([t.obs for t in trajectories]),
        acts=np.concatenate([t.acts for t in trajectories]),
        rews=np.concatenate([t.rews for t in trajectories]),
        terminal=np.array([t.terminal for t in trajectories]),
        indices=np.cumsum([len(t) for t in trajectories])[:-1],
        **extra,
    )
    return path


def test_pickles_are_never_opened(tmp_path, trajectories):
    bombs = np.array([Bomb(), {}], dtype=object)
    path = archive_of(tmp_path / "a.npz", trajectories(), infos=bombs)
    with pytest.warns(UserWarning, match="skipped"):
        assert serialize.load(path) == trajectories()
    assert serialize.load(archive_of(tmp_path / "b.npz", trajectories(), extra=bombs))
    np.savez(tmp_path / "d.npz", obs=bombs, acts=np.zeros(1), terminal=[True], indices=[0])
    with pytest.raises(InputError, match="'obs' holds object, not numbers"):
        serialize.load(tmp_path / "d.npz")
    (tmp_path / "c.pkl").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(InputError, match="can execute any code"):
        serialize.load(tmp_path / "c.pkl")


def test_archives_without_infos_give_no_warning(tmp_path, trajectories):
    path = archive_of(tmp_path / "a.npz", trajectories())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert all(isinstance(t, TrajectoryWithRew) for t in serialize.load(path))


def test_damaged_archives_are_refused(tmp_path, trajectories):
    path = archive_of(tmp_path / "a.npz", trajectories())
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"damaged \.npz file"):
        serialize.load(path)
    np.savez(path, obs=np.zeros((2, 1)))
    with pytest.raises(InputError, match="no acts and no dones among obs"):
        serialize.load(path)
    np.savez(
        path, obs=np.zeros((2, 1)), acts=np.zeros(3), terminal=[True], indices=np.array([], int)
    )
    with pytest.raises(
        InputError, match="'obs' has 2 entries for 3 actions in 1 trajectories, not 4"
    ):
        serialize.load(path)


def test_jsonpickled_infos_stay_text_and_survive_saving(tmp_path):
    import datasets

    text = '{"a": {"py/reduce": [{"py/function": "os.abort"}, {"py/tuple": []}]}}'
    columns = {"obs": [[[0.0], [1.0]]], "acts": [[0]], "infos": [[text]], "terminal": [True]}
    datasets.Dataset.from_dict(columns).save_to_disk(str(tmp_path / "a"))
    (loaded,) = serialize.load(tmp_path / "a")
    assert loaded.infos.tolist() == [{OPAQUE: text}]
    serialize.save(tmp_path / "b", [loaded])
    assert datasets.load_from_disk(str(tmp_path / "b"))[0]["infos"] == [text]


def test_trusted_infos_are_decoded_to_objects(tmp_path, trajectories):
    import datasets
    import jsonpickle

    info = {"a": np.float32(0.5), "b": (1, 2)}
    columns = {
        "obs": [[[0.0], [1.0]]], "acts": [[0]], "infos": [[jsonpickle.encode(info)]],
        "terminal": [True],
    }  # fmt: skip
    datasets.Dataset.from_dict(columns).save_to_disk(str(tmp_path / "a"))
    (loaded,) = serialize.load(tmp_path / "a", trust=True)
    assert loaded.infos.tolist() == [info]
    assert type(loaded.infos[0]["b"]) is tuple

    made = trajectories()
    infos = np.empty(sum(map(len, made)), dtype=object)
    infos[:] = [{"step": step} for step in range(len(infos))]
    old = serialize.load(archive_of(tmp_path / "a.npz", made, infos=infos), trust=True)
    assert [info["step"] for t in old for info in t.infos] == list(range(len(infos)))


def test_damaged_folders_are_refused(tmp_path, made):
    folder = tmp_path / "a"
    serialize.save(folder, made)
    (data,) = folder.glob("*.arrow")
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(InputError, match="damaged data set"):
        serialize.load(folder)
    (folder / "state.json").write_text("{")
    with pytest.raises(InputError, match="damaged data set"):
        serialize.load(folder)
    shutil.rmtree(folder)
    with pytest.raises(InputError, match="no such file or folder"):
        serialize.load(folder)


def test_other_folders_and_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="is it a data set folder"):
        serialize.load(tmp_path)
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(InputError, match=r"unknown format '\.txt'"):
        serialize.load(tmp_path / "a.txt")
