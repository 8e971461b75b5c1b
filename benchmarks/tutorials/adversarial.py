"""GAIL and AIRL on CartPole, with the numbers of the reference's tutorials on both.

Arguments: the folder of experts, and `gail` or `airl`.
"""

import sys

import numpy as np
from imitation.algorithms.adversarial.airl import AIRL
from imitation.algorithms.adversarial.gail import GAIL
from imitation.data import rollout
from imitation.data.wrappers import RolloutInfoWrapper
from imitation.policies.serialize import load_policy
from imitation.rewards.reward_nets import BasicRewardNet, BasicShapedRewardNet
from imitation.util.networks import RunningNorm
from imitation.util.util import make_vec_env
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

folder, name = sys.argv[1:]
method, net, steps, settings, ppo_settings = {
    "gail": (
        GAIL,
        BasicRewardNet,
        200_000,
        {"demo_batch_size": 1024, "n_disc_updates_per_round": 8},
        {"learning_rate": 4e-4},
    ),
    "airl": (
        AIRL,
        BasicShapedRewardNet,
        100_000,  # of the tutorial's shorter variant
        {"demo_batch_size": 2048, "n_disc_updates_per_round": 16},
        {"learning_rate": 5e-4, "clip_range": 0.1, "vf_coef": 0.1},
    ),
}[name]

venv = make_vec_env(
    "seals:seals/CartPole-v0",
    n_envs=8,
    rng=np.random.default_rng(42),
    post_wrappers=[lambda env, _: RolloutInfoWrapper(env)],
)
demonstrations = rollout.rollout(
    load_policy("ppo", path=f"{folder}/seals-CartPole-v0", venv=venv),
    venv,
    rollout.make_sample_until(min_episodes=60),
    rng=np.random.default_rng(42),
)
ppo = PPO(
    "MlpPolicy", venv, batch_size=64, n_epochs=5, gamma=0.95, ent_coef=0.0, seed=42, **ppo_settings
)
trainer = method(
    demonstrations=demonstrations,
    venv=venv,
    gen_algo=ppo,
    reward_net=net(venv.observation_space, venv.action_space, normalize_input_layer=RunningNorm),
    gen_replay_buffer_capacity=512,
    **settings,
)
for when in ("before training", "after training"):
    if when == "after training":
        trainer.train(steps)
    venv.seed(42)
    print(when, *evaluate_policy(ppo, venv, 100))
