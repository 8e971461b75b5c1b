"""Compares soft Q imitation learning with the reference library: training steps per second.

    python benchmarks/sqil.py --install-reference .reference

The same program runs alternately in both interpreters, on 20 synthetic demonstrations of 200 steps,
with the default arguments of DQN and SAC, except that learning starts after 100 steps.
"""

from __future__ import annotations

import comparison

# Both libraries have the same names, so that one program measures both.
PROGRAM = """
import importlib, sys, tempfile, time
import numpy as np, stable_baselines3, torch as th
library, algorithm, environment, steps = sys.argv[1:]
th.set_num_threads(1)
sqil = importlib.import_module(f"{library}.algorithms.sqil")
types = importlib.import_module(f"{library}.data.types")
logger = importlib.import_module(f"{library}.util.logger")
util = importlib.import_module(f"{library}.util.util")
rng = np.random.default_rng(0)
venv = util.make_vec_env(environment, rng=rng, n_envs=1)
venv.action_space.seed(0)

def noise(horizon=200):
    obs = rng.normal(size=(horizon + 1, *venv.observation_space.shape)).astype(np.float32)
    acts = np.array([venv.action_space.sample() for _ in range(horizon)])
    return types.Trajectory(obs=obs, acts=acts, infos=None, terminal=True)

with tempfile.TemporaryDirectory() as folder:
    trainer = sqil.SQIL(
        venv=venv, demonstrations=[noise() for _ in range(20)], policy="MlpPolicy",
        rl_algo_class=getattr(stable_baselines3, algorithm),
        rl_kwargs={"learning_starts": 100, "seed": 0, "device": "cpu"},
        custom_logger=logger.configure(folder, []),
    )
    trainer.train(total_timesteps=200)
    start = time.perf_counter()
    trainer.train(total_timesteps=int(steps), reset_num_timesteps=False)
    print(int(steps) / (time.perf_counter() - start))
"""

MEASUREMENTS = (
    comparison.Measurement(
        name="SQIL with DQN on CartPole-v1",
        unit="steps/s",
        program=PROGRAM,
        arguments=("DQN", "CartPole-v1", "6000"),
        target=2.0,
        limit="the overhead of Stable-Baselines3 per step and the environment's steps",
    ),
    comparison.Measurement(
        name="SQIL with SAC on Pendulum-v1",
        unit="steps/s",
        program=PROGRAM,
        arguments=("SAC", "Pendulum-v1", "600"),
        target=1.5,
        limit="matrix products",
    ),
)

if __name__ == "__main__":
    comparison.main(__doc__, MEASUREMENTS)
