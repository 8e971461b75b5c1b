"""A discriminator of expert and learner, with the gradient penalty of Wasserstein GANs.

It minimizes the cross-entropy, or it is a moment of both that differs as much as it can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch as th
from torch.nn import functional

from imitbench.algorithms.off_policy.agent import Adam
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.reward_export import pair_reward_nets
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp
from imitbench.algorithms.off_policy.trainer import OffPolicyTrainer
from imitbench.algorithms.off_policy.transitions import Batch, PairInputs
from imitbench.rewards.networks import BasicRewardNet


def stacked_gradient_penalty(
    net: StackedMlp, theirs: th.Tensor, ours: th.Tensor, streams: SeedStreams
) -> th.Tensor:
    """Squared distance of the gradient's norm from 1, at points between samples.

    Args:
        net: One perceptron of each seed, with one output.
        theirs: Inputs, shape (seeds, batch, inputs).
        ours: As many others.
        streams: Randomness of each seed.

    Returns:
        The mean over the batch, with derivatives by the net's parameters; shape (seeds,).

    Source: Gulrajani et al. 2017, "Improved Training of Wasserstein GANs".
    """
    share = streams.uniform(theirs.shape[1], 1)
    gradient = net.input_gradients(th.lerp(ours, theirs, share))
    norms = (gradient.square().sum(dim=-1) + 1e-12).sqrt()
    return (norms - 1).square().mean(dim=1)


Objective = Literal["cross_entropy", "moments"]


class Discriminator:
    """Distinguishes the expert's pairs from the learner's: of observation and action, or others.

    Args:
        inputs: What it sees of a batch.
        hidden_sizes: Units of each hidden layer.
        learning_rate: Learning rate of Adam.
        penalty: Weight of the gradient penalty.
        streams: Randomness of each seed.
        objective: `cross_entropy`, or `moments`: its mean over the learner's pairs minus that
            over the expert's (Swamy et al. 2021, "Of Moments and Matching").

    Attributes:
        inputs: As given.
    """

    def __init__(
        self,
        inputs: PairInputs,
        *,
        hidden_sizes: Sequence[int],
        learning_rate: float,
        penalty: float,
        streams: SeedStreams,
        objective: Objective = "cross_entropy",
    ) -> None:
        self._objective = objective
        self._penalty = penalty
        self._streams = streams
        self.inputs = inputs
        self._net = StackedMlp((inputs.size, *hidden_sizes, 1), streams.torch, streams.device)
        self._adam = Adam(self._net.vector, learning_rate)

    def logits(self, batch: Batch) -> th.Tensor:
        """What is high for the expert, without derivatives; shape (seeds, batch).

        With cross-entropy this is log D - log(1 - D).
        """
        with th.no_grad():
            return self._net(self.inputs(batch)).squeeze(-1)

    def update(self, own: Batch, expert: Batch) -> dict[str, th.Tensor]:
        """Takes a step down the objective plus the gradient penalty.

        Args:
            own: The learner's transitions.
            expert: As many of the expert.

        Returns:
            Loss, accuracy and penalty, each of shape (seeds,). The loss is half of the objective;
            the accuracy is the share of logits with the right sign.
        """
        theirs, ours = self.inputs(expert), self.inputs(own)
        count = theirs.shape[1]
        logits = self._net(th.cat([theirs, ours], dim=1)).squeeze(-1)
        signs = th.ones_like(logits)
        signs[:, count:] = -1.0
        wrong = -signs * logits
        if self._objective == "cross_entropy":
            wrong = functional.softplus(wrong)
        loss = wrong.mean(dim=1)
        penalty = stacked_gradient_penalty(self._net, theirs, ours, self._streams)
        self._adam.step((2 * loss + self._penalty * penalty).sum())
        accuracy = (signs * logits > 0).float().mean(dim=1)
        return {
            "discriminator/loss": loss.detach(),
            "discriminator/accuracy": accuracy,
            "discriminator/penalty": penalty.detach(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Parameters and optimizer."""
        return {"net": self._net.vector.detach().cpu().clone(), "adam": self._adam.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        with th.no_grad():
            self._net.vector.copy_(state["net"])
        self._adam.load_state_dict(state["adam"])


class OffPolicyAdversarialTrainer(OffPolicyTrainer):
    """An off-policy method whose reward is the output of a discriminator.

    Where the method does not read the expert's actions, the discriminator sees pairs of an
    observation and the next one.

    Args:
        disc_hidden_sizes: Units of the discriminator's hidden layers.
        disc_learning_rate: Learning rate of the discriminator.
        gradient_penalty: Weight of the penalty on its gradient.
        hidden_entries: Entries of observations that the discriminator does not see.
        objective: What the discriminator learns; see `Discriminator`.
        **kwargs: See `OffPolicyTrainer`.

    Attributes:
        discriminator: The discriminator.

    Raises:
        ValueError: See `OffPolicyTrainer`.
    """

    def __init__(
        self,
        *,
        disc_hidden_sizes: Sequence[int] = (64, 64),
        disc_learning_rate: float = 3e-4,
        gradient_penalty: float = 10.0,
        hidden_entries: Sequence[int] = (),
        objective: Objective = "cross_entropy",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._hidden = tuple(hidden_entries)
        inputs = PairInputs(
            self.features,
            self.venv.action_space,
            hidden_entries=hidden_entries,
            use_actions=self.reads_actions,
            use_next_obs=not self.reads_actions,
            device=self.streams.device,
        )
        self.discriminator = Discriminator(
            inputs,
            hidden_sizes=disc_hidden_sizes,
            learning_rate=disc_learning_rate,
            penalty=gradient_penalty,
            streams=self.streams,
            objective=objective,
        )

    @property
    def reward_nets(self) -> Sequence[BasicRewardNet]:
        """The discriminator's output of each seed as it is now; see `pair_reward_nets`."""
        return pair_reward_nets(
            self.discriminator._net,
            self._encoders,
            self.venv,
            hidden_entries=self._hidden,
            use_actions=self.reads_actions,
            use_next_obs=not self.reads_actions,
        )

    def extra_state(self) -> dict[str, Any]:
        """State of the discriminator."""
        return self.discriminator.state_dict()

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        self.discriminator.load_state_dict(state)
