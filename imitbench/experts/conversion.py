"""Converts experts to the pickle-free format, in the layout of bundled experts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from imitbench.errors import InputError
from imitbench.experts.measurement import model_index, spaces_of, with_own_arguments
from imitbench.hub.repo_card import CARD_FILE
from imitbench.hub.reported_results import (
    RESULTS_FILE,
    ReportedReturn,
    read_card_metadata,
    read_reported_return,
)
from imitbench.policies.expert import algorithm_name, load_expert_policy
from imitbench.policies.expert_folder import ExpertFolder, open_expert_folder
from imitbench.policies.observation_statistics import NormalizedPolicy
from imitbench.policies.sb3_zip import read_sb3_zip
from imitbench.policies.storage import save_policy
from imitbench.policies.time_feature import TimeFeaturePolicy
from imitbench.records.runs import EnvironmentSpec
from imitbench.untrusted import gate
from imitbench.untrusted.files import require_utf8
from imitbench.util.files import atomic_write_text, is_empty, new_folder

_FOLDED = {
    NormalizedPolicy: "normalization of observations",
    TimeFeaturePolicy: "time feature",
}


@dataclass(frozen=True)
class ConvertedExpert:
    """A converted expert.

    Attributes:
        directory: Folder of the converted expert.
        policy_class: Class name of the policy.
        folded: Parts that were merged into the policy, such as the normalization of observations.
        published: Results stated in the expert's files, if any.
    """

    directory: Path
    policy_class: str
    folded: list[str]
    published: ReportedReturn | None


def convert_expert(
    source: Path,
    target: Path,
    *,
    environment: EnvironmentSpec | None = None,
    origin: str | None = None,
    trust: bool = False,
) -> ConvertedExpert:
    """Writes an expert's policy without pickle, with the metadata of its files.

    Statistics of `VecNormalize` and a time feature are merged into the policy, which then acts on
    the environment's own observations.

    Args:
        source: A zip of Stable-Baselines3, or a folder in the layout of hub repositories.
        target: Folder to write atomically; must be missing or empty.
        environment: Environment that the expert must fit; the spaces in the zip are used when
            `None`.
        origin: Name of the source on the card; only its file name when `None`.
        trust: Whether to unpickle what cannot be read otherwise, which can execute any code.

    Raises:
        InputError: The source cannot be read, does not fit the environment, or has no pickle-free
            format; or the target exists.
    """
    if not is_empty(target):
        raise InputError(f"{target}: already exists; choose another folder, or remove it")
    require_utf8(source)  # the card has both names
    require_utf8(target)
    found = open_expert_folder(source)
    if found.kind not in ("own", "zip"):
        raise InputError(
            f"{found.policy}: is a policy of the format {found.kind}, which is not converted; "
            "`imitbench eval` can use it as it is"
        )
    published = read_reported_return(found.folder)
    if environment is not None:
        environment = with_own_arguments(environment, found)
    env_spaces = spaces_of(environment) if environment else None
    policy = gate.checked(
        lambda: load_expert_policy(found, env_spaces, trust=trust), source, trusted=trust
    )
    folded, inner = [], policy
    while isinstance(inner, NormalizedPolicy | TimeFeaturePolicy):
        folded.append(_FOLDED[type(inner)])
        inner = inner.policy
    converted = ConvertedExpert(target, type(inner).__name__, folded, published)
    with new_folder(target) as fresh:
        _save(policy, fresh, found)
        _write_papers(fresh, found, converted, environment, origin)
    return converted


def _save(policy: Any, directory: Path, found: ExpertFolder) -> None:
    try:
        save_policy(policy, directory)
    except ValueError as error:
        raise InputError(
            f"{found.policy}: {error}; `imitbench experts eval --trust` can use it unconverted"
        ) from error


def _write_papers(
    directory: Path,
    found: ExpertFolder,
    converted: ConvertedExpert,
    environment: EnvironmentSpec | None,
    origin: str | None,
) -> None:
    algorithm = algorithm_name(read_sb3_zip(found.policy)) if found.is_zip else None
    algorithm = algorithm or _text(found.config.get("algo")) or _text(found.arguments.get("algo"))
    config = {**({"algo": algorithm} if algorithm else {}), **found.config}
    # A converted policy includes its normalization and time feature.
    if found.time_feature is not None:
        config.pop("env_wrapper")
    if config:
        atomic_write_text(directory / "config.yml", _yaml(config))
    kwargs = dict(environment.kwargs) if environment else found.env_kwargs
    if kwargs or (found.folder / "env_kwargs.yml").is_file():
        atomic_write_text(directory / "env_kwargs.yml", _yaml(kwargs))
    if converted.published is not None:
        results = _results(converted.published)
        atomic_write_text(directory / RESULTS_FILE, json.dumps(results, indent=1) + "\n")
    env_id = environment.id if environment else found.env_id
    card = _card(found, converted, algorithm, env_id, origin)
    atomic_write_text(directory / CARD_FILE, card)


def _results(published: ReportedReturn) -> dict[str, Any]:
    stated = {
        "mean_reward": published.mean,
        "std_reward": published.std,
        "is_deterministic": published.deterministic,
        "n_eval_episodes": published.episodes,
    }
    return {name: value for name, value in stated.items() if value is not None}


def _card(
    found: ExpertFolder,
    converted: ConvertedExpert,
    algorithm: str | None,
    env_id: str | None,
    origin: str | None,
) -> str:
    original = read_card_metadata(found.folder)
    metadata: dict[str, Any] = {"library_name": "imitbench"}
    if isinstance(original.get("license"), str):
        metadata["license"] = original["license"]
    metadata["tags"] = [*([env_id] if env_id else []), "reinforcement-learning", "imitbench"]
    name = algorithm.upper() if algorithm else found.name
    published = converted.published
    if published is not None and env_id:
        metadata["model-index"] = model_index(name, env_id, _shown(published))
    folded = f" It includes the {' and the '.join(converted.folded)}." if converted.folded else ""
    stated = f"Published mean return: {_shown(published)}.\n\n" if published is not None else ""
    return (
        f"---\n{_yaml(metadata)}---\n"
        f"# {name} expert{f' on {env_id}' if env_id else ''}\n\n"
        f"{stated}"
        f"Converted from {f'`{origin}`, ' if origin else ''}`{found.policy.name}` by "
        "`imitbench experts convert`.\n\n"
        "The policy is `policy.json` (architecture) and `policy.safetensors` (weights); "
        f"neither is a pickle.{folded}\n"
    )


def _shown(published: ReportedReturn) -> str:
    spread = "" if published.std is None else f" +/- {published.std:.2f}"
    return f"{published.mean:.2f}{spread}"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _yaml(document: Any) -> str:
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
