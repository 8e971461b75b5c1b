"""Divides environment steps between sampling for comparisons and training the agent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SamplingCost:
    """Upper bound of the steps of sampling.

    Attributes:
        n_envs: Number of parallel environments.
        episode_length: Maximum episode length, in steps.
        exploration_frac: Share of transitions with additional random actions.
    """

    n_envs: int
    episode_length: int
    exploration_frac: float

    def most_steps(self, transitions: int, trained: int) -> int:
        """Returns the maximum number of environment steps of sampling.

        Args:
            transitions: Transitions to sample.
            trained: Steps of training since the last sampling, whose episodes are used first.
        """
        exploratory = int(self.exploration_frac * transitions)
        finished = max(0, trained - self.n_envs * self.episode_length)
        missing = max(0, transitions - exploratory - finished)
        return self._whole_episodes(exploratory) + self._whole_episodes(missing)

    def _whole_episodes(self, transitions: int) -> int:
        """Rounds up, because every environment finishes its episode."""
        round_of_episodes = self.n_envs * self.episode_length
        return math.ceil(transitions / round_of_episodes) * round_of_episodes


def agent_steps(
    total: int, transitions: Sequence[int], rollout: int, sampling: SamplingCost
) -> int | None:
    """Returns the steps of training per round that are possible in any case.

    Args:
        total: Environment steps of all rounds.
        transitions: Transitions to sample in each round.
        rollout: Steps of one rollout of the agent.
        sampling: Bound of the steps of sampling.

    Returns:
        The maximum, a multiple of `rollout`; `None` if not one rollout per round fits.
    """
    for rollouts in range(total // (len(transitions) * rollout), 0, -1):
        share = rollouts * rollout
        spent = sum(
            share + sampling.most_steps(number, share if index else 0)
            for index, number in enumerate(transitions)
        )
        if spent <= total:
            return share
    return None
