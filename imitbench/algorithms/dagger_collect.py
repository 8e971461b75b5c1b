"""Collects demonstrations for DAgger: at each step, the expert or the learner acts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from imitbench.algorithms.dagger_storage import claim_folder, write_demos
from imitbench.algorithms.demonstration_fit import check_fit
from imitbench.data.rollout import TrajectoryAccumulator
from imitbench.data.types import AnyPath
from imitbench.util.util import parse_path

Array = npt.NDArray[Any]


class BetaSchedule(ABC):
    """Probability that the expert acts, by round."""

    @abstractmethod
    def __call__(self, round_num: int) -> float:
        """The probability, in [0, 1].

        Args:
            round_num: Number of the round, from 0.
        """


class LinearBetaSchedule(BetaSchedule):
    """Falls from 1 in round 0 to 0 in round `rampdown_rounds`, and stays there.

    Args:
        rampdown_rounds: Number of rounds until the learner acts alone.

    Raises:
        ValueError: `rampdown_rounds` is not positive.
    """

    def __init__(self, rampdown_rounds: int) -> None:
        if not rampdown_rounds > 0:
            raise ValueError(f"rampdown_rounds must be positive, not {rampdown_rounds}")
        self.rampdown_rounds = rampdown_rounds

    def __call__(self, round_num: int) -> float:
        """The probability, in [0, 1]."""
        check_round(round_num)
        return max(0.0, 1.0 - round_num / self.rampdown_rounds)


class ExponentialBetaSchedule(BetaSchedule):
    """`decay_probability ** round_num`.

    Args:
        decay_probability: Factor from one round to the next, in (0, 1].

    Raises:
        ValueError: `decay_probability` is outside (0, 1].

    Source: Ross, Gordon and Bagnell 2011, section 3.
    """

    def __init__(self, decay_probability: float) -> None:
        if not 0 < decay_probability <= 1:
            raise ValueError(f"decay_probability must be within (0, 1], not {decay_probability}")
        self.decay_probability = decay_probability

    def __call__(self, round_num: int) -> float:
        """The probability, in [0, 1]."""
        check_round(round_num)
        return float(self.decay_probability**round_num)


def check_round(round_num: int) -> None:
    """Raises a `ValueError` if the round is negative."""
    if round_num < 0:
        raise ValueError(f"round_num must not be negative, but is {round_num}")


def check_observations(venv: VecEnv) -> None:
    """Raises a `ValueError` unless observations are arrays; files cannot hold others."""
    space = venv.observation_space
    if space.shape is None or isinstance(space, spaces.Dict):
        raise ValueError(
            f"venv: observations of {space} cannot be saved as demonstrations; flatten them, for "
            "example with gymnasium.wrappers.FlattenObservation"
        )


class ActionMixer(VecEnvWrapper):
    """Executes the given actions with probability `beta`, and the robot's otherwise.

    Who acts is drawn independently for each environment and step. The robot gets one call per step,
    with only the observations of the environments in which it acts.

    Args:
        venv: Environments to act in.
        get_robot_acts: Maps observations, shape `(n, *observation_shape)`, to actions, shape `(n,
            *action_shape)`, for the `n` environments in which the robot acts.
        beta: Probability that a given action is executed, in [0, 1].
        rng: Draws who acts.

    Attributes:
        env_steps: Steps taken, summed over environments.

    Raises:
        ValueError: `beta` is outside [0, 1], or observations are not arrays.
    """

    def __init__(
        self,
        venv: VecEnv,
        get_robot_acts: Callable[[Array], Array],
        beta: float,
        rng: np.random.Generator,
    ) -> None:
        if not 0 <= beta <= 1:
            raise ValueError(f"beta must be within [0, 1], not {beta}")
        check_observations(venv)
        super().__init__(venv)
        self.get_robot_acts = get_robot_acts
        self.beta = beta
        self.rng = rng
        self.env_steps = 0
        self._last_obs: Array | None = None

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seeds the draws of who acts, and the environments."""
        self.rng = np.random.default_rng(seed)
        return list(self.venv.seed(seed))

    def reset(self) -> VecEnvObs:
        """Resets all environments."""
        obs = cast(Array, self.venv.reset())
        self._last_obs = obs
        return obs

    def step_async(self, actions: Array) -> None:
        """Starts a step with the given actions or, at random, the robot's.

        Args:
            actions: The expert's actions, shape `(n_envs, *action_shape)`.

        Raises:
            RuntimeError: The environments were not reset.
            ValueError: The given or the robot's actions have the wrong shape.
        """
        if self._last_obs is None:
            raise RuntimeError("call reset() before the first step")
        self._check_shape("actions", actions, self.num_envs)
        carried_out = np.array(actions)
        # Drawn from [0, 1), so beta 0 means never and 1 always.
        robot = self.rng.random(self.num_envs) >= self.beta
        count = int(robot.sum())
        if count:
            obs = self._last_obs if count == self.num_envs else self._last_obs[robot]
            chosen = self.get_robot_acts(obs)
            self._check_shape("get_robot_acts: actions", chosen, count)
            carried_out[robot] = chosen
        self.venv.step_async(carried_out)

    def _check_shape(self, name: str, actions: Array, count: int) -> None:
        expected = (count, *(self.action_space.shape or ()))
        if np.shape(actions) != expected:
            raise ValueError(f"{name} must have shape {expected}, not {np.shape(actions)}")

    def step_wait(self) -> VecEnvStepReturn:
        """Finishes the step."""
        obs, rews, dones, infos = self.venv.step_wait()
        self._last_obs = cast(Array, obs)
        self.env_steps += self.num_envs
        return obs, rews, dones, infos


class InteractiveTrajectoryCollector(ActionMixer):
    """Saves each finished episode as a demonstration with the given actions.

    `step` takes the expert's actions. With probability `beta` they are executed; otherwise the
    robot acts. The expert's action is saved in both cases.

    Each episode is written atomically to its own data set folder, `demo_000`, `demo_001` and so on,
    which `imitbench.data.serialize.load` reads. Several collectors and processes may share
    `save_dir`.

    Args:
        venv: Environments to act in.
        get_robot_acts: See `ActionMixer`.
        beta: Probability that a given action is executed, in [0, 1].
        save_dir: Folder of the demonstrations, created if missing.
        rng: Draws who acts.

    Attributes:
        traj_accum: The unfinished episodes; `None` before the first reset.

    Raises:
        ValueError: `beta` is outside [0, 1], or observations are not arrays.
    """

    def __init__(
        self,
        venv: VecEnv,
        get_robot_acts: Callable[[Array], Array],
        beta: float,
        save_dir: AnyPath,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(venv, get_robot_acts, beta, rng)
        self.save_dir = parse_path(save_dir)
        self.traj_accum: TrajectoryAccumulator | None = None

    def reset(self) -> VecEnvObs:
        """Resets all environments; unfinished episodes are dropped."""
        obs = cast(Array, super().reset())
        self.traj_accum = TrajectoryAccumulator()
        for env in range(self.num_envs):
            self.traj_accum.add_step({"obs": obs[env]}, key=env)
        return obs

    def step_async(self, actions: Array) -> None:
        """Starts a step as `ActionMixer.step_async`, and stores the given actions."""
        super().step_async(actions)
        self._given = np.array(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Finishes the step, and saves the episodes that it ends.

        Raises:
            ValueError: An episode has values that are not finite, or actions out of range.
        """
        obs, rews, dones, infos = super().step_wait()
        assert self.traj_accum is not None, "a step comes after a reset"
        finished = self.traj_accum.add_steps_and_auto_finish(
            self._given, cast(Array, obs), rews, dones, infos
        )
        for trajectory in finished:
            check_fit(
                trajectory.obs[:-1], trajectory.acts, self.observation_space, self.action_space
            )
            write_demos(claim_folder(self.save_dir, "demo"), [trajectory])
        return obs, rews, dones, infos
