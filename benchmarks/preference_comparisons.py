"""Compares preference comparisons with the reference library: rewards, and a whole example.

    python benchmarks/preference_comparisons.py --install-reference .reference

The same program runs alternately in both interpreters, on the same comparisons. Time is the CPU
time of the single thread, which depends less on the load of the machine.
"""

from __future__ import annotations

import comparison

# Both libraries have the same names, so that one program measures both.
REWARD_TRAINING = """
import importlib, sys, tempfile, time
import gymnasium as gym, numpy as np, torch as th
library, pairs, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
trainings = {"imitbench": 40, "imitation": 4}[library]
preferences = importlib.import_module(f"{library}.algorithms.preference_comparisons")
types = importlib.import_module(f"{library}.data.types")
reward_nets = importlib.import_module(f"{library}.rewards.reward_nets")
networks = importlib.import_module(f"{library}.util.networks")
logger = importlib.import_module(f"{library}.util.logger")
th.set_num_threads(1)
th.manual_seed(0)
rng = np.random.default_rng(0)

# Rotating pendulums, smooth in time; the reward is highest upright.
def fragment():
    angle = rng.uniform(-np.pi, np.pi) + rng.uniform(-0.05, 0.05) * np.arange(length + 1)
    obs = np.stack([np.cos(angle), np.sin(angle), np.gradient(angle)], axis=1)
    return types.TrajectoryWithRew(
        obs=obs.astype(np.float32), acts=rng.uniform(-2, 2, (length, 1)).astype(np.float32),
        infos=None, terminal=False, rews=(obs[1:, 0] - 1).astype(np.float32),
    )

fragments = [(fragment(), fragment()) for _ in range(pairs)]
dataset = preferences.PreferenceDataset()
dataset.push(
    fragments, np.array([f1.rews.sum() > f2.rews.sum() for f1, f2 in fragments], dtype=np.float32)
)
net = reward_nets.BasicRewardNet(
    gym.spaces.Box(-np.inf, np.inf, (3,)), gym.spaces.Box(-2, 2, (1,)),
    normalize_input_layer=networks.RunningNorm,
)
trainer = preferences.BasicRewardTrainer(
    preferences.PreferenceModel(net), preferences.CrossEntropyRewardLoss(), rng=rng,
    custom_logger=logger.configure(tempfile.mkdtemp(), []),
)
trainer.train(dataset)
start = time.process_time()
for _ in range(trainings):
    trainer.train(dataset)
print(trainings * pairs / (time.process_time() - start))
"""

# The tutorial's settings on Pendulum, with 50,000 steps of the agent and 200 comparisons. The
# reference trains its agent for one round more than requested, so that one fewer is requested.
EXAMPLE = """
import contextlib, importlib, sys, tempfile, time, warnings
warnings.simplefilter("ignore")
import numpy as np, torch as th
library, own_ppo = sys.argv[1], sys.argv[2] == "own"
preferences = importlib.import_module(f"{library}.algorithms.preference_comparisons")
reward_nets = importlib.import_module(f"{library}.rewards.reward_nets")
networks = importlib.import_module(f"{library}.util.networks")
policies = importlib.import_module(f"{library}.policies.base")
logger = importlib.import_module(f"{library}.util.logger")
util = importlib.import_module(f"{library}.util.util")
lean = own_ppo and library == "imitbench"
ppo = importlib.import_module("imitbench.rl.ppo" if lean else "stable_baselines3")
th.set_num_threads(1)
th.manual_seed(0)
rng = np.random.default_rng(0)
venv = util.make_vec_env("Pendulum-v1", rng=rng, n_envs=8)
net = reward_nets.BasicRewardNet(
    venv.observation_space, venv.action_space, normalize_input_layer=networks.RunningNorm
)
agent = ppo.PPO(
    policies.FeedForward32Policy, venv, seed=0, n_steps=256, batch_size=64, ent_coef=0.01,
    learning_rate=2e-3, clip_range=0.1, gae_lambda=0.95, gamma=0.97, n_epochs=10, device="cpu",
    policy_kwargs=dict(
        features_extractor_class=policies.NormalizeFeaturesExtractor,
        features_extractor_kwargs=dict(normalize_class=networks.RunningNorm),
    ),
)
iterations, steps = 5, 50_000
comparisons = preferences.PreferenceComparisons(
    preferences.AgentTrainer(
        algorithm=agent, reward_fn=net, venv=venv, exploration_frac=0.05, rng=rng
    ),
    net,
    num_iterations=iterations,
    fragmenter=preferences.RandomFragmenter(warning_threshold=0, rng=rng),
    preference_gatherer=preferences.SyntheticGatherer(rng=rng),
    reward_trainer=preferences.BasicRewardTrainer(
        preference_model=preferences.PreferenceModel(net),
        loss=preferences.CrossEntropyRewardLoss(), epochs=3, rng=rng,
    ),
    fragment_length=100, transition_oversampling=1, initial_comparison_frac=0.1,
    initial_epoch_multiplier=4, custom_logger=logger.configure(tempfile.mkdtemp(), []),
)
asked = steps if library == "imitbench" else steps * iterations // (iterations + 1)
start = time.process_time()
with contextlib.redirect_stdout(sys.stderr):  # the reference prints
    comparisons.train(total_timesteps=asked, total_comparisons=200)
elapsed = time.process_time() - start
assert agent.num_timesteps >= steps, agent.num_timesteps
print(elapsed)
"""

MEASUREMENTS = (
    comparison.Measurement(
        name="Reward training on 200 comparisons of 100 steps, default epochs",
        unit="comparisons/s",
        program=REWARD_TRAINING,
        arguments=("200", "100"),
        target=10.0,
        limit="matrix products for every step of the fragments",
    ),
    *(
        comparison.Measurement(
            name=f"Whole example, 200 comparisons and 50,000 steps, {whose} PPO",
            unit="s",
            program=EXAMPLE,
            arguments=(which,),
            target=2.0,
            limit="the updates of Stable-Baselines3's PPO",
            less_is_better=True,
        )
        for which, whose in (("own", "this library's"), ("sb3", "Stable-Baselines3's"))
    ),
)

if __name__ == "__main__":
    comparison.main(__doc__, MEASUREMENTS)
