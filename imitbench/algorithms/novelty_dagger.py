"""Novelty DAgger: an ensemble asks the expert where it disagrees most, within a budget of queries.

It is the novelty gate of ThriftyDAgger. The risk gate, which needs a signal that a task has
succeeded, is left out.

Source: Hoque et al. 2021, "ThriftyDAgger: Budget-Aware Novelty and Risk Gating for Interactive
Imitation Learning", arXiv:2109.08273.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from imitbench.algorithms.gated_dagger import Array, Floats, GatedDAgger, Mask


class NoveltyDAgger(GatedDAgger):
    """The expert takes over in the most novel states, and acts until the ensemble agrees with it.

    Novelty is the disagreement of the ensemble. The two thresholds set themselves:

    - The expert takes over above the (1 - `query_share`) quantile of novelty in the states where
      the ensemble acted, in the last round and in this one so far, while the budget allows.
    - It gives back where the ensemble's action is no further from its own than the mean over all
      answers so far.

    Args:
        query_share: Share of the environment steps after round 0 at which the expert may be asked.
            A round may spend its part at any time. Beyond it no takeover begins; one that has begun
            goes on.
        **kwargs: As for `GatedDAgger`.

    Attributes:
        query_share: As given.
        agreement: Discrepancy up to which the expert gives back, in scaled actions.

    Raises:
        TypeError: As `GatedDAgger`.
        ValueError: As `GatedDAgger`, or `query_share` is outside [0, 1].
    """

    def __init__(self, *, query_share: float = 0.1, **kwargs: Any) -> None:
        if not 0 <= query_share <= 1:
            raise ValueError(f"query_share must be within [0, 1], not {query_share}")
        super().__init__(**kwargs)
        self.query_share = query_share
        self.agreement = 0.0
        self._novelties: Floats = np.empty(0)
        self._steps = 0
        self._steps_of_round_end = 0
        self._queries = 0

    @property
    def novelty_threshold(self) -> float:
        """Disagreement above which the expert takes over."""
        return float(np.quantile(self._novelties, 1 - self.query_share))

    def begin_round(self, env_steps: int) -> None:
        """Adds the part of the round to the budget."""
        self._steps_of_round_end = self._steps + env_steps

    def asks(self, disagreement: Floats, expert_acted: Mask) -> Mask:
        """While the expert acts; otherwise where the state is novel and the budget allows."""
        self._steps += len(disagreement)
        asked = expert_acted.copy()
        self._queries += int(asked.sum())
        left = int(self.query_share * max(self._steps, self._steps_of_round_end)) - self._queries
        if left > 0:
            novel = np.flatnonzero(~expert_acted & (disagreement > self.novelty_threshold))
            asked[novel[:left]] = True
            self._queries += len(novel[:left])
        self._novelties = np.append(self._novelties, disagreement[~asked])
        return asked

    def hands_over(self, disagreement: Floats, discrepancy: Floats, expert_acted: Mask) -> Mask:
        """A takeover lasts at least a step, and until ensemble and expert agree."""
        del disagreement
        return ~expert_acted | (discrepancy > self.agreement)

    def end_round(self, obs: Array, acts: Array, own_obs: Array) -> None:
        """Measures with the newly trained ensemble what the thresholds depend on."""
        own_acts, novelties = self.policy.act_with_disagreement(obs)
        self.agreement = float(self.policy.distance(own_acts, acts).mean())
        if len(own_obs):
            _, novelties = self.policy.act_with_disagreement(own_obs)
        self._novelties = novelties

    def extra_state(self) -> dict[str, Any]:
        """Thresholds and the part of the budget that is used."""
        return {
            "agreement": self.agreement,
            "novelties": self._novelties,
            "spent": (self._steps, self._queries),
        }

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        self.agreement = state["agreement"]
        self._novelties = np.array(state["novelties"])
        self._steps, self._queries = state["spent"]
