"""BC on CartPole, with the numbers of the reference's tutorial. Argument: the folder of experts."""

import sys

import numpy as np
from imitation.algorithms.bc import BC
from imitation.data import rollout
from imitation.data.wrappers import RolloutInfoWrapper
from imitation.policies.serialize import load_policy
from imitation.util.util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

rng = np.random.default_rng(0)
venv = make_vec_env(
    "seals:seals/CartPole-v0", rng=rng, post_wrappers=[lambda env, _: RolloutInfoWrapper(env)]
)
expert = load_policy("ppo", path=f"{sys.argv[1]}/seals-CartPole-v0", venv=venv)
print("expert", *evaluate_policy(expert, venv, 10))
episodes = rollout.rollout(expert, venv, rollout.make_sample_until(min_episodes=50), rng=rng)
trainer = BC(
    observation_space=venv.observation_space,
    action_space=venv.action_space,
    demonstrations=rollout.flatten_trajectories(episodes),
    rng=rng,
)
print("before training", *evaluate_policy(trainer.policy, venv, 10))
trainer.train(n_epochs=1)
print("after training", *evaluate_policy(trainer.policy, venv, 10))
