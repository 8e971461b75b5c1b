"""DAgger: in each round, the expert labels the observations that the learner visits.

Source: Ross, Gordon and Bagnell 2011, "A Reduction of Imitation Learning and Structured
Prediction to No-Regret Online Learning".

Working folder of a trainer:

    checkpoint-001.pt  checkpoint-002.pt  …  checkpoint-latest.pt
    policy-001/        policy-002/        …  policy-latest/
    demos/round-000/   demos/round-001/   …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms.bc import reconstruct_policy
from imitbench.algorithms.dagger_collect import (
    ActionMixer,
    BetaSchedule,
    ExponentialBetaSchedule,
    InteractiveTrajectoryCollector,
    LinearBetaSchedule,
)
from imitbench.algorithms.dagger_storage import COLLECTED, GIVEN, read_demos, write_demos
from imitbench.algorithms.dagger_trainer import (
    CHECKPOINT,
    DAggerTrainer,
    NeedsDemosException,
    check_round_size,
    check_spaces,
    rebuild_bc,
    rebuild_schedule,
)
from imitbench.data import rollout
from imitbench.data.types import AnyPath, Trajectory, TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.util.logger import HierarchicalLogger, configure
from imitbench.util.state_file import load_state
from imitbench.util.util import make_seeds, parse_path

__all__ = [
    "BetaSchedule",
    "CollectedRound",
    "DAggerTrainer",
    "ExponentialBetaSchedule",
    "InteractiveTrajectoryCollector",
    "LinearBetaSchedule",
    "NeedsDemosException",
    "SimpleDAggerTrainer",
    "reconstruct_trainer",
]


@dataclass(frozen=True)
class CollectedRound:
    """Result of a round of `SimpleDAggerTrainer`.

    Attributes:
        number: Number of the round, from 0.
        beta: Probability with which the expert acted, in [0, 1].
        env_steps: Steps taken, summed over environments. May exceed those in the trajectories,
            because the others continue while one environment finishes.
        trajectories: Whole episodes, with the expert's actions.
    """

    number: int
    beta: float
    env_steps: int
    trajectories: Sequence[TrajectoryWithRew]


class SimpleDAggerTrainer(DAggerTrainer):
    """DAgger with an expert that is a policy.

    Args:
        venv: Environments to collect in. Whether the learner or the expert acts is drawn
            independently for each environment and step.
        scratch_dir: Working folder, created if missing.
        expert_policy: Labels every observation, with its most likely action where it samples.
        rng: Source of all randomness in collecting.
        expert_trajs: Further demonstrations for round 0.
        **dagger_trainer_kwargs: Further arguments of `DAggerTrainer`.

    Raises:
        ValueError: `expert_policy` and `venv` have different spaces, or `expert_trajs` do not fit
            them.
        TypeError: `expert_policy` is neither a policy nor an algorithm.
    """

    def __init__(
        self,
        *,
        venv: VecEnv,
        scratch_dir: AnyPath,
        expert_policy: BasePolicy | BaseAlgorithm,
        rng: np.random.Generator,
        expert_trajs: Sequence[Trajectory] | None = None,
        **dagger_trainer_kwargs: Any,
    ) -> None:
        if not isinstance(expert_policy, BasePolicy | BaseAlgorithm):
            raise TypeError(
                "expert_policy must be a policy or an algorithm of Stable-Baselines3, "
                f"not {type(expert_policy).__name__}"
            )
        check_spaces("expert_policy", expert_policy, venv)
        super().__init__(venv=venv, scratch_dir=scratch_dir, rng=rng, **dagger_trainer_kwargs)
        self.expert_policy = expert_policy
        if expert_trajs:
            self._check_fit(expert_trajs, "expert_trajs")
            write_demos(self.round_folder(0) / GIVEN, expert_trajs)

    def train(
        self,
        total_timesteps: int,
        *,
        rollout_round_min_episodes: int = 3,
        rollout_round_min_timesteps: int = 500,
        bc_train_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """Runs rounds until enough steps are collected.

        Args:
            total_timesteps: Least number of steps in all collected episodes.
            rollout_round_min_episodes: Least number of episodes in each round.
            rollout_round_min_timesteps: Least number of steps in each round; at least `batch_size`.
            bc_train_kwargs: See `extend_and_update`.

        Raises:
            ValueError: A number is out of range, or an observation or action is not finite.
        """
        if total_timesteps < 0:
            raise ValueError(f"total_timesteps must not be negative, but is {total_timesteps}")
        steps = 0
        while steps < total_timesteps:
            collected = self.train_round(
                rollout_round_min_episodes=rollout_round_min_episodes,
                rollout_round_min_timesteps=rollout_round_min_timesteps,
                bc_train_kwargs=bc_train_kwargs,
                timesteps_before=steps,
            )
            steps += sum(map(len, collected.trajectories))

    def train_round(
        self,
        *,
        rollout_round_min_episodes: int = 3,
        rollout_round_min_timesteps: int = 500,
        bc_train_kwargs: Mapping[str, Any] | None = None,
        timesteps_before: int = 0,
    ) -> CollectedRound:
        """Runs one round: collects, then trains. Save checkpoints between rounds.

        Once there are enough steps, each environment finishes its episode and that episode counts,
        so that short ones are not favored.

        Args:
            rollout_round_min_episodes: Least number of episodes.
            rollout_round_min_timesteps: Least number of steps; at least `batch_size`.
            bc_train_kwargs: See `extend_and_update`.
            timesteps_before: Steps of earlier rounds, for the log.

        Raises:
            ValueError: A number is out of range, or an observation or action is not finite.
        """
        check_round_size(rollout_round_min_episodes, rollout_round_min_timesteps)
        collected = self._collect(
            rollout.make_sample_until(
                min_timesteps=max(rollout_round_min_timesteps, self.batch_size),
                min_episodes=rollout_round_min_episodes,
            )
        )
        log_round(self._logger, collected, timesteps_before)
        self.extend_and_update(bc_train_kwargs)
        return collected

    def _collect(self, sample_until: rollout.GenTrajTerminationFn) -> CollectedRound:
        """Collects the round's episodes and saves them together."""
        self.venv.seed(make_seeds(self.rng))
        mixer = ActionMixer(self.venv, self._learner(), self._beta(), self.rng)
        trajectories = rollout.generate_trajectories(
            self.expert_policy, mixer, sample_until, self.rng, deterministic_policy=True
        )
        folder = self.round_folder(self.round_num) / COLLECTED
        self._check_fit(trajectories, folder)
        write_demos(folder, trajectories)
        return CollectedRound(self.round_num, mixer.beta, mixer.env_steps, trajectories)


def log_round(logger: HierarchicalLogger, collected: CollectedRound, timesteps_before: int) -> None:
    """Records what was collected in a round.

    Args:
        logger: Where to log.
        collected: The round.
        timesteps_before: Steps of earlier rounds.
    """
    steps = sum(map(len, collected.trajectories))
    for trajectory in collected.trajectories:
        logger.record_mean("dagger/mean_episode_reward", float(trajectory.rews.sum()))
    logger.record("dagger/total_timesteps", timesteps_before + steps)
    logger.record("dagger/round_num", collected.number)
    logger.record("dagger/round_episode_count", len(collected.trajectories))
    logger.record("dagger/round_timestep_count", steps)
    logger.record("dagger/beta", collected.beta)


def reconstruct_trainer(
    scratch_dir: AnyPath,
    venv: VecEnv,
    custom_logger: HierarchicalLogger | None = None,
    device: th.device | str = "auto",
    *,
    expert_policy: BasePolicy | BaseAlgorithm | None = None,
    beta_schedule: Callable[[int], float] | None = None,
) -> DAggerTrainer:
    """Loads a trainer from the latest checkpoint in its working folder.

    Nothing is unpickled: objects that a checkpoint cannot hold must be passed again.

    Args:
        scratch_dir: Working folder of an earlier trainer, with `checkpoint-latest.pt`.
        venv: Environments to collect in.
        custom_logger: Where to log; a new logger when `None`.
        device: Device of the policy.
        expert_policy: Expert of a `SimpleDAggerTrainer`.
        beta_schedule: Required if the schedule of the saved trainer is not a class of this module.

    Returns:
        A trainer that continues as the saved one would; a `SimpleDAggerTrainer` if `expert_policy`
        is given.

    Raises:
        MissingPathError: There is no checkpoint (also a `FileNotFoundError`).
        InputError: The checkpoint is damaged.
        ValueError: `venv` has other spaces, or `beta_schedule` is required.
    """
    folder = parse_path(scratch_dir)
    path = folder / "checkpoint-latest.pt"
    saved = load_state(path)
    if not isinstance(saved, dict) or not saved.items() >= CHECKPOINT.items():
        raise InputError(f"{path}: not a DAgger checkpoint of version {CHECKPOINT['version']}")
    schedule = beta_schedule or rebuild_schedule(saved["beta_schedule"])
    state = saved["state"]
    round_num = state["round_num"]
    rng = np.random.default_rng()
    bc_rng = rng if saved["shared_rng"] else np.random.default_rng()
    policy = reconstruct_policy(folder / f"policy-{round_num:03d}", device=device)
    logger = custom_logger or configure()
    options: dict[str, Any] = {
        "venv": venv,
        "scratch_dir": folder,
        "rng": rng,
        "beta_schedule": schedule,
        "bc_trainer": rebuild_bc(saved["bc"], policy, bc_rng, device, logger),
        "custom_logger": logger,
    }
    trainer = (
        DAggerTrainer(**options)
        if expert_policy is None
        else SimpleDAggerTrainer(**options, expert_policy=expert_policy)
    )
    rounds = [read_demos(trainer.round_folder(number)) for number in range(round_num)]
    for number, trajectories in enumerate(rounds):
        if not trajectories:
            raise InputError(
                f"{trainer.round_folder(number)}: no demonstrations; restore the files of the round"
            )
    trainer.restore(state, rounds)
    return trainer
