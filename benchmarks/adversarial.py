"""Compares GAIL and AIRL with the reference library: environment steps per second of training.

    python benchmarks/adversarial.py --install-reference .reference

The same program runs alternately in both interpreters, each with the PPO of its library: eight
environments in one process, rollouts of 256 steps, ten epochs in minibatches of 64, and eight
discriminator updates with 1,024 samples of each kind, on synthetic demonstrations.
"""

from __future__ import annotations

import comparison

# Both libraries have the same names, so that one program measures both.
PROGRAM = """
import importlib, sys, tempfile, time, warnings
warnings.simplefilter("ignore")
import numpy as np, seals, torch as th
library, algorithm, environment, rounds = sys.argv[1:]
th.set_num_threads(1)
adversarial = importlib.import_module(f"{library}.algorithms.adversarial.{algorithm.lower()}")
reward_nets = importlib.import_module(f"{library}.rewards.reward_nets")
networks = importlib.import_module(f"{library}.util.networks")
types = importlib.import_module(f"{library}.data.types")
logger = importlib.import_module(f"{library}.util.logger")
util = importlib.import_module(f"{library}.util.util")
ppo = importlib.import_module("imitbench.rl.ppo" if library == "imitbench" else "stable_baselines3")
rng = np.random.default_rng(0)
venv = util.make_vec_env(environment, rng=rng, n_envs=8)
count = 10_000
venv.action_space.seed(0)
obs = rng.normal(size=(count + 1, *venv.observation_space.shape))
obs = obs.astype(venv.observation_space.dtype)
demonstrations = types.Transitions(
    obs=obs[:-1], acts=np.array([venv.action_space.sample() for _ in range(count)]),
    infos=np.array([{}] * count), next_obs=obs[1:], dones=np.zeros(count, dtype=bool),
)
Net = {"GAIL": reward_nets.BasicRewardNet, "AIRL": reward_nets.BasicShapedRewardNet}[algorithm]
learner = ppo.PPO(
    "MlpPolicy", venv, n_steps=256, batch_size=64, n_epochs=10, seed=0, device="cpu"
)
trainer = getattr(adversarial, algorithm)(
    demonstrations=demonstrations, demo_batch_size=1024, n_disc_updates_per_round=8, venv=venv,
    gen_algo=learner, custom_logger=logger.configure(tempfile.mkdtemp(), []),
    reward_net=Net(
        venv.observation_space, venv.action_space, normalize_input_layer=networks.RunningNorm
    ),
)
trainer.train(2048)
steps = int(rounds) * 2048
start = time.perf_counter()
trainer.train(steps)
print(steps / (time.perf_counter() - start))
"""

MEASUREMENTS = tuple(
    comparison.Measurement(
        name=f"{algorithm} on {environment}",
        unit="steps/s",
        program=PROGRAM,
        arguments=(algorithm, environment, "6"),
        target=2.0,
        limit="PPO's updates and the environments' steps",
    )
    for algorithm in ("GAIL", "AIRL")
    for environment in ("seals/CartPole-v0", "seals/HalfCheetah-v1")
)

if __name__ == "__main__":
    comparison.main(__doc__, MEASUREMENTS)
