"""f-IRL: inverse reinforcement learning by matching the distribution of states.

Source: Ni et al. 2020, "f-IRL: Inverse Reinforcement Learning via State Marginal Matching",
arXiv:2011.04709. Where its text leaves details open they follow twni2016/f-IRL (MIT), which was
read, not copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch as th
from torch.nn import functional

from imitbench.algorithms.off_policy.discriminator import Discriminator
from imitbench.algorithms.off_policy.episodes import Trajectories
from imitbench.algorithms.off_policy.explicit_reward import ExplicitRewardTrainer

Divergence = Literal["fkl", "rkl", "js"]
"""Of the expert's states from the learner's: forward or reverse Kullback-Leibler, or
Jensen-Shannon."""

# Largest absolute logarithm of a density ratio.
_LARGEST_LOGIT = 10.0


class FIRL(ExplicitRewardTrainer):
    """Moves the reward down the gradient of a divergence of the expert's states from the learner's.

    For the divergence of f, states of density p (expert) and q (policy), and trajectories of T
    steps, the gradient by the reward's parameters is a covariance over trajectories (theorem 4.1),

        1 / (temperature * T) * cov(sum of h(p(s_t) / q(s_t)), sum of grad r(s_t)),

    with h(u) = f(u) - f'(u) u. The ratio is that of a discriminator between both. The covariance
    is over the learner's latest trajectories and as many of the expert's, as in the authors' code,
    so that states are in it which the learner does not reach. The discriminator sees what the
    reward sees: with `use_actions`, pairs are matched. The temperature is left to the optimizer,
    whose steps do not depend on a factor of the gradient.

    Args:
        divergence: Which one.
        disc_updates: Updates of the discriminator before each step of the reward.
        disc_hidden_sizes: Units of the discriminator's hidden layers.
        disc_learning_rate: Learning rate of the discriminator.
        gradient_penalty: Weight of the penalty on its gradient.
        **kwargs: See `ExplicitRewardTrainer`.

    Raises:
        ValueError: `disc_updates` is not positive, or see `ExplicitRewardTrainer`.
    """

    def __init__(
        self,
        *,
        divergence: Divergence = "js",
        disc_updates: int = 50,
        disc_hidden_sizes: Sequence[int] = (64, 64),
        disc_learning_rate: float = 3e-4,
        gradient_penalty: float = 1.0,
        **kwargs: Any,
    ) -> None:
        if disc_updates < 1:
            raise ValueError(f"disc_updates must be at least 1, not {disc_updates}")
        super().__init__(**kwargs)
        self.divergence = divergence
        self.disc_updates = disc_updates
        self.discriminator = Discriminator(
            self._inputs,
            hidden_sizes=disc_hidden_sizes,
            learning_rate=disc_learning_rate,
            penalty=gradient_penalty,
            streams=self.streams,
        )

    def update_reward(self, own: Trajectories, expert: Trajectories) -> dict[str, th.Tensor]:
        """Fits the discriminator, then takes a step of the reward."""
        size = self.options.batch_size
        logged: dict[str, th.Tensor] = {}
        for _ in range(self.disc_updates):
            ours, theirs = (kind.sample(self.streams, size) for kind in (own, expert))
            logged = self.discriminator.update(ours, theirs)
        return {**logged, **super().update_reward(own, expert)}

    def slopes(self, own: Trajectories, expert: Trajectories) -> tuple[th.Tensor, th.Tensor]:
        """Those of the covariance, which is linear in the rewards."""
        logits = [self.discriminator.logits(kind.batch) for kind in (own, expert)]
        sums = th.cat(
            [
                kind.sums(ratio_term(kind_logits, self.divergence))
                for kind, kind_logits in zip((own, expert), logits, strict=True)
            ],
            dim=1,
        )
        count = sums.shape[1]
        steps = own.weights.sum(dim=-1).mean(dim=1, keepdim=True)
        slope = (sums - sums.mean(dim=1, keepdim=True)) / (count * steps)
        ours, theirs = slope.unsqueeze(-1).chunk(2, dim=1)
        return ours * own.weights, theirs * expert.weights

    def extra_state(self) -> dict[str, Any]:
        """State of reward and discriminator."""
        return {**super().extra_state(), "discriminator": self.discriminator.state_dict()}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        super().load_extra_state(state)
        self.discriminator.load_state_dict(state["discriminator"])


def ratio_term(logits: th.Tensor, divergence: Divergence) -> th.Tensor:
    """The term h of a density ratio u, up to a constant, which a covariance ignores.

    Args:
        logits: Log u, of the expert's density and the learner's.
        divergence: Which one.

    Returns:
        -u, -log u or -log(1 + u), of the same shape.
    """
    bounded = logits.clamp(-_LARGEST_LOGIT, _LARGEST_LOGIT)
    if divergence == "fkl":
        return -bounded.exp()
    return -bounded if divergence == "rkl" else -functional.softplus(bounded)
