"""Stable-Baselines3's PPO, trained as `imitbench.rl.ppo.PPO` without being replaced.

Scripts written for Stable-Baselines3 create its PPO and pass it to a trainer. Both classes have the
same attributes, so that the object itself gets the other class: whoever holds it sees its training,
and parameters, schedules, counters, seeds and files stay what they are.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import stable_baselines3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from imitbench.rewards.reward_function import RewardFn
from imitbench.rl.ppo import PPO
from imitbench.rl.rollout import RolloutRecorder

Array = npt.NDArray[Any]


class StablePPO(PPO):
    """A PPO of Stable-Baselines3 that is trained as `imitbench.rl.ppo.PPO`; see `train_as_lean`.

    What Stable-Baselines3's PPO does in a wrapped environment, it does too:

    - `set_env` ends the training on `reward_fn`.
    - Callbacks of classes from elsewhere, and functions, may read what is computed at each step,
      such as values and learned rewards. For them, rollouts are collected by Stable-Baselines3's
      loop; so they are if the lean path becomes impossible later.
    """

    _hinted: bool = False

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Sets the environment, with its own rewards."""
        super().set_env(env, force_reset)
        self.reward_fn = None

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
    ) -> bool:
        """Collects a rollout; see `imitbench.rl.ppo.PPO.collect_rollouts`.

        Raises:
            ValueError: The result of `reward_fn` is invalid, or parameters or outputs of the policy
                are not finite.
        """
        reason = self.why_not_lean() or _why_step_by_step(callback)
        if reason is None:
            return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        if not self._hinted:
            self._hinted = True
            _hint(f"Stable-Baselines3's own loop collects this PPO's rollouts, because {reason}")
        recorded = _RecordedSteps(env, self, n_rollout_steps)
        return OnPolicyAlgorithm.collect_rollouts(
            self, recorded, callback, rollout_buffer, n_rollout_steps
        )

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_hinted"]


class _RecordedSteps(VecEnvWrapper):
    """Environments in which a rollout is recorded, with rewards of a PPO's `reward_fn`.

    After the last step, the rollout is the PPO's `last_rollout`.
    """

    def __init__(self, venv: VecEnv, model: StablePPO, steps: int) -> None:
        super().__init__(venv)
        self._model, self._left = model, steps
        self._obs = cast(Array, model._last_obs)
        self._recorder = RolloutRecorder(
            steps, venv.num_envs, venv.observation_space, venv.action_space
        )
        self._rewards = np.empty((steps, venv.num_envs), np.float32)

    def reset(self) -> Any:
        return self.venv.reset()

    def step_async(self, actions: Array) -> None:
        self._actions = actions
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, dones, infos = self.venv.step_wait()
        self._recorder.act(self._obs, self._actions, self._actions)
        self._recorder.step(rewards, dones, infos)
        reward_fn = self._model.reward_fn
        if reward_fn is not None:
            for info, own in zip(infos, rewards.tolist(), strict=True):
                info["original_env_rew"] = own
            rewards = self._relabelled(reward_fn, obs, dones, infos)
        self._rewards[-self._left] = rewards
        self._obs = cast(Array, obs)
        self._left -= 1
        if not self._left:
            rollout, _ = self._recorder.finish(self._obs)
            rollout.rews = self._rewards
            self._model.last_rollout = rollout
        return obs, rewards, dones, infos

    def _relabelled(
        self, reward_fn: RewardFn, obs: Any, dones: Array, infos: list[dict[str, Any]]
    ) -> Array:
        next_obs = np.array(obs)
        for env in np.flatnonzero(dones).tolist():
            next_obs[env] = infos[env]["terminal_observation"]
        rewards = np.array(reward_fn(self._obs, self._actions, next_obs, dones), dtype=np.float32)
        if rewards.shape != dones.shape or not np.isfinite(rewards).all():
            raise ValueError(
                f"reward_fn returned {rewards}; expected {len(dones)} rewards that are finite"
            )
        return rewards


def train_as_lean(algorithm: BaseAlgorithm, argument: str) -> None:
    """Makes a PPO of Stable-Baselines3 compute as `imitbench.rl.ppo.PPO` does, if it can.

    Its class becomes `StablePPO`. Where the lean path is not possible, the PPO stays as it is, and
    a warning says why; for images, which it does not have at all, there is none. Other algorithms
    stay as they are.

    Args:
        algorithm: Any algorithm of Stable-Baselines3.
        argument: Name of the trainer's argument for the warning.
    """
    if not isinstance(algorithm, stable_baselines3.PPO) or isinstance(algorithm, PPO):
        return
    reason = _why_not_same(algorithm)
    if reason is None:
        algorithm.__class__ = StablePPO
        reason = cast(StablePPO, algorithm).why_not_lean()
        if reason is not None:
            algorithm.__class__ = stable_baselines3.PPO
    if reason is not None and not is_image_space(algorithm.observation_space):
        _hint(f"{argument}: Stable-Baselines3's own loop trains this PPO, because {reason}")


def _why_not_same(algorithm: stable_baselines3.PPO) -> str | None:
    """Returns what the lean path would leave out; `None` for a PPO as Stable-Baselines3 has it."""
    cls = type(algorithm)
    if cls is not stable_baselines3.PPO:
        return f"{cls.__name__} is a class of its own, not derived from imitbench.rl.ppo.PPO"
    replaced = sorted(name for name in vars(algorithm) if callable(getattr(PPO, name, None)))
    if replaced:
        return f"the object has its own {replaced[0]}"
    policy = algorithm.policy
    hooks = [
        value
        for part in (*policy.modules(), policy.optimizer)
        for name, value in vars(part).items()
        if name.endswith("_hooks")
    ]
    if any([*hooks, *(parameter._backward_hooks for parameter in policy.parameters())]):
        return "its policy or optimizer has hooks"
    return None


def _why_step_by_step(callback: BaseCallback) -> str | None:
    """Returns which callback may read values of single steps, which the lean path lacks."""
    for called in _with_inner(callback, set()):
        if isinstance(called, ConvertCallback) and called.callback is not None:
            return "a function, given as callback, may read the values of each step"
        if not _is_known(type(called).__module__):
            return f"the callback {type(called).__name__} may read the values of each step"
    return None


def _with_inner(callback: BaseCallback, seen: set[int]) -> Iterator[BaseCallback]:
    """Yields a callback and those that it calls."""
    seen.add(id(callback))
    yield callback
    for value in vars(callback).values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, BaseCallback) and id(item) not in seen:
                yield from _with_inner(item, seen)


def _is_known(module: str) -> bool:
    """Whether a module belongs to this package or to Stable-Baselines3."""
    return module.partition(".")[0] in (__name__.partition(".")[0], stable_baselines3.__name__)


def _hint(what: str) -> None:
    """Warns, at the line of the caller's code that is outside both packages."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_known(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"{what}. Without that, it would run as imitbench.rl.ppo.PPO, which is several times as "
        "fast; with lean=False there is no such hint",
        stacklevel=level,
    )
