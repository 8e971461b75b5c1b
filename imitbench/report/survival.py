"""Says whether survival explains a score: what constant rewards reach where episodes end early.

Where good behavior keeps an episode going, any positive reward teaches it, and where a goal ends
the episode, any negative one does (Kostrikov et al. 2019, "Discriminator-Actor-Critic", section
4.1). A method that learns no more than that scores well and has imitated nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from imitbench.records.bundled_cards import bundled_suite
from imitbench.records.runs import ScoreRow
from imitbench.report import text

EXPLAINED, NOT_EXPLAINED = 0.9, 0.25
"""Shares of a method's score from which on a control explains it, and below which it does not."""
SUCCESS = 0.1
"""Scores below it leave nothing to explain."""
FEW_SEEDS = 5


@dataclass(frozen=True)
class Outcome:
    """What a learner reached, as the mean over its seeds.

    Attributes:
        mean_return: Mean return of sampled actions.
        score: Its score; NaN if it is unknown.
        length: Mean length of episodes, in steps.
        early: Share of episodes that ended before a time limit cut them off.
        seeds: Number of seeds.
    """

    mean_return: float
    score: float
    length: float
    early: float
    seeds: int

    @classmethod
    def of_rows(cls, rows: Sequence[ScoreRow]) -> Outcome | None:
        """Returns the outcome of runs of one learner; `None` if there are none."""
        if not rows:
            return None

        def mean(values: Iterable[float]) -> float:
            return float(np.mean(list(values)))

        return cls(
            mean(row.raw_return for row in rows),
            mean(row.score for row in rows),
            mean(row.mean_length for row in rows),
            mean(row.termination_rate for row in rows),
            len(rows),
        )


@dataclass(frozen=True)
class Audit:
    """The learners of an audit; all but the method may be missing if they failed.

    Attributes:
        algo: Name of the method.
        env: Name of the environment.
        method: `None` if it was not trained.
        random: Random actions.
        plus: The method's learner on a reward of +1 in every step.
        minus: On a reward of -1.
        zero: On a reward of 0.
    """

    algo: str
    env: str
    method: Outcome | None
    random: Outcome | None
    plus: Outcome | None
    minus: Outcome | None
    zero: Outcome | None

    @property
    def rows(self) -> dict[str, Outcome | None]:
        """Outcomes by the names that tables show."""
        return {
            self.algo: self.method,
            "constant plus (+1)": self.plus,
            "constant minus (-1)": self.minus,
            "zero reward (0)": self.zero,
            "random actions": self.random,
        }

    @property
    def share(self) -> float:
        """Largest share of the method's success that a constant reward reaches; NaN if unknown."""
        best = self._best()
        if self.method is None or best is None:
            return math.nan
        own, given = self._success(self.method), self._success(best[1])
        return max(given, 0.0) / own if self._succeeds() else math.nan

    def sentences(self) -> list[str]:
        """Says in words whether survival explains the method's score."""
        outcomes = [found for found in self.rows.values() if found is not None]
        if not any(found.early for found in outcomes):
            return [f"No episode on {self.env} ended early, so survival explains nothing there."]
        best = self._best()
        if best is None:
            return ["No control was completed, so survival may explain the score or not."]
        if self.method is None:
            return [self._without_method(self.plus or best[1])]
        if not self._succeeds():
            return [
                f"{self.algo} is not better than random actions ({self._shown(self.method)}), so "
                "there is no success that survival could explain."
            ]
        return [self._explanation(*best), *self._caveats()]

    def _explanation(self, word: str, best: Outcome) -> str:
        assert self.method is not None, "it was trained"
        what = "survival" if word == "+1" else "ending episodes early"
        compared = (
            f"a constant reward of {word}, which tells nothing of the expert, reaches "
            f"{self._shown(best)} in episodes of {best.length:.0f} steps, {self.algo} "
            f"{self._shown(self.method)} in {self.method.length:.0f}"
        )
        if self.share >= EXPLAINED:
            return f"{what.capitalize()} alone explains the success of {self.algo}: {compared}."
        if self.share >= NOT_EXPLAINED:
            part = f"a part of the success of {self.algo}, about {100 * self.share:.0f}%"
            return f"{what.capitalize()} explains {part}: {compared}."
        return f"Survival does not explain the success of {self.algo}: {compared}."

    def _without_method(self, plus: Outcome) -> str:
        chance = f"; random actions reach {self._shown(self.random)}" if self.random else ""
        return (
            f"A constant reward of +1 reaches {self._shown(plus)} on {self.env}, in episodes of "
            f"{plus.length:.0f} steps{chance}. A method that is not clearly above it may have "
            "learned to survive, and nothing else."
        )

    def _caveats(self) -> Iterator[str]:
        assert self.method is not None, "it was trained"
        if self.zero is not None:
            drift = self._success(self.zero) / self._success(self.method)
            if drift >= NOT_EXPLAINED:
                yield f"Training without any reward reaches {self._shown(self.zero)} already."
        trained = (self.method, self.plus, self.minus, self.zero)
        seeds = min(found.seeds for found in trained if found is not None)
        if seeds < FEW_SEEDS:
            what = "One seed says" if seeds == 1 else f"{seeds} seeds say"
            yield f"{what} little: --seeds {FEW_SEEDS} says more."

    def _best(self) -> tuple[str, Outcome] | None:
        """Returns the better one of the constant rewards, with its sign."""
        found = [(sign, own) for sign, own in (("+1", self.plus), ("-1", self.minus)) if own]
        return max(found, key=lambda signed: self._success(signed[1]), default=None)

    def _success(self, found: Outcome) -> float:
        """Returns the score or, if it is unknown, the return above that of random actions."""
        if not math.isnan(found.score):
            return found.score
        return found.mean_return - (self.random.mean_return if self.random else 0.0)

    def _succeeds(self) -> bool:
        assert self.method is not None, "it was trained"
        return self._success(self.method) > (0.0 if math.isnan(self.method.score) else SUCCESS)

    def _shown(self, found: Outcome) -> str:
        if math.isnan(found.score):
            return f"a return of {found.mean_return:.2f}"
        return f"a score of {text.score(found.score)}"


_POSITIVE = re.compile(r"constant_plus(\[.*\])?|constant_reward(\[(?!(.*,)?reward=(-|0\.0)).*\])?")


def is_constant_plus(algo: str) -> bool:
    """Whether an algorithm, with its variant, is a control with a positive constant reward."""
    return _POSITIVE.fullmatch(algo) is not None


def ends_early(rows: Sequence[ScoreRow]) -> bool:
    """Whether episodes differ in length in the environment of runs, by its card or by these."""
    first = rows[0]
    suite = bundled_suite(first.suite)
    card = suite.environments.get(first.env) if suite else None
    if card is not None:
        return card.horizon == "variable"
    lengths = {row.mean_length for row in rows}
    return len(lengths) > 1 and any(row.termination_rate > 0 for row in rows)


def survival_notes(rows: Sequence[ScoreRow]) -> Iterator[str]:
    """Yields what a constant positive reward scores where episodes end early.

    Where the suite has that control and these runs do not, says how to measure it.

    Args:
        rows: Completed runs of a section.
    """
    found: dict[str, dict[str, list[float]]] = {}
    unknown = []
    for env in dict.fromkeys(row.env for row in rows):
        here = [row for row in rows if row.env == env]
        if not ends_early(here):
            continue
        plus = [row for row in here if is_constant_plus(row.algo)]
        for row in plus:
            found.setdefault(row.algo, {}).setdefault(env, []).append(row.score)
        suite = bundled_suite(here[0].suite)
        methods = [row for row in here if row.role == "method"]
        if methods and not plus and suite is not None and "constant_plus" in suite.controls:
            unknown.append(env)
    for algo, scores in found.items():
        parts = [
            f"{text.score(float(np.mean(own)))} on {env}"
            for env, own in scores.items()
            if np.isfinite(own).all()
        ]
        if parts:
            yield (
                f"A constant positive reward ({algo}) scores {', '.join(parts)}, where episodes "
                "may end early: surviving alone is worth that much there."
            )
    if unknown:
        yield (
            f"What a constant positive reward scores on {', '.join(unknown)}, where episodes may "
            "end early, is not measured here: add constant_plus to the algorithms, or run "
            "imitbench audit."
        )
