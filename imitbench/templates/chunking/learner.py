"""MyMethod: supervised learning of chunks of the expert's actions, in plain torch.

The policy is a class of this method's own, see `policy.py`. Replace it, or `_loss`, with your idea.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.policies import BasePolicy

from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.data.types import TrajectoryWithRew
from imitbench.records.runs import Budget

from .policy import ChunkPolicy

CURVE_POINTS = 20


class MyMethod(Learner):
    """Maximizes the likelihood of the expert's next actions, batch by batch."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds the network; uses only the seeded generators: `rng` and torch's."""
        options: dict[str, Any] = dict(task.hyperparameters)
        chunk = options["chunk"]
        observations = np.concatenate([demo.obs[:-1] for demo in demos])
        chunks = np.concatenate([_chunks(demo.acts, chunk) for demo in demos])
        self._observations = th.tensor(observations, device=device)
        self._chunks = th.tensor(chunks, device=device)
        self._policy = ChunkPolicy(
            task.observation_space, task.action_space, chunk, options["hidden_size"]
        ).to(device)
        self._optimizer = th.optim.Adam(self._policy.parameters(), lr=options["learning_rate"])
        self._batch_size = min(options["batch_size"], len(observations))
        self._rng = rng
        self._batches = 0

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for `budget.amount` batches, including those before an interruption."""
        self._policy.set_training_mode(True)
        every = max(1, budget.amount // CURVE_POINTS)
        while self._batches < budget.amount:
            batch = self._rng.integers(len(self._observations), size=self._batch_size)
            loss = self._loss(self._observations[batch], self._chunks[batch])
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            self._batches += 1
            if self._batches % every == 0:
                callback(self._batches, {"loss": loss.item()})
                checkpoint()  # the run may stop here, and resume later
        return 0  # environment steps

    def _loss(self, observations: th.Tensor, chunks: th.Tensor) -> th.Tensor:
        """Returns the loss to minimize: your idea goes here.

        Args:
            observations: Shape (batch, …).
            chunks: The expert's actions from there on, shape (batch, chunk, …).
        """
        distribution = self._policy.plan(observations)
        return -distribution.log_prob(chunks.flatten(0, 1)).mean()

    def policy(self) -> BasePolicy:
        """Returns the policy to evaluate and store."""
        return self._policy

    def state_dict(self) -> dict[str, Any]:
        """Returns all state of training; if a part is missing, resuming changes results."""
        state = {
            "policy": self._policy.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "rng": self._rng.bit_generator.state,
            "batches": self._batches,
        }
        return copy.deepcopy(state)  # training modifies the tensors in place

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        self._policy.load_state_dict(state["policy"])
        self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self._rng.bit_generator.state = state["rng"]
        self._batches = state["batches"]


def _chunks(actions: Any, size: int) -> Any:
    """Returns the next `size` actions from each step, shape (steps, size, …).

    At the end of an episode, the last action is repeated.
    """
    steps = np.arange(len(actions))[:, None] + np.arange(size)
    return np.asarray(actions)[np.minimum(steps, len(actions) - 1)]
