"""Compares the lean DQN and SAC with Stable-Baselines3: environment steps per second of CPU time.

    python benchmarks/off_policy.py

Both train alternately in this process, in the same environment, with an update after each step. The
networks are those of SQIL's card (two layers of 64 units, minibatches of 128) and the defaults of
Stable-Baselines3.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import comparison
import torch as th
from stable_baselines3.common.env_util import make_vec_env

from imitbench.rl.dqn import DQN
from imitbench.rl.sac import SAC
from imitbench.util.serial_vec_env import SerialVecEnv

_OF_THE_CARD = {"policy_kwargs": {"net_arch": [64, 64]}, "batch_size": 128}
# Name, class, environment, arguments, steps of a turn.
CASES: tuple[tuple[str, type[DQN] | type[SAC], str, dict[str, Any], int], ...] = (
    ("DQN on CartPole-v1, SQIL's networks", DQN, "CartPole-v1", _OF_THE_CARD, 1500),
    ("SAC on Pendulum-v1, SQIL's networks", SAC, "Pendulum-v1", _OF_THE_CARD, 300),
    ("SAC on Pendulum-v1, networks by default", SAC, "Pendulum-v1", {}, 150),
)


def steps_per_second(model: DQN | SAC, steps: int) -> float:
    """Returns environment steps per second of CPU time."""
    start = time.process_time()
    model.learn(steps, reset_num_timesteps=False)
    return steps / (time.process_time() - start)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    th.set_num_threads(1)
    warnings.simplefilter("ignore")
    comparison.print_heading(options.repeats)
    for name, cls, env_id, arguments, steps in CASES:
        given = {"learning_starts": 100, "train_freq": 1, **arguments}
        models = []
        for lean in (True, False):
            venv = make_vec_env(env_id, 1, seed=0, vec_env_cls=SerialVecEnv)
            model = cls("MlpPolicy", venv, seed=0, device="cpu", lean=lean, **given)
            models.append(model.learn(300))
        turns = [
            [steps_per_second(model, steps) for model in models] for _ in range(options.repeats)
        ]
        ours, theirs = ([turn[index] for turn in turns] for index in (0, 1))
        print(comparison.row(f"lean {name}, steps/s", ours, 0))
        print(comparison.row("Stable-Baselines3, steps/s", theirs, 0))
        ratios = [lean / plain for lean, plain in turns]
        print(comparison.row("ratio, pair by pair (target: at least 1.5)", ratios, 2), flush=True)


if __name__ == "__main__":
    main()
