"""Observations and rewards of Gymnasium's MuJoCo tasks, for many simulations at once.

Each task computes in NumPy, over the rows of a batch, what the `step` of its environment computes
for one simulation: the same operations in the same order and precision, so that all values are the
same bit for bit (`imitbench.envs.batch_choice` compares them before it uses a task).

Source: Gymnasium 1.4, `gymnasium.envs.mujoco`, versions 4 and 5; the tasks of seals are version 4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.envs.batch import Array, Rows, StepResults, keeps_methods

if TYPE_CHECKING:
    from gymnasium.envs.mujoco import MujocoEnv
    from mujoco.batch import Batch


class MujocoTask(ABC):
    """The part of a task's step that follows the simulation.

    Args:
        env: An environment of the task, without wrappers.
        batch: Simulations of its model.
    """

    needs_contact_forces = False
    """Whether a step ends with MuJoCo's `mj_rnePostConstraint` for its results."""

    def __init__(self, env: MujocoEnv, batch: Batch) -> None:
        self.env: Any = env
        self.qpos, self.qvel = batch.bind("qpos"), batch.bind("qvel")
        self.dt: float = env.dt
        self.newest = any(base.__module__.endswith("_v5") for base in type(env).__mro__)

    @abstractmethod
    def position(self, rows: Rows) -> Array:
        """Positions whose change is the velocity in the reward, shape (n,) or (n, 2)."""

    @abstractmethod
    def position_of(self, data: Any) -> Array:
        """The same of one simulation, after a reset."""

    @abstractmethod
    def results(
        self, rows: Rows, before: Array, after: Array, actions: Array, forces: Array | None
    ) -> StepResults:
        """Computes the results of a step.

        Args:
            rows: Simulations that were stepped.
            before: Their positions before the step.
            after: Their positions after it.
            actions: Their actions, shape (n, actions).
            forces: Contact forces, shape (n, bodies, 6), if the task needs them.
        """

    def control_cost(self, actions: Array) -> Array:
        """Costs of actions, shape (n,)."""
        cost: Array = self.env._ctrl_cost_weight * np.sum(np.square(actions), axis=-1)
        return cost

    def observed(self, rows: Rows, hidden: int, limit: float | None = None) -> Array:
        """Concatenates positions and velocities.

        Args:
            rows: Simulations.
            hidden: Number of positions that are left out, if the environment hides them.
            limit: Largest absolute velocity; `None` for none.
        """
        first = hidden if self.env._exclude_current_positions_from_observation else 0
        velocity: Array = self.qvel[rows]
        if limit is not None:
            velocity = np.clip(velocity, -limit, limit)
        return np.concatenate((self.qpos[rows][:, first:], velocity), axis=1)

    def survival(self, healthy: Array) -> Array:
        """Rewards for being healthy, shape (n,)."""
        weight = self.env._healthy_reward
        if not self.newest:
            healthy = (healthy | self.env._terminate_when_unhealthy).astype(np.float64)
        return np.asarray(healthy * weight)

    def ended(self, healthy: Array) -> Array:
        """Whether episodes end because of their health, shape (n,), bool."""
        if self.env._terminate_when_unhealthy:
            return ~healthy
        return np.zeros(len(healthy), dtype=bool)


class _AlongX(MujocoTask):
    """Tasks whose body moves in a plane."""

    def position(self, rows: Rows) -> Array:
        """See `MujocoTask.position`."""
        return np.asarray(self.qpos[rows, 0])

    def position_of(self, data: Any) -> Array:
        """See `MujocoTask.position_of`."""
        return np.asarray(data.qpos[0])


class HalfCheetah(_AlongX):
    """`HalfCheetah-v4` and `-v5`."""

    def results(
        self, rows: Rows, before: Array, after: Array, actions: Array, forces: Array | None
    ) -> StepResults:
        """See `MujocoTask.results`."""
        velocity = (after - before) / self.dt
        forward, cost = self.env._forward_reward_weight * velocity, self.control_cost(actions)
        infos = {
            "x_position": after,
            "x_velocity": velocity,
            "reward_forward" if self.newest else "reward_run": forward,
            "reward_ctrl": -cost,
        }
        terminated = np.zeros(len(after), dtype=bool)
        return StepResults(self.observed(rows, 1), forward - cost, terminated, infos)


class _Upright(_AlongX):
    """Tasks whose body must not fall."""

    def healthy(self, rows: Rows) -> Array:
        """Whether height and angle are in their ranges, shape (n,), bool."""
        height, angle = self.qpos[rows, 1], self.qpos[rows, 2]
        low, high = self.env._healthy_z_range
        least, most = self.env._healthy_angle_range
        found: Array = (low < height) & (height < high) & (least < angle) & (angle < most)
        return found

    def results(
        self, rows: Rows, before: Array, after: Array, actions: Array, forces: Array | None
    ) -> StepResults:
        """See `MujocoTask.results`."""
        velocity = (after - before) / self.dt
        healthy = self.healthy(rows)
        forward, survival = self.env._forward_reward_weight * velocity, self.survival(healthy)
        cost = self.control_cost(actions)
        infos = {"x_position": after, "x_velocity": velocity}
        if self.newest:
            infos |= {
                "z_distance_from_origin": self.qpos[rows, 1] - self.env.init_qpos[1],
                "reward_forward": forward,
                "reward_ctrl": -cost,
                "reward_survive": survival,
            }
        rewards = (forward + survival) - cost
        return StepResults(self.observed(rows, 1, 10), rewards, self.ended(healthy), infos)


class Hopper(_Upright):
    """`Hopper-v4` and `-v5`."""

    def healthy(self, rows: Rows) -> Array:
        """Also whether all other entries of the state are in their range."""
        low, high = self.env._healthy_state_range
        state = np.concatenate((self.qpos[rows][:, 2:], self.qvel[rows]), axis=1)
        found: Array = super().healthy(rows) & np.all((low < state) & (state < high), axis=1)
        return found


class Walker2d(_Upright):
    """`Walker2d-v4` and `-v5`."""


class _AlongXY(MujocoTask):
    """Tasks whose body moves on a floor."""

    def movement(self, before: Array, after: Array) -> tuple[Array, Array]:
        """Velocities along x and y, each of shape (n,)."""
        velocity = (after - before) / self.dt
        return velocity[:, 0], velocity[:, 1]

    def distances(self, points: Array) -> Array:
        """Distances from the origin, shape (n,)."""
        # As NumPy's norm of a vector computes it; a sum over an axis may round otherwise.
        return np.sqrt([point.dot(point) for point in points])

    def where(self, rows: Rows, after: Array) -> dict[str, Array]:
        """Infos of the point that the body has reached."""
        points = self.qpos[rows, :2] if self.newest else after
        return {
            "x_position": points[:, 0],
            "y_position": points[:, 1],
            "distance_from_origin": self.distances(points),
        }


class Swimmer(_AlongXY):
    """`Swimmer-v4` and `-v5`."""

    def position(self, rows: Rows) -> Array:
        """See `MujocoTask.position`."""
        return np.asarray(self.qpos[rows, :2])

    def position_of(self, data: Any) -> Array:
        """See `MujocoTask.position_of`."""
        return np.asarray(data.qpos[:2])

    def results(
        self, rows: Rows, before: Array, after: Array, actions: Array, forces: Array | None
    ) -> StepResults:
        """See `MujocoTask.results`."""
        along_x, along_y = self.movement(before, after)
        forward, cost = self.env._forward_reward_weight * along_x, self.control_cost(actions)
        infos = self.where(rows, after) | {"x_velocity": along_x, "y_velocity": along_y}
        infos["reward_ctrl"] = -cost
        if self.newest:
            infos["reward_forward"] = forward
        else:
            infos |= {"reward_fwd": forward, "forward_reward": forward}
        terminated = np.zeros(len(after), dtype=bool)
        return StepResults(self.observed(rows, 2), forward - cost, terminated, infos)


class Ant(_AlongXY):
    """`Ant-v4` and `-v5`."""

    def __init__(self, env: MujocoEnv, batch: Batch) -> None:
        super().__init__(env, batch)
        self.needs_contact_forces = self.newest or self.env._use_contact_forces
        main = self.env._main_body if self.newest else "torso"
        self._body = self.env.data.body(main).id
        self._xpos = batch.bind("xpos")

    def position(self, rows: Rows) -> Array:
        """See `MujocoTask.position`."""
        return np.asarray(self._xpos[rows, self._body, :2])

    def position_of(self, data: Any) -> Array:
        """See `MujocoTask.position_of`."""
        return np.asarray(data.xpos[self._body, :2])

    def healthy(self, rows: Rows) -> Array:
        """Whether the state is finite and the height in its range, shape (n,), bool."""
        low, high = self.env._healthy_z_range
        qpos: Array = self.qpos[rows]
        finite = np.isfinite(qpos).all(axis=1) & np.isfinite(self.qvel[rows]).all(axis=1)
        found: Array = finite & (low <= qpos[:, 2]) & (qpos[:, 2] <= high)
        return found

    def results(
        self, rows: Rows, before: Array, after: Array, actions: Array, forces: Array | None
    ) -> StepResults:
        """See `MujocoTask.results`."""
        along_x, along_y = self.movement(before, after)
        healthy, obs = self.healthy(rows), self.observed(rows, 2)
        survival, cost = self.survival(healthy), self.control_cost(actions)
        forward = along_x * self.env._forward_reward_weight if self.newest else along_x
        infos = self.where(rows, after) | {
            "x_velocity": along_x, "y_velocity": along_y,
            "reward_forward": forward, "reward_ctrl": -cost, "reward_survive": survival,
        }  # fmt: skip
        if not self.newest:
            infos["forward_reward"] = forward
        rewards = forward + survival
        if forces is not None:
            felt = np.clip(forces, *self.env._contact_force_range)
            contact = self.env._contact_cost_weight * np.array([np.sum(f) for f in np.square(felt)])
            infos["reward_contact" if self.newest else "reward_ctrl"] = -contact
            # Version 4 adds in place, to a number of the actions' precision.
            cost = cost + contact
            if self.newest and self.env._include_cfrc_ext_in_observation:
                felt = felt[:, 1:]
            if not self.newest or self.env._include_cfrc_ext_in_observation:
                obs = np.concatenate((obs, felt.reshape(len(felt), -1)), axis=1)
        return StepResults(obs, rewards - cost, self.ended(healthy), infos)


class Humanoid(_AlongXY):
    """`Humanoid-v4` and `-v5`."""

    needs_contact_forces = True

    def __init__(self, env: MujocoEnv, batch: Batch) -> None:
        super().__init__(env, batch)
        self._xipos, self._ctrl = batch.bind("xipos"), batch.bind("ctrl")
        self._inertia, self._velocity = batch.bind("cinert"), batch.bind("cvel")
        self._actuators = batch.bind("qfrc_actuator")
        self._tendons = batch.bind("ten_length"), batch.bind("ten_velocity")
        self._mass = self.env.model.body_mass
        self._total = self._mass.sum()

    def _center(self, xipos: Array) -> Array:
        weighted = np.einsum("b,bj->j", self._mass, xipos)
        return np.asarray((weighted / self._total)[:2])

    def position(self, rows: Rows) -> Array:
        """See `MujocoTask.position`."""
        # One by one: a sum over all would add in another order.
        return np.array([self._center(xipos) for xipos in self._xipos[rows]])

    def position_of(self, data: Any) -> Array:
        """See `MujocoTask.position_of`."""
        return self._center(data.xipos)

    def control_cost(self, actions: Array) -> Array:
        """See `MujocoTask.control_cost`."""
        # The environment's cost is that of the simulator's controls, in double precision.
        return super().control_cost(actions.astype(np.float64))

    def results(
        self, rows: Rows, before: Array, after: Array, actions: Array, forces: Array | None
    ) -> StepResults:
        """See `MujocoTask.results`."""
        assert forces is not None, "the task needs them"
        along_x, along_y = self.movement(before, after)
        low, high = self.env._healthy_z_range
        healthy = (low < self.qpos[rows, 2]) & (self.qpos[rows, 2] < high)
        survival, cost = self.survival(healthy), self.control_cost(actions)
        forward = self.env._forward_reward_weight * along_x
        infos = self.where(rows, after) | {"x_velocity": along_x, "y_velocity": along_y}
        rewards = forward + survival
        if self.newest:
            least, most = self.env._contact_cost_range
            contact = self.env._contact_cost_weight * np.array(
                [np.sum(squares) for squares in np.square(forces)]
            )
            contact = np.clip(contact, least, most)
            infos |= {
                "tendon_length": self._tendons[0][rows].copy(),
                "tendon_velocity": self._tendons[1][rows].copy(),
                "reward_survive": survival, "reward_forward": forward,
                "reward_ctrl": -cost, "reward_contact": -contact,
            }  # fmt: skip
            rewards = rewards - (cost + contact)
        else:
            infos |= {
                "reward_linvel": forward, "reward_quadctrl": -cost,
                "reward_alive": survival, "forward_reward": forward,
            }  # fmt: skip
            rewards = rewards - cost
        return StepResults(self._observation(rows, forces), rewards, self.ended(healthy), infos)

    def _observation(self, rows: Rows, forces: Array) -> Array:
        skipped = 1 if self.newest else 0
        parts = [self.observed(rows, 2)]
        for name, values, first in (
            ("cinert", self._inertia[rows], skipped), ("cvel", self._velocity[rows], skipped),
            ("qfrc_actuator", self._actuators[rows], 6 * skipped), ("cfrc_ext", forces, skipped),
        ):  # fmt: skip
            if not self.newest or getattr(self.env, f"_include_{name}_in_observation"):
                parts.append(values[:, first:].reshape(len(values), -1))
        return np.concatenate(parts, axis=1)


TASKS: Mapping[str, type[MujocoTask]] = {
    "AntEnv": Ant,
    "HalfCheetahEnv": HalfCheetah,
    "HopperEnv": Hopper,
    "HumanoidEnv": Humanoid,
    "SwimmerEnv": Swimmer,
    "Walker2dEnv": Walker2d,
}
"""Tasks by the name of their class in `gymnasium.envs.mujoco`."""


def task_of(env: Any) -> type[MujocoTask] | None:
    """Returns the task of an environment without wrappers.

    Returns:
        `None` for an environment that is not one of Gymnasium's, versions 4 and 5, or a subclass
        that changes more than the arguments of its constructor.
    """
    for base in type(env).__mro__:
        home, _, version = base.__module__.rpartition("_")
        if home.startswith("gymnasium.envs.mujoco.") and version in ("v4", "v5"):
            same = keeps_methods(type(env), base, inherited=False)
            return TASKS.get(base.__name__) if same else None
    return None
