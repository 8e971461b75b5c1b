"""Trains or computes the experts of a suite by the recipes on its card.

During a training, the expert's folder has `checkpoint/` with the state to resume from.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
import yaml
from stable_baselines3.common.policies import BasePolicy

from imitbench.algorithms.mce_planning import mce_partition_fh, optimal_policy
from imitbench.bench.checkpoint import CheckpointManager, RunProgress
from imitbench.bench.environments import make_environment
from imitbench.bench.monitor import Monitor
from imitbench.bench.seeding import derive_seed, seed_everything
from imitbench.bench.stopping import InterruptFlag, RunStoppedError, catch_interrupts
from imitbench.bench.training import train_learner
from imitbench.cards.suite import EnvironmentCard, ExpertRecipe
from imitbench.data.tabular import TabularModel
from imitbench.errors import InputError
from imitbench.executors.options import CHECKPOINT_S
from imitbench.experts.listing import ExpertTraining
from imitbench.experts.measurement import check_arguments_accepted, model_index, spaces_of
from imitbench.experts.recipe_learners import set_up_recipe
from imitbench.policies.scripted import script
from imitbench.policies.storage import save_policy
from imitbench.policies.tabular import ObservationTabularPolicy
from imitbench.records.runs import Budget, EnvironmentSpec
from imitbench.util.files import atomic_write_text
from imitbench.util.text_line import one_line
from imitbench.version import __version__

Progress = Callable[[int, float], None]
"""Called with (environment steps so far, mean return of the episodes since the last call)."""

_RETURN = "rollout/return_mean"
_CURVE_POINTS = 100


def compute_expert(env: Any, temperature: float = 0.0) -> ObservationTabularPolicy:
    """Computes the expert of a tabular environment.

    Args:
        env: Tabular environment.
        temperature: 0 for the deterministic policy with the highest expected return; above 0 for
            the policy that maximizes return plus `temperature` times causal entropy, in nats.

    Returns:
        The policy, for the environment's observations.

    Raises:
        ValueError: `env` is not tabular, or `temperature` is negative.
    """
    if not temperature >= 0:
        raise ValueError(f"temperature must not be negative, but is {temperature}")
    model = TabularModel.of(env)
    if temperature == 0:
        pi, _ = optimal_policy(model)
    else:
        _, _, pi = mce_partition_fh(env, reward=np.asarray(model.rewards) / temperature)
    return ObservationTabularPolicy.of(env, pi)


@dataclass(frozen=True)
class TrainedExpert:
    """A trained or computed expert.

    Attributes:
        policy: Policy of the expert.
        settings: Settings to record in addition to the general ones.
        env_steps: Environment steps of training.
        wall_s: Seconds of training or planning, over all attempts.
        curve: Mean returns since the last point; at most `_CURVE_POINTS` points, each the mean of
            as many points of the training.
    """

    policy: BasePolicy
    settings: dict[str, Any]
    env_steps: int
    wall_s: float
    curve: list[dict[str, int | float]] = field(default_factory=list)


def train_expert(
    env_id: str,
    card: EnvironmentCard,
    directory: Path,
    *,
    command: str,
    progress: Progress,
    device: Literal["cpu", "cuda"] = "cpu",
    checkpoint_s: float = CHECKPOINT_S,
) -> None:
    """Trains one expert and writes it, without pickle, in the layout of a hub repository.

    A training that was stopped or killed resumes from its last checkpoint.

    Args:
        env_id: Gymnasium id.
        card: The environment's card, with the recipe.
        directory: Parent folder; the expert is written to `<directory>/<repo>`.
        command: Command line to record as the expert's origin.
        progress: Called at each point of the learning curve; never during planning.
        device: Processor of the bundled methods; the others always train on the CPU.
        checkpoint_s: Least seconds between two checkpoints.

    Raises:
        InputError: The folder has checkpoints of another recipe, or the recipe does not fit.
        RunStoppedError: Ctrl-C was pressed, and a checkpoint was saved.
    """
    recipe = card.expert_in(env_id)
    target = directory / recipe.repo
    checkpoints = target / "checkpoint"
    if recipe.algo == "exact":
        made = _compute(env_id, card)
    elif recipe.script is not None:
        made = _program(env_id, card, recipe.script)
    else:
        with catch_interrupts() as interruption:
            monitor = _Monitor(progress, interruption)
            made = _train(env_id, card, device, checkpoints, checkpoint_s, monitor)
    save_policy(made.policy, target)
    settings = {
        "algo": recipe.algo,
        "seed": recipe.seed,
        "n_timesteps": recipe.env_steps,
        **made.settings,
        **recipe.hyperparameters,
    }
    atomic_write_text(target / "config.yml", yaml.safe_dump(settings, sort_keys=False))
    atomic_write_text(target / "env_kwargs.yml", yaml.safe_dump(dict(card.kwargs)))
    ExpertTraining(
        command=command,
        imitbench=__version__,
        env_steps=made.env_steps,
        wall_s=round(made.wall_s, 1),
        curve=made.curve,
    ).write(target)
    shutil.rmtree(checkpoints, ignore_errors=True)


def train_until(
    env_id: str, card: EnvironmentCard, steps: int, checkpoints: Path, *, progress: Progress
) -> TrainedExpert:
    """Trains an expert up to the first checkpoint after so many steps, as in its whole training.

    Schedules, such as that of the learning rate, are those of the whole training. A training that
    was stopped or killed resumes from its last checkpoint.

    Args:
        env_id: Gymnasium id.
        card: The environment's card, with the recipe.
        steps: Environment steps.
        checkpoints: Folder of the training's checkpoints.
        progress: Called at each point of the learning curve.

    Raises:
        InputError: The folder has checkpoints of another recipe, or the recipe takes fewer steps.
        RunStoppedError: Ctrl-C was pressed, and a checkpoint was saved.
    """
    recipe = card.expert_in(env_id)
    if recipe.env_steps < steps:
        raise InputError(
            f"{env_id}: the expert's training takes {recipe.env_steps:,} steps, fewer than "
            f"{steps:,}; name fewer as env_steps of the set"
        )
    with catch_interrupts() as interruption:
        monitor = _Monitor(progress, interruption, steps)
        return _train(env_id, card, "cpu", checkpoints, CHECKPOINT_S, monitor)


def _claim(checkpoints: Path, recipe: ExpertRecipe) -> None:
    """Creates the folder of a training's checkpoints, which belongs to one recipe."""
    # `home` says where an expert is, not how it is trained; no expert with a `script` is.
    record = json.dumps(recipe.model_dump(mode="json", exclude={"home", "script"}), indent=1) + "\n"
    path = checkpoints / "recipe.json"
    if path.is_file() and path.read_text() != record:
        raise InputError(
            f"{checkpoints}: holds a training by another recipe; delete it, or name a new folder"
        )
    checkpoints.mkdir(parents=True, exist_ok=True)
    atomic_write_text(path, record)


def _compute(env_id: str, card: EnvironmentCard) -> TrainedExpert:
    """Plans with the environment's model, without environment steps."""
    started = time.monotonic()
    env = make_environment(EnvironmentSpec.of_card(env_id, card))
    temperature = float(card.expert_in(env_id).hyperparameters.get("temperature") or 0.0)
    policy = compute_expert(env, temperature)
    env.close()
    return TrainedExpert(policy, {}, 0, time.monotonic() - started)


def _program(env_id: str, card: EnvironmentCard, name: str) -> TrainedExpert:
    """Builds a scripted expert."""
    recipe = card.expert_in(env_id)
    env = make_environment(EnvironmentSpec.of_card(env_id, card))
    try:
        policy = script(name).for_environment(env, **recipe.hyperparameters)
    except (TypeError, ValueError) as error:
        raise InputError(f"{env_id}: expert: script {name}: {one_line(error)}") from error
    finally:
        env.close()
    return TrainedExpert(policy, {"script": name}, 0, 0.0)


def _train(
    env_id: str,
    card: EnvironmentCard,
    device: str,
    checkpoints: Path,
    checkpoint_s: float,
    monitor: _Monitor,
) -> TrainedExpert:
    recipe = card.expert_in(env_id)
    seed_everything(derive_seed(recipe.seed, "expert"))
    spec = EnvironmentSpec.of_card(env_id, card)
    spec = spec.model_copy(update={"kwargs": {**spec.kwargs, **recipe.training_kwargs}})
    question = "are kwargs and training_kwargs of its card right?"
    with check_arguments_accepted(spec, question):
        learner = set_up_recipe(recipe, spec, spaces_of(spec, question), device)
    _claim(checkpoints, recipe)
    budget = Budget(name="own", unit="env_steps", amount=recipe.env_steps)
    saved = CheckpointManager(checkpoints, checkpoint_s)
    try:
        env_steps, progress = train_learner(budget, learner, saved, monitor)
    except _EnoughError:
        progress = monitor.progress
        env_steps = int(progress.curve[-1]["step"])
    settings = {
        "n_envs": recipe.environments,
        **recipe.settings_of_sb3,
        "training_kwargs": recipe.training_kwargs,
    }
    curve = _thinned(progress.curve)
    return TrainedExpert(learner.policy(), settings, env_steps, progress.train_s, curve)


def _thinned(curve: Sequence[Mapping[str, float]]) -> list[dict[str, int | float]]:
    """Returns mean returns of a learning curve; each point is the mean of as many there."""
    points = [point for point in curve if _RETURN in point]
    size = max(1, math.ceil(len(points) / _CURVE_POINTS))
    parts = [points[start : start + size] for start in range(0, len(points), size)]
    return [
        {
            "env_steps": int(part[-1]["step"]),
            "mean_return": round(fmean(point[_RETURN] for point in part), 2),
        }
        for part in parts
    ]


class _EnoughError(RunStoppedError):
    """Ends a training after the steps that were asked for."""


class _Monitor(Monitor):
    """Reports points of the curve, and ends the training at Ctrl-C or after some steps.

    Attributes:
        progress: Progress of the training, once it has begun.
    """

    def __init__(
        self, report: Progress, interruption: InterruptFlag, steps: int | None = None
    ) -> None:
        self._report = report
        self._interruption = interruption
        self._steps = steps

    def begin(self, progress: RunProgress) -> None:
        """Keeps the progress; ends a training that already has the steps."""
        self.progress = progress
        self._end_if_enough()

    def _end_if_enough(self) -> None:
        curve = self.progress.curve
        if self._steps is not None and curve and curve[-1]["step"] >= self._steps:
            raise _EnoughError

    def point(self, step: int, metrics: Mapping[str, float]) -> None:
        """Reports the mean return, if an episode has ended."""
        if _RETURN in metrics:
            self._report(step, metrics[_RETURN])

    def check(self) -> None:
        """Ends the training if Ctrl-C was pressed, or if it has the steps."""
        self._end_if_enough()
        if self._interruption.seen:
            raise RunStoppedError


def write_expert_card(env_id: str, card: EnvironmentCard, directory: Path) -> None:
    """Writes `README.md` from `training.json` and `results.json`, in the expert's folder.

    Args:
        env_id: Gymnasium id.
        card: The environment's card.
        directory: Folder of the expert, with these files.
    """
    training = ExpertTraining.read(directory)
    assert training is not None, "it is written after training"
    results = json.loads((directory / "results.json").read_text())
    mean, std = results["mean_reward"], results["std_reward"]
    recipe = card.expert_in(env_id)
    exact = recipe.algo == "exact"
    name = {"exact": "Optimal", "scripted": "Scripted"}.get(recipe.algo, recipe.algo.upper())
    metadata = {
        "library_name": "imitbench",
        "license": "mit",
        "tags": [env_id, "reinforcement-learning", "imitbench"],
        "model-index": model_index(name, env_id, f"{mean:.2f} +/- {std:.2f}"),
    }
    if exact:
        origin = (
            f"Computed by `{training.command}` from the environment's model: no steps were taken. "
        )
        files = "Settings are in `config.yml`."
    elif recipe.script is not None:
        origin = f"The program `{recipe.script}`, written by `{training.command}`. "
        files = "Settings are in `config.yml`."
    else:
        origin = (
            f"Trained by `{training.command}`: {training.env_steps:,} steps in "
            f"{training.wall_s:.0f} s on one core, seed {recipe.seed}. " + _aids(recipe)
        )
        files = "Hyper-parameters are in `config.yml`, the learning curve in `training.json`."
    acting = "deterministic" if results["is_deterministic"] else "stochastic"
    text = (
        f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n"
        f"# {name} expert on {env_id}\n\n"
        f"Mean return {mean:.2f} ± {std:.2f} over {results['n_eval_episodes']} episodes of the "
        f"{acting} policy; {results['termination_rate']:.0%} of them ended before the time "
        f"limit.\n\n{origin}{files}\n\n"
        f"The policy is `policy.json` ({'architecture' if recipe.script is None else 'settings'}) "
        "and `policy.safetensors` (weights); neither is a pickle.\n"
    )
    atomic_write_text(directory / "README.md", text)


def _aids(recipe: ExpertRecipe) -> str:
    given = ", ".join(f"`{name}={value}`" for name, value in recipe.training_kwargs.items())
    return f"While it trained, and never since, the environment had {given}. " if given else ""
