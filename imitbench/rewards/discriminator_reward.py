"""The reward that GAIL's generator gets for not being found out."""

from __future__ import annotations

from typing import Any

import torch as th
from torch.nn import functional

from imitbench.rewards.base import RewardNet
from imitbench.rewards.wrappers import RewardNetWrapper


class RewardNetFromDiscriminatorLogit(RewardNetWrapper):
    """The generator's reward, made from the logits of a discriminator.

    With D the discriminator's probability that a transition is the expert's and L its logit, the
    reward is -log(1 - D) = softplus(L): the paper's cost, whose D means the opposite, with the
    sign of a reward. It is positive everywhere, so that living long pays by itself.

    Args:
        base: Network whose output is the logit.
    """

    def __init__(self, base: RewardNet) -> None:
        super().__init__(base)

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Rewards of preprocessed transitions, shape (batch,), with gradients."""
        return functional.softplus(self.base(state, action, next_state, done))

    def arguments(self) -> dict[str, Any]:
        """What the constructor needs to build such a network again."""
        return {"base": self.base}
