"""Trajectories of mixed quality: finds the sets of a mixture, pins them, and reads them."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.bench.artifacts import (
    ArtifactLocation,
    check_digest,
    count_trajectories,
    digest_of,
)
from imitbench.bench.hidden_parts import hide_actions
from imitbench.bench.learner import Supplement
from imitbench.bench.seeding import derive_seed
from imitbench.cards.demonstrations import PolicySet, mixture_text
from imitbench.errors import InputError
from imitbench.records.runs import DemoSpec, RunSpec, SupplementSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    from imitbench.cards.suite import EnvironmentCard
    from imitbench.data.types import TrajectoryWithRew


def check_source(source: str) -> None:
    """Checks that a source has sets besides demonstrations.

    Raises:
        InputError: It has demonstrations only.
    """
    if source != "bundled" and not source.startswith("path:"):
        raise InputError(
            f"--source {source}: has demonstrations only, and no other sets for a mixture; use "
            "--source bundled, or a regime without a mixture"
        )


def locate_set(root: Path, source: str, recipe: PolicySet, suite: str) -> ArtifactLocation:
    """Returns the location of a set of an environment.

    Args:
        root: What `imitbench.bench.artifacts.source_root` returned.
        source: `bundled` or `path:DIR`.
        recipe: The set on the card of the environment.
        suite: Name of the suite.

    """
    home = recipe.home if source == "bundled" else None
    return ArtifactLocation(root, "demos", source, recipe.repo, suite=suite, home=home)


def pin_supplement(
    demos: ArtifactLocation, card: EnvironmentCard, mixture: dict[str, int], env_id: str
) -> list[SupplementSpec]:
    """Pins the sets of a mixture by content.

    Args:
        demos: Location of the expert's demonstrations, to whose source the sets belong.
        card: Card of the environment, which has all sets of the mixture.
        mixture: Numbers of trajectories by the name of their set.
        env_id: Id of the environment, for messages.

    Raises:
        InputError: A set is missing, too small, or has other spaces than the demonstrations.
    """
    found = []
    for name, count in sorted(mixture.items()):
        location = locate_set(demos.root, demos.source, card.sets[name], demos.suite)
        available = card.sets[name].trajectories
        if location.source != "bundled":
            available = _count(location)
            if count > available:
                raise InputError(
                    f"{location.folder}: set {name} has {available} trajectories, fewer than "
                    f"{count}; name a smaller mixture on the suite's card"
                )
        _check_spaces(demos, location, f"{env_id}: set {name}")
        found.append(
            SupplementSpec(
                source=location.source,
                repo=location.repo,
                digest=_digest(location),
                home=location.home,
                name=name,
                available=available,
                count=count,
            )
        )
    return found


def check_ranking(spec: RunSpec, root: Path) -> None:
    """Checks that the trajectories of a run have ranks, and not all the same.

    Args:
        spec: Specification of a run with a supplement.
        root: As `ArtifactLocation.root`.

    Raises:
        InputError: A set has no rewards, or all trajectories that the seed draws have one return.
    """
    demos = spec.demos
    assert demos is not None
    assert demos.supplement is not None
    drawn = []
    for part in demos.supplement:
        location = ArtifactLocation.of_spec(root, "demos", part, spec.suite)
        returns = _returns(location)[_rows(demos, part)]
        if np.isnan(returns).any():
            raise InputError(
                f"{spec.label}: set {part.name} has no rewards, so that its trajectories have no "
                "ranks; choose a mixture of other sets"
            )
        drawn.append(returns)
    if len(np.unique(np.concatenate(drawn))) < 2:
        raise InputError(
            f"{spec.label}: all trajectories of the mixture {mixture_text(demos.mixture)} have the "
            "same return, so that there is no ranking; choose another mixture"
        )


def supplement_of_run(spec: RunSpec, root: Path, *, ranked: bool) -> Supplement | None:
    """Loads the trajectories of mixed quality of a run; `None` for a run without.

    Rewards are NaN and infos are left out, whatever the method may see of its environment.

    Args:
        spec: Specification of the run.
        root: As `ArtifactLocation.root`.
        ranked: Whether the method is given ranks.

    Raises:
        InputError: Their content is not what was pinned, or cannot be read.
    """
    demos = spec.demos
    if demos is None or demos.supplement is None:
        return None
    from imitbench.data.demonstrations import read_demonstrations

    found: list[TrajectoryWithRew] = []
    for part in demos.supplement:
        location = ArtifactLocation.of_spec(root, "demos", part, spec.suite)
        check_digest(location, part.digest)
        found += read_demonstrations(location.folder, rows=_rows(demos, part))
    rng = np.random.default_rng(derive_seed(demos.subsample_seed, "order of the supplement"))
    mixed = [found[index] for index in rng.permutation(len(found))]
    ranks = ranks_of(mixed) if ranked else None
    hidden = [
        dataclasses.replace(each, rews=np.full(len(each), math.nan), infos=None) for each in mixed
    ]
    return Supplement(hide_actions(hidden) if demos.actions == "hidden" else hidden, ranks)


def ranks_of(trajectories: list[TrajectoryWithRew]) -> npt.NDArray[np.int64]:
    """Returns the ranks of trajectories by their returns, see `Supplement.ranks`."""
    returns = [float(trajectory.rews.sum()) for trajectory in trajectories]
    return np.unique(returns, return_inverse=True)[1].astype(np.int64)


def _rows(demos: DemoSpec, part: SupplementSpec) -> list[int]:
    """Returns the rows of a set that a seed draws, whatever other sets the mixture has."""
    rng = np.random.default_rng(derive_seed(demos.subsample_seed, f"set {part.name}"))
    drawn = rng.choice(part.available, size=part.count, replace=False)
    return [int(row) for row in np.sort(drawn)]


@cache
def _returns(location: ArtifactLocation) -> npt.NDArray[np.float64]:
    from imitbench.data.demonstrations import read_demonstrations

    return np.array([float(each.rews.sum()) for each in read_demonstrations(location.folder)])


@cache
def _check_spaces(demos: ArtifactLocation, location: ArtifactLocation, what: str) -> None:
    from imitbench.data.demonstrations import read_demonstrations

    demos.files()  # says what is missing
    location.files()
    (expert,), (other,) = (read_demonstrations(each.folder, rows=[0]) for each in (demos, location))
    for name, own, theirs in (
        ("observations", other.obs, expert.obs),
        ("actions", other.acts, expert.acts),
    ):
        if _kind(own) != _kind(theirs):
            raise InputError(
                f"{what}: its {name} have shape and type {_kind(own)}, those of the "
                f"demonstrations {_kind(theirs)}; a mixture has parts with the same spaces"
            )


def _kind(values: Any) -> str:
    kind = "numbers" if values.dtype.kind == "f" else "integers"
    return f"{list(values.shape[1:])} {kind}"


# A sweep requests the same few sets thousands of times.
_count = cache(count_trajectories)
_digest = cache(digest_of)
