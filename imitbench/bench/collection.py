"""Rolls out policies: demonstrations, and sets of trajectories that no suite bundles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from stable_baselines3.common.policies import BasePolicy

from imitbench.bench.environments import make_environment, make_training_environments
from imitbench.bench.seeding import derive_seed
from imitbench.cards.demonstrations import PolicySet
from imitbench.cards.success import SuccessRule
from imitbench.data import rollout
from imitbench.data.demonstrations import write_demonstrations
from imitbench.data.types import Observation, TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.policies.base import RandomPolicy
from imitbench.policies.storage import load_policy
from imitbench.records.runs import EnvironmentSpec
from imitbench.untrusted import gate
from imitbench.util.files import new_folder
from imitbench.util.text_line import one_line

_PRECISION = 1e-6
"""Relative error, absolute below 1, up to which float64 is stored as float32."""

_ENVIRONMENTS = 8


def sample_demonstrations(
    policy: BasePolicy,
    spec: EnvironmentSpec,
    count: int,
    *,
    seed: int,
    deterministic: bool = False,
    success: SuccessRule | None = None,
) -> list[TrajectoryWithRew]:
    """Rolls out an expert.

    Args:
        policy: Policy of the expert.
        spec: Environment to act in.
        count: Number of whole episodes.
        seed: Seed of the environments and of sampled actions.
        deterministic: Whether to use the deterministic policy.
        success: Episodes that are no success by this rule are left out and replaced by others;
            `None` to keep all.

    Raises:
        InputError: Less than a fifth of the episodes succeed, or the environment does not accept
            its arguments.
    """
    seed = derive_seed(seed, "demonstrations")
    with _arguments_accepted(spec):
        venv = make_training_environments(spec, _ENVIRONMENTS, seed)
    rng = np.random.default_rng(seed)
    kept: list[TrajectoryWithRew] = []
    tried = 0
    try:
        while len(kept) < count:
            wanted = count - len(kept)
            if tried >= 5 * count:
                raise InputError(
                    f"{spec.id}: only {len(kept)} of {tried} episodes of the expert succeed; "
                    "improve it, or set fewer trajectories on the suite card"
                )
            collected = rollout.generate_trajectories(
                policy,
                venv,
                rollout.make_min_episodes(wanted),
                rng,
                deterministic_policy=deterministic,
            )[:wanted]
            tried += len(collected)
            kept += [
                trajectory
                for trajectory in collected
                if success is None or _succeeded(trajectory, success)
            ]
    finally:
        venv.close()
    # Drops infos, which hold only the monitor's statistics.
    return [
        dataclasses.replace(trajectory, obs=_compact(trajectory.obs), infos=None)
        for trajectory in kept
    ]


def _succeeded(trajectory: TrajectoryWithRew, rule: SuccessRule) -> bool:
    """Whether an episode is a success by the infos of its steps."""
    assert trajectory.infos is not None, "rollouts have infos"
    said = [bool(rule.read(info)) for info in trajectory.infos]
    return any(said) if rule.when == "ever" else said[-1]


def _compact(obs: Observation) -> Observation:
    """Observations as float32, if the rounding error is within `_PRECISION`."""
    if not isinstance(obs, np.ndarray) or obs.dtype != np.float64:
        return obs
    short = obs.astype(np.float32)
    error = np.abs(short - obs) / np.maximum(np.abs(obs), 1.0)
    return short if float(error.max(initial=0.0)) <= _PRECISION else obs


def random_policy(spec: EnvironmentSpec, seed: int) -> RandomPolicy:
    """Returns uniformly random actions in an environment.

    Args:
        spec: The environment.
        seed: Seed of the collection. Spaces have generators of their own, which no other seed
            reaches.

    Raises:
        InputError: The environment does not accept its arguments.
    """
    with _arguments_accepted(spec):
        env = make_environment(spec)
    env.close()
    policy = RandomPolicy(env.observation_space, env.action_space)
    policy.action_space.seed(derive_seed(seed, "random actions"))
    return policy


@contextmanager
def _arguments_accepted(spec: EnvironmentSpec) -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise InputError(
            f"{spec.id}: does not accept its arguments ({one_line(error)}); correct kwargs on the "
            "suite's card"
        ) from error


def collect_into(folder: Path, policy: Path, spec: EnvironmentSpec, recipe: PolicySet) -> None:
    """Rolls out the policy of a set that is not bundled, and writes its trajectories.

    Args:
        folder: Folder to make.
        policy: Folder of the stored policy, if that of a checkpoint acts.
        spec: Environment of the suite's card.
        recipe: The set on the card.

    Raises:
        InputError: The policy cannot be read, or the environment does not accept its arguments.
    """
    actor: BasePolicy
    if recipe.policy == "random":
        actor = random_policy(spec, recipe.seed)
    else:
        actor = gate.checked(lambda: load_policy(policy), policy)
    chosen = sample_demonstrations(actor, spec, recipe.trajectories, seed=recipe.seed)
    with new_folder(folder) as draft:
        write_demonstrations(draft, chosen)
