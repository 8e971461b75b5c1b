"""The tutorial "Train an Agent using Adversarial Inverse Reinforcement Learning", as one script."""

import sys

import numpy as np
from imitation.algorithms.adversarial.airl import AIRL
from imitation.data import rollout
from imitation.data.wrappers import RolloutInfoWrapper
from imitation.policies.serialize import load_policy
from imitation.rewards.reward_nets import BasicShapedRewardNet
from imitation.util.networks import RunningNorm
from imitation.util.util import make_vec_env
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.ppo import MlpPolicy

SEED = 42
N_RL_TRAIN_STEPS = 100_000  # the tutorial's, with FAST = True

venv = make_vec_env(
    "seals:seals/CartPole-v0",
    rng=np.random.default_rng(SEED),
    n_envs=8,
    post_wrappers=[lambda env, _: RolloutInfoWrapper(env)],
)
# The tutorial downloads it: "ppo-huggingface".
expert = load_policy("ppo", path=sys.argv[1] + "/seals-CartPole-v0", venv=venv)
rollouts = rollout.rollout(
    expert,
    venv,
    rollout.make_sample_until(min_timesteps=None, min_episodes=60),
    rng=np.random.default_rng(SEED),
)
learner = PPO(
    env=venv,
    policy=MlpPolicy,
    batch_size=64,
    ent_coef=0.0,
    learning_rate=0.0005,
    gamma=0.95,
    clip_range=0.1,
    vf_coef=0.1,
    n_epochs=5,
    seed=SEED,
)
reward_net = BasicShapedRewardNet(
    observation_space=venv.observation_space,
    action_space=venv.action_space,
    normalize_input_layer=RunningNorm,
)
airl_trainer = AIRL(
    demonstrations=rollouts,
    demo_batch_size=2048,
    gen_replay_buffer_capacity=512,
    n_disc_updates_per_round=16,
    venv=venv,
    gen_algo=learner,
    reward_net=reward_net,
)
venv.seed(SEED)
rewards_before_training, _ = evaluate_policy(learner, venv, 100, return_episode_rewards=True)
airl_trainer.train(N_RL_TRAIN_STEPS)
venv.seed(SEED)
rewards_after_training, _ = evaluate_policy(learner, venv, 100, return_episode_rewards=True)
print("before training", np.mean(rewards_before_training), np.std(rewards_before_training))
print("after training", np.mean(rewards_after_training), np.std(rewards_after_training))
