"""Kernel density estimates, computed exactly.

Source: Parzen 1962, "On Estimation of a Probability Density Function and Mode".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.util.extras import check_extra, import_extra

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

    Attributes:
        mean: What is subtracted from each column, shape (d,), float64.
        scale: What each column is then divided by, shape (d,), float64.
    """

    def __init__(self, rows: Array, enabled: bool = True) -> None:
        rows = np.asarray(rows, dtype=np.float64)
        self.mean = rows.mean(axis=0) if enabled else np.zeros(rows.shape[1])
        self.scale = np.ones(rows.shape[1])
        if enabled:
            variance = rows.var(axis=0)
            # The variance that rounding gives to a constant column.
            epsilon, count = np.finfo(np.float64).eps, len(rows)
            noise = count * epsilon * variance + (count * self.mean * epsilon) ** 2
            varies = variance > noise
            self.scale[varies] = np.sqrt(variance[varies])

    def __call__(self, rows: Array) -> Array:
        """Transforms rows, shape (m, d); the result is float64."""
        return np.asarray((rows - self.mean) / self.scale, dtype=np.float64)
