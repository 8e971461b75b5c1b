import json
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from support.minari_sets import record

from imitbench.data.conversion import convert_demonstrations
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.minari_source import MinariSource, copy_minari, find_minari
from imitbench.errors import InputError

pytest.importorskip("minari")

NAME = "test/pendulum/random-v0"


@pytest.fixture
def datasets_path(tmp_path, monkeypatch):
    path = tmp_path / "minari"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return path


@pytest.fixture
def played(datasets_path):
    return record(NAME, gym.make("Pendulum-v1").unwrapped)


def metadata(datasets_path):
    return datasets_path / NAME / "data" / "metadata.json"


def refusal(call, *args, **kwargs):
    with pytest.raises(InputError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_data_set_is_read_as_it_was_recorded(played):
    source = MinariSource(NAME)
    assert (source.where, source.form, len(source)) == (f"minari:{NAME}", "Minari", 3)
    assert source.environment_id == "Pendulum-v1"
    made = source.read()
    assert [np.array_equal(a.obs, b) for a, b in zip(made, played, strict=True)] == [True] * 3
    assert [len(each) for each in made] == [20] * 3
    assert [each.terminal for each in made] == [True, False, True]
    assert made[0].acts.shape == (20, 1)
    assert made[0].rews.dtype == np.float64
    assert source.read(limit=1) == made[:1]


def test_conversion_gives_demonstrations_of_the_environment(played, tmp_path):
    source = MinariSource(NAME)
    summary = convert_demonstrations(
        source, tmp_path / "out", environment=gym.make("Pendulum-v1"), environment_id="Pendulum-v1"
    )
    assert summary.rows == 3
    assert read_demonstrations(tmp_path / "out") == source.read()


def test_the_cached_copy_depends_on_the_content(played, datasets_path, tmp_path):
    first = copy_minari(NAME)
    assert first.environment_id == "Pendulum-v1"
    assert first.folder.is_relative_to(tmp_path / "cache" / "imitbench" / "minari")
    assert read_demonstrations(first.folder) == MinariSource(NAME).read()
    written = (first.folder / "README.md").stat().st_mtime_ns
    assert copy_minari(NAME) == first
    assert (first.folder / "README.md").stat().st_mtime_ns == written
    document = json.loads(metadata(datasets_path).read_text())
    metadata(datasets_path).write_text(json.dumps(document | {"author": ["somebody else"]}))
    second = copy_minari(NAME)
    assert second.folder != first.folder
    data = "data/train-00000-of-00001.parquet"
    assert (second.folder / data).read_bytes() == (first.folder / data).read_bytes()
    elsewhere = copy_minari(NAME, tmp_path / "mine").folder
    assert elsewhere.is_relative_to(tmp_path / "mine")


def test_several_processes_may_fill_the_cache_at_the_same_time(played, tmp_path):
    code = (
        f"from imitbench.data.minari_source import copy_minari\nprint(copy_minari({NAME!r}).folder)"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    folders = {process.communicate()[0].strip() for process in started}
    assert [process.returncode for process in started] == [0, 0]
    (folder,) = folders
    assert len(read_demonstrations(Path(folder))) == 3
    assert len(list(Path(folder).parent.iterdir())) == 1


def test_the_message_about_a_missing_data_set_names_the_nearest_and_a_fix(played):
    line = refusal(MinariSource, "test/pendulum/randm-v0")
    assert f"did you mean '{NAME}'" in line
    assert "--download" in line


def test_a_download_that_fails_is_told_as_such(datasets_path, monkeypatch):
    def fail(_name):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(pytest.importorskip("minari"), "download_dataset", fail)
    with pytest.raises(InputError) as raised:
        find_minari("test/none-v0", download=True)
    assert str(raised.value) == (
        "minari:test/none-v0: cannot be downloaded (ConnectionError: no route to host): check the "
        "name and the connection, and try again"
    )


@pytest.mark.parametrize("name", ["", "../x", "a/../../b", "/etc", "a//b", "a\nb", ".hidden"])
def test_invalid_names_are_refused(datasets_path, name):
    assert "not the name of a Minari data set" in refusal(find_minari, name)


def test_an_environment_is_never_built_from_untrusted_metadata(
    played, datasets_path, tmp_path, monkeypatch
):
    (tmp_path / "canary_module.py").write_text("open('canary', 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    file = metadata(datasets_path)
    document = json.loads(file.read_text())
    spec = json.loads(document["env_spec"]) | {"entry_point": "canary_module:make"}
    document["env_spec"] = json.dumps(spec)
    file.write_text(json.dumps(document))
    assert len(MinariSource(NAME).read()) == 3
    for space in ("observation_space", "action_space"):
        file.write_text(json.dumps({k: v for k, v in document.items() if k != space}))
        line = refusal(MinariSource, NAME)
        assert f"lack the {space.replace('_', ' ')}" in line
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: f"[{text}]",
        lambda text: text.replace("Box", "Bax"),
        lambda text: text.replace('"arrow"', '"hdf9"'),
    ],
)
def test_damaged_metadata_are_refused(played, datasets_path, damage):
    file = metadata(datasets_path)
    changed = damage(file.read_text())
    assert changed != file.read_text()
    file.write_text(changed)
    assert f"minari:{NAME}: " in refusal(MinariSource, NAME)


def test_damaged_episodes_are_refused(played, datasets_path):
    for path in (datasets_path / NAME / "data" / "1").glob("*.arrow"):
        path.write_bytes(path.read_bytes()[:100])
    assert f"minari:{NAME}, episode 1: cannot be read" in refusal(MinariSource(NAME).read)


def test_dictionary_observations_are_refused(datasets_path):
    class Keyed(gym.Env):
        observation_space = gym.spaces.Dict({"a": gym.spaces.Box(-1, 1, (2,))})
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return {"a": np.zeros(2, np.float32)}, {}

        def step(self, action):
            return {"a": np.zeros(2, np.float32)}, 0.0, False, False, {}

    record("test/keyed-v0", Keyed(), episodes=1, steps=3)
    assert "observations are of a Dict space" in refusal(MinariSource, "test/keyed-v0")


def test_without_minari_the_message_says_what_to_install(played):
    code = (
        "import sys; sys.modules['minari'] = None\n"
        "from imitbench.data.minari_source import MinariSource\n"
        f"MinariSource({NAME!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'imitbench[minari]'" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("count", ["total_episodes", "total_steps"])
@pytest.mark.parametrize("stated", [-1, 1.5, "3", None, True])
def test_a_count_that_cannot_be_is_refused(count, stated, played, datasets_path):
    document = json.loads(metadata(datasets_path).read_text())
    metadata(datasets_path).write_text(json.dumps(document | {count: stated}))
    for call in (MinariSource, copy_minari):
        assert f"{count}: {stated!r}, which is no count" in refusal(call, NAME)


@pytest.mark.parametrize("stated", [0, 2, 10**12])
def test_another_number_of_episodes_than_are_there_is_refused(stated, played, datasets_path):
    document = json.loads(metadata(datasets_path).read_text())
    metadata(datasets_path).write_text(json.dumps(document | {"total_episodes": stated}))
    assert f"state {stated:,} episodes, and 3 are there" in refusal(MinariSource, NAME)
