"""MyMethod: supervised learning of the expert's actions, in plain torch.

Start here: replace `_loss` with your own idea. Nothing else has to change.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy

from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.data.rollout import flatten_trajectories
from imitbench.data.types import TrajectoryWithRew
from imitbench.policies.base import NormalizeFeaturesExtractor
from imitbench.records.runs import Budget
from imitbench.util.networks import RunningNorm

CURVE_POINTS = 20


class MyMethod(Learner):
    """Maximizes the likelihood of the expert's actions, batch by batch."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds the network; uses only the seeded generators: `rng` and torch's."""
        options: dict[str, Any] = dict(task.hyperparameters)
        transitions = flatten_trajectories(demos)
        self._observations = th.tensor(np.array(transitions.obs), device=device)
        self._actions = th.tensor(np.array(transitions.acts), device=device)
        # This class of Stable-Baselines3 supports discrete, multi-discrete and box spaces, and
        # can be stored without pickle. imitbench.policies.storage lists other such classes.
        self._policy = ActorCriticPolicy(
            task.observation_space,
            task.action_space,
            lr_schedule=lambda _: options["learning_rate"],
            net_arch=[options["hidden_size"]] * 2,
            features_extractor_class=NormalizeFeaturesExtractor,
            features_extractor_kwargs={"normalize_class": RunningNorm},
        ).to(device)
        self._optimizer = th.optim.Adam(self._policy.parameters(), lr=options["learning_rate"])
        self._smoothing: float = options["smoothing"]
        self._batch_size = min(options["batch_size"], len(transitions))
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
            loss = self._loss(self._observations[batch], self._actions[batch])
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            self._batches += 1
            if self._batches % every == 0:
                callback(self._batches, {"loss": loss.item()})
                checkpoint()  # the run may stop here, and resume later
        return 0  # environment steps

    def _loss(self, observations: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Returns the loss to minimize: your idea goes here."""
        _, log_likelihood, entropy = self._policy.evaluate_actions(observations, actions)
        assert entropy is not None
        return -log_likelihood.mean() - self._smoothing * entropy.mean()

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
