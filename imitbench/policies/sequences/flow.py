"""Flow policy: plans by following a velocity from noise.

Source: Lipman et al. 2023, "Flow Matching for Generative Modeling"; the network and the receding
horizon are those of the diffusion policy (Chi et al. 2023).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch as th

from imitbench.policies.densities import flow_loss, follow_flow
from imitbench.policies.sequences.base import WindowBatch
from imitbench.policies.sequences.diffusion import PlanGenerator

# The network's sinusoids are made for times of about 1 to 100.
_TIME_SCALE = 100.0


class FlowChunkPolicy(PlanGenerator):
    """Learns the velocity of straight lines from noise to plans, and follows it.

    Args:
        *args: As for `PlanGenerator`.
        flow_steps: Euler steps from noise to plan.
        **kwargs: As for `PlanGenerator`.

    Raises:
        ValueError: As `PlanGenerator`, or there is no step.
    """

    own_arguments = (*PlanGenerator.own_arguments, "flow_steps")

    def __init__(self, *args: Any, flow_steps: int = 10, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if flow_steps < 1:
            raise ValueError(f"flow_steps must be at least 1, not {flow_steps}")
        self.flow_steps = flow_steps

    def velocity(self, seen: th.Tensor, plans: th.Tensor, time: th.Tensor) -> th.Tensor:
        """The learned velocity.

        Args:
            seen: Vectors of the histories, shape (batch, history * size).
            plans: Between noise and plan, shape (batch, horizon, n_actions).
            time: In [0, 1], shape (batch, 1).

        Returns:
            The same shape as `plans`.
        """
        result: th.Tensor = self.network(plans, seen, _TIME_SCALE * time[:, 0])
        return result

    def loss(
        self, batch: WindowBatch, rng: np.random.Generator
    ) -> tuple[th.Tensor, dict[str, th.Tensor]]:
        """Squared error of the velocity at one random point of each line.

        Actions beyond the end of a demonstration repeat its last one, and count.
        """
        seen = self.encode_windows(batch.obs).flatten(1)
        return flow_loss(partial(self.velocity, seen), self.normalized(batch.acts), rng).mean(), {}

    def plan(self, seen: th.Tensor, deterministic: bool) -> th.Tensor:
        """Follows the flow from noise."""
        velocity = partial(self.velocity, seen.flatten(1))
        return follow_flow(velocity, self.start(len(seen), deterministic), self.flow_steps)
