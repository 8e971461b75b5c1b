"""Compares density-based rewards with the reference library: training steps per second.

    python benchmarks/density.py --install-reference .reference

The same program runs alternately in both interpreters, each with the PPO of its library: eight
pendulums in one process, rollouts of 256 steps, ten epochs in minibatches of 64, with the density
of 56 synthetic demonstrations of 200 steps as reward.
"""

from __future__ import annotations

import comparison

# Both libraries have the same names, so that one program measures both.
PROGRAM = """
import importlib, sys, tempfile, time
import numpy as np, torch as th
library, steps = sys.argv[1:]
th.set_num_threads(1)
density = importlib.import_module(f"{library}.algorithms.density")
types = importlib.import_module(f"{library}.data.types")
logger = importlib.import_module(f"{library}.util.logger")
util = importlib.import_module(f"{library}.util.util")
ppo = importlib.import_module("imitbench.rl.ppo" if library == "imitbench" else "stable_baselines3")
rng = np.random.default_rng(0)

# Rotating pendulums, smooth in time.
def turn(horizon=200):
    pace = rng.uniform(-0.05, 0.05)
    angle = rng.uniform(-np.pi, np.pi) + pace * np.arange(horizon + 1)
    obs = np.stack([np.cos(angle), np.sin(angle), np.full_like(angle, 20 * pace)], axis=1)
    acts = rng.uniform(-2, 2, (horizon, 1)).astype(np.float32)
    return types.Trajectory(obs=obs.astype(np.float32), acts=acts, infos=None, terminal=True)

venv = util.make_vec_env("Pendulum-v1", rng=rng, n_envs=8)
learner = ppo.PPO("MlpPolicy", venv, n_steps=256, batch_size=64, n_epochs=10, seed=0, device="cpu")
with tempfile.TemporaryDirectory() as folder:
    trainer = density.DensityAlgorithm(
        demonstrations=[turn() for _ in range(56)], venv=venv, rng=rng, rl_algo=learner,
        kernel_bandwidth=0.4, custom_logger=logger.configure(folder, []),
    )
    trainer.train()
    trainer.train_policy(2048)
    start = time.perf_counter()
    trainer.train_policy(int(steps))
    print(int(steps) / (time.perf_counter() - start))
"""

MEASUREMENTS = (
    comparison.Measurement(
        name="PPO on the density of 11,200 transitions",
        unit="steps/s",
        program=PROGRAM,
        arguments=("8192",),
        target=10.0,
        limit="the environments' steps and PPO's updates",
    ),
)

if __name__ == "__main__":
    comparison.main(__doc__, MEASUREMENTS)
