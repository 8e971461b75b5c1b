"""Collects demonstrations from a suite's experts, and makes suites of demonstrations alone."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import yaml
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy

from imitbench.bench.collection import random_policy, sample_demonstrations
from imitbench.bench.environments import make_environment
from imitbench.cards.algorithm import ActionSpace
from imitbench.cards.plugins import SUITE_CARD
from imitbench.cards.suite import EnvironmentCard, SuiteCard
from imitbench.data.conversion import ConversionSummary, convert_demonstrations
from imitbench.data.demonstrations import write_demonstrations
from imitbench.data.trajectory_source import TrajectorySource
from imitbench.data.types import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.experts.lookup import find_listed_environment
from imitbench.experts.training import Progress, train_until
from imitbench.policies.storage import load_policy, save_policy
from imitbench.records.runs import EnvironmentSpec
from imitbench.store.artifact_files import content_files, recipe_digest
from imitbench.untrusted import gate
from imitbench.util.files import atomic_write_text, check_new_folder, digest_files, new_folder

MAX_FILE_BYTES = 5_000_000
"""Largest size of a bundled file."""

MAX_SET_BYTES = 20_000_000
"""Largest size of all files of a set together."""


def collect_demonstrations(
    env_id: str, card: EnvironmentCard, root: Path, directory: Path, *, command: str
) -> list[TrajectoryWithRew]:
    """Rolls out an expert and writes whole episodes as parquet, in the layout of the hub.

    Args:
        env_id: Gymnasium id.
        card: The environment's card, with number and seed of the demonstrations.
        root: Folder that holds `experts/`.
        directory: Parent folder; the set is written to `<directory>/<repo>`.
        command: Command line to record.

    Returns:
        The trajectories.

    Raises:
        InputError: The expert is missing or weaker than its recipe demands, the set is too large to
            bundle, or its folder has other content.
    """
    recipe, expert = card.demos, card.expert_in(env_id)
    check_new_folder(directory / recipe.repo, _check_is_a_set)
    folder = root / "experts" / expert.repo
    if not folder.is_dir():
        raise InputError(f"{folder}: no such expert; train it with `imitbench experts train`")
    chosen = sample_demonstrations(
        gate.checked(lambda: load_policy(folder), folder),
        EnvironmentSpec.of_card(env_id, card),
        recipe.trajectories,
        seed=recipe.seed,
        deterministic=recipe.deterministic,
        success=card.success if card.scored_by_success else None,
    )
    returns = [float(trajectory.rews.sum()) for trajectory in chosen]
    early = float(np.mean([len(trajectory) < card.max_episode_steps for trajectory in chosen]))
    weak = expert.why_too_weak(float(np.mean(returns)), early)
    if weak is not None:
        raise InputError(f"{folder}: {weak}; train it longer, or change its recipe on the card")
    acting = "deterministic" if recipe.deterministic else "stochastic"
    who, title = f"the {acting} expert `{expert.repo}`", f"Demonstrations on {env_id}"
    mean = float(np.mean(returns))
    if card.scored_by_success:
        who += ", all of them successes"
    readme = _dataset_card(title, who, command, recipe.seed, len(chosen), mean)
    with new_folder(directory / recipe.repo, _check_is_a_set) as folder:
        _write(chosen, folder, recipe.repo)
        atomic_write_text(folder / "README.md", readme)
    return chosen


def collect_set(
    env_id: str,
    card: EnvironmentCard,
    name: str,
    root: Path,
    directory: Path,
    *,
    command: str,
    progress: Progress,
) -> list[TrajectoryWithRew]:
    """Rolls out the policy of a set besides the demonstrations, and writes it like these.

    The policy of a checkpoint is trained first. A training that was stopped resumes. If the suite
    does not bundle the set, its policy is written, too, or is used if the suite has it already.

    Args:
        env_id: Gymnasium id.
        card: The environment's card, with the set.
        name: Name of the set on the card.
        root: Folder of the suite.
        directory: Parent folder; the set is written to `<directory>/<repo>`, and its policy to
            `<directory>/../experts/<repo>`.
        command: Command line to record.
        progress: Called at each point of the learning curve of a checkpoint's training.

    Returns:
        The trajectories.

    Raises:
        InputError: The card says that the set is recorded elsewhere, it is too large to bundle, or
            its folder has other content.
        RunStoppedError: Ctrl-C was pressed, and a checkpoint was saved.
    """
    recipe = card.sets[name]
    if recipe.policy == "recorded":
        raise InputError(
            f"--set {name}: recorded elsewhere, as the card of {env_id} says; only sets with "
            "policy random or checkpoint are collected"
        )
    check_new_folder(directory / recipe.repo, _check_is_a_set)
    spec = EnvironmentSpec.of_card(env_id, card)
    checkpoints = directory / f".{recipe.repo}.training"
    stored = Path("experts") / recipe.repo
    policy: BasePolicy
    if recipe.env_steps is None:
        policy, who = random_policy(spec, recipe.seed), "uniformly random actions"
    elif not recipe.bundled and (root / stored).is_dir():
        policy = gate.checked(lambda: load_policy(root / stored), root / stored)
        who = f"the stochastic policy `{recipe.repo}`"
    else:
        expert = card.expert_in(env_id)
        if recipe.training_seed is not None:
            expert = expert.model_copy(update={"seed": recipe.training_seed})
        own = card.model_copy(update={"expert": expert})
        made = train_until(env_id, own, recipe.env_steps, checkpoints, progress=progress)
        policy = made.policy
        who = (
            f"the stochastic policy after {made.env_steps:,} of {expert.env_steps:,} steps of a "
            f"training by the recipe of `{expert.repo}`, seed {expert.seed}"
        )
        if not recipe.bundled:
            save_policy(policy, directory.parent / stored)
    chosen = sample_demonstrations(policy, spec, recipe.trajectories, seed=recipe.seed)
    mean = float(np.mean([trajectory.rews.sum() for trajectory in chosen]))
    title = f"Trajectories of set {name} on {env_id}"
    readme = _dataset_card(title, who, command, recipe.seed, len(chosen), mean)
    with new_folder(directory / recipe.repo, _check_is_a_set) as folder:
        _write(chosen, folder, recipe.repo)
        atomic_write_text(folder / "README.md", readme)
    shutil.rmtree(checkpoints, ignore_errors=True)
    return chosen


def set_digest(env_id: str, card: EnvironmentCard, name: str, root: Path, directory: Path) -> str:
    """Returns the digest by which runs pin a set that was collected.

    Args:
        env_id: Gymnasium id.
        card: The environment's card, with the set.
        name: Name of the set on the card.
        root: Folder of the suite.
        directory: As for `collect_set`.
    """
    recipe = card.sets[name]
    if recipe.bundled:
        folder = directory / recipe.repo
        return digest_files(folder, content_files("dataset", folder, recipe.repo))
    stored = Path("experts") / recipe.repo
    policy = root / stored if (root / stored).is_dir() else directory.parent / stored
    return recipe_digest(policy, EnvironmentSpec.of_card(env_id, card), recipe)


def _check_is_a_set(folder: Path) -> None:
    if not folder.is_dir():
        raise InputError(f"{folder}: not a folder; move it away")
    others = {path.name for path in folder.iterdir()} - {"data", "README.md"}
    if others:
        raise InputError(
            f"{folder}: holds '{min(others)}', so it is not a set of demonstrations; move it away"
        )


def _write(trajectories: list[TrajectoryWithRew], folder: Path, name: str) -> None:
    """Writes the fewest files within the size limit, with equal numbers of episodes."""
    count = 1
    while count <= len(trajectories):
        sizes = _write_shards(trajectories, folder, count)
        if sum(sizes) > MAX_SET_BYTES:
            raise InputError(
                f"demonstrations for {name} take {sum(sizes):,} bytes, more than "
                f"{MAX_SET_BYTES:,}; set fewer trajectories on the suite card"
            )
        if max(sizes) <= MAX_FILE_BYTES:
            return
        shutil.rmtree(folder / "data")
        count = max(count + 1, math.ceil(sum(sizes) / MAX_FILE_BYTES))
    raise InputError(
        f"demonstrations for {name}: an episode takes more than {MAX_FILE_BYTES:,} bytes, the "
        "limit of a file"
    )


def _write_shards(trajectories: list[TrajectoryWithRew], folder: Path, count: int) -> list[int]:
    """Writes `count` files; returns their sizes in bytes."""
    sizes = []
    for index, rows in enumerate(np.array_split(np.arange(len(trajectories)), count)):
        shard = f"train-{index:05d}-of-{count:05d}"
        path = write_demonstrations(folder, trajectories[rows[0] : rows[-1] + 1], shard=shard)
        sizes.append(path.stat().st_size)
    return sizes


def _dataset_card(
    title: str, who: str, command: str, seed: int, count: int, mean_return: float
) -> str:
    metadata = {
        "license": "mit",
        "tags": ["imitation-learning", "imitbench"],
        "configs": [{"config_name": "default", "data_files": "data/*.parquet"}],
    }
    return (
        f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n"
        f"# {title}\n\n"
        f"{count} whole episodes of {who}, mean return {mean_return:.2f}. One row per "
        "episode: `obs` (length + 1 observations), `acts`, `infos`, `terminal`, `rews`.\n\n"
        f"Made by `{command}` (collection seed {seed}).\n"
    )


_BUDGETS = {
    "quick": {"env_steps": 20_000, "batches": 1_000},
    "default": {"env_steps": 100_000, "batches": 4_000},
    "full": {"env_steps": 500_000, "batches": 20_000},
}
_STEPS_PER_SECOND = 10_000.0  # until `imitbench suites measure` has run
_SPACES: dict[type[gym.Space[Any]], ActionSpace] = {
    spaces.Box: "box",
    spaces.Discrete: "discrete",
    spaces.MultiDiscrete: "multi_discrete",
}


def write_demonstrations_suite(
    source: TrajectorySource,
    folder: Path,
    *,
    name: str,
    env_id: str | None,
    score_one: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ConversionSummary:
    """Writes the card of a suite, with the converted demonstrations beside it.

    What a bundled suite knows of the environment is taken over. Otherwise the horizon is declared
    as variable, which is always valid.

    Args:
        source: The demonstrations.
        folder: An existing folder, which receives `suite.yaml` and `demos/`.
        name: Name of the suite.
        env_id: Gymnasium id, perhaps as `module:id`; that of the recording when `None`.
        score_one: Mean return of score 1; `None` for that of the demonstrators.
        progress: Called with the numbers of trajectories done and in total.

    Raises:
        InputError: The environment is unknown, does not fit, or has an unsupported action space; or
            score 1 is unknown, as no whole episode has rewards.
    """
    wanted = env_id or getattr(source, "environment_id", None)
    if wanted is None:
        raise InputError(
            f"--from-demos {source.where}: does not state its environment; give its Gymnasium id "
            "with --env, such as --env CartPole-v1"
        )
    if score_one is not None and not math.isfinite(score_one):
        raise InputError(f"--score-one {score_one}: must be a finite number")
    card = _environment_card(wanted)
    own_id = wanted.rpartition(":")[2]
    spec = EnvironmentSpec(
        id=own_id,
        module=card["module"],
        kwargs=card["kwargs"],
        horizon=card["horizon"],
        wrappers=card.get("wrappers"),
    )
    repo = f"demos-{own_id.replace('/', '-')}"
    environment = make_environment(spec)
    try:
        card["action_space"] = _action_space(environment, own_id)
        summary = convert_demonstrations(
            source,
            folder / "demos" / repo,
            environment=environment,
            environment_id=own_id,
            progress=progress,
        )
    finally:
        environment.close()
    _settle_score(card, summary, score_one, source.where)
    longest = summary.lengths[1]
    if card["max_episode_steps"] is None:
        limit = environment.spec.max_episode_steps if environment.spec else None
        card["max_episode_steps"] = limit or longest
    card["demos"] = {"repo": repo, "trajectories": summary.rows}
    document = {
        "schema_version": 1,
        "name": name,
        "title": name,
        "description": f"Demonstrations of {own_id}, without an expert.",
        "version": "1",
        "environments": {
            own_id: {key: value for key, value in card.items() if value not in (None, {})}
            | {"budgets": _BUDGETS}
        },
    }
    SuiteCard.model_validate(document)
    text = yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)
    atomic_write_text(folder / SUITE_CARD, text)
    return summary


def _settle_score(
    card: dict[str, Any], summary: ConversionSummary, score_one: float | None, where: str
) -> None:
    """Writes what score 1 is on a card: success, a stated return, or that of the demonstrators.

    Raises:
        InputError: It is unknown.
    """
    success = card.get("success")
    if score_one is not None:
        card["score_one"] = float(score_one)
        if success is not None:
            success["headline"] = False
        return
    if success is not None and success.get("headline", True):
        return
    if not summary.returns or summary.unfinished == summary.rows:
        raise InputError(
            f"--from-demos {where}: no whole episode has rewards, so that score 1 is unknown; give "
            "the mean return of score 1 with --score-one"
        )


def _environment_card(wanted: str) -> dict[str, Any]:
    """Returns what is known of an environment: from a bundled suite, else almost nothing."""
    module, _, env_id = wanted.rpartition(":")
    known = None if module else find_listed_environment(env_id, None)
    if known is not None:
        spec = EnvironmentSpec.of_card(env_id, known.card)
        return {
            "title": known.card.title,
            "module": spec.module,
            "horizon": spec.horizon,
            "kwargs": dict(spec.kwargs),
            "max_episode_steps": known.card.max_episode_steps,
            "steps_per_second": known.card.steps_per_second,
            "tabular": known.card.tabular or None,
            "evaluation_id": known.card.evaluation_id,
            "absolute_positions": list(known.card.absolute_positions) or None,
            "success": _success_of(known.card),
            "measures": list(known.card.measures) or None,
            "wrappers": [own.model_dump(exclude_none=True) for own in known.card.wrappers] or None,
        }
    return {
        "title": env_id.rpartition("/")[2],
        "module": module or ("seals" if env_id.startswith("seals/") else None),
        "horizon": "variable",
        "kwargs": {},
        "max_episode_steps": None,
        "steps_per_second": _STEPS_PER_SECOND,
    }


def _success_of(card: EnvironmentCard) -> dict[str, Any] | None:
    """Returns how a card tells success, as it is written on a card."""
    return None if card.success is None else card.success.model_dump(exclude_defaults=True)


def _action_space(environment: gym.Env[Any, Any], env_id: str) -> ActionSpace:
    kind = _SPACES.get(type(environment.action_space))
    if kind is None:
        raise InputError(
            f"--env {env_id}: its actions are of a {type(environment.action_space).__name__} "
            "space; methods act in Box, Discrete and MultiDiscrete spaces"
        )
    return kind
