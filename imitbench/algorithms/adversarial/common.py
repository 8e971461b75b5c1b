"""What GAIL and AIRL share: a discriminator and a generator, trained alternately."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv
from tqdm import tqdm

from imitbench.algorithms import base
from imitbench.algorithms.adversarial.discriminator import (
    Array,
    ExpertBatches,
    Regularization,
    Summaries,
    as_fields,
    compute_train_stats,
    endless_batches,
    gradient_penalty,
    train_step,
)
from imitbench.algorithms.adversarial.expert_initialization import (
    ExpertInitialization,
    PolicyInitializer,
)
from imitbench.algorithms.adversarial.generator import (
    Experience,
    ExperienceStore,
    make_generator,
    steps_per_round,
    venv_with_rewards,
)
from imitbench.algorithms.demonstration_fit import FIELDS, check_action_space
from imitbench.data import types
from imitbench.rewards.reward_nets import RewardNet
from imitbench.rl.stable_ppo import train_as_lean
from imitbench.rl.training import check_algorithm
from imitbench.util.adam import load_optimizer_state, with_fused
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.networks import training
from imitbench.util.util import AnyPath

__all__ = ["AdversarialTrainer", "compute_train_stats"]


class AdversarialTrainer(base.DemonstrationAlgorithm[types.Transitions]):
    """Base of adversarial imitation learning.

    Args:
        demonstrations: Trajectories, transitions or batches of transitions of the expert; `None`
            when they are set later.
        demo_batch_size: Expert samples in each batch of the discriminator, with as many of the
            generator.
        venv: Environments of the generator.
        gen_algo: Reinforcement-learning algorithm of the generator. Its environment and its logger
            are replaced. With `imitbench.rl.ppo.PPO`, rewards are computed once per rollout. The
            PPO of Stable-Baselines3 is trained in the same way if its settings allow it, see
            `lean`.
        reward_net: Network of the discriminator and the reward.
        demo_minibatch_size: Samples of each kind in one pass through the network; gradients are
            accumulated over a batch. A divisor of `demo_batch_size`, its default.
        n_disc_updates_per_round: Discriminator updates after each round of the generator.
        log_dir: Folder of TensorBoard summaries.
        disc_opt_cls: Class of the discriminator's optimizer.
        disc_opt_kwargs: Keyword arguments of that optimizer.
        gen_train_timesteps: Environment steps per round; by default one rollout of an on-policy
            generator, or the steps between two updates of an off-policy one.
        gen_replay_buffer_capacity: Number of latest generator transitions that the discriminator is
            trained on; by default those of one round.
        gen_history_share: Share of the generator's transitions in each batch of the discriminator
            that are drawn from the whole training instead of the latest ones, in [0, 1]. Fitted to
            the latest policies alone, which end up much like the expert, a reward forgets how
            other behavior compares.
        custom_logger: Where to log; a new logger when `None`.
        init_tensorboard: Whether histograms of the logits are written for TensorBoard.
        init_tensorboard_graph: Whether the network's graph is written as well.
        debug_use_ground_truth: Whether the generator is trained on the environment's own reward, to
            check that it can learn.
        allow_variable_horizon: Whether episodes of different length are accepted.
        rng: Draws batches; by default seeded from torch's global generator.
        regularization: Regularization of the discriminator; none by default.
        start: How demonstrations initialize the generator's policy; not at all by default.
        lean: Whether Stable-Baselines3's PPO gets the class `imitbench.rl.stable_ppo.StablePPO`,
            which computes the same faster. Where it cannot, a warning says why.

    Attributes:
        generator: The generator.
        venv: The environment without the learned reward.
        venv_train: The environment as the generator sees it.
        gen_train_timesteps: Environment steps of a round.

    Raises:
        ValueError: A batch size is not positive or not a divisor, `gen_history_share` is not in
            [0, 1], observations are dictionaries, `gen_algo` is not an algorithm or has other
            spaces, or demonstrations are empty, not finite, fewer than a batch or of other shapes.
    """

    reads_actions = True
    """Whether the discriminator sees the expert's actions; without, zeros stand for them."""

    def __init__(
        self,
        *,
        demonstrations: base.AnyTransitions | None,
        demo_batch_size: int,
        venv: VecEnv,
        gen_algo: BaseAlgorithm,
        reward_net: RewardNet,
        demo_minibatch_size: int | None = None,
        n_disc_updates_per_round: int = 2,
        log_dir: AnyPath = "output/",
        disc_opt_cls: type[th.optim.Optimizer] = th.optim.Adam,
        disc_opt_kwargs: Mapping[str, Any] | None = None,
        gen_train_timesteps: int | None = None,
        gen_replay_buffer_capacity: int | None = None,
        gen_history_share: float = 0.0,
        custom_logger: HierarchicalLogger | None = None,
        init_tensorboard: bool = False,
        init_tensorboard_graph: bool = False,
        debug_use_ground_truth: bool = False,
        allow_variable_horizon: bool = False,
        rng: np.random.Generator | None = None,
        regularization: Regularization | None = None,
        start: ExpertInitialization | None = None,
        lean: bool = True,
    ) -> None:
        if isinstance(venv.observation_space, spaces.Dict):
            raise ValueError("venv: dictionary observations are not supported by reward networks")
        check_action_space(venv.action_space)
        check_algorithm(gen_algo, venv, "gen_algo")
        base.check_batch_size(demo_batch_size, "demo_batch_size")
        minibatch_size = demo_minibatch_size or demo_batch_size
        if demo_batch_size % minibatch_size:
            raise ValueError(
                f"demo_minibatch_size {minibatch_size} does not divide "
                f"demo_batch_size {demo_batch_size}"
            )
        if not 0 <= gen_history_share <= 1:
            raise ValueError(f"gen_history_share must lie in [0, 1], not {gen_history_share}")
        if lean:
            train_as_lean(gen_algo, "gen_algo")
        self.venv = venv
        self.gen_algo = gen_algo
        self.demo_batch_size = demo_batch_size
        self.demo_minibatch_size = minibatch_size
        self.n_disc_updates_per_round = n_disc_updates_per_round
        self.debug_use_ground_truth = debug_use_ground_truth
        self._rng = (
            rng if rng is not None else np.random.default_rng(int(th.randint(2**63 - 1, ())))
        )
        self._regularization = regularization or Regularization()
        self._start = PolicyInitializer(start or ExpertInitialization(), gen_algo)
        self._expert: Iterator[dict[str, Array]] | None = None
        self._global_step = 0
        self._disc_step = 0
        self._reward_net = reward_net.to(gen_algo.device)
        reward_fn = None if debug_use_ground_truth else self._generator_reward
        self.generator = make_generator(gen_algo, venv, reward_fn)
        self.venv_train = self.generator.venv_train
        super().__init__(
            demonstrations=demonstrations,
            custom_logger=custom_logger,
            allow_variable_horizon=allow_variable_horizon,
        )
        self.gen_algo.set_logger(self.logger)
        self._disc_opt = disc_opt_cls(
            self._reward_net.parameters(), **with_fused(disc_opt_cls, disc_opt_kwargs or {})
        )
        self.gen_train_timesteps = gen_train_timesteps or steps_per_round(gen_algo)
        capacity = gen_replay_buffer_capacity or self.gen_train_timesteps
        self._gen_replay_buffer = ExperienceStore(capacity, gen_history_share, venv)
        self._summaries = (
            Summaries(log_dir, self._reward_net if init_tensorboard_graph else None)
            if init_tensorboard
            else None
        )

    @property
    def policy(self) -> BasePolicy:
        """The generator's policy."""
        policy = self.gen_algo.policy
        assert policy is not None, "an algorithm has its policy from the start"
        return policy

    @property
    def venv_wrapped(self) -> VecEnv:
        """The environment with the generator's reward at every step.

        If rewards are computed per rollout, each access creates a wrapper, which resets the
        environment. With `debug_use_ground_truth` it is `venv_train`.
        """
        if self.debug_use_ground_truth:
            return self.venv_train
        return venv_with_rewards(self.generator, self.venv, self._generator_reward)

    def _pass_on_logger(self, logger: HierarchicalLogger) -> None:
        self.gen_algo.set_logger(logger)

    @abstractmethod
    def logits_expert_is_high(
        self,
        state: th.Tensor,
        action: th.Tensor,
        next_state: th.Tensor,
        done: th.Tensor,
        log_policy_act_prob: th.Tensor | None = None,
    ) -> th.Tensor:
        """Computes the discriminator's logits: high if a transition looks like the expert's.

        Args:
            state: Preprocessed observations, shape (batch, …).
            action: Preprocessed actions, shape (batch, …).
            next_state: Preprocessed observations after the actions, shape (batch, …).
            done: Whether the episode ended there, shape (batch,).
            log_policy_act_prob: Log-probability of the actions under the generator, shape (batch,);
                `None` if it has none.

        Returns:
            Shape (batch,).
        """

    @property
    @abstractmethod
    def reward_train(self) -> RewardNet:
        """The reward that the generator is trained on."""

    @property
    @abstractmethod
    def reward_test(self) -> RewardNet:
        """The reward to train other policies on afterwards."""

    def _generator_reward(
        self, state: Array, action: Array, next_state: Array, done: Array
    ) -> Array:
        """Rewards of the generator; arguments and result as in `RewardFn`."""
        return self.reward_train.predict_processed(state, action, next_state, done)

    def _log_action_probability(self, batch: Mapping[str, Array]) -> th.Tensor | None:
        """Log-probability of actions under the generator; `None` if logits do not depend on it."""
        return None

    def set_demonstrations(self, demonstrations: base.AnyTransitions) -> None:
        """Replaces the demonstrations.

        Args:
            demonstrations: Trajectories, transitions, or an iterable of batches of
                `demo_batch_size` with `obs`, `acts`, `next_obs` and `dones`.

        Raises:
            ValueError: Demonstrations are empty, not finite, fewer than a batch, of other shapes,
                or lack next observations.
        """
        self._expert = endless_batches(
            demonstrations,
            self.demo_batch_size,
            self.venv,
            self._rng,
            read_actions=self.reads_actions,
        )

    def train(self, total_timesteps: int, callback: Callable[[int], None] | None = None) -> None:
        """Trains generator and discriminator alternately.

        Args:
            total_timesteps: Maximum number of environment steps; only whole rounds are run.
            callback: Called with the number of each completed round, from 0.

        Raises:
            ValueError: `total_timesteps` is less than one round, there are no demonstrations, or
                episodes have different lengths without `allow_variable_horizon`.
        """
        rounds = total_timesteps // self.gen_train_timesteps
        if rounds < 1:
            raise ValueError(
                f"total_timesteps {total_timesteps} is less than the {self.gen_train_timesteps} "
                "steps of a single round (gen_train_timesteps)"
            )
        for number in tqdm(range(rounds), desc="round", disable=None):
            self.train_gen(self.gen_train_timesteps)
            for _ in range(self.n_disc_updates_per_round):
                self.train_disc()
            if callback is not None:
                callback(number)
            self.logger.dump(self._global_step)

    def train_gen(
        self,
        total_timesteps: int | None = None,
        learn_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """Trains the generator on the learned reward, and stores its transitions.

        Args:
            total_timesteps: Environment steps; those of one round by default.
            learn_kwargs: Arguments of the algorithm's `learn`.

        Raises:
            ValueError: Episodes have different lengths without `allow_variable_horizon`.
        """
        steps = self.gen_train_timesteps if total_timesteps is None else total_timesteps
        self.begin_round()
        with self.logger.accumulate_means("gen"):
            experience = self.generator.learn(steps, **(learn_kwargs or {}))
        self.end_round(experience)

    def begin_round(self) -> None:
        """What `train_gen` does before the generator learns."""
        if self._global_step == 0:
            self._start.begin(self._expert, self._rng)
        self._start.before_round()

    def end_round(self, experience: Experience) -> None:
        """What `train_gen` does after the generator has learnt.

        Args:
            experience: What it has gained.

        Raises:
            ValueError: See `train_gen`.
        """
        self._start.after_round(self._expert)
        self._global_step += 1
        self._check_fixed_horizon(experience.episode_lengths)
        if experience.transitions:
            self._gen_replay_buffer.store(experience.transitions, self._rng)

    def train_disc(
        self,
        *,
        expert_samples: Mapping[str, Any] | None = None,
        gen_samples: Mapping[str, Any] | None = None,
    ) -> Mapping[str, float]:
        """Updates the discriminator once.

        Args:
            expert_samples: Arrays or tensors under `obs`, `acts`, `next_obs` and `dones`,
                `demo_batch_size` samples; drawn from the demonstrations by default.
            gen_samples: The same of the generator; drawn from its latest transitions by default.

        Returns:
            Statistics, see `compute_train_stats`.

        Raises:
            ValueError: Samples lack a field or are not `demo_batch_size`, or there are no
                demonstrations.
            RuntimeError: The generator has no transitions yet.
        """
        expert, generated = self._samples(expert_samples, gen_samples)
        with self.logger.accumulate_means("disc"), training(self.reward_train):
            logits, labels, loss = train_step(
                self._disc_opt,
                self._logits_of,
                expert,
                generated,
                self.demo_minibatch_size,
                self._regularization.label_smoothing,
                self._penalty_of if self._regularization.gradient_penalty else None,
            )
            self._disc_step += 1
            stats = compute_train_stats(logits, labels, loss)
            self.logger.record("global_step", self._global_step)
            for name, value in stats.items():
                self.logger.record(name, value)
            self.logger.dump(self._disc_step)
        if self._summaries is not None:
            self._summaries.write(self._disc_step, logits, expert)
        return stats

    def _samples(
        self, expert_samples: Mapping[str, Any] | None, gen_samples: Mapping[str, Any] | None
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        size = self.demo_batch_size
        if expert_samples is not None:
            expert = as_fields(expert_samples, "expert_samples", size)
        elif self._expert is None:
            raise ValueError("no demonstrations; call set_demonstrations() first")
        else:
            expert = next(self._expert)
        if gen_samples is not None:
            return expert, as_fields(gen_samples, "gen_samples", size)
        return expert, self._gen_replay_buffer.sample(size, self._rng)

    def _logits_of(self, batch: Mapping[str, Array]) -> th.Tensor:
        log_probability = self._log_action_probability(batch)
        inputs = self.reward_train.preprocess(*(batch[name] for name in FIELDS))
        return self.logits_expert_is_high(*inputs, log_probability)

    def _penalty_of(self, expert: Mapping[str, Array], generated: Mapping[str, Array]) -> th.Tensor:
        weight = self._regularization.gradient_penalty
        return weight * gradient_penalty(self._penalized_net, expert, generated, self._rng)

    @property
    def _penalized_net(self) -> RewardNet:
        """The learned part of the logits."""
        return self._reward_net

    def state_dict(self) -> dict[str, Any]:
        """A copy of everything that further training depends on, at the end of a round.

        Excludes the state of the environments, torch's and NumPy's global generators, and the
        position in demonstrations given as batches.
        """
        return {
            # The other parts return copies.
            "reward_net": copy.deepcopy(self._reward_net.state_dict()),
            "disc_opt": copy.deepcopy(self._disc_opt.state_dict()),
            "generator": self.generator.state_dict(),
            "replay_buffer": self._gen_replay_buffer.state_dict(),
            "expert": self._expert.state_dict()
            if isinstance(self._expert, ExpertBatches)
            else None,
            "rng": self._rng.bit_generator.state,
            "steps": (self._global_step, self._disc_step),
            "horizon": self._horizon,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ValueError: The state is of other demonstrations.
        """
        if isinstance(self._expert, ExpertBatches) != (state["expert"] is not None):
            raise ValueError("state: call set_demonstrations() with its demonstrations first")
        if isinstance(self._expert, ExpertBatches):
            self._expert.load_state_dict(state["expert"])
        self._reward_net.load_state_dict(state["reward_net"])
        load_optimizer_state(self._disc_opt, state["disc_opt"])
        self.generator.load_state_dict(state["generator"])
        self._gen_replay_buffer.load_state_dict(state["replay_buffer"])
        self._rng.bit_generator.state = state["rng"]
        self._global_step, self._disc_step = state["steps"]
        self._horizon = state["horizon"]
