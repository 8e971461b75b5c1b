"""Loads the policy and the learned reward of a run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch as th
from stable_baselines3.common.policies import BasePolicy

from imitbench.cards.plugins import find_suite
from imitbench.errors import InputError
from imitbench.experts.lookup import (
    ListedEnvironment,
    NamedPolicy,
    find_environment,
    find_named_policy,
)
from imitbench.experts.measurement import spaces_of, with_own_arguments
from imitbench.policies.expert import load_expert_policy
from imitbench.policies.expert_folder import open_expert_folder
from imitbench.policies.storage import load_policy
from imitbench.records.runs import EnvironmentSpec
from imitbench.rewards.base import RewardNet
from imitbench.rewards.storage import DESCRIPTION_FILE, load_reward_net
from imitbench.store.overview import find_run
from imitbench.store.run_dir import RunDirectory
from imitbench.untrusted import gate
from imitbench.util.hub_client import silent


def environment_of(subject: NamedPolicy, env: str | None, suite: str | None) -> EnvironmentSpec:
    """Returns the environment in which a policy is measured, with the policy's own arguments.

    Args:
        subject: The policy.
        env: Id of the environment; `None` for that of the policy.
        suite: Name or folder of the only suite to search for it; `None` for all.

    Raises:
        InputError: There is no such environment, none is named and no file states it, or the
            suite lacks it.
    """
    spec = subject.environment if env is None else find_environment(env, suite).evaluated
    if spec is None:
        raise InputError(f"{subject.name}: {subject.lacks}; name it by --env")
    if env is None and suite is not None and not _is_in(spec, suite):
        raise InputError(
            f"--suite {suite}: has no {spec.id}, the environment of {subject.name}; leave --suite "
            "out, or name a suite that has it"
        )
    return with_own_arguments(spec, open_expert_folder(subject.path))


def _is_in(spec: EnvironmentSpec, suite: str) -> bool:
    """Whether a suite has an environment of that id, perhaps for evaluations only."""
    cards = find_suite(suite).environments.items()
    return any(EnvironmentSpec.of_card(*listed).evaluated.id == spec.id for listed in cards)


def load_subject(
    subject: NamedPolicy,
    spec: EnvironmentSpec,
    *,
    trust: bool,
    plugin: str | None,
    observation_keys: Mapping[str, str] | None = None,
) -> BasePolicy:
    """Loads a named policy for an environment.

    Args:
        subject: The policy.
        spec: The environment, of `environment_of`.
        trust: Whether files that execute code may be read.
        plugin: The plug-in that made the policy, if the user named it.
        observation_keys: Where its inputs are; see `load_expert_policy`.

    Raises:
        InputError: The policy cannot be read, or does not fit the environment.
    """
    load = partial(
        load_expert_policy,
        open_expert_folder(subject.path),
        spaces_of(spec),
        trust=trust,
        plugin=plugin,
        observation_keys=observation_keys,
    )
    # The code of a plug-in is trusted by naming it, and may need more than the limits.
    return gate.checked(load, subject.path, trusted=trust or plugin is not None)


def load_suite_expert(listed: ListedEnvironment | None, spec: EnvironmentSpec) -> BasePolicy | None:
    """Loads the expert of a suite's environment; `None` if there is none.

    Args:
        listed: The environment, of `find_same_environment`.
        spec: The same, as it is acted in.

    Raises:
        InputError: As in `load_subject`.
    """
    if listed is None or listed.expert is None or not listed.expert.is_dir():
        return None
    named = NamedPolicy(listed.expert.name, listed.expert, spec)
    return load_subject(named, spec, trust=False, plugin=None)


def load_run_policy(run: Any, *, out: Path, device: th.device | str = "cpu") -> BasePolicy:
    """Loads the policy of a run, or another stored policy.

    Args:
        run: Id of a run or its start, a row of results, or whatever `imitbench eval` accepts.
        out: Results folder in which ids are looked up.
        device: Device of the policy.

    Raises:
        InputError: There is no such policy, it was not published, or it cannot be read.
    """
    named = find_named_policy(run_name(run), out=out, revision=None, notify=silent)
    found = open_expert_folder(named.path)
    if found.kind == "own":
        load = partial(load_policy, found.policy, device=device)
        return gate.checked(load, named.path)
    if named.environment is None:
        what = "a zip" if found.is_zip else "such a policy"
        raise InputError(
            f"{named.name}: {named.lacks}, which {what} needs; imitbench.policies.serialize."
            "load_policy takes the environment"
        )
    spec = with_own_arguments(named.environment, found)
    return load_subject(named, spec, trust=False, plugin=None).to(device)


def load_run_reward(
    run: Any,
    *,
    out: Path,
    device: th.device | str = "cpu",
    plugin: str | None = None,
    trust: bool = False,
    option: str | None = None,
) -> RewardNet:
    """Loads the reward network that a run learned.

    Args:
        run: Id of a run or its start, a row of results, or the folder of a run or of a network.
        out: Results folder in which ids are looked up.
        device: Device of the network.
        plugin: See `load_reward_net`; also `trust`.
        trust: As above.
        option: As above.

    Raises:
        InputError: There is no such run, or it has no stored reward.
    """
    name = run_name(run)
    path = Path(name) if Path(name).exists() else find_run(out, name).path
    folders = [path, RunDirectory(path).reward]
    folder = next((at for at in folders if (at / DESCRIPTION_FILE).is_file()), None)
    if folder is None:
        raise InputError(f"{path}: has no stored reward; methods such as gail and airl learn one")
    load = partial(load_reward_net, folder, device, plugin=plugin, trust=trust, option=option)
    # The code of a plug-in is trusted by naming it, and may need more than the limits.
    return gate.checked(load, folder, trusted=plugin is not None)


def run_name(run: Any) -> str:
    """Returns the name of a run: itself, or that in a row of results.

    Args:
        run: A name or path, or a row with `path` or `run_id`: a mapping, a row of a data frame, or
            a record.

    Raises:
        InputError: A row says that there is no policy, or it has neither column.
    """
    if isinstance(run, (str, PathLike)):
        return str(fspath(run))
    value = run.get if hasattr(run, "get") else lambda name: getattr(run, name, None)
    path, run_id = value("path"), value("run_id")
    if isinstance(path, str):
        return path
    if run_id is None:
        raise InputError(f"run {run!r}: must be the id of a run, its folder, or a row of results")
    columns = run.keys() if hasattr(run, "keys") else dir(run)
    if "path" in columns:
        raise InputError(f"run {run_id}: its policy was not published; train it again")
    return str(run_id)
