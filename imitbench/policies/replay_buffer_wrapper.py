"""Replay buffers whose rewards are computed by a reward function on sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from stable_baselines3.common.buffers import BaseBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from imitbench.data.types import map_maybe_dict, read_only
from imitbench.util.actions import unscale_actions

Array = npt.NDArray[Any]
Observations = Array | dict[str, Array]
Rows = TypeVar("Rows", Array, dict[str, Array])
RewardFn = Callable[[Any, Any, Any, Any], Array]
"""`(obs, acts, next_obs, dones) -> rewards` of a batch, as NumPy arrays."""


class ReplayBufferRewardWrapper(ReplayBuffer):
    """A replay buffer that relabels the rewards of samples.

    Stored rewards are kept in the buffer but never sampled. The reward function gets unnormalized
    observations, even if samples are normalized; actions as executed, although off-policy
    algorithms store those of a box scaled to [-1, 1]; both in the shape of their spaces; and
    `dones` that are `False` at time limits.

    Args:
        buffer_size: Capacity in transitions, over all environments.
        observation_space: That of the environment.
        action_space: That of the environment.
        replay_buffer_class: Class of the buffer that holds the transitions.
        reward_fn: Returns rewards of a batch, shape (batch,).
        **kwargs: Further arguments of `replay_buffer_class`.

    Raises:
        ValueError: The class sums rewards over several steps, which cannot be relabelled.
    """

    replay_buffer: ReplayBuffer

    def __init__(
        self,
        buffer_size: int,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        *,
        replay_buffer_class: type[ReplayBuffer],
        reward_fn: RewardFn,
        **kwargs: Any,
    ) -> None:
        if issubclass(replay_buffer_class, NStepReplayBuffer):
            raise ValueError(
                "replay_buffer_class: NStepReplayBuffer sums rewards over several steps, so "
                "single transitions cannot be relabeled; use ReplayBuffer"
            )
        self.replay_buffer = replay_buffer_class(
            buffer_size, observation_space, action_space, **kwargs
        )
        self.reward_fn = reward_fn
        # Skips ReplayBuffer's constructor, which would allocate all arrays a second time.
        BaseBuffer.__init__(
            self,
            self.replay_buffer.buffer_size,
            observation_space,
            action_space,
            self.replay_buffer.device,
            self.replay_buffer.n_envs,
        )

    # The position is that of the wrapped buffer. The constructors, and `reset`, set it to zero.
    @property
    def pos(self) -> int:
        """Index of the next transition to write."""
        return self.replay_buffer.pos

    @pos.setter
    def pos(self, value: int) -> None:
        self.replay_buffer.pos = value

    @property
    def full(self) -> bool:
        """Whether old transitions are being replaced."""
        return self.replay_buffer.full

    @full.setter
    def full(self, value: bool) -> None:
        self.replay_buffer.full = value

    def __getattr__(self, name: str) -> Any:
        # Called for attributes that are not set here: arrays, and methods of some buffer classes.
        if name == "replay_buffer":  # not set yet during copying
            raise AttributeError(name)
        return getattr(self.replay_buffer, name)

    def add(self, *args: Any, **kwargs: Any) -> None:
        """Adds a step of each environment; arguments as for the wrapped buffer."""
        self.replay_buffer.add(*args, **kwargs)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Samples transitions.

        Args:
            batch_size: Number of transitions.
            env: Normalizes observations, if given.

        Returns:
            Samples of the wrapped buffer, with rewards of the reward function, shape (batch, 1),
            float32.
        """
        return self._relabel(self.replay_buffer.sample(batch_size), env)

    def _get_samples(self, batch_inds: Array, env: VecNormalize | None = None) -> Any:
        return self._relabel(self.replay_buffer._get_samples(batch_inds), env)

    def _relabel(
        self, samples: ReplayBufferSamples | DictReplayBufferSamples, env: VecNormalize | None
    ) -> Any:
        rewards = np.asarray(self.reward_fn(*_reward_inputs(samples, self)))
        size = samples.rewards.shape[0]
        if rewards.shape != (size,):
            raise ValueError(
                f"reward_fn: must return an array of shape ({size},), not {rewards.shape}"
            )
        samples = samples._replace(
            rewards=th.as_tensor(rewards, dtype=th.float32, device=self.device).reshape(-1, 1)
        )
        if env is None:
            return samples
        return samples._replace(
            observations=self._normalized(samples.observations, env),
            next_observations=self._normalized(samples.next_observations, env),
        )

    def _normalized(self, observations: Any, env: VecNormalize) -> Any:
        return map_maybe_dict(self.to_torch, env.normalize_obs(_to_numpy(observations)))


class ReplayBufferView:
    """A read-only view of the current content of a replay buffer, without copying.

    Args:
        buffer: Buffer to view; transitions added later are visible.
    """

    def __init__(self, buffer: ReplayBuffer) -> None:
        self._buffer = buffer

    def __len__(self) -> int:
        """Number of transitions, over all environments."""
        return int(self._buffer.size() * self._buffer.n_envs)

    @property
    def observations(self) -> Observations:
        """Shape (steps, n_envs, …), in no particular order once the buffer is full."""
        return self._filled(self._buffer.observations)

    @property
    def next_observations(self) -> Observations:
        """Same shape as `observations`; not available if the buffer optimizes memory usage."""
        return self._filled(self._buffer.next_observations)

    @property
    def actions(self) -> Array:
        """Shape (steps, n_envs, action size)."""
        return self._filled(self._buffer.actions)

    @property
    def rewards(self) -> Array:
        """Stored rewards, not relabelled, shape (steps, n_envs)."""
        return self._filled(self._buffer.rewards)

    @property
    def dones(self) -> Array:
        """Whether an episode ended, for any reason, shape (steps, n_envs)."""
        return self._filled(self._buffer.dones)

    def _filled(self, rows: Rows) -> Rows:
        arrays: Any = rows
        size = self._buffer.size()
        filled: Rows = map_maybe_dict(lambda array: read_only(array[:size]), arrays)
        return filled


def _reward_inputs(
    samples: ReplayBufferSamples | DictReplayBufferSamples, buffer: BaseBuffer
) -> tuple[Observations, Array, Observations, Array]:
    return (
        _in_space(samples.observations, buffer.observation_space),
        unscale_actions(_in_space(samples.actions, buffer.action_space), buffer.action_space),
        _in_space(samples.next_observations, buffer.observation_space),
        samples.dones.cpu().numpy().reshape(-1).astype(bool),
    )


def _in_space(value: Any, space: gym.Space[Any]) -> Any:
    """Converts to NumPy in the shape of the space; buffers store numbers as rows."""
    array = _to_numpy(value)
    if isinstance(array, dict):
        return array
    return array.reshape(-1, *(space.shape or ()))


def _to_numpy(value: Any) -> Any:
    return map_maybe_dict(lambda tensor: tensor.cpu().numpy(), value)
