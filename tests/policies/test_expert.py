"""Experts in all formats are loaded as policies of the unwrapped environment."""

import json

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecNormalize
from support.bombs import read_zip, write_zip
from support.drift import CHOICE, TORQUE, drift_venv
from support.sb3_models import MODELS, SHORT, SMALL, off, ppo

from imitbench.errors import InputError
from imitbench.policies.expert import Spaces, algorithm_name, load_expert_policy
from imitbench.policies.expert_folder import open_expert_folder
from imitbench.policies.observation_statistics import NormalizedPolicy
from imitbench.policies.sb3_objects import stored_space
from imitbench.policies.sb3_zip import read_sb3_zip
from imitbench.policies.storage import load_policy, save_policy
from imitbench.policies.time_feature import TimeFeaturePolicy

ZOO = "!!python/object/apply:collections.OrderedDict\n- - - {0}\n    - {1}\n"


def env_spaces(venv, limit=None):
    return Spaces(venv.observation_space, venv.action_space, limit)


def actions(policy, observations):
    th.manual_seed(0)
    return policy.predict(observations, deterministic=True)[0]


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_without_an_environment_the_spaces_come_from_the_zip(tmp_path, make):
    model = make()
    model.learn(24)
    model.save(tmp_path / "model.zip")
    policy = load_expert_policy(tmp_path)
    assert policy.observation_space == model.observation_space
    assert policy.action_space == model.action_space
    observations = model.get_env().reset()
    np.testing.assert_array_equal(
        actions(policy, observations), actions(type(model).load(tmp_path / "model"), observations)
    )
    save_policy(policy, tmp_path / "own")
    np.testing.assert_array_equal(
        actions(load_policy(tmp_path / "own"), observations), actions(policy, observations)
    )


def alter(path, change):
    files = read_zip(path)
    data = json.loads(files["data"])
    change(data)
    write_zip(path, {**files, "data": json.dumps(data)})


@pytest.mark.parametrize("pickled", [True, False])
@pytest.mark.parametrize("action_space", [TORQUE, CHOICE, spaces.Discrete(3, start=2)])
def test_spaces_are_read_from_pickles_or_printed_text(tmp_path, action_space, pickled):
    ppo(action_space=action_space).save(tmp_path / "model.zip")

    def change(data):
        for name in ("observation_space", "action_space"):
            if not pickled:
                data[name][":serialized:"] = "AAAA"
            data[name][":type:"] = data[name][":type:"].replace("gymnasium.", "gym.")

    alter(tmp_path / "model.zip", change)
    archive = read_sb3_zip(tmp_path / "model.zip")
    assert stored_space(archive, "action_space") == action_space
    assert stored_space(archive, "observation_space") == drift_venv().observation_space


def test_an_undetermined_space_requires_the_environment(tmp_path):
    ppo().save(tmp_path / "model.zip")
    alter(tmp_path / "model.zip", lambda data: data.pop("observation_space"))
    with pytest.raises(InputError, match=r"observation_space: cannot be determined.*--env"):
        load_expert_policy(tmp_path)
    load_expert_policy(tmp_path, env_spaces(drift_venv()))


def test_an_environment_that_does_not_fit_is_refused(tmp_path):
    ppo(policy_kwargs=SMALL).save(tmp_path / "model.zip")
    save_policy(load_expert_policy(tmp_path), tmp_path / "own")
    for source in (tmp_path / "model.zip", tmp_path / "own"):
        with pytest.raises(InputError, match="made for"):
            load_expert_policy(source, env_spaces(drift_venv(size=4)))
        with pytest.raises(InputError, match="made for"):
            load_expert_policy(source, env_spaces(drift_venv(CHOICE)))


class Timed(gym.ObservationWrapper):
    """Adds the time feature like the wrapper of sb3-contrib."""

    def __init__(self, env, limit):
        super().__init__(env)
        space = env.observation_space
        low, high = np.append(space.low, 0.0), np.append(space.high, 1.0)
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.limit = limit

    def observation(self, observation):
        left = 1 - self.unwrapped.step_count / self.limit
        return np.append(observation, left).astype(np.float32)


class TestTimeFeature:
    """An additional number in observations: the remaining share of the episode."""

    @pytest.fixture
    def folder(self, tmp_path):
        venv = drift_venv(n_envs=1)
        venv.envs[0] = Timed(venv.envs[0], 10)
        venv.observation_space = venv.envs[0].observation_space
        venv.buf_obs[None] = np.zeros((1, 4), np.float32)
        normalizer = VecNormalize(venv)
        model = PPO("MlpPolicy", normalizer, seed=0, **SHORT)
        model.learn(16)
        model.save(tmp_path / "ppo-Drift.zip")
        normalizer.save(str(tmp_path / "vec_normalize.pkl"))
        normalizer.training = False
        self.model, self.normalizer = model, normalizer
        return tmp_path

    def check(self, policy, limit):
        assert isinstance(policy, TimeFeaturePolicy)
        assert isinstance(policy.policy, NormalizedPolicy)
        assert policy.max_steps == limit
        observations, state = drift_venv(n_envs=1).reset(), None
        for step in range(3):
            shown = np.append(observations, [[1 - step / limit]], axis=1).astype(np.float32)
            shown = self.normalizer.normalize_obs(shown)
            found, state = policy.predict(observations, state=state, deterministic=True)
            np.testing.assert_array_equal(found, actions(self.model, shown))

    def test_bounds_of_zero_and_one_indicate_it(self, folder):
        self.check(load_expert_policy(folder, env_spaces(drift_venv(), 10)), 10)

    def test_settings_indicate_it_and_its_limit(self, folder):
        wrapper = "sb3_contrib.common.wrappers.TimeFeatureWrapper"
        for text, limit in (
            (f"env_wrapper: {wrapper}\n", 1000),
            (f"env_wrapper:\n- x.Y\n- {wrapper}:\n    max_steps: 20\n", 20),
        ):
            (folder / "config.yml").write_text(text)
            self.check(load_expert_policy(folder), limit)
            self.check(load_expert_policy(folder, env_spaces(drift_venv(), 10)), 10)

    def test_it_is_stored_without_pickle(self, folder, tmp_path):
        save_policy(load_expert_policy(folder, env_spaces(drift_venv(), 10)), tmp_path / "own")
        self.check(load_expert_policy(tmp_path / "own", env_spaces(drift_venv())), 10)

    def test_an_extra_number_without_these_bounds_is_refused(self, tmp_path):
        PPO("MlpPolicy", drift_venv(size=4), **SHORT).save(tmp_path / "model.zip")
        with pytest.raises(InputError, match="was it trained with a time feature"):
            load_expert_policy(tmp_path, env_spaces(drift_venv()))


class MyPolicy(ActorCriticPolicy):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class Mine(VecNormalize):
    pass


def test_trust_unpickles_what_cannot_be_read_otherwise(tmp_path):
    venv = Mine(drift_venv())
    model = PPO(MyPolicy, venv, seed=0, **SHORT)
    model.learn(16)
    model.save(tmp_path / "model.zip")
    with pytest.raises(InputError, match=r"policy_class: .*MyPolicy.*--trust"):
        load_expert_policy(tmp_path)
    venv.save(str(tmp_path / "vec_normalize.pkl"))
    venv.training = False
    policy = load_expert_policy(tmp_path, trust=True)
    raw = drift_venv().reset()
    np.testing.assert_array_equal(actions(policy, raw), actions(model, venv.normalize_obs(raw)))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        ("ppo", "ppo"),
        ("a2c", "a2c"),
        ("sac", "sac"),
        ("td3", "td3"),
        ("ddpg", "td3"),
        ("dqn", "dqn"),
    ],
)
def test_the_algorithm_is_identified_by_its_attributes(tmp_path, make, name):
    MODELS[make]().save(tmp_path / "model.zip")
    assert algorithm_name(read_sb3_zip(tmp_path / "model.zip")) == name


class TestFolder:
    """The folder layouts of experts."""

    def zip_in(self, folder, name="model.zip"):
        folder.mkdir(exist_ok=True)
        off_policy = off(SAC, policy_kwargs=SMALL)
        off_policy.save(folder / name)
        return folder

    def test_the_usual_zip_is_found_among_others(self, tmp_path):
        folder = self.zip_in(tmp_path / "sac-Drift-v0", "sac-Drift-v0.zip")
        (folder / "train_eval_metrics.zip").write_bytes(b"")
        found = open_expert_folder(folder)
        assert (found.policy.name, found.name) == ("sac-Drift-v0.zip", "sac-Drift-v0")
        (folder / "other.zip").write_bytes(b"")
        assert open_expert_folder(folder).policy.name == "sac-Drift-v0.zip"

    def test_no_or_several_policies_are_refused(self, tmp_path):
        with pytest.raises(InputError, match="no such file or folder"):
            open_expert_folder(tmp_path / "absent")
        with pytest.raises(InputError, match=r"needs policy\.json, a zip, or"):
            open_expert_folder(tmp_path)
        for name in ("a.zip", "b.zip"):
            (tmp_path / name).write_bytes(b"")
        with pytest.raises(InputError, match=r"several policies: a\.zip, b\.zip; name one"):
            open_expert_folder(tmp_path)

    def test_settings_with_tags_are_read_as_data(self, tmp_path):
        folder = self.zip_in(tmp_path / "x")
        (folder / "args.yml").write_text(ZOO.format("env", "Drift-v0"))
        (folder / "config.yml").write_text(ZOO.format("gamma", 0.5))
        (folder / "env_kwargs.yml").write_text("{}\n")
        found = open_expert_folder(folder)
        assert (found.env_id, found.config, found.env_kwargs) == ("Drift-v0", {"gamma": 0.5}, {})

    def test_statistics_are_found_next_to_the_zip_or_in_the_folder_of_rl_zoo(self, tmp_path):
        folder = self.zip_in(tmp_path / "sac", "Drift-v0.zip")
        assert open_expert_folder(folder).statistics is None
        (folder / "Drift-v0").mkdir()
        (folder / "Drift-v0" / "vecnormalize.pkl").write_bytes(b"")
        assert open_expert_folder(folder).statistics.parent.name == "Drift-v0"
        (folder / "vec_normalize.pkl").write_bytes(b"")
        assert open_expert_folder(folder).statistics.name == "vec_normalize.pkl"
