"""The learners that train experts by the recipes on suite cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import stable_baselines3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from imitbench.bench.implementation import learner_class
from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.bench.learners.algorithm_learner import CURVE_POINTS, AlgorithmLearner, RolloutReport
from imitbench.bench.seeding import derive_seed
from imitbench.cards.algorithm import AlgorithmCard, Scalar
from imitbench.cards.catalog import load_algorithm
from imitbench.cards.suite import ExpertRecipe
from imitbench.errors import InputError, did_you_mean
from imitbench.policies.base import NormalizeFeaturesExtractor
from imitbench.records.runs import Budget, EnvironmentSpec
from imitbench.rl import ppo, sac
from imitbench.rl.training import continue_learning
from imitbench.util.networks import RunningNorm

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew
    from imitbench.policies.expert import Spaces

_ALGORITHMS: dict[str, type[BaseAlgorithm]] = {
    "ppo": stable_baselines3.PPO,
    "sac": stable_baselines3.SAC,
}
_LEAN: dict[str, type[BaseAlgorithm]] = {"ppo": ppo.PPO, "sac": sac.SAC}


def set_up_recipe(
    recipe: ExpertRecipe, spec: EnvironmentSpec, spaces: Spaces, device: str
) -> Learner:
    """Creates the learner of a recipe and sets it up.

    Args:
        recipe: A recipe that takes steps.
        spec: The environment in which it trains.
        spaces: Spaces of that environment.
        device: Processor of a bundled method; the others are faster on the CPU, and train there.

    Raises:
        InputError: The method has no such hyper-parameters.
    """
    learner: Learner = RecipeLearner(recipe)
    values: dict[str, Scalar] = {"n_envs": recipe.environments}
    if recipe.algo not in _ALGORITHMS:
        card = load_algorithm(recipe.algo)
        learner = learner_class(card.implementation, None, f"algorithm {card.name}")()
        values = _complete(recipe.hyperparameters | values, card)
    task = Task(
        spec,
        spaces.observation_space,
        spaces.action_space,
        hyperparameters=values,
        seed=derive_seed(recipe.seed, "training"),
    )
    rng = np.random.default_rng(derive_seed(recipe.seed, "learner"))
    learner.setup(task, (), rng, "cpu" if isinstance(learner, RecipeLearner) else device)
    return learner


def _complete(given: Mapping[str, Scalar], card: AlgorithmCard) -> dict[str, Scalar]:
    """Returns all hyper-parameters of a method."""
    for name, value in given.items():
        if name not in card.hyperparameters:
            hint = did_you_mean(name, card.hyperparameters)
            raise InputError(f"hyperparameters: {card.name} has no {name}; {hint}")
        try:
            card.hyperparameters[name].check(value)
        except ValueError as error:
            raise InputError(f"hyperparameters: {card.name}: {name} {error}") from error
    return card.resolve({}, card.resolve({}) | dict(given))


class RecipeLearner(AlgorithmLearner):
    """PPO or SAC with the settings of a recipe.

    Args:
        recipe: The recipe, for an algorithm of Stable-Baselines3.
    """

    def __init__(self, recipe: ExpertRecipe) -> None:
        self._recipe = recipe
        self._scaling: VecNormalize | None = None

    def make_algorithm(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> BaseAlgorithm:
        """Creates the algorithm."""
        del task, demos, rng
        recipe = self._recipe
        hyperparameters: dict[str, Any] = dict(recipe.hyperparameters)
        venv: VecEnv = self.episodes
        if recipe.normalize_rewards:
            gamma = float(recipe.hyperparameters.get("gamma") or 0.99)
            venv = self._scaling = VecNormalize(venv, norm_obs=False, norm_reward=True, gamma=gamma)
        policy_kwargs: dict[str, Any] = {"net_arch": recipe.net_arch}
        if recipe.normalize_observations:
            policy_kwargs["features_extractor_class"] = NormalizeFeaturesExtractor
            policy_kwargs["features_extractor_kwargs"] = {"normalize_class": RunningNorm}
        if recipe.learning_rate_decay == "linear":
            initial = float(hyperparameters["learning_rate"])
            hyperparameters["learning_rate"] = lambda remaining: initial * remaining
        return (_LEAN if recipe.lean else _ALGORITHMS)[recipe.algo](
            "MlpPolicy",
            venv,
            policy_kwargs=policy_kwargs,
            seed=derive_seed(recipe.seed, "expert"),
            device=device,
            **hyperparameters,
        )

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for the budget; the last rollout may exceed it."""
        algorithm = self._algorithm
        left = budget.amount - algorithm.num_timesteps
        if left > 0:
            every = max(1, budget.amount // CURVE_POINTS)
            report = RolloutReport(self._measure, every, callback, checkpoint)
            continue_learning(algorithm, left, report, {"log_interval": None})
            report.point()
        return algorithm.num_timesteps

    def state_dict(self) -> dict[str, Any]:
        """State of algorithm, environments and scale of rewards, between two rollouts."""
        state = super().state_dict()
        if self._scaling is not None:
            moments = self._scaling.ret_rms
            state["scaling"] = {
                "returns": self._scaling.returns.copy(),
                "moments": (float(moments.mean), float(moments.var), float(moments.count)),
            }
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        super().load_state_dict(state)
        if self._scaling is not None:
            moments = self._scaling.ret_rms
            self._scaling.returns = np.array(state["scaling"]["returns"])
            mean, variance, moments.count = state["scaling"]["moments"]
            moments.mean, moments.var = np.array(mean), np.array(variance)
