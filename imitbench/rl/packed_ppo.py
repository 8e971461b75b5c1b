"""Proximal policy optimization of several seeds in one process, as one batched network.

A seed has its own `PPO`, which keeps its policy, optimizer, buffer and settings between rollouts.
Here all seeds act, and are updated, in the same operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from imitbench.rl.packed_update import PackedUpdater
from imitbench.rl.ppo import PPO
from imitbench.rl.ppo_update import Samples
from imitbench.rl.rollout import Rollout, RolloutRecorder
from imitbench.rl.stacked_actor_critic import StackedActorCritic, make_stacked_head
from imitbench.util.networks import RunningNorm

Array = npt.NDArray[Any]


class OwnGenerators:
    """The global generators of torch and NumPy as one seed would have them alone.

    They begin as copies of the global ones.

    Attributes:
        torch: Draws what torch's global generator would.
        numpy: Draws what NumPy's global generator would.
    """

    def __init__(self) -> None:
        self.torch = th.Generator()
        self.numpy = np.random.RandomState()
        self._take()

    def _take(self) -> None:
        self.torch.set_state(th.get_rng_state())
        self.numpy.set_state(np.random.get_state(legacy=False))  # noqa: NPY002

    def _give(self) -> None:
        th.set_rng_state(self.torch.get_state())
        np.random.set_state(self.numpy.get_state(legacy=False))  # noqa: NPY002

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Context in which the global generators are those of the seed."""
        outside = OwnGenerators()
        self._give()
        try:
            yield
        finally:
            self._take()
            outside._give()

    def state_dict(self) -> dict[str, Any]:
        """Returns their states."""
        return {"torch": self.torch.get_state(), "numpy": self.numpy.get_state(legacy=False)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.torch.set_state(state["torch"])
        self.numpy.set_state(state["numpy"])


def why_not_packed(ppo: PPO) -> str | None:
    """Returns why PPO cannot be trained together with others; `None` if it can."""
    if not ppo.lean:
        return f"it needs the lean path, but {ppo.why_not_lean()}"
    normalizer = ppo.current_updater().numpy_policy.normalizer
    if not isinstance(normalizer, RunningNorm | None):
        return f"observations are normalized by a {type(normalizer).__name__}"
    if ppo.clip_range_vf is not None:
        return "clip_range_vf is set"
    return None


class Environments(Protocol):
    """What `PackedPPO` needs of environments; a `VecEnv` has it."""

    num_envs: int

    def reset(self) -> Any:
        """Returns the first observations."""

    def step(self, actions: Array) -> tuple[Any, Array, Array, list[dict[str, Any]]]:
        """Returns observations, rewards, dones and infos."""


class JoinedEnvironments:
    """Several vectorized environments with the same spaces, stepped one after another.

    For methods that also step those of a single seed. Fewer calls, and several simulator threads,
    are possible where all seeds share one `VecEnv`.

    Args:
        parts: The environments of each seed, as many of each.

    Attributes:
        num_envs: Number of environments of all seeds.
    """

    def __init__(self, parts: Sequence[VecEnv]) -> None:
        self._parts = list(parts)
        self.num_envs = sum(part.num_envs for part in parts)

    def reset(self) -> Array:
        """Resets all environments."""
        return np.concatenate([cast(Array, part.reset()) for part in self._parts])

    def step(self, actions: Array) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        """Steps all environments."""
        split = np.split(actions, len(self._parts))
        results = [part.step(own) for part, own in zip(self._parts, split, strict=True)]
        obs, rewards, dones = (
            np.concatenate([cast(Array, result[kind]) for result in results]) for kind in range(3)
        )
        return obs, rewards, dones, [info for result in results for info in result[3]]


class PackedPPO:
    """Trains the PPO of several seeds together.

    Each learns what it would learn alone, up to rounding. Nothing is logged of rollouts and
    updates, and of callbacks, only `on_rollout_start` and `on_rollout_end` are called.

    Args:
        members: PPO of each seed, on the CPU; they differ only in parameters, data and
            `reward_fn`.
        venv: The environments of the first seed, those of the second, and so on.
        generators: Global generators of each seed, with the state that they have after its PPO was
            made.
        device: Where updates are computed; the environments and the choice of actions stay on the
            CPU.

    Attributes:
        venv: As given.
        generators: As given.

    Raises:
        ValueError: A member cannot be trained together with others, or `venv` has another number
            of environments.
    """

    def __init__(
        self,
        members: Sequence[PPO],
        venv: Environments,
        generators: Sequence[OwnGenerators],
        device: str | th.device = "cpu",
    ) -> None:
        self._members = list(members)
        self.venv = venv
        self.generators = list(generators)
        for ppo in self._members:
            reason = why_not_packed(ppo)
            if reason is not None:
                raise ValueError(f"PPO cannot train several seeds as one network: {reason}")
        if venv.num_envs != sum(ppo.n_envs for ppo in self._members):
            raise ValueError(
                f"venv has {venv.num_envs} environments, not {self._members[0].n_envs} for each "
                f"of {len(self._members)} seeds"
            )
        self._updater = PackedUpdater([ppo.current_updater() for ppo in self._members], device)
        policy = self._updater.updaters[0].numpy_policy
        self._actors = StackedActorCritic(policy.network.architecture, len(self._members))
        self._head = make_stacked_head(self._actors)

    def learn(self, timesteps: int, callbacks: Sequence[BaseCallback]) -> None:
        """Continues training.

        Args:
            timesteps: Smallest number of environment steps to take, for each seed.
            callbacks: The callback of each seed.

        Raises:
            ValueError: Training of a seed diverged, or a `reward_fn` is invalid.
        """
        first = self._members[0]
        if first._last_obs is None:
            for ppo, obs in zip(self._members, self._split(self.venv.reset()), strict=True):
                ppo._last_obs = obs.copy()
                ppo._last_episode_starts = np.ones(ppo.n_envs, dtype=bool)
        total = 0
        for ppo, callback in zip(self._members, callbacks, strict=True):
            total, _ = ppo._setup_learn(timesteps, callback, reset_num_timesteps=False)
        while first.num_timesteps < total:
            self._collect(callbacks)
            for ppo in self._members:
                ppo._update_current_progress_remaining(ppo.num_timesteps, total)
            self._train()

    def _split(self, batch: Any) -> list[Array]:
        """Splits rows of all environments by seed."""
        return np.split(np.asarray(batch), len(self._members))

    def _collect(self, callbacks: Sequence[BaseCallback]) -> None:
        """Collects a rollout of each seed, and fills its buffer."""
        first, venv = self._members[0], self.venv
        for own, ppo, updater, callback in zip(
            self._actors.parameters, self._members, self._updater.updaters, callbacks, strict=True
        ):
            ppo.policy.set_training_mode(False)
            updater.numpy_policy.load()
            own.copy_(updater.numpy_policy.vector)
            ppo.rollout_buffer.reset()
            callback.on_rollout_start()
        recorder = RolloutRecorder(
            first.n_steps, venv.num_envs, first.observation_space, first.action_space
        )
        starts = [cast(Array, ppo._last_episode_starts) for ppo in self._members]
        obs = np.concatenate([cast(Array, ppo._last_obs) for ppo in self._members])
        box = first.action_space if isinstance(first.action_space, spaces.Box) else None
        act = self._actor()
        dones = np.concatenate(starts)
        for _ in range(first.n_steps):
            actions = clipped = act(obs)
            if box is not None:
                clipped = np.minimum(np.maximum(actions, box.low), box.high)
            recorder.act(obs, actions, clipped)
            new_obs, rewards, dones, infos = venv.step(clipped)
            recorder.step(rewards, dones, infos)
            obs = cast(Array, new_obs)
        rollout, cut = recorder.finish(obs)
        last = zip(self._split(obs), self._split(dones), strict=True)
        for seed, (ppo, callback, (last_obs, last_dones)) in enumerate(
            zip(self._members, callbacks, last, strict=True)
        ):
            ppo.num_timesteps += ppo.n_envs * ppo.n_steps
            ppo._last_obs, ppo._last_episode_starts = last_obs.copy(), last_dones.copy()
            begin, end = seed * ppo.n_envs, (seed + 1) * ppo.n_envs
            own_cut = [(row, env - begin) for row, env in cut if begin <= env < end]
            sampled = np.ascontiguousarray(recorder.sampled[:, begin:end])
            ppo.fill(ppo.rollout_buffer, _part(rollout, begin, end), sampled, starts[seed], own_cut)
            callback.on_rollout_end()

    def _actor(self) -> Callable[[Array], Array]:
        """Returns a function that samples the actions of all environments."""
        policies = [updater.numpy_policy for updater in self._updater.updaters]
        features = self._actors.architecture.features
        mean, scale = (
            np.stack([np.broadcast_to(getattr(p, name), (1, features)) for p in policies])
            for name in ("mean", "scale")
        )
        normalizes = policies[0].normalizer is not None
        generators = [pair.torch for pair in self.generators]
        shape = (self.venv.num_envs, *(self._members[0].action_space.shape or ()))

        def act(obs: Array) -> Array:
            flat = policies[0].flatten(obs).reshape(len(policies), -1, features)
            if normalizes:
                flat = (flat - mean) * scale
            return self._head.sample(self._actors.act(flat), generators).reshape(shape)

        return act

    def _train(self) -> None:
        """Updates all policies from their buffers."""
        settings = [ppo.begin_update() for ppo in self._members]
        samples = [
            Samples.of_buffer(ppo.rollout_buffer, updater.numpy_policy)
            for ppo, updater in zip(self._members, self._updater.updaters, strict=True)
        ]
        generators = [pair.numpy for pair in self.generators]
        epochs = self._updater.update(samples, settings[0], generators)
        for ppo, done in zip(self._members, epochs, strict=True):
            ppo._n_updates += done


def _part(rollout: Rollout, begin: int, end: int) -> Rollout:
    """Returns the rollout of some of the environments."""
    kinds = (rollout.obs, rollout.acts, rollout.next_obs, rollout.dones, rollout.env_rews)
    obs, acts, next_obs, dones, env_rews = (
        np.ascontiguousarray(array[:, begin:end]) for array in kinds
    )
    return Rollout(obs, acts, next_obs, dones, env_rews, rews=env_rews)
