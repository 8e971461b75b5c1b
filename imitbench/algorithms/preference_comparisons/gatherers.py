"""Gathers preferences between fragments: the base class, synthetic ones, scripted teachers."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from imitbench.data.types import TrajectoryWithRew, TrajectoryWithRewPair
from imitbench.util.logger import HierarchicalLogger, configure

Preferences = npt.NDArray[np.float32]
Array = npt.NDArray[np.float64]

_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class AnsweredPairs:
    """Pairs of fragments that came back with answers.

    Attributes:
        pairs: `n` pairs, not necessarily those that were asked about last.
        preferences: Probabilities that the first of each is preferred, shape `(n,)`, float32; NaN
            for a skipped pair.
        weights: How much each answer counts, positive, shape `(n,)`, float32; 1 for an annotator
            who counts as much as others.
    """

    pairs: Sequence[TrajectoryWithRewPair]
    preferences: Preferences
    weights: Preferences


class PreferenceGatherer(abc.ABC):
    """Base of what gathers preferences between fragments.

    Args:
        rng: For gatherers that draw random numbers. All gatherers accept it, so that callers can
            treat them in the same way.
        custom_logger: Where to log; a new logger when `None`.
    """

    def __init__(
        self,
        rng: np.random.Generator | None = None,
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        self.rng = rng
        self.logger = custom_logger or configure()

    @abc.abstractmethod
    def __call__(self, fragment_pairs: Sequence[TrajectoryWithRewPair]) -> Preferences:
        """Gathers preferences.

        Args:
            fragment_pairs: `b` pairs of fragments.

        Returns:
            Shape `(b,)`, float32: for each pair the probability that its first fragment is
            preferred. Human preferences are 1, 0, or 0.5 for a tie; NaN stands for no answer, and
            `PreferenceDataset.push` skips such a pair.
        """

    def gather(self, fragment_pairs: Sequence[TrajectoryWithRewPair]) -> AnsweredPairs:
        """Sends pairs out, and returns the answers that came back.

        A gatherer whose answers have weights, or come back later, overrides this; by default the
        answers are those of a call, and all count the same.

        Args:
            fragment_pairs: `b` pairs of fragments.
        """
        preferences = self(fragment_pairs)
        return AnsweredPairs(fragment_pairs, preferences, np.ones_like(preferences))

    def observe(  # noqa: B027 (few gatherers need it)
        self, trajectories: Sequence[TrajectoryWithRew]
    ) -> None:
        """Called with the trajectories from which the next pairs are cut, before `gather`."""

    def state_dict(self) -> dict[str, Any]:
        """State of the random generator, if any."""
        return {"rng": None if self.rng is None else self.rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        if self.rng is not None:
            self.rng.bit_generator.state = state["rng"]


class SyntheticGatherer(PreferenceGatherer):
    """Preferences by the true reward: P(1 over 2) = 1 / (1 + exp((R2 - R1) / temperature)).

    R is the discounted sum of a fragment's rewards (Bradley and Terry's model on returns;
    Christiano et al. 2017, eq. 1). The mean entropy of these probabilities, in nats, is logged
    as `entropy`: the least cross-entropy that a perfect reward model could reach.

    Args:
        temperature: Higher values make preferences more random. With 0 the greater return is always
            preferred, and equal ones are a tie, 0.5. Returns count as equal if they differ by at
            most the rounding error of their sums.
        discount_factor: Weight of each step relative to the one before, in [0, 1].
        sample: Whether to draw each preference, 0 or 1, with its probability, instead of returning
            the probability. A tie at temperature 0 stays 0.5.
        rng: Draws preferences; used only with `sample` and a temperature above 0.
        threshold: Differences of returns, after division by the temperature, are clipped to plus or
            minus this, so that exponentials do not overflow. With the default no probability is
            below 2e-22.
        custom_logger: Where to log; a new logger when `None`.

    Raises:
        ValueError: `sample` is given without `rng`, or a number is out of range.
    """

    def __init__(
        self,
        temperature: float = 1,
        discount_factor: float = 1,
        sample: bool = True,
        rng: np.random.Generator | None = None,
        threshold: float = 50,
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        super().__init__(rng, custom_logger)
        if not (temperature >= 0 and math.isfinite(temperature)):
            raise ValueError(f"temperature must be finite and not negative, not {temperature}")
        if not 0 <= discount_factor <= 1:
            raise ValueError(f"discount_factor must lie in [0, 1], not {discount_factor}")
        if not threshold > 0:
            raise ValueError(f"threshold must be positive, not {threshold}")
        if sample and rng is None:
            raise ValueError(
                "rng: sampled preferences need a generator; pass np.random.default_rng(seed), or "
                "sample=False for the probabilities"
            )
        self.temperature = temperature
        self.discount_factor = discount_factor
        self.sample = sample
        self.threshold = threshold

    def __call__(self, fragment_pairs: Sequence[TrajectoryWithRewPair]) -> Preferences:
        """Gathers preferences; see `PreferenceGatherer`.

        Raises:
            ValueError: Rewards are missing or not finite.
        """
        if not len(fragment_pairs):
            return np.zeros(0, dtype=np.float32)
        returns, rounding = pair_returns(fragment_pairs, self.discount_factor)
        difference = returns[:, 1] - returns[:, 0]
        if self.temperature == 0:
            decided = np.abs(difference) > rounding
            probabilities = np.where(decided, (1 - np.sign(difference)) / 2, 0.5)
        else:
            with np.errstate(over="ignore"):  # infinite values are clipped
                scaled = difference / self.temperature
            scaled = np.clip(scaled, -self.threshold, self.threshold)
            probabilities = 1 / (1 + np.exp(scaled))
        entropy = special.entr(probabilities) + special.entr(1 - probabilities)
        self.logger.record("entropy", float(entropy.mean()))
        if self.sample and self.temperature > 0:
            assert self.rng is not None, "checked on construction"
            probabilities = self.rng.binomial(n=1, p=probabilities)
        return probabilities.astype(np.float32)


def pair_returns(
    pairs: Sequence[TrajectoryWithRewPair], discount_factor: float = 1.0, *, from_end: bool = False
) -> tuple[Array, Array]:
    """Computes the (discounted) returns of pairs, whose fragments may differ in length.

    Args:
        pairs: `b` pairs of fragments, at least one.
        discount_factor: Weight of each step relative to the one before, or after.
        from_end: Whether the last step has weight 1, and earlier ones less, instead of the first.

    Returns:
        Returns, shape `(b, 2)`, and the rounding error of each pair's, shape `(b,)`.

    Raises:
        ValueError: Rewards are missing or not finite.
    """
    fragments = [fragment for pair in pairs for fragment in pair]
    _check_rewards_present(fragments)
    # All rewards are concatenated and summed by part.
    rewards = np.concatenate([fragment.rews for fragment in fragments], dtype=np.float64)
    lengths = np.array([len(fragment) for fragment in fragments])
    starts = np.cumsum(lengths) - lengths
    if discount_factor != 1:
        steps = np.arange(len(rewards)) - np.repeat(starts, lengths)
        if from_end:
            steps = np.repeat(lengths - 1, lengths) - steps
        rewards *= np.power(float(discount_factor), steps)
    with np.errstate(over="ignore", invalid="ignore"):  # raised below, with the fragment
        returns = np.add.reduceat(rewards, starts)
        sizes = np.add.reduceat(np.abs(rewards), starts)
    if not np.isfinite(returns).all():
        _blame_rewards(fragments, int(np.flatnonzero(~np.isfinite(returns))[0]))
    # The rounding error of a sum of n numbers is below n epsilon times the sum of their sizes.
    rounding = (_EPSILON * lengths * sizes).reshape(-1, 2).sum(axis=1)
    return returns.reshape(-1, 2), rounding


def _check_rewards_present(fragments: Sequence[TrajectoryWithRew]) -> None:
    for index, fragment in enumerate(fragments):
        if not isinstance(fragment, TrajectoryWithRew):
            raise ValueError(
                f"fragment_pairs: {_name_of(index)} has no rewards; give a TrajectoryWithRew"
            )


def _blame_rewards(fragments: Sequence[TrajectoryWithRew], index: int) -> None:
    rews = fragments[index].rews
    odd = np.flatnonzero(~np.isfinite(rews))
    if len(odd):
        what = f"a reward that is not finite ({rews[odd[0]]} at step {odd[0]})"
    else:
        what = "rewards whose sum overflows"
    raise ValueError(
        f"fragment_pairs: {_name_of(index)} has {what}; check the environment's reward"
    )


def _name_of(index: int) -> str:
    return f"fragment {index % 2 + 1} of pair {index // 2}"


class ScriptedTeacher(PreferenceGatherer):
    """B-Pref's teacher: answers by the true reward, with flaws of people, by default none.

    It answers a pair of fragments with returns R1 and R2 in these steps:

    1. Skip it if neither return is above `skip` times the return that is usual now.
    2. Prefer the first with probability `1 / (1 + exp(rationality * (G2 - G1)))`, where G weighs
       the step that is t before the last by `discount_factor ** t`.
    3. Turn the answer round with probability `mistake`.
    4. Answer ½ after all if |R1 - R2| is below `equal` times the return that is usual now.

    The usual return is the mean reward of a step in the trajectories of the latest `observe`, or
    in the fragments of the call before any, times the steps of the fragment. Steps 1 and 4 count
    rewards above `floor`, so that they make sense for negative rewards; without a usual return
    above that, they do nothing.

    Source: Lee et al. 2021, "B-Pref: Benchmarking Preference-Based Reinforcement Learning", section
    3.2 and algorithm 1, arXiv:2111.03026.

    Args:
        rng: Draws answers and mistakes.
        rationality: B-Pref's beta; infinite for an answer that is always that of the greater
            return, or ½ if both are equal up to rounding.
        discount_factor: B-Pref's gamma, in [0, 1]; less than 1 forgets early steps.
        mistake: Probability of a wrong answer, in [0, 1].
        skip: Share of the usual return below which a pair is skipped, at least 0.
        equal: Share of the usual return below which returns do not differ, at least 0.
        floor: Reward of a step that counts as none, as in B-Pref 0; `None` for the least reward
            that was seen so far.
        custom_logger: Where to log; a new logger when `None`.

    Raises:
        ValueError: A number is out of range.
    """

    rng: np.random.Generator

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        rationality: float = math.inf,
        discount_factor: float = 1.0,
        mistake: float = 0.0,
        skip: float = 0.0,
        equal: float = 0.0,
        floor: float | None = 0.0,
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        super().__init__(rng, custom_logger)
        if not rationality > 0:
            raise ValueError(f"rationality must be positive, not {rationality}")
        for name, value in (("discount_factor", discount_factor), ("mistake", mistake)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must lie in [0, 1], not {value}")
        for name, value in (("skip", skip), ("equal", equal)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be at least 0, not {value}")
        self.rationality = rationality
        self.discount_factor = discount_factor
        self.mistake = mistake
        self.skip = skip
        self.equal = equal
        self.floor = floor
        self._usual: float | None = None
        self._least = math.inf

    def observe(self, trajectories: Sequence[TrajectoryWithRew]) -> None:
        """Notes the mean and the least reward of a step."""
        rewards = np.concatenate([trajectory.rews for trajectory in trajectories], dtype=np.float64)
        if len(rewards):
            self._usual = float(rewards.mean())
            self._least = min(self._least, float(rewards.min()))

    def __call__(self, fragment_pairs: Sequence[TrajectoryWithRewPair]) -> Preferences:
        """Answers pairs, whose fragments have the same length; see `PreferenceGatherer`.

        Raises:
            ValueError: Rewards are missing or not finite.
        """
        if not len(fragment_pairs):
            return np.zeros(0, dtype=np.float32)
        returns, _ = pair_returns(fragment_pairs)
        usual, base = self._usual_returns(fragment_pairs)
        answers = self._preferred(fragment_pairs)
        mistaken = self.rng.random(len(answers)) < self.mistake
        answers[mistaken] = 1 - answers[mistaken]
        difference = np.abs(returns[:, 0] - returns[:, 1])
        answers[difference < self.equal * usual] = 0.5
        hopeless = (returns.max(axis=1) - base <= self.skip * usual) & (self.skip * usual > 0)
        answers[hopeless] = np.nan
        self.logger.record("skipped", float(hopeless.mean()))
        return answers.astype(np.float32)

    def _preferred(self, pairs: Sequence[TrajectoryWithRewPair]) -> Array:
        """Answers before mistakes, shape `(b,)`."""
        weighed, rounding = pair_returns(pairs, self.discount_factor, from_end=True)
        difference = weighed[:, 0] - weighed[:, 1]
        if self.rationality == math.inf:
            decided = np.abs(difference) > rounding
            return np.where(decided, (1 + np.sign(difference)) / 2, 0.5)
        with np.errstate(over="ignore"):  # an infinite exponential gives probability 0
            probabilities = 1 / (1 + np.exp(-self.rationality * difference))
        return (self.rng.random(len(pairs)) < probabilities).astype(np.float64)

    def _usual_returns(self, pairs: Sequence[TrajectoryWithRewPair]) -> tuple[Array, Array]:
        """Usual returns above the floor, and the returns that count as none, shape `(b,)` each."""
        if self._usual is None:
            self.observe([fragment for pair in pairs for fragment in pair])
        assert self._usual is not None, "observe found rewards"
        floor = self._least if self.floor is None else self.floor
        lengths = np.array([len(first) for first, _ in pairs], dtype=np.float64)
        return (self._usual - floor) * lengths, floor * lengths

    def state_dict(self) -> dict[str, Any]:
        """The generator, and what the teacher knows of rewards."""
        return {**super().state_dict(), "usual": self._usual, "least": self._least}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        super().load_state_dict(state)
        self._usual, self._least = state["usual"], state["least"]


TEACHERS: dict[str, dict[str, Any]] = {
    "oracle": {},
    "stochastic": {"rationality": 1.0},
    "myopic": {"discount_factor": 0.9},
    "skipping": {"skip": 0.1},
    "equal": {"equal": 0.1},
    "mistaken": {"mistake": 0.1},
}
"""B-Pref's six teachers by name: the argument of `ScriptedTeacher` that is its flaw, with value."""


def make_teacher(
    name: str,
    rng: np.random.Generator,
    parameter: float | None = None,
    floor: float | None = 0.0,
) -> ScriptedTeacher:
    """Makes one of B-Pref's teachers.

    Args:
        name: A name in `TEACHERS`.
        rng: Draws answers and mistakes.
        parameter: Value of the flaw; B-Pref's when `None`.
        floor: See `ScriptedTeacher`.

    Raises:
        ValueError: There is no such teacher, it has no parameter, or a number is out of range.
    """
    if name not in TEACHERS:
        raise ValueError(f"teacher: no teacher '{name}'; choose one of {', '.join(TEACHERS)}")
    flaw = TEACHERS[name]
    if parameter is not None:
        if not flaw:
            raise ValueError(f"teacher: {name} has no parameter; leave it out, not {parameter}")
        flaw = dict.fromkeys(flaw, parameter)
    return ScriptedTeacher(rng, floor=floor, **flaw)
