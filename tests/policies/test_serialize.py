"""Loading and saving: a loaded model acts and trains like the saved one."""

import hashlib
import json
import shutil
from importlib.util import find_spec

import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401
import torch as th
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import EveryNTimesteps
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from support.drift import CHOICE, TORQUE, drift_venv

from imitbench.errors import InputError
from imitbench.policies.base import (
    FeedForward32Policy,
    NormalizeFeaturesExtractor,
    RandomPolicy,
    ZeroPolicy,
)
from imitbench.policies.serialize import (
    STABLE_BASELINES_CLASSES,
    SavePolicyCallback,
    load_policy,
    load_stable_baselines_model,
    policy_registry,
    save_stable_model,
)
from imitbench.util.registry import load_attr

SMALL = {"net_arch": [8]}
NORMALIZED = {**SMALL, "features_extractor_class": NormalizeFeaturesExtractor}
SHORT = {"n_steps": 8, "batch_size": 8, "n_epochs": 2, "seed": 0}
OFF = {"buffer_size": 200, "learning_starts": 4, "batch_size": 4, "seed": 0}


def ppo(policy="MlpPolicy", policy_kwargs=SMALL, venv=None, **kwargs):
    kwargs = {**SHORT, **kwargs}
    return PPO(policy, venv or drift_venv(), policy_kwargs=dict(policy_kwargs), **kwargs)


def off(cls, space=TORQUE, **kwargs):
    return cls("MlpPolicy", drift_venv(space), policy_kwargs=dict(SMALL), **{**OFF, **kwargs})


MODELS = {
    "ppo": ppo,
    "ppo feed-forward 32": lambda: ppo(FeedForward32Policy, {}),
    "ppo normalized": lambda: ppo(policy_kwargs=NORMALIZED),
    "ppo gSDE": lambda: ppo(use_sde=True, sde_sample_freq=4),
    "ppo schedules": lambda: ppo(
        learning_rate=LinearSchedule(1e-3, 0.0, 1.0), clip_range=LinearSchedule(0.2, 0.1, 0.5)
    ),
    "ppo AdamW": lambda: ppo(
        policy_kwargs={
            **SMALL,
            "optimizer_class": th.optim.AdamW,
            "optimizer_kwargs": {"weight_decay": 0.1},
        }
    ),
    "a2c": lambda: A2C("MlpPolicy", drift_venv(), seed=0),
    "a2c Adam": lambda: A2C("MlpPolicy", drift_venv(), seed=0, use_rms_prop=False),
    "sac": lambda: off(SAC),
    "sac fixed entropy": lambda: off(SAC, ent_coef=0.2, train_freq=(3, "step")),
    "td3": lambda: off(TD3),
    "dqn": lambda: off(DQN, CHOICE),
    "dqn three steps": lambda: off(DQN, CHOICE, n_steps=3),
}


def train_on(model):
    """Weights after further training from a fixed point."""
    model.set_random_seed(7)
    model.learn(24, reset_num_timesteps=False)
    return model.policy.state_dict()


def assert_same(found, wanted):
    assert list(found) == list(wanted)
    for key, value in wanted.items():
        assert th.equal(found[key], value), key


@pytest.mark.filterwarnings("ignore:`n_steps=3` is ignored")  # from the pickled one
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_saved_algorithm_resumes_like_a_pickled_one(tmp_path, make):
    model = make()
    model.learn(24)
    venv = drift_venv(model.action_space)
    model.save(tmp_path / "pickled.zip")
    save_stable_model(tmp_path / "plain", model)
    wanted = type(model).load(tmp_path / "pickled.zip", env=venv)
    found = load_stable_baselines_model(type(model), tmp_path / "plain", venv)
    assert type(found) is type(model)
    assert found.num_timesteps == model.num_timesteps
    assert_same(train_on(found), train_on(wanted))
    assert found.num_timesteps == wanted.num_timesteps


@pytest.mark.parametrize("name", ["ppo", "ppo normalized", "ppo schedules", "a2c", "dqn"])
def test_a_pickled_algorithm_resumes_without_unpickling(tmp_path, name):
    model = MODELS[name]()
    model.learn(24)
    venv = drift_venv(model.action_space)
    model.save(tmp_path / "model.zip")
    extra = {"train_freq": (4, "step")} if name == "dqn" else {}
    found = load_stable_baselines_model(type(model), tmp_path, venv, **extra)
    wanted = type(model).load(tmp_path / "model.zip", env=venv)
    assert_same(train_on(found), train_on(wanted))


def test_a_save_writes_four_files(tmp_path):
    save_stable_model(tmp_path, ppo())
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"policy.json", "policy.safetensors", "algorithm.json", "algorithm.state"}
    document = json.loads((tmp_path / "algorithm.json").read_text())
    assert document["algorithm"] == "PPO"
    assert document["hyperparameters"]["n_steps"] == 8
    assert document["hyperparameters"]["clip_range"] == 0.2
    assert document["not_stored"] == {}


@pytest.mark.parametrize("filename", ["model.zip", "final.zip"])
def test_a_saved_model_is_found_by_folder_and_by_file_name(tmp_path, choice_venv, filename):
    model = ppo(venv=choice_venv)
    save_stable_model(tmp_path / "out", model, filename)
    observations = choice_venv.reset()
    for path in (tmp_path / "out" / filename, str(tmp_path / "out" / filename)):
        policy = load_policy("ppo", choice_venv, path=path)
        np.testing.assert_array_equal(
            policy.predict(observations, deterministic=True)[0],
            model.predict(observations, deterministic=True)[0],
        )
    if filename == "model.zip":
        load_policy("ppo", choice_venv, path=tmp_path / "out")


def test_a_zip_is_found_by_folder_file_and_stem(tmp_path, torque_venv):
    ppo().save(tmp_path / "model.zip")
    for path in (tmp_path, tmp_path / "model.zip", tmp_path / "model"):
        assert not load_policy("ppo", torque_venv, path=path).training


def test_the_policy_of_a_run_directory_is_found(tmp_path, torque_venv):
    save_stable_model(tmp_path / "run" / "policy", ppo())
    load_policy("ppo", torque_venv, path=tmp_path / "run")


def test_a_gsde_policy_explores_with_its_learned_deviation(tmp_path, torque_venv):
    model = ppo(use_sde=True)
    model.policy.log_std.data.fill_(-20.0)
    save_stable_model(tmp_path, model)
    policy = load_policy("ppo", torque_venv, path=tmp_path)
    observations = torque_venv.reset()
    chosen, mean = (policy.predict(observations, deterministic=d)[0] for d in (False, True))
    np.testing.assert_allclose(chosen, mean, atol=1e-5)


@pytest.mark.parametrize("form", ["plain", "zip"])
def test_loading_a_policy_draws_no_random_numbers(tmp_path, torque_venv, form):
    model = ppo(use_sde=True)
    model.save(tmp_path / "a.zip") if form == "zip" else save_stable_model(tmp_path / "a", model)
    before = th.get_rng_state()
    load_policy("ppo", torque_venv, path=tmp_path / "a")
    assert th.equal(th.get_rng_state(), before)


def test_the_callback_saves_at_each_trigger(tmp_path, torque_venv):
    model = ppo()
    model.learn(48, callback=EveryNTimesteps(16, SavePolicyCallback(tmp_path)))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["000000000016", "000000000032", "000000000048"]
    policy = load_policy("ppo", torque_venv, path=tmp_path / names[-1])
    # Saved before the update on the last steps.
    assert policy.observation_space.shape == (3,)
    resumed = load_stable_baselines_model(PPO, tmp_path / names[1], torque_venv)
    assert resumed.num_timesteps == 32


def test_zero_and_random_need_no_file(torque_venv):
    assert isinstance(load_policy("zero", torque_venv), ZeroPolicy)
    assert isinstance(load_policy("random", torque_venv), RandomPolicy)


def test_custom_loaders_can_be_registered(torque_venv):
    class Mine(ZeroPolicy):
        pass

    name = f"mine-{id(Mine)}"
    policy_registry.register(
        name, value=lambda venv: Mine(venv.observation_space, venv.action_space)
    )
    assert isinstance(load_policy(name, torque_venv), Mine)


def test_an_unknown_type_is_refused_with_the_nearest(torque_venv):
    with pytest.raises(InputError, match=r"policy_type 'pppo'.* did you mean 'ppo'"):
        load_policy("pppo", torque_venv, path="x")


def test_a_missing_model_is_also_a_file_not_found_error(tmp_path, torque_venv):
    for load in (
        lambda: load_policy("ppo", torque_venv, path=tmp_path / "absent"),
        lambda: load_stable_baselines_model(PPO, str(tmp_path), torque_venv),
    ):
        with pytest.raises(FileNotFoundError, match="no model found"):
            load()


@pytest.mark.parametrize("form", ["plain", "zip"])
def test_another_algorithms_model_is_refused(tmp_path, form):
    model = off(SAC)
    path = tmp_path / "model.zip"
    model.save(path) if form == "zip" else save_stable_model(tmp_path, model)
    message = r"contains a SACPolicy, .* does not train; it is one of sac"
    with pytest.raises(InputError, match=message):
        load_policy("ppo", drift_venv(), path=path)
    with pytest.raises(InputError, match="which PPO does not train"):
        load_stable_baselines_model(PPO, path, drift_venv())


def test_algorithms_with_the_same_policy_are_distinguished(tmp_path, torque_venv):
    save_stable_model(tmp_path, ppo())
    with pytest.raises(InputError, match="contains the algorithm PPO, not A2C"):
        load_stable_baselines_model(A2C, tmp_path, torque_venv)


@pytest.mark.parametrize("form", ["plain", "zip"])
def test_an_environment_that_does_not_fit_is_refused(tmp_path, form):
    path = tmp_path / "model.zip"
    ppo().save(path) if form == "zip" else save_stable_model(tmp_path, ppo())
    for load in (
        lambda venv: load_policy("ppo", venv, path=path),
        lambda venv: load_stable_baselines_model(PPO, path, venv),
    ):
        with pytest.raises(InputError, match="made for"):
            load(drift_venv(size=4))
        with pytest.raises(InputError, match="made for"):
            load(drift_venv(CHOICE))


@pytest.mark.parametrize("form", ["plain", "zip"])
def test_functions_are_not_stored_and_must_be_passed_again(tmp_path, torque_venv, form):
    def rate(progress):
        return 1e-3 * progress

    model = ppo(learning_rate=rate)
    path = tmp_path / "model.zip"
    model.save(path) if form == "zip" else save_stable_model(tmp_path, model)
    with pytest.raises(InputError, match=r"learning_rate \(.*pass learning_rate=…, or"):
        load_stable_baselines_model(PPO, path, torque_venv)
    found = load_stable_baselines_model(PPO, path, torque_venv, learning_rate=rate)
    assert found.lr_schedule(0.5) == 5e-4
    found = load_stable_baselines_model(
        PPO, path, torque_venv, custom_objects={"learning_rate": 0.1, "lr_schedule": rate}
    )
    assert found.learning_rate == 0.1
    load_policy("ppo", torque_venv, path=path)


def test_hyperparameters_can_be_overridden_and_unknown_ones_are_refused(tmp_path, torque_venv):
    save_stable_model(tmp_path, ppo())
    model = load_stable_baselines_model(PPO, tmp_path, torque_venv, gamma=0.5, device="cpu")
    assert model.gamma == 0.5
    with pytest.raises(InputError, match=r"gama: not an argument of PPO; did you mean 'gamma'"):
        load_stable_baselines_model(PPO, tmp_path, torque_venv, gama=0.5)


def test_files_of_different_saves_are_refused(tmp_path, torque_venv):
    save_stable_model(tmp_path / "a", ppo())
    save_stable_model(tmp_path / "b", ppo(seed=1))
    for name in ("policy.json", "policy.safetensors"):
        shutil.copy(tmp_path / "b" / name, tmp_path / "a" / name)
    load_policy("ppo", torque_venv, path=tmp_path / "a")
    with pytest.raises(InputError, match=r"not saved together with algorithm\.json"):
        load_stable_baselines_model(PPO, tmp_path / "a", torque_venv)


def test_a_policy_without_training_state_is_not_an_algorithm(tmp_path, torque_venv):
    save_stable_model(tmp_path, ppo())
    (tmp_path / "algorithm.json").unlink()
    with pytest.raises(InputError, match="a policy without training state"):
        load_stable_baselines_model(PPO, tmp_path, torque_venv)


def test_normalized_environments_cannot_be_saved(tmp_path):
    normalized = VecNormalize(drift_venv())
    with pytest.raises(ValueError, match="VecNormalize, whose statistics are not stored"):
        save_stable_model(tmp_path, ppo(venv=normalized))
    assert list(tmp_path.iterdir()) == []
    save_stable_model(tmp_path, ppo(venv=VecNormalize(drift_venv(), norm_obs=False)))


class TestWithStatistics:
    """Zips with statistics of a `VecNormalize`."""

    @pytest.fixture
    def model(self, tmp_path):
        venv = VecNormalize(drift_venv(), clip_obs=0.7, epsilon=0.1)
        model = ppo(venv=venv)
        model.learn(24)
        model.save(tmp_path / "model.zip")
        venv.save(str(tmp_path / "vec_normalize.pkl"))
        venv.training = False
        return model

    def test_the_statistics_become_part_of_the_policy(self, model, tmp_path, torque_venv):
        raw = torque_venv.reset()
        wanted = model.predict(model.env.normalize_obs(raw), deterministic=True)[0]
        for trust in (False, True):
            policy = load_policy("ppo", torque_venv, path=tmp_path, trust=trust)
            found = policy.predict(raw, deterministic=True)[0]
            np.testing.assert_array_equal(found, wanted)

    def test_statistics_that_cannot_be_read_are_reported_first(self, tmp_path, torque_venv):
        (tmp_path / "model.zip").touch()
        (tmp_path / "vec_normalize.pkl").touch()
        with pytest.raises(FileExistsError, match=r"vec_normalize\.pkl"):
            load_policy("ppo", torque_venv, path=tmp_path)

    def test_resuming_needs_an_environment_that_normalizes(self, model, tmp_path, torque_venv):
        with pytest.raises(FileExistsError, match="wrap the environment"):
            load_stable_baselines_model(PPO, tmp_path, torque_venv)

    def test_an_environment_that_normalizes_replaces_the_statistics(
        self, model, tmp_path, torque_venv
    ):
        venv = VecNormalize.load(str(tmp_path / "vec_normalize.pkl"), torque_venv)
        observations = venv.reset()
        for trust in (False, True):
            policy = load_policy("ppo", venv, path=tmp_path, trust=trust)
            np.testing.assert_array_equal(
                policy.predict(observations, deterministic=True)[0],
                model.predict(observations, deterministic=True)[0],
            )
        assert load_stable_baselines_model(PPO, tmp_path, venv).num_timesteps == 32


def test_trust_loads_parts_that_only_unpickling_restores(tmp_path, torque_venv):
    model = ppo(policy_kwargs={**SMALL, "activation_fn": th.nn.Softplus})
    model.save(tmp_path / "model.zip")
    with pytest.raises(InputError, match=r"Softplus.*trust=True"):
        load_policy("ppo", torque_venv, path=tmp_path)
    policy = load_policy("ppo", torque_venv, path=tmp_path, trust=True)
    observations = torque_venv.reset()
    np.testing.assert_array_equal(
        policy.predict(observations, deterministic=True)[0],
        model.predict(observations, deterministic=True)[0],
    )
    again = load_stable_baselines_model(PPO, tmp_path, torque_venv, trust=True, gamma=0.5)
    assert again.gamma == 0.5


def test_pickles_that_need_a_missing_package_are_refused(shared_dir):
    """This file was written before gymnasium replaced gym."""
    if find_spec("gym"):
        pytest.skip("gym is installed")
    path = shared_dir / "hub-fixtures/rl-zoo/ppo-HalfCheetah-v3/ppo-HalfCheetah-v3.zip"
    with pytest.raises(InputError, match="cannot be unpickled here"):
        load_stable_baselines_model(PPO, path, VecNormalize(drift_venv(size=17)), trust=True)


REAL = {
    "hub-fixtures/rl-zoo/ppo-CartPole-v1": ("ppo", "CartPole-v1", 490),
    "hub-fixtures/rl-zoo/ppo-Pendulum-v1": ("ppo", "Pendulum-v1", -260),
    "hub-fixtures/rl-zoo/sac-Pendulum-v1": ("sac", "Pendulum-v1", -220),
    "hub-fixtures/imitation/models/ppo-Pendulum-v1": ("ppo", "Pendulum-v1", -260),
    "hub-fixtures/imitation/models/ppo-seals-CartPole-v0": ("ppo", "seals/CartPole-v0", 490),
    "legacy-fixtures/expert_models_cartpole_0_policies_final_model.zip": (
        "ppo",
        "CartPole-v1",
        490,
    ),
}


@pytest.mark.parametrize("where", REAL)
def test_real_files_score_as_published(shared_dir, where):
    algo, env_id, least = REAL[where]
    path = shared_dir / where
    if path.is_dir():
        (path,) = path.glob("*.zip")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    venv = DummyVecEnv([lambda: gym.make(env_id)] * 5)
    venv.seed(0)
    policy = load_policy(algo, venv, path=path)
    mean, _ = evaluate_policy(policy, venv, 10, warn=False)
    assert mean >= least
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest


def test_each_algorithm_of_stable_baselines_has_its_loaders():
    assert STABLE_BASELINES_CLASSES["ppo"] == "stable_baselines3:PPO"
    for name, place in STABLE_BASELINES_CLASSES.items():
        assert load_attr(place).__name__ == name.upper()
        assert {name, f"{name}-huggingface"} <= set(policy_registry.keys())
