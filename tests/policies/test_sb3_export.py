"""Exported zips are read by the loaders of Stable-Baselines3."""

import json

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import DDPG, PPO, TD3
from stable_baselines3.common.vec_env import VecNormalize
from support.bombs import read_zip
from support.drift import CHOICE, TORQUE, drift_venv
from support.sb3_models import MODELS, NORMALIZED, SHORT, SMALL, ppo

from imitbench.policies.base import RandomPolicy
from imitbench.policies.expert import load_expert_policy
from imitbench.policies.observation_statistics import NormalizedPolicy
from imitbench.policies.sb3_export import export_sb3_zip
from imitbench.policies.time_feature import TimeFeaturePolicy


def actions(policy, observations):
    return policy.predict(observations, deterministic=True)[0]


@pytest.mark.filterwarnings("ignore:.*saved with SB3 < 2.4.0")  # the form that all versions read
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_an_expert_survives_the_round_trip(tmp_path, make):
    model = make()
    model.learn(24)
    model.save(tmp_path / "model.zip")
    policy = load_expert_policy(tmp_path)
    name = "a2c" if type(model).__name__ == "A2C" else None
    exported = export_sb3_zip(policy, tmp_path / "out" / "model.zip", algorithm=name)
    raw = shown = model.get_env().reset()
    wanted = actions(model, raw)
    cls = TD3 if isinstance(model, DDPG) else type(model)
    loaded = cls.load(tmp_path / "out" / "model.zip")
    if len(exported.files) > 1:
        venv = VecNormalize.load(str(exported.files[1]), drift_venv(model.action_space))
        shown = venv.normalize_obs(raw)
    np.testing.assert_allclose(actions(loaded, shown), wanted, atol=1e-6)
    np.testing.assert_allclose(
        actions(load_expert_policy(tmp_path / "out"), raw), wanted, atol=1e-6
    )
    short = {"n_steps": 8, "batch_size": 8} if cls is PPO else {}
    cls.load(tmp_path / "out" / "model.zip", env=model.get_env(), **short).learn(16)


@pytest.mark.parametrize(
    "kind", ["ppo feed-forward 32", "ppo normalized", "sac 1024", "sac normalized"]
)
def test_the_zip_does_not_refer_to_this_library(tmp_path, kind):
    for path in export_sb3_zip(MODELS[kind]().policy, tmp_path / "model.zip").files:
        assert b"imitbench" not in path.read_bytes()
    data = json.loads(read_zip(tmp_path / "model.zip")["data"])
    assert "imitbench" not in json.dumps(data)


def test_normalization_is_exported_as_statistics(tmp_path):
    inner = ppo(policy_kwargs=SMALL).policy
    policy = NormalizedPolicy(inner, np.arange(3.0), np.full(3, 4.0), epsilon=0.1, clip_obs=1.5)
    exported = export_sb3_zip(policy, tmp_path / "model.zip")
    assert [path.name for path in exported.files] == ["model.zip", "vec_normalize.pkl"]
    venv = VecNormalize.load(str(exported.files[1]), drift_venv())
    raw = drift_venv().reset()
    loaded = PPO.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(actions(loaded, venv.normalize_obs(raw)), actions(policy, raw))
    np.testing.assert_array_equal(actions(load_expert_policy(tmp_path), raw), actions(policy, raw))


def test_missing_parts_are_listed(tmp_path):
    inner = PPO("MlpPolicy", drift_venv(size=4), **SHORT).policy
    exported = export_sb3_zip(TimeFeaturePolicy(inner, 50), tmp_path / "model.zip")
    assert any("optimizers" in line for line in exported.missing)
    assert any("TimeFeatureWrapper, with max_steps=50" in line for line in exported.missing)
    assert PPO.load(tmp_path / "model.zip").observation_space.shape == (4,)


def test_torchs_generator_is_not_changed(tmp_path):
    policy = ppo().policy
    before = th.get_rng_state()
    export_sb3_zip(policy, tmp_path / "model.zip")
    assert th.equal(th.get_rng_state(), before)


def test_policies_without_a_zip_are_refused(tmp_path):
    observations = spaces.Box(-1, 1, (3,))
    with pytest.raises(ValueError, match=r"no algorithm .* has a RandomPolicy"):
        export_sb3_zip(RandomPolicy(observations, TORQUE), tmp_path / "a.zip")
    with pytest.raises(ValueError, match="'sac' has no ActorCriticPolicy; it is one of ppo, a2c"):
        export_sb3_zip(ppo(action_space=CHOICE).policy, tmp_path / "a.zip", algorithm="sac")
    twice = NormalizedPolicy(ppo(policy_kwargs=NORMALIZED).policy, np.zeros(3), np.ones(3))
    with pytest.raises(ValueError, match="normalizes observations twice"):
        export_sb3_zip(twice, tmp_path / "a.zip")
    assert list(tmp_path.iterdir()) == []
