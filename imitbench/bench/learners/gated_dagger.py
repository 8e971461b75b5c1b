"""The learners for DAgger's variants that ask the expert less."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from imitbench.algorithms.bc_heads import BCWithHead
from imitbench.algorithms.dagger import CollectedRound
from imitbench.algorithms.ensemble_dagger import EnsembleDAgger
from imitbench.algorithms.gated_dagger import GatedDAgger, GatedRound
from imitbench.algorithms.novelty_dagger import NoveltyDAgger
from imitbench.bench.learner import Task
from imitbench.bench.learners.bc_heads import make_ensemble
from imitbench.bench.learners.dagger import DAggerLearner


class GatedDAggerLearner(DAggerLearner):
    """Trains an ensemble on the expert's answers, and counts the questions."""

    _dagger: GatedDAgger

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
        return self.make_method(dict(task.hyperparameters), bc_trainer=trainer, **shared)

    def describe(self, collected: CollectedRound) -> dict[str, float]:
        """Returns what the curve has of a round, with the questions so far."""
        assert isinstance(collected, GatedRound), "GatedDAgger returned it"
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
