"""Steps of small tasks in closed form, for many environments at once.

Each task computes in NumPy, over the columns of states, what the `step` of its environment computes
for one state: the same operations in the same order and precision, so that all values are the same
bit for bit (`imitbench.envs.batch_choice` compares them before it uses a task). Where a function
of arrays may round otherwise than the one of numbers, it is computed number by number.

Source: Gymnasium 1.4, `gymnasium.envs.classic_control`, and seals 0.2.1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from imitbench.envs.batch import Array, StepResults, keeps_methods


class ClassicTask(ABC):
    """A task whose state is a few numbers.

    Args:
        env: An environment of the task, without the wrappers around the task itself. All others
            have its parameters.
    """

    entries: int
    """Numbers of a state."""
    draws = False
    """Whether the last of them is random: in [0, 1), drawn by the environment's generator before
    each step."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.task: Any = env.unwrapped

    @abstractmethod
    def read(self, env: Any) -> list[float]:
        """Returns the state of an environment, of `entries` numbers."""

    @abstractmethod
    def write(self, env: Any, state: Array) -> None:
        """Sets the state of an environment, shape (entries,)."""

    @abstractmethod
    def step(self, state: Array, actions: Array) -> tuple[Array, StepResults]:
        """Takes a step.

        Args:
            state: States, shape (entries, n), float64; not changed.
            actions: Their actions, shape (n, …).

        Returns:
            The next states, as a new array, and the results.
        """


class Pendulum(ClassicTask):
    """`Pendulum-v1`, and with other parameters; its state is angle, velocity and last torque."""

    entries = 3

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        task = self.task
        self._pull, self._push = 3 * task.g / (2 * task.l), 3.0 / (task.m * task.l**2)
        self._strongest, self._fastest, self._dt = task.max_torque, task.max_speed, task.dt

    def read(self, env: Any) -> list[float]:
        """See `ClassicTask.read`; the torque is NaN after a reset."""
        task = env.unwrapped
        return [*task.state, math.nan if task.last_u is None else task.last_u]

    def write(self, env: Any, state: Array) -> None:
        """See `ClassicTask.write`."""
        angle, velocity, torque = state
        env.unwrapped.state = np.array([angle, velocity])
        env.unwrapped.last_u = None if math.isnan(torque) else torque

    def step(self, state: Array, actions: Array) -> tuple[Array, StepResults]:
        """See `ClassicTask.step`."""
        angle, velocity = state[0], state[1]
        # In the precision of the actions.
        torque = np.minimum(np.maximum(actions[:, 0], -self._strongest), self._strongest)
        turned = (angle + np.pi) % (2 * np.pi) - np.pi
        costs = (
            np.array(_squares(turned)) + 0.1 * np.array(_squares(velocity))
        ) + 0.001 * np.array([value**2 for value in torque])
        after = np.empty_like(state)
        faster = velocity + (self._pull * np.sin(angle) + self._push * torque) * self._dt
        faster = np.minimum(np.maximum(faster, -self._fastest), self._fastest, out=after[1])
        angle = np.add(angle, faster * self._dt, out=after[0])
        after[2] = torque
        obs = np.empty((len(actions), 3), np.float32)
        obs[:, 0], obs[:, 1], obs[:, 2] = np.cos(angle), np.sin(angle), faster
        return after, StepResults(obs, -costs, np.zeros(len(actions), dtype=bool), {})


class CartPole(ClassicTask):
    """`CartPole-v1`, whose episodes end when the pole has fallen."""

    entries = 4

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._forces = np.array([-self.task.force_mag, self.task.force_mag])

    def read(self, env: Any) -> list[float]:
        """See `ClassicTask.read`."""
        return list(env.unwrapped.state)

    def write(self, env: Any, state: Array) -> None:
        """See `ClassicTask.write`."""
        env.unwrapped.state = state.copy()

    def step(self, state: Array, actions: Array) -> tuple[Array, StepResults]:
        """See `ClassicTask.step`."""
        after, task = self.moved(state, actions), self.task
        place, angle = after[0], after[2]
        fallen = (np.abs(place) > task.x_threshold) | (np.abs(angle) > task.theta_threshold_radians)
        lasting, last = (0.0, -1.0) if task._sutton_barto_reward else (1.0, 1.0)
        rewards = np.where(fallen, last, lasting)
        return after, StepResults(after.T.astype(np.float32, order="C"), rewards, fallen, {})

    def moved(self, state: Array, actions: Array) -> Array:
        """Returns the next states, shape (4, n)."""
        task = self.task
        place, speed, angle, turn = state
        cosine, sine = np.cos(angle), np.sin(angle)
        push = task.polemass_length * np.square(turn)
        push = (self._forces[actions] + push * sine) / task.total_mass
        inertia = task.masspole * np.square(cosine) / task.total_mass
        turning = (task.gravity * sine - cosine * push) / (task.length * (4.0 / 3.0 - inertia))
        gain = push - task.polemass_length * turning * cosine / task.total_mass
        after = np.empty_like(state)
        np.add(place, task.tau * speed, out=after[0])
        np.add(speed, task.tau * gain, out=after[1])
        np.add(angle, task.tau * turn, out=after[2])
        np.add(turn, task.tau * turning, out=after[3])
        return after


class FixedCartPole(CartPole):
    """The `seals/CartPole-v0` of seals, whose episodes continue, and with other parameters."""

    def write(self, env: Any, state: Array) -> None:
        """See `ClassicTask.write`."""
        env.unwrapped.state = list(state)

    def step(self, state: Array, actions: Array) -> tuple[Array, StepResults]:
        """See `ClassicTask.step`."""
        after, task = self.moved(state, actions), self.task
        after[2] = (after[2] + np.pi) % (2 * np.pi) - np.pi
        inside = np.abs(after[0]) < task.x_threshold
        upright = inside & (np.abs(after[2]) < task.theta_threshold_radians)
        obs, never = after.T.astype(np.float32, order="C"), np.zeros(len(inside), dtype=bool)
        return after, StepResults(obs, upright.astype(np.float64), never, {})


class MountainCar(ClassicTask):
    """`MountainCar-v0`, and as in seals, where a car that has reached the goal stays there.

    Its state is position, velocity, and whether it stays.
    """

    entries = 3

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._pushes = (np.arange(3) - 1) * self.task.force
        self._stays = isinstance(env, gym.Wrapper)

    def read(self, env: Any) -> list[float]:
        """See `ClassicTask.read`."""
        return [*env.unwrapped.state, float(self._stays and env.at_absorb_state)]

    def write(self, env: Any, state: Array) -> None:
        """See `ClassicTask.write`."""
        env.unwrapped.state = tuple(state[:2])
        if self._stays:
            env.at_absorb_state = bool(state[2])
            env.absorb_obs_this_episode = state[:2].astype(np.float32) if state[2] else None

    def step(self, state: Array, actions: Array) -> tuple[Array, StepResults]:
        """See `ClassicTask.step`."""
        task = self.task
        position, velocity, stays = state
        slope = np.array([math.cos(angle) for angle in (3 * position).tolist()])
        faster = velocity + (self._pushes[actions] + slope * -task.gravity)
        faster = np.minimum(np.maximum(faster, -task.max_speed), task.max_speed)
        reached = np.minimum(np.maximum(position + faster, task.min_position), task.max_position)
        faster[(reached == task.min_position) & (faster < 0)] = 0
        ended = (reached >= task.goal_position) & (faster >= task.goal_velocity)
        rewards = np.full(len(actions), -1.0)
        if self._stays:
            stayed = stays.astype(bool)
            rewards[stayed] = 0.0
            reached = np.where(stayed, position, reached)
            faster = np.where(stayed, velocity, faster)
            stays, ended = np.maximum(stays, ended), np.zeros_like(ended)
        after = np.array([reached, faster, stays])
        return after, StepResults(after[:2].T.astype(np.float32, order="C"), rewards, ended, {})


class PointMaze(ClassicTask):
    """`imitbench.envs.altered.PointMaze`, whose own formulas are for arrays."""

    entries = 2

    def read(self, env: Any) -> list[float]:
        """See `ClassicTask.read`."""
        return list(env.unwrapped._position)

    def write(self, env: Any, state: Array) -> None:
        """See `ClassicTask.write`."""
        env.unwrapped.place(state)

    def step(self, state: Array, actions: Array) -> tuple[Array, StepResults]:
        """See `ClassicTask.step`."""
        acts = np.clip(np.asarray(actions, np.float64), -1.0, 1.0)
        after = self.task.moved(np.ascontiguousarray(state.T), acts)
        never = np.zeros(len(acts), dtype=bool)
        results = StepResults(after.astype(np.float32), self.task.rewards(acts, after), never, {})
        return after.T, results


class Tabular(ClassicTask):
    """Tasks of seals with a table of transitions, such as `seals/CliffWorld7x4-v0`.

    Their state is its number, the actions taken, and a random number.
    """

    entries = 3
    draws = True

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        # As NumPy's `Generator.choice` does before it draws.
        chances = np.cumsum(self.task.transition_matrix, axis=-1)
        self._chances = chances / chances[..., -1:]

    def read(self, env: Any) -> list[float]:
        """See `ClassicTask.read`."""
        return [env.unwrapped.state, env.unwrapped.n_actions_taken, 0.0]

    def write(self, env: Any, state: Array) -> None:
        """See `ClassicTask.write`."""
        env.unwrapped._cur_state = np.int64(state[0])
        env.unwrapped._n_actions_taken = int(state[1])

    def step(self, state: Array, actions: Array) -> tuple[Array, StepResults]:
        """See `ClassicTask.step`."""
        task, left = self.task, state[0].astype(np.int64)
        reached = (self._chances[left, actions] <= state[2][:, None]).sum(axis=1)
        cause = (left, actions, reached)[: task.reward_matrix.ndim]
        rewards = task.reward_matrix[cause].astype(np.float64)
        after = np.array([reached, state[1] + 1, state[2]])
        ended = after[1] >= (math.inf if task.horizon is None else task.horizon)
        infos = {"old_state": list(left), "new_state": list(reached)}
        return after, StepResults(task.observation_matrix[reached], rewards, ended, infos)


def _squares(values: Array) -> list[float]:
    """Squares as a power of numbers, which is not always their product."""
    return [value**2 for value in values.tolist()]


TASKS: Mapping[tuple[str, str], type[ClassicTask]] = {
    ("gymnasium.envs.classic_control.pendulum", "PendulumEnv"): Pendulum,
    ("gymnasium.envs.classic_control.cartpole", "CartPoleEnv"): CartPole,
    ("gymnasium.envs.classic_control.mountain_car", "MountainCarEnv"): MountainCar,
    ("seals.base_envs", "TabularModelPOMDP"): Tabular,
    ("seals.classic_control", "FixedHorizonCartPole"): FixedCartPole,
    ("imitbench.envs.altered", "PointMaze"): PointMaze,
}
"""Tasks by module and name of their class."""


def task_of(env: gym.Env[Any, Any], limit: float) -> type[ClassicTask] | None:
    """Returns the task of an environment.

    Args:
        env: The environment, without the wrappers around the task itself. Those of seals that let
            a car stay at the goal belong to the task.
        limit: Steps after which such wrappers truncate its episodes; infinity for never.

    Returns:
        `None` for an environment of another class, a subclass that changes more than parameters,
        or parameters for which the formulas do not hold.
    """
    inner: Any = env.unwrapped
    for base in type(inner).__mro__:
        found = TASKS.get((base.__module__, base.__name__))
        if found is None:
            continue
        wrapped = env is not inner
        if not keeps_methods(type(inner), base, inherited=True):
            return None
        if wrapped and found is not MountainCar:
            return None
        if wrapped and not _stays_at_goal(env, limit):
            return None
        if issubclass(found, CartPole) and inner.kinematics_integrator != "euler":
            return None
        return found
    return None


def _stays_at_goal(env: Any, limit: float) -> bool:
    """Whether wrappers are those of `seals.classic_control.mountain_car`, and end no episode."""
    if (type(env).__module__, type(env).__name__) != ("seals.util", "AbsorbAfterDoneWrapper"):
        return False
    if env.absorb_reward != 0.0 or env.absorb_obs_default is not None:
        return False
    inner: Any = env.env
    while isinstance(inner, gym.Wrapper):
        wrapper: Any = inner
        kind = type(wrapper)
        if kind is TimeLimit:
            if wrapper._max_episode_steps < limit:
                return False
        elif (kind.__module__, kind.__name__) == ("seals.util", "ObsCastWrapper"):
            if wrapper.dtype != np.float32:
                return False
        elif kind not in (OrderEnforcing, PassiveEnvChecker):
            return False
        inner = wrapper.env
    return True
