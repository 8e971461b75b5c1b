"""The reward of density-based reward modeling: the logarithm of a kernel density."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.rewards.base import RewardNet, encoded_size
from imitbench.util.kernel_density import (
    GaussianDensity,
    SklearnDensity,
    check_kernel,
    fit_density,
)

Array = npt.NDArray[Any]


class DensityRewardNet(RewardNet):
    """The natural logarithm of a kernel density of transitions.

    It keeps every point of the estimate, one for each demonstrated step, with 8 bytes for each
    entry of an observation, and of an action or the next observation: 1.8 MB for 10,000 steps with
    17 and 6 entries.

    Args:
        observation_space: As for `RewardNet`; images are not scaled.
        action_space: As for `RewardNet`.
        kernel: One of `imitbench.util.kernel_density.KERNELS`.
        bandwidth: Width of the kernel.
        n_points: Number of points.
        use_action: Whether the density is over the action, too.
        use_next_state: Whether the density is over the next observation, too.

    Attributes:
        points: Points of the estimate, standardized, shape (n_points, d), float64.
        mean: What is subtracted from each entry before, shape (d,), float64.
        scale: What each entry is then divided by, shape (d,), float64.

    Raises:
        ValueError: A space is of another type, the kernel is unknown, or the bandwidth is not
            positive and finite.
        InputError: The kernel needs scikit-learn, which is not installed.
    """

    points: th.Tensor
    mean: th.Tensor
    scale: th.Tensor

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        *,
        kernel: str,
        bandwidth: float,
        n_points: int,
        use_action: bool,
        use_next_state: bool,
    ) -> None:
        super().__init__(observation_space, action_space, normalize_images=False)
        check_kernel(kernel, bandwidth)
        self.kernel, self.bandwidth, self.n_points = kernel, bandwidth, n_points
        self.use_action, self.use_next_state = use_action, use_next_state
        size = encoded_size(observation_space, "observation_space") * (1 + use_next_state)
        size += encoded_size(action_space, "action_space") * use_action
        self.register_buffer("points", th.zeros(n_points, size, dtype=th.float64))
        self.register_buffer("mean", th.zeros(size, dtype=th.float64))
        self.register_buffer("scale", th.ones(size, dtype=th.float64))
        self._fitted: tuple[th.Tensor, GaussianDensity | SklearnDensity] | None = None

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Computes rewards of preprocessed transitions, without gradients.

        Returns:
            Shape (n,), float32; minus infinity where the density is zero.
        """
        del done
        parts = [state.flatten(1)]
        if self.use_action:
            parts.append(action.flatten(1))
        if self.use_next_state:
            parts.append(next_state.flatten(1))
        rows = (th.cat(parts, dim=1) - self.mean) / self.scale
        found = self._log_density(rows.detach().cpu().numpy())
        return th.from_numpy(found).to(rows.device, th.float32)

    def _log_density(self, rows: Array) -> Array:
        """The density of rows, shape (n, d), of which those that are repeated are asked for once.

        A canonical form (EPIC) takes one observation with hundreds of actions and next ones, which
        a density of states does not see.
        """
        new = np.ones(len(rows), bool)
        new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
        few = 2 * new.sum() < len(rows)
        found: Array = self._density().log_density(rows[new] if few else rows)
        return found[np.cumsum(new) - 1] if few else found

    def _density(self) -> GaussianDensity | SklearnDensity:
        """The estimate from the points as they are now."""
        if self._fitted is None or self._fitted[0] is not self.points:
            fitted = fit_density(self.points.cpu().numpy(), self.kernel, self.bandwidth)
            self._fitted = self.points, fitted
        return self._fitted[1]

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same network, without its points."""
        names = ("kernel", "bandwidth", "n_points", "use_action", "use_next_state")
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            **{name: getattr(self, name) for name in names},
        }
