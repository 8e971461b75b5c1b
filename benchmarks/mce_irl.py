"""Compares maximum causal entropy IRL with the reference library: iterations per second.

    python benchmarks/mce_irl.py --install-reference .reference

The same program runs alternately in both interpreters, on the same environment. Time is the CPU
time of the single thread, which depends less on the load of the machine.
"""

from __future__ import annotations

import comparison

# Both libraries have the same names, so that one program measures both.
PROGRAM = """
import importlib, sys, tempfile, time
import numpy as np, torch as th
from seals.diagnostics.cliff_world import CliffWorldEnv
library, width, height, horizon, hidden = sys.argv[1:]
iterations = {"imitbench": 1000, "imitation": 100}[library]
mce_irl = importlib.import_module(f"{library}.algorithms.mce_irl")
reward_nets = importlib.import_module(f"{library}.rewards.reward_nets")
logger = importlib.import_module(f"{library}.util.logger")
th.set_num_threads(1)
th.manual_seed(0)
env = CliffWorldEnv(width=int(width), height=int(height), horizon=int(horizon), use_xy_obs=True)
_, _, pi = mce_irl.mce_partition_fh(env)
_, visits = mce_irl.mce_occupancy_measures(env, pi=pi)
net = reward_nets.BasicRewardNet(
    env.observation_space, env.action_space, hid_sizes=[int(size) for size in hidden.split()],
    use_action=False, use_next_state=False, use_done=False,
)
trainer = mce_irl.MCEIRL(
    visits, env, net, np.random.default_rng(0), optimizer_kwargs={"lr": 0.01}, log_interval=100,
    linf_eps=0, grad_l2_eps=0, custom_logger=logger.configure(tempfile.mkdtemp(), []),
)
trainer.train(20)
start = time.process_time()
trainer.train(iterations)
print(iterations / (time.process_time() - start))
"""

_LIMIT = "about six calls of NumPy per planning step, each of which takes about half a microsecond"

# Name, width, height, horizon, hidden layers, target.
_CASES = (
    ("CliffWorld 7x4, 40 steps, one hidden layer of 256", "7", "4", "40", "256", 20),
    ("CliffWorld 7x4, 40 steps, linear reward", "7", "4", "40", "", 20),
    ("CliffWorld 15x6, 18 steps, hidden layers of 32 and 32", "15", "6", "18", "32 32", 10),
)

MEASUREMENTS = tuple(
    comparison.Measurement(
        name=f"MCE IRL, {name}",
        unit="iterations/s",
        program=PROGRAM,
        arguments=tuple(size),
        target=target,
        limit=_LIMIT,
    )
    for name, *size, target in _CASES
)

if __name__ == "__main__":
    comparison.main(__doc__, MEASUREMENTS)
