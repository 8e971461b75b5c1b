"""Environment wrappers that keep what passes through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from imitbench.data.accumulator import TrajectoryAccumulator
from imitbench.data.observations import (
    DictObs,
    Observation,
    maybe_wrap_in_dictobs,
    stack_maybe_dictobs,
)
from imitbench.data.rollout import flatten_trajectories_with_rew
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.data.types import TransitionsWithRew


class RolloutInfoWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Reports the whole episode, as this wrapper saw it, in the info of its last step.

    When an episode ends, `info["rollout"]` is a dictionary with the keys `obs`, shape
    `(T + 1, *observation_shape)`, and `rews`, shape `(T,)`, float64. Wrappers further out may
    change observations and rewards; `imitbench.data.rollout.unwrap_traj` brings the originals
    back.

    Args:
        env: Environment to wrap; put this wrapper innermost.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._obs: list[Observation] = []
        self._rews: list[float] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode and forgets the previous one."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._obs = [_keep(obs)]
        self._rews = []
        return obs, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment.

        Returns:
            What the environment returned, with `info["rollout"]` added at an episode's end.

        Raises:
            ValueError: The environment's info has a `rollout` entry of its own.
        """
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._obs.append(_keep(obs))
        self._rews.append(float(reward))
        if terminated or truncated:
            if "rollout" in info:
                raise ValueError("info has an entry 'rollout' already: wrap the environment once")
            info["rollout"] = {
                "obs": stack_maybe_dictobs(self._obs),
                "rews": np.array(self._rews),
            }
        return obs, reward, terminated, truncated, info


class BufferingWrapper(VecEnvWrapper):
    """Records every step of a vector environment until somebody collects it.

    Args:
        venv: Environment to wrap.
        error_on_premature_reset: Whether a reset is refused while there are steps that nobody
            has collected.

    Attributes:
        n_transitions: Steps recorded and not yet collected; `None` before the first reset.
    """

    def __init__(self, venv: VecEnv, error_on_premature_reset: bool = True) -> None:
        super().__init__(venv)
        self.error_on_premature_reset = error_on_premature_reset
        self.n_transitions: int | None = None
        self._forget()

    def _forget(self) -> None:
        self._finished: list[TrajectoryWithRew] = []
        self._lengths: list[int] = []
        self._running = TrajectoryAccumulator()
        self._steps = np.zeros(self.num_envs, dtype=np.int64)

    def reset(self) -> VecEnvObs:
        """Resets all environments.

        Raises:
            RuntimeError: Steps that nobody has collected would be lost.
        """
        if self.error_on_premature_reset and self.n_transitions:
            raise RuntimeError(
                f"reset would lose {self.n_transitions} recorded transitions: pop them first, or "
                "pass error_on_premature_reset=False"
            )
        obs = self.venv.reset()
        self._forget()
        self.n_transitions = 0
        for env in range(self.num_envs):
            self._running.add_step({"obs": _of_env(obs, env)}, key=env)
        return obs

    def step_async(self, actions: np.ndarray[Any, Any]) -> None:
        """Starts a step; remembers the actions.

        Raises:
            RuntimeError: The environment was not reset.
        """
        if self.n_transitions is None:
            raise RuntimeError("call reset() before the first step")
        self._actions = np.array(actions)
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Finishes the step and records it."""
        obs, rews, dones, infos = self.venv.step_wait()
        wrapped = maybe_wrap_in_dictobs(obs)  # type: ignore[arg-type]
        self._finished += self._running.add_steps_and_auto_finish(
            self._actions, wrapped, rews, dones, infos
        )
        self._steps += 1
        self._lengths += self._steps[dones].tolist()
        self._steps[dones] = 0
        assert self.n_transitions is not None, "a step comes after a reset"
        self.n_transitions += self.num_envs
        return obs, rews, dones, infos

    def pop_finished_trajectories(self) -> tuple[Sequence[TrajectoryWithRew], Sequence[int]]:
        """Collects what belongs to episodes that have ended.

        Returns:
            Trajectories, whose beginning is missing where an earlier pop collected it, and the
            lengths of the whole episodes.
        """
        trajectories, lengths = self._finished, self._lengths
        self._finished, self._lengths = [], []
        self.n_transitions = sum(self._partial_length(env) for env in range(self.num_envs))
        return trajectories, lengths

    def pop_trajectories(self) -> tuple[Sequence[TrajectoryWithRew], Sequence[int]]:
        """Collects everything, running episodes included.

        Returns:
            Trajectories, whose beginning is missing where an earlier pop collected it and whose
            end is missing (`terminal` is false) where the episode goes on; and the lengths of
            the episodes that have ended.
        """
        if not self.n_transitions:
            return [], []
        partial = []
        for env in range(self.num_envs):
            if self._partial_length(env):
                part = self._running.finish_trajectory(env, terminal=False)
                self._running.add_step({"obs": part.obs[-1]}, key=env)
                partial.append(part)
        trajectories, lengths = self.pop_finished_trajectories()
        return [*trajectories, *partial], lengths

    def pop_transitions(self) -> TransitionsWithRew:
        """Collects everything as transitions.

        Raises:
            RuntimeError: There is nothing to collect.
        """
        if not self.n_transitions:
            raise RuntimeError("no transitions were recorded since the last pop")
        trajectories, _ = self.pop_trajectories()
        return flatten_trajectories_with_rew(trajectories)

    def state_dict(self) -> dict[str, Any]:
        """Where the running episodes stand, once every step was collected.

        Raises:
            RuntimeError: There are steps that nobody has collected.
        """
        if self.n_transitions:
            raise RuntimeError(f"pop the {self.n_transitions} recorded transitions first")
        running = self._running.partial_trajectories
        obs = [running[env]["obs"][-1] for env in range(self.num_envs)] if running else None
        return {"obs": obs, "steps": self._steps.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave; the environments' own state is the caller's."""
        self._forget()
        if state["obs"] is not None:
            self.n_transitions = 0
            for env, obs in enumerate(state["obs"]):
                self._running.add_step({"obs": obs}, key=env)
        self._steps[:] = state["steps"]

    def _partial_length(self, env: int) -> int:
        return len(self._running.partial_trajectories.get(env, {}).get("acts", ()))


def _of_env(obs: Any, env: int) -> Observation:
    if isinstance(obs, dict):
        return DictObs({key: np.array(value[env]) for key, value in obs.items()})
    return np.array(obs[env])


def _keep(obs: Any) -> Observation:
    """A copy, because an environment may write its next observation into the same memory."""
    if isinstance(obs, dict):
        return maybe_wrap_in_dictobs({key: np.array(value) for key, value in obs.items()})
    return np.array(obs)
