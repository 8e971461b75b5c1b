"""Base classes of faster variants of Stable-Baselines3's algorithms, called lean."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol

import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.preprocessing import is_image_space

from imitbench.util.library_patches import leave_compiler_unloaded


class LeanAlgorithm(BaseAlgorithm):
    """An algorithm with a faster implementation, the lean path, for supported policies and spaces.

    Args:
        *args: See the algorithm.
        lean: Whether to use the lean path; `None` to use it if possible.
        **kwargs: See the algorithm.

    Raises:
        ValueError: `lean` is `True` but not possible.
    """

    _lean_wanted: bool | None = None

    def __init__(self, *args: Any, lean: bool | None = None, **kwargs: Any) -> None:
        self._lean_wanted = lean
        leave_compiler_unloaded()
        super().__init__(*args, **kwargs)
        if lean and kwargs.get("_init_setup_model", True):
            reason = self.why_not_lean()
            if reason is not None:
                raise ValueError(f"lean: {reason}")

    @property
    def lean(self) -> bool:
        """Whether the lean path is used."""
        return self.why_not_lean() is None

    def why_not_lean(self) -> str | None:
        """Returns why the lean path is not used; `None` if it is."""
        if self._lean_wanted is False:
            return "it was switched off"
        if self.use_sde:
            return "exploration depends on the state (use_sde)"
        return self._why_not_possible()

    @abstractmethod
    def _why_not_possible(self) -> str | None:
        """Returns which property of policy, spaces or optimizer prevents the lean path."""


class Updater(Protocol):
    """Computes updates of a policy."""

    def fits(self, algorithm: Any) -> bool:
        """Whether it belongs to the algorithm's current policy and optimizers."""


class LeanOffPolicyAlgorithm(LeanAlgorithm, OffPolicyAlgorithm):
    """An off-policy algorithm with a faster implementation of its updates."""

    _updater: Updater | None = None

    def _why_not_possible(self) -> str | None:
        space = self.observation_space
        if not isinstance(space, spaces.Box) or is_image_space(space):
            return f"observations are {space}, not vectors"
        first = next(self.policy.parameters())
        if first.device.type != "cpu" or first.dtype != th.float32:
            return f"it computes in {first.dtype} on {first.device}, not in float32 on the CPU"
        return self._why_no_updater()

    @abstractmethod
    def _why_no_updater(self) -> str | None:
        """Returns why the policy has no updater; `None` if it has one."""

    @abstractmethod
    def _make_updater(self) -> Updater:
        """Creates an updater of the policy, whose parameters become views of vectors."""

    def _lean_updater(self) -> Any:
        """Returns the updater, a new one if the policy was replaced; `None` off the lean path."""
        if self._updater is None or not self._updater.fits(self):
            self._updater = self._make_updater() if self.lean else None
        return self._updater

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_updater"]

    def _record_update(self, gradient_steps: int, values: dict[str, float]) -> None:
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, value in values.items():
            self.logger.record(f"train/{name}", value)


def flat(observations: th.Tensor) -> th.Tensor:
    """Flattens observations to shape (batch, size), float32."""
    return observations.reshape(len(observations), -1).float()


def discount_of(batch: Any, gamma: float) -> Any:
    """Returns the discount of next values: the batch's own if it has one, else `gamma`."""
    own = getattr(batch, "discounts", None)
    return gamma if own is None else own
