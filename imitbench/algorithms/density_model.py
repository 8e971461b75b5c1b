"""Kernel density estimates of transitions: their rows, standardisation and time steps.

Source: Parzen 1962, "On Estimation of a Probability Density Function and Mode".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from imitbench.algorithms import base
from imitbench.algorithms.demonstration_fit import check_fit
from imitbench.data import types
from imitbench.data.observations import maybe_unwrap_dictobs
from imitbench.data.trajectories import first_step
from imitbench.util.extras import check_extra, import_extra
from imitbench.util.util import safe_to_numpy

Array = npt.NDArray[Any]

KERNELS = ("gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine")
"""Names of the kernels; all but gaussian are computed by scikit-learn."""

# Elements of the largest intermediate result: it fits into the cache (2 MiB).
_BLOCK = 2**18
_COLUMNS = 2**14
# Squared radius of the points, in bandwidths, up to which the product form of a distance errs by at
# most 1e-7 in the log-density: its error is about (d + 1) * 2**-53 times this.
_MAX_SQUARED_RADIUS = 1e7
# Below this exponent, results would be subnormal numbers, which are a hundred times slower.
_LEAST_EXPONENT = -700.0


def flatten_batch(space: gym.Space[Any], values: Any) -> Array:
    """Flattens a batch of elements of a space, each as `gymnasium.spaces.flatten` does.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict of these.
        values: Elements along the first axis; a dictionary of arrays for a Dict.

    Returns:
        Shape (n, `gymnasium.spaces.flatdim(space)`); choices are one-hot encoded.

    Raises:
        ValueError: The space is of another kind.
    """
    if isinstance(space, spaces.Dict):
        values = maybe_unwrap_dictobs(values)
        parts = [flatten_batch(part, values[key]) for key, part in space.spaces.items()]
        return np.concatenate(parts, axis=1)
    if not isinstance(
        space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    ):
        raise ValueError(f"space {space} cannot be flattened: {type(space).__name__}")
    array = safe_to_numpy(values)
    rows = array.reshape(len(array), -1)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return np.asarray(rows, dtype=space.dtype)
    if isinstance(space, spaces.Discrete):
        sizes, starts = np.array([space.n]), np.array([space.start])
    else:
        sizes, starts = space.nvec.ravel(), space.start.ravel()
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    hot = np.zeros((len(rows), int(sizes.sum())), dtype=space.dtype)
    np.put_along_axis(hot, rows.astype(np.int64) - starts + offsets, 1, axis=1)
    return hot


@dataclass(frozen=True)
class FeatureMaker:
    """Makes the rows that a density is estimated over.

    Attributes:
        observation_space: Space of one observation.
        action_space: Space of one action.
        use_action: Whether the action is part of a row.
        use_next: Whether the next observation is part of a row.
    """

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    use_action: bool
    use_next: bool

    def __call__(self, obs: Any, acts: Any, next_obs: Any) -> Array:
        """Makes rows of transitions.

        Args:
            obs: Observations, shape (n, *observation_shape), or a dictionary of them.
            acts: Actions, shape (n, *action_shape).
            next_obs: Next observations, like `obs`; ignored unless part of a row.

        Returns:
            Shape (n, d), float64.
        """
        parts = [flatten_batch(self.observation_space, obs)]
        if self.use_action:
            parts.append(flatten_batch(self.action_space, acts))
        if self.use_next:
            parts.append(flatten_batch(self.observation_space, next_obs))
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def of_demonstrations(self, demonstrations: base.AnyTransitions) -> tuple[Array, Array | None]:
        """Makes rows of demonstrations.

        Args:
            demonstrations: Trajectories, transitions, or a finite iterable of batches.

        Returns:
            Rows, shape (n, d), float64, and the time step of each within its trajectory, shape
            (n,), or `None` unless given as trajectories.

        Raises:
            TypeError: Demonstrations of another type.
            ValueError: Demonstrations are empty, not finite, of other shapes, or lack a field that
                is part of a row.
        """
        trajectories, given = base.split_kinds(demonstrations)
        times = None
        if trajectories is not None:
            times = np.concatenate(
                [first_step(trajectory) + np.arange(len(trajectory)) for trajectory in trajectories]
            )
        if isinstance(given, types.TransitionsMinimal):
            return self._of_batch(vars(given)), times
        return np.concatenate([self._of_batch(batch) for batch in given]), None

    def _of_batch(self, batch: Mapping[str, Any]) -> Array:
        wanted = ["obs", "acts"] + ["next_obs"] * self.use_next
        for name in wanted:
            if batch.get(name) is None:
                raise ValueError(f"demonstrations: {name} is missing; the density needs it")
        for name in wanted[::2]:
            check_fit(batch[name], batch["acts"], self.observation_space, self.action_space)
        return self(batch["obs"], batch["acts"], batch.get("next_obs"))


class GaussianDensity:
    """The mean of normal densities around points, computed exactly.

    Takes a matrix product and an exponential per pair of query and point. Pairs are processed in
    blocks, so memory does not grow with their number. In the dimensions of states and actions, a
    tree excludes too few points to pay off.

    Args:
        points: Shape (n, d), at least one.
        bandwidth: Standard deviation of the normal densities.
    """

    def __init__(self, points: Array, bandwidth: float) -> None:
        points = np.asarray(points, dtype=np.float64)
        count, dims = points.shape
        self._bandwidth = bandwidth
        # Shifting all points keeps distances but reduces their rounding errors.
        self._centre = points.mean(axis=0)
        scaled = (points - self._centre) / bandwidth
        self._log_normaliser = math.log(count) + dims * (
            0.5 * math.log(2 * math.pi) + math.log(bandwidth)
        )
        squares = np.einsum("ij,ij->i", scaled, scaled)
        self._by_product = float(squares.max(initial=0.0)) <= _MAX_SQUARED_RADIUS
        # -|x - y|² / 2 = (x, 1) · (y, -|y|² / 2) - |x|² / 2
        rows = np.concatenate([scaled, -0.5 * squares[:, None]], axis=1).T
        self._chunks = [
            np.ascontiguousarray(rows[:, start : start + _COLUMNS])
            for start in range(0, count, _COLUMNS)
        ]

    def log_density(self, queries: Array) -> Array:
        """Natural logarithm of the density.

        Args:
            queries: Points, shape (m, d).

        Returns:
            Shape (m,), float64; minus infinity where the density is zero.
        """
        scaled = (np.asarray(queries, dtype=np.float64) - self._centre) / self._bandwidth
        total = np.full(len(scaled), -np.inf)
        columns = self._chunks[0].shape[1]
        height = max(1, _BLOCK // columns)
        buffer = np.empty(min(height, len(scaled)) * columns)
        exponents = self._exponents_by_product if self._by_product else self._exponents
        for chunk in self._chunks:
            for start in range(0, len(scaled), height):
                rows = slice(start, start + height)
                part = scaled[rows]
                block = buffer[: len(part) * chunk.shape[1]].reshape(len(part), -1)
                exponents(part, chunk, block)
                total[rows] = np.logaddexp(total[rows], _log_sum_exp(block))
        if self._by_product:
            total -= 0.5 * np.einsum("ij,ij->i", scaled, scaled)
        return np.asarray(total - self._log_normaliser)

    def _exponents_by_product(self, queries: Array, chunk: Array, out: Array) -> None:
        """Exponents of all pairs, plus half the squared norm of the query."""
        ones = np.ones((len(queries), 1))
        inputs = th.from_numpy(np.concatenate([queries, ones], axis=1))
        th.mm(inputs, th.from_numpy(chunk), out=th.from_numpy(out))

    def _exponents(self, queries: Array, chunk: Array, out: Array) -> None:
        """Exponents of all pairs from differences: slower, but exact at any distance."""
        out.fill(0.0)
        for query, point in zip(queries.T, chunk[:-1], strict=True):
            difference = query[:, None] - point
            out -= np.multiply(difference, difference, out=difference)
        out *= 0.5


def _log_sum_exp(exponents: Array) -> Array:
    """Logarithm of the sum of the exponentials of each row; overwrites its argument.

    Each operation uses torch or NumPy, whichever is faster on one thread.
    """
    tensor = th.from_numpy(exponents)
    greatest = tensor.amax(dim=1, keepdim=True)
    tensor.sub_(greatest).clamp_(min=_LEAST_EXPONENT)
    np.exp(exponents, out=exponents)
    return np.asarray(np.log(tensor.sum(dim=1).numpy()) + greatest.numpy()[:, 0])


class SklearnDensity:
    """A density with one of scikit-learn's kernels.

    All points are in one leaf of its tree, so that it sums over all pairs. With more leaves it
    works with bounds, which loses all digits where the density is small.

    Args:
        points: Shape (n, d), at least one.
        kernel: One of `KERNELS`.
        bandwidth: Width of the kernel.
    """

    def __init__(self, points: Array, kernel: str, bandwidth: float) -> None:
        # Imported here because it takes a second and most uses do not need it.
        neighbors = import_extra("sklearn.neighbors", "density", f"kernel={kernel!r}")
        self._estimator = neighbors.KernelDensity(
            kernel=kernel, bandwidth=bandwidth, atol=0.0, rtol=0.0, leaf_size=len(points)
        ).fit(np.asarray(points, dtype=np.float64))

    def log_density(self, queries: Array) -> Array:
        """Natural logarithm of the density; see `GaussianDensity`."""
        return np.asarray(self._estimator.score_samples(np.asarray(queries, dtype=np.float64)))


def check_kernel(kernel: str, bandwidth: float) -> None:
    """Checks the arguments of a kernel.

    Raises:
        ValueError: The kernel is unknown, or the bandwidth is not positive and finite.
        InputError: The kernel needs scikit-learn, which is not installed.
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, not {kernel!r}")
    if not (isinstance(bandwidth, int | float) and 0 < bandwidth < math.inf):
        raise ValueError(f"kernel_bandwidth must be positive and finite, not {bandwidth!r}")
    if kernel != "gaussian":
        check_extra("density", f"kernel={kernel!r}")


def fit_density(points: Array, kernel: str, bandwidth: float) -> GaussianDensity | SklearnDensity:
    """Estimates a density from points.

    Args:
        points: Shape (n, d), at least one.
        kernel: One of `KERNELS`.
        bandwidth: Width of the kernel.
    """
    if kernel == "gaussian":
        return GaussianDensity(points, bandwidth)
    return SklearnDensity(points, kernel, bandwidth)


class Standardiser:
    """Shifts and scales each column to mean zero and variance one over given rows.

    Columns that are constant up to rounding are only shifted.

    Args:
        rows: Shape (n, d).
        enabled: Whether to transform; otherwise rows stay unchanged.
    """

    def __init__(self, rows: Array, enabled: bool = True) -> None:
        rows = np.asarray(rows, dtype=np.float64)
        self._mean = rows.mean(axis=0) if enabled else np.zeros(rows.shape[1])
        self._scale = np.ones(rows.shape[1])
        if enabled:
            variance = rows.var(axis=0)
            # The variance that rounding gives to a constant column.
            epsilon, count = np.finfo(np.float64).eps, len(rows)
            noise = count * epsilon * variance + (count * self._mean * epsilon) ** 2
            varies = variance > noise
            self._scale[varies] = np.sqrt(variance[varies])

    def __call__(self, rows: Array) -> Array:
        """Transforms rows, shape (m, d); the result is float64."""
        return np.asarray((rows - self._mean) / self._scale, dtype=np.float64)


class TimedDensity:
    """One density per time step, or a single one for all, over standardised rows.

    Args:
        rows_by_time: Rows of each time step, shape (n, d); a single entry `None` stands for all
            steps.
        kernel: One of `KERNELS`.
        bandwidth: Width of the kernel.
        standardise: Whether rows are standardised, by those of all time steps together.
    """

    def __init__(
        self,
        rows_by_time: Mapping[int | None, Array],
        kernel: str,
        bandwidth: float,
        standardise: bool,
    ) -> None:
        self._standardise = Standardiser(np.concatenate(list(rows_by_time.values())), standardise)
        self._models = {
            time: fit_density(self._standardise(rows), kernel, bandwidth)
            for time, rows in rows_by_time.items()
        }

    def log_density(self, rows: Array, steps: Array | None) -> Array:
        """Natural logarithm of the density.

        Args:
            rows: Shape (m, d).
            steps: Time step of each row, shape (m,); ignored by a single density for all steps.

        Returns:
            Shape (m,), float64.

        Raises:
            ValueError: `steps` are missing, of another shape, or beyond the known ones.
        """
        rows = self._standardise(rows)
        if None in self._models:
            return self._models[None].log_density(rows)
        if steps is None:
            raise ValueError("steps: required, because the density is not stationary")
        steps = np.asarray(steps)
        if steps.shape != (len(rows),):
            raise ValueError(f"steps has shape {steps.shape}; it needs ({len(rows)},)")
        result = np.empty(len(rows))
        for time in np.unique(steps).tolist():
            if time not in self._models:
                raise ValueError(
                    f"steps: time {time} is beyond the demonstrations, which have "
                    f"{len(self._models)} steps"
                )
            at_time = steps == time
            result[at_time] = self._models[time].log_density(rows[at_time])
        return result


class EpisodeClock(VecEnvWrapper):
    """Gives the time step of transitions of which only the ends of episodes are known.

    Args:
        venv: Environment; its resets restart the clock.

    Attributes:
        steps: Steps of the running episodes that `advance` has counted, shape (n_envs,).
    """

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self.steps: npt.NDArray[np.int64] = np.zeros(self.num_envs, dtype=np.int64)

    def reset(self) -> VecEnvObs:
        """Resets the environments."""
        self.steps[:] = 0
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Finishes a step; `advance` counts it."""
        return self.venv.step_wait()

    def advance(self, dones: Array) -> npt.NDArray[np.int64]:
        """Counts transitions.

        Args:
            dones: Whether the episode ended, shape (steps * n_envs,): entry `t * n_envs + i` is of
                environment `i`.

        Returns:
            Time step of each transition within its episode, from 0, in the same order.
        """
        ends = np.asarray(dones, dtype=bool).reshape(-1, self.num_envs)
        # Counted from the last end before, or from the clock's state.
        rows = np.arange(len(ends))[:, None]
        start = np.full((len(ends) + 1, self.num_envs), -1, dtype=np.int64)
        start[1:][ends] = np.broadcast_to(rows + 1, ends.shape)[ends]
        start = np.maximum.accumulate(start, axis=0)
        begun = start >= 0
        rows = np.arange(len(ends) + 1)[:, None]
        times = np.where(begun, rows - start, rows + self.steps)
        self.steps[:] = times[-1]
        return np.asarray(times[:-1].reshape(-1), dtype=np.int64)
