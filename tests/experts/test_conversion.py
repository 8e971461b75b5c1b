"""Conversion of experts to the pickle-free format, in the layout of bundled ones."""

import json

import numpy as np
import pytest
import torch as th
import yaml
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize
from support.drift import drift_venv
from support.sb3_models import SHORT, SMALL, ppo

from imitbench.errors import InputError
from imitbench.experts.conversion import convert_expert
from imitbench.experts.lookup import find_environment
from imitbench.policies.expert import load_expert_policy
from imitbench.policies.storage import load_policy

CARD = "---\nlicense: apache-2.0\ntags: [x]\n---\n# The original\n"


@pytest.fixture
def source(tmp_path):
    """A repository in the layout of RL Zoo, with all its files."""
    folder = tmp_path / "ppo-Drift-v0"
    folder.mkdir()
    venv = VecNormalize(drift_venv())
    model = PPO("MlpPolicy", venv, policy_kwargs=dict(SMALL), seed=0, **SHORT)
    model.learn(16)
    model.save(folder / "ppo-Drift-v0.zip")
    venv.save(str(folder / "vec_normalize.pkl"))
    pairs = "!!python/object/apply:collections.OrderedDict\n- - - {}\n    - {}\n"
    (folder / "args.yml").write_text(pairs.format("env", "Drift-v0"))
    (folder / "config.yml").write_text(pairs.format("gamma", 0.5))
    (folder / "env_kwargs.yml").write_text("g: 9.81\n")
    results = {"mean_reward": 5.25, "std_reward": 1.5, "is_deterministic": True}
    (folder / "results.json").write_text(json.dumps({**results, "n_eval_episodes": 10}))
    (folder / "README.md").write_text(CARD)
    return folder


def input_folder(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def test_the_result_has_the_layout_of_bundled_experts(source, tmp_path):
    target = tmp_path / "out" / "converted"
    converted = convert_expert(source, target)
    assert {path.name for path in target.iterdir()} == {
        "README.md", "config.yml", "env_kwargs.yml", "policy.json", "policy.safetensors",
        "results.json",
    }  # fmt: skip
    assert yaml.safe_load((target / "config.yml").read_text()) == {"algo": "ppo", "gamma": 0.5}
    assert yaml.safe_load((target / "env_kwargs.yml").read_text()) == {"g": 9.81}
    assert json.loads((target / "results.json").read_text()) == {
        "mean_reward": 5.25, "std_reward": 1.5, "is_deterministic": True, "n_eval_episodes": 10,
    }  # fmt: skip
    card = (target / "README.md").read_text()
    metadata = yaml.safe_load(card.split("---\n")[1])
    assert metadata["license"] == "apache-2.0"
    assert metadata["model-index"][0]["results"][0]["metrics"][0]["value"] == "5.25 +/- 1.50"
    assert "normalization of observations" in card
    assert "`ppo-Drift-v0.zip`" in card
    assert str(tmp_path) not in card
    assert converted.policy_class == "ActorCriticPolicy"
    assert converted.folded == ["normalization of observations"]
    assert converted.published.mean == 5.25


def test_the_result_acts_as_the_original(source, tmp_path):
    convert_expert(source, tmp_path / "out")
    original, converted = load_expert_policy(source), load_policy(tmp_path / "out")
    observations = drift_venv().reset()
    for deterministic in (True, False):
        found = []
        for policy in (original, converted):
            th.manual_seed(0)
            found.append(policy.predict(observations, deterministic=deterministic)[0])
        np.testing.assert_array_equal(*found)


def test_the_result_can_be_converted_again(source, tmp_path):
    convert_expert(source, tmp_path / "once")
    convert_expert(tmp_path / "once", tmp_path / "twice")
    for name in ("policy.json", "policy.safetensors", "results.json", "config.yml"):
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()


def test_a_zip_alone_has_no_metadata(tmp_path):
    ppo().save(input_folder(tmp_path) / "model.zip")
    convert_expert(tmp_path / "in" / "model.zip", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "README.md", "config.yml", "policy.json", "policy.safetensors",
    }  # fmt: skip


def test_an_existing_folder_is_not_changed(source, tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    convert_expert(source, target)
    before = (target / "policy.json").read_bytes()
    with pytest.raises(InputError, match="already exists"):
        convert_expert(source, target)
    assert (target / "policy.json").read_bytes() == before


def test_a_failure_leaves_no_files(source, tmp_path):
    cartpole = find_environment("CartPole-v1")
    with pytest.raises(InputError, match=r"cannot be used with g=9\.81.*env_kwargs"):
        convert_expert(source, tmp_path / "out", environment=cartpole)
    (source / "env_kwargs.yml").unlink()
    with pytest.raises(InputError, match="made for"):
        convert_expert(source, tmp_path / "out", environment=cartpole)
    (source / "vec_normalize.pkl").write_bytes(b"\x80\x04cos\nsystem\n.")
    with pytest.raises(InputError, match=r"vec_normalize\.pkl: .*refers to os\.system"):
        convert_expert(source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["ppo-Drift-v0"]


def test_a_policy_without_a_pickle_free_format_is_reported_even_with_trust(tmp_path):
    kwargs = {"activation_fn": th.nn.Softplus}
    ppo(policy_kwargs=kwargs).save(input_folder(tmp_path) / "model.zip")
    with pytest.raises(InputError, match=r"Softplus.*--trust"):
        convert_expert(tmp_path / "in", tmp_path / "out")
    with pytest.raises(InputError, match=r"Softplus cannot be stored.*eval --trust"):
        convert_expert(tmp_path / "in", tmp_path / "out", trust=True)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
