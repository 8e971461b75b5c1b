"""Density on Pendulum, with the numbers of the reference's tutorial but for one of its iterations.

Argument: the folder of experts.
"""

import sys

import gymnasium as gym
import numpy as np
from imitation.algorithms.density import DensityAlgorithm, DensityType
from imitation.data import rollout
from imitation.data.wrappers import RolloutInfoWrapper
from imitation.policies.serialize import load_policy
from imitation.util.util import make_vec_env
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

rng = np.random.default_rng(42)
observed = DummyVecEnv([lambda: RolloutInfoWrapper(gym.make("Pendulum-v1"))] * 8)
expert = load_policy("ppo", path=f"{sys.argv[1]}/Pendulum-v1", venv=observed)
enough = rollout.make_sample_until(min_timesteps=2000, min_episodes=57)
venv = make_vec_env("Pendulum-v1", n_envs=8, rng=rng)
trainer = DensityAlgorithm(
    venv=venv,
    rng=rng,
    demonstrations=rollout.rollout(expert, observed, enough, rng=rng),
    rl_algo=PPO("MlpPolicy", venv, learning_rate=3e-4, gamma=0.95, ent_coef=1e-4, n_steps=2048),
    density_type=DensityType.STATE_ACTION_DENSITY,
    kernel="gaussian",
    kernel_bandwidth=0.4,
    is_stationary=True,
    standardise_inputs=True,
)
trainer.train()
print("expert", *evaluate_policy(expert, venv, 100))
print("before training", *evaluate_policy(trainer.policy, venv, 100))
trainer.train_policy(10_000)
for true_reward in (True, False):
    print("episodes", trainer.test_policy(n_trajectories=1, true_reward=true_reward))
print("after training", *evaluate_policy(trainer.policy, venv, 100))
