"""The agents: trained on the learned reward, they sample the trajectories to compare."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms.off_policy.rewarded import RewardedTrainer
from imitbench.algorithms.preference_comparisons.trajectory_generators import (
    TrajectoryGenerator,
    first_with_steps,
)
from imitbench.data import rollout
from imitbench.data.policy_callable import (
    PolicyCallable,
    States,
    policy_to_callable,
    seeded_sampling,
)
from imitbench.data.trajectories import trajectory_from_state, trajectory_state
from imitbench.data.types import TrajectoryWithRew
from imitbench.data.wrappers import BufferingWrapper
from imitbench.policies.exploration_wrapper import ExplorationWrapper
from imitbench.rewards.reward_function import RewardFn
from imitbench.rewards.reward_nets import RewardNet
from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper
from imitbench.rl.numpy_policy import NumpyActor, can_act
from imitbench.rl.packed_ppo import JoinedEnvironments, OwnGenerators, PackedPPO
from imitbench.rl.ppo import PPO, LearntReturns
from imitbench.rl.stable_ppo import train_as_lean
from imitbench.rl.training import (
    acting_as_given,
    algorithm_state,
    check_algorithm,
    continue_learning,
    load_algorithm_state,
)
from imitbench.util import logger as imit_logger

Array = npt.NDArray[Any]


class AgentTrainer(TrajectoryGenerator):
    """Trains an algorithm on any reward function, and samples trajectories with true rewards.

    With `imitbench.rl.ppo.PPO`, rewards are computed once per rollout, and with the PPO of
    Stable-Baselines3 if its settings allow it, see `lean`. Other algorithms of Stable-Baselines3
    act in a wrapped environment that computes them at each step. Sampling
    computes no learned rewards: `rollout/ep_rew_wrapped_mean`, and the statistics of normalized
    rewards, cover training only.

    Args:
        algorithm: Algorithm of Stable-Baselines3. Its environment and its logger are replaced.
        reward_fn: A function, or a reward network, whose `predict_processed` is used.
        venv: Environments to act in; they are reset. Images may be channels-last.
        rng: Source of randomness in exploration and sampling.
        exploration_frac: Share of sampled steps with additional random actions, in [0, 1].
        switch_prob: Probability at each exploratory step of drawing again who acts.
        random_prob: Probability at each of these draws that actions are random.
        custom_logger: Where to log; a new logger when `None`.
        lean: Whether Stable-Baselines3's PPO gets the class `imitbench.rl.stable_ppo.StablePPO`,
            which computes the same faster. Where it cannot, a warning says why.

    Attributes:
        reward_fn: The reward function in use.
        buffering_wrapper: The environment with true rewards; it records trajectories.
        venv: The environment with learned rewards.
        reward_venv_wrapper: The same object as `venv`.
        log_callback: Logs the mean learned return during training.
        exploration_wrapper: The policy of exploratory steps.

    Raises:
        ValueError: The algorithm or the network has other spaces or another number of environments
            than `venv`, observations are dictionaries, or a number is out of range.
    """

    def __init__(
        self,
        algorithm: BaseAlgorithm,
        reward_fn: RewardFn | RewardNet,
        venv: VecEnv,
        rng: np.random.Generator,
        exploration_frac: float = 0.0,
        switch_prob: float = 0.5,
        random_prob: float = 0.5,
        custom_logger: imit_logger.HierarchicalLogger | None = None,
        lean: bool = True,
    ) -> None:
        if not 0 <= exploration_frac <= 1:
            raise ValueError(f"exploration_frac must lie in [0, 1], not {exploration_frac}")
        if isinstance(venv.observation_space, spaces.Dict):
            raise ValueError("venv: dictionary observations are not supported by rewards")
        check_algorithm(algorithm, venv, "algorithm", transposed=True)
        if isinstance(reward_fn, RewardNet):
            _check_spaces(reward_fn, venv)
            reward_fn = reward_fn.predict_processed
        if lean:
            train_as_lean(algorithm, "algorithm")
        self.algorithm = algorithm
        self.reward_fn: RewardFn = reward_fn
        self.exploration_frac = exploration_frac
        self.rng = rng
        # The innermost wrapper, so that it sees true rewards, and images as the network does.
        self.buffering_wrapper = BufferingWrapper(venv)
        self.reward_venv_wrapper = RewardVecEnvWrapper(
            self.buffering_wrapper, _FiniteRewards(reward_fn)
        )
        self.venv = self.reward_venv_wrapper
        self.log_callback: BaseCallback = self._attach()
        self._numpy_actor = NumpyActor(algorithm)
        self._acting: PolicyCallable | None = None
        self.exploration_wrapper = ExplorationWrapper(
            policy=self._act,
            venv=self.buffering_wrapper,
            random_prob=random_prob,
            switch_prob=switch_prob,
            rng=rng,
        )
        # Last, because it passes the logger on to the algorithm.
        super().__init__(custom_logger)

    def _attach(self) -> BaseCallback:
        """Sets the environment and the rewards of the algorithm; returns the logging callback."""
        if isinstance(self.algorithm, PPO) and self.algorithm.lean:
            self.algorithm.set_env(self.buffering_wrapper)
            self.algorithm.reward_fn = self.reward_fn
            return LearntReturns(self.buffering_wrapper.num_envs)
        self.algorithm.set_env(self.reward_venv_wrapper)
        return self.reward_venv_wrapper.make_log_callback()

    def train(self, steps: int, **kwargs: Any) -> None:
        """Trains the agent on the reward function.

        Args:
            steps: Environment steps; on-policy algorithms complete their last rollout.
            **kwargs: Passed on to the algorithm's `learn`.

        Raises:
            RuntimeError: `sample` was not called after the last training.
            ValueError: A reward is not finite.
        """
        self.check_collected()
        continue_learning(self.algorithm, steps, self.log_callback, kwargs)

    def check_collected(self) -> None:
        """Checks that no transitions of an earlier training wait for `sample`.

        Raises:
            RuntimeError: `sample` was not called after the last training.
        """
        waiting = self.buffering_wrapper.n_transitions
        if waiting:
            raise RuntimeError(
                f"the last training left {waiting} uncollected transitions; call "
                "AgentTrainer.sample() before the next training"
            )

    def sample(self, steps: int) -> Sequence[TrajectoryWithRew]:
        """Returns the trajectories of training, latest first, and collects missing steps.

        Exploratory trajectories come last; all are whole episodes with true rewards. Collecting
        resets the environments, also for the next training.
        """
        exploratory = int(self.exploration_frac * steps)
        if self.exploration_frac > 0 and exploratory == 0 < steps:
            self.logger.warn(
                f"exploration_frac {self.exploration_frac} of {steps} steps is less than one step: "
                "nothing will be explored"
            )
        wanted = steps - exploratory
        finished, _ = self.buffering_wrapper.pop_finished_trajectories()
        trajectories = list(reversed(finished))
        available = sum(map(len, trajectories))
        if available < wanted:
            missing = wanted - available
            self.logger.log(
                f"Requested {wanted} transitions but only {available} in buffer. "
                f"Sampling {missing} additional transitions."
            )
            trajectories += self._collect(self._act, missing)
        chosen = list(first_with_steps(trajectories, wanted))
        if exploratory > 0:
            self.logger.log(f"Sampling {exploratory} exploratory transitions.")
            explored = self._collect(self.exploration_wrapper, exploratory)
            chosen += first_with_steps(explored, exploratory)
        return chosen

    def _collect(self, policy: PolicyCallable, steps: int) -> Sequence[TrajectoryWithRew]:
        """Collects whole episodes in the unwrapped environment, in random order."""
        self._acting = self._current_policy()
        # A policy on another device draws its samples there.
        with seeded_sampling(self.algorithm, self.rng):
            collected = rollout.generate_trajectories(
                policy,
                self.buffering_wrapper.venv,
                rollout.make_min_timesteps(steps),
                self.rng,
            )
        self._start_training_anew()
        return collected

    def _current_policy(self) -> PolicyCallable:
        """The agent's stochastic policy, for observations of the unwrapped environment."""
        if can_act(self.algorithm):
            return self._numpy_actor.policy()
        return policy_to_callable(acting_as_given(self.algorithm), self.buffering_wrapper)

    def _act(
        self, obs: Array | dict[str, Array], state: States, starts: Array | None
    ) -> tuple[Array, States]:
        """Acts by the policy from the start of the current `_collect`."""
        assert self._acting is not None, "_collect set it"
        return self._acting(obs, state, starts)

    def _start_training_anew(self) -> None:
        """Makes the next training start with a reset, because the environments have moved on."""
        self.algorithm._last_obs = None
        if isinstance(self.log_callback, LearntReturns):
            self.log_callback.restart()

    def _pass_on_logger(self, logger: imit_logger.HierarchicalLogger) -> None:
        self.algorithm.set_logger(logger)

    def state_dict(self) -> dict[str, Any]:
        """Everything that further training and sampling depend on, with uncollected trajectories.

        Excludes their infos, see `BufferingWrapper.state_dict`, and the state of the environments,
        of the reward, and of torch's and NumPy's global generators.
        """
        return {
            "algorithm": algorithm_state(self.algorithm),
            "buffer": self.buffering_wrapper.state_dict(),
            "returns": self._returns.state_dict(),
            "exploration": self.exploration_wrapper.state_dict(),
            "rng": self.rng.bit_generator.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, in a trainer with the same arguments."""
        load_algorithm_state(self.algorithm, state["algorithm"])
        self.buffering_wrapper.load_state_dict(state["buffer"])
        self._returns.load_state_dict(state["returns"])
        self.exploration_wrapper.load_state_dict(state["exploration"])
        self.rng.bit_generator.state = state["rng"]

    @property
    def _returns(self) -> LearntReturns | RewardVecEnvWrapper:
        """The object that sums learned rewards."""
        if isinstance(self.log_callback, LearntReturns):
            return self.log_callback
        return self.reward_venv_wrapper


class AgentPack:
    """Trains the agents of several seeds as one batched network, see `PackedPPO`.

    Each samples for itself.

    Args:
        agents: The agent of each seed, with `imitbench.rl.ppo.PPO` on the CPU; they differ only in
            parameters, data and rewards.
        randomness: Global generators of each seed, as they are after its agent was made.
        device: Where updates are computed.

    Raises:
        ValueError: An agent cannot be trained together with others, see `PackedPPO`.
    """

    def __init__(
        self,
        agents: Sequence[AgentTrainer],
        randomness: Sequence[OwnGenerators],
        device: str | th.device = "cpu",
    ) -> None:
        self._agents = list(agents)
        self._algorithms: list[PPO] = []
        for agent in agents:
            if not isinstance(agent.algorithm, PPO):
                raise ValueError("algorithm must be imitbench.rl.ppo.PPO")
            self._algorithms.append(agent.algorithm)
        venv = JoinedEnvironments([agent.buffering_wrapper for agent in agents])
        self._ppo = PackedPPO(self._algorithms, venv, randomness, device)

    def train(self, steps: int) -> None:
        """Trains all agents, each as `AgentTrainer.train` does.

        Args:
            steps: Environment steps of each seed.

        Raises:
            RuntimeError: `sample` of a seed was not called after the last training.
            ValueError: A reward is not finite, or training of a seed diverged.
        """
        for agent, ppo in zip(self._agents, self._algorithms, strict=True):
            agent.check_collected()
            if ppo._last_obs is None:
                ppo._last_obs = agent.buffering_wrapper.reset()  # type: ignore[assignment]
                ppo._last_episode_starts = np.ones(ppo.n_envs, dtype=bool)
        self._ppo.learn(steps, [agent.log_callback for agent in self._agents])


class _FiniteRewards:
    """A reward function that raises a `ValueError` for rewards that are not finite."""

    def __init__(self, reward_fn: RewardFn) -> None:
        self._reward_fn = reward_fn

    def __call__(self, state: Array, action: Array, next_state: Array, done: Array) -> Array:
        rewards = self._reward_fn(state, action, next_state, done)
        if not np.isfinite(rewards).all():
            raise ValueError("reward_fn returned rewards that are not finite")
        return rewards


def _check_spaces(net: RewardNet, venv: VecEnv) -> None:
    for name in ("observation_space", "action_space"):
        own, given = getattr(net, name), getattr(venv, name)
        if own != given:
            raise ValueError(f"reward_fn is a network for {name} {own}, but venv has {given}")


class ReplayAgent(TrajectoryGenerator):
    """Trains an off-policy agent, and gives the latest episodes of its training.

    Sampling takes no environment steps of its own: the episodes are those that the agent was
    trained on. `PreferenceComparisons` with this agent, an ensemble and
    `ActiveSelectionFragmenter` is PEBBLE (Lee, Smith and Abbeel 2021, arXiv:2106.05091).

    Args:
        trainer: The agent, whose environments are `buffering`.
        buffering: Records the episodes with their true rewards.
        recent: Number of latest episodes that are sampled from.
        custom_logger: Where to log; a new logger when `None`.

    Raises:
        ValueError: `recent` is not positive.
    """

    def __init__(
        self,
        trainer: RewardedTrainer,
        buffering: BufferingWrapper,
        recent: int = 100,
        custom_logger: imit_logger.HierarchicalLogger | None = None,
    ) -> None:
        super().__init__(custom_logger)
        if recent < 1:
            raise ValueError(f"recent must be at least 1, not {recent}")
        self.trainer = trainer
        self._buffering = buffering
        self._episodes: deque[TrajectoryWithRew] = deque(maxlen=recent)

    def pretrain(self, steps: int) -> None:
        """Explores without a reward function: first at random, then for novelty.

        Args:
            steps: Environment steps.
        """
        self.trainer.train_seeds(steps)

    def sample(self, steps: int) -> Sequence[TrajectoryWithRew]:
        """Returns the latest episodes of the training, oldest first.

        Args:
            steps: Not used; fragments may overlap.

        Raises:
            RuntimeError: No episode has ended yet.
        """
        del steps
        self._collect()
        if not self._episodes:
            raise RuntimeError("no episode has ended yet; train for more steps first")
        return list(self._episodes)

    def train(self, steps: int, **kwargs: Any) -> None:
        """Computes the rewards of the replay buffer anew, and trains the agent on them."""
        del kwargs
        if self.trainer.began:
            self.trainer.relabel()
        else:
            self.trainer.begin()
        for name, value in self.trainer.train_seeds(steps)[0].items():
            self.logger.record(name, value)
        self._collect()

    def _collect(self) -> None:
        self._episodes.extend(self._buffering.pop_finished_trajectories()[0])

    def state_dict(self) -> dict[str, Any]:
        """State of the agent with its replay buffer, and the latest episodes without infos.

        Excludes the state of the environments and of the reward function.
        """
        return {
            "trainer": self.trainer.state_dict(),
            "buffering": self._buffering.state_dict(),
            "episodes": [trajectory_state(episode) for episode in self._episodes],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.trainer.load_state_dict(state["trainer"])
        self._buffering.load_state_dict(state["buffering"])
        self._episodes.clear()
        self._episodes.extend(trajectory_from_state(episode) for episode in state["episodes"])
