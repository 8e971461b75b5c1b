"""Measures an expert again, and says whether that agrees with what was published."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imitbench.bench.environments import make_environment
from imitbench.errors import InputError
from imitbench.hub.published_results import PublishedResults
from imitbench.policies.expert import Surroundings
from imitbench.policies.expert_folder import ExpertFolder
from imitbench.store.records import EnvironmentSpec
from imitbench.util.text_line import one_line

STANDARD_ERRORS = 2.0
"""How far apart two measurements of one policy may be."""

_OF_THE_EXPERT = "is this the environment of env_kwargs.yml?"
_USUAL_EPISODES = 10  # what the usual upload tools measure; for cards that do not tell


@dataclass(frozen=True)
class Comparison:
    """A measurement beside a published one.

    Attributes:
        difference: Mean return measured here, less the published one.
        standard_error: Of the difference: both measurements' errors taken together.
        agrees: Whether they are within `STANDARD_ERRORS` of each other; `None` where one is of
            the stochastic policy and the other of the deterministic one.
    """

    difference: float
    standard_error: float
    agrees: bool | None

    @property
    def distance(self) -> float | None:
        """The difference in standard errors; `None` where neither measurement varied."""
        return self.difference / self.standard_error if self.standard_error > 0 else None


def compare(
    returns: npt.NDArray[np.float64], deterministic: bool, published: PublishedResults
) -> Comparison:
    """Compares returns with a published mean.

    A card that does not state its number of episodes is taken to have 10, and one without a
    standard deviation that of the returns measured here.

    Args:
        returns: Returns of episodes, shape (episodes,).
        deterministic: Whether they are those of the deterministic policy.
        published: What the expert's card states.
    """
    own = float(returns.std())
    their_std = own if published.std is None else published.std
    their_error = _standard_error(their_std, published.episodes or _USUAL_EPISODES)
    error = math.hypot(_standard_error(own, len(returns)), their_error)
    difference = float(returns.mean()) - published.mean
    # Means on cards are rounded.
    rounding = 0.005 + 1e-4 * abs(published.mean)
    agrees = abs(difference) <= STANDARD_ERRORS * error + rounding
    alike = published.deterministic in (None, deterministic)
    return Comparison(difference, error, agrees if alike else None)


def surroundings_of(spec: EnvironmentSpec) -> Surroundings:
    """What an expert needs to know about an environment.

    Raises:
        InputError: The environment cannot be made, or not with these arguments.
    """
    try:
        with taking_arguments(spec):
            environment = make_environment(spec)
    except TypeError as error:
        raise _unfit(spec, error, _OF_THE_EXPERT) from error
    limit = environment.spec.max_episode_steps if environment.spec is not None else None
    found = Surroundings(environment.observation_space, environment.action_space, limit)
    environment.close()
    return found


@contextmanager
def taking_arguments(spec: EnvironmentSpec, question: str = _OF_THE_EXPERT) -> Iterator[None]:
    """Within it, what an environment with arguments raises is told as their fault.

    Some take any argument when they are made, and fail at the first step.

    Args:
        spec: The environment.
        question: What the user may ask himself about where they come from.

    Raises:
        InputError: It raised something.
    """
    try:
        yield
    except InputError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        if not spec.kwargs:
            raise
        raise _unfit(spec, error, question) from error


def with_own_arguments(spec: EnvironmentSpec, expert: ExpertFolder) -> EnvironmentSpec:
    """The environment with the arguments that the expert's `env_kwargs.yml` states.

    Those that a suite's card states stand.
    """
    plain = {
        name: value
        for name, value in expert.env_kwargs.items()
        if isinstance(value, str | int | float | bool)
    }
    if spec.kwargs or not plain:
        return spec
    return spec.model_copy(update={"kwargs": plain})


def _unfit(spec: EnvironmentSpec, error: Exception, question: str) -> InputError:
    given = ", ".join(f"{name}={value}" for name, value in spec.kwargs.items())
    return InputError(
        f"environment {spec.id}: cannot be used with {one_line(given) or 'no arguments'} "
        f"({one_line(error)}); {question}"
    )


def _standard_error(std: float, episodes: int) -> float:
    """Of a mean; `std` divides by the number of episodes, as those on cards do."""
    return std / math.sqrt(max(episodes - 1, 1))
