"""Compares a measurement of an expert with its published results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imitbench.bench.environments import make_environment
from imitbench.errors import InputError
from imitbench.hub.reported_results import ReportedReturn
from imitbench.policies.expert import Spaces
from imitbench.policies.expert_folder import ExpertFolder
from imitbench.records.runs import EnvironmentSpec
from imitbench.untrusted.limits import beyond, limits
from imitbench.util.text_line import one_line

STANDARD_ERRORS = 2.0
"""Largest accepted difference between two measurements of one policy."""

_OF_THE_EXPERT = "is this the environment of env_kwargs.yml?"
_USUAL_EPISODES = 10  # the default of common upload tools


@dataclass(frozen=True)
class MeasurementComparison:
    """A measurement compared with a published one.

    Attributes:
        difference: Measured mean return minus the published one.
        standard_error: Standard error of the difference.
        agrees: Whether the difference is within `STANDARD_ERRORS`; `None` if one is of the
            stochastic policy and the other of the deterministic one.
    """

    difference: float
    standard_error: float
    agrees: bool | None

    @property
    def distance(self) -> float | None:
        """The difference in standard errors; `None` if returns did not vary."""
        return self.difference / self.standard_error if self.standard_error > 0 else None


def compare_with_published(
    returns: npt.NDArray[np.float64], deterministic: bool, published: ReportedReturn
) -> MeasurementComparison:
    """Compares returns with a published mean.

    Assumes 10 episodes if the card states no number, and the standard deviation of `returns` if it
    states none.

    Args:
        returns: Returns of episodes, shape (episodes,).
        deterministic: Whether they are of the deterministic policy.
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
    return MeasurementComparison(difference, error, agrees if alike else None)


def spaces_of(spec: EnvironmentSpec) -> Spaces:
    """Returns the spaces and the time limit of an environment.

    Raises:
        InputError: The environment cannot be created with these arguments.
    """
    try:
        with check_arguments_accepted(spec):
            environment = make_environment(spec)
    except TypeError as error:
        raise _unfit(spec, error, _OF_THE_EXPERT) from error
    limit = environment.spec.max_episode_steps if environment.spec is not None else None
    found = Spaces(environment.observation_space, environment.action_space, limit)
    environment.close()
    return found


@contextmanager
def check_arguments_accepted(
    spec: EnvironmentSpec, question: str = _OF_THE_EXPERT
) -> Iterator[None]:
    """Attributes errors of an environment with keyword arguments to these arguments.

    Some environments accept any argument and fail at the first step.

    Args:
        spec: Environment in use within the context.
        question: Hint at their origin, for the message.

    Raises:
        InputError: The environment has arguments and raised an error.
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
    """Returns the environment with the arguments in the expert's `env_kwargs.yml`.

    Arguments on a suite's card take precedence.
    """
    plain = {
        name: value
        for name, value in expert.env_kwargs.items()
        if isinstance(value, str | int | float | bool)
    }
    if spec.kwargs or not plain:
        return spec
    steps = plain.get("max_episode_steps", 1)
    if type(steps) is not int or not 1 <= steps <= limits().episode_steps:
        what = beyond("episode_steps", f"max_episode_steps is {one_line(steps, 60)}")
        raise InputError(f"{expert.folder / 'env_kwargs.yml'}: {what}; correct it")
    return spec.model_copy(update={"kwargs": plain})


def _unfit(spec: EnvironmentSpec, error: Exception, question: str) -> InputError:
    given = ", ".join(f"{name}={value}" for name, value in spec.kwargs.items())
    return InputError(
        f"environment {spec.id}: cannot be used with {one_line(given) or 'no arguments'} "
        f"({one_line(error)}); {question}"
    )


def _standard_error(std: float, episodes: int) -> float:
    """Standard error of a mean; `std` is the population value, as on cards."""
    return std / math.sqrt(max(episodes - 1, 1))
