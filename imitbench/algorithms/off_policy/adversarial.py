"""What methods with a discriminator share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium import spaces

from imitbench.algorithms.off_policy.discriminator import Discriminator, Objective
from imitbench.algorithms.off_policy.trainer import OffPolicyTrainer


class AdversarialTrainer(OffPolicyTrainer):
    """An off-policy method whose reward is the output of a discriminator.

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
        space = self.venv.action_space
        self.discriminator = Discriminator(
            self.features,
            spaces.flatdim(space),
            discrete=isinstance(space, spaces.Discrete),
            hidden_sizes=disc_hidden_sizes,
            learning_rate=disc_learning_rate,
            penalty=gradient_penalty,
            streams=self.streams,
            hidden_entries=hidden_entries,
            objective=objective,
        )

    def extra_state(self) -> dict[str, Any]:
        """State of the discriminator."""
        return self.discriminator.state_dict()

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        self.discriminator.load_state_dict(state)
