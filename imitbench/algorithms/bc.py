"""Behavioral cloning: supervised learning of the expert's actions.

Source: Pomerleau 1991, "Efficient Training of Artificial Neural Networks for Autonomous
Navigation".
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor
from stable_baselines3.common.utils import get_device
from stable_baselines3.common.vec_env import VecEnv
from tqdm.auto import tqdm

from imitbench.algorithms import base
from imitbench.algorithms.bc_loss import (
    BCLogger,
    BCTrainingMetrics,
    BehaviorCloningLossCalculator,
    LossCalculator,
    RolloutStatsComputer,
)
from imitbench.algorithms.demonstration_fit import (
    check_action_space,
    check_fit,
    check_observation_space,
)
from imitbench.data import types
from imitbench.policies.base import FeedForward32Policy
from imitbench.util.adam import load_optimizer_state, with_fused
from imitbench.util.library_patches import leave_compiler_unloaded
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.networks import evaluating
from imitbench.util.util import safe_to_tensor

__all__ = [
    "BC",
    "BCLogger",
    "BCTrainingMetrics",
    "BatchIteratorWithEpochEndCallback",
    "BehaviorCloningLossCalculator",
    "RolloutStatsComputer",
    "enumerate_batches",
    "reconstruct_policy",
]

TensorBatch = Mapping[str, Any]
"""`obs` (a tensor, or a dictionary of tensors) and `acts` (a tensor)."""


class BC(base.DemonstrationAlgorithm[types.TransitionsMinimal]):
    """Behavioral cloning.

    Args:
        observation_space: Must fit the demonstrations and equal that of the policy.
        action_space: Must fit the demonstrations and equal that of the policy.
        rng: Draws the order of the demonstrations and seeds rollouts.
        policy: Policy to train; a new `FeedForward32Policy` when `None`.
        demonstrations: Demonstrations; `None` to set them later.
        batch_size: Transitions for each optimizer step.
        minibatch_size: Transitions for each backward pass; gradients are accumulated over a batch,
            to save memory. `batch_size` when `None`.
        optimizer_cls: Class of the optimizer.
        optimizer_kwargs: Keyword arguments of the optimizer, without `weight_decay`.
        ent_weight: Weight of the entropy bonus.
        l2_weight: Weight of half the sum of squared parameters.
        device: Device of the policy.
        custom_logger: Where to log; a new logger when `None`.

    Raises:
        ValueError: `optimizer_kwargs` has `weight_decay`; `batch_size` is not a multiple of
            `minibatch_size`; the spaces of the policy or the demonstrations differ from those
            given; a discrete space does not start at 0; demonstrations are empty, not finite or
            fewer than a batch.
    """

    def __init__(
        self,
        *,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        rng: np.random.Generator,
        policy: ActorCriticPolicy | None = None,
        demonstrations: base.AnyTransitions | None = None,
        batch_size: int = 32,
        minibatch_size: int | None = None,
        optimizer_cls: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: Mapping[str, Any] | None = None,
        ent_weight: float = 1e-3,
        l2_weight: float = 0.0,
        device: str | th.device = "auto",
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        base.check_batch_size(batch_size)
        self.batch_size = batch_size
        self.minibatch_size = batch_size if minibatch_size is None else minibatch_size
        base.check_batch_size(self.minibatch_size, "minibatch_size")
        check_action_space(action_space)
        check_observation_space(observation_space)
        if batch_size % self.minibatch_size != 0:
            raise ValueError(
                f"batch_size {batch_size} is not a multiple of minibatch_size {self.minibatch_size}"
            )
        if optimizer_kwargs and "weight_decay" in optimizer_kwargs:
            raise ValueError("optimizer_kwargs: use l2_weight instead of weight_decay")
        self.observation_space = observation_space
        self.action_space = action_space
        self.rng = rng
        leave_compiler_unloaded()
        policy = policy or _default_policy(observation_space, action_space)
        self._policy = policy.to(get_device(device))
        for name, own, given in (
            ("observation_space", self._policy.observation_space, observation_space),
            ("action_space", self._policy.action_space, action_space),
        ):
            if own != given:
                raise ValueError(f"policy: its {name} is {own}, not {given}")
        self.loss_calculator: LossCalculator = BehaviorCloningLossCalculator(ent_weight, l2_weight)
        self.optimizer = optimizer_cls(
            self._policy.parameters(), **with_fused(optimizer_cls, optimizer_kwargs or {})
        )
        self._batches: ShuffledTransitions | TensorBatches | None = None
        super().__init__(demonstrations=demonstrations, custom_logger=custom_logger)
        self._bc_logger = BCLogger(self.logger)

    @property
    def policy(self) -> ActorCriticPolicy:
        """The policy that imitates the demonstrations."""
        return self._policy

    def _pass_on_logger(self, logger: HierarchicalLogger) -> None:
        self._bc_logger = BCLogger(logger)

    def set_demonstrations(self, demonstrations: base.AnyTransitions) -> None:
        """Replaces the demonstrations.

        Args:
            demonstrations: Trajectories, transitions, or an iterable of batches of
                `minibatch_size` with `obs` and `acts`.

        Raises:
            ValueError: Demonstrations are empty, not finite, fewer than a batch, or of other
                shapes.
        """
        device = self._policy.device
        _, given = base.split_kinds(demonstrations)
        if not isinstance(given, types.TransitionsMinimal):
            batches = base.make_data_loader(given, self.minibatch_size)
            self._batches = TensorBatches(batches, self._check_fit, device)
            return
        self._check_fit(given.obs, given.acts)
        base.check_enough(given, self.minibatch_size)
        self._batches = ShuffledTransitions(given, self.minibatch_size, self.rng, device)

    def _check_fit(self, obs: Any, acts: Any) -> None:
        check_fit(obs, acts, self.observation_space, self.action_space)

    def train(
        self,
        *,
        n_epochs: int | None = None,
        n_batches: int | None = None,
        on_epoch_end: Callable[[], None] | None = None,
        on_batch_end: Callable[[], None] | None = None,
        log_interval: int = 500,
        log_rollouts_venv: VecEnv | None = None,
        log_rollouts_n_episodes: int = 5,
        progress_bar: bool = True,
        reset_tensorboard: bool = False,
    ) -> None:
        """Trains for a number of passes over the demonstrations, or of batches.

        Calls with `n_batches` continue the pass in which the last such call stopped: two calls with
        `n` batches equal one with `2n`.

        Args:
            n_epochs: Passes over the demonstrations. Give exactly one of this and `n_batches`.
            n_batches: Optimizer steps.
            on_epoch_end: Called after each completed pass.
            on_batch_end: Called after each batch.
            log_interval: Batches between log entries.
            log_rollouts_venv: Environments for evaluations in the log; `None` for none.
            log_rollouts_n_episodes: Episodes of that evaluation; no evaluation if not positive.
            progress_bar: Whether a progress bar is shown.
            reset_tensorboard: Whether the step count of the log restarts at 0.

        Raises:
            ValueError: Not exactly one of `n_epochs` and `n_batches` is given, there are no
                demonstrations, a batch does not fit the spaces, or `log_interval` is below 1.
        """
        if log_interval < 1:
            raise ValueError(f"log_interval must be at least 1, not {log_interval}")
        if self._batches is None:
            raise ValueError("no demonstrations; call set_demonstrations() first")
        if reset_tensorboard:
            self._bc_logger.reset_tensorboard_steps()
        self._bc_logger.log_epoch(0)
        per_batch = self.batch_size // self.minibatch_size

        def end_epoch(number: int) -> None:
            self._bc_logger.log_epoch(number + 1)
            if on_epoch_end is not None:
                on_epoch_end()

        total = n_batches and n_batches * per_batch
        batches = BatchIteratorWithEpochEndCallback(self._batches, n_epochs, total, end_epoch)
        iterator = tqdm(batches, total=total, unit="batch", desc="BC") if progress_bar else batches
        measure = RolloutStatsComputer(log_rollouts_venv, log_rollouts_n_episodes)
        self._policy.set_training_mode(True)
        self._run(enumerate_batches(iterator), per_batch, log_interval, measure, on_batch_end)
        # From here on, normalizing layers keep their statistics.
        self._policy.set_training_mode(False)

    def _run(
        self,
        minibatches: Iterable[tuple[tuple[int, int, int], TensorBatch]],
        per_batch: int,
        log_interval: int,
        measure: RolloutStatsComputer,
        on_batch_end: Callable[[], None] | None,
    ) -> None:
        """The inner loop: backward on each minibatch, a step after each batch."""
        policy, optimizer = self._policy, self.optimizer
        add_gradient = self.loss_calculator.gradient_step(policy)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]

        def end_batch(step: int, samples: int, batch: TensorBatch) -> None:
            metrics = self._measure_loss(batch) if step % log_interval == 0 else None
            optimizer.step()
            for parameter in parameters:  # as zero_grad(), without its overhead
                parameter.grad = None
            if metrics is not None:
                with th.no_grad():
                    stats = measure(policy, self.rng)
                self._bc_logger.log_batch(step, self.batch_size, samples, metrics, stats)
            if on_batch_end is not None:
                on_batch_end()
            if metrics is not None or on_batch_end is not None:
                # An evaluation or a callback may act, which ends the training mode.
                policy.set_training_mode(True)

        optimizer.zero_grad()
        position = per_batch - 1
        for (number, _, samples), batch in minibatches:
            add_gradient(batch["obs"], batch["acts"], 1 / per_batch)
            step, position = divmod(number, per_batch)
            if position == per_batch - 1:
                end_batch(step, samples, batch)
        if position != per_batch - 1:  # the last pass ended within a batch
            end_batch(step, samples, batch)

    def _measure_loss(self, batch: TensorBatch) -> Any:
        """Separate from the gradient, so that the log interval cannot change results."""
        with th.no_grad(), evaluating(self._policy):
            return self.loss_calculator(self._policy, batch["obs"], batch["acts"])

    def state_dict(self) -> dict[str, Any]:
        """A copy of everything that further training depends on.

        Returns:
            Tensors, numbers and dictionaries of them; `torch.save` and
            `torch.load(weights_only=True)` store it without pickling classes.
        """
        state: dict[str, Any] = {
            "policy": self._policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": self.rng.bit_generator.state,
        }
        if isinstance(self._batches, ShuffledTransitions):
            state["batches"] = self._batches.state_dict()
        return copy.deepcopy(state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned; the demonstrations must be the same.

        Raises:
            ValueError: The state is of other demonstrations or another batch size.
        """
        if isinstance(self._batches, ShuffledTransitions) != ("batches" in state):
            raise ValueError("state: call set_demonstrations() with its demonstrations first")
        if isinstance(self._batches, ShuffledTransitions):
            self._batches.load_state_dict(state["batches"])
        self._policy.load_state_dict(state["policy"])
        load_optimizer_state(self.optimizer, state["optimizer"])
        self.rng.bit_generator.state = state["rng"]

    def save_policy(self, policy_path: types.AnyPath) -> None:
        """Saves the policy without pickle; `reconstruct_policy` reads it.

        Args:
            policy_path: Folder to write.
        """
        from imitbench.policies.storage import save_policy

        save_policy(self._policy, Path(os.fsdecode(policy_path)))


def reconstruct_policy(
    policy_path: types.AnyPath, device: th.device | str = "auto"
) -> ActorCriticPolicy:
    """Loads a policy that `BC.save_policy` saved.

    Args:
        policy_path: Folder of the policy.
        device: Device of the policy.

    Raises:
        MissingPathError: There is no policy at the path (also a `FileNotFoundError`).
        InputError: The policy is damaged.
        TypeError: The policy is not an actor-critic policy.
    """
    from imitbench.policies.storage import load_policy

    policy = load_policy(Path(os.fsdecode(policy_path)), device=get_device(device))
    if not isinstance(policy, ActorCriticPolicy):
        raise TypeError(
            f"{os.fsdecode(policy_path)}: holds a {type(policy).__name__}, not an ActorCriticPolicy"
        )
    return policy


def _default_policy(
    observation_space: gym.Space[Any], action_space: gym.Space[Any]
) -> ActorCriticPolicy:
    extractor = (
        CombinedExtractor if isinstance(observation_space, gym.spaces.Dict) else FlattenExtractor
    )
    return FeedForward32Policy(
        observation_space=observation_space,
        action_space=action_space,
        # The policy's own optimizer is never used; with this rate a mistake is noticed.
        lr_schedule=lambda _: th.finfo(th.float32).max,
        features_extractor_class=extractor,
    )


class ShuffledTransitions:
    """Passes over transitions, each in a new random order.

    A pass gathers the shuffled data once; its batches are views.

    Args:
        transitions: Observations and actions; copied to `device`.
        batch_size: Transitions in each batch; an incomplete last batch is dropped.
        rng: Draws the order of each pass.
        device: Device of the batches.

    Attributes:
        position: Batches taken from the current pass.
    """

    def __init__(
        self,
        transitions: types.TransitionsMinimal,
        batch_size: int,
        rng: np.random.Generator,
        device: th.device,
    ) -> None:
        obs = types.maybe_unwrap_dictobs(transitions.obs)
        self._obs = _to_device(obs, device)
        self._acts = safe_to_tensor(transitions.acts).to(device)
        self._batch_size = batch_size
        self._rng = rng
        self._order: np.ndarray[Any, np.dtype[np.int64]] | None = None
        self.position = 0

    def __len__(self) -> int:
        """Number of batches in a pass."""
        return len(self._acts) // self._batch_size

    def __iter__(self) -> Iterator[TensorBatch]:
        """A new pass."""
        self._order = None
        return self.resume()

    def resume(self) -> Iterator[TensorBatch]:
        """The rest of an interrupted pass, or a new one."""
        if self._order is None or self.position >= len(self):
            self._order = self._rng.permutation(len(self._acts))
            self.position = 0
        index = th.from_numpy(self._order).to(self._acts.device)
        obs, acts = _select(self._obs, index), self._acts[index]
        while self.position < len(self):
            start = self.position * self._batch_size
            part = slice(start, start + self._batch_size)
            self.position += 1
            yield {"obs": _select(obs, part), "acts": acts[part]}

    def state_dict(self) -> dict[str, Any]:
        """Order and position of the current pass, and the size of its batches."""
        order = None if self._order is None else th.from_numpy(self._order.copy())
        return {"order": order, "position": self.position, "batch_size": self._batch_size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ValueError: The state is of another number of transitions, or another batch size.
        """
        order = state["order"]
        if state["batch_size"] != self._batch_size:
            raise ValueError(f"state has batch_size {state['batch_size']}, not {self._batch_size}")
        if order is not None and len(order) != len(self._acts):
            raise ValueError(f"state is of {len(order)} transitions, not {len(self._acts)}")
        self._order = None if order is None else order.numpy().copy()
        self.position = state["position"]


@dataclass(frozen=True)
class TensorBatches:
    """Batches that the user made, moved to the policy's device.

    Attributes:
        batches: Batches with `obs` and `acts`; each iteration is one pass.
        check: Called with the observations and actions of each batch; raises if they are invalid.
        device: Device of the batches.
    """

    batches: Iterable[types.TransitionMapping]
    check: Callable[[Any, Any], None]
    device: th.device

    def __iter__(self) -> Iterator[TensorBatch]:
        """A new pass."""
        for batch in self.batches:
            self.check(batch["obs"], batch["acts"])
            yield {
                "obs": _to_device(types.maybe_unwrap_dictobs(batch["obs"]), self.device),
                "acts": safe_to_tensor(batch["acts"]).to(self.device),
            }

    def resume(self) -> Iterator[TensorBatch]:
        """A new pass: the position in given batches is unknown."""
        return iter(self)


@dataclass(frozen=True)
class BatchIteratorWithEpochEndCallback:
    """Iterates over batches for a number of passes or of batches.

    Attributes:
        batch_loader: Batches; each iteration is one pass.
        n_epochs: Number of passes, or `None`.
        n_batches: Number of batches, or `None`.
        on_epoch_end: Called with the number of each completed pass, from 0.

    Raises:
        ValueError: Not exactly one of `n_epochs` and `n_batches` is given, or it is negative.
    """

    batch_loader: Iterable[TensorBatch]
    n_epochs: int | None
    n_batches: int | None
    on_epoch_end: Callable[[int], None] | None

    def __post_init__(self) -> None:
        if (self.n_epochs is None) == (self.n_batches is None):
            raise ValueError("give exactly one of n_epochs and n_batches")
        if (self.n_epochs or self.n_batches or 0) < 0:
            raise ValueError("n_epochs and n_batches must not be negative")

    def __iter__(self) -> Iterator[TensorBatch]:
        """Yields batches until the number is reached.

        Raises:
            ValueError: A pass has no batches.
        """
        # Counting batches continues where the last call stopped; counting passes starts a new one.
        resume = getattr(self.batch_loader, "resume", None)
        passes = resume() if self.n_batches is not None and resume else iter(self.batch_loader)
        batches, epochs = 0, 0
        while batches != self.n_batches and epochs != self.n_epochs:
            empty = True
            for batch in passes:
                empty = False
                yield batch
                batches += 1
                if batches == self.n_batches and not self._at_end():
                    return
            if empty:
                raise ValueError(
                    "demonstrations: a pass has no batches (an iterator gives a single pass)"
                )
            if self.on_epoch_end is not None:
                self.on_epoch_end(epochs)
            epochs += 1
            passes = iter(self.batch_loader)

    def _at_end(self) -> bool:
        """Whether the loader is known to have yielded its last batch."""
        loader = self.batch_loader
        return isinstance(loader, ShuffledTransitions) and loader.position == len(loader)


def enumerate_batches(
    batch_it: Iterable[TensorBatch],
) -> Iterator[tuple[tuple[int, int, int], TensorBatch]]:
    """Yields ((batch number, batch size, samples so far), batch)."""
    samples = 0
    for number, batch in enumerate(batch_it):
        size = len(batch["acts"])
        samples += size
        yield (number, size, samples), batch


def _to_device(obs: Any, device: th.device) -> Any:
    if isinstance(obs, Mapping):
        return {key: safe_to_tensor(value).to(device) for key, value in obs.items()}
    return safe_to_tensor(obs).to(device)


def _select(obs: Any, index: Any) -> Any:
    if isinstance(obs, dict):
        return {key: value[index] for key, value in obs.items()}
    return obs[index]
