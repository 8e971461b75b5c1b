"""Prepares an expert's repository: pickle-free files, a card, and a zip for other libraries."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from imitbench.errors import InputError
from imitbench.hub.publication import (
    TAG,
    Publication,
    add_license,
    choose_files,
    left_out_note,
    staged,
)
from imitbench.hub.repo_card import CARD_FILE, RepoCard
from imitbench.hub.reported_results import ReportedReturn, read_reported_return
from imitbench.policies import storage
from imitbench.policies.expert import algorithm_name
from imitbench.policies.expert_folder import ExpertFolder, open_expert_folder
from imitbench.policies.hub_policy import STATISTICS_FILE, archive_name
from imitbench.policies.sb3_export import Sb3ExportResult, export_sb3_zip
from imitbench.policies.sb3_zip import read_sb3_zip
from imitbench.untrusted import gate
from imitbench.util.text_line import one_line
from imitbench.version import __version__

_POLICY_FILES = (storage.DESCRIPTION_FILE, storage.WEIGHTS_FILE)
_PAPERS = (
    "config.yml", "args.yml", "env_kwargs.yml", "results.json", "training.json", "replay.mp4",
    "LICENSE", CARD_FILE,
)  # fmt: skip
_POLICY_PATTERNS = (*_POLICY_FILES, *(f"policy/{name}" for name in _POLICY_FILES))
_ALGORITHMS = ("ppo", "a2c", "sac", "td3", "dqn")
_SECTION = "With Stable-Baselines3"
_ADDRESS = re.compile(rb" at 0x[0-9a-f]+>")
_NO_TIME = (1980, 1, 1, 0, 0, 0)


@contextmanager
def staged_expert(
    folder: Path, repo: str, *, env_id: str | None = None, license: str | None = None
) -> Iterator[Publication]:
    """Prepares the content of an expert's repository, without changing the folder.

    Includes `<name>.zip` for Stable-Baselines3 if the policy can be exported; otherwise a note
    explains why not.

    Args:
        folder: Folder with a policy in this library's format.
        repo: Name of the repository, `owner/name`.
        env_id: Environment of the expert, if its files do not state it.
        license: The hub's identifier of a license; that on the card when `None`.

    Yields:
        The publication, whose files exist only within the context.

    Raises:
        InputError: The policy is missing, a file is damaged, or a file is a link.
    """
    # Rejects links before reading through them.
    chosen, rest = (
        choose_files(folder, [*_PAPERS, *_POLICY_PATTERNS]) if folder.is_dir() else ({}, [])
    )
    found = open_expert_folder(folder)
    if found.is_zip:
        raise InputError(
            f"{found.policy}: a zip with pickles cannot be pushed; convert it with `imitbench "
            f"experts convert {folder} OUT`"
        )
    if found.kind != "own":
        raise InputError(
            f"{found.policy}: is a policy of the format {found.kind}; only those in this library's "
            "format can be pushed"
        )
    files = _at_the_top(chosen, found)
    policy = gate.checked(lambda: storage.load_policy(found.policy), folder)
    remade = {archive_name(repo), f"{folder.resolve().name}.zip", STATISTICS_FILE}
    notes = left_out_note(name for name in rest if name not in remade)
    with tempfile.TemporaryDirectory(prefix="imitbench-push-") as scratch:
        stage = Path(scratch)
        section = None
        try:
            exported = _export(policy, stage / archive_name(repo), found)
        except (ValueError, TypeError, LookupError, RuntimeError) as error:
            notes.append(f"no zip for Stable-Baselines3: {one_line(error)}")
        else:
            files |= {path.name: path for path in exported.files}
            section = _section(repo, exported)
        card = _card(found, files.get(CARD_FILE), env_id, read_reported_return(folder), notes)
        add_license(card, license, notes)
        card.set_section(_SECTION, section)
        owned = (*_POLICY_PATTERNS, archive_name(repo), STATISTICS_FILE)
        with staged("model", repo, "Expert", files, card, notes, owned) as publication:
            yield publication


def _at_the_top(chosen: dict[str, Path], found: ExpertFolder) -> dict[str, Path]:
    """Returns the files to publish; moves a policy from its subfolder to the top."""
    files = {name: path for name, path in chosen.items() if name in _PAPERS}
    for name in _POLICY_FILES:
        path = found.policy / name
        if path not in chosen.values():
            raise InputError(f"{path}: no such file")
        files[name] = path
    return files


def _export(policy: Any, path: Path, found: ExpertFolder) -> Sb3ExportResult:
    stated = found.config.get("algo")
    algorithm = stated if stated in _ALGORITHMS else None
    exported = export_sb3_zip(policy, path, algorithm=algorithm)
    _make_repeatable(path)
    return exported


def _make_repeatable(path: Path) -> None:
    """Removes times and addresses, so that equal policies give equal zips, uploaded only once."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["data"] = _ADDRESS.sub(b" at 0x0>", members["data"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, _NO_TIME), content)


def _section(repo: str, exported: Sb3ExportResult) -> str:
    archive, *statistics = exported.files
    name = algorithm_name(read_sb3_zip(archive)) or "ppo"
    cls = name.upper()
    load = ""
    if statistics:
        load = (
            f'statistics = hf_hub_download("{repo}", "{STATISTICS_FILE}")\n'
            "venv = VecNormalize.load(statistics, venv)\nvenv.training = False\n"
        )
    lines = [
        f"`{archive.name}` is the same policy for `{cls}.load` of Stable-Baselines3 and of "
        "libraries that build on it"
        + (
            f"; it expects observations that `{STATISTICS_FILE}` has normalized. Both are"
            if statistics
            else ". It is"
        )
        + f" made from the files above by imitbench {__version__}, and, as is usual for "
        "Stable-Baselines3, read by unpickling.",
        "```python\nfrom huggingface_hub import hf_hub_download\n"
        f"from stable_baselines3 import {cls}\n"
        + ("from stable_baselines3.common.vec_env import VecNormalize\n" if statistics else "")
        + f'\nmodel = {cls}.load(hf_hub_download("{repo}", "{archive.name}"))\n{load}```',
        "What does not come back with it:\n\n"
        + "\n".join(f"- {missing}" for missing in exported.missing),
    ]
    return "\n\n".join(lines)


def _card(
    found: ExpertFolder,
    written: Path | None,
    env_id: str | None,
    results: ReportedReturn | None,
    notes: list[str],
) -> RepoCard:
    """The expert's card, completed with the metadata that the hub uses."""
    name = str(found.config.get("algo") or found.name).upper()
    env_id = env_id or found.env_id
    card = RepoCard.read(written) if written else RepoCard()
    card.metadata.setdefault("library_name", "imitbench")
    card.add_tags(*([env_id] if env_id else []), "reinforcement-learning", TAG)
    if not card.text.strip():
        card.text = (
            f"# {name} expert{f' on {env_id}' if env_id else ''}\n\n"
            "The policy is `policy.json` (architecture) and `policy.safetensors` (weights); "
            "neither is a pickle.\n"
        )
    if "model-index" in card.metadata:
        return card
    if results is None or env_id is None:
        what = "no results.json" if results is None else "its environment is unknown; give --env"
        notes.append(f"the card states no mean reward: {what}")
        return card
    card.metadata["model-index"] = _model_index(name, env_id, results)
    return card


def _model_index(name: str, env_id: str, results: ReportedReturn) -> list[dict[str, Any]]:
    """Returns a mean return in the hub's `model-index` format."""
    from huggingface_hub.repocard_data import EvalResult, eval_results_to_model_index

    spread = "" if results.std is None else f" +/- {results.std:.2f}"
    result = EvalResult(
        task_type="reinforcement-learning",
        dataset_type=env_id,
        dataset_name=env_id,
        metric_type="mean_reward",
        metric_value=f"{results.mean:.2f}{spread}",
        metric_name="mean_reward",
    )
    return eval_results_to_model_index(name, [result])
