"""Finds experts, demonstrations and other policies by what the user typed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from imitbench.bench.artifacts import MINARI, Part, locate_artifact
from imitbench.bench.single_run import RECORD_FILE
from imitbench.bench.spec import reference_scores
from imitbench.cards.catalog import suite_directory, suite_names
from imitbench.cards.plugins import find_suite
from imitbench.cards.suite import EnvironmentCard, SuiteCard
from imitbench.errors import InputError, did_you_mean
from imitbench.hub.pull import pull
from imitbench.policies.expert_folder import KINDS_OF_FILES
from imitbench.records.runs import EnvironmentSpec, ReferenceScores, RunSpec
from imitbench.store.overview import find_run
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import read_sweeps
from imitbench.untrusted.files import read_content
from imitbench.util.hub_client import RepoKind, repo_path
from imitbench.util.hub_errors import Notify
from imitbench.util.text_line import one_line

_REGISTERING = ("seals", "gym_pusht")  # packages whose import registers their namespace


def suites_of(suite: str | None) -> Iterator[SuiteCard]:
    """Returns the suite of that name or folder, or all bundled suites when `None`.

    Raises:
        InputError: The suite does not exist.
    """
    return map(find_suite, suite_names() if suite is None else [suite])


@dataclass(frozen=True)
class ListedEnvironment:
    """An environment and its suite."""

    suite: SuiteCard
    env_id: str
    card: EnvironmentCard

    @property
    def expert(self) -> Path | None:
        """Folder of the suite's expert for the environment; `None` if it has none."""
        return self._folder("experts") if self.card.expert else None

    @property
    def demos(self) -> Path:
        """Folder of the suite's demonstrations for the environment."""
        return self._folder("demos")

    def _folder(self, part: Part) -> Path:
        root = self.suite.origin.folder
        return locate_artifact(root, part, "bundled", self.card, self.suite.name).folder


def find_listed_environment(env_id: str, suite: str | None) -> ListedEnvironment | None:
    """Returns the environment of the first suite that has it; `None` if none has.

    Args:
        env_id: Id of the environment.
        suite: Name or folder of the only suite to search; `None` for all bundled ones.

    Raises:
        InputError: The named suite does not exist or lacks the environment.
    """
    for found in suites_of(suite):
        card = found.environments.get(env_id)
        if card is not None:
            return ListedEnvironment(found, env_id, card)
        if suite is not None:
            hint = did_you_mean(env_id, found.environments)
            raise InputError(f"--env {env_id}: not in suite {found.name}; {hint}")
    return None


def find_same_environment(spec: EnvironmentSpec, suite: str | None) -> ListedEnvironment | None:
    """Returns the first environment of a suite that is evaluated in the given one.

    Args:
        spec: Environment of the evaluation.
        suite: Name or folder of the only suite to search; `None` for all bundled ones.

    Raises:
        InputError: The named suite does not exist.
    """
    return next((listed for listed, _ in _evaluated_in(spec, suite)), None)


def find_environment(env_id: str, suite: str | None = None) -> EnvironmentSpec:
    """Returns an environment as on a suite's card or, without a suite, as in Gymnasium.

    Outside suites the horizon is set to variable, which is always valid. Arguments and errors as
    in `find_listed_environment`.
    """
    listed = find_listed_environment(env_id, suite)
    if listed is not None:
        return EnvironmentSpec.of_card(env_id, listed.card)
    namespace = env_id.partition("/")[0]
    module = namespace if namespace in _REGISTERING else None
    return EnvironmentSpec(id=env_id, module=module, horizon="variable")


def find_environment_if_named(env_id: str | None, suite: str | None) -> EnvironmentSpec | None:
    """Same as `find_environment`, but returns `None` without an environment.

    Raises:
        InputError: As in `find_listed_environment`; or a suite is given without an environment.
    """
    if env_id is None and suite is not None:
        raise InputError(f"--suite {suite}: needs --env, too")
    return None if env_id is None else find_environment(env_id, suite)


def find_expert(name: str) -> Path:
    """Returns an expert, given as a path or as the name of a bundled one.

    Raises:
        InputError: `name` is neither.
    """
    if Path(name).exists():
        return Path(name)
    found = _find_bundled(name, "experts", lambda card: card.expert.repo if card.expert else None)
    assert found.expert is not None, "it was found by the name of its expert"
    return found.expert


def find_demos(name: str) -> Path:
    """Returns trajectories, given as a path or as the name of a bundled set.

    Raises:
        InputError: `name` is neither, or is that of a set which its suite only names.
    """
    if Path(name).exists():
        return Path(name)
    if (of_mixtures := _find_set(name)) is not None:
        return of_mixtures
    found = _find_bundled(name, "demos", lambda card: card.demos.repo)
    folder, minari = found.demos, found.card.minari
    if minari is not None and not folder.is_dir():
        raise InputError(
            f"{name}: suite {found.suite.name} does not bundle it, Minari has it; run `imitbench "
            f"demos convert {MINARI}{minari} {name} --download`, and name the new folder"
        )
    return folder


def _find_set(name: str) -> Path | None:
    """Returns the folder of a set for mixtures; `None` if none has that name.

    Raises:
        InputError: Its suite does not bundle it.
    """
    for listed in _listed_environments(None):
        for set_name, recipe in listed.card.sets.items():
            if recipe.repo != name:
                continue
            home = listed.suite.origin.folder
            folder = (home if recipe.home is None else suite_directory(recipe.home)) / "demos"
            if not (folder / name).is_dir():
                raise InputError(
                    f"{name}: suite {listed.suite.name} does not bundle it; run `imitbench demos "
                    f"collect --suite {listed.suite.name} --env {listed.env_id} --set {set_name}`, "
                    "and name the new folder"
                )
            return folder / name
    return None


def _find_bundled(
    name: str, kind: Part, name_of: Callable[[EnvironmentCard], str | None]
) -> ListedEnvironment:
    """Returns the first environment whose expert, or set, has that name in lists."""
    bundled: dict[str, ListedEnvironment] = {}
    for listed in _listed_environments(None):
        own = name_of(listed.card)
        if own is not None:
            bundled.setdefault(own, listed)
    if name not in bundled:
        _check_no_path(name, kind)
        raise InputError(
            f"{name}: neither a path nor one of the bundled {kind}; {did_you_mean(name, bundled)}"
        )
    return bundled[name]


def _check_no_path(name: str, kind: str) -> None:
    """Checks that a name, of which there is no file or folder, may be that of something else.

    Raises:
        InputError: It has a folder or a file type, and so is a wrong path.
    """
    if Path(name).name == name and not Path(name).suffix:
        return
    hint = ": check the path"
    if _may_be_repository(name):
        hint = f"; `imitbench {kind} pull {name}` fetches a repository of that name"
    raise InputError(f"{name}: no such file or folder{hint}")


_RUN_ID = re.compile(r"[0-9a-f]{1,12}")
_REPOSITORY = re.compile(r"[^./~][^/]*/[^/]+")


@dataclass(frozen=True)
class LocatedArtifact:
    """Files that were found.

    Attributes:
        path: Folder or file.
        origin: Repository and commit on the hub; `None` for local files.
    """

    path: Path
    origin: str | None = None


def locate_expert(name: str, revision: str | None, notify: Notify) -> LocatedArtifact:
    """Finds an expert.

    Args:
        name: Folder, zip, bundled expert, or repository `owner/name`, which is fetched.
        revision: Commit, branch or tag of a repository.
        notify: Called with messages about downloads.

    Raises:
        InputError: Nothing has that name.
    """
    if _is_repository(name, revision):
        return _pull("model", name, revision, notify)
    return LocatedArtifact(find_expert(name))


def locate_demos(name: str, revision: str | None, notify: Notify) -> LocatedArtifact:
    """Finds demonstrations; arguments and errors as in `locate_expert`."""
    if _is_repository(name, revision):
        return _pull("dataset", name, revision, notify)
    return LocatedArtifact(find_demos(name))


def _is_repository(name: str, revision: str | None) -> bool:
    path = Path(name)
    if revision is not None:
        if path.exists() or _REPOSITORY.fullmatch(name) is None:
            raise InputError("--revision: needs a repository owner/name")
        return True
    # In a folder that exists, a file is more likely to be meant than a repository of its name.
    return not path.exists() and not path.parent.is_dir() and _may_be_repository(name)


def _may_be_repository(name: str) -> bool:
    # Imported here because readers of data sets load slowly, and most names are those of files.
    from imitbench.data.sources import SUFFIXES

    file_types = {*KINDS_OF_FILES, *SUFFIXES, ".safetensors", ".json"}
    is_file = Path(name).suffix.lower() in file_types
    return _REPOSITORY.fullmatch(name) is not None and not is_file


def _pull(kind: RepoKind, name: str, revision: str | None, notify: Notify) -> LocatedArtifact:
    try:
        pulled = pull(kind, name, revision=revision, notify=notify)
    except InputError as error:
        where, _, problem = str(error).partition(": ")
        if revision is not None or where != repo_path(kind, name):
            raise
        raise InputError(f"{name}: no such file or folder here, and {problem}") from error
    return LocatedArtifact(pulled.folder, f"{pulled.repo} at {pulled.revision[:12]}")


@dataclass(frozen=True)
class NamedPolicy:
    """A policy, and what its files state about it.

    Attributes:
        name: Display name.
        path: Folder or file of the policy.
        environment: Environment of its training; `None` if no file states it, or if creating it
            would import a module that only the file names.
        references: Returns of random actions and of the expert in it; `None` if unknown.
        seed: Seed of its run; 0 for other policies.
        lacks: Reason for a missing environment.
        plugin: Reference to the plug-in that made it, according to the results folder of its run;
            not to be used unless the user trusts it. `None` if unknown.
    """

    name: str
    path: Path
    environment: EnvironmentSpec | None = None
    references: ReferenceScores | None = None
    seed: int = 0
    lacks: str = "does not state its environment"
    plugin: str | None = None

    def chosen_plugin(self, named: str | None, *, trust: bool) -> str | None:
        """Returns the plug-in to load the policy with; `None` if the user allowed none.

        Args:
            named: The plug-in that the user named.
            trust: Whether the user trusts the one of the results folder.
        """
        return named or (self.plugin if trust else None)


def find_named_policy(name: str, *, out: Path, revision: str | None, notify: Notify) -> NamedPolicy:
    """Finds a policy.

    Args:
        name: A run id or its start; a folder (of a run, of `imitbench train`, or of a policy); a
            zip of Stable-Baselines3; a bundled expert; or a repository `owner/name`.
        out: Results folder in which run ids are looked up.
        revision: Commit, branch or tag of a repository.
        notify: Called with messages about downloads.

    Raises:
        InputError: `name` is none of these.
    """
    path = Path(name)
    if _is_repository(name, revision):
        located = _pull("model", name, revision, notify)
        return NamedPolicy(located.origin or name, located.path)
    if path.exists():
        return _of_path(path)
    for listed in _listed_environments(None):
        own = not listed.suite.takes_over(listed.env_id, "expert")
        if own and listed.expert and listed.expert.name == name:
            environment = EnvironmentSpec.of_card(listed.env_id, listed.card).evaluated
            return NamedPolicy(name, listed.expert, environment)
    if _RUN_ID.fullmatch(name):
        return _of_path(find_run(out, name).path)
    _check_no_path(name, "experts")
    raise InputError(
        f"{name}: neither a file nor a folder, a run of {out}, or a bundled expert (see "
        "`imitbench experts list`)"
    )


def _of_path(path: Path) -> NamedPolicy:
    if (path / "spec.json").is_file():
        directory = RunDirectory(path)
        spec = directory.read_spec()
        if not directory.policy.is_dir():
            raise InputError(f"run {spec.run_id}: has no policy yet in {path}")
        references = directory.read_result().references if directory.is_done else None
        subject = NamedPolicy(
            spec.label,
            path,
            spec.environment.evaluated,
            references,
            spec.seed,
            plugin=_recorded_plugin(directory, spec),
        )
        return _without_foreign_module(subject)
    if (path / RECORD_FILE).is_file():
        record = _read_record(path / RECORD_FILE)
        if isinstance(record, dict) and "type" in record and "algo" not in record:
            return NamedPolicy(str(path), path)  # LeRobot gives its settings the same name
        try:
            environment = EnvironmentSpec.model_validate(record["environment"])
            name = f"{record['algo']} of {path}"
        except (KeyError, TypeError, ValidationError) as error:
            raise InputError(f"{path / RECORD_FILE}: is not a record of a training") from error
        return _without_foreign_module(NamedPolicy(name, path, environment.evaluated))
    return NamedPolicy(str(path), path)


def _recorded_plugin(directory: RunDirectory, spec: RunSpec) -> str | None:
    """Returns the plug-in that a request of the run's results folder names."""
    if spec.implementation_digest is None:
        return None
    for sweep in read_sweeps(directory.results):
        if sweep.request is not None and spec.run_id in sweep.paths:
            found = sweep.request.plugins.get(spec.algo)
            if found is not None:
                return found
    return None


def _without_foreign_module(subject: NamedPolicy) -> NamedPolicy:
    """Drops the environment if creating it imports a module that only a file names.

    Modules of bundled suites may be imported, and so may sources next to a suite card: their digest
    is known only for suites that the user named.
    """
    spec = subject.environment
    if spec is None or (spec.module_digest is not None and ":" not in spec.gym_id):
        return subject
    known = {listed.card.module for listed in _listed_environments(None)}
    prefix, colon, _ = spec.gym_id.rpartition(":")
    named = {spec.module, prefix if colon else None} - known - {None}
    if not named:
        return subject
    modules = " and ".join(one_line(module, 60) for module in sorted(map(str, named)))
    lacks = f"its environment needs {modules}, which is not imported on the word of a file"
    return replace(subject, environment=None, references=None, lacks=lacks)


def _read_record(path: Path) -> Any:
    try:
        return json.loads(read_content(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error


def _listed_environments(suite: str | None) -> Iterator[ListedEnvironment]:
    for found in suites_of(suite):
        for env_id, card in found.environments.items():
            yield ListedEnvironment(found, env_id, card)


def _evaluated_in(
    spec: EnvironmentSpec, suite: str | None
) -> Iterator[tuple[ListedEnvironment, EnvironmentSpec]]:
    """Yields environments of suites whose policies are evaluated in this one, and what that is."""
    wanted = spec.id, spec.gym_id, spec.kwargs, spec.wrappers
    for listed in _listed_environments(suite):
        own = EnvironmentSpec.of_card(listed.env_id, listed.card).evaluated
        if (own.id, own.gym_id, own.kwargs, own.wrappers) == wanted:
            yield listed, own


def find_references(spec: EnvironmentSpec, suite: str | None = None) -> ReferenceScores | None:
    """Returns references from the first suite that has the environment with the same arguments.

    Args:
        spec: Environment of the evaluation.
        suite: Name or folder of the only suite to search; all bundled ones when `None`.
    """
    for listed, own in _evaluated_in(spec, suite):
        # A share of successes is a score only where success is measured as the card says.
        comparable = not listed.card.scored_by_success or own.success == spec.success
        if comparable and listed.card.scale is not None:
            return reference_scores(listed.suite, listed.env_id, "bundled")
    return None
