"""The log of learnt returns where rewards are relabelled a rollout at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from imitbench.rl.ppo import PPO, Rollout


class LearntReturns(BaseCallback):
    """Adds up the rewards that the lean PPO trains on, and logs the mean return of episodes.

    It does for `imitbench.rl.ppo.PPO.reward_fn` what the callback of
    `imitbench.rewards.reward_wrapper.RewardVecEnvWrapper` does for wrapped environments:
    `rollout/ep_rew_wrapped_mean` is logged at the end of each rollout.

    Args:
        n_envs: Number of environments.
        ep_history: How many episodes the mean is over, the newest.

    Attributes:
        episode_rewards: Learnt returns of those episodes.
        returns: Learnt rewards of the running episodes so far, shape (n_envs,), float64.
        steps: Their steps so far, shape (n_envs,), int64.
    """

    def __init__(self, n_envs: int, ep_history: int = 100) -> None:
        super().__init__()
        self.episode_rewards: deque[float] = deque(maxlen=ep_history)
        self.returns = np.zeros(n_envs, dtype=np.float64)
        self.steps = np.zeros(n_envs, dtype=np.int64)

    def restart(self) -> None:
        """Forgets the running episodes, for they were broken off."""
        self.returns[:] = 0.0
        self.steps[:] = 0

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        assert isinstance(self.model, PPO), "this callback belongs to the lean PPO"
        rollout = self.model.last_rollout
        assert rollout is not None, "the lean PPO leaves its rollout before this call"
        self._follow(rollout)
        self._log()

    def _follow(self, rollout: Rollout) -> list[int]:
        """Follows the episodes through a rollout.

        Returns:
            Lengths of the episodes that ended in it, in order.
        """
        lengths: list[int] = []
        before = 0
        for end in (np.flatnonzero(rollout.dones.any(axis=1)) + 1).tolist():
            self._advance(rollout, before, end)
            over = rollout.dones[end - 1]
            lengths += self.steps[over].tolist()
            self.episode_rewards.extend(self.returns[over].tolist())
            self.steps[over] = 0
            self.returns[over] = 0.0
            before = end
        self._advance(rollout, before, len(rollout.dones))
        return lengths

    def _advance(self, rollout: Rollout, start: int, end: int) -> None:
        self.steps += end - start
        self.returns += rollout.rews[start:end].sum(axis=0, dtype=np.float64)

    def _log(self) -> None:
        if self.episode_rewards:
            mean = sum(self.episode_rewards) / len(self.episode_rewards)
            self.logger.record("rollout/ep_rew_wrapped_mean", mean)

    def state_dict(self) -> dict[str, Any]:
        """Where the running episodes stand, and the history of returns."""
        return {
            "steps": self.steps.copy(),
            "returns": self.returns.copy(),
            "episode_rewards": list(self.episode_rewards),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        self.steps[:] = state["steps"]
        self.returns[:] = state["returns"]
        self.episode_rewards.clear()
        self.episode_rewards.extend(state["episode_rewards"])
