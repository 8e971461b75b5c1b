"""Small off-policy trainings on the tasks of suite classic."""

from pathlib import Path

import pytest
import seals  # noqa: F401  (registers environments)
from stable_baselines3.common.env_util import make_vec_env
from support.off_policy import small_options

from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.resumable_env import ResumableEnv
from imitbench.util.logger import configure
from imitbench.util.serial_vec_env import SerialVecEnv

DEMOS = Path(__file__).parents[3] / "suites/classic/demos"


@pytest.fixture(scope="session")
def pendulum_demos():
    return read_demonstrations(DEMOS / "sac-Pendulum-v1")[:3]


@pytest.fixture(scope="session")
def cartpole_demos():
    return read_demonstrations(DEMOS / "ppo-seals-CartPole-v0")[:3]


@pytest.fixture
def make(tmp_path):
    def make(method, env, demonstrations, seeds=(0,), n_envs=1, options=None, **given):
        venv = make_vec_env(
            env, n_envs * len(seeds), wrapper_class=ResumableEnv, vec_env_cls=SerialVecEnv
        )
        venv.seed(seeds[0])  # the next environments get the next seeds
        return method(
            venv=venv,
            demonstrations=demonstrations,
            options=options or small_options(),
            seeds=seeds,
            custom_logger=configure(tmp_path / "log", []),
            **given,
        )

    return make
