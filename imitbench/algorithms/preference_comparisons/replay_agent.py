"""An agent with a replay buffer as the source of trajectories: PEBBLE's.

`PreferenceComparisons` with this agent, an ensemble and `ActiveSelectionFragmenter` is PEBBLE (Lee,
Smith and Abbeel 2021, arXiv:2106.05091).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from imitbench.algorithms.off_policy.rewarded import RewardedTrainer
from imitbench.algorithms.preference_comparisons.trajectory_generators import TrajectoryGenerator
from imitbench.data.trajectories import trajectory_from_state, trajectory_state
from imitbench.data.types import TrajectoryWithRew
from imitbench.data.wrappers import BufferingWrapper
from imitbench.util import logger as imit_logger


class ReplayAgent(TrajectoryGenerator):
    """Trains an off-policy agent, and gives the latest episodes of its training.

    Sampling takes no environment steps of its own: the episodes are those that the agent was
    trained on.

    Args:
        trainer: The agent, whose environments are `buffering`.
        buffering: Records the episodes with their true rewards.
        recent: Number of latest episodes that are sampled from.
        custom_logger: Where to log; a new logger when `None`.

    Raises:
        ValueError: `recent` is not positive.
    """

    def __init__(
        self,
        trainer: RewardedTrainer,
        buffering: BufferingWrapper,
        recent: int = 100,
        custom_logger: imit_logger.HierarchicalLogger | None = None,
    ) -> None:
        super().__init__(custom_logger)
        if recent < 1:
            raise ValueError(f"recent must be at least 1, not {recent}")
        self.trainer = trainer
        self._buffering = buffering
        self._episodes: deque[TrajectoryWithRew] = deque(maxlen=recent)

    def pretrain(self, steps: int) -> None:
        """Explores without a reward function: first at random, then for novelty.

        Args:
            steps: Environment steps.
        """
        self.trainer.train_seeds(steps)

    def sample(self, steps: int) -> Sequence[TrajectoryWithRew]:
        """Returns the latest episodes of the training, oldest first.

        Args:
            steps: Not used; fragments may overlap.

        Raises:
            RuntimeError: No episode has ended yet.
        """
        del steps
        self._collect()
        if not self._episodes:
            raise RuntimeError("no episode has ended yet; train for more steps first")
        return list(self._episodes)

    def train(self, steps: int, **kwargs: Any) -> None:
        """Computes the rewards of the replay buffer anew, and trains the agent on them."""
        del kwargs
        if self.trainer.began:
            self.trainer.relabel()
        else:
            self.trainer.begin()
        for name, value in self.trainer.train_seeds(steps)[0].items():
            self.logger.record(name, value)
        self._collect()

    def _collect(self) -> None:
        self._episodes.extend(self._buffering.pop_finished_trajectories()[0])

    def state_dict(self) -> dict[str, Any]:
        """State of the agent with its replay buffer, and the latest episodes without infos.

        Excludes the state of the environments and of the reward function.
        """
        return {
            "trainer": self.trainer.state_dict(),
            "buffering": self._buffering.state_dict(),
            "episodes": [trajectory_state(each) for each in self._episodes],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.trainer.load_state_dict(state["trainer"])
        self._buffering.load_state_dict(state["buffering"])
        self._episodes.clear()
        self._episodes.extend(trajectory_from_state(each) for each in state["episodes"])
