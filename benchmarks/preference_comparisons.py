"""Preference comparisons against the reference library: comparisons learnt from per second.

    python benchmarks/preference_comparisons.py --install-reference .reference

The same program runs in both interpreters, turn by turn, on the same comparisons. Time is
processor time of the one thread that works, so that busy neighbours distort it less.
"""

from __future__ import annotations

import comparison

# Both libraries have the same names, so one program measures both.
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

# Turning pendulums: smooth in time, and rewarded for standing still upright.
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

MEASUREMENTS = (
    comparison.Measurement(
        name="Reward training on 200 comparisons of 100 steps, default epochs",
        unit="comparisons/s",
        program=REWARD_TRAINING,
        arguments=("200", "100"),
        target=10.0,
        limit="arithmetic of the network's layers on every step of the fragments",
    ),
)

if __name__ == "__main__":
    comparison.main(__doc__, MEASUREMENTS)
