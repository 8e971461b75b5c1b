"""Finds and loads the policies whose behavior is compared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from imitbench.errors import InputError
from imitbench.experts.evaluation import spaces_of, with_own_arguments
from imitbench.experts.lookup import NamedPolicy, find_named_policy
from imitbench.labelling.fragments import Actor
from imitbench.policies.expert import load_expert_policy
from imitbench.policies.expert_folder import open_expert_folder
from imitbench.records.runs import EnvironmentSpec
from imitbench.untrusted import gate
from imitbench.util.hub_errors import Notify

RANDOM = "random"


def load_actors(
    names: Sequence[str], spec: EnvironmentSpec | None, *, out: Path, trust: bool, notify: Notify
) -> tuple[EnvironmentSpec, list[Actor]]:
    """Loads policies for one environment.

    Args:
        names: Policies as `find_named_policy` finds them, or `random`.
        spec: The environment; that of the first policy that states one when `None`.
        out: Results folder in which run ids are looked up.
        trust: Whether files may be unpickled and plug-ins imported.
        notify: Called with messages about downloads.

    Returns:
        The environment, with a variable horizon, and the policies.

    Raises:
        InputError: A policy does not exist, does not fit, or no environment is known.
    """
    named: list[NamedPolicy | None] = [
        None if name == RANDOM else find_named_policy(name, out=out, revision=None, notify=notify)
        for name in names
    ]
    stated = next((each.environment for each in named if each and each.environment), None)
    chosen = spec or stated
    if chosen is None:
        raise InputError("the environment is not known; name it by --env")
    actors = []
    for each in named:
        if each is None:
            actors.append(Actor("random actions", None))
            continue
        folder = open_expert_folder(each.path)
        own = with_own_arguments(chosen, folder)
        load = partial(
            load_expert_policy,
            folder,
            spaces_of(own),
            trust=trust,
            plugin=each.plugin if trust else None,
        )
        policy = gate.checked(load, each.path, trusted=trust)
        actors.append(Actor(each.label, policy))
    return chosen.model_copy(update={"horizon": "variable"}), actors
