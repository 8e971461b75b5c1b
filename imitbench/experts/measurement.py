"""Measures returns of random actions and of experts, and compares them with published ones."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.policies import BasePolicy

from imitbench.bench import artifacts
from imitbench.bench.environments import make_environment
from imitbench.bench.protocol import Evaluator
from imitbench.cards.catalog import rewrite_suite_card
from imitbench.cards.demonstrations import Measurement
from imitbench.cards.suite import EnvironmentCard, References
from imitbench.errors import InputError
from imitbench.hub.reported_results import ReportedReturn, reported_environment
from imitbench.policies.base import RandomPolicy
from imitbench.policies.expert import Spaces
from imitbench.policies.expert_folder import ExpertFolder
from imitbench.policies.space_check import check_policy_fits
from imitbench.policies.storage import load_policy
from imitbench.records.episodes import Episodes
from imitbench.records.runs import EnvironmentSpec, Protocol
from imitbench.untrusted.limits import beyond, limits
from imitbench.util.files import atomic_write_text
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew

REFERENCE_SEED = 20_000
"""Far from usual seeds of runs, so that references share no episodes with them."""


@dataclass(frozen=True)
class PolicyMeasurement:
    """The measurement of a policy.

    Attributes:
        episodes: Returns and lengths of the episodes.
        steps_per_second: Environment steps per second, including inference.
    """

    episodes: Episodes
    steps_per_second: float

    def as_measurement(
        self, card: EnvironmentCard, command: str, revision: str | None
    ) -> Measurement:
        """Converts it to the entry of a suite card."""
        episodes = self.episodes
        entry = _entry(episodes.returns, episodes.deterministic, command, revision)
        return entry.model_copy(update=self.endings(card))

    def endings(self, card: EnvironmentCard) -> dict[str, float]:
        """Share of the episodes that ended before the time limit, and their mean length."""
        lengths = self.episodes.lengths
        # At the limit, too: tabular environments report their horizon as a termination.
        early = self.episodes.terminated & (lengths < card.max_episode_steps)
        return {
            "termination_rate": round(float(early.mean()), 4),
            "mean_length": round(float(lengths.mean()), 2),
        }


def _entry(
    returns: npt.NDArray[np.float64], deterministic: bool, command: str, revision: str | None
) -> Measurement:
    return Measurement(
        mean=round(float(returns.mean()), 4),
        std=round(float(returns.std()), 4),
        episodes=len(returns),
        deterministic=deterministic,
        command=command,
        date=datetime.now(timezone.utc).date().isoformat(),
        revision=revision,
    )


def measure(
    spec: EnvironmentSpec,
    policy: BasePolicy | None,
    *,
    episodes: int,
    deterministic: bool,
    seed: int,
) -> PolicyMeasurement:
    """Evaluates a policy by the protocol of the benchmark.

    Args:
        spec: Environment; its `evaluated` variant is used.
        policy: Policy to measure; `None` for uniformly random actions.
        episodes: Number of episodes.
        deterministic: Whether to use the deterministic policy.
        seed: Seed of the environments and of sampled actions.

    Raises:
        InputError: The environment cannot be created, or the policy does not fit it.
    """
    with Evaluator(spec.evaluated, Protocol().environments) as evaluator:
        spaces = (evaluator.observation_space, evaluator.action_space)
        if policy is None:
            policy = RandomPolicy(*spaces)
        else:
            check_policy_fits(policy, *spaces, where="the policy")
        started = time.monotonic()
        result = evaluator.evaluate(
            policy, episodes=episodes, seed=seed, deterministic=deterministic
        )
        elapsed = time.monotonic() - started
    return PolicyMeasurement(result, float(result.lengths.sum()) / elapsed)


def measure_references(
    env_id: str, card: EnvironmentCard, root: Path, *, episodes: int, command: str
) -> tuple[References, float]:
    """Measures the references of an environment, with stochastic policies as in runs.

    The expert is also measured with its most likely actions. Without an expert, the second
    reference is the mean return of the demonstrators' whole episodes.

    Args:
        env_id: Gymnasium id.
        card: Card of the environment.
        root: Folder that holds `experts/` and `demos/`.
        episodes: Episodes for each policy.
        command: Command line to record.

    Returns:
        The references, and the speed with random actions, in steps per second.

    Raises:
        InputError: The expert or the demonstrations are missing; there is neither an expert, nor
            rewards, nor a number on the card; or the environment does not take its arguments.
    """
    spec = EnvironmentSpec.of_card(env_id, card)
    with check_arguments_accepted(spec, "correct kwargs on the suite's card"):
        by_random = measure(spec, None, deterministic=False, episodes=episodes, seed=REFERENCE_SEED)
    random = by_random.as_measurement(card, command, None)
    if card.expert is None:
        shown = _measure_demonstrations(env_id, card, root, command)
        return References(random=random, demonstrations=shown), by_random.steps_per_second
    sampled, likely = (
        _measure_expert(env_id, card, root, episodes, command, deterministic)
        for deterministic in (False, True)
    )
    found = References(random=random, expert=sampled, expert_likely=likely)
    return found, by_random.steps_per_second


def measure_likely(
    env_id: str, card: EnvironmentCard, root: Path, *, episodes: int, command: str
) -> References:
    """Measures the expert's most likely actions only; arguments as for `measure_references`.

    Returns:
        The references on the card, with this one.

    Raises:
        InputError: There is no expert, the card lacks its other references, or they are of another
            expert.
    """
    card.expert_in(env_id)
    if card.references is None or card.references.expert is None:
        raise InputError(f"{env_id}: has no references yet; measure them without --likely")
    revision, measured = _revision_of_expert(card, root), card.references.expert.revision
    if revision != measured:
        raise InputError(
            f"{env_id}: its references are of another expert ({measured}, not {revision}); measure "
            "all of them, without --likely"
        )
    likely = _measure_expert(env_id, card, root, episodes, command, deterministic=True)
    return card.references.model_copy(update={"expert_likely": likely})


def _measure_expert(
    env_id: str,
    card: EnvironmentCard,
    root: Path,
    episodes: int,
    command: str,
    deterministic: bool,
) -> Measurement:
    folder = _expert_location(card, root).folder
    spec, expert = EnvironmentSpec.of_card(env_id, card), load_policy(folder)
    measured = measure(
        spec, expert, deterministic=deterministic, episodes=episodes, seed=REFERENCE_SEED
    )
    return measured.as_measurement(card, command, _revision_of_expert(card, root))


def _expert_location(card: EnvironmentCard, root: Path) -> artifacts.ArtifactLocation:
    return artifacts.locate_artifact(root, "experts", "bundled", card, "")


def _revision_of_expert(card: EnvironmentCard, root: Path) -> str:
    return artifacts.pin_expert(_expert_location(card, root)).digest[:12]


def _measure_demonstrations(
    env_id: str, card: EnvironmentCard, root: Path, command: str
) -> Measurement | None:
    """Returns the demonstrators' return; `None` if it is unknown and the card has a number."""
    location = artifacts.locate_artifact(root, "demos", "bundled", card, "")
    pin = artifacts.pin_demos(location, card.demos.trajectories, None)
    returns = artifacts.demonstrated_returns(location)
    if len(returns):
        return _entry(returns, card.demos.deterministic, command, pin.digest[:12])
    if card.score_one is None:
        raise InputError(
            f"{env_id}: the demonstrations in {location.folder} have no whole episode with "
            "rewards, so that score 1 is unknown; state a mean return as `score_one` on the card"
        )
    return None


def measure_set(
    trajectories: Sequence[TrajectoryWithRew], digest: str, command: str
) -> Measurement:
    """Returns the returns of a set of trajectories, for the card of its suite.

    Args:
        trajectories: The trajectories of sampled actions, with rewards.
        digest: Digest by which the set is pinned.
        command: Command line to record.
    """
    returns = np.array([float(trajectory.rews.sum()) for trajectory in trajectories])
    return _entry(returns, False, command, digest[:12])


def write_measurement(directory: Path, card: EnvironmentCard, measured: PolicyMeasurement) -> None:
    """Writes `results.json` to an expert's folder, in the format of hub repositories."""
    returns = measured.episodes.returns
    results = {
        "mean_reward": round(float(returns.mean()), 4),
        "std_reward": round(float(returns.std()), 4),
        "is_deterministic": measured.episodes.deterministic,
        "n_eval_episodes": len(returns),
        "eval_datetime": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **measured.endings(card),
    }
    atomic_write_text(directory / "results.json", json.dumps(results, indent=1) + "\n")


def model_index(name: str, env_id: str, mean_return: str) -> list[dict[str, Any]]:
    """Returns the `model-index` of an expert's card: its mean return, as the hub displays it.

    Args:
        name: Display name of the expert.
        env_id: Gymnasium id.
        mean_return: Mean, and perhaps standard deviation, as text.
    """
    result = {
        "task": {"type": "reinforcement-learning"},
        "dataset": {"name": env_id, "type": env_id},
        "metrics": [{"type": "mean_reward", "value": mean_return, "name": "mean_reward"}],
    }
    return [{"name": name, "results": [result]}]


_DIGITS = 3  # significant digits of speeds, which differ between machines


def update_references(
    path: Path, references: Mapping[str, References], speeds: Mapping[str, float]
) -> None:
    """Replaces references and speeds of environments on a suite card.

    Args:
        path: File of the suite card.
        references: New references by environment id.
        speeds: Steps per second with random actions, by environment id, where they were measured.

    Raises:
        InputError: The card is malformed, or cannot be written.
    """

    def change(document: dict[str, Any]) -> None:
        for env_id, measured in references.items():
            environment = document["environments"][env_id]
            if env_id in speeds:
                environment["steps_per_second"] = float(f"{speeds[env_id]:.{_DIGITS}g}")
            known = {name for name, found in measured if found is not None}
            # Entries that were there keep their keys.
            environment["references"] = measured.model_dump(
                mode="json", include=known, exclude_unset=True
            )

    rewrite_suite_card(path, change)


def update_set_returns(path: Path, name: str, returns: Mapping[str, Measurement]) -> None:
    """Replaces the returns of a set on a suite card.

    Args:
        path: File of the suite card.
        name: Name of the set.
        returns: New returns by environment id.

    Raises:
        InputError: The card is malformed, or cannot be written.
    """

    def change(document: dict[str, Any]) -> None:
        for env_id, measured in returns.items():
            entry = document["environments"][env_id]["sets"][name]
            entry["returns"] = measured.model_dump(mode="json")

    rewrite_suite_card(path, change)


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


def other_version(expert: ExpertFolder, env_id: str) -> str | None:
    """Returns the environment that an expert's files name, if it is another version of one.

    Args:
        expert: Its files; `args.yml`, as RL Zoo writes it, or the model index of `README.md`.
        env_id: Gymnasium id of the environment in which it is measured.

    Returns:
        For example `Hopper-v3` for `Hopper-v5`; `None` for the same or a quite different id, or if
        none is named.
    """
    stated = expert.arguments.get("env") or reported_environment(expert.folder)
    if not isinstance(stated, str) or stated == env_id:
        return None
    task, dash, version = stated.rpartition("-v")
    same = task == env_id.rpartition("-v")[0] and dash and version.isdecimal()
    return one_line(stated, 60) if same else None


def spaces_of(spec: EnvironmentSpec, question: str = _OF_THE_EXPERT) -> Spaces:
    """Returns the spaces and the time limit of an environment.

    Args:
        spec: Specification of the environment.
        question: Hint at the origin of its arguments, for messages.

    Raises:
        InputError: The environment cannot be created with these arguments.
    """
    try:
        with check_arguments_accepted(spec, question):
            environment = make_environment(spec)
    except TypeError as error:
        raise _unfit(spec, error, question) from error
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
