"""The replay buffer of SQIL: half of each batch comes from the expert."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from imitbench.algorithms import base
from imitbench.algorithms.demonstration_fit import check_action_space
from imitbench.algorithms.expert_transitions import expert_transitions
from imitbench.util.actions import scale_actions

Array = npt.NDArray[Any]


class SQILReplayBuffer(ReplayBuffer):
    """A replay buffer: half of each batch from the learner (reward 0), half from the expert (1).

    In a batch of odd size the expert has one more. The learner's transitions come first.

    Values are bootstrapped where a time limit truncated an episode, for learner and expert.
    Otherwise the last steps of a task without an end would get low values. A demonstration counts
    as truncated if its last info has `TimeLimit.truncated`, or if it is a trajectory as long as the
    environment's time limit.

    Args:
        buffer_size: Capacity for the learner's transitions.
        observation_space: Space of one observation; not a `Dict`.
        action_space: Space of one action.
        demonstrations: Demonstrations; `None` to set them later.
        device: Device of the samples.
        n_envs: Number of the learner's environments.
        optimize_memory_usage: Must be `False`.
        time_limit: Maximum episode length in steps, if there is one.

    Attributes:
        expert_buffer: The demonstrations; `None` before they are set.

    Raises:
        ValueError: Demonstrations do not fit, observations are dictionaries, or
            `optimize_memory_usage` is set.
    """

    expert_buffer: ReplayBuffer | None = None

    def __init__(
        self,
        buffer_size: int,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        demonstrations: base.AnyTransitions | None,
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        time_limit: int | None = None,
    ) -> None:
        if isinstance(observation_space, spaces.Dict):
            raise ValueError("observation_space: dictionaries of observations are not supported")
        if optimize_memory_usage:
            raise ValueError("optimize_memory_usage must be False, to store truncations")
        super().__init__(buffer_size, observation_space, action_space, device, n_envs)
        self.time_limit = time_limit
        if demonstrations is not None:
            self.set_demonstrations(demonstrations)

    def set_demonstrations(self, demonstrations: base.AnyTransitions) -> None:
        """Replaces the demonstrations.

        Actions in a box are clipped to its bounds and scaled to [-1, 1], as
        Stable-Baselines3 stores the learner's.

        Args:
            demonstrations: Trajectories, transitions with next observations, or a finite
                iterable of batches of them.

        Raises:
            ValueError: Demonstrations are empty, not finite, of other shapes, or lack a field.
        """
        check_action_space(self.action_space)
        fields = expert_transitions(
            demonstrations, self.observation_space, self.action_space, self.time_limit
        )
        count = len(fields["acts"])
        expert = ReplayBuffer(count, self.observation_space, self.action_space, self.device)
        shape = (count, *self.obs_shape)  # (1,) for discrete observations
        expert.observations[:, 0] = fields["obs"].reshape(shape)
        expert.next_observations[:, 0] = fields["next_obs"].reshape(shape)
        acts = scale_actions(fields["acts"], self.action_space)
        expert.actions[:, 0] = acts.reshape(count, self.action_dim)
        expert.dones[:, 0] = fields["dones"]
        expert.timeouts[:, 0] = fields["timeouts"]
        expert.rewards.fill(1.0)
        expert.full = True
        self.expert_buffer = expert

    def add(
        self,
        obs: Array,
        next_obs: Array,
        action: Array,
        reward: Array,
        done: Array,
        infos: list[dict[str, Any]],
    ) -> None:
        """Adds one transition of the learner per environment, with reward 0.

        Args:
            obs: Shape (n_envs, *observation_shape).
            next_obs: Shape (n_envs, *observation_shape).
            action: Shape (n_envs, *action_shape).
            reward: Ignored.
            done: Whether episodes ended, shape (n_envs,).
            infos: `TimeLimit.truncated` marks truncated episodes.
        """
        super().add(obs, next_obs, action, np.zeros(self.n_envs, np.float32), done, infos)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        """Draws a batch, with replacement.

        Args:
            batch_size: Transitions of learner and expert together.
            env: Normalizes observations; `None` for no normalization.

        Raises:
            ValueError: There are no demonstrations.
        """
        expert = self.expert_buffer
        if expert is None:
            raise ValueError("no demonstrations; call set_demonstrations() first")
        share = batch_size // 2
        # From NumPy's global generator, as in the base class.
        own = np.random.randint(0, self.size() * self.n_envs, size=share)  # noqa: NPY002
        theirs = np.random.randint(0, expert.buffer_size, size=batch_size - share)  # noqa: NPY002

        def both(name: str) -> Array:
            return np.concatenate(
                [_rows(getattr(self, name), own), _rows(getattr(expert, name), theirs)]
            )

        rewards = np.zeros((batch_size, 1), np.float32)
        rewards[share:] = 1.0
        arrays = {
            "observations": self._normalize_obs(both("observations"), env),
            "actions": both("actions"),
            "next_observations": self._normalize_obs(both("next_observations"), env),
            "dones": (both("dones") * (1 - both("timeouts"))).reshape(-1, 1),
            "rewards": rewards,
        }
        return ReplayBufferSamples(
            **{name: th.as_tensor(array, device=self.device) for name, array in arrays.items()}
        )


def _rows(array: Array, index: Array) -> Array:
    """Transitions of an array of shape (steps, n_envs, …); number `t * n_envs + i` is (t, i)."""
    return array.reshape(-1, *array.shape[2:]).take(index, axis=0)
