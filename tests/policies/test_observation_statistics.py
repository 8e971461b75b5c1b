"""Statistics of `VecNormalize`, read as data."""

import pickle

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from support.bombs import Bomb
from support.drift import drift_venv
from support.sb3_models import SHORT, Parts

from imitbench.errors import InputError
from imitbench.policies.observation_statistics import read_observation_statistics


@pytest.fixture
def normalizer():
    venv = VecNormalize(drift_venv(), clip_obs=0.5, epsilon=0.01)
    venv.reset()
    for _ in range(20):
        venv.step(np.zeros((2, 2)))
    venv.training = False
    return venv


def write(path, value, protocol=4):
    path.write_bytes(pickle.dumps(value, protocol))
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_saved_statistics_are_read(normalizer, tmp_path, protocol):
    found = read_observation_statistics(write(tmp_path / "a.pkl", normalizer, protocol))
    np.testing.assert_array_equal(found.mean, normalizer.obs_rms.mean)
    np.testing.assert_array_equal(found.var, normalizer.obs_rms.var)
    assert (found.epsilon, found.clip_obs) == (0.01, 0.5)


def test_a_policy_with_them_acts_on_unnormalized_observations(normalizer, tmp_path):
    normalizer.save(str(tmp_path / "a.pkl"))
    model = PPO("MlpPolicy", normalizer, **SHORT)
    raw = normalizer.get_original_obs()
    policy = read_observation_statistics(tmp_path / "a.pkl").applied_to(model.policy, "a.pkl")
    np.testing.assert_array_equal(
        policy.predict(raw, deterministic=True)[0],
        model.predict(normalizer.normalize_obs(raw), deterministic=True)[0],
    )
    other = PPO("MlpPolicy", drift_venv(size=4), **SHORT).policy
    with pytest.raises(InputError, match=r"shape \(3,\), but the policy takes \(4,\)"):
        read_observation_statistics(tmp_path / "a.pkl").applied_to(other, "a.pkl")


def test_statistics_of_rewards_alone_give_none(tmp_path):
    path = write(tmp_path / "a.pkl", VecNormalize(drift_venv(), norm_obs=False))
    assert read_observation_statistics(path) is None


def test_real_statistics_of_an_old_version_are_read(shared_dir):
    found = read_observation_statistics(
        shared_dir / "hub-fixtures/rl-zoo/ppo-HalfCheetah-v3/vec_normalize.pkl"
    )
    assert found.mean.shape == (17,)
    assert found.mean[8] == pytest.approx(4.148289134)
    assert (found.epsilon, found.clip_obs) == (1e-8, 10.0)


def test_statistics_of_dictionaries_are_refused(tmp_path):
    venv = VecNormalize(DummyVecEnv([Parts]), norm_obs_keys=["numbers"])
    path = write(tmp_path / "a.pkl", venv)
    with pytest.raises(InputError, match=r"dictionary observations.*--trust"):
        read_observation_statistics(path)


class Mine(VecNormalize):
    pass


def altered(normalizer, **attributes):
    for name, value in attributes.items():
        setattr(normalizer, name, value)
    return normalizer


def with_mean(normalizer, mean):
    normalizer.obs_rms.mean = mean
    return normalizer


HOSTILE = {
    "a bomb": (lambda _, mark: Bomb(mark), "refers to i?o.*open"),
    "a bomb within": (lambda n, mark: altered(n, surprise=Bomb(mark)), "refers to i?o.*open"),
    "a class of its own": (lambda *_: Mine(drift_venv()), r"refers to .*\.Mine"),
    "another object": (lambda n, _: n.obs_rms, "it contains .*RunningMeanStd"),
    "a number": (lambda *_: 7, "it contains int"),
    "no statistics": (lambda n, _: altered(n, obs_rms=None), "no statistics of observations"),
    "no epsilon": (lambda n, _: altered(n, epsilon=None), "NoneType instead of a numeric array"),
    "clipping at nothing": (lambda n, _: altered(n, clip_obs=float("nan")), "clip_obs"),
    "text": (lambda n, _: with_mean(n, np.array(["a"] * 3)), "instead of a numeric data type"),
    "not a number": (lambda n, _: with_mean(n, np.full(3, np.nan)), "obs_rms.mean is not finite"),
    "other shapes": (lambda n, _: with_mean(n, np.zeros(4)), "are inconsistent"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_malicious_files_are_refused_in_one_line_and_not_executed(normalizer, tmp_path, kind):
    make, message = HOSTILE[kind]
    mark = tmp_path / "executed"
    path = write(tmp_path / "a.pkl", make(normalizer, mark))
    with pytest.raises(InputError, match=message) as caught:
        read_observation_statistics(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not mark.exists()


def test_damaged_missing_and_huge_files_are_refused(normalizer, tmp_path):
    path = write(tmp_path / "a.pkl", normalizer)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="damaged, or not a pickle"):
        read_observation_statistics(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_observation_statistics(tmp_path / "absent.pkl")
    with path.open("wb") as stream:
        stream.truncate(2**30)
    with pytest.raises(InputError, match="1,073,741,824 bytes are too many"):
        read_observation_statistics(path)


def test_an_array_that_declares_more_than_it_has_is_refused(normalizer, tmp_path):
    path = write(tmp_path / "a.pkl", with_mean(normalizer, np.arange(3, dtype=np.float64)))
    data = path.read_bytes()
    shape = b"K\x01K\x03\x85"
    assert shape in data
    path.write_bytes(data.replace(shape, b"K\x01K\xff\x85"))
    with pytest.raises(InputError, match=r"shape \(255,\) with 24 bytes"):
        read_observation_statistics(path)


def test_bounds_of_the_space_do_not_matter(tmp_path):
    """Only the statistics are used; the rest of the file is ignored."""
    venv = VecNormalize(drift_venv())
    venv.observation_space = spaces.Box(-9, 9, (5,))
    path = write(tmp_path / "a.pkl", venv)
    assert read_observation_statistics(path).mean.shape == (3,)
