"""Selects runs by suite, environment and algorithm."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from imitbench.errors import InputError, did_you_mean
from imitbench.util.name_lists import Names, matches, matches_id, split_names

Acting = Literal["sampled", "likely"]
"""How policies act: they sample their actions, or take the most likely ones."""

ActingChoice = Literal["sampled", "likely", "both"]
"""Ways of acting to report; with `both`, a verdict must hold in both."""


@dataclass(frozen=True)
class Selection:
    """Which runs to read; an empty list selects all.

    Attributes:
        suites: Names of suites.
        envs: Ids of environments, as shell-style patterns; a pattern may leave out what precedes
            the last `/` of an id.
        algos: Names of algorithms, as shell-style patterns; a name without variant also selects
            its variants: `bc` selects `bc[hidden_size=8]`.
    """

    suites: tuple[str, ...] = ()
    envs: tuple[str, ...] = ()
    algos: tuple[str, ...] = ()

    @classmethod
    def of(cls, suite: Names = None, env: Names = None, algo: Names = None) -> Selection:
        """Makes a selection from names, each a text or a list; commas separate names, too.

        Raises:
            InputError: A name is empty.
        """
        return cls(
            tuple(split_names("--suite", suite)),
            tuple(split_names("--env", env)),
            tuple(split_names("--algo", algo)),
        )

    def selects(self, suite: str | None, env: str | None, algo: str | None) -> bool:
        """Whether a run is selected; a part that is `None` is not checked."""
        return (
            (not self.suites or suite is None or suite in self.suites)
            and (not self.envs or env is None or matches_id(env, self.envs))
            and (algo is None or self.selects_algorithm(algo))
        )

    def selects_algorithm(self, algo: str) -> bool:
        """Whether runs of an algorithm are selected."""
        names = {algo, algo.partition("[")[0]}
        return not self.algos or any(matches(name, self.algos) for name in names)

    def check(self, cells: Collection[tuple[str, str, str]]) -> None:
        """Checks that each name selects something.

        Args:
            cells: Suite, environment and algorithm of runs.

        Raises:
            InputError: A name or pattern matches none of them.
        """
        suites, envs, algos = (sorted({cell[index] for cell in cells}) for index in range(3))
        for name in self.suites:
            _check("--suite", name, name in suites, suites)
        for name in self.envs:
            _check("--env", name, any(matches_id(env, [name]) for env in envs), envs)
        for name in self.algos:
            alone = Selection(algos=(name,))
            _check("--algo", name, any(alone.selects_algorithm(algo) for algo in algos), algos)


def _check(option: str, name: str, known: bool, accepted: Iterable[str]) -> None:
    if not known:
        raise InputError(f"{option} {name}: has no runs here; {did_you_mean(name, accepted)}")
