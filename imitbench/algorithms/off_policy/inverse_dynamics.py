"""An inverse dynamics model: which action leads from one state to another.

It is fitted to the learner's own transitions, and its answers stand in for the expert's actions.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch as th
from gymnasium import spaces
from torch.nn import functional

from imitbench.algorithms.off_policy.agent import Adam, SoftActorCritic
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp
from imitbench.algorithms.off_policy.trainer import OffPolicyTrainer
from imitbench.algorithms.off_policy.transitions import Batch, TransitionStore
from imitbench.util import squashed_gaussian

# An entry that random actions hardly change may change a lot later.
_LEAST_SCALE = 1e-3
_LARGEST_CHANGE = 10.0
# Inferred actions have no noise, which a policy should not learn from them.
_LEAST_LOG_STD = math.log(0.05)


class InverseDynamics:
    """Predicts actions from states and their changes, by maximum likelihood.

    The likelihood is that of a normal distribution with constant deviation, so that the loss is the
    squared error, or for discrete actions the cross-entropy. In the absorbing state the action is
    0, as everywhere.

    Args:
        features: Entries of an encoded observation.
        actions: Entries of an action; for discrete ones the number of choices.
        discrete: Whether actions are discrete.
        absorbing: Whether the last entry of observations marks the absorbing state.
        hidden_sizes: Units of each hidden layer.
        learning_rate: Learning rate of Adam.
        streams: Randomness of each seed.
        hidden_entries: Entries of observations that it does not see.
    """

    def __init__(
        self,
        features: int,
        actions: int,
        *,
        discrete: bool,
        absorbing: bool = False,
        hidden_sizes: Sequence[int],
        learning_rate: float,
        streams: SeedStreams,
        hidden_entries: Sequence[int] = (),
    ) -> None:
        device = streams.device
        self._discrete, self._absorbing = discrete, absorbing
        self._visible = th.ones(features, device=device)
        self._visible[list(hidden_entries)] = 0.0
        self._scale = th.ones(len(streams), 1, features, device=device)
        sizes = (2 * features, *hidden_sizes, actions)
        self._net = StackedMlp(sizes, streams.torch, device)
        self._adam = Adam(self._net.vector, learning_rate)

    def standardize(self, store: TransitionStore) -> None:
        """Fixes the unit of changes: their deviation over the learner's random steps."""
        for seed in range(len(self._scale)):
            obs, after = (store.column(name, seed) for name in ("obs", "next_obs"))
            changes = after - obs
            if self._absorbing:
                changes = changes[after[:, -1] == 0]
            if len(changes) > 1:
                self._scale[seed, 0] = changes.std(dim=0).clamp_min(_LEAST_SCALE)

    def _outputs(self, batch: Batch) -> th.Tensor:
        changes = (batch.next_obs - batch.obs) / self._scale
        changes = changes.clamp(-_LARGEST_CHANGE, _LARGEST_CHANGE)
        return self._net(batch.obs * self._visible, changes * self._visible)

    def actions(self, batch: Batch) -> th.Tensor:
        """The most likely actions, without derivatives; of the shape of a batch's actions."""
        with th.no_grad():
            outputs = self._outputs(batch)
            if self._discrete:
                acts = outputs.argmax(dim=-1)
                return acts * (batch.obs[..., -1] == 0) if self._absorbing else acts
            acts = outputs.clamp(-1.0, 1.0)
            return acts * (1 - batch.obs[..., -1:]) if self._absorbing else acts

    def update(self, own: Batch) -> dict[str, th.Tensor]:
        """Takes a step down the loss.

        Args:
            own: The learner's transitions.

        Returns:
            The loss, shape (seeds,).
        """
        outputs = self._outputs(own)
        if self._discrete:
            errors = functional.cross_entropy(
                outputs.flatten(0, 1), own.acts.flatten(), reduction="none"
            ).view(own.acts.shape)
        else:
            errors = (outputs - own.acts).square().mean(dim=-1)
        if self._absorbing:
            errors = errors * (1 - own.obs[..., -1])
        loss = errors.mean(dim=1)
        self._adam.step(loss.sum())
        return {"inverse/loss": loss.detach()}

    def state_dict(self) -> dict[str, Any]:
        """Parameters, optimizer and the unit of changes."""
        return {
            "net": self._net.vector.detach().cpu().clone(),
            "adam": self._adam.state_dict(),
            "scale": self._scale.cpu().clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        with th.no_grad():
            self._net.vector.copy_(state["net"])
        self._scale.copy_(state["scale"])
        self._adam.load_state_dict(state["adam"])


class InverseDynamicsTrainer(OffPolicyTrainer):
    """A method that infers the expert's actions with an inverse dynamics model.

    The model takes its steps with the transitions of the learner that an update is about.

    Args:
        model_hidden_sizes: Units of the model's hidden layers.
        model_learning_rate: Learning rate of the model.
        model_pretraining: Steps of the model, on random actions, before the first update.
        model_interval: Updates of the agent for each further step of the model.
        model_hidden_entries: Entries of observations that the model does not see.
        **kwargs: See `OffPolicyTrainer`.

    Attributes:
        inverse: The model.

    Raises:
        ValueError: A number is out of range, or see `OffPolicyTrainer`.
    """

    discrete_actions = True
    reads_actions = False

    def __init__(
        self,
        *,
        model_hidden_sizes: Sequence[int] = (64, 64),
        model_learning_rate: float = 1e-3,
        model_pretraining: int = 0,
        model_interval: int = 4,
        model_hidden_entries: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        if model_pretraining < 0:
            raise ValueError(f"model_pretraining must be at least 0, not {model_pretraining}")
        if model_interval < 1:
            raise ValueError(f"model_interval must be at least 1, not {model_interval}")
        super().__init__(**kwargs)
        space = self.venv.action_space
        self._pretraining, self._interval = model_pretraining, model_interval
        self.inverse = InverseDynamics(
            self.features,
            spaces.flatdim(space),
            discrete=isinstance(space, spaces.Discrete),
            absorbing=self._encoders[0].absorbing,
            hidden_sizes=model_hidden_sizes,
            learning_rate=model_learning_rate,
            streams=self.streams,
            hidden_entries=model_hidden_entries,
        )

    def prepare(self) -> None:
        """Fits the model to the random steps."""
        super().prepare()
        self.inverse.standardize(self._replay)
        for _ in range(self._pretraining):
            self.inverse.update(self._replay.sample(self.streams, self.options.batch_size))

    def learn(self, own: Batch, expert: Batch) -> dict[str, th.Tensor]:
        """Takes a step of the model if it is due, beside what the method learns otherwise."""
        logged = self.inverse.update(own) if self.update_kind() else {}
        return {**logged, **super().learn(own, expert)}

    def update_kind(self) -> Hashable | None:
        """Whether a step of the model is due."""
        return self.n_updates % self._interval == 0

    def with_actions(self, expert: Batch) -> Batch:
        """The expert's transitions with the actions that the model infers."""
        return replace(expert, acts=self.inverse.actions(expert))

    def cloning_loss(self, expert: Batch, *, mode_only: bool = False) -> th.Tensor:
        """How unlikely inferred actions are for the policy, with derivatives by its parameters.

        Args:
            expert: Transitions of the expert.
            mode_only: Whether only the most likely action counts where actions are continuous.

        Returns:
            The mean of minus log pi(a|s). Where actions are continuous the squared error of the
            mode is added to it, or with `mode_only` stands alone. Shape (seeds,).
        """
        agent, acts = self.agent, self.inverse.actions(expert)
        if isinstance(agent, SoftActorCritic):
            outputs = agent.actor(expert.obs)
            if mode_only:
                fit = squashed_gaussian.mode_error(outputs, acts)
            else:
                outputs = squashed_gaussian.with_least_std(outputs, _LEAST_LOG_STD)
                fit = squashed_gaussian.cloning_loss(outputs, acts)
        else:
            fit = -agent.log_prob(expert.obs, acts)
        if agent.absorbing:  # nothing is chosen there
            fit = (1 - expert.obs[..., -1]) * fit
        return fit.mean(dim=1)

    def extra_state(self) -> dict[str, Any]:
        """State of the model, and of what the method learns otherwise."""
        return {**super().extra_state(), "inverse": self.inverse.state_dict()}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        super().load_extra_state(state)
        self.inverse.load_state_dict(state["inverse"])
