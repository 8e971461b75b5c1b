"""Policies from a hub, fetched by its real client."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize
from support.drift import drift_venv
from support.hub import serve_hub

from imitbench.errors import InputError
from imitbench.policies.observation_statistics import NormalizedPolicy
from imitbench.policies.serialize import load_policy, save_stable_model

REPOSITORY = "org/ppo-seals-Drift-v0"
ZIP = "ppo-seals-Drift-v0.zip"


def model(seed):
    settings = {"policy_kwargs": {"net_arch": [8]}, "n_steps": 8, "batch_size": 8}
    return PPO("MlpPolicy", drift_venv(), seed=seed, **settings)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of repositories: of this library, a zip, and statistics; each of another policy."""
    folder = tmp_path_factory.mktemp("files")
    save_stable_model(folder, model(0))
    model(1).save(folder / ZIP)
    VecNormalize(drift_venv()).save(str(folder / "vec_normalize.pkl"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with serve_hub() as hub:
        hub.point_client_here(monkeypatch, tmp_path / "cache")
        yield hub


def load(**kwargs):
    kwargs = {"env_name": "seals/Drift-v0", "organization": "org", **kwargs}
    return load_policy("ppo-huggingface", drift_venv(), **kwargs)


def is_of_seed(policy, seed):
    observations = drift_venv().reset()
    wanted = model(seed).predict(observations, deterministic=True)[0]
    return np.array_equal(policy.predict(observations, deterministic=True)[0], wanted)


def test_files_of_this_library_take_precedence(hub, files):
    hub.add_model(REPOSITORY, {k: v for k, v in files.items() if k != "vec_normalize.pkl"})
    assert is_of_seed(load(), 0)
    assert not any("algorithm" in request for request in hub.requests)


def test_they_may_be_in_a_folder_policy(hub, files):
    own = {f"policy/{name}": files[name] for name in ("policy.json", "policy.safetensors")}
    hub.add_model(REPOSITORY, own)
    assert is_of_seed(load(), 0)


def test_a_zip_is_read_without_files_of_this_library(hub, files):
    hub.add_model(REPOSITORY, {ZIP: files[ZIP], "README.md": b"", "replay.mp4": b"0" * 1000})
    assert is_of_seed(load(), 1)
    assert not any("replay" in request for request in hub.requests)


@pytest.mark.parametrize("name", ["seals/Drift-v0", "seals-Drift-v0", "seals:seals/Drift-v0"])
def test_all_forms_of_an_environment_id_are_accepted(hub, files, name):
    hub.add_model(REPOSITORY, {ZIP: files[ZIP]})
    assert is_of_seed(load(env_name=name), 1)


def test_a_revision_is_a_branch_a_tag_or_a_commit(hub, files):
    own = {name: files[name] for name in ("policy.json", "policy.safetensors")}
    old = hub.add_model(REPOSITORY, {ZIP: files[ZIP]}, revision="old")
    hub.add_model(REPOSITORY, own)
    assert is_of_seed(load(), 0)
    assert is_of_seed(load(revision="old"), 1)
    assert is_of_seed(load(revision=old), 1)


def test_fetched_files_are_found_offline(hub, files, monkeypatch):
    hub.add_model(REPOSITORY, {ZIP: files[ZIP]})
    load()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.commits.clear()
    assert is_of_seed(load(), 1)


def test_statistics_become_part_of_the_policy(hub, files):
    hub.add_model(REPOSITORY, {ZIP: files[ZIP], "vec_normalize.pkl": files["vec_normalize.pkl"]})
    assert isinstance(load(), NormalizedPolicy)
    hub.add_model(REPOSITORY, {ZIP: files[ZIP], "vec_normalize.pkl": b"cos\nsystem\n."})
    with pytest.raises(InputError, match=r"vec_normalize\.pkl: .*refers to os\.system"):
        load()


def test_missing_parts_are_refused_in_one_line(hub, files):
    hub.add_model("org/ppo-Empty-v0", {"README.md": b""})
    hub.add_model(REPOSITORY, {ZIP: files[ZIP]})
    for kwargs, message in (
        ({"env_name": "Absent-v0"}, "org/ppo-Absent-v0: no such repository"),
        ({"env_name": "Empty-v0"}, r"neither policy\.json nor ppo-Empty-v0\.zip"),
        ({"revision": "absent"}, "no revision 'absent'"),
        ({"env_name": "no name!"}, "not a valid repository name"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            load(**kwargs)
        assert "\n" not in str(caught.value)


def test_an_unreachable_hub_is_an_error(tmp_path, monkeypatch):
    with serve_hub() as hub:
        pass
    hub.point_client_here(monkeypatch, tmp_path)
    with pytest.raises(InputError, match="the hub cannot be reached") as caught:
        load()
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_settings_of_the_client_are_respected(tmp_path, files):
    with serve_hub() as hub:
        hub.add_model(REPOSITORY, {ZIP: files[ZIP]})
        script = (
            "import json\n"
            "from support.drift import drift_venv\n"
            "from imitbench.policies.serialize import load_policy\n"
            "policy = load_policy('ppo-huggingface', drift_venv(), organization='org',"
            " env_name='seals/Drift-v0')\n"
            "print(json.dumps(type(policy).__name__))\n"
        )
        settings = {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_DISABLE_XET": "1",
            "NO_PROXY": "127.0.0.1",
            "PYTHONPATH": os.pathsep.join(["tests", "."]),
        }
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout) == "ActorCriticPolicy"
        assert list((tmp_path / "home").rglob(ZIP))


def test_without_the_hub_a_bundled_expert_is_named(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    told = r"; an expert of this environment is bundled: imitbench.load_policy\('ppo-seals-Ca"
    with pytest.raises(InputError, match=told):
        load_policy("ppo-huggingface", drift_venv(), env_name="seals/CartPole-v0")
    with pytest.raises(InputError) as other:
        load_policy("ppo-huggingface", drift_venv(), env_name="seals/Drift-v0")
    assert "bundled" not in str(other.value)
