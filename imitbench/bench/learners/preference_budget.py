"""How environment steps are shared between sampling for comparisons and training the agent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sampling:
    """What sampling costs at most.

    Attributes:
        n_envs: Environments stepped together.
        episode_length: Steps of an episode, the longest where they differ.
        exploration_frac: Share of the transitions that is sampled with random actions mixed in.
    """

    n_envs: int
    episode_length: int
    exploration_frac: float

    def most_steps(self, transitions: int, trained: int) -> int:
        """Environment steps that sampling takes at most.

        Args:
            transitions: Transitions to sample.
            trained: Steps of the agent's training since the last sampling, whose finished
                episodes are used first.
        """
        exploratory = int(self.exploration_frac * transitions)
        finished = max(0, trained - self.n_envs * self.episode_length)
        missing = max(0, transitions - exploratory - finished)
        return self._whole_episodes(exploratory) + self._whole_episodes(missing)

    def _whole_episodes(self, transitions: int) -> int:
        """Every environment finishes its episode."""
        round_of_episodes = self.n_envs * self.episode_length
        return math.ceil(transitions / round_of_episodes) * round_of_episodes


def share_of_agent(
    total: int, transitions: Sequence[int], rollout: int, sampling: Sampling
) -> int | None:
    """Steps that the agent can train for in each round, whatever sampling takes.

    Args:
        total: Environment steps in all.
        transitions: Transitions to sample in each round.
        rollout: Steps that the agent trains for at once.
        sampling: What sampling costs.

    Returns:
        The most, a multiple of `rollout`; `None` if not even one rollout a round fits.
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
