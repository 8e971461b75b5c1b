"""Compares DAgger with the reference library: seconds of a whole training.

    python benchmarks/dagger.py --install-reference .reference

The same program runs alternately in both interpreters: `SimpleDAggerTrainer.train(8000)` on
seals/CartPole-v0 as in the tutorial of the reference library, with a linear rule as expert.
"""

from __future__ import annotations

import comparison

TIMESTEPS = 8000

# Both libraries have the same names, so that one program measures both.
PROGRAM = """
import importlib, sys, tempfile, time, warnings
import numpy as np, torch as th
from stable_baselines3.common.policies import BasePolicy
library, timesteps, n_envs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
warnings.simplefilter("ignore")
th.set_num_threads(1)
th.manual_seed(0)
bc = importlib.import_module(f"{library}.algorithms.bc")
dagger = importlib.import_module(f"{library}.algorithms.dagger")
logger = importlib.import_module(f"{library}.util.logger")
util = importlib.import_module(f"{library}.util.util")
rng = np.random.default_rng(0)

class Rule(BasePolicy):
    def _predict(self, observation, deterministic=False):
        return (observation @ th.tensor([0.1, 0.4, 1.0, 0.7]) > 0).long()

def train(environments, timesteps):
    venv = util.make_vec_env("seals:seals/CartPole-v0", rng=rng, n_envs=environments)
    with tempfile.TemporaryDirectory() as folder:
        quiet = logger.configure(folder + "/log", [])
        trainer = dagger.SimpleDAggerTrainer(
            venv=venv,
            scratch_dir=folder + "/dagger",
            expert_policy=Rule(venv.observation_space, venv.action_space),
            rng=rng,
            bc_trainer=bc.BC(
                observation_space=venv.observation_space,
                action_space=venv.action_space,
                rng=rng,
                device="cpu",
                custom_logger=quiet,
            ),
            custom_logger=quiet,
        )
        start = time.perf_counter()
        trainer.train(timesteps, bc_train_kwargs={"progress_bar": False})
        return time.perf_counter() - start

train(3, 1)  # imports what is imported late
print(train(n_envs, timesteps))
"""


MEASUREMENTS = tuple(
    comparison.Measurement(
        name=f"DAgger, {TIMESTEPS:,} steps, {n_envs} environment{'s' if n_envs > 1 else ''}",
        unit="seconds",
        program=PROGRAM,
        arguments=(str(TIMESTEPS), str(n_envs)),
        target=3.0,
        limit="the environments' steps",
        less_is_better=True,
    )
    for n_envs in (8, 1)
)

if __name__ == "__main__":
    comparison.main(__doc__, MEASUREMENTS)
