"""Primal Wasserstein imitation learning (PWIL): rewards from coupling an episode with the expert.

Source: Dadashi et al. 2021, "Primal Wasserstein Imitation Learning", arXiv:2006.04678.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces

from imitbench.algorithms import base
from imitbench.algorithms.demonstration_fit import common_time_limit
from imitbench.algorithms.off_policy.collector import Rows
from imitbench.algorithms.off_policy.trainer import OffPolicyTrainer
from imitbench.algorithms.off_policy.transitions import Batch
from imitbench.util.actions import scale_actions

Array = npt.NDArray[Any]


class GreedyCoupling:
    """Couples each step of running episodes with the expert's nearest pairs (algorithm 1).

    Each of the expert's n atoms weighs 1 / n, and each of the T steps of an episode 1 / T. A step
    takes its weight from the nearest atoms that still have some, and an atom's weight is taken only
    once in an episode. Weights are kept as integers, in units of 1 / (n * T), so that none is lost
    by rounding. If an episode is longer than T, the atoms then have their weights again.

    Args:
        atoms: The expert's pairs, shape (n, entries), float64.
        horizon: T.
        episodes: Number of episodes at a time.

    Attributes:
        horizon: T.
        scale: Standard deviation of each entry over the atoms, 1 where the expert never varies;
            shape (entries,).
        left: Weights that are left, shape (episodes, n), int64.
    """

    def __init__(self, atoms: Array, horizon: int, episodes: int) -> None:
        deviation = atoms.std(axis=0)
        constant = np.ptp(atoms, axis=0) == 0  # where the deviation may be a rounding error
        self.scale = np.where(constant, 1.0, deviation)
        self._atoms = atoms / self.scale
        self.horizon = horizon
        self.left = np.full((episodes, len(atoms)), horizon)

    def cost(self, episode: int, pair: Array) -> float:
        """Couples a step, and returns the sum of weight times standardized Euclidean distance.

        Args:
            episode: Number of the episode, from 0.
            pair: The learner's pair, shape (entries,).
        """
        left = self.left[episode]
        if not left.any():
            self.restart(episode)
        distances = np.sqrt(np.square(self._atoms - pair / self.scale).sum(axis=1))
        order = np.argsort(distances, kind="stable")
        available = left[order]
        before = np.cumsum(available) - available
        taken = np.clip(len(left) - before, 0, available)
        left[order] -= taken
        return float(taken @ distances[order]) / (len(left) * self.horizon)

    def restart(self, episode: int) -> None:
        """Gives all atoms their weights again, for the next episode."""
        self.left[episode] = self.horizon


class PWIL(OffPolicyTrainer):
    """Trains the agent on r = alpha * exp(-beta * T / sqrt(|S| + |A|) * c).

    c is the cost of coupling the step greedily with the expert; its sum over an episode bounds the
    Wasserstein distance between the pairs of both from above. The reward is computed once, when
    the step is taken: nothing is learned but the agent. The paper's agent is D4PG; this one is soft
    actor-critic, or soft Q-learning for discrete actions, which are one-hot vectors here.

    Args:
        alpha: Largest reward.
        beta: How fast the reward falls with the distance.
        subsampling: Every how many steps of a demonstration are used, from a random one of the
            first on.
        prefill: Transitions of the expert, repeated as often as needed, that are put into the
            replay buffer with reward `alpha` before the first update; at most its capacity.
        horizon: T, in steps; `None` for the environments' time limit, or where there is none the
            mean length of the demonstrations.
        hidden_entries: Entries of observations that the distance ignores, besides those that are
            hidden from the agent.
        **kwargs: As for `OffPolicyTrainer`.

    Raises:
        ValueError: A value is out of range, or as `OffPolicyTrainer`.
    """

    discrete_actions = True

    def __init__(
        self,
        *,
        alpha: float = 5.0,
        beta: float = 5.0,
        subsampling: int = 20,
        prefill: int = 0,
        horizon: int | None = None,
        hidden_entries: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        for name, value, least in (
            ("subsampling", subsampling, 1), ("prefill", prefill, 0), ("horizon", horizon, 1),
        ):  # fmt: skip
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        if not (alpha > 0 and beta > 0):
            raise ValueError(f"alpha and beta must be positive, not {alpha} and {beta}")
        self._couplings: list[GreedyCoupling] = []
        self._kept: list[Array] = []
        super().__init__(**kwargs)
        self.alpha, self.beta = alpha, beta
        self.subsampling, self.prefill = subsampling, prefill
        self.horizon = horizon
        # What is hidden from the agent is not stored, so that the distance cannot see it.
        hidden = [*hidden_entries, *self.options.hidden_entries]
        self._visible = np.delete(np.arange(self._encoders[0].size), hidden)

    # The expert's atoms.

    def set_demonstrations_of_seeds(self, demonstrations: Sequence[base.AnyTransitions]) -> None:
        """Replaces the demonstrations; see `OffPolicyTrainer.set_demonstrations_of_seeds`.

        Running episodes are coupled with the new ones from their next step on.
        """
        super().set_demonstrations_of_seeds(demonstrations)
        self._couplings, self._kept = [], []

    def _subsampled(self, seed: int) -> Array:
        """Numbers of the pairs that are used, shape (n,)."""
        ends = np.flatnonzero(self._demonstrations[seed]["dones"]) + 1
        count = len(self._demonstrations[seed]["dones"])
        parts = [part for part in np.split(np.arange(count), ends) if len(part)]
        rng = self.streams.numpy[seed]
        every = self.subsampling
        return np.concatenate(
            [part[rng.integers(min(every, len(part))) :: every] for part in parts]
        )

    def _couple(self, kept: Sequence[Array]) -> None:
        """Makes new couplings of these pairs of each seed."""
        self._kept, self._couplings = list(kept), []
        n_envs = self._collector.n_envs
        for rows, encoder, numbers in zip(
            self._demonstrations, self._encoders, self._kept, strict=True
        ):
            acts = scale_actions(rows["acts"][numbers], self.venv.action_space)
            atoms = self._pairs(encoder.flatten(rows["obs"][numbers]), acts)
            self._couplings.append(GreedyCoupling(atoms, self._coupling_horizon(rows), n_envs))

    def _coupling_horizon(self, demonstrations: Rows) -> int:
        ends = demonstrations["dones"]
        mean_length = round(len(ends) / max(1, int(ends.sum())))
        return self.horizon or common_time_limit(self.venv) or mean_length

    def _pairs(self, obs: Array, acts: Array) -> Array:
        """Observations that are not standardized, and actions if they are read, as vectors."""
        if not self.reads_actions:
            return obs[:, self._visible]
        space = self.venv.action_space
        if isinstance(space, spaces.Discrete):
            acts = np.eye(int(space.n))[acts]
        return np.concatenate([obs[:, self._visible], acts.reshape(len(acts), -1)], axis=1)

    # The method.

    def set_rewards(self, seed: int, rows: Rows) -> Rows:
        """Computes the rewards of new steps; those inside the absorbing state are 0."""
        if not self._couplings:
            self._couple([self._subsampled(index) for index in range(len(self.streams))])
        coupling, encoder = self._couplings[seed], self._encoders[seed]
        # Standardization changes before the first update, but distances must not.
        pairs = self._pairs(encoder.decode(rows["obs"]), rows["acts"])
        rate = self.beta * coupling.horizon / np.sqrt(pairs.shape[1])
        n_envs = self._collector.n_envs
        ended = self._collector.ended[seed * n_envs : (seed + 1) * n_envs]
        for episode in range(n_envs):
            cost = coupling.cost(episode, pairs[episode])
            rows["rewards"][episode] = self.alpha * np.exp(-rate * cost)
            if ended[episode]:
                coupling.restart(episode)
        return rows

    def prepare(self) -> None:
        """Puts the expert's transitions into the replay buffer."""
        count = min(self.prefill, self.options.buffer_size)
        if not count:
            return
        batch = self.expert.take(np.stack([np.resize(kept, count) for kept in self._kept]))
        rows = {**vars(batch), "rewards": th.full_like(batch.rewards, self.alpha)}
        for seed in range(len(self.streams)):
            self._replay.add(seed, {name: values[seed] for name, values in rows.items()})

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Temporal differences of the stored rewards."""
        del expert
        return self.td_loss(own, own.rewards)

    # State.

    def extra_state(self) -> dict[str, Any]:
        """The pairs that are used, and what is left of their weights in the running episodes."""
        return {
            "kept": [kept.copy() for kept in self._kept],
            "left": [coupling.left.copy() for coupling in self._couplings],
        }

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        if not state["kept"]:  # saved before the first step
            self._kept, self._couplings = [], []
            return
        self._couple(state["kept"])
        for coupling, left in zip(self._couplings, state["left"], strict=True):
            coupling.left = np.array(left)


class PWILState(PWIL):
    """PWIL on states alone: r = alpha * exp(-beta * T / sqrt(|S|) * c).

    Prefilled transitions would need the expert's actions, so there are none.

    Args:
        **kwargs: As for `PWIL`.

    Raises:
        ValueError: `prefill` is given, or as `PWIL`.
    """

    reads_actions = False

    def __init__(self, **kwargs: Any) -> None:
        if kwargs.get("prefill"):
            raise ValueError("prefill must be 0 without the expert's actions")
        super().__init__(**kwargs)
