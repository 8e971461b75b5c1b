"""Demonstrations of CartPole by a rule, as a person would record them: no expert, no parquet."""

import gymnasium as gym
import numpy as np


def balance(episodes=4, steps=500, seed=0):
    """Plain arrays of episodes in which the cart follows the pole; each is cut after `steps`."""
    env = gym.make("CartPole-v1", max_episode_steps=steps)
    found = {"obs": [], "acts": [], "dones": [], "rewards": [], "next_obs": []}
    for number in range(episodes):
        obs, over = env.reset(seed=seed + number)[0], False
        while not over:
            act = int(obs[2] + 0.5 * obs[3] > 0)
            later, reward, terminated, truncated, _ = env.step(act)
            over = terminated or truncated
            for name, value in zip(found, (obs, act, over, reward, later), strict=True):
                found[name].append(value)
            obs = later
    env.close()
    return {name: np.array(values) for name, values in found.items()}
