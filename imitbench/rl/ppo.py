"""Proximal policy optimization with the interface of Stable-Baselines3 and less overhead.

Source: Schulman et al. 2017, "Proximal Policy Optimization Algorithms".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import VecEnv

from imitbench.rewards.reward_function import RewardFn
from imitbench.rewards.reward_wrapper import WrappedRewardCallback
from imitbench.rl.lean_algorithm import LeanAlgorithm
from imitbench.rl.numpy_policy import NumpyPolicy, why_no_numpy_policy
from imitbench.rl.ppo_update import PPOUpdater, Samples, UpdateSettings, is_of_actor
from imitbench.rl.rollout import (
    ReturnScaling,
    Rollout,
    RolloutRecorder,
    estimate_advantages,
)
from imitbench.util.adam import why_not_plain
from imitbench.util.torch_startup import one_thread

__all__ = ["PPO", "LearntReturns", "RewardFn", "Rollout"]

Array = npt.NDArray[Any]


class PPO(LeanAlgorithm, stable_baselines3.PPO):
    """Stable-Baselines3's PPO, computed in NumPy if possible.

    For actor-critic policies of linear layers with Tanh or ReLU, vector observations, and discrete
    or Gaussian actions, rollouts and updates use the same formulas, order and random numbers as
    Stable-Baselines3 and are equal up to rounding. For all others, the implementation of
    Stable-Baselines3 is used.

    Differences of the lean path: the values and log-probabilities of a rollout are computed at
    its end, so that they are not among the locals of callbacks. If a callback stops training, the
    rollout buffer is empty, but the last observation is current.

    Args:
        *args: See `stable_baselines3.PPO`.
        lean: Whether to compute in NumPy; `None` to do so if possible.
        **kwargs: See `stable_baselines3.PPO`.

    Attributes:
        reward_fn: If set, its result replaces the environments' rewards. It is called once per
            rollout (`Rollout.relabel`), before values are added where time limits truncated
            episodes, and before advantages are estimated. It is not saved.
        return_scaling: If set, scales the rewards for training, including those of `reward_fn`;
            logged rewards are not scaled. It is part of `algorithm_state`, but not of saved files.
        critic_only: Whether updates train only the critic.
        last_rollout: The latest rollout; `None` before the first, and without the lean path. It
            is not saved.

    Raises:
        ValueError: `lean` is `True` but not possible.
    """

    reward_fn: RewardFn | None = None
    return_scaling: ReturnScaling | None = None
    critic_only: bool = False
    last_rollout: Rollout | None = None
    _updater: PPOUpdater | None = None

    def _why_not_possible(self) -> str | None:
        if type(self.rollout_buffer) is not RolloutBuffer:
            return f"the rollout buffer is a {type(self.rollout_buffer).__name__}"
        reason = why_no_numpy_policy(self.policy)
        return reason or why_not_plain(self.policy.optimizer, list(self.policy.parameters()))

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
    ) -> bool:
        """Collects a rollout, and fills the buffer, as Stable-Baselines3 does.

        Raises:
            ValueError: `reward_fn` is set without the lean path, or its result is invalid; or
                parameters or outputs of the policy are not finite.
        """
        if not self.lean:
            if self.reward_fn is not None:
                raise ValueError(f"reward_fn needs the lean path: {self.why_not_lean()}")
            if self.return_scaling is not None:
                env = self.return_scaling.wrapped(env)
            return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        self.policy.set_training_mode(False)
        numpy_policy = self.current_updater().numpy_policy
        numpy_policy.load()
        rollout_buffer.reset()
        callback.on_rollout_start()
        recorder = RolloutRecorder(
            n_rollout_steps, env.num_envs, self.observation_space, self.action_space
        )
        last_starts = self._last_episode_starts
        if not self._step_through(env, callback, rollout_buffer, recorder, n_rollout_steps):
            return False
        rollout, cut = recorder.finish(cast(Array, self._last_obs))
        self.fill(rollout_buffer, rollout, recorder.sampled, cast(Array, last_starts), cut)
        callback.update_locals({"rollout": rollout})
        callback.on_rollout_end()
        return True

    def _step_through(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        recorder: RolloutRecorder,
        n_rollout_steps: int,
    ) -> bool:
        """Takes all steps of a rollout; returns `False` if the callback stopped it."""
        numpy_policy = self.current_updater().numpy_policy
        shape = (env.num_envs, *(self.action_space.shape or ()))
        box = self.action_space if isinstance(self.action_space, spaces.Box) else None
        locals_ = {
            "self": self, "env": env, "callback": callback, "rollout_buffer": rollout_buffer,
            "n_rollout_steps": n_rollout_steps,
        }  # fmt: skip
        obs = cast(Array, self._last_obs)
        for n_steps in range(n_rollout_steps):
            outputs = numpy_policy.network.act(numpy_policy.features(obs))
            actions = numpy_policy.head.sample(outputs).reshape(shape)
            clipped = actions
            if box is not None:
                clipped = np.minimum(np.maximum(actions, box.low), box.high)
            recorder.act(obs, actions, clipped)
            new_obs, rewards, dones, infos = env.step(clipped)
            recorder.step(rewards, dones, infos)
            self.num_timesteps += env.num_envs
            self._last_obs = obs = cast(Array, new_obs)
            self._last_episode_starts = dones
            callback.update_locals(
                locals_ | {
                    "n_steps": n_steps, "actions": actions, "clipped_actions": clipped,
                    "new_obs": new_obs, "rewards": rewards, "dones": dones, "infos": infos,
                }
            )  # fmt: skip
            if not callback.on_step():
                return False
            self._update_info_buffer(infos, dones)
        return True

    def fill(
        self,
        buffer: RolloutBuffer,
        rollout: Rollout,
        sampled: Array,
        last_starts: Array,
        cut: list[tuple[int, int]],
    ) -> None:
        """Evaluates a rollout and adds it to the buffer; the last observation is current.

        Args:
            buffer: The rollout buffer.
            rollout: The rollout; its rewards and log-probabilities are set.
            sampled: Actions before clipping.
            last_starts: Whether the first step starts an episode, shape (n,).
            cut: (step, environment) of each episode that was truncated by a time limit.

        Raises:
            ValueError: Outputs of the policy or results of `reward_fn` are not finite.
        """
        numpy_policy = self.current_updater().numpy_policy
        steps, n_envs = rollout.dones.shape
        count = steps * n_envs
        cut_at = tuple(np.array(cut, dtype=np.int64).reshape(-1, 2).T)
        # One batch of all observations: those in the rollout, those after the last step, and
        # final ones of episodes that were truncated by time limits.
        obs = rollout.obs.reshape(count, *rollout.obs.shape[2:])
        last = cast(Array, self._last_obs).astype(obs.dtype, copy=False)
        batch = np.concatenate([obs, last, rollout.next_obs[cut_at]])
        with one_thread():
            outputs, values = numpy_policy.network.evaluate(numpy_policy.features(batch))
        encoded = numpy_policy.head.encode(sampled.reshape(count, *sampled.shape[2:]))
        log_probs, _ = numpy_policy.head.log_prob(outputs[:count], encoded)
        if not np.isfinite(log_probs).all() or not np.isfinite(values).all():
            raise ValueError("the policy's outputs are not finite: training diverged")
        rollout.log_probs = log_probs.reshape(steps, n_envs)
        if self.reward_fn is not None:
            rollout.relabel(self.reward_fn)
        self.last_rollout = rollout
        if self.return_scaling is None:
            buffer.rewards = rollout.rews.copy()
        else:
            buffer.rewards = self.return_scaling(rollout.rews, rollout.dones)
        buffer.rewards[cut_at] += self.gamma * values[count + n_envs :]
        buffer.observations = rollout.obs.reshape(buffer.observations.shape).copy()
        buffer.actions = sampled.reshape(buffer.actions.shape)
        buffer.episode_starts[0] = last_starts
        buffer.episode_starts[1:] = rollout.dones[:-1]
        buffer.values = values[:count].reshape(steps, n_envs)
        buffer.log_probs = rollout.log_probs.copy()
        buffer.advantages = estimate_advantages(
            buffer.rewards,
            buffer.values,
            values[count : count + n_envs],
            rollout.dones,
            buffer.gamma,
            buffer.gae_lambda,
        )
        buffer.returns = buffer.advantages + buffer.values
        buffer.pos, buffer.full = steps, True

    def train(self) -> None:
        """Updates the policy from the rollout buffer.

        Raises:
            ValueError: Training diverged.
        """
        if not self.lean:
            self._train_as_it_is()
            return
        settings = self.begin_update()
        updater = self.current_updater()
        samples = Samples.of_buffer(self.rollout_buffer, updater.numpy_policy)
        result = updater.update(samples, settings)
        if result.stopped and self.verbose >= 1:
            divergence = result.log["approx_kl"]
            print(f"Early stopping at step {result.epochs - 1}: KL divergence {divergence:.2f}")
        self._n_updates += result.epochs
        self._log_update(result.log, settings.clip_range, settings.clip_range_vf)

    def begin_update(self) -> UpdateSettings:
        """Sets the learning rate of the next update; returns the settings of the lean path."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        progress = self._current_progress_remaining
        clip_range = float(cast(Any, self.clip_range)(progress))
        clip_range_vf = self.clip_range_vf
        if clip_range_vf is not None:
            clip_range_vf = float(cast(Any, clip_range_vf)(progress))
        return UpdateSettings(
            clip_range=clip_range,
            clip_range_vf=clip_range_vf,
            normalize_advantage=self.normalize_advantage,
            ent_coef=self.ent_coef,
            vf_coef=self.vf_coef,
            max_grad_norm=self.max_grad_norm,
            target_kl=None if self.critic_only else self.target_kl,
            n_epochs=self.n_epochs,
            batch_size=self.batch_size,
            critic_only=self.critic_only,
        )

    def _train_as_it_is(self) -> None:
        """Updates the policy as Stable-Baselines3 does."""
        if not self.critic_only:
            super().train()
            return
        # Gradients are set to zero instead of frozen, as in the lean update, so that the
        # optimizer has the same number of steps for all parameters.
        hooks = [
            parameter.register_hook(th.zeros_like)  # type: ignore[no-untyped-call]
            for name, parameter in self.policy.named_parameters()
            if is_of_actor(name)
        ]
        limit, self.target_kl = self.target_kl, None
        try:
            super().train()
        finally:
            self.target_kl = limit
            for hook in hooks:
                hook.remove()

    def _log_update(
        self, log: Mapping[str, float], clip_range: float, clip_range_vf: float | None
    ) -> None:
        for name, value in log.items():
            self.logger.record(f"train/{name}", value)
        buffer = self.rollout_buffer
        explained = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        self.logger.record("train/explained_variance", explained)
        if hasattr(self.policy, "log_std"):
            self.logger.record("train/std", th.exp(self.policy.log_std).mean().item())
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/clip_range", clip_range)
        if clip_range_vf is not None:
            self.logger.record("train/clip_range_vf", clip_range_vf)

    def current_updater(self) -> PPOUpdater:
        """Returns the updater of the current policy, a new one if the policy was replaced."""
        if self._updater is None or not self._updater.numpy_policy.fits(self.policy):
            self._updater = PPOUpdater(NumpyPolicy(self.policy))
        return self._updater

    def _excluded_save_params(self) -> list[str]:
        own = ["reward_fn", "return_scaling", "last_rollout", "_updater"]
        return [*super()._excluded_save_params(), *own]


class LearntReturns(WrappedRewardCallback):
    """Logs the mean return of episodes under the rewards of `PPO.reward_fn`.

    Args:
        n_envs: Number of environments.
        ep_history: Number of latest episodes in the mean.

    Attributes:
        episode_rewards: Returns of the latest episodes.
        returns: Returns of the current episodes so far, shape (n_envs,), float64.
        steps: Lengths of the current episodes so far, shape (n_envs,), int64.
    """

    def __init__(self, n_envs: int, ep_history: int = 100) -> None:
        super().__init__(deque(maxlen=ep_history))
        self.returns = np.zeros(n_envs, dtype=np.float64)
        self.steps = np.zeros(n_envs, dtype=np.int64)

    def restart(self) -> None:
        """Discards the current episodes, which were interrupted."""
        self.returns[:] = 0.0
        self.steps[:] = 0

    def _on_rollout_end(self) -> None:
        assert isinstance(self.model, PPO), "this callback requires the lean PPO"
        rollout = self.model.last_rollout
        assert rollout is not None, "the lean PPO sets `last_rollout` before this call"
        self._follow(rollout)
        self._log()

    def _follow(self, rollout: Rollout) -> list[int]:
        """Updates the current episodes with a rollout.

        Returns:
            Lengths of the episodes that ended in the rollout, in order.
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
        super()._on_rollout_end()

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the current episodes and the history of returns."""
        return {
            "steps": self.steps.copy(),
            "returns": self.returns.copy(),
            "episode_rewards": list(self.episode_rewards),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        self.steps[:] = state["steps"]
        self.returns[:] = state["returns"]
        self.episode_rewards.clear()
        self.episode_rewards.extend(state["episode_rewards"])
