"""The generator: reinforcement learning on the learned reward, and its transitions.

The environment's rewards are replaced in one of two ways: per step, by a wrapper, for any algorithm
of Stable-Baselines3; or per rollout, which is much faster, for `imitbench.rl.ppo.PPO`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.vec_env import VecEnv

from imitbench.data.buffer import Buffer, Reservoir
from imitbench.data.rollout import flatten_trajectories_with_rew
from imitbench.data.wrappers import BufferingWrapper
from imitbench.rewards.reward_function import RewardFn
from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper
from imitbench.rl.ppo import PPO, LearntReturns, Rollout
from imitbench.rl.training import algorithm_state, continue_learning, load_algorithm_state

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Experience:
    """The transitions and episodes of a generator in one round.

    Attributes:
        transitions: `obs`, `acts`, `next_obs` and `dones`, each of shape (N, …), oldest first;
            observations are a `DictObs` if those of the environment are dictionaries. Empty if a
            callback stopped the first rollout.
        episode_lengths: Steps of each completed episode.
    """

    transitions: dict[str, Any]
    episode_lengths: list[int]


HISTORY_SIZE = 100_000
"""Number of transitions of the whole training that the discriminator can be trained on again."""


class ExperienceStore:
    """The transitions of a generator that its discriminator is trained on.

    Args:
        capacity: Number of latest transitions.
        history_share: Share of each batch that is drawn from a uniform sample of the whole
            training, at most `HISTORY_SIZE` transitions, instead of the latest ones.
        venv: Environments of the generator.
    """

    def __init__(self, capacity: int, history_share: float, venv: VecEnv) -> None:
        observations, actions = venv.observation_space, venv.action_space
        obs_shape, act_shape = observations.shape or (), actions.shape or ()
        obs_dtype, act_dtype = np.dtype(observations.dtype), np.dtype(actions.dtype)
        shapes = {"obs": obs_shape, "acts": act_shape, "next_obs": obs_shape, "dones": ()}
        dtypes = {"obs": obs_dtype, "acts": act_dtype, "next_obs": obs_dtype, "dones": np.bool_}
        self._latest = Buffer(capacity, shapes, dtypes)
        self._share = history_share
        self._history = Reservoir(HISTORY_SIZE, shapes, dtypes) if history_share else None

    def store(self, transitions: Mapping[str, Array], rng: np.random.Generator) -> None:
        """Adds transitions, oldest first; `rng` draws which of them the history keeps."""
        self._latest.store(transitions, truncate_ok=True)
        if self._history is not None:
            self._history.add(transitions, rng)

    def sample(self, count: int, rng: np.random.Generator) -> dict[str, Array]:
        """Draws a batch with replacement.

        Raises:
            RuntimeError: There are no transitions yet.
        """
        if self._latest.size() == 0:
            raise RuntimeError("the generator has no transitions yet; call train_gen() first")
        old = round(self._share * count)
        if self._history is None or not old:
            return self._latest.sample(count, rng)
        parts = [self._latest.sample(count - old, rng), self._history.sample(old, rng)]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that later batches depend on."""
        state = self._latest.state_dict()
        return state if self._history is None else {**state, "history": self._history.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._latest.load_state_dict(state)
        if self._history is not None:
            self._history.load_state_dict(state["history"])


class Generator(ABC):
    """A reinforcement-learning algorithm that is trained on another reward.

    Args:
        algorithm: Algorithm of Stable-Baselines3; its environment is replaced.

    Attributes:
        venv_train: The environment as the algorithm sees it.
    """

    venv_train: VecEnv

    def __init__(self, algorithm: BaseAlgorithm) -> None:
        self.algorithm = algorithm

    @abstractmethod
    def learn(self, timesteps: int, **learn_kwargs: Any) -> Experience:
        """Trains for at least `timesteps` environment steps.

        Args:
            timesteps: Environment steps, summed over environments.
            **learn_kwargs: Passed on to the algorithm's `learn`.
        """

    @property
    @abstractmethod
    def learned_returns(self) -> deque[float]:
        """Returns of the latest episodes by the reward function, at most 100; may be cleared."""

    def state_dict(self) -> dict[str, Any]:
        """State of the algorithm and its records; excludes that of the environments."""
        return {"algorithm": algorithm_state(self.algorithm)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        load_algorithm_state(self.algorithm, state["algorithm"])


class StepRewardGenerator(Generator):
    """Any algorithm of Stable-Baselines3, in a wrapped environment.

    Args:
        algorithm: See `Generator`.
        venv: Environments to act in.
        reward_fn: Maps batches of observations, actions, next observations and dones to rewards,
            shape (batch,); `None` keeps the environment's own.
    """

    def __init__(self, algorithm: BaseAlgorithm, venv: VecEnv, reward_fn: RewardFn | None) -> None:
        super().__init__(algorithm)
        self._recorder = BufferingWrapper(venv)
        self._callback: BaseCallback | None = None
        self.venv_train = self._recorder
        if reward_fn is not None:
            wrapped = RewardVecEnvWrapper(self._recorder, reward_fn)
            self._callback = wrapped.make_log_callback()
            self.venv_train = wrapped
        algorithm.set_env(self.venv_train)

    def learn(self, timesteps: int, **learn_kwargs: Any) -> Experience:
        """Trains, then returns what the wrapper recorded."""
        continue_learning(self.algorithm, timesteps, self._callback, learn_kwargs)
        trajectories, lengths = self._recorder.pop_trajectories()
        flat = flatten_trajectories_with_rew(trajectories)
        return Experience(
            {
                "obs": flat.obs,
                "acts": flat.acts,
                "next_obs": flat.next_obs,
                "dones": flat.dones,
            },
            list(lengths),
        )

    @property
    def learned_returns(self) -> deque[float]:
        """Returns of the latest episodes by the reward function."""
        wrapped = self.venv_train
        return wrapped.episode_rewards if isinstance(wrapped, RewardVecEnvWrapper) else deque()

    def state_dict(self) -> dict[str, Any]:
        """See `Generator.state_dict`."""
        state = {**super().state_dict(), "recorder": self._recorder.state_dict()}
        if isinstance(self.venv_train, RewardVecEnvWrapper):
            state["rewards"] = self.venv_train.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ValueError: The state is of another kind of generator.
        """
        _check_kind(state, "recorder")
        super().load_state_dict(state)
        self._recorder.load_state_dict(state["recorder"])
        if isinstance(self.venv_train, RewardVecEnvWrapper):
            self.venv_train.load_state_dict(state["rewards"])


class RolloutRewardGenerator(Generator):
    """The lean PPO: one call relabels a whole rollout; the environment is not wrapped.

    Args:
        algorithm: PPO whose lean path is in use; its environment is replaced.
        venv: Environments to act in.
        reward_fn: See `StepRewardGenerator`.

    Attributes:
        recorder: Records each completed rollout; to be called by PPO.
    """

    algorithm: PPO

    def __init__(self, algorithm: PPO, venv: VecEnv, reward_fn: RewardFn | None) -> None:
        super().__init__(algorithm)
        self.venv_train = venv
        algorithm.set_env(venv)
        algorithm.reward_fn = reward_fn
        self.recorder = EpisodeRecorder(venv.num_envs, log_returns=reward_fn is not None)

    def learn(self, timesteps: int, **learn_kwargs: Any) -> Experience:
        """Trains, and records each completed rollout."""
        continue_learning(self.algorithm, timesteps, self.recorder, learn_kwargs)
        return self.recorder.pop()

    @property
    def learned_returns(self) -> deque[float]:
        """Returns of the latest episodes by the reward function."""
        return self.recorder.episode_rewards

    def state_dict(self) -> dict[str, Any]:
        """See `Generator.state_dict`."""
        return super().state_dict() | self.recorder.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ValueError: The state is of another kind of generator.
        """
        _check_kind(state, "episode_rewards")
        super().load_state_dict(state)
        self.recorder.load_state_dict(state)


def _check_kind(state: Mapping[str, Any], part: str) -> None:
    if part not in state:
        raise ValueError(
            "state: its generator computed rewards in another way; make this trainer with the "
            "class of PPO and the `lean` of the other one"
        )


class EpisodeRecorder(LearntReturns):
    """Stores rollouts and the lengths of their episodes.

    Args:
        n_envs: Number of environments.
        log_returns: Whether the mean return of episodes is logged.
    """

    def __init__(self, n_envs: int, log_returns: bool) -> None:
        super().__init__(n_envs)
        self._log_returns = log_returns
        self._forget()

    def _forget(self) -> None:
        self._transitions: list[dict[str, Array]] = []
        self._lengths: list[int] = []

    def pop(self) -> Experience:
        """Returns what was stored since the last call."""
        parts = self._transitions
        names = parts[0] if parts else ()
        joined = {key: np.concatenate([part[key] for part in parts]) for key in names}
        experience = Experience(joined, self._lengths)
        self._forget()
        return experience

    def _follow(self, rollout: Rollout) -> list[int]:
        self._transitions.append(
            {
                name: _flatten(getattr(rollout, name))
                for name in ("obs", "acts", "next_obs", "dones")
            }
        )
        lengths = super()._follow(rollout)
        self._lengths += lengths
        return lengths

    def _on_training_end(self) -> None:
        assert isinstance(self.model, PPO), "this callback requires the lean PPO"
        if not self.model.rollout_buffer.full:
            # A callback stopped a rollout, whose steps are not recorded: begin new episodes.
            self.restart()
            self.model._last_obs = None

    def _log(self) -> None:
        if self._log_returns:
            super()._log()


def _flatten(array: Array) -> Array:
    """Joins time and environments: (T, n, …) to (T * n, …)."""
    return array.reshape(-1, *array.shape[2:])


def make_generator(
    algorithm: BaseAlgorithm, venv: VecEnv, reward_fn: RewardFn | None
) -> StepRewardGenerator | RolloutRewardGenerator:
    """Chooses the fastest way to train `algorithm` on `reward_fn`.

    Args:
        algorithm: An algorithm of Stable-Baselines3, or `imitbench.rl.ppo.PPO`.
        venv: Environments to act in.
        reward_fn: See `StepRewardGenerator`.
    """
    if isinstance(algorithm, PPO) and algorithm.lean:
        return RolloutRewardGenerator(algorithm, venv, reward_fn)
    return StepRewardGenerator(algorithm, venv, reward_fn)


def venv_with_rewards(
    generator: Generator | None, venv: VecEnv, reward_fn: RewardFn
) -> RewardVecEnvWrapper:
    """Wraps the environment to give rewards of `reward_fn` at every step.

    Args:
        generator: Generator that is trained in `venv`, or `None`.
        venv: The environment without the wrapper.
        reward_fn: See `StepRewardGenerator`.

    Returns:
        The generator's wrapper if it has one, else a new one, which resets `venv`.
    """
    trained_in = None if generator is None else generator.venv_train
    if isinstance(trained_in, RewardVecEnvWrapper):
        return trained_in
    return RewardVecEnvWrapper(venv, reward_fn)


def steps_per_round(algorithm: BaseAlgorithm) -> int:
    """Environment steps of one round: one rollout, or those between two updates."""
    if isinstance(algorithm, OnPolicyAlgorithm):
        return algorithm.n_envs * algorithm.n_steps
    # Off-policy algorithms collect at least this many; a smaller number would exceed the budget.
    frequency = getattr(algorithm, "train_freq", None)
    if isinstance(frequency, TrainFreq) and frequency.unit == TrainFrequencyUnit.STEP:
        return algorithm.n_envs * frequency.frequency
    return algorithm.n_envs
