"""Registers a family of random tabular environments, `imitbench/RandomMDP-<i>-v0`.

Each has 16 states, 3 actions with at most 4 successor states each, episodes of 20 steps, and
observations of 8 random numbers per state. The reward is linear in the observation. Members
differ only in the seed of their generator.
"""

from __future__ import annotations

import gymnasium as gym

MEMBERS = 5

for _seed in range(MEMBERS):
    gym.register(
        f"imitbench/RandomMDP-{_seed}-v0",
        entry_point="seals.diagnostics.random_trans:RandomTransitionEnv",
        kwargs={
            "n_states": 16,
            "n_actions": 3,
            "branch_factor": 4,
            "horizon": 20,
            "random_obs": True,
            "obs_dim": 8,
            "generator_seed": _seed,
        },
    )
