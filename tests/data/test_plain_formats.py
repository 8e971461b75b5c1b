"""Plain arrays, CSV, JSON lines, episodes in a folder, robomimic and LeRobot are read whole."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.plain_sets import (
    episodes,
    steps,
    write_csv,
    write_lerobot,
    write_npy,
    write_robomimic,
)

from imitbench.data.conversion import convert_demonstrations, export_demonstrations
from imitbench.data.demonstrations import write_demonstrations
from imitbench.data.inspection import inspect_demonstrations
from imitbench.data.sources import open_trajectories
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.errors import InputError


def repeated(trajectories):
    """The trajectories as they are read where the last observation is unknown."""
    return [
        dataclasses.replace(t, obs=np.concatenate([t.obs[:-1], t.obs[-2:-1]])) for t in trajectories
    ]


def write(form, folder, arrays):
    if form == "npz":
        np.savez_compressed(folder / "set.npz", **arrays)
        return folder / "set.npz"
    if form == "npy":
        write_npy(folder / "set", arrays)
        return folder / "set"
    write_csv(folder / "set.csv", arrays)
    return folder / "set.csv"


FORMS = pytest.mark.parametrize("form", ["npz", "npy", "csv"])


@FORMS
@pytest.mark.parametrize("acts", [None, 2])
def test_arrays_of_steps_are_the_episodes_that_they_were_cut_from(form, acts, tmp_path):
    made = episodes(acts=acts)
    source = open_trajectories(write(form, tmp_path, steps(made)))
    assert source.read() == made
    assert (len(source), source.notes) == (2, ())
    assert source.read(limit=1) == made[:1]


@pytest.mark.parametrize("name", ["obs", "acts", "next_obs"])
def test_arrays_that_are_laid_out_by_columns_are_read_like_others(name, tmp_path):
    made = episodes(acts=2)
    arrays = steps(made)
    arrays[name] = np.asfortranarray(arrays[name])
    assert open_trajectories(write("npz", tmp_path, arrays)).read() == made


@pytest.mark.skipif(np.longdouble(0).itemsize == 8, reason="has no wider numbers")
@pytest.mark.parametrize("form", ["npz", "npy"])
@pytest.mark.parametrize("name", ["obs", "acts"])
def test_numbers_wider_than_those_of_tables_are_refused(form, name, tmp_path):
    arrays = steps(episodes(acts=2))
    arrays[name] = arrays[name].astype(np.longdouble)
    source = open_trajectories(write(form, tmp_path, arrays))
    for refuse in (
        lambda: convert_demonstrations(source, tmp_path / "out"),
        lambda: export_demonstrations(source, tmp_path / "out.jsonl"),
    ):
        with pytest.raises(InputError, match=r"episode 0: .* have data type .*: store them as fl"):
            refuse()
    assert inspect_demonstrations(source).problems


@FORMS
def test_without_next_obs_the_last_observation_is_repeated_and_a_note_says_so(form, tmp_path):
    made = episodes()
    source = open_trajectories(write(form, tmp_path, steps(made, next_obs=False)))
    assert source.read() == repeated(made)
    assert "last observation of each episode is repeated" in source.notes[0]


@FORMS
def test_without_rewards_there_are_none(form, tmp_path):
    made = episodes()
    found = open_trajectories(write(form, tmp_path, steps(made, rewards=False))).read()
    assert [t.obs.tolist() for t in found] == [t.obs.tolist() for t in made]
    assert not any(isinstance(t, TrajectoryWithRew) for t in found)


@FORMS
def test_an_episode_that_is_cut_off_is_a_fragment(form, tmp_path):
    arrays = steps(episodes())
    arrays["dones"][-1] = False
    assert [t.terminal for t in open_trajectories(write(form, tmp_path, arrays)).read()] == [
        True,
        False,
    ]


@FORMS
def test_numbers_of_episodes_stand_in_for_dones(form, tmp_path):
    made = episodes()
    arrays = steps(made)
    arrays["episode"] = np.repeat([7, 8], [3, 5])
    del arrays["dones"]
    assert open_trajectories(write(form, tmp_path, arrays)).read() == made


@FORMS
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("dones"), "no dones among"),
        (lambda a: a.pop("acts"), "no acts among"),
        (lambda a: a.update(dones=a["dones"] * 2), "dones is 2 at step 2: it must be 1"),
    ],
)
def test_arrays_that_are_no_demonstrations_are_refused(form, change, message, tmp_path):
    arrays = steps(episodes())
    change(arrays)
    with pytest.raises(InputError, match=message):
        open_trajectories(write(form, tmp_path, arrays))


@pytest.mark.parametrize("form", ["npz", "npy"])
def test_arrays_of_different_lengths_are_refused(form, tmp_path):
    arrays = steps(episodes())
    arrays["rewards"] = arrays["rewards"][:-1]
    with pytest.raises(InputError, match="rewards has 7 rows and acts 8"):
        open_trajectories(write(form, tmp_path, arrays))


def test_pickled_arrays_are_refused(tmp_path):
    arrays = {**steps(episodes()), "acts": np.array([{}] * 8, dtype=object)}
    for form in ("npz", "npy"):
        with pytest.raises(InputError, match=r"numbers|Object arrays"):
            open_trajectories(write(form, tmp_path, arrays))


def test_a_name_that_nearly_fits_is_suggested_and_others_are_noted(tmp_path):
    arrays = steps(episodes())
    np.savez(tmp_path / "a.npz", **arrays, speed=np.zeros(3))
    assert "not read: speed" in open_trajectories(tmp_path / "a.npz").notes
    arrays["done"] = arrays.pop("dones")
    np.savez(tmp_path / "b.npz", **arrays)
    with pytest.raises(InputError, match="did you mean 'done'"):
        open_trajectories(tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("obs_0,acts,dones\n1,0,1\n2,x,1\n", "line 3: acts is 'x': write a number"),
        ("obs_0,acts,dones\n1,0\n", "not readable as CSV"),
        ("obs_0,acts,dones\n1,,1\n", "line 2: acts is empty"),
        ("obs_1,acts,dones\n1,0,1\n", "no obs_0: number them from 0"),
        ("obs,obs_0,acts,dones\n1,1,0,1\n", "has columns obs and obs_0"),
        ("obs,acts,acts,dones\n1,1,0,1\n", "'acts' appears twice"),
        ("obs,acts,dones\n", "has no steps"),
        ("", "not readable as CSV"),
    ],
)
def test_tables_that_are_no_demonstrations_are_refused(text, message, tmp_path):
    (tmp_path / "set.csv").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        open_trajectories(tmp_path / "set.csv")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: is not JSON"),
        ("[1]", "line 1: is not an object"),
        ('{"obs":[[1],[2]]}', "line 1: no acts"),
        ('{"obs":[[1],[2]],"acts":[0],"reward":[1]}', "unknown key 'reward'; did you mean"),
        ('{"obs":[[1],[2,3]],"acts":[0]}', "line 1: obs is not a list of numbers"),
        ('{"obs":[[1],[2]],"acts":["up"]}', "line 1: acts is not a list of numbers"),
        (f'{{"obs":[[1],[2]],"acts":[{2**63}]}}', "line 1: acts is not a list of numbers"),
        ('{"obs":[[1],[2]],"acts":[0],"terminal":1}', "terminal is 1: write true or false"),
        ('{"obs":[[1]],"acts":[0]}', "one observation more than actions"),
        ("", "is empty"),
    ],
)
def test_lines_that_are_no_episodes_are_refused(text, message, tmp_path):
    (tmp_path / "set.jsonl").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        open_trajectories(tmp_path / "set.jsonl").read()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("acts", [None, 2])
def test_what_is_exported_reads_as_it_was(ending, acts, tmp_path):
    made = episodes(acts=acts)
    made[1] = dataclasses.replace(made[1], terminal=False)
    write_demonstrations(tmp_path / "set", made)
    source = open_trajectories(tmp_path / "set")
    summary = export_demonstrations(source, tmp_path / f"set.{ending}")
    assert (summary.rows, summary.steps) == (2, 8)
    assert open_trajectories(tmp_path / f"set.{ending}").read() == made


def test_a_line_of_json_is_one_episode(tmp_path):
    made = episodes((2,))
    write_demonstrations(tmp_path / "set", made)
    export_demonstrations(open_trajectories(tmp_path / "set"), tmp_path / "set.jsonl")
    [line] = (tmp_path / "set.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "obs": made[0].obs.tolist(),
        "acts": made[0].acts.tolist(),
        "rewards": made[0].rews.tolist(),
        "terminal": True,
    }


def test_an_export_that_fails_leaves_nothing(tmp_path):
    images = TrajectoryWithRew(np.zeros((3, 4, 4)), np.zeros(2), None, True, np.zeros(2))
    write_demonstrations(tmp_path / "set", [images])
    source = open_trajectories(tmp_path / "set")
    for name, message in (("a.csv", "export to a .jsonl file"), ("a.txt", "unknown format '.txt'")):
        with pytest.raises(InputError, match=message):
            export_demonstrations(source, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    (tmp_path / "old.jsonl").write_text("old")
    with pytest.raises(InputError, match="exists already"):
        export_demonstrations(source, tmp_path / "old.jsonl")
    assert (tmp_path / "old.jsonl").read_text() == "old"


@FORMS
def test_a_folder_of_episodes_is_read_in_natural_order(form, tmp_path):
    made = episodes([3] * 11)
    for number, episode in enumerate(made):
        arrays = steps([episode])
        del arrays["dones"]  # the file says where the episode ends
        write(form, tmp_path, arrays).rename(tmp_path / f"episode_{number}.{form}")
    (tmp_path / "notes.txt").write_text("by hand")
    source = open_trajectories(tmp_path)
    assert source.read() == made
    assert "not read: notes.txt" in source.notes


def test_an_episode_may_hold_its_last_observation(tmp_path):
    [made] = episodes((4,))
    np.savez(tmp_path / "0.npz", obs=made.obs, acts=made.acts, rewards=made.rews)
    source = open_trajectories(tmp_path)
    assert (source.read(), source.notes) == ([made], ())


def test_a_folder_of_two_formats_is_refused(tmp_path):
    np.savez(tmp_path / "0.npz", **steps(episodes()))
    write_csv(tmp_path / "1.csv", steps(episodes()))
    with pytest.raises(InputError, match=r"as \.csv and \.npz: convert one format at a time"):
        open_trajectories(tmp_path)


def test_robomimic_is_read_with_all_sensors_of_flat_numbers(tmp_path):
    pytest.importorskip("h5py")
    made = episodes([2] * 11, obs=4, acts=3)
    write_robomimic(tmp_path / "set.hdf5", made)
    source = open_trajectories(tmp_path / "set.hdf5")
    assert source.read() == made
    assert "observation: arm (2), gripper (2); not used: camera" in source.notes
    write_robomimic(tmp_path / "short.hdf5", made, next_obs=False)
    assert open_trajectories(tmp_path / "short.hdf5").read() == repeated(made)


def test_sensors_are_chosen_by_name_and_in_order(tmp_path):
    pytest.importorskip("h5py")
    [made] = episodes((3,), obs=4, acts=3)
    path = tmp_path / "set.hdf5"
    write_robomimic(path, [made])
    [found] = open_trajectories(path, obs=["gripper", "arm"]).read()
    assert np.array_equal(found.obs, made.obs[:, [2, 3, 0, 1]])
    with pytest.raises(InputError, match=r"--obs griper: .*did you mean 'gripper'"):
        open_trajectories(path, obs=["griper"])
    with pytest.raises(InputError, match=r"--obs camera: .*is not flat numbers"):
        open_trajectories(path, obs=["camera"])


def test_hdf5_that_is_not_of_robomimic_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "set.hdf5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n and nothing more")
    with pytest.raises(InputError, match="not readable as HDF5"):
        open_trajectories(path)
    with h5py.File(path, "w") as file:
        file["episodes"] = np.zeros(3)
    with pytest.raises(InputError, match=r"holds episodes and no group 'data', .* --rename"):
        open_trajectories(path)
    with h5py.File(path, "w") as file:
        file.create_group("data/demo_0")["actions"] = np.zeros((3, 1))
    with pytest.raises(InputError, match="no group 'obs'; extract observations"):
        open_trajectories(path)


def test_hdf5_does_not_lead_to_other_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    made = episodes((3,), obs=4, acts=3)
    write_robomimic(tmp_path / "set.hdf5", made)
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["actions"] = made[0].acts
    with h5py.File(tmp_path / "set.hdf5", "a") as file:
        del file["data/demo_0/actions"]
        file["data/demo_0/actions"] = h5py.ExternalLink("other.hdf5", "/actions")
    with pytest.raises(InputError, match="'actions' is a link, which is not followed"):
        open_trajectories(tmp_path / "set.hdf5").read()
    with h5py.File(tmp_path / "set.hdf5", "a") as file:
        file["elsewhere"] = h5py.ExternalLink("other.hdf5", "/")
        for name in ("actions", "obs/camera"):
            del file[f"data/demo_0/{name}"]
            file[f"data/demo_0/{name}"] = h5py.SoftLink("/elsewhere/actions")
    assert "not used: camera" in open_trajectories(tmp_path / "set.hdf5").notes[0]
    with pytest.raises(InputError, match="'actions' is a link, which is not followed"):
        open_trajectories(tmp_path / "set.hdf5").read()
    (tmp_path / "raw").write_bytes(made[0].acts.tobytes())
    with h5py.File(tmp_path / "set.hdf5", "a") as file:
        del file["data/demo_0/actions"]
        file["data/demo_0"].create_dataset(
            "actions", (3, 3), np.float64, external=[(str(tmp_path / "raw"), 0, 72)]
        )
    with pytest.raises(InputError, match="'actions' is stored in other files"):
        open_trajectories(tmp_path / "set.hdf5").read()


@pytest.mark.parametrize("files", [1, 2])
def test_lerobot_is_read_from_all_its_files(files, tmp_path):
    made = episodes((3, 5, 2), acts=2)
    write_lerobot(tmp_path / "set", made, files=files)
    source = open_trajectories(tmp_path / "set")
    assert source.read() == repeated(made)
    assert len(source) == 3
    assert "observation: observation.state (2); not used: observation.images.top" in source.notes


def test_a_single_file_of_lerobot_is_recognized(tmp_path):
    made = episodes((3, 5), acts=2)
    write_lerobot(tmp_path / "set", made)
    [file] = (tmp_path / "set" / "data").rglob("*.parquet")
    assert open_trajectories(file).read() == repeated(made)


def test_lerobot_with_lists_of_variable_type_is_read_too(tmp_path):
    made = episodes((3,), acts=2)
    write_lerobot(tmp_path / "set", made)
    [file] = (tmp_path / "set" / "data").rglob("*.parquet")
    table = pq.read_table(file)
    state = pa.array(table["observation.state"].to_pylist(), pa.list_(pa.float64()))
    pq.write_table(table.set_column(0, "observation.state", state), file)
    assert open_trajectories(tmp_path / "set").read() == repeated(made)
    ragged = pa.array([[1.0], [1.0, 2.0], [1.0]], pa.list_(pa.float64()))
    pq.write_table(table.set_column(0, "observation.state", ragged), file)
    with pytest.raises(InputError, match=r"observation\.state"):
        open_trajectories(tmp_path / "set").read()


def test_declared_zeros_are_not_unpacked(tmp_path):
    h5py = pytest.importorskip("h5py")
    write_robomimic(tmp_path / "set.hdf5", episodes((3,), obs=4, acts=3))
    with h5py.File(tmp_path / "set.hdf5", "a") as file:
        del file["data/demo_0/actions"]
        file["data/demo_0"].create_dataset("actions", (2**40, 3), np.float64, chunks=(1024, 3))
    with pytest.raises(InputError, match="the file is damaged or malicious"):
        open_trajectories(tmp_path / "set.hdf5").read()


def test_lerobot_without_what_is_needed_is_refused(tmp_path):
    write_lerobot(tmp_path / "set", episodes((3,), acts=2))
    [file] = (tmp_path / "set" / "data").rglob("*.parquet")
    table = pq.read_table(file)
    with pytest.raises(InputError, match=r"--obs state: .*did you mean|Accepted"):
        open_trajectories(tmp_path / "set", obs=["state"])
    mixed = table.set_column(5, "frame_index", pa.array([0, 2, 1]))
    pq.write_table(mixed, file)
    with pytest.raises(InputError, match="row 1: frame_index is 2 and not 1"):
        open_trajectories(tmp_path / "set")
    pq.write_table(table.drop_columns(["action"]), file)
    with pytest.raises(InputError, match="no column episode_index or action"):
        open_trajectories(tmp_path / "set")


@pytest.mark.parametrize("name", ["episode_index", "frame_index", "next.reward"])
@pytest.mark.parametrize("width", [1, 2])
def test_lerobot_has_one_number_per_frame_where_there_can_be_only_one(tmp_path, name, width):
    made = episodes((3, 2), acts=2)
    write_lerobot(tmp_path / "set", made)
    [file] = tmp_path.glob("set/data/**/*.parquet")
    table = pq.read_table(file)
    wide = pa.array([[value] * width for value in table[name].to_pylist()])
    pq.write_table(table.set_column(table.column_names.index(name), name, wide), file)
    if width == 1:
        assert [len(each) for each in open_trajectories(tmp_path / "set").read()] == [3, 2]
        return
    with pytest.raises(InputError, match=rf"column '{name}' has shape \(2,\) for each frame"):
        open_trajectories(tmp_path / "set").read()


def test_lerobot_with_videos_only_is_refused(tmp_path):
    write_lerobot(tmp_path / "set", episodes((3,), acts=2))
    [file] = (tmp_path / "set" / "data").rglob("*.parquet")
    table = pq.read_table(file).drop_columns(["observation.state"])
    pq.write_table(table, file)
    with pytest.raises(InputError, match=r"no observation of flat numbers among .*images\.top"):
        open_trajectories(tmp_path / "set")
    # Columns of images are pictures in the table; videos are files, and have no column.
    pq.write_table(table.drop_columns(["observation.images.top"]), file)
    with pytest.raises(InputError, match=r"no column observation\.\*, so .* in videos, which are"):
        open_trajectories(tmp_path / "set")
    file.unlink()
    video = tmp_path / "set" / "videos" / "observation.images.top" / "chunk-000" / "file-000.mp4"
    video.parent.mkdir(parents=True)
    video.write_bytes(b"")
    with pytest.raises(InputError, match=r"has videos only, which are not read: fetch its data"):
        open_trajectories(tmp_path / "set")


def test_obs_is_refused_where_there_is_one_observation(tmp_path):
    write_csv(tmp_path / "set.csv", steps(episodes()))
    with pytest.raises(InputError, match=r"--obs arm: .*has a single observation"):
        open_trajectories(tmp_path / "set.csv", obs=["arm"])


NAMES_OF_D4RL = {
    "obs": "observations",
    "acts": "actions",
    "dones": "terminals",
    "next_obs": "next_observations",
    "rewards": "rewards",
}


def write_arrays(path, arrays):
    if path.suffix == ".npz":
        np.savez(path, **arrays)
        return
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
        file.create_group("metadata")["algorithm"] = "SAC"


@pytest.mark.parametrize("name", ["set.hdf5", "set.npz"])
@pytest.mark.parametrize("next_obs", [True, False])
def test_arrays_are_read_under_the_names_of_d4rl(name, next_obs, tmp_path):
    made = episodes((3, 5, 2), acts=2)
    arrays = {NAMES_OF_D4RL[key]: values for key, values in steps(made, next_obs=next_obs).items()}
    ends = arrays["terminals"]
    arrays["timeouts"] = ends & (np.arange(len(ends)) < 5)  # the first ended by a time limit
    arrays["terminals"] = ends & ~arrays["timeouts"]
    write_arrays(tmp_path / name, arrays)
    found = open_trajectories(tmp_path / name).read()
    assert found == (made if next_obs else repeated(made))
    del arrays["terminals"]
    write_arrays(tmp_path / f"timeouts-{name}", arrays)
    first, rest = open_trajectories(tmp_path / f"timeouts-{name}").read()
    assert (len(first), first.terminal, len(rest), rest.terminal) == (3, True, 7, False)


def test_numbered_arrays_of_d3rlpy_are_episodes(tmp_path):
    h5py = pytest.importorskip("h5py")
    made = episodes([2] * 11, acts=1)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number, episode in enumerate(made):
            file[f"observations_{number}"] = episode.obs[:-1]
            file[f"actions_{number}"] = episode.acts
            file[f"rewards_{number}"] = episode.rews.reshape(-1, 1)
            file[f"terminated_{number}"] = True
    assert open_trajectories(tmp_path / "a.h5").read() == repeated(made)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["rewards_0"]
    with pytest.raises(InputError, match="episode 0: has no rewards, but other episodes have"):
        open_trajectories(tmp_path / "a.h5").read()
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["rewards_0"] = made[0].rews
        del file["actions_3"]
        file["actions_3"] = np.zeros((5, 1))
    with pytest.raises(InputError, match="episode 3: 2 observations for 5 actions"):
        open_trajectories(tmp_path / "a.h5").read()


@pytest.mark.parametrize("name", ["set.hdf5", "set.npz"])
def test_arrays_are_renamed_as_the_user_says(name, tmp_path):
    made = episodes()
    arrays = steps(made)
    write_arrays(tmp_path / name, {"states": arrays.pop("obs"), **arrays})
    with pytest.raises(InputError, match="no obs among"):
        open_trajectories(tmp_path / name)
    assert open_trajectories(tmp_path / name, rename={"states": "obs"}).read() == made
    with pytest.raises(InputError, match=r"--rename state=obs: no array 'state' .* 'states'"):
        open_trajectories(tmp_path / name, rename={"state": "obs"})
    with pytest.raises(InputError, match="states=observation: no such name; Accepted: acts"):
        open_trajectories(tmp_path / name, rename={"states": "observation"})


def test_arrays_of_hdf5_do_not_lead_to_other_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    arrays = steps(episodes())
    write_arrays(tmp_path / "a.hdf5", arrays)
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        del file["acts"]
        file["acts"] = h5py.ExternalLink("other.hdf5", "/acts")
    with pytest.raises(InputError, match="'acts' is a link, which is not followed"):
        open_trajectories(tmp_path / "a.hdf5")


@pytest.mark.parametrize("form", ["npy", "csv"])
def test_rename_is_refused_where_names_are_given(form, tmp_path):
    path = write(form, tmp_path, steps(episodes()))
    with pytest.raises(InputError, match=r"--rename a: .* has its own names"):
        open_trajectories(path, rename={"a": "obs"})
