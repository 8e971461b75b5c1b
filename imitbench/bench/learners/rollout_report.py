"""Reports and checkpoints between two rollouts of an algorithm of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable

from stable_baselines3.common.callbacks import BaseCallback

from imitbench.bench.learner import Callback, Checkpoint


class RolloutReport(BaseCallback):
    """Records points of the curve, and offers checkpoints between rollouts.

    Args:
        measure: Returns metrics since the last point.
        every: Environment steps between two points.
        callback: Records a point.
        checkpoint: Offers a checkpoint.
    """

    def __init__(
        self,
        measure: Callable[[], dict[str, float]],
        every: int,
        callback: Callback,
        checkpoint: Checkpoint,
    ) -> None:
        super().__init__()
        self._measure = measure
        self._every = every
        self._record = callback
        self._offer = checkpoint

    def _on_training_start(self) -> None:
        self._before = self.num_timesteps

    def _on_rollout_start(self) -> None:
        # Between an update and the next steps, the state is complete.
        if self.num_timesteps // self._every > self._before // self._every:
            self.point()
            self._before = self.num_timesteps
            self._offer()

    def _on_step(self) -> bool:
        return True

    def point(self) -> None:
        """Records metrics since the last point."""
        self._record(self.num_timesteps, self._measure())
