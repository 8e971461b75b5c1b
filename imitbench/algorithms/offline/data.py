"""The expert's demonstrations and a supplement of mixed quality, as offline methods see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces

from imitbench.algorithms.demonstration_fit import check_action_space, expert_transitions
from imitbench.algorithms.off_policy.collector import encoded_demonstrations
from imitbench.algorithms.off_policy.encoding import ObservationEncoder
from imitbench.algorithms.off_policy.transitions import TransitionStore, store_of
from imitbench.data.trajectories import Trajectory, first_step
from imitbench.util.util import safe_to_tensor

Array = npt.NDArray[Any]


class OfflineData:
    """Transitions of the expert and of the supplement, twice: encoded, and as they are.

    Discriminators and values see encoded observations, whose statistics are those of both sets in
    equal parts, and actions that are clipped to their bounds and scaled. Policies see both as they
    are.

    Args:
        demonstrations: Trajectories of the expert.
        supplement: Trajectories of mixed quality.
        observation_space: Space of one observation: vectors or choices.
        action_space: Space of one action: choices, or vectors with bounds.
        time_limit: Steps after which an episode is cut off, if there is a limit. A trajectory that
            ends earlier leads to the absorbing state, where the episode stays.
        hidden_entries: Entries of flat observations that discriminators and values do not see.
        clone_expert: Whether the demonstrations are part of what a policy may clone.
        device: Where to keep the transitions.

    Attributes:
        expert: Encoded transitions of the expert.
        union: Encoded transitions that a policy may clone: those of the expert, then those of the
            supplement, then those inside the absorbing state.
        size: Number of transitions in `union` before those inside the absorbing state.
        n_expert: Number of transitions of the expert among them, which are the first.
        features: Entries of an encoded observation.
        starts: Indices in `union` of transitions at which an episode begins, shape (n,). If no
            trajectory begins there, because steps were left out, where trajectories begin.
        obs: Observations in `union` as they are, shape (size, *observation_shape).
        acts: Actions in `union` as they are, shape (size, *action_shape).

    Raises:
        ValueError: A set is empty or does not fit the spaces, or the spaces are of other kinds.
    """

    def __init__(
        self,
        demonstrations: Sequence[Trajectory],
        supplement: Sequence[Trajectory],
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        *,
        time_limit: int | None = None,
        hidden_entries: Sequence[int] = (),
        clone_expert: bool = True,
        device: str | th.device = "cpu",
    ) -> None:
        _check_actions(action_space)
        known = observation_space, action_space, time_limit
        expert, others = (
            _transitions(trajectories, *known) for trajectories in (demonstrations, supplement)
        )
        cloned = _joined(expert, others) if clone_expert else others
        absorbing = any(rows["dones"].any() for rows in (expert, others))
        encoder = ObservationEncoder(observation_space, absorbing=absorbing, hidden=hidden_entries)
        encoder.standardize(*(encoder.flatten(rows["obs"]) for rows in (expert, others)))

        def stored(rows: dict[str, Array]) -> TransitionStore:
            return store_of([encoded_demonstrations(encoder, rows, action_space)], device)

        self.expert, self.union = stored(expert), stored(cloned)
        self.size, self.features = len(cloned["acts"]), encoder.features
        self.n_expert = len(expert["acts"]) if clone_expert else 0
        starts = cloned["starts"] if cloned["starts"].any() else cloned["first"]
        self.starts = np.flatnonzero(starts)
        self.obs = safe_to_tensor(cloned["obs"]).to(device)
        self.acts = safe_to_tensor(cloned["acts"]).to(device)

    @property
    def largest_ratio(self) -> float:
        """Bound of the expert's density relative to that of the union, which contains it."""
        return self.size / self.n_expert if self.n_expert else float("inf")


def _check_actions(space: gym.Space[Any]) -> None:
    check_action_space(space)
    bounded = isinstance(space, spaces.Box) and space.is_bounded()
    if not (bounded or isinstance(space, spaces.Discrete)):
        raise ValueError(
            "action_space: offline methods for mixed quality need discrete actions, or continuous "
            f"ones with bounds, not {space}"
        )


def _transitions(
    trajectories: Sequence[Trajectory],
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    time_limit: int | None,
) -> dict[str, Array]:
    """Transitions, whether episodes begin or end there, and whether trajectories begin there."""
    rows = expert_transitions(trajectories, observation_space, action_space, time_limit)
    begins = np.array([first_step(trajectory) for trajectory in trajectories])
    offsets = np.cumsum([0, *map(len, trajectories[:-1])])
    first, starts = np.zeros((2, len(rows["acts"])), bool)
    first[offsets] = True
    starts[offsets] = begins == 0
    dones = rows["dones"].astype(bool) & ~rows["timeouts"]
    return {**rows, "dones": dones, "starts": starts, "first": first}


def _joined(one: dict[str, Array], other: dict[str, Array]) -> dict[str, Array]:
    return {name: np.concatenate([one[name], other[name]]) for name in one}
