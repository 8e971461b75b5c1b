"""Behavioral cloning of sequences: policies with a memory, and those that plan chunks of actions.

The policy, one of `imitbench.policies.sequences`, brings its loss and says which steps it needs;
everything else is the same for all. See `docs/methods/sequences.md` for the equations.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.algorithms.base import BaseImitationAlgorithm, check_batch_size
from imitbench.algorithms.demonstration_fit import (
    check_action_space,
    check_fit,
    check_observation_space,
)
from imitbench.data.observations import assert_not_dictobs
from imitbench.data.trajectories import Trajectory, first_step
from imitbench.errors import InputError
from imitbench.policies.sequences.base import SequencePolicy, WindowBatch
from imitbench.util.adam import load_optimizer_state, with_fused
from imitbench.util.gradients import backward_from
from imitbench.util.library_patches import leave_compiler_unloaded
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.torch_startup import one_thread

# Largest weight of the earlier average, as in the diffusion policy's code.
_MOST_KEPT = 0.9999
# Batches from one offer to save the training to the next; one may take a second.
_OFFERED_EVERY = 10


class Windows:
    """Windows of whole trajectories, cut out when they are needed.

    A window belongs to a step, and has observations and actions at given distances from it. Beyond
    the ends of the trajectory, the first or the last step is repeated.

    Args:
        trajectories: Whole episodes.
        device: Where to keep them.

    Attributes:
        obs: All observations in which somebody acted, shape (steps, *observation_shape).
        acts: All actions, shape (steps, *action_shape).
        longest: Number of steps of the longest trajectory.

    Raises:
        ValueError: There are none, or steps were left out of one.
    """

    def __init__(self, trajectories: Sequence[Trajectory], device: str | th.device = "cpu") -> None:
        if not trajectories:
            raise ValueError("demonstrations: there are none")
        if any(first_step(trajectory) for trajectory in trajectories):
            raise ValueError("demonstrations: windows need whole episodes; give all their steps")
        lengths = np.array([len(trajectory) for trajectory in trajectories])
        ends = np.cumsum(lengths)
        self.longest = int(lengths.max())
        self._first, self._last = np.repeat(ends - lengths, lengths), np.repeat(ends - 1, lengths)
        self.obs = np.concatenate(
            [assert_not_dictobs(trajectory.obs)[:-1] for trajectory in trajectories]
        )
        self.acts = np.concatenate([trajectory.acts for trajectory in trajectories])
        self._obs, self._acts = (
            th.from_numpy(_compact(rows)).to(device) for rows in (self.obs, self.acts)
        )

    def __len__(self) -> int:
        """Number of steps, each of which has a window."""
        return len(self.acts)

    def take(self, steps: npt.NDArray[np.int64], observed: range, acted: range) -> WindowBatch:
        """Cuts out windows.

        Args:
            steps: Steps that they belong to, shape (batch,).
            observed: Distances of observations from the step.
            acted: Distances of actions from the step.
        """
        device = self._obs.device
        seen, _ = self._places(steps, observed)
        done, real = self._places(steps, acted)
        return WindowBatch(
            self._obs[th.from_numpy(seen).to(device)],
            self._acts[th.from_numpy(done).to(device)],
            th.from_numpy(real).to(device),
        )

    def _places(
        self, steps: npt.NDArray[np.int64], distances: range
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        wanted = steps[:, np.newaxis] + np.array(distances)
        first, last = self._first[steps, np.newaxis], self._last[steps, np.newaxis]
        return np.clip(wanted, first, last), (first <= wanted) & (wanted <= last)


def _compact(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers as networks take them; bytes of images stay bytes."""
    if rows.dtype.kind == "f":
        return rows.astype(np.float32)
    return rows if rows.dtype == np.uint8 and rows.ndim > 1 else rows.astype(np.int64)


class WeightAverage:
    """An exponential moving average of the weights of a policy in training.

    Update n, from 0, keeps 1 - (1 + n)^-power of the earlier average, so that the first weights are
    soon forgotten.

    Args:
        policy: The policy in training.
        power: The exponent.

    Attributes:
        policy: A copy of the policy with the averaged weights.

    Source: Chi et al. 2023, whose code takes power 0.75.
    """

    def __init__(self, policy: SequencePolicy, power: float) -> None:
        self.policy = copy.deepcopy(policy)
        self.policy.set_training_mode(False)
        self._power = power
        self._pairs = [
            [parameter.detach() for parameter in module.parameters()]
            for module in (self.policy, policy)
        ]

    def update(self, number: int) -> None:
        """Adds the present weights.

        Args:
            number: Earlier updates.
        """
        average, present = self._pairs
        kept = min(1 - (1 + number) ** -self._power, _MOST_KEPT)
        th._foreach_lerp_(average, present, 1 - kept)


@dataclass(frozen=True)
class SequenceOptions:
    """Settings of the training.

    Attributes:
        batch_size: Windows in a batch.
        learning_rate: Learning rate of AdamW.
        weight_decay: Its weight decay.
        average_power: Exponent of `WeightAverage`; `None` to act with the last weights.

    Raises:
        ValueError: A value is out of range.
    """

    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    average_power: float | None = None

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size)


class SequenceCloning(BaseImitationAlgorithm):
    """Trains a policy on windows of demonstrations.

    Args:
        policy: Policy to train; its normalization is fitted to the demonstrations.
        demonstrations: Whole episodes.
        rng: Draws windows and the randomness of losses.
        options: Settings.
        device: Where to compute.
        custom_logger: Where to log; a new logger when `None`.

    Attributes:
        options: As given.
        windows: The demonstrations.
        n_batches: Batches so far.

    Raises:
        InputError: Windows are longer than every demonstration.
        ValueError: The demonstrations do not fit the spaces of the policy, or are not whole.
    """

    def __init__(
        self,
        *,
        policy: SequencePolicy,
        demonstrations: Sequence[Trajectory],
        rng: np.random.Generator,
        options: SequenceOptions | None = None,
        device: str | th.device = "cpu",
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        super().__init__(custom_logger=custom_logger, allow_variable_horizon=True)
        leave_compiler_unloaded()
        self.options = options or SequenceOptions()
        self.windows = Windows(demonstrations, device)
        _check_windows(self.windows, policy)
        policy.fit_normalization(self.windows.obs, self.windows.acts)
        self._trained = policy.to(device)
        self._rng = rng
        power = self.options.average_power
        self._average = None if power is None else WeightAverage(self._trained, power)
        self._parameters = list(self._trained.parameters())
        settings = {"lr": self.options.learning_rate, "weight_decay": self.options.weight_decay}
        self._optimizer = th.optim.AdamW(self._parameters, **with_fused(th.optim.AdamW, settings))
        self.n_batches = 0
        self._sums: dict[str, th.Tensor] = {}
        self._summed = 0

    @property
    def policy(self) -> SequencePolicy:
        """The policy to act with: with averaged weights, if they are averaged."""
        return self._trained if self._average is None else self._average.policy

    def train(
        self, n_batches: int, checkpoint: Callable[[], object] = lambda: None
    ) -> dict[str, float]:
        """Continues training.

        Args:
            n_batches: Number of batches.
            checkpoint: Called every few batches, when `state_dict` is complete; may raise to end
                the training, which a later call continues.

        Returns:
            Means of the loss and its parts over these batches, and over those of a call before that
            was ended.
        """
        self._trained.set_training_mode(True)
        try:
            with one_thread():
                for left in reversed(range(n_batches)):
                    for name, value in self._step().items():
                        sums = self._sums
                        sums[name] = sums[name] + value if name in sums else value
                    self._summed += 1
                    if left and self.n_batches % _OFFERED_EVERY == 0:
                        checkpoint()
        finally:
            self._trained.set_training_mode(False)
        means = {name: float(value) / self._summed for name, value in self._sums.items()}
        self._sums, self._summed = {}, 0
        return means

    def _step(self) -> dict[str, th.Tensor]:
        policy = self._trained
        steps = self._rng.integers(len(self.windows), size=self.options.batch_size)
        batch = self.windows.take(steps, policy.observed, policy.acted)
        loss, parts = policy.loss(batch, self._rng)
        backward_from(loss, th.ones_like(loss))
        self._optimizer.step()
        for parameter in self._parameters:  # as zero_grad(), without its overhead
            parameter.grad = None
        if self._average is not None:
            self._average.update(self.n_batches)
        self.n_batches += 1
        return {"loss": loss.detach(), **parts}

    def state_dict(self) -> dict[str, Any]:
        """Everything that further training depends on, without the demonstrations.

        Excludes torch's global generator, which dropout draws from.
        """
        state: dict[str, Any] = {
            "policy": self._trained.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "rng": self._rng.bit_generator.state,
            "batches": self.n_batches,
            "sums": self._sums,
            "summed": self._summed,
        }
        if self._average is not None:
            state["average"] = self._average.policy.state_dict()
        return copy.deepcopy(state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, of an instance with the same demonstrations."""
        self._trained.load_state_dict(state["policy"])
        load_optimizer_state(self._optimizer, state["optimizer"])
        self._rng.bit_generator.state = state["rng"]
        self.n_batches = state["batches"]
        device = self._parameters[0].device
        # Earlier checkpoints lack them: they were always between two points of a curve.
        self._sums = {name: value.to(device) for name, value in state.get("sums", {}).items()}
        self._summed = state.get("summed", 0)
        if self._average is not None:
            self._average.policy.load_state_dict(state["average"])


def _check_windows(windows: Windows, policy: SequencePolicy) -> None:
    """Checks that windows fit a policy, and that a demonstration is as long as one."""
    check_action_space(policy.action_space)
    check_observation_space(policy.observation_space)
    check_fit(windows.obs, windows.acts, policy.observation_space, policy.action_space)
    needed, longest = len(policy.acted), windows.longest
    if needed > longest:
        raise InputError(
            f"{policy.length_argument}: {needed} actions are more than the longest demonstration "
            f"has; choose at most {longest}"
        )
