"""Follows AIRL's return, and the agreement of its learned reward with the true one, in training.

    python benchmarks/airl_rewards.py --env seals/Swimmer-v1 --seed 100 --set disc_density=bounded

Trains as a run of a suite does, with the same numbers, and measures at equal distances. Prints a
JSON object per measurement: `env`, `seed` and `changed` values; `step`; `return_sampled` and
`return_likely`, mean returns of eight episodes by both ways of acting; the discriminator's metrics;
and Spearman's rank correlation of the learned reward, without shaping, with the true one:

- `learner_episodes`: returns of 40 episodes between the learner's policy and random actions, as in
  the measure `reward_correlation` of a run;
- `expert_episodes`: the same between the expert and random actions;
- `steps`: rewards of single steps, in eight episodes of the expert, the learner and random actions.

Each has a bootstrap interval of 95 % over whole episodes, `*_low` and `*_high`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch as th
from stable_baselines3.common.policies import BasePolicy

from imitbench.bench.artifacts import expert_of_run
from imitbench.bench.checkpoint import generator_states, restore_generators
from imitbench.bench.learners.adversarial import AIRLLearner
from imitbench.bench.learners.reward_agreement import (
    held_out_trajectories,
    rank_correlation,
    rewards_by_episode,
)
from imitbench.bench.plan import plan_request
from imitbench.bench.protocol import Evaluator
from imitbench.bench.training import seed_generators, set_up
from imitbench.bench.training_setup import TrainingConfig, TrainingInputs
from imitbench.cards.catalog import suite_directory
from imitbench.data.types import TrajectoryWithRew
from imitbench.records.runs import RunSpec
from imitbench.rewards.base import RewardNet
from imitbench.store.sweep_file import SweepRequest

EPISODES = 8  # of each kind of behavior


def planned(algorithm: str, options: argparse.Namespace, overrides: dict[str, str]) -> RunSpec:
    """Returns the specification of the only run of an algorithm."""
    request = SweepRequest(
        algorithms=[algorithm],
        suite=options.suite,
        environment=options.env,
        seeds=[options.seed],
        budget=options.budget,
        overrides=overrides,
        folder=str(Path.cwd()),
    )
    (run,) = plan_request(request)
    return run


def agreement(net: RewardNet, mixed: Mapping[str, Sequence[TrajectoryWithRew]]) -> dict[str, float]:
    """Returns the three correlations; `mixed` has episodes from each policy to random actions."""
    found: dict[str, float] = {}
    rewards = {name: rewards_by_episode(net, episodes) for name, episodes in mixed.items()}
    for name, parts in rewards.items():
        sums = [(learned.sum(keepdims=True), true.sum(keepdims=True)) for learned, true in parts]
        found |= rank_correlation(f"{name}_episodes", sums)
    steps = [*rewards["expert"][:EPISODES], *rewards["learner"][:EPISODES]]
    return found | rank_correlation("steps", [*steps, *rewards["learner"][-EPISODES:]])


def main() -> None:
    """Trains and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--suite", default="seals")
    parser.add_argument("--env", default="seals/Swimmer-v1")
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--budget", default="default")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--points", type=int, default=10)
    options = parser.parse_args()
    th.set_num_threads(1)
    warnings.simplefilter("ignore")
    gym.register_envs(__import__("seals"))
    run = planned("airl", options, dict(pair.split("=", 1) for pair in options.set))
    about = {"env": options.env, "seed": options.seed, "changed": sorted(options.set)}
    root = suite_directory(options.suite)
    config = TrainingConfig.of(run)
    seed_generators(config)
    with Evaluator(config.evaluated, EPISODES) as evaluator:
        spaces = evaluator.observation_space, evaluator.action_space
        teacher = planned("expert", options, {})
        learner = set_up(config, TrainingInputs.of(run, root), *spaces)
        assert isinstance(learner, AIRLLearner)
        before = generator_states()
        expert = expert_of_run(teacher, root, *spaces, "cpu")
        assert expert is not None
        experts = held_out_trajectories(expert, config.environment, options.seed)
        restore_generators(before)
        distance = run.budget.amount // options.points
        last = run.budget.amount - learner.ppo.n_steps * learner.ppo.n_envs

        def measure(step: int, metrics: Mapping[str, float]) -> dict[str, Any]:
            policy: BasePolicy = learner.policy()
            learners = held_out_trajectories(policy, config.environment, options.seed)
            returns = {
                f"return_{way}": float(
                    evaluator.evaluate(
                        policy, episodes=EPISODES, seed=options.seed, deterministic=likely
                    ).returns.mean()
                )
                for way, likely in (("sampled", False), ("likely", True))
            }
            found = agreement(learner.reward(), {"learner": learners, "expert": experts})
            return {**about, "step": step, **returns, **found, **metrics}

        measured = 0

        def point(step: int, metrics: Mapping[str, float]) -> None:
            nonlocal measured
            if step // distance > measured or step > last:
                measured = step // distance
                states = generator_states()
                print(json.dumps(measure(step, metrics)), flush=True)
                restore_generators(states)

        learner.train(run.budget, point)


if __name__ == "__main__":
    main()
