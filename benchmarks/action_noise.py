"""Compares the action noise of experts and of the policies that learned from them.

    python benchmarks/action_noise.py runs --suite seals

prints the mean standard deviation of actions (before clipping to the action space) over the
observations of the first bundled demonstration: of the suite's expert, and of all completed runs in
a results folder, by algorithm. Only policies with Gaussian noise are shown.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from torch.distributions import Normal

from imitbench.cards.catalog import load_suite, suite_directory
from imitbench.data.demonstrations import read_demonstrations
from imitbench.policies.storage import load_policy
from imitbench.store.run_dir import RunDirectory
from imitbench.store.scan import run_directories


def action_noise(policy: object, observations: np.ndarray) -> float | None:
    """Returns the mean standard deviation of actions; `None` if the noise is not Gaussian."""
    if not isinstance(policy, ActorCriticPolicy):
        return None
    policy.set_training_mode(False)
    with th.no_grad():
        found = policy.get_distribution(policy.obs_to_tensor(observations)[0]).distribution
    return float(found.stddev.mean()) if isinstance(found, Normal) else None


def main() -> None:
    """Prints a line for each environment."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, help="results folder")
    parser.add_argument("--suite", default="seals")
    options = parser.parse_args()
    th.set_num_threads(1)
    root, environments = suite_directory(options.suite), load_suite(options.suite).environments
    observations, noises = {}, defaultdict(list)
    for env, card in environments.items():
        [episode] = read_demonstrations(root / "demos" / card.demos.repo, rows=[0])
        observations[env] = np.asarray(episode.obs[:-1])
        expert = load_policy(root / "experts" / card.expert.repo)
        noises[env, "expert"].append(action_noise(expert, observations[env]))
    for path in run_directories(options.out):
        run = RunDirectory(options.out / path)
        if run.is_done and (spec := run.read_spec()).suite == options.suite:
            env = spec.environment.id
            noise = action_noise(load_policy(run.policy), observations[env])
            noises[env, spec.algo_label].append(noise)
    names = list(dict.fromkeys(name for _, name in noises))
    print(f"| environment | {' | '.join(names)} |")
    print(f"| --- {'| ---: ' * len(names)}|")
    for env in environments:
        known = [[x for x in noises[env, name] if x is not None] for name in names]
        shown = [f"{np.mean(each):.3f}" if each else "n/a" for each in known]
        print(f"| {env} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
