"""What lean variants of Stable-Baselines3's algorithms share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol

import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.preprocessing import is_image_space


class LeanSwitch(BaseAlgorithm):
    """An algorithm that computes by itself wherever it can, and says why where it cannot.

    Args:
        *args: As for the algorithm.
        lean: Whether to do so; `None` for wherever it is possible.
        **kwargs: As for the algorithm.

    Raises:
        ValueError: `lean` was asked for where it is not possible.
    """

    _lean_wanted: bool | None = None

    def __init__(self, *args: Any, lean: bool | None = None, **kwargs: Any) -> None:
        self._lean_wanted = lean
        super().__init__(*args, **kwargs)
        if lean and kwargs.get("_init_setup_model", True):
            reason = self.why_not_lean()
            if reason is not None:
                raise ValueError(f"lean: {reason}")

    @property
    def lean(self) -> bool:
        """Whether the algorithm computes by itself, not as Stable-Baselines3 does."""
        return self.why_not_lean() is None

    def why_not_lean(self) -> str | None:
        """Why the computation is left to Stable-Baselines3; `None` if it is not."""
        if self._lean_wanted is False:
            return "it was switched off"
        if self.use_sde:
            return "exploration depends on the state (use_sde)"
        return self._why_not_possible()

    @abstractmethod
    def _why_not_possible(self) -> str | None:
        """Which property of the policy, the spaces or the optimizer prevents it."""


class Updater(Protocol):
    """Computes updates of a policy."""

    def fits(self, algorithm: Any) -> bool:
        """Whether it was made for the algorithm's present policy and optimizers."""


class LeanOffPolicy(LeanSwitch, OffPolicyAlgorithm):
    """An off-policy algorithm that computes its updates itself wherever it can.

    Args:
        *args: As for the algorithm.
        lean: Whether to do so; `None` for wherever it is possible.
        **kwargs: As for the algorithm.

    Raises:
        ValueError: `lean` was asked for where it is not possible.
    """

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
        """Why no updater can be made for the policy; `None` if one can."""

    @abstractmethod
    def _make_updater(self) -> Updater:
        """Makes an updater for the policy, whose parameters become views of vectors."""

    def _lean_updater(self) -> Any:
        """The updater, made again when the policy was replaced; `None` off the lean path."""
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
    """Observations as vectors, shape (batch, size), float32."""
    return observations.reshape(len(observations), -1).float()


def discount_of(batch: Any, gamma: float) -> Any:
    """Discount of the values of next observations: that of each sample where it has one."""
    own = getattr(batch, "discounts", None)
    return gamma if own is None else own
