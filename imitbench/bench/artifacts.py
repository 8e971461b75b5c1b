"""Experts and demonstrations: finds them, pins them by content, and reads them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from imitbench.bench.hidden_parts import hide_actions
from imitbench.cards.catalog import read_card_of_suite, suite_directory
from imitbench.cards.demonstrations import Conversion, HubDemos
from imitbench.cards.suite import EnvironmentCard
from imitbench.errors import InputError
from imitbench.policies.hub_policy import find_policy
from imitbench.records.runs import ArtifactSpec, DemoSpec, RunSpec
from imitbench.store.artifact_files import content_files
from imitbench.untrusted import gate
from imitbench.util.files import digest_files, make_once, new_folder, user_cache
from imitbench.util.hub_client import RepoKind, cache_directory, cached_folder

if TYPE_CHECKING:
    import gymnasium as gym
    import numpy.typing as npt
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.minari_source import MinariCopy
    from imitbench.data.types import TrajectoryWithRew

HUB = "hub"
MINARI = "minari:"
MINARI_SETS = "minari"
"""The source of the sets of Minari that a suite's card names, one for each environment."""
FILE = "file"
"""The source of a set that was converted from a file or folder of the user."""
COLLECTED = "collected"
"""The source of a set that is rolled out where it is needed."""
Part = Literal["experts", "demos"]
_KINDS: dict[Part, RepoKind] = {"experts": "model", "demos": "dataset"}


@dataclass(frozen=True)
class ArtifactLocation:
    """Location of an expert or a set of demonstrations.

    Attributes:
        root: Folder that holds `experts/` and `demos/`; for the hub, its cache; for `minari:NAME`,
            the folder of the converted set; for `minari`, `file` and `collected`, a cache of sets.
        part: `experts` or `demos`.
        source: `bundled`, `path:DIR`, `hub`, `minari`, `minari:NAME`, `file` or `collected`.
        repo: Name of the folder; for the hub, of the repository with its owner; for Minari, of
            the set.
        revision: Commit of a hub repository; for `minari` and `file`, the start of the set's
            digest; for `collected`, all of it.
        suite: Name of the suite, for messages.
        home: Bundled suite in whose folder it is, in place of `root`.
        package: Data of an installed package that it is, in place of files.
        conversion: How a set of LeRobot on the hub is converted.
    """

    root: Path
    part: Part
    source: str
    repo: str
    revision: str | None = None
    suite: str = ""
    home: str | None = None
    package: str | None = None
    conversion: Conversion | None = None

    @classmethod
    def of_spec(cls, root: Path, part: Part, spec: ArtifactSpec, suite: str) -> ArtifactLocation:
        """Returns the location of an artifact of a run's specification."""
        return cls(
            root, part, spec.source, spec.repo, spec.revision, suite, spec.home, spec.package,
            spec.conversion,
        )  # fmt: skip

    @property
    def folder(self) -> Path:
        """Folder of its files; it may not exist."""
        if self.package is not None:
            return copy_of_package_data(self.package)
        if self.source == HUB:
            fetched = self.fetched
            if self.conversion is None or not fetched.is_dir():
                return fetched
            from imitbench.data.lerobot_conversions import converted_copy

            return converted_copy(fetched, self.conversion)
        if self.source.startswith(MINARI) and self.part == "demos":
            return self.root
        if self.source == MINARI_SETS and self.part == "demos":
            return self.root / self.repo.replace("/", "-") / str(self.revision)
        if self.source in (FILE, COLLECTED):
            return self.root / str(self.revision)
        root = self.root if self.home is None else suite_directory(self.home)
        return root / self.part / self.repo

    @property
    def fetched(self) -> Path:
        """Folder of the repository in the hub's cache; it may not exist."""
        return cached_folder(self.root, _KINDS[self.part], self.repo, str(self.revision))

    def files(self) -> list[Path]:
        """Returns the files that are read.

        Raises:
            InputError: A file is missing.
        """
        try:
            return content_files(_KINDS[self.part], self.folder, self.repo)
        except InputError as error:
            if self.source == HUB:
                raise InputError(
                    f"{self.repo} at {str(self.revision)[:12]}: not in the hub's cache ({error}); "
                    f"run `imitbench prefetch --suite {self.suite}` where there is a network"
                ) from error
            if self.source == MINARI_SETS:
                raise InputError(
                    f"{MINARI}{self.repo}: not in the cache of converted sets ({error}); run "
                    f"`imitbench prefetch --suite {self.suite} --source minari`"
                ) from error
            if self.source in (FILE, COLLECTED):
                raise InputError(
                    f"set {self.repo}: not in the cache of sets ({error}); run the command that "
                    "planned the run once more, which makes it"
                ) from error
            what = "expert" if self.part == "experts" else "demonstrations"
            raise InputError(
                f"{error}; source '{self.source}' does not have the {what} of this environment"
            ) from error


def format_source(source: str) -> str:
    """Returns a source in the spelling of records: `path:experts/` becomes `path:experts`.

    Args:
        source: As the user typed it.
    """
    kind, _, where = source.partition(":")
    return f"path:{os.path.normpath(where)}" if kind == "path" and where else source


def source_root(source: str, suite: Path, folder: Path = Path()) -> Path:
    """Returns the folder that holds `experts/` and `demos/` of a suite.

    Args:
        source: `bundled`, `path:DIR`, `hub` or `minari:NAME`.
        suite: Folder of the suite.
        folder: Base folder of a relative `DIR`.

    Raises:
        InputError: The source has none of these forms, or the folder does not exist.
    """
    if source == "bundled":
        return suite
    if source == HUB:
        return cache_directory()
    if source.startswith(MINARI):
        return minari_copy(source).folder
    if source == MINARI_SETS:
        return user_cache() / "minari"
    kind, _, where = source.partition(":")
    if kind != "path" or not where:
        raise InputError(
            f"--source {source}: must be 'bundled', 'hub', 'minari', 'path:DIR' or 'minari:NAME'"
        )
    root = folder / where
    if not root.is_dir():
        raise InputError(
            f"--source {source}: {root} is not a folder; it must hold experts/ and demos/"
        )
    return root


@cache
def minari_copy(source: str) -> MinariCopy:
    """Returns the converted set that `minari:NAME` names.

    Raises:
        InputError: The set does not exist or cannot be converted.
    """
    from imitbench.data.minari_source import copy_minari

    return copy_minari(source.removeprefix(MINARI))


def collected_sets() -> Path:
    """Returns the cache of sets that were rolled out."""
    return user_cache() / "sets"


def file_copies() -> Path:
    """Returns the cache of sets that were converted from files."""
    return user_cache() / "files"


@cache
def copy_of_file(path: Path) -> Path:
    """Converts trajectories of any format into the cache, unless they are there.

    Several processes may do so at the same time.

    Args:
        path: File, or folder of a data set.

    Returns:
        The copy, in a folder named after the digest of the original's content.

    Raises:
        InputError: Nothing is there, or it cannot be read.
    """
    from imitbench.data.conversion import convert_demonstrations
    from imitbench.data.sources import open_trajectories

    if not path.exists():
        raise InputError(f"{path}: no such file or folder; check the path of the set")
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    digest = digest_files(path.parent if path.is_file() else path, files)
    copy = file_copies() / digest[:32]

    def convert() -> None:
        gate.try_reading(lambda: list(open_trajectories(path).chunks(with_infos=False)), path)
        convert_demonstrations(open_trajectories(path), copy)

    return make_once(copy, convert)


def locate_artifact(
    root: Path, part: Part, source: str, card: EnvironmentCard, suite: str
) -> ArtifactLocation:
    """Returns the location of the expert or the demonstrations of an environment in a source.

    Args:
        root: What `source_root` returned.
        part: `experts` or `demos`.
        source: `bundled`, `path:DIR`, `hub`, `minari` or `minari:NAME`.
        card: Card of the environment.
        suite: Name of the suite.

    Raises:
        InputError: The card names no repository, or its commit has not been looked up.
    """
    recipe = card.expert_in(card.title) if part == "experts" else card.demos
    hub = recipe.hub
    if source == HUB:
        if hub is None:
            raise InputError(
                f"suite {suite}: {card.title}: the card names no hub repository of {part}; "
                "use --source bundled"
            )
        if hub.revision is None:
            raise InputError(
                f"suite {suite}: {hub.repo}: its commit is not known; run "
                f"`imitbench suites pin {suite}`"
            )
        conversion = hub.conversion if isinstance(hub, HubDemos) else None
        return ArtifactLocation(
            root, part, source, hub.repo, hub.revision, suite, conversion=conversion
        )
    if source.startswith(MINARI) and part == "demos":
        return ArtifactLocation(root, part, source, source.removeprefix(MINARI), suite=suite)
    if source == MINARI_SETS and part == "demos":
        if card.minari is None:
            raise InputError(
                f"suite {suite}: {card.title}: the card names no set of Minari; use --source "
                "bundled"
            )
        digest = minari_copy(MINARI + card.minari).folder.name
        return ArtifactLocation(root, part, source, card.minari, digest, suite)
    home = recipe.home if source == "bundled" else None
    package = card.demos.package if (source, part) == ("bundled", "demos") else None
    location = ArtifactLocation(
        root, part, source, recipe.repo, suite=suite, home=home, package=package
    )
    if source != "bundled" and hub is not None and not location.folder.exists():
        # A folder written by `experts pull --to` or `demos pull --to` has the hub's names.
        pulled = ArtifactLocation(root, part, source, hub.repo.rpartition("/")[2], suite=suite)
        return pulled if pulled.folder.exists() else location
    return location


def check_demos_are_here(location: ArtifactLocation, card: EnvironmentCard) -> None:
    """Checks that a suite bundles demonstrations.

    Raises:
        InputError: It has them from Minari only, and another source is used.
    """
    if location.source == "bundled" and card.minari and not location.folder.is_dir():
        raise InputError(
            f"suite {location.suite}: {card.title}: bundles no demonstrations; run `imitbench "
            f"prefetch --suite {location.suite} --source minari`, and use --source minari"
        )


def pin_expert(location: ArtifactLocation) -> ArtifactSpec:
    """Pins an expert by the content of the files that it is read from.

    Raises:
        InputError: A file is missing, or cannot be read.
    """
    location.files()
    if not gate.is_bundled(location.folder):
        gate.try_reading(_reader_of_expert(location), location.folder)
    return ArtifactSpec(
        source=location.source,
        repo=location.repo,
        revision=location.revision,
        digest=digest_of(location),
        home=location.home,
    )


def _reader_of_expert(location: ArtifactLocation) -> Callable[[], object]:
    """Reads an expert as far as that is possible without the spaces of its environment."""
    from imitbench.policies.sb3_zip import read_sb3_zip
    from imitbench.policies.storage import load_policy

    policy = find_policy(location.folder, location.repo)
    assert policy is not None, "its files were listed just now"
    return partial(read_sb3_zip if policy.is_file() else load_policy, policy)


def pin_demos(
    location: ArtifactLocation, available: int, count: int | None, every: int | None = None
) -> DemoSpec:
    """Pins a set of demonstrations by content, and how much of them to use.

    Args:
        location: Location of the set.
        available: How many trajectories the set has.
        count: How many to use; `None` for all.
        every: One step is kept out of so many; `None` for all steps.

    Raises:
        InputError: The set is missing or too small.
    """
    if count is not None and not 1 <= count <= available:
        raise InputError(
            f"--n-demos {count}: {location.repo} of source '{location.source}' has {available} "
            f"trajectories; choose 1 to {available}"
        )
    return DemoSpec(
        source=location.source,
        repo=location.repo,
        revision=location.revision,
        digest=digest_of(location),
        home=location.home,
        package=location.package,
        conversion=location.conversion,
        available=available,
        count=count or available,
        every=every,
    )


def count_trajectories(location: ArtifactLocation) -> int:
    """Returns the number of trajectories in a set of demonstrations.

    Raises:
        InputError: A file is missing or not a readable parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from imitbench.data.demonstrations import read_demonstrations

    files = location.files()
    gate.try_reading(lambda: read_demonstrations(location.folder), location.folder)
    total = 0
    for path in files:
        try:
            total += pq.ParquetFile(path).metadata.num_rows
        except (OSError, pa.ArrowException) as error:
            problem = str(error).splitlines()[0]
            raise InputError(f"{path}: not a readable parquet file ({problem})") from error
    return total


def demonstrated_returns(location: ArtifactLocation) -> npt.NDArray[np.float64]:
    """Returns the undiscounted returns of the whole episodes in a set of demonstrations.

    Returns:
        One return per trajectory that is marked as the end of an episode, shape `(episodes,)`;
        empty if no rewards were recorded.

    Raises:
        InputError: A file is missing or not a readable parquet file.
    """
    from imitbench.data.arrow_table import lists_to_arrays
    from imitbench.data.parquet_source import read_whole

    found: list[float] = []
    for path in location.files():
        table = read_whole(path, ["rews", "terminal"])
        if "rews" not in table.column_names:
            return np.empty(0)
        whole = table.filter(table["terminal"])
        found += [float(r.sum()) for r in lists_to_arrays(whole["rews"], "rews", where=str(path))]
    returns = np.array(found, np.float64)
    return returns if np.isfinite(returns).all() else np.empty(0)


def expert_of_run(
    spec: RunSpec,
    root: Path,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    device: str,
) -> BasePolicy | None:
    """Loads the expert of a run; `None` for a run without one.

    Args:
        spec: Specification of the run.
        root: As `ArtifactLocation.root`.
        observation_space: Space of the observations in the run's environment.
        action_space: Space of the actions there.
        device: Device of the policy's weights.

    Raises:
        InputError: Its content is not what was pinned, or cannot be read.
    """
    if spec.expert is None:
        return None
    import gymnasium as gym

    from imitbench.policies.expert import Spaces, load_expert_policy

    location = ArtifactLocation.of_spec(root, "experts", spec.expert, spec.suite)
    check_digest(location, spec.expert.digest)
    policy = find_policy(location.folder, location.repo)
    assert policy is not None, "its files were hashed just now"
    longest = gym.spec(spec.environment.gym_id).max_episode_steps
    return load_expert_policy(policy, Spaces(observation_space, action_space, longest)).to(device)


def expert_of_suite(
    spec: RunSpec,
    root: Path,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
) -> BasePolicy | None:
    """Loads the expert that the card of a run's suite names, to measure a learned reward.

    Returns:
        The expert on the CPU; `None` where the run does not use the suite's own files, or the suite
        has no expert for the environment.

    Raises:
        InputError: The expert cannot be read.
    """
    path = root / "suite.yaml"
    if spec.source not in (None, "bundled") or not path.is_file():
        return None
    card = read_card_of_suite(path, spec.suite).environments.get(spec.environment.id)
    if card is None or card.expert is None:
        return None
    location = locate_artifact(root, "experts", "bundled", card, spec.suite)
    if not location.folder.is_dir():
        return None
    known = spec.model_copy(update={"expert": pin_expert(location)})
    return expert_of_run(known, root, observation_space, action_space, "cpu")


def demos_of_run(spec: RunSpec, root: Path) -> list[TrajectoryWithRew]:
    """Loads the demonstrations of a run in their order in the set; empty for a run without.

    If only some steps are used, each is a `imitbench.data.trajectories.Segment`. Where a regime
    hides actions, they are removed here.

    Args:
        spec: Specification of the run.
        root: As `ArtifactLocation.root`.

    Raises:
        InputError: Their content is not what was pinned, or cannot be read.
    """
    demos = spec.demos
    if demos is None:
        return []
    from imitbench.data.demonstrations import read_demonstrations
    from imitbench.data.trajectories import every_nth_step

    location = ArtifactLocation.of_spec(root, "demos", demos, spec.suite)
    check_digest(location, demos.digest)
    rng = np.random.default_rng(demos.subsample_seed)
    rows = None
    if demos.count < demos.available:
        rows = np.sort(rng.choice(demos.available, size=demos.count, replace=False)).tolist()
    found = list(read_demonstrations(location.folder, rows=rows))
    if demos.actions == "hidden":
        found = hide_actions(found)
    every = demos.every
    if every is None:
        return found
    # Where trajectories are shorter, one step of each is kept.
    offsets = [int(rng.integers(min(every, len(trajectory)))) for trajectory in found]
    return [
        step
        for trajectory, offset in zip(found, offsets, strict=True)
        for step in every_nth_step(trajectory, every, offset)
    ]


def digest_of(location: ArtifactLocation) -> str:
    """Returns the SHA-256 over the files that are read.

    Raises:
        InputError: A file is missing.
    """
    if location.package is not None:  # not of the copy, which depends on the version of pyarrow
        return _data_of(location.package).digest
    if location.source == COLLECTED:  # nor of these files, but they must be there
        location.files()
        return str(location.revision)
    if location.conversion is not None:
        from imitbench.data.lerobot_conversions import digest_of_conversion

        location.files()
        return digest_of_conversion(location.fetched, location.conversion)
    return digest_files(location.folder, location.files())


def copy_of_package_data(name: str) -> Path:
    """Converts demonstrations of an installed package into the cache, unless they are there.

    Several processes may do so at the same time.

    Args:
        name: As `package` of a suite card.

    Returns:
        The copy, in a folder named after the digest of its content.

    Raises:
        InputError: The package is not installed, or has no such data.
    """
    from imitbench.data.demonstrations import write_demonstrations

    data = _data_of(name)
    copy = user_cache() / "packages" / name.replace(":", "-") / data.digest[:32]

    def write() -> None:
        with new_folder(copy) as folder:
            write_demonstrations(folder, data.demonstrations)

    return make_once(copy, write)


class _PackageData(Protocol):
    """Demonstrations that an installed package gives."""

    @property
    def digest(self) -> str:
        """SHA-256 of what determines them."""

    @property
    def demonstrations(self) -> list[TrajectoryWithRew]:
        """The demonstrations."""


def _data_of(name: str) -> _PackageData:
    kind, _, part = name.partition(":")
    if kind == "pusht":
        from imitbench.envs.pusht_images import drawn_states

        return drawn_states(part)
    from imitbench.envs.handwriting import motion

    return motion(part)


def check_digest(location: ArtifactLocation, expected: str) -> None:
    """Checks that an artifact is what was pinned.

    Raises:
        InputError: A file is missing, or the content has changed.
    """
    found = digest_of(location)
    if found != expected:
        raise InputError(
            f"{location.folder}: content changed since the run was planned (digest {found[:12]}, "
            f"expected {expected[:12]}); run the command again to plan with the new content"
        )
