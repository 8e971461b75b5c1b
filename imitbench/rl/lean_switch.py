"""The choice between this library's computation and Stable-Baselines3's own."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm


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
        """What about the policy, the spaces or the optimizer stands in the way."""
