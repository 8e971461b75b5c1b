"""Finds the files of an expert in a folder, from a hub or a training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from imitbench.errors import InputError
from imitbench.policies.hub_policy import (
    STATISTICS_FILE,
    lerobot_policy_folder,
    own_policy_folder,
)
from imitbench.untrusted.files import read_text, require_ordinary
from imitbench.untrusted.yaml_text import BoundedLoader, load_yaml
from imitbench.util.parse_errors import UNREADABLE_YAML

_OTHER_ZIPS = {"train_eval_metrics.zip"}
_USUAL_ZIPS = ("model.zip", "final_model.zip", "best_model.zip")
_STATISTICS_FILES = (STATISTICS_FILE, "vecnormalize.pkl")
_TIME_FEATURE = "TimeFeatureWrapper"


PolicyKind = Literal["own", "zip", "lerobot", "robomimic", "onnx"]
"""Formats of policies: a folder of this library (or of another program, in its description), a zip
of Stable-Baselines3, a folder of LeRobot, a checkpoint of robomimic, or an ONNX program."""

KINDS_OF_FILES: dict[str, PolicyKind] = {".zip": "zip", ".onnx": "onnx", ".pth": "robomimic"}
"""Formats of policies in single files, by how their names end."""


@dataclass(frozen=True)
class ExpertFolder:
    """Files of an expert.

    Attributes:
        folder: Folder with all files.
        policy: Folder or file of the policy.
        kind: Its format.
        statistics: `VecNormalize` statistics for a zip; `None` if there are none.
        config: Settings of the training (`config.yml`).
        arguments: Arguments of the training (`args.yml`).
        env_kwargs: Arguments of the environment (`env_kwargs.yml`).
    """

    folder: Path
    policy: Path
    kind: PolicyKind = "own"
    statistics: Path | None = None
    config: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    env_kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def is_zip(self) -> bool:
        """Whether the policy is a zip of Stable-Baselines3."""
        return self.kind == "zip"

    @property
    def name(self) -> str:
        """Display name of the expert, such as `ppo-Pendulum-v1`."""
        usual = self.policy.name in _USUAL_ZIPS
        is_file = self.policy.is_file()
        return self.policy.stem if is_file and not usual else self.folder.resolve().name

    @property
    def env_id(self) -> str | None:
        """Id of the environment that it was trained on; `None` if no file states it."""
        found = self.arguments.get("env")
        return found if isinstance(found, str) else None

    @property
    def time_feature(self) -> dict[str, Any] | None:
        """Arguments of the `TimeFeatureWrapper` it was trained with; `None` without one."""
        wrappers = self.config.get("env_wrapper")
        for wrapper in wrappers if isinstance(wrappers, list) else [wrappers]:
            if isinstance(wrapper, str) and wrapper.endswith(_TIME_FEATURE):
                return {}
            if isinstance(wrapper, dict):
                for name, kwargs in wrapper.items():
                    if str(name).endswith(_TIME_FEATURE):
                        return kwargs if isinstance(kwargs, dict) else {}
        return None


def open_expert_folder(path: Path) -> ExpertFolder:
    """Finds an expert's files.

    Args:
        path: A zip of Stable-Baselines3, a checkpoint of robomimic (`.pth`), an ONNX program
            (`.onnx`), or a folder with a zip, with a policy in this library's format, or with one
            of LeRobot.

    Raises:
        InputError: There is no policy, or several without a usual name; or a settings file is
            damaged.
    """
    policy = _find_policy(path)
    kind = _kind_of(policy)
    folder = policy.parent if policy.is_file() or policy != path else path
    return ExpertFolder(
        folder=folder,
        policy=policy,
        kind=kind,
        statistics=_find_statistics(policy) if kind == "zip" else None,
        config=_settings(folder / "config.yml"),
        arguments=_settings(folder / "args.yml"),
        env_kwargs=_settings(folder / "env_kwargs.yml"),
    )


def _kind_of(policy: Path) -> PolicyKind:
    if policy.is_file():
        return KINDS_OF_FILES.get(policy.suffix.lower(), "zip")
    return "own" if own_policy_folder(policy) == policy else "lerobot"


def _find_policy(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder")
    if own := own_policy_folder(path):
        return own
    zips = {file.name: file for file in sorted(path.glob("*.zip")) if file.name not in _OTHER_ZIPS}
    for name in (f"{path.resolve().name}.zip", *_USUAL_ZIPS):
        if name in zips:
            return zips[name]
    if len(zips) == 1:
        return next(iter(zips.values()))
    if zips:
        raise InputError(f"{path}: several policies: {', '.join(zips)}; name one of them")
    if lerobot := lerobot_policy_folder(path):
        return lerobot
    raise InputError(
        f"{path}: no policy found: needs policy.json, a zip, or config.json of LeRobot"
    )


def _find_statistics(policy: Path) -> Path | None:
    """Finds statistics next to the zip, or in a folder named after it, as RL Zoo stores them."""
    candidates = [policy.parent / name for name in _STATISTICS_FILES]
    candidates.append(policy.parent / policy.stem / _STATISTICS_FILES[1])
    return next((file for file in candidates if file.is_file()), None)


def _settings(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    require_ordinary(path, inside=path.parent)
    return read_tagless_mapping(path)


class _PlainLoader(BoundedLoader):
    """Reads values with tags for Python objects as the plain values without the tag."""

    def plain(self, _suffix: str, node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_sequence(node, deep=True)
        return self.construct_scalar(node)  # type: ignore[arg-type]


_PlainLoader.add_multi_constructor("", _PlainLoader.plain)


def read_tagless_mapping(path: Path) -> dict[str, Any]:
    """Reads a file with a mapping, such as `args.yml` and `config.yml` of RL Zoo.

    Tags are ignored, so that no objects are built. A tagged `OrderedDict`, which is stored as a
    list with a list of pairs, is read as a mapping.

    Args:
        path: YAML file.

    Returns:
        The mapping; empty if the file is empty.

    Raises:
        InputError: The file cannot be read, is not YAML, or does not contain a mapping.
    """
    text = read_text(path)
    try:
        _, document = load_yaml(text, _PlainLoader)
    except UNREADABLE_YAML as error:
        problem = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: not readable YAML ({problem})") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        document = _from_pairs(document)
    if document is None:
        raise InputError(f"{path}: must be a mapping of names to values")
    return {str(key): value for key, value in document.items()}


def _from_pairs(document: Any) -> dict[Any, Any] | None:
    """Converts the arguments of an `OrderedDict` to a mapping; `None` for other values."""
    pairs = document[0] if isinstance(document, list) and len(document) == 1 else None
    if not isinstance(pairs, list):
        return None
    if not all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
        return None
    return {key: value for key, value in pairs}  # noqa: C416 (pairs are lists, as mypy sees it)
