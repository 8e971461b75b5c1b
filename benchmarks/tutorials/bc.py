"""The tutorial "Train an Agent using Behavior Cloning" of `imitation` 1.0.1, as one script."""

import sys

import numpy as np
from imitation.algorithms import bc
from imitation.data import rollout
from imitation.data.wrappers import RolloutInfoWrapper
from imitation.policies.serialize import load_policy
from imitation.util.util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

env = make_vec_env(
    "seals:seals/CartPole-v0",
    rng=np.random.default_rng(0),
    post_wrappers=[lambda env, _: RolloutInfoWrapper(env)],
)
# The tutorial downloads it: "ppo-huggingface".
expert = load_policy("ppo", path=sys.argv[1] + "/seals-CartPole-v0", venv=env)
reward, _ = evaluate_policy(expert, env, 10)
print("expert", reward)

rng = np.random.default_rng(0)
rollouts = rollout.rollout(
    expert, env, rollout.make_sample_until(min_timesteps=None, min_episodes=50), rng=rng
)
transitions = rollout.flatten_trajectories(rollouts)
print(len(rollouts), "trajectories,", len(transitions), "transitions")

bc_trainer = bc.BC(
    observation_space=env.observation_space,
    action_space=env.action_space,
    demonstrations=transitions,
    rng=rng,
)
reward_before_training, _ = evaluate_policy(bc_trainer.policy, env, 10)
print("before training", reward_before_training)
bc_trainer.train(n_epochs=1)
reward_after_training, _ = evaluate_policy(bc_trainer.policy, env, 10)
print("after training", reward_after_training)
