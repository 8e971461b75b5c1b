"""Density-based reward modeling: transitions that are frequent in demonstrations get high rewards.

A density is estimated over the demonstrations' states, state-action pairs or state-state pairs; the
reward of a transition is the logarithm of its density.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms import base
from imitbench.algorithms.adversarial.generator import (
    Experience,
    Generator,
    make_generator,
    venv_with_rewards,
)
from imitbench.algorithms.demonstration_fit import check_action_space
from imitbench.algorithms.density_model import EpisodeClock, FeatureMaker, TimedDensity
from imitbench.data import rollout, types
from imitbench.rewards.density import DensityRewardNet
from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper
from imitbench.rl.stable_ppo import train_as_lean
from imitbench.rl.training import acting_as_given, algorithm_state, load_algorithm_state
from imitbench.util.kernel_density import check_kernel
from imitbench.util.logger import HierarchicalLogger

Array = npt.NDArray[Any]

__all__ = ["DensityAlgorithm", "DensityType"]


class DensityType(enum.Enum):
    """What the density is over: states, state-action pairs, or pairs of states and next states."""

    STATE_DENSITY = enum.auto()
    STATE_ACTION_DENSITY = enum.auto()
    STATE_STATE_DENSITY = enum.auto()


class DensityAlgorithm(base.DemonstrationAlgorithm[types.TransitionsMinimal]):
    """Estimates the density of demonstrations, and trains a policy on it as a reward.

    Call `train` to fit the density, then `train_policy`. The instance itself is a reward function.
    Discrete actions and observations are one-hot encoded; dictionary observations are concatenated.

    Args:
        demonstrations: Demonstrations; `None` to set them later.
        venv: Environments in which the policy is trained, with the spaces of the demonstrations.
        rng: Source of randomness in `test_policy`.
        density_type: What the density is over.
        kernel: Kernel of the estimate: gaussian, tophat, epanechnikov, exponential, linear or
            cosine. All but gaussian and exponential are zero far from the demonstrations; the
            reward there is not finite, and training stops with an error.
        kernel_bandwidth: Width of the kernel, in standard deviations of the demonstrations if
            inputs are standardized; start between 0.1 and 1 for the Gaussian kernel.
        rl_algo: Trains the policy. Its environment is replaced by `venv`. With
            `imitbench.rl.ppo.PPO` rewards are computed once per rollout, else at every step. The
            PPO of Stable-Baselines3 is trained in the same way if its settings allow it, see
            `lean`.
        is_stationary: Whether one density serves all time steps. Otherwise each step of an episode
            has its own, and demonstrations must be whole trajectories.
        standardise_inputs: Whether to scale each coordinate to mean zero and variance one over the
            demonstrations.
        custom_logger: Where to log; a new logger when `None`.
        allow_variable_horizon: Whether the learner's episodes may differ in length.
        lean: Whether Stable-Baselines3's PPO gets the class `imitbench.rl.stable_ppo.StablePPO`,
            which computes the same faster. Where it cannot, a warning says why.

    Attributes:
        transitions: Data of the densities by time step, `None` for all: rows of shape (n, d),
            float64, before standardization.

    Raises:
        ValueError: The kernel is unknown, the bandwidth is not positive, `rl_algo` has other
            spaces, or demonstrations do not fit.
    """

    def __init__(
        self,
        *,
        demonstrations: base.AnyTransitions | None,
        venv: VecEnv,
        rng: np.random.Generator,
        density_type: DensityType = DensityType.STATE_ACTION_DENSITY,
        kernel: str = "gaussian",
        kernel_bandwidth: float = 0.5,
        rl_algo: BaseAlgorithm | None = None,
        is_stationary: bool = True,
        standardise_inputs: bool = True,
        custom_logger: HierarchicalLogger | None = None,
        allow_variable_horizon: bool = False,
        lean: bool = True,
    ) -> None:
        check_kernel(kernel, kernel_bandwidth)
        check_action_space(venv.action_space)
        self.venv = venv
        self.rng = rng
        self.density_type = DensityType(density_type)
        self.kernel = kernel
        self.kernel_bandwidth = kernel_bandwidth
        self.is_stationary = is_stationary
        self.standardise = standardise_inputs
        self.rl_algo = rl_algo
        self.transitions: dict[int | None, Array] = {}
        self._features = FeatureMaker(
            venv.observation_space,
            venv.action_space,
            use_action=self.density_type is DensityType.STATE_ACTION_DENSITY,
            use_next=self.density_type is DensityType.STATE_STATE_DENSITY,
        )
        self._density: TimedDensity | None = None
        self._clock = None if is_stationary else EpisodeClock(venv)
        self._generator: Generator | None = None
        super().__init__(
            demonstrations=demonstrations,
            custom_logger=custom_logger,
            allow_variable_horizon=allow_variable_horizon,
        )
        if rl_algo is not None:
            if lean:
                train_as_lean(rl_algo, "rl_algo")
            self._generator = self._make_generator(rl_algo)

    def _make_generator(self, algorithm: BaseAlgorithm) -> Generator:
        algorithm.set_logger(self.logger)
        return make_generator(algorithm, self._clock or self.venv, self._training_reward)

    def _pass_on_logger(self, logger: HierarchicalLogger) -> None:
        if self.rl_algo is not None:
            self.rl_algo.set_logger(logger)

    @property
    def policy(self) -> BasePolicy:
        """The policy that `rl_algo` trains.

        Raises:
            ValueError: There is no `rl_algo`.
        """
        policy = self._algorithm().policy
        assert policy is not None, "an algorithm has its policy from the start"
        return policy

    def _algorithm(self) -> BaseAlgorithm:
        if self.rl_algo is None:
            raise ValueError("rl_algo is None; pass an algorithm that trains the policy")
        return self.rl_algo

    @property
    def venv_wrapped(self) -> RewardVecEnvWrapper:
        """The environment with the density's rewards at every step.

        If rewards are computed per rollout, each access creates a wrapper, which resets the
        environment.
        """
        venv = self._clock or self.venv
        return venv_with_rewards(self._generator, venv, self._training_reward)

    def set_demonstrations(self, demonstrations: base.AnyTransitions) -> None:
        """Replaces the demonstrations; call `train` afterwards.

        Args:
            demonstrations: Trajectories; if stationary, also transitions or a finite iterable of
                batches of them, with `next_obs` if the density is over it.

        Raises:
            ValueError: Demonstrations are empty, not finite, of other shapes, or not trajectories
                though the density is not stationary.
        """
        rows, times = self._features.of_demonstrations(demonstrations)
        self._density = None
        if self.is_stationary:
            self.transitions = {None: rows}
            return
        if times is None:
            raise ValueError(
                "demonstrations: give trajectories, which have time steps, or is_stationary=True"
            )
        self.transitions = {time: rows[times == time] for time in range(times.max() + 1)}

    def train(self) -> None:
        """Fits the densities to the demonstrations.

        Raises:
            ValueError: There are no demonstrations.
        """
        if not self.transitions:
            raise ValueError("no demonstrations; call set_demonstrations() first")
        self._density = TimedDensity(
            self.transitions, self.kernel, self.kernel_bandwidth, self.standardise
        )

    def __call__(
        self,
        state: Any,
        action: Array,
        next_state: Any,
        done: Array | None,
        steps: Array | None = None,
    ) -> Array:
        """Rewards of transitions: natural logarithms of their densities.

        Args:
            state: Observations, shape (n, *observation_shape), or a dictionary of them.
            action: Actions, shape (n, *action_shape).
            next_state: Observations after the actions, of the same shape as `state`.
            done: Ignored.
            steps: Time step of each transition within its episode, shape (n,), from 0; required if
                the density is not stationary, else ignored.

        Returns:
            Shape (n,), float32; minus infinity where the density is zero.

        Raises:
            ValueError: `train` was not called, shapes differ, or `steps` are missing or beyond
                the demonstrations.
        """
        if self._density is None:
            raise ValueError("the density is not fitted yet: call train() first")
        rows = self._features(state, action, next_state)
        return self._density.log_density(rows, steps).astype(np.float32)

    def reward_net(self) -> DensityRewardNet:
        """The reward as a network, which can be stored.

        Raises:
            ValueError: `train` was not called, the density is not stationary, for a network does
                not see the time step, or observations are dictionaries.
        """
        if self._density is None:
            raise ValueError("the density is not fitted yet: call train() first")
        return self._density.reward_net(self._features)

    def _training_reward(
        self, state: Array, action: Array, next_state: Array, done: Array
    ) -> Array:
        """The reward at the time steps of the running episodes, checked to be finite."""
        steps = None if self._clock is None else self._clock.advance(done)
        rewards = self(state, action, next_state, done, steps)
        if not np.isfinite(rewards).all():
            raise ValueError(
                f"kernel: the density with kernel {self.kernel} and kernel_bandwidth "
                f"{self.kernel_bandwidth} is zero or NaN in a state that the policy visited; "
                "use the gaussian or exponential kernel, or a larger bandwidth"
            )
        return rewards

    def train_policy(self, n_timesteps: int = 1_000_000, **kwargs: Any) -> None:
        """Trains the policy on the density's reward.

        Episodes continue from one call to the next, unless `test_policy` was called in between.

        Args:
            n_timesteps: Environment steps, summed over environments.
            **kwargs: Passed on to the algorithm's `learn`.

        Raises:
            ValueError: There is no `rl_algo`, `train` was not called, episodes differ in length
                without `allow_variable_horizon`, or a reward is not finite.
        """
        self.end_round(self.generator.learn(n_timesteps, **kwargs))

    @property
    def generator(self) -> Generator:
        """What trains `rl_algo` on the density's reward.

        Raises:
            ValueError: There is no `rl_algo`.
        """
        if self._generator is None:
            self._generator = self._make_generator(self._algorithm())
        return self._generator

    def end_round(self, experience: Experience) -> None:
        """What `train_policy` does after the generator has learnt.

        Args:
            experience: What it has gained.

        Raises:
            ValueError: Episodes differ in length without `allow_variable_horizon`.
        """
        self._check_fixed_horizon(experience.episode_lengths)

    def test_policy(
        self, *, n_trajectories: int = 10, true_reward: bool = True
    ) -> Mapping[str, float]:
        """Evaluates the policy in the environment, which is reset.

        Args:
            n_trajectories: Least number of episodes.
            true_reward: Whether returns are of the environment's reward, not of the density's.

        Returns:
            Statistics, see `imitbench.data.rollout.rollout_stats`.

        Raises:
            ValueError: There is no `rl_algo`, or `n_trajectories` is not positive.
        """
        acting = acting_as_given(self._algorithm())
        # The reset below means that training must begin new episodes.
        self._generator = None
        trajectories = rollout.generate_trajectories(
            acting, self.venv, rollout.make_min_episodes(n_trajectories), self.rng
        )
        if not true_reward:
            trajectories = [self._relabelled(trajectory) for trajectory in trajectories]
        return rollout.rollout_stats(trajectories)

    def _relabelled(self, trajectory: types.TrajectoryWithRew) -> types.TrajectoryWithRew:
        obs, steps = trajectory.obs, np.arange(len(trajectory))
        rewards = self(obs[:-1], trajectory.acts, obs[1:], None, steps)
        return dataclasses.replace(trajectory, rews=rewards)

    def state_dict(self) -> dict[str, Any]:
        """Everything that further training depends on.

        Excludes the state of the environments and of torch's and NumPy's global generators.

        Returns:
            Tensors, arrays, numbers, strings, `None`, and lists and dictionaries of them.
        """
        state: dict[str, Any] = {"generator": None, "algorithm": None}
        if self._generator is not None:
            state["generator"] = self._generator.state_dict()
        elif self.rl_algo is not None:
            state["algorithm"] = algorithm_state(self.rl_algo)
        return state | {
            "transitions": [rows.copy() for rows in self.transitions.values()],
            "fitted": self._density is not None,
            "steps": None if self._clock is None else self._clock.steps.copy(),
            "rng": copy.deepcopy(self.rng.bit_generator.state),
            "horizon": self._horizon,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned; restore the environments after that.

        Args:
            state: The state of an instance with the same arguments; it includes demonstrations.

        Raises:
            ValueError: Only the state or only this instance has an `rl_algo`, or is stationary.
        """
        trained = state["generator"] is not None or state["algorithm"] is not None
        if trained != (self.rl_algo is not None):
            raise ValueError(f"rl_algo: the state was made with{'' if trained else 'out'} one")
        if (state["steps"] is None) != self.is_stationary:
            raise ValueError("is_stationary: the state was made with another value")
        self.transitions = {
            None if self.is_stationary else time: rows.copy()
            for time, rows in enumerate(state["transitions"])
        }
        self._density = None
        if state["fitted"]:
            self.train()
        if self.rl_algo is not None:
            if state["generator"] is None:
                self._generator = None
                load_algorithm_state(self.rl_algo, state["algorithm"])
            else:
                self._generator = self._generator or self._make_generator(self.rl_algo)
                self._generator.load_state_dict(state["generator"])
        if self._clock is not None:
            self._clock.steps[:] = state["steps"]
        self.rng.bit_generator.state = state["rng"]
        self._horizon = state["horizon"]
