"""The tutorial "Train an Agent using Generative Adversarial Imitation Learning", as one script."""

import sys

import numpy as np
from imitation.algorithms.adversarial.gail import GAIL
from imitation.data import rollout
from imitation.data.wrappers import RolloutInfoWrapper
from imitation.policies.serialize import load_policy
from imitation.rewards.reward_nets import BasicRewardNet
from imitation.util.networks import RunningNorm
from imitation.util.util import make_vec_env
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.ppo import MlpPolicy

SEED = 42

env = make_vec_env(
    "seals:seals/CartPole-v0",
    rng=np.random.default_rng(SEED),
    n_envs=8,
    post_wrappers=[lambda env, _: RolloutInfoWrapper(env)],
)
# The tutorial downloads it: "ppo-huggingface".
expert = load_policy("ppo", path=sys.argv[1] + "/seals-CartPole-v0", venv=env)
rollouts = rollout.rollout(
    expert,
    env,
    rollout.make_sample_until(min_timesteps=None, min_episodes=60),
    rng=np.random.default_rng(SEED),
)
learner = PPO(
    env=env,
    policy=MlpPolicy,
    batch_size=64,
    ent_coef=0.0,
    learning_rate=0.0004,
    gamma=0.95,
    n_epochs=5,
    seed=SEED,
)
reward_net = BasicRewardNet(
    observation_space=env.observation_space,
    action_space=env.action_space,
    normalize_input_layer=RunningNorm,
)
gail_trainer = GAIL(
    demonstrations=rollouts,
    demo_batch_size=1024,
    gen_replay_buffer_capacity=512,
    n_disc_updates_per_round=8,
    venv=env,
    gen_algo=learner,
    reward_net=reward_net,
)
env.seed(SEED)
rewards_before_training, _ = evaluate_policy(learner, env, 100, return_episode_rewards=True)
gail_trainer.train(200_000)
env.seed(SEED)
rewards_after_training, _ = evaluate_policy(learner, env, 100, return_episode_rewards=True)
print("before training", np.mean(rewards_before_training), np.std(rewards_before_training))
print("after training", np.mean(rewards_after_training), np.std(rewards_after_training))
