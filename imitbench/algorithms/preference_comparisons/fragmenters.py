"""Cuts trajectories into pairs of fragments to compare."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import torch as th

from imitbench.algorithms.base import HasLogger
from imitbench.algorithms.preference_comparisons.preference_model import PreferenceModel
from imitbench.data.types import TrajectoryWithRew, TrajectoryWithRewPair
from imitbench.util.logger import HierarchicalLogger, configure


class Fragmenter(HasLogger, abc.ABC):
    """Makes pairs of fragments from trajectories.

    Args:
        custom_logger: Where to log; a new logger when `None`.
    """

    def __init__(self, custom_logger: HierarchicalLogger | None = None) -> None:
        self.logger = custom_logger or configure()

    @abc.abstractmethod
    def __call__(
        self,
        trajectories: Sequence[TrajectoryWithRew],
        fragment_length: int,
        num_pairs: int,
    ) -> Sequence[TrajectoryWithRewPair]:
        """Makes pairs of fragments.

        Args:
            trajectories: Trajectories to cut fragments from.
            fragment_length: Steps in each fragment.
            num_pairs: Number of pairs to return.

        Returns:
            `num_pairs` pairs.
        """

    def state_dict(self) -> dict[str, Any]:
        """State that affects later calls; empty unless overridden."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""


class RandomFragmenter(Fragmenter):
    """Cuts fragments at random, with replacement.

    A trajectory is drawn with a probability proportional to its length, then a start uniformly
    among those that leave room for the fragment. A fragment lies within one episode. Therefore the
    first and last `fragment_length - 1` steps of an episode occur less often than others, and
    trajectories shorter than a fragment are never used.

    Args:
        rng: Draws the fragments.
        warning_threshold: Warn if there are fewer transitions than this factor times those needed;
            0 for no such warning. Fewer than needed always give a warning.
        custom_logger: Where to log; a new logger when `None`.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        warning_threshold: int = 10,
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        super().__init__(custom_logger)
        self.rng = rng
        self.warning_threshold = warning_threshold

    def __call__(
        self,
        trajectories: Sequence[TrajectoryWithRew],
        fragment_length: int,
        num_pairs: int,
    ) -> Sequence[TrajectoryWithRewPair]:
        """Makes pairs of fragments whose arrays are views of the trajectories'; see `Fragmenter`.

        Raises:
            ValueError: No trajectory is long enough, one has no rewards, or a number is out of
                range.
        """
        if fragment_length < 1:
            raise ValueError(f"fragment_length must be at least 1, not {fragment_length}")
        if num_pairs < 0:
            raise ValueError(f"num_pairs must not be negative, but is {num_pairs}")
        if num_pairs == 0:
            return []
        usable = self._long_enough(trajectories, fragment_length)
        lengths = np.array([len(trajectory) for trajectory in usable])
        available = int(lengths.sum())
        self._warn_if_few(available, 2 * num_pairs * fragment_length)
        sources = self.rng.choice(len(usable), size=2 * num_pairs, p=lengths / available)
        starts = self.rng.integers(0, lengths[sources] - fragment_length, endpoint=True)
        fragments = [
            cut_fragment(usable[source], start, start + fragment_length)
            for source, start in zip(sources.tolist(), starts.tolist(), strict=True)
        ]
        return list(zip(fragments[::2], fragments[1::2], strict=True))

    def state_dict(self) -> dict[str, Any]:
        """State of the random generator."""
        return {"rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.rng.bit_generator.state = state["rng"]

    def _long_enough(
        self, trajectories: Sequence[TrajectoryWithRew], fragment_length: int
    ) -> list[TrajectoryWithRew]:
        if not trajectories:
            raise ValueError("trajectories is empty; give at least one")
        for index, trajectory in enumerate(trajectories):
            if not isinstance(trajectory, TrajectoryWithRew):
                raise ValueError(
                    f"trajectories: number {index} has no rewards; give a TrajectoryWithRew"
                )
        usable = [trajectory for trajectory in trajectories if len(trajectory) >= fragment_length]
        if not usable:
            longest = max(map(len, trajectories))
            raise ValueError(
                f"no trajectory is long enough for fragment_length {fragment_length}: the longest "
                f"has {longest} steps; set fragment_length to at most {longest}, or collect "
                "longer episodes"
            )
        discarded = len(trajectories) - len(usable)
        if discarded:
            self.logger.log(
                f"Skipped {discarded} of {len(trajectories)} trajectories: shorter than a "
                f"fragment of {fragment_length} steps."
            )
        return usable

    def _warn_if_few(self, available: int, needed: int) -> None:
        if available < needed:
            self.logger.warn(
                f"The fragments take {needed} transitions but only {available} are available: "
                "some will occur several times."
            )
        elif available < self.warning_threshold * needed:
            self.logger.warn(
                f"The fragments take {needed} transitions of only {available} available. They "
                "are drawn with replacement: many will occur several times."
            )


def cut_fragment(trajectory: TrajectoryWithRew, start: int, end: int) -> TrajectoryWithRew:
    """Cuts a fragment, whose arrays are views; terminal if it includes the end of the episode.

    Args:
        trajectory: Where to cut.
        start: First step.
        end: Step after the last.
    """
    return TrajectoryWithRew(
        obs=trajectory.obs[start : end + 1],
        acts=trajectory.acts[start:end],
        infos=None if trajectory.infos is None else trajectory.infos[start:end],
        terminal=bool(trajectory.terminal) and end == len(trajectory),
        rews=trajectory.rews[start:end],
    )


_SUPPORTED = ("logit", "probability", "label")


class ActiveSelectionFragmenter(Fragmenter):
    """Makes more pairs than requested with another fragmenter, and keeps the most uncertain.

    The uncertainty of a pair is the variance over the ensemble's members of

    - `logit`: the difference of the (discounted) returns, not clipped;
    - `probability`: the probability that the first fragment is preferred;
    - `label`: whether that probability is above ½, `p (1 - p)` for a share `p` of the members.

    Of equally uncertain pairs the earlier are kept. Networks are in evaluation mode, so that their
    statistics do not change.

    Source: Christiano et al. 2017, "Deep Reinforcement Learning from Human Preferences", §2.2.4;
    Lee et al. 2021, "B-Pref", §4.2.

    Args:
        preference_model: A model of a `RewardEnsemble`.
        base_fragmenter: Makes the candidate pairs.
        fragment_sample_factor: Candidate pairs per requested pair, at least 1.
        uncertainty_on: `logit`, `probability` or `label`.
        custom_logger: Where to log; a new logger when `None`.

    Raises:
        ValueError: The model is not of an ensemble, the factor is below 1, or `uncertainty_on` is
            unknown.
    """

    def __init__(
        self,
        preference_model: PreferenceModel,
        base_fragmenter: Fragmenter,
        fragment_sample_factor: float,
        uncertainty_on: str = "logit",
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        if preference_model.ensemble_model is None:
            raise ValueError(
                "preference_model: active selection needs a model of a RewardEnsemble, not of a "
                f"{type(preference_model.model).__name__}"
            )
        if not 1 <= fragment_sample_factor < float("inf"):
            raise ValueError(
                f"fragment_sample_factor must be at least 1, not {fragment_sample_factor}"
            )
        self.preference_model = preference_model
        self.base_fragmenter = base_fragmenter
        self.fragment_sample_factor = fragment_sample_factor
        self._uncertainty_on = uncertainty_on
        if uncertainty_on not in _SUPPORTED:
            self.raise_uncertainty_on_not_supported()
        super().__init__(custom_logger)

    def _pass_on_logger(self, logger: HierarchicalLogger) -> None:
        self.base_fragmenter.logger = logger

    @property
    def uncertainty_on(self) -> str:
        """Quantity whose variance is the uncertainty."""
        return self._uncertainty_on

    def raise_uncertainty_on_not_supported(self) -> NoReturn:
        """Raises the error of an unknown `uncertainty_on`.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            f"uncertainty_on: {self.uncertainty_on!r} is not supported; use "
            + ", ".join(_SUPPORTED[:-1])
            + f" or {_SUPPORTED[-1]}"
        )

    def __call__(
        self,
        trajectories: Sequence[TrajectoryWithRew],
        fragment_length: int,
        num_pairs: int,
    ) -> Sequence[TrajectoryWithRewPair]:
        """Makes pairs of fragments, the most uncertain first; see `Fragmenter`.

        Raises:
            ValueError: A predicted return is not finite, or as `base_fragmenter`.
        """
        pairs = self.base_fragmenter(
            trajectories=trajectories,
            fragment_length=fragment_length,
            num_pairs=int(self.fragment_sample_factor * num_pairs),
        )
        if not pairs:
            return []
        returns1, returns2 = self.preference_model.predicted_returns(pairs)
        variances = self._variances(returns1 - returns2).cpu().numpy()
        # Stable, so that ties are broken the same way on every machine.
        chosen = np.argsort(-variances, kind="stable")[:num_pairs]
        return [pairs[index] for index in chosen]

    def variance_estimate(self, rews1: th.Tensor, rews2: th.Tensor) -> float:
        """Computes the uncertainty of a pair.

        Args:
            rews1: All members' rewards of the first fragment, shape `(fragment_length, members)`.
            rews2: Those of the second fragment, same shape.

        Returns:
            The variance.

        Raises:
            ValueError: The shapes differ.
        """
        difference = self.preference_model.return_difference(rews1, rews2)
        return self._variances(difference.unsqueeze(0)).item()

    def _variances(self, differences: th.Tensor) -> th.Tensor:
        """Variances, shape `(n,)`, from differences of returns, shape `(n, members)`."""
        if self.uncertainty_on == "logit":
            return differences.var(dim=1)
        if self.uncertainty_on == "probability":
            probabilities = self.preference_model.probability_of_difference(differences)
            return probabilities.var(dim=1, correction=0)
        if self.uncertainty_on != "label":
            self.raise_uncertainty_on_not_supported()
        share = (differences > 0).to(differences.dtype).mean(dim=1)
        return share * (1 - share)

    def state_dict(self) -> dict[str, Any]:
        """The state of `base_fragmenter`, without the model."""
        return {"base_fragmenter": self.base_fragmenter.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.base_fragmenter.load_state_dict(state["base_fragmenter"])
