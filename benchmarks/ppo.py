"""Compares the lean PPO with Stable-Baselines3: frames per second, and time of an update.

    python benchmarks/ppo.py

Both train alternately in this process, with the settings of GAIL and AIRL in this package: eight
environments, rollouts of 256 steps, ten epochs of minibatches of 64.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import comparison
import seals  # noqa: F401  (registers environments)
import stable_baselines3
import torch as th
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.rl.ppo import PPO
from imitbench.util.serial_vec_env import SerialVecEnv

ENVIRONMENTS = ("seals/CartPole-v0", "seals/HalfCheetah-v1")
N_ENVS, N_STEPS, BATCH, EPOCHS = 8, 256, 64, 10
ROLLOUT = N_ENVS * N_STEPS
MINIBATCHES = ROLLOUT // BATCH * EPOCHS


def make(cls: type[stable_baselines3.PPO], environment: str) -> stable_baselines3.PPO:
    """Creates a PPO and trains it for one iteration, which initializes everything."""
    vec_env = SerialVecEnv if cls is PPO else DummyVecEnv
    venv = make_vec_env(environment, N_ENVS, seed=0, vec_env_cls=vec_env)
    model = cls(
        "MlpPolicy", venv, n_steps=N_STEPS, batch_size=BATCH, n_epochs=EPOCHS, seed=0, device="cpu"
    )
    return model.learn(ROLLOUT)


def seconds(function: Callable[[], object]) -> float:
    """Returns the duration of a call in seconds."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(model: stable_baselines3.PPO, iterations: int) -> tuple[float, float]:
    """Returns frames per second, and milliseconds per minibatch."""
    frames = iterations * ROLLOUT
    whole = seconds(lambda: model.learn(frames, reset_num_timesteps=False))
    return frames / whole, 1e3 * seconds(model.train) / MINIBATCHES


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    th.set_num_threads(1)
    warnings.simplefilter("ignore")
    comparison.print_heading(options.repeats)
    for environment in ENVIRONMENTS:
        lean, plain = make(PPO, environment), make(stable_baselines3.PPO, environment)
        ours, theirs = [], []
        for _ in range(options.repeats):
            ours.append(measure(lean, 5))
            theirs.append(measure(plain, 1))
        for index, (what, digits) in enumerate((("frames/s", 0), ("ms per minibatch", 3))):
            own, other = ([pair[index] for pair in pairs] for pairs in (ours, theirs))
            ratios = [a / b if index == 0 else b / a for a, b in zip(own, other, strict=True)]
            print(comparison.row(f"lean PPO on {environment}, {what}", own, digits))
            print(
                comparison.row(
                    f"Stable-Baselines3 {stable_baselines3.__version__}, {what}", other, digits
                )
            )
            print(comparison.row("ratio of paired turns", ratios, 2))


if __name__ == "__main__":
    main()
