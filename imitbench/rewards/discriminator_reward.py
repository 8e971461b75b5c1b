"""The reward of GAIL's generator, computed from the discriminator."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch as th
from torch.nn import functional

from imitbench.rewards.base import RewardNet
from imitbench.rewards.wrappers import RewardNetWrapper

RewardForm = Literal["softplus", "logit", "log_d"]
"""How a discriminator's logits become rewards, see `RewardNetFromDiscriminatorLogit`."""


class RewardNetFromDiscriminatorLogit(RewardNetWrapper):
    """The generator's reward, computed from the logits of a discriminator.

    With D the discriminator's probability that a transition is the expert's and L its logit, the
    reward is, by form:

    - `softplus`: -log(1 - D) = softplus(L), the negated cost of the paper, whose D is the
      probability of the generator. It is always positive, which favours long episodes, and its
      gradient vanishes where the discriminator is sure that it sees the generator.
    - `logit`: log D - log(1 - D) = L, of either sign (Fu, Luo and Levine 2018, §5; for GAIL, Orsini
      et al. 2021, "What Matters for Adversarial Imitation Learning?").
    - `log_d`: log D = -softplus(-L), always negative, which favours short episodes.

    Args:
        base: Network whose output is the logit.
        form: One of the above.

    Raises:
        ValueError: `form` is unknown.
    """

    def __init__(self, base: RewardNet, form: RewardForm = "softplus") -> None:
        super().__init__(base)
        if form not in get_args(RewardForm):
            raise ValueError(f"form must be one of {', '.join(get_args(RewardForm))}, not {form!r}")
        self.form: RewardForm = form

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Rewards of preprocessed transitions, shape (batch,), with gradients."""
        logits: th.Tensor = self.base(state, action, next_state, done)
        if self.form == "softplus":
            return functional.softplus(logits)
        return logits if self.form == "logit" else functional.logsigmoid(logits)

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same network."""
        form = {} if self.form == "softplus" else {"form": self.form}
        return {"base": self.base, **form}
