"""The learners for DAgger's variants that ask the expert less, or a person."""

from __future__ import annotations

import tempfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from imitbench.algorithms.bc_heads import BCWithHead
from imitbench.algorithms.dagger import CollectedRound
from imitbench.algorithms.ensemble_dagger import EnsembleDAgger
from imitbench.algorithms.gated_dagger import GatedDAgger, GatedRound
from imitbench.algorithms.human_gated_dagger import HumanGatedDAgger, Person
from imitbench.algorithms.novelty_dagger import NoveltyDAgger
from imitbench.bench.learner import Task
from imitbench.bench.learners.bc_heads import make_ensemble
from imitbench.bench.learners.dagger import DAggerLearner, expert_of, make_cloner
from imitbench.records.runs import Budget

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew


class CountingDAggerLearner(DAggerLearner):
    """DAgger with a trainer that counts the questions."""

    _dagger: GatedDAgger | HumanGatedDAgger

    def describe(self, collected: CollectedRound) -> dict[str, float]:
        """Returns what the curve has of a round, with the questions so far."""
        assert isinstance(collected, GatedRound), "these trainers return it"
        return {
            **super().describe(collected),
            "dagger/expert_queries": float(self._dagger.counts.queries),
        }

    def measures(self) -> dict[str, float]:
        """What the training cost the expert."""
        counts = self._dagger.counts
        return {
            "expert_queries": float(counts.queries),
            "expert_share": counts.expert_steps / counts.env_steps,
            "expert_takeovers": float(counts.takeovers),
        }


class GatedDAggerLearner(CountingDAggerLearner):
    """Trains an ensemble on the expert's answers, and counts the questions."""

    @abstractmethod
    def make_method(self, options: Mapping[str, Any], **shared: Any) -> GatedDAgger:
        """Creates the method.

        Args:
            options: Every hyper-parameter by name.
            **shared: Arguments of `GatedDAgger`.
        """

    def make_trainer(self, task: Task, bc: Mapping[str, Any], **shared: Any) -> GatedDAgger:
        """Creates the trainer with its ensemble."""
        trainer = BCWithHead(policy=make_ensemble(task, gaussian=False), **bc)
        return self.make_method(
            dict(task.hyperparameters),
            bc_trainer=trainer,
            expert_policy=expert_of(task),
            **shared,
        )


class EnsembleDAggerLearner(GatedDAggerLearner):
    """EnsembleDAgger."""

    def make_method(self, options: Mapping[str, Any], **shared: Any) -> EnsembleDAgger:
        """Creates EnsembleDAgger."""
        return EnsembleDAgger(
            doubt_threshold=options["doubt_threshold"],
            discrepancy_threshold=options["discrepancy_threshold"],
            **shared,
        )


class NoveltyDAggerLearner(GatedDAggerLearner):
    """The novelty gate of ThriftyDAgger."""

    def make_method(self, options: Mapping[str, Any], **shared: Any) -> NoveltyDAgger:
        """Creates novelty DAgger."""
        return NoveltyDAgger(query_share=options["query_share"], **shared)


class HumanDAggerLearner(CountingDAggerLearner):
    """DAgger with a person.

    Args:
        person: Whoever acts.
    """

    _dagger: HumanGatedDAgger

    def __init__(self, person: Person) -> None:
        self._person = person
        self._finished = False

    def make_trainer(self, task: Task, bc: Mapping[str, Any], **shared: Any) -> HumanGatedDAgger:
        """Creates the trainer with its policy."""
        self._folder = tempfile.TemporaryDirectory(prefix="imitbench-dagger-")
        return HumanGatedDAgger(
            scratch_dir=self._folder.name,
            person=self._person,
            check_stop=task.check_stop,
            bc_trainer=make_cloner(task, bc),
            **shared,
        )

    def _ends(self, episodes: Sequence[TrajectoryWithRew]) -> dict[str, float]:
        return {}  # the person ends episodes, too

    def _is_finished(self) -> bool:
        return self._finished or self._person.finished

    def _needs_round(self, budget: Budget) -> bool:
        return super()._needs_round(budget) and not self._is_finished()

    def state_dict(self) -> dict[str, Any]:
        """State at the end of a round."""
        return {**super().state_dict(), "finished": self._is_finished()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        super().load_state_dict(state)
        self._finished = state["finished"]
