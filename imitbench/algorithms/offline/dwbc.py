"""DWBC: behavioral cloning with the weights of a discriminator that sees the policy.

Source: Xu, Zhan, Yin and Qin 2022, "Discriminator-Weighted Offline Imitation Learning from
Suboptimal Demonstrations", arXiv:2207.10050. Where its text leaves details open they follow
ryanxhr/DWBC (MIT), which was read, not copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces

from imitbench.algorithms.off_policy.agent import Adam
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp
from imitbench.algorithms.off_policy.transitions import Batch, PairInputs
from imitbench.algorithms.offline.weighted_cloning import WeightedCloning

# Bounds of the discriminator's output, and of log-probabilities per action entry among its inputs.
_LEAST, _MOST = 0.1, 0.9
_LOG_PROB_RANGE = (-20.0, 10.0)


class DWBC(WeightedCloning):
    """Clones the expert, and those transitions of the supplement that look like the expert's.

    The discriminator d takes the supplement for a mixture of expert and others, of which it knows
    only the share of the expert (positive-unlabeled learning), and it sees log pi(a|s): what the
    policy finds likely is likelier to be the expert's. A batch has as many transitions of the
    expert as of the supplement.

    Args:
        alpha: Weight of cloning the expert, beside the correction that d demands.
        eta: Share of the expert in the supplement, as assumed.
        disc_interval: Batches for each step of the discriminator.
        disc_hidden_sizes: Units of the discriminator's hidden layers.
        disc_learning_rate: Its learning rate.
        **kwargs: As for `WeightedCloning`, without `clone_expert`.

    Raises:
        ValueError: As `WeightedCloning`, or a value is out of range.
    """

    def __init__(
        self,
        *,
        alpha: float = 7.5,
        eta: float = 0.5,
        disc_interval: int = 10,
        disc_hidden_sizes: tuple[int, ...] = (64, 64),
        disc_learning_rate: float = 3e-4,
        **kwargs: Any,
    ) -> None:
        if not 0 < eta <= 1:
            raise ValueError(f"eta must lie in (0, 1], not {eta}")
        if disc_interval < 1:
            raise ValueError(f"disc_interval must be at least 1, not {disc_interval}")
        super().__init__(**kwargs)
        self._alpha, self._eta, self._interval = alpha, eta, disc_interval
        space = self.policy.action_space
        self._entries = 1 if isinstance(space, spaces.Discrete) else spaces.flatdim(space)
        self._pairs = PairInputs(self.data.features, space, device=self.streams.device)
        sizes = (self._pairs.size + 1, *disc_hidden_sizes, 1)
        self._net = StackedMlp(sizes, self.streams.torch, self.streams.device)
        self._adam = Adam(self._net.vector, disc_learning_rate)

    def draw(self) -> npt.NDArray[np.int64]:
        """Draws as many transitions of the expert as of the supplement, in this order.

        Those inside the absorbing state are left out: they belong to neither.
        """
        count, data = max(1, self.options.batch_size // 2), self.data
        theirs, others = (
            self.streams.indices([size], count)[0]
            for size in (data.n_expert, data.size - data.n_expert)
        )
        return np.concatenate([theirs, data.n_expert + others])

    def weigh(self, batch: Batch, log_probs: th.Tensor) -> tuple[th.Tensor, dict[str, th.Tensor]]:
        """Takes a step of the discriminator if it is due, and returns the corrected weights."""
        theirs, others = self.outputs(batch, log_probs).chunk(2)
        logged = {"discriminator/expert": theirs.detach(), "discriminator/other": others.detach()}
        logged = {name: values.mean() for name, values in logged.items()}
        if self.n_batches % self._interval == 0:
            self._adam.step(discriminator_loss(theirs, others, self._eta))
        weights = cloning_weights(theirs.detach(), others.detach(), self._alpha, self._eta)
        return weights, logged

    def outputs(self, batch: Batch, log_probs: th.Tensor) -> th.Tensor:
        """The discriminator's d of each transition.

        Args:
            batch: Encoded transitions, shape (1, batch, …).
            log_probs: Log-probabilities of their actions, shape (batch,).

        Returns:
            Shape (batch,).
        """
        least, most = _LOG_PROB_RANGE
        scaled = ((log_probs / self._entries).clamp(least, most) - least) / (most - least)
        inputs = th.cat([self._pairs(batch), scaled.view(1, -1, 1)], dim=-1)
        d: th.Tensor = self._net(inputs)[0, :, 0].sigmoid().clamp(_LEAST, _MOST)
        return d

    def extra_state(self) -> dict[str, Any]:
        """State of the discriminator."""
        return {"net": self._net.vector.detach().cpu().clone(), "adam": self._adam.state_dict()}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        with th.no_grad():
            self._net.vector.copy_(state["net"])
        self._adam.load_state_dict(state["adam"])


def discriminator_loss(theirs: th.Tensor, others: th.Tensor, eta: float) -> th.Tensor:
    """Cross-entropy of expert and non-expert, where the supplement holds both.

    The supplement's loss as non-expert counts the expert's part in it, too, which is a share `eta`
    of what the expert's loss as non-expert would be.

    Args:
        theirs: Outputs d for the expert's transitions, shape (n,).
        others: Outputs d for the supplement's, shape (m,).
        eta: Share of the expert in the supplement.

    Returns:
        A scalar.
    """
    as_expert = -theirs.log().mean()
    as_other = -(1 - others).log().mean() + eta * (1 - theirs).log().mean()
    return eta * as_expert + as_other


def cloning_weights(theirs: th.Tensor, others: th.Tensor, alpha: float, eta: float) -> th.Tensor:
    """The weights that clone the expert and make the discriminator's task as hard as possible.

    Its loss depends on log pi, and the policy is corrected for the worst case of it: less weight on
    the expert the surer d is, more on what d takes for the expert in the supplement. As in the
    public code, 1 is subtracted from both corrections, and the supplement counts only where d is
    at least one half.

    Args:
        theirs: Outputs d for the expert's transitions, shape (n,).
        others: Outputs d for the supplement's, shape (n,).
        alpha: Weight of cloning the expert.
        eta: Share of the expert in the supplement.

    Returns:
        alpha - eta / (d (1 - d)) - 1 of the expert's transitions, then 1 / (1 - d) - 1 of the
        supplement's, or 0; shape (2 n,).
    """
    for_theirs = alpha - eta / (theirs * (1 - theirs)) - 1
    for_others = (1 / (1 - others) - 1) * (others >= 0.5)
    return th.cat([for_theirs, for_others])
