"""Trains or computes the experts of a suite by the recipes on its card."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import stable_baselines3
import yaml
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecNormalize

from imitbench.algorithms.mce_planning import mce_partition_fh, optimal_policy
from imitbench.bench.environments import make_environment, make_training_environments
from imitbench.bench.seeding import derive_seed, seed_everything
from imitbench.cards.suite import EnvironmentCard, ExpertRecipe
from imitbench.data.tabular import TabularModel
from imitbench.experts.measurement import check_arguments_accepted, model_index
from imitbench.policies.base import NormalizeFeaturesExtractor
from imitbench.policies.storage import save_policy
from imitbench.policies.tabular import ObservationTabularPolicy
from imitbench.records.runs import EnvironmentSpec
from imitbench.rl import ppo, sac
from imitbench.util.files import atomic_write_text
from imitbench.util.networks import RunningNorm
from imitbench.version import __version__


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


_ALGORITHMS: dict[str, type[BaseAlgorithm]] = {
    "ppo": stable_baselines3.PPO,
    "sac": stable_baselines3.SAC,
}
_LEAN: dict[str, type[BaseAlgorithm]] = {"ppo": ppo.PPO, "sac": sac.SAC}
CURVE_POINTS = 20

Progress = Callable[[int, float], None]
"""Called with (environment steps so far, mean return of recent episodes)."""


@dataclass(frozen=True)
class TrainedExpert:
    """A trained or computed expert.

    Attributes:
        policy: Policy of the expert.
        settings: Settings to record in addition to the general ones.
        env_steps: Environment steps of training.
        curve: Mean returns of recent episodes during training.
    """

    policy: BasePolicy
    settings: dict[str, Any]
    env_steps: int
    curve: list[dict[str, float]]


def train_expert(
    env_id: str, card: EnvironmentCard, directory: Path, *, command: str, progress: Progress
) -> None:
    """Trains one expert and writes it, without pickle, in the layout of a hub repository.

    Args:
        env_id: Gymnasium id.
        card: The environment's card, with the recipe.
        directory: Parent folder; the expert is written to `<directory>/<repo>`.
        command: Command line to record as the expert's origin.
        progress: Called about `CURVE_POINTS` times during training; never during planning.
    """
    recipe = card.expert_in(env_id)
    started = time.monotonic()
    exact = recipe.algo == "exact"
    made = _compute(env_id, card) if exact else _train(env_id, card, progress)
    wall_s = time.monotonic() - started

    target = directory / recipe.repo
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
    training = {
        "command": command,
        "imitbench": __version__,
        "env_steps": made.env_steps,
        "wall_s": round(wall_s, 1),
        "curve": made.curve,
    }
    atomic_write_text(target / "training.json", json.dumps(training, indent=1) + "\n")


def _compute(env_id: str, card: EnvironmentCard) -> TrainedExpert:
    """Plans with the environment's model, without environment steps."""
    env = make_environment(EnvironmentSpec.of_card(env_id, card))
    temperature = float(card.expert_in(env_id).hyperparameters.get("temperature") or 0.0)
    policy = compute_expert(env, temperature)
    env.close()
    return TrainedExpert(policy, {}, 0, [])


def _train(env_id: str, card: EnvironmentCard, progress: Progress) -> TrainedExpert:
    recipe = card.expert_in(env_id)
    seed_everything(derive_seed(recipe.seed, "expert"))
    spec = EnvironmentSpec.of_card(env_id, card)
    spec = spec.model_copy(update={"kwargs": {**spec.kwargs, **recipe.training_kwargs}})
    with check_arguments_accepted(spec, "are kwargs and training_kwargs of its card right?"):
        venv = make_training_environments(
            spec, recipe.environments, derive_seed(recipe.seed, "training")
        )
    training_env = venv
    if recipe.normalize_rewards:
        gamma = float(recipe.hyperparameters.get("gamma") or 0.99)
        training_env = VecNormalize(venv, norm_obs=False, norm_reward=True, gamma=gamma)
    model = _build(recipe, training_env)
    curve = _Curve(recipe.env_steps, progress)
    model.learn(recipe.env_steps, callback=curve)
    venv.close()
    settings = {
        "n_envs": recipe.environments,
        "net_arch": recipe.net_arch,
        "normalize_observations": recipe.normalize_observations,
        "normalize_rewards": recipe.normalize_rewards,
        "learning_rate_decay": recipe.learning_rate_decay,
        "lean": recipe.lean,
        "training_kwargs": recipe.training_kwargs,
    }
    return TrainedExpert(model.policy, settings, model.num_timesteps, curve.points)


def _build(recipe: ExpertRecipe, venv: Any) -> BaseAlgorithm:
    policy_kwargs: dict[str, Any] = {"net_arch": recipe.net_arch}
    if recipe.normalize_observations:
        policy_kwargs["features_extractor_class"] = NormalizeFeaturesExtractor
        policy_kwargs["features_extractor_kwargs"] = {"normalize_class": RunningNorm}
    hyperparameters: dict[str, Any] = dict(recipe.hyperparameters)
    if recipe.learning_rate_decay == "linear":
        initial = float(hyperparameters["learning_rate"])
        hyperparameters["learning_rate"] = lambda remaining: initial * remaining
    algorithm = (_LEAN if recipe.lean else _ALGORITHMS)[recipe.algo]
    return algorithm(
        "MlpPolicy",
        venv,
        policy_kwargs=policy_kwargs,
        seed=derive_seed(recipe.seed, "expert"),
        device="cpu",
        **hyperparameters,
    )


class _Curve(BaseCallback):
    """Records the mean return of recent episodes at evenly spaced steps."""

    def __init__(self, total: int, progress: Progress) -> None:
        super().__init__()
        self._interval = max(1, total // CURVE_POINTS)
        self._next = self._interval
        self._progress = progress
        self.points: list[dict[str, float]] = []

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._next:
            self._next += self._interval
            recent = [episode["r"] for episode in self.model.ep_info_buffer or ()]
            if recent:
                mean = float(np.mean(recent))
                self.points.append({"env_steps": self.num_timesteps, "mean_return": round(mean, 2)})
                self._progress(self.num_timesteps, mean)
        return True


def write_expert_card(env_id: str, card: EnvironmentCard, directory: Path) -> None:
    """Writes `README.md` from `training.json` and `results.json`, in the expert's folder.

    Args:
        env_id: Gymnasium id.
        card: The environment's card.
        directory: Folder of the expert, with these files.
    """
    training = json.loads((directory / "training.json").read_text())
    results = json.loads((directory / "results.json").read_text())
    mean, std = results["mean_reward"], results["std_reward"]
    recipe = card.expert_in(env_id)
    exact = recipe.algo == "exact"
    name = "Optimal" if exact else recipe.algo.upper()
    metadata = {
        "library_name": "imitbench",
        "license": "mit",
        "tags": [env_id, "reinforcement-learning", "imitbench"],
        "model-index": model_index(name, env_id, f"{mean:.2f} +/- {std:.2f}"),
    }
    if exact:
        origin = (
            f"Computed by `{training['command']}` from the environment's model: no steps were "
            "taken. "
        )
        files = "Settings are in `config.yml`."
    else:
        origin = (
            f"Trained by `{training['command']}`: {training['env_steps']:,} steps in "
            f"{training['wall_s']:.0f} s on one core, seed {recipe.seed}. " + _aids(recipe)
        )
        files = "Hyper-parameters are in `config.yml`, the learning curve in `training.json`."
    acting = "deterministic" if results["is_deterministic"] else "stochastic"
    text = (
        f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n"
        f"# {name} expert on {env_id}\n\n"
        f"Mean return {mean:.2f} ± {std:.2f} over {results['n_eval_episodes']} episodes of the "
        f"{acting} policy.\n\n"
        f"{origin}{files}\n\n"
        "The policy is `policy.json` (architecture) and `policy.safetensors` (weights); "
        "neither is a pickle.\n"
    )
    atomic_write_text(directory / "README.md", text)


def _aids(recipe: ExpertRecipe) -> str:
    given = ", ".join(f"`{name}={value}`" for name, value in recipe.training_kwargs.items())
    return f"While it trained, and never since, the environment had {given}. " if given else ""
