"""Acting with an ensemble and an expert who is only asked where a gate says so."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from imitbench.data.policy_callable import States
from imitbench.policies.action_heads import EnsemblePolicy

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class QueryCounts:
    """What the expert did so far, in the steps of all environments.

    Attributes:
        env_steps: Environment steps.
        queries: Observations for which the expert was asked for an action.
        expert_steps: Steps in which the expert acted.
        takeovers: How often the expert began to act.
    """

    env_steps: int = 0
    queries: int = 0
    expert_steps: int = 0
    takeovers: int = 0

    def __add__(self, other: QueryCounts) -> QueryCounts:
        return QueryCounts(*map(operator.add, astuple(self), astuple(other)))


class QueryGate(ABC):
    """Decides in which steps the expert is asked, and in which of these it acts."""

    @abstractmethod
    def asks(self, disagreement: Floats, expert_acted: Mask) -> Mask:
        """Whether the expert is asked, in each environment.

        Args:
            disagreement: Of the ensemble, shape (n_envs,).
            expert_acted: Whether the expert acted in the step before, in the same episode.

        Returns:
            Shape (n_envs,).
        """

    @abstractmethod
    def hands_over(self, disagreement: Floats, discrepancy: Floats, expert_acted: Mask) -> Mask:
        """Whether the expert acts where it was asked.

        Args:
            disagreement: Of the ensemble, shape (n,).
            discrepancy: Distance of the ensemble's action from the expert's, in scaled actions;
                shape (n,).
            expert_acted: Whether the expert acted in the step before, in the same episode.

        Returns:
            Shape (n,).
        """


class GatedTurns:
    """Acts in all environments, and keeps the expert's answers.

    Args:
        venv: The environments.
        policy: The ensemble.
        expert_policy: The expert, who answers with the most likely action.
        gate: Decides; `None` to ask for every action, and take it.

    Attributes:
        counts: What the expert did so far.
    """

    def __init__(
        self,
        venv: VecEnv,
        policy: EnsemblePolicy,
        expert_policy: BasePolicy | BaseAlgorithm,
        gate: QueryGate | None,
    ) -> None:
        self._venv = venv
        self._policy = policy
        self._expert = expert_policy
        self._gate = gate
        self._acted: Mask = np.zeros(venv.num_envs, dtype=bool)
        self._asked_obs: list[Array] = []
        self._answers: list[Array] = []
        self._own_obs: list[Array] = []
        self.counts = QueryCounts()

    def __call__(self, obs: Any, state: States, starts: Array | None) -> tuple[Array, States]:
        """One action for each environment."""
        acted = self._acted if starts is None else self._acted & ~starts
        gate = self._gate
        acts, disagreement = self._policy.act_with_disagreement(obs)
        asked = np.ones(len(acts), bool) if gate is None else gate.asks(disagreement, acted)
        expert_acts = asked.copy()
        if asked.any():
            answers, _ = self._expert.predict(obs[asked], deterministic=True)
            self._asked_obs.append(obs[asked])
            self._answers.append(answers)
            if gate is not None:
                discrepancy = self._policy.distance(acts[asked], answers)
                expert_acts[asked] = gate.hands_over(disagreement[asked], discrepancy, acted[asked])
            acts[expert_acts] = answers[expert_acts[asked]]
        self._own_obs.append(obs[~expert_acts])
        self.counts += QueryCounts(
            len(acts), int(asked.sum()), int(expert_acts.sum()), int((expert_acts & ~acted).sum())
        )
        self._acted = expert_acts
        return acts, state

    @property
    def answers(self) -> tuple[Array, Array]:
        """Asked observations and the expert's actions, shape (n, …) each."""
        if not self._answers:
            obs, acts = (
                np.empty((0, *(space.shape or ())), space.dtype)
                for space in (self._venv.observation_space, self._venv.action_space)
            )
            return obs, acts
        return np.concatenate(self._asked_obs), np.concatenate(self._answers)

    @property
    def own_obs(self) -> Array:
        """Observations in which the ensemble acted, shape (n, *observation_shape)."""
        return np.concatenate(self._own_obs)
