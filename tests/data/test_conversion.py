import dataclasses
import json

import gymnasium as gym
import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from imitbench.data import serialize, trajectory_source
from imitbench.data.conversion import convert_demonstrations
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.sources import open_trajectories
from imitbench.data.trajectories import Trajectory
from imitbench.data.trajectory_source import MemorySource
from imitbench.errors import InputError
from imitbench.util.files import digest_files


def source(trajectories, where="made"):
    return MemorySource(trajectories, where=where, form="list")


def refusal(*args, **kwargs):
    with pytest.raises(InputError) as caught:
        convert_demonstrations(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


FIXTURES = [
    "legacy-fixtures/expert_models_cartpole_0_rollouts_final.npz",
    "legacy-fixtures/datasets_disk/ppo-Pendulum-v1",
    "legacy-fixtures/datasets_disk/ppo-seals-CartPole-v0",
    "hub-fixtures/imitation/datasets/ppo-Pendulum-v1",
    "hub-fixtures/imitation/datasets/ppo-seals-CartPole-v0",
]


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.filterwarnings("ignore:.*infos are pickled")
def test_real_data_sets_convert_to_the_same_numbers(shared_dir, tmp_path, name):
    opened = open_trajectories(shared_dir / name)
    summary = convert_demonstrations(opened, tmp_path / "out")
    expected = opened.read()
    assert read_demonstrations(tmp_path / "out") == expected
    assert (summary.rows, summary.steps) == (len(expected), sum(map(len, expected)))
    files = sorted((tmp_path / "out" / "data").iterdir())
    assert [file.name for file in files] == ["train-00000-of-00001.parquet"]
    assert summary.digest == digest_files(tmp_path / "out", files)
    assert summary.bytes == files[0].stat().st_size
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_the_datasets_library_reads_converted_data(tmp_path, trajectories):
    import datasets

    convert_demonstrations(source(trajectories()), tmp_path / "out")
    loaded = datasets.load_dataset(
        str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert loaded.column_names == ["obs", "acts", "infos", "terminal", "rews"]
    assert len(loaded) == 3


def test_large_sets_become_shards_of_whole_trajectories(tmp_path, trajectories, monkeypatch):
    monkeypatch.setattr(trajectory_source, "CHUNK_BYTES", 400)
    made = trajectories() * 20
    done = []
    summary = convert_demonstrations(
        source(made), tmp_path / "out", shard_bytes=2000, progress=lambda *now: done.append(now)
    )
    assert summary.files > 3
    names = sorted(path.name for path in (tmp_path / "out" / "data").iterdir())
    assert names == [f"train-{n:05d}-of-{summary.files:05d}.parquet" for n in range(summary.files)]
    assert read_demonstrations(tmp_path / "out") == made
    with pq.ParquetFile(tmp_path / "out" / "data" / names[0]) as first:
        assert first.metadata.num_row_groups > 1
    assert done[-1] == (60, 60)
    assert done == sorted(done)
    assert len(done) >= 10


def test_every_file_and_its_folder_are_flushed_to_disk(
    tmp_path, trajectories, monkeypatch, flushed
):
    monkeypatch.setattr(trajectory_source, "CHUNK_BYTES", 400)
    convert_demonstrations(source(trajectories() * 20), tmp_path / "out", shard_bytes=2000)
    shards = {path.name for path in (tmp_path / "out" / "data").iterdir()}
    assert len(shards) > 3
    assert sum(path.suffix == ".part" for path, _ in flushed) == len(shards)
    assert [names for path, names in flushed if path.name == "data"] == [shards]
    folder, names = flushed[-1]
    assert (folder, "out" in names) == (tmp_path, True)


def test_the_same_set_gives_the_same_bytes(tmp_path, trajectories):
    for name in ("a", "b"):
        convert_demonstrations(source(trajectories()), tmp_path / name)
    for file in ("README.md", "data/train-00000-of-00001.parquet"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_the_card_describes_the_data_set(tmp_path, trajectories):
    summary = convert_demonstrations(
        source(trajectories(), "/home/me/final.npz"), tmp_path / "out", environment_id="Some-v0"
    )
    card = (tmp_path / "out" / "README.md").read_text()
    _, metadata, text = card.split("---\n", 2)
    assert yaml.safe_load(metadata)["configs"][0]["data_files"] == "data/*.parquet"
    for part in ("# Demonstrations on Some-v0", "| trajectories | 3 |", "| length | 3 to 5 |",
                 "final.npz (list)", summary.digest):  # fmt: skip
        assert part in text
    assert "/home/me" not in card
    assert json.loads(json.dumps(summary.to_json()))["mean_return"] == pytest.approx(
        np.mean([t.rews.sum() for t in trajectories()])
    )


def test_infos_are_copied_unchanged_or_dropped(tmp_path, trajectories):
    text = '{"a":  1e5, "b": {"py/object": "os.abort"}}'
    opaque = [
        dataclasses.replace(t, infos=np.array([{"__opaque__": text}] * len(t)))
        for t in trajectories()
    ]
    serialize.save(tmp_path / "a", opaque)
    convert_demonstrations(open_trajectories(tmp_path / "a"), tmp_path / "kept")
    kept = pq.read_table(tmp_path / "kept" / "data")["infos"].to_pylist()
    assert {each for row in kept for each in row} == {text}
    convert_demonstrations(open_trajectories(tmp_path / "a"), tmp_path / "bare", with_infos=False)
    bare = pq.read_table(tmp_path / "bare" / "data")["infos"].to_pylist()
    assert {each for row in bare for each in row} == {"{}"}
    odd = [dataclasses.replace(trajectories()[0], infos=np.array([{}, {}, {"x": object()}]))]
    assert "episode 0: infos of step 2, key 'x'" in refusal(source(odd), tmp_path / "odd")
    convert_demonstrations(source(odd), tmp_path / "odd", with_infos=False)


def test_float32_is_used_where_no_number_changes_by_more_than_a_millionth(tmp_path, trajectories):
    made = trajectories((2,), np.float64)
    kept = convert_demonstrations(source(made), tmp_path / "a")
    assert (kept.observation, kept.action) == ("float64[2]", "float64[2]")
    summary = convert_demonstrations(source(made), tmp_path / "b", float32=True)
    assert (summary.observation, summary.action) == ("float32[2]", "float32[2]")
    assert summary.notes == kept.notes
    for narrow, wide in zip(read_demonstrations(tmp_path / "b"), made, strict=True):
        assert np.abs(narrow.obs - wide.obs).max() <= 1e-6
        assert np.array_equal(narrow.rews, wide.rews)
    made[1].obs[2, 0] = 1000.1
    summary = convert_demonstrations(source(made), tmp_path / "c", float32=True)
    assert (summary.observation, summary.action) == ("float64[2]", "float32[2]")
    assert any(
        "obs stay float64: float32 would change a number of episode 1" in n for n in summary.notes
    )
    assert np.array_equal(read_demonstrations(tmp_path / "c")[1].obs, made[1].obs)


def test_integer_actions_become_int64_and_images_stay_bytes(tmp_path, trajectories):
    made = [
        dataclasses.replace(t, obs=np.zeros((len(t) + 1, 4, 4), np.uint8), acts=t.acts.astype("i4"))
        for t in trajectories()
    ]
    summary = convert_demonstrations(source(made), tmp_path / "a", float32=True)
    assert (summary.observation, summary.action) == ("uint8[4, 4]", "int64[]")


def test_single_numbers_become_lists_of_one_where_the_environment_has_these(tmp_path):
    class OneNumber(gym.Env):
        observation_space = action_space = gym.spaces.Box(-1, 1, (1,))

    single = Trajectory(np.linspace(0, 1, 4), np.linspace(0, 1, 3), None, True)
    assert convert_demonstrations(source([single]), tmp_path / "out", environment=OneNumber())
    [found] = read_demonstrations(tmp_path / "out")
    assert (found.obs.shape, found.acts.shape) == ((4, 1), (3, 1))
    assert found.acts.reshape(-1).tolist() == single.acts.tolist()


def test_notes_report_missing_rewards_and_ends(tmp_path, trajectories):
    plain = [Trajectory(t.obs, t.acts, None, t.terminal) for t in trajectories()]
    summary = convert_demonstrations(source(plain), tmp_path / "a")
    assert any("no rewards" in note for note in summary.notes)
    assert any("1 of 3 trajectories are not marked" in note for note in summary.notes)
    assert open_trajectories(tmp_path / "a").read() == plain
    assert "not recorded" in (tmp_path / "a" / "README.md").read_text()


def test_rows_are_checked_and_a_failure_leaves_nothing(tmp_path, trajectories):
    good, bad, last = trajectories()
    nan = bad.obs.copy()
    nan[2] = np.nan
    plain = Trajectory(bad.obs, bad.acts, None, True)
    for wrong, message in (
        (dataclasses.replace(bad, obs=nan), "episode 1: observations are not finite at step 2"),
        (dataclasses.replace(bad, rews=bad.rews * np.inf), "episode 1: rewards are not finite"),
        (
            dataclasses.replace(bad, obs=np.zeros((5, 3), "f4")),
            r"episode 1: observations are float32[3]",
        ),
        (
            dataclasses.replace(bad, obs=bad.obs.astype(float)),
            "episode 1: observations are float64[2]",
        ),
        (plain, "episode 1: some episodes have rewards and some have none"),
    ):
        assert message in refusal(source([good, wrong, last]), tmp_path / "out")
        assert list(tmp_path.iterdir()) == []
    environment = gym.make("CartPole-v1")
    line = refusal(source([good]), tmp_path / "out", environment=environment)
    assert "episode 0: observations have shape (2,) each, the environment has (4,)" in line
    assert list(tmp_path.iterdir()) == []


def test_only_a_data_set_folder_is_replaced_and_only_on_request(tmp_path, trajectories):
    out = tmp_path / "out"
    out.mkdir()
    made = trajectories()
    convert_demonstrations(source(made), out)  # an empty folder is allowed
    assert "exists already" in refusal(source(made[:1]), out)
    convert_demonstrations(source(made[:1]), out, replace=True)
    assert read_demonstrations(out) == made[:1]
    convert_demonstrations(open_trajectories(out), out, replace=True)
    assert read_demonstrations(out) == made[:1]
    bad = dataclasses.replace(made[0], rews=made[0].rews * np.nan)
    refusal(source([bad]), out, replace=True)
    assert read_demonstrations(out) == made[:1]
    (out / "thesis.tex").touch()
    assert "'thesis.tex', so it is not a data set" in refusal(source(made), out, replace=True)
    assert "is a file" in refusal(source(made), out / "thesis.tex", replace=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_limit_keeps_the_first_trajectories(tmp_path, trajectories):
    convert_demonstrations(source(trajectories()), tmp_path / "a", limit=2)
    assert read_demonstrations(tmp_path / "a") == trajectories()[:2]
