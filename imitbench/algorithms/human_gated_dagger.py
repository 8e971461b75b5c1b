"""DAgger with a person as the expert, who takes over where the policy fails.

A person cannot label actions that somebody else takes, so the person decides who acts. In round 0
the person acts alone. In every later round the policy acts until the person takes over, and goes
on when the person gives back. The policy learns from the person's actions of all rounds, and from
no others.

Source: Kelly et al. 2019, "HG-DAgger: Interactive Imitation Learning with Human Experts", without
its estimate of risk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from imitbench.algorithms.dagger import log_round
from imitbench.algorithms.dagger_storage import COLLECTED, write_demos
from imitbench.algorithms.dagger_trainer import DAggerTrainer, check_round_size
from imitbench.algorithms.gated_dagger import GatedRound, QueryCounts
from imitbench.data.types import Trajectory, TrajectoryWithRew

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SharedEpisode:
    """An episode in which a person and a policy took turns.

    Attributes:
        trajectory: What happened.
        by_person: Whether the person acted, shape (n_steps,).
    """

    trajectory: TrajectoryWithRew
    by_person: Mask

    @property
    def counts(self) -> QueryCounts:
        """What the person did."""
        steps = int(self.by_person.sum())
        return QueryCounts(len(self.trajectory), steps, steps, len(self._bounds()))

    @property
    def person_parts(self) -> list[Trajectory]:
        """The parts in which the person acted, in order."""
        whole = self.trajectory
        return [
            Trajectory(
                obs=whole.obs[start : end + 1],
                acts=whole.acts[start:end],
                infos=None,
                terminal=whole.terminal and end == len(whole),
            )
            for start, end in self._bounds()
        ]

    def _bounds(self) -> list[tuple[int, int]]:
        """First step of each of the person's turns, and the step after its last one."""
        changes = np.diff(np.concatenate([[False], self.by_person, [False]]).astype(np.int8))
        starts, ends = np.flatnonzero(changes > 0), np.flatnonzero(changes < 0)
        return list(zip(starts.tolist(), ends.tolist(), strict=True))


@dataclass(frozen=True)
class RoundRequest:
    """What a round asks of the person.

    Attributes:
        number: Number of the round, from 0.
        act: The policy: the action for one observation; `None` if the person acts alone.
        min_episodes: Least number of episodes.
        min_steps: Least number of steps.
    """

    number: int
    act: Callable[[Any], Any] | None
    min_episodes: int
    min_steps: int


class Person(Protocol):
    """A person who acts."""

    @property
    def finished(self) -> bool:
        """Whether the person wants no further round."""

    def take_turns(
        self, request: RoundRequest, check_stop: Callable[[], object]
    ) -> Sequence[SharedEpisode]:
        """Waits until a round is complete.

        Args:
            request: What is asked for.
            check_stop: Called often; raises if the training must stop.

        Returns:
            The episodes of the round; fewer than asked for, perhaps none, if `finished`.
        """


class HumanGatedDAgger(DAggerTrainer):
    """DAgger in which a person decides who acts.

    Args:
        person: Whoever acts.
        check_stop: Called often while the person acts; raises if the training must stop.
        **dagger_trainer_kwargs: Arguments of `DAggerTrainer`.

    Attributes:
        counts: What the person did in all rounds.
    """

    def __init__(
        self, *, person: Person, check_stop: Callable[[], object], **dagger_trainer_kwargs: Any
    ) -> None:
        super().__init__(**dagger_trainer_kwargs)
        self.person = person
        self._check_stop = check_stop
        self.counts = QueryCounts()

    def train_round(
        self,
        *,
        rollout_round_min_episodes: int = 3,
        rollout_round_min_timesteps: int = 500,
        bc_train_kwargs: Mapping[str, Any] | None = None,
        timesteps_before: int = 0,
    ) -> GatedRound:
        """Runs one round: lets the person act, then trains, unless the person never acted.

        Args:
            rollout_round_min_episodes: Least number of episodes.
            rollout_round_min_timesteps: Least number of steps; at least `batch_size`.
            bc_train_kwargs: See `extend_and_update`.
            timesteps_before: Steps of earlier rounds, for the log.

        Returns:
            The round, without episodes if the person wants no further one.

        Raises:
            ValueError: A number is out of range.
        """
        check_round_size(rollout_round_min_episodes, rollout_round_min_timesteps)
        least = max(rollout_round_min_timesteps, self.batch_size)
        act = None if self.round_num == 0 else self._act
        request = RoundRequest(self.round_num, act, rollout_round_min_episodes, least)
        episodes = self.person.take_turns(request, self._check_stop)
        counts = sum((episode.counts for episode in episodes), QueryCounts())
        self.counts += counts
        share = counts.expert_steps / max(counts.env_steps, 1)
        collected = GatedRound(
            self.round_num,
            share,
            counts.env_steps,
            [episode.trajectory for episode in episodes],
            counts,
        )
        if not episodes:
            return collected
        log_round(self.logger, collected, timesteps_before)
        parts = [part for episode in episodes for part in episode.person_parts]
        if parts:
            write_demos(self.round_folder(self.round_num) / COLLECTED, parts)
            self.extend_and_update(bc_train_kwargs)
        else:
            self.round_num += 1
        return collected

    def _act(self, obs: Any) -> Any:
        """The policy's most likely action: a person can only judge a steady policy."""
        return self.policy.predict(obs, deterministic=True)[0]

    def state_dict(self) -> dict[str, Any]:
        """See `DAggerTrainer.state_dict`."""
        return {**super().state_dict(), "counts": vars(self.counts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        super().load_state_dict(state)
        self.counts = QueryCounts(**state["counts"])
