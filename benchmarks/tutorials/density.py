"""The tutorial "Learning a Reward Function using Kernel Density", as one script."""

import pprint
import sys

import gymnasium as gym
import numpy as np
from imitation.algorithms import density as db
from imitation.data import rollout
from imitation.data.wrappers import RolloutInfoWrapper
from imitation.policies.serialize import load_policy
from imitation.util import util
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv

# Of the tutorial's ten iterations with FAST = False, one, with a tenth of its steps.
N_VEC = 8
N_TRAJECTORIES = 10
N_ITERATIONS = 1
N_RL_TRAIN_STEPS = 10_000
SEED = 42

rng = np.random.default_rng(seed=SEED)
env_name = "Pendulum-v1"
rollout_env = DummyVecEnv([lambda: RolloutInfoWrapper(gym.make(env_name)) for _ in range(N_VEC)])
# The tutorial downloads it: "ppo-huggingface".
expert = load_policy("ppo", path=sys.argv[1] + "/Pendulum-v1", venv=rollout_env)
rollouts = rollout.rollout(
    expert,
    rollout_env,
    rollout.make_sample_until(min_timesteps=2000, min_episodes=57),
    rng=rng,
)
env = util.make_vec_env(env_name, n_envs=N_VEC, rng=rng)
imitation_trainer = PPO(
    ActorCriticPolicy, env, learning_rate=3e-4, gamma=0.95, ent_coef=1e-4, n_steps=2048
)
density_trainer = db.DensityAlgorithm(
    venv=env,
    rng=rng,
    demonstrations=rollouts,
    rl_algo=imitation_trainer,
    density_type=db.DensityType.STATE_ACTION_DENSITY,
    is_stationary=True,
    kernel="gaussian",
    kernel_bandwidth=0.4,
    standardise_inputs=True,
)
density_trainer.train()


def print_stats(trainer, n_trajectories, epoch=""):
    """Prints statistics of both rewards."""
    print("True reward function stats:")
    pprint.pprint(trainer.test_policy(n_trajectories=n_trajectories))
    print(f"Imitation reward function stats, epoch {epoch}:")
    pprint.pprint(trainer.test_policy(true_reward=False, n_trajectories=n_trajectories))


expert_rewards, _ = evaluate_policy(expert, env, 100, return_episode_rewards=True)
rewards_before_training, _ = evaluate_policy(
    density_trainer.policy, env, 100, return_episode_rewards=True
)
novice_stats = density_trainer.test_policy(n_trajectories=N_TRAJECTORIES)
print_stats(density_trainer, 1)
for i in range(N_ITERATIONS):
    density_trainer.train_policy(N_RL_TRAIN_STEPS)
    print_stats(density_trainer, 1, epoch=str(i))
rewards_after_training, _ = evaluate_policy(
    density_trainer.policy, env, 100, return_episode_rewards=True
)
print("expert", np.mean(expert_rewards))
print("before training", np.mean(rewards_before_training))
print("after training", np.mean(rewards_after_training))
