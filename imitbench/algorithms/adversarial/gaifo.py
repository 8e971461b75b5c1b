"""Generative adversarial imitation from observation (GAIfO): GAIL on transitions of states.

Source: Torabi, Warnell and Stone 2018, "Generative Adversarial Imitation from Observation",
arXiv:1807.06158.
"""

from __future__ import annotations

from typing import Any

from imitbench.algorithms.adversarial.expert_initialization import ExpertInitialization
from imitbench.algorithms.adversarial.gail import GAIL
from imitbench.rewards.reward_nets import RewardNet


class GAIfO(GAIL):
    """Trains a policy whose pairs of state and next state a discriminator cannot tell from others.

    The discriminator is a network of both states, and the expert's actions are never read: they
    may be missing their entries. The paper's generator is TRPO; this one is PPO, as for GAIL.

    Args:
        reward_net: Network whose output is the discriminator's logit; it must not use actions.
        start: How demonstrations initialize the generator's policy: its normalizing layer only.
        **kwargs: See `GAIL`.

    Raises:
        ValueError: `reward_net` or `start` needs actions, or as `GAIL`.
    """

    reads_actions = False

    def __init__(
        self, *, reward_net: RewardNet, start: ExpertInitialization | None = None, **kwargs: Any
    ) -> None:
        if getattr(reward_net, "use_action", False):
            raise ValueError("reward_net: GAIfO learns without actions; pass use_action=False")
        if start is not None and (start.log_std or start.batches):
            raise ValueError("start: GAIfO learns without actions, so log_std and batches are off")
        super().__init__(reward_net=reward_net, start=start, **kwargs)
