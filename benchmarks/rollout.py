"""Compares the collection of rollouts with the reference library: environment steps per second.

    python benchmarks/rollout.py --install-reference .reference

The same program runs alternately in both interpreters: eight environments in one process and an
untrained policy.
"""

from __future__ import annotations

import comparison

STEPS = 40_000
ENVIRONMENT = "seals/CartPole-v0"

# Both libraries have the same names, so that one program measures both.
PROGRAM = """
import importlib, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, seals, torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
library, environment, steps = sys.argv[1:]
rollout = importlib.import_module(f"{library}.data.rollout")
wrappers = importlib.import_module(f"{library}.data.wrappers")
util = importlib.import_module(f"{library}.util.util")
th.set_num_threads(1)
th.manual_seed(0)
rng = np.random.default_rng(0)
venv = util.make_vec_env(
    environment, rng=rng, n_envs=8,
    post_wrappers=[lambda env, _: wrappers.RolloutInfoWrapper(env)],
)
policy = ActorCriticPolicy(venv.observation_space, venv.action_space, lambda _: 1e-3)
collect = lambda count: rollout.rollout(
    policy, venv, rollout.make_sample_until(min_timesteps=count), rng=rng
)
collect(1)
start = time.perf_counter()
collected = sum(map(len, collect(int(steps))))
print(collected / (time.perf_counter() - start))
"""


MEASUREMENTS = (
    comparison.Measurement(
        name=f"rollout on {ENVIRONMENT}, 8 environments",
        unit="steps/s",
        program=PROGRAM,
        arguments=(ENVIRONMENT, str(STEPS)),
        target=2.0,
        limit="the environments' steps and the policy's matrix products",
    ),
)

if __name__ == "__main__":
    comparison.main(__doc__, MEASUREMENTS)
