"""DAgger round by round, for demonstrations from any source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms import base
from imitbench.algorithms.bc import BC
from imitbench.algorithms.dagger_collect import (
    BetaSchedule,
    ExponentialBetaSchedule,
    InteractiveTrajectoryCollector,
    LinearBetaSchedule,
    check_observations,
)
from imitbench.algorithms.dagger_storage import (
    GIVEN,
    as_pairs,
    demo_entries,
    pack,
    read_demos,
    unpack,
    write_demos,
)
from imitbench.algorithms.demonstration_fit import check_fit
from imitbench.data.policy_callable import batch_actor, seeded_sampling
from imitbench.data.types import AnyPath, Trajectory
from imitbench.errors import InputError
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.state_file import save_state
from imitbench.util.util import make_seeds, parse_path

Array = npt.NDArray[Any]

CHECKPOINT = {"format": "imitbench-dagger", "version": 1}
"""Entries of every checkpoint."""

_SCHEDULES: dict[str, type[BetaSchedule]] = {
    "LinearBetaSchedule": LinearBetaSchedule,
    "ExponentialBetaSchedule": ExponentialBetaSchedule,
}


class NeedsDemosException(Exception):  # noqa: N818 (the name is part of the API)
    """The current round has no demonstrations yet."""


class DAggerTrainer(base.BaseImitationAlgorithm):
    """DAgger step by step, for interactive experts.

    In each round, collect demonstrations with `create_trajectory_collector`, or put them into the
    round's folder; `extend_and_update` then trains on those of all rounds. Episodes may differ in
    length: behavioral cloning does not see where they end.

    Args:
        venv: Environments to collect in. Each round seeds them from `rng`.
        scratch_dir: Working folder, created if missing.
        rng: Source of all randomness in collecting.
        beta_schedule: Probability that the expert acts, by round; linear over 15 rounds when
            `None`.
        bc_trainer: Trains the policy; gets the logger of this trainer.
        custom_logger: Where to log; a new logger when `None`.

    Attributes:
        round_num: Number of the current round, from 0.

    Raises:
        ValueError: `bc_trainer` and `venv` have different spaces, or observations are not arrays.
    """

    DEFAULT_N_EPOCHS: int = 4
    """Default number of passes over all demonstrations in each round."""

    def __init__(
        self,
        *,
        venv: VecEnv,
        scratch_dir: AnyPath,
        rng: np.random.Generator,
        beta_schedule: Callable[[int], float] | None = None,
        bc_trainer: BC,
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        check_observations(venv)
        check_spaces("bc_trainer", bc_trainer, venv)
        super().__init__(custom_logger=custom_logger)
        self.venv = venv
        self.scratch_dir = parse_path(scratch_dir)
        self.scratch_dir.mkdir(parents=True, exist_ok=True)
        self.rng = rng
        self.beta_schedule = beta_schedule or LinearBetaSchedule(15)
        self.bc_trainer = bc_trainer
        self.bc_trainer.logger = self._logger
        self.round_num = 0
        self._rounds: list[list[Trajectory]] = []

    def _pass_on_logger(self, logger: HierarchicalLogger) -> None:
        self.bc_trainer.logger = logger

    @property
    def policy(self) -> ActorCriticPolicy:
        """The learner's policy."""
        return self.bc_trainer.policy

    @property
    def batch_size(self) -> int:
        """Transitions in each batch of `bc_trainer`."""
        return self.bc_trainer.batch_size

    def create_trajectory_collector(self) -> InteractiveTrajectoryCollector:
        """Creates a collector for the current round, and seeds the environments.

        Returns:
            A collector that mixes expert and learner by the schedule and saves to the round's
            folder.

        Raises:
            ValueError: The schedule gives a probability outside [0, 1].
        """
        self.venv.seed(make_seeds(self.rng))
        return InteractiveTrajectoryCollector(
            self.venv, self._learner(), self._beta(), self.round_folder(self.round_num), self.rng
        )

    def extend_and_update(self, bc_train_kwargs: Mapping[str, Any] | None = None) -> int:
        """Adds the demonstrations of the current round, trains on all, and ends the round.

        Args:
            bc_train_kwargs: Arguments of `BC.train`. By default `log_rollouts_venv` is `venv`, and
                `n_epochs` is `DEFAULT_N_EPOCHS` unless `n_batches` is given.

        Returns:
            Number of the next round.

        Raises:
            NeedsDemosException: The round's folder has no demonstrations. The trainer is unchanged.
            ValueError: Demonstrations are damaged, do not fit the environment, or are fewer than a
                batch.
        """
        folder = self.round_folder(self.round_num)
        fresh = read_demos(folder)
        if not fresh:
            raise NeedsDemosException(
                f"no demonstrations in {folder}; collect some with create_trajectory_collector()"
            )
        self._check_fit(fresh, folder)
        rounds = [*self._rounds, fresh]
        self.bc_trainer.set_demonstrations(as_pairs(rounds))
        options = {"log_rollouts_venv": self.venv, **(bc_train_kwargs or {})}
        if not options.keys() & {"n_epochs", "n_batches"}:
            options["n_epochs"] = self.DEFAULT_N_EPOCHS
        self.bc_trainer.train(**options)
        self._rounds = rounds
        self.round_num += 1
        return self.round_num

    def save_policy(self, policy_path: AnyPath) -> None:
        """Saves only the current policy, without pickle.

        Args:
            policy_path: Folder to write; `imitbench.algorithms.bc.reconstruct_policy` reads it.

        Raises:
            ValueError: The policy's class cannot be saved.
        """
        self.bc_trainer.save_policy(policy_path)

    def save_trainer(self) -> tuple[Path, Path]:
        """Saves a checkpoint at the end of a round, for `reconstruct_trainer`.

        The demonstrations stay in the working folder.

        Returns:
            Paths of the checkpoint file and of the policy folder, which
            `imitbench.algorithms.bc.reconstruct_policy` reads.

        Raises:
            ValueError: The class of the policy or the optimizer cannot be saved.
        """
        name = f"{self.round_num:03d}"
        checkpoint = {
            **CHECKPOINT,
            "bc": describe_bc(self.bc_trainer),
            "beta_schedule": describe_schedule(self.beta_schedule),
            "shared_rng": self.rng is self.bc_trainer.rng,
            "state": self._state(),
        }
        # The checkpoint comes last: if it exists, its policy does, too.
        for version in (name, "latest"):
            self.bc_trainer.save_policy(self.scratch_dir / f"policy-{version}")
            save_state(self.scratch_dir / f"checkpoint-{version}.pt", checkpoint)
        return self.scratch_dir / f"checkpoint-{name}.pt", self.scratch_dir / f"policy-{name}"

    def state_dict(self) -> dict[str, Any]:
        """Everything that further rounds depend on, demonstrations included.

        Saved between rounds and loaded into a new trainer with the same arguments, it gives bitwise
        the same further rounds.

        Returns:
            Tensors, arrays and plain values, for `imitbench.util.state_file.save_state`.
        """
        return {**self._state(), "rounds": [pack(trajectories) for trajectories in self._rounds]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned into a trainer that has not trained yet.

        Writes demonstrations that the working folder lacks.

        Raises:
            ValueError: The state is of another batch size.
            RuntimeError: The state is of another policy.
        """
        rounds = [unpack(packed) for packed in state["rounds"]]
        self.restore(state, rounds)
        for number, trajectories in enumerate(rounds):
            folder = self.round_folder(number)
            if {entry.name for entry in demo_entries(folder)} <= {GIVEN}:
                write_demos(folder / GIVEN, trajectories)

    def _state(self) -> dict[str, Any]:
        return {
            "round_num": self.round_num,
            "rng": self.rng.bit_generator.state,
            "bc": self.bc_trainer.state_dict(),
        }

    def restore(self, state: Mapping[str, Any], rounds: list[list[Trajectory]]) -> None:
        """Restores the state of a checkpoint, which excludes the demonstrations.

        Args:
            state: `state_dict` without its demonstrations.
            rounds: Demonstrations of each completed round.
        """
        if rounds:
            self.bc_trainer.set_demonstrations(as_pairs(rounds))
        self.bc_trainer.load_state_dict(state["bc"])
        self.rng.bit_generator.state = state["rng"]
        self.round_num = state["round_num"]
        self._rounds = rounds

    def round_folder(self, round_num: int) -> Path:
        """Folder of the demonstrations of a round."""
        return self.scratch_dir / "demos" / f"round-{round_num:03d}"

    def _beta(self) -> float:
        return self.beta_schedule(self.round_num)

    def _learner(self) -> Callable[[Array], Array]:
        """The policy's sampled actions, drawn with `rng`."""
        act = batch_actor(self.policy, deterministic=False)

        def choose(obs: Array) -> Array:
            with seeded_sampling(self.policy, self.rng):
                return act(obs)

        return choose

    def _check_fit(self, trajectories: Sequence[Trajectory], where: object) -> None:
        pairs = as_pairs([trajectories])
        try:
            check_fit(pairs.obs, pairs.acts, self.venv.observation_space, self.venv.action_space)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None


def check_round_size(min_episodes: int, min_timesteps: int) -> None:
    """Raises a `ValueError` unless both numbers of a round are positive."""
    for name, value in (("episodes", min_episodes), ("timesteps", min_timesteps)):
        if value <= 0:
            raise ValueError(f"rollout_round_min_{name} must be positive, not {value}")


def check_spaces(name: str, owner: Any, venv: VecEnv) -> None:
    """Raises a `ValueError` unless the argument called `name` has the spaces of `venv`."""
    for kind in ("observation_space", "action_space"):
        own, given = getattr(owner, kind), getattr(venv, kind)
        if own != given:
            raise ValueError(f"{name}: its {kind} is {own}, but that of venv is {given}")


def describe_bc(trainer: BC) -> dict[str, Any]:
    """The settings that `rebuild_bc` needs in addition to policy and state.

    Raises:
        ValueError: The optimizer is not a class of `torch.optim`, or the policy has another head
            than those of `BC`.
    """
    if not isinstance(trainer.policy, ActorCriticPolicy):
        raise ValueError(
            f"bc_trainer: a {type(trainer.policy).__name__} cannot be saved with its trainer; "
            "save state_dict() and save_policy() instead"
        )
    name = type(trainer.optimizer).__name__
    if getattr(th.optim, name, None) is not type(trainer.optimizer):
        raise ValueError(f"bc_trainer: optimizer {name} is not of torch.optim; it cannot be saved")
    return {
        "batch_size": trainer.batch_size,
        "minibatch_size": trainer.minibatch_size,
        "ent_weight": trainer.loss_calculator.ent_weight,
        "l2_weight": trainer.loss_calculator.l2_weight,
        "optimizer": name,
    }


def rebuild_bc(
    description: Mapping[str, Any],
    policy: ActorCriticPolicy,
    rng: np.random.Generator,
    device: str | th.device,
    logger: HierarchicalLogger,
) -> BC:
    """Builds a trainer from its settings; the caller restores the state.

    Raises:
        InputError: The description is not from `describe_bc`.
    """
    options = dict(description)
    name = options.pop("optimizer", None)
    optimizer = getattr(th.optim, name, None) if isinstance(name, str) else None
    if not (isinstance(optimizer, type) and issubclass(optimizer, th.optim.Optimizer)):
        raise InputError(f"checkpoint: {name!r} is not an optimizer of torch.optim")
    # The optimizer's state holds the learning rate; some classes require one here.
    return BC(
        observation_space=policy.observation_space,
        action_space=policy.action_space,
        rng=rng,
        policy=policy,
        optimizer_cls=optimizer,
        optimizer_kwargs={"lr": 1e-3},
        device=device,
        custom_logger=logger,
        **options,
    )


def describe_schedule(schedule: Callable[[int], float]) -> dict[str, Any] | None:
    """A schedule of this package as JSON values; `None` for any other."""
    name = type(schedule).__name__
    if _SCHEDULES.get(name) is not type(schedule):
        return None
    return {"class": name, "arguments": dict(vars(schedule))}


def rebuild_schedule(description: Mapping[str, Any] | None) -> BetaSchedule:
    """Inverse of `describe_schedule`.

    Raises:
        ValueError: There is no description, because the schedule is not of this package.
        InputError: The description is malformed.
    """
    if description is None:
        raise ValueError("beta_schedule: the saved trainer had a custom one; pass it again")
    try:
        return _SCHEDULES[description["class"]](**description["arguments"])
    except (KeyError, TypeError) as error:
        raise InputError(f"checkpoint: not a beta schedule: {description!r}") from error
