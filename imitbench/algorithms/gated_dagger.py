"""DAgger in which a gate decides, step by step, whether the expert is asked and whether it acts.

A round collects whole episodes, adds the expert's answers to all earlier ones, and trains an
ensemble on them. In round 0 the expert acts alone. The expert is only asked where the gate says
so: each asked observation is one query, which is what the methods here save.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms import base
from imitbench.algorithms.bc_heads import BCWithHead
from imitbench.algorithms.dagger import CollectedRound
from imitbench.algorithms.dagger_collect import check_observations
from imitbench.algorithms.dagger_trainer import check_round_size, check_spaces
from imitbench.algorithms.demonstration_fit import check_fit
from imitbench.data import rollout
from imitbench.data.policy_callable import States
from imitbench.data.types import TransitionsMinimal
from imitbench.policies.action_heads import EnsemblePolicy
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.util import make_seeds

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

DEFAULT_N_EPOCHS = 4
"""Default number of passes over all answers in each round, as for DAgger."""


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


@dataclass(frozen=True)
class GatedRound(CollectedRound):
    """Result of a round; `beta` is the share of steps in which the expert acted.

    Attributes:
        counts: What the expert did in this round.
    """

    counts: QueryCounts


class GatedDAgger(base.BaseImitationAlgorithm):
    """Base of the methods, which decide in which steps the expert is asked, and in which it acts.

    Args:
        venv: Environments to collect in. Each round seeds them from `rng`.
        expert_policy: Answers with its most likely action.
        rng: Source of all randomness in collecting.
        bc_trainer: Trains an `EnsemblePolicy`; gets the logger of this trainer.
        custom_logger: Where to log; a new logger when `None`.

    Attributes:
        round_num: Number of the current round, from 0.
        counts: What the expert did in all rounds.

    Raises:
        TypeError: The policy of `bc_trainer` is not an ensemble.
        ValueError: Spaces differ, or observations are not arrays.
    """

    def __init__(
        self,
        *,
        venv: VecEnv,
        expert_policy: BasePolicy | BaseAlgorithm,
        rng: np.random.Generator,
        bc_trainer: BCWithHead,
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        check_observations(venv)
        check_spaces("bc_trainer", bc_trainer, venv)
        check_spaces("expert_policy", expert_policy, venv)
        if not isinstance(bc_trainer.policy, EnsemblePolicy):
            raise TypeError(
                "bc_trainer: its policy must be an EnsemblePolicy, "
                f"not {type(bc_trainer.policy).__name__}"
            )
        super().__init__(custom_logger=custom_logger)
        self.venv = venv
        self.expert_policy = expert_policy
        self.rng = rng
        self.bc_trainer = bc_trainer
        self.bc_trainer.logger = self._logger
        self._policy = bc_trainer.policy
        self.round_num = 0
        self.counts = QueryCounts()
        self._obs: Array = np.empty((0, *(venv.observation_space.shape or ())), np.float32)
        self._acts: Array = np.empty((0, *(venv.action_space.shape or ())), np.float32)

    # What a method defines, or may define.

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

    def begin_round(self, env_steps: int) -> None:
        """Called before a round after round 0 collects.

        Args:
            env_steps: Least number of environment steps of the round.
        """

    def end_round(self, obs: Array, acts: Array, own_obs: Array) -> None:
        """Called when a round has collected and trained.

        Args:
            obs: All observations that the expert answered so far, shape (n, *observation_shape).
            acts: Its actions, shape (n, *action_shape).
            own_obs: Observations of this round in which the ensemble acted.
        """

    def extra_state(self) -> dict[str, Any]:
        """State that the method has in addition."""
        return {}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        del state

    # Rounds.

    @property
    def policy(self) -> EnsemblePolicy:
        """The ensemble."""
        return self._policy

    def train(
        self,
        total_timesteps: int,
        *,
        rollout_round_min_episodes: int = 3,
        rollout_round_min_timesteps: int = 500,
        bc_train_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """Runs rounds until the environments have taken enough steps, those of before included.

        Args:
            total_timesteps: Least number of environment steps.
            rollout_round_min_episodes: See `train_round`.
            rollout_round_min_timesteps: See `train_round`.
            bc_train_kwargs: See `train_round`.

        Raises:
            ValueError: A number is out of range, or an observation or action is not finite.
        """
        if total_timesteps < 0:
            raise ValueError(f"total_timesteps must not be negative, but is {total_timesteps}")
        while self.counts.env_steps < total_timesteps:
            self.train_round(
                rollout_round_min_episodes=rollout_round_min_episodes,
                rollout_round_min_timesteps=rollout_round_min_timesteps,
                bc_train_kwargs=bc_train_kwargs,
                timesteps_before=self.counts.env_steps,
            )

    def train_round(
        self,
        *,
        rollout_round_min_episodes: int = 3,
        rollout_round_min_timesteps: int = 500,
        bc_train_kwargs: Mapping[str, Any] | None = None,
        timesteps_before: int = 0,
    ) -> GatedRound:
        """Runs one round: collects, then trains on all answers, even if none is new.

        Args:
            rollout_round_min_episodes: Least number of episodes.
            rollout_round_min_timesteps: Least number of steps; at least the batch size.
            bc_train_kwargs: Arguments of `BC.train`; by default `n_epochs` is `DEFAULT_N_EPOCHS`
                unless `n_batches` is given.
            timesteps_before: Steps of earlier rounds, for the log.

        Raises:
            ValueError: A number is out of range, or an observation or action is not finite.
        """
        check_round_size(rollout_round_min_episodes, rollout_round_min_timesteps)
        least = max(rollout_round_min_timesteps, self.bc_trainer.batch_size)
        if self.round_num > 0:
            self.begin_round(least)
        collected, turns = self._collect(
            rollout.make_sample_until(least, rollout_round_min_episodes)
        )
        self._log(collected, timesteps_before)
        options = {"log_rollouts_venv": None, **(bc_train_kwargs or {})}
        if not options.keys() & {"n_epochs", "n_batches"}:
            options["n_epochs"] = DEFAULT_N_EPOCHS
        self._hand_over_answers()
        self.bc_trainer.train(**options)
        self.round_num += 1
        self.end_round(self._obs, self._acts, turns.own_obs)
        return collected

    def _collect(self, sample_until: rollout.GenTrajTerminationFn) -> tuple[GatedRound, GatedTurns]:
        self.venv.seed(make_seeds(self.rng))
        # In round 0 the ensemble has learned nothing yet.
        gate = self if self.round_num > 0 else None
        turns = GatedTurns(self.venv, self.policy, self.expert_policy, gate)
        trajectories = rollout.generate_trajectories(turns, self.venv, sample_until, self.rng)
        obs, acts = turns.answers
        check_fit(obs, acts, self.venv.observation_space, self.venv.action_space)
        self._obs = np.concatenate([self._obs.astype(obs.dtype), obs])
        self._acts = np.concatenate([self._acts.astype(acts.dtype), acts])
        counts = turns.counts
        self.counts += counts
        share = counts.expert_steps / counts.env_steps
        return GatedRound(self.round_num, share, counts.env_steps, trajectories, counts), turns

    def _hand_over_answers(self) -> None:
        infos = np.broadcast_to(np.array({}, dtype=object), len(self._acts))
        pairs = TransitionsMinimal(obs=self._obs, acts=self._acts, infos=infos)
        self.bc_trainer.set_demonstrations(pairs)

    def _log(self, collected: GatedRound, timesteps_before: int) -> None:
        for trajectory in collected.trajectories:
            self._logger.record_mean("dagger/mean_episode_reward", float(trajectory.rews.sum()))
        self._logger.record("dagger/total_timesteps", timesteps_before + collected.env_steps)
        self._logger.record("dagger/round_num", collected.number)
        self._logger.record("dagger/expert_queries", self.counts.queries)
        self._logger.record("dagger/beta", collected.beta)

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Everything that further rounds depend on, the expert's answers included.

        Saved between rounds and loaded into a new trainer with the same arguments, it gives bitwise
        the same further rounds.

        Returns:
            Tensors, arrays and plain values, for `imitbench.util.state_file.save_state`.
        """
        return {
            "round_num": self.round_num,
            "rng": self.rng.bit_generator.state,
            "bc": self.bc_trainer.state_dict(),
            "obs": self._obs,
            "acts": self._acts,
            "counts": astuple(self.counts),
            "method": self.extra_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned into a trainer that has not trained yet.

        Raises:
            ValueError: The state is of another batch size.
        """
        self._obs, self._acts = np.array(state["obs"]), np.array(state["acts"])
        if len(self._acts):
            self._hand_over_answers()
        self.bc_trainer.load_state_dict(state["bc"])
        self.rng.bit_generator.state = state["rng"]
        self.round_num = state["round_num"]
        self.counts = QueryCounts(*state["counts"])
        self.load_extra_state(state["method"])


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
        gate: GatedDAgger | None,
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
