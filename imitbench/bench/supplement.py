"""Trajectories of mixed quality: finds the sets of a mixture, pins them, and reads them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from imitbench.bench.artifacts import (
    COLLECTED,
    FILE,
    MINARI,
    ArtifactLocation,
    check_digest,
    collected_sets,
    copy_of_file,
    count_trajectories,
    digest_of,
    file_copies,
    minari_copy,
)
from imitbench.bench.hidden_parts import hide_actions
from imitbench.bench.learner import Supplement
from imitbench.bench.seeding import derive_seed
from imitbench.cards.catalog import suite_directory
from imitbench.cards.demonstrations import PolicySet, mixture_text
from imitbench.errors import InputError
from imitbench.records.runs import DemoSpec, EnvironmentSpec, RunSpec, SupplementSpec
from imitbench.store.artifact_files import recipe_digest
from imitbench.util.files import make_once
from imitbench.util.hub_client import silent
from imitbench.util.hub_errors import Notify

if TYPE_CHECKING:
    import numpy.typing as npt

    from imitbench.cards.suite import EnvironmentCard, SuiteCard
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


def with_own_sets(
    card: EnvironmentCard, sources: Mapping[str, str], folder: Path
) -> EnvironmentCard:
    """Returns a card with further sets, whose trajectories are counted.

    Args:
        card: Card of an environment.
        sources: Where the sets are, by name: `minari:NAME`, or a file or folder.
        folder: Base of relative paths.

    Raises:
        InputError: The card has a set of that name, or one is missing or cannot be read.
    """
    if not sources:
        return card
    own = {}
    for name, source in sources.items():
        if name in card.sets:
            raise InputError(
                f"--mixture {name}=…: the suite's card has a set of this name; choose another"
            )
        path = source if source.startswith(MINARI) else str((folder / source).absolute())
        location = _own_location(name, path, "")
        own[name] = PolicySet(repo=name, source=path, trajectories=_count(location))
    return card.model_copy(update={"sets": {**card.sets, **own}})


@dataclass(frozen=True)
class MissingSet:
    """A set that its suite does not bundle, and that has yet to be collected.

    Attributes:
        env: Id of the environment.
        name: Name of the set.
        folder: Where its trajectories will be.
        policy: Folder of the stored policy, if that of a checkpoint acts.
        spec: Environment of the suite's card.
        recipe: The set on the card.
    """

    env: str
    name: str
    folder: Path
    policy: Path
    spec: EnvironmentSpec
    recipe: PolicySet

    def collect(self, notify: Notify = silent) -> None:
        """Collects it. Several processes may do so at the same time.

        Args:
            notify: Called before it is collected.

        Raises:
            InputError: Its policy cannot be read, or the environment does not accept its arguments.
        """
        from imitbench.bench.collection import collect_into  # imports the simulators

        notify(f"{self.env}: collecting set {self.name}, {self.recipe.trajectories} trajectories")
        make_once(
            self.folder, lambda: collect_into(self.folder, self.policy, self.spec, self.recipe)
        )


def missing_sets(
    suite: SuiteCard, environments: Mapping[str, EnvironmentCard], mixture: Iterable[str]
) -> list[MissingSet]:
    """Returns the sets of a mixture that have yet to be collected.

    Args:
        suite: Card of the suite.
        environments: Cards of its environments, by id.
        mixture: Names of sets.

    Raises:
        InputError: The policy of a set is missing.
    """
    root, found = suite.origin.folder, []
    demos = ArtifactLocation(root, "demos", "bundled", "", suite=suite.name)
    for env_id, card in environments.items():
        for name in mixture:
            if name in card.sets and not card.sets[name].bundled:
                folder = locate_set(demos, card, name, env_id, root).folder
                if not folder.exists():
                    recipe, spec = card.sets[name], EnvironmentSpec.of_card(env_id, card)
                    policy = _stored_policy(demos, recipe)
                    found.append(MissingSet(env_id, name, folder, policy, spec, recipe))
    return found


def locate_set(
    demos: ArtifactLocation, card: EnvironmentCard, name: str, env_id: str, folder: Path
) -> ArtifactLocation:
    """Returns the location of a set of an environment, which may have yet to be collected.

    Args:
        demos: Location of the expert's demonstrations, to whose source the set belongs.
        card: Card of the environment, which has the set.
        name: Name of the set.
        env_id: Id of the environment.
        folder: Folder of the suite, from which the set's own source counts.

    Raises:
        InputError: The set has a source of its own, which is missing or cannot be read; or it is
            not bundled, and neither is its policy.
    """
    recipe, suite = card.sets[name], demos.suite
    if recipe.source is not None:
        own = recipe.source
        path = own if own.startswith(MINARI) else str((folder / own).absolute())
        return _own_location(recipe.repo, path, suite)
    home = recipe.home if demos.source == "bundled" else None
    if recipe.bundled or demos.source != "bundled":
        return dataclasses.replace(demos, repo=recipe.repo, home=home, package=None)
    policy = _stored_policy(demos, recipe)
    if recipe.policy == "checkpoint" and not policy.is_dir():
        raise InputError(
            f"{env_id}: set {name}: {policy}: no such policy; `imitbench demos collect --suite "
            f"{suite} --set {name} --to {policy.parents[1] / 'demos'}` trains it"
        )
    digest = recipe_digest(policy, EnvironmentSpec.of_card(env_id, card), recipe)
    return ArtifactLocation(collected_sets(), "demos", COLLECTED, recipe.repo, digest, suite)


def _stored_policy(demos: ArtifactLocation, recipe: PolicySet) -> Path:
    """Returns the folder of the policy of a set that is not bundled; it may not exist."""
    root = demos.root if recipe.home is None else suite_directory(recipe.home)
    return root / "experts" / recipe.repo


def _own_location(name: str, source: str, suite: str) -> ArtifactLocation:
    """Returns the location of the converted copy of a set with a source of its own."""
    if source.startswith(MINARI):
        return ArtifactLocation(minari_copy(source).folder, "demos", source, name, suite=suite)
    copy = copy_of_file(Path(source))
    return ArtifactLocation(copy.parent, "demos", FILE, name, copy.name, suite)


def _location_of(part: SupplementSpec, root: Path, suite: str) -> ArtifactLocation:
    """Returns the location of a set of a run."""
    if part.source.startswith(MINARI):
        root = minari_copy(part.source).folder
    elif part.source == FILE:
        root = file_copies()
    elif part.source == COLLECTED:
        root = collected_sets()
    return ArtifactLocation.of_spec(root, "demos", part, suite)


def _is_yet_to_collect(location: ArtifactLocation) -> bool:
    return location.source == COLLECTED and not location.folder.exists()


def pin_supplement(
    demos: ArtifactLocation,
    card: EnvironmentCard,
    mixture: dict[str, int],
    env_id: str,
    folder: Path,
) -> list[SupplementSpec]:
    """Pins the sets of a mixture by content; one that has yet to be collected, by its recipe.

    Args:
        demos: Location of the expert's demonstrations, to whose source the sets belong.
        card: Card of the environment, which has all sets of the mixture.
        mixture: Numbers of trajectories by the name of their set.
        env_id: Id of the environment.
        folder: Folder of the suite.

    Raises:
        InputError: A set is missing, too small, was recorded in another environment, has other
            spaces than the demonstrations, or values that the environment does not have.
    """
    found = []
    environment = EnvironmentSpec.of_card(env_id, card)
    for name, count in sorted(mixture.items()):
        location = locate_set(demos, card, name, env_id, folder)
        available, source = card.sets[name].trajectories, card.sets[name].source
        what = f"{env_id}: set {name}" + ("" if source is None else f" ({source})")
        if location.source not in ("bundled", COLLECTED):
            available = _count(location)
            if count > available:
                raise InputError(
                    f"{env_id}: set {name} has {available} trajectories, fewer than {count}; "
                    "choose a smaller mixture"
                )
        if location.source.startswith(MINARI):
            recorded = minari_copy(location.source).environment_id
            if recorded not in (None, environment.gym_id):
                raise InputError(
                    f"{env_id}: set {name}: {location.source} was recorded on {recorded}; choose a "
                    "set of this environment and version"
                )
        yet_to_collect = _is_yet_to_collect(location)
        if not yet_to_collect:
            _check_spaces(demos, location, what)
        if source is not None:  # the others were recorded in the environment
            _check_values(location, environment.model_dump_json(), what)
        found.append(
            SupplementSpec(
                source=location.source,
                repo=location.repo,
                revision=location.revision,
                digest=str(location.revision) if yet_to_collect else _digest(location),
                home=location.home,
                name=name,
                available=available,
                count=count,
            )
        )
    return found


def check_ranking(spec: RunSpec, root: Path) -> None:
    """Checks that the trajectories of a run have ranks, and not all the same.

    Sets that have yet to be collected, as in a dry run, cannot be checked.

    Args:
        spec: Specification of a run with a supplement.
        root: As `ArtifactLocation.root`.

    Raises:
        InputError: A set has no rewards, or all trajectories that the seed draws have one return.
    """
    demos = spec.demos
    assert demos is not None
    assert demos.supplement is not None
    locations = [_location_of(part, root, spec.suite) for part in demos.supplement]
    if any(map(_is_yet_to_collect, locations)):
        return
    drawn = []
    for part, location in zip(demos.supplement, locations, strict=True):
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
        location = _location_of(part, root, spec.suite)
        check_digest(location, part.digest)
        found += read_demonstrations(location.folder, rows=_rows(demos, part))
    rng = np.random.default_rng(derive_seed(demos.subsample_seed, "order of the supplement"))
    mixed = [found[index] for index in rng.permutation(len(found))]
    ranks = ranks_of(mixed) if ranked else None
    hidden = [
        dataclasses.replace(trajectory, rews=np.full(len(trajectory), math.nan), infos=None)
        for trajectory in mixed
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

    return np.array(
        [float(trajectory.rews.sum()) for trajectory in read_demonstrations(location.folder)]
    )


@cache
def _check_spaces(demos: ArtifactLocation, location: ArtifactLocation, what: str) -> None:
    from imitbench.data.demonstrations import read_demonstrations

    demos.files()  # says what is missing
    location.files()
    (expert,), (other,) = (
        read_demonstrations(artifact.folder, rows=[0]) for artifact in (demos, location)
    )
    for name, own, theirs in (
        ("observations", other.obs, expert.obs),
        ("actions", other.acts, expert.acts),
    ):
        if _kind(own) != _kind(theirs):
            raise InputError(
                f"{what}: its {name} have shape and type {_kind(own)}, those of the "
                f"demonstrations {_kind(theirs)}; a mixture has parts with the same spaces: use "
                "trajectories of this environment (`imitbench demos convert --env` fits some to it)"
            )


@cache
def _check_values(location: ArtifactLocation, environment: str, what: str) -> None:
    """Checks a set against the spaces of an environment, whose specification is given as JSON."""
    from imitbench.bench.environments import spaces_of  # imports the simulators
    from imitbench.data.demonstration_checks import validate_demonstrations
    from imitbench.data.demonstrations import read_demonstrations

    spaces = spaces_of(EnvironmentSpec.model_validate_json(environment))
    validate_demonstrations(read_demonstrations(location.folder), *spaces, where=what)


def _kind(values: Any) -> str:
    kind = "numbers" if values.dtype.kind == "f" else "integers"
    return f"{list(values.shape[1:])} {kind}"


# A sweep requests the same few sets thousands of times.
_count = cache(count_trajectories)
_digest = cache(digest_of)
