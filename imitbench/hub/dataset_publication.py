"""Prepares data sets for the hub: demonstrations, preferences, and results of runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from imitbench.data.conversion import ConversionSummary
from imitbench.data.dataset_card import dataset_card, dataset_info
from imitbench.data.inspection import inspect_demonstrations
from imitbench.data.parquet_source import ParquetSource
from imitbench.data.preference_table import read_preferences
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
from imitbench.published.disclosure import own_disclosures
from imitbench.published.results_folder import PATTERNS, export_results, races_of
from imitbench.records.published import PublishedRun, PublishedRuns
from imitbench.store.run_dir import RunDirectory
from imitbench.untrusted import gate
from imitbench.util.files import digest_files
from imitbench.version import __version__

_DATA = "data/train-*.parquet"
# Readers load the whole folder, so files of an earlier push must be removed.
_OWNED_DATA = ("data/*.parquet",)

_POLICY_FILES = ("policy.json", "policy.safetensors")
_FORMAT = """
## Files

- `manifest.json`: table of contents, SHA-256 of the other files, and provenances of runs (command,
  commit, versions, processor), by the name that lines refer to.
- `runs/<suite>.jsonl`: a line per completed run with `spec` (everything that determines its
  numbers; `run_id` is the start of its `spec_digest`) and `result` (returns, and the references
  that map to the scores 0 and 1).
- `failures/<suite>.jsonl`: a line per failed run.
- `episodes/<suite>/<run_id>.csv`: each evaluation episode of a run.
{curves}{rewards}{races}{policies}
`imitbench results pull {repo} --out DIR` checks all files and writes run directories, which
`imitbench report --out DIR` reads.
"""
_CURVES = "- `curves/<suite>/<run_id>.csv`: the main metric of a run during training.\n"
_REWARDS = "- `reward_scores/<suite>.jsonl`: what learned rewards are worth, a line per run.\n"
_RACES = "- `races/<id>.json`: a design that was registered before its first run.\n"
_POLICIES = "- `policies/<run_id>/`: the policy of a run.\n"


def _data_files(folder: Path) -> tuple[dict[str, Path], list[Path], list[str]]:
    """Returns the files to publish by path in the repository, the data among them, and the rest."""
    files, rest = choose_files(folder, [_DATA, "LICENSE", CARD_FILE])
    return files, [path for name, path in files.items() if name.startswith("data/")], rest


@contextmanager
def staged_demos(
    folder: Path, repo: str, *, env_id: str | None = None, license: str | None = None
) -> Iterator[Publication]:
    """Prepares the content of a repository of demonstrations, without changing the folder.

    Validates every row first. Infos are copied as JSON text.

    Args:
        folder: Folder with `data/train-*.parquet`.
        repo: Name of the repository, `owner/name`.
        env_id: Gymnasium id for the card, if there is no card yet.
        license: The hub's identifier of a license; that on the card when `None`.

    Yields:
        The publication, whose files exist only within the context.

    Raises:
        InputError: There are no such files, a row is invalid, or a file is a link.
    """
    files, data, rest = _data_files(folder)
    if not data:
        raise InputError(
            f"{folder}: has no files {_DATA}; convert the demonstrations with `imitbench demos "
            f"convert {folder} OUT`"
        )
    gate.try_reading(lambda: inspect_demonstrations(ParquetSource(folder)), folder)
    source = ParquetSource(folder)
    found = inspect_demonstrations(source)
    if found.problems:
        more = f" (and {len(found.problems) - 1} more problems)" if found.problems[1:] else ""
        raise InputError(
            f"{folder}: {found.problems[0]}{more}; `imitbench demos validate {folder}` shows all"
        )
    notes = [*left_out_note(rest), *found.notes]
    written = files.get(CARD_FILE)
    card = RepoCard.read(written) if written else _new_card(folder, source, data, env_id)
    card.metadata["dataset_info"] = dataset_info(data)
    card.metadata.setdefault("configs", [{"config_name": "default", "data_files": _DATA}])
    card.metadata.setdefault("task_categories", ["reinforcement-learning"])
    card.add_tags("imitation-learning", TAG)
    add_license(card, license, notes)
    content = f"{found.rows} demonstrations"
    with staged("dataset", repo, content, files, card, notes, _OWNED_DATA) as publication:
        yield publication


def _new_card(
    folder: Path, source: ParquetSource, data: list[Path], env_id: str | None
) -> RepoCard:
    summary = ConversionSummary(folder.resolve().name, source.form, env_id)
    for chunk in source.chunks(with_infos=False):
        for row in chunk.rows:
            summary.add(row, source.where)
    summary.digest = digest_files(folder, data)
    return RepoCard.parse(dataset_card(summary.to_json()))


@contextmanager
def staged_preferences(
    folder: Path, repo: str, *, license: str | None = None
) -> Iterator[Publication]:
    """Prepares the content of a repository of preferences, without changing the folder.

    Validates every row first. Arguments, files and errors are as for `staged_demos`, but the
    folder is that of an export by `imitbench label export`, with its card.
    """
    files, data, rest = _data_files(folder)
    if not data or CARD_FILE not in files:
        raise InputError(
            f"{folder}: has no {_DATA} with {CARD_FILE}; write them with imitbench label export"
        )
    rows = gate.checked(lambda: [row for path in data for row in read_preferences(path)], folder)
    notes = left_out_note(rest)
    named = {answer.annotator for row in rows for answer in row.answers}
    if any(not name.startswith("annotator") for name in named):
        notes.append("has names of annotators: personal data; export without --names")
    card = RepoCard.read(files[CARD_FILE])
    card.metadata["dataset_info"] = dataset_info(data)
    card.add_tags("preferences", TAG)
    add_license(card, license, notes)
    content = f"{len(rows)} preferences"
    with staged("dataset", repo, content, files, card, notes, _OWNED_DATA) as publication:
        yield publication


@contextmanager
def staged_results(
    out: Path,
    runs: PublishedRuns,
    repo: str,
    *,
    report: str,
    command: str,
    license: str | None = None,
    with_policies: bool = False,
    with_curves: bool = True,
) -> Iterator[Publication]:
    """Prepares the content of a repository of results.

    Args:
        out: Results folder.
        runs: Result of `read_runs` on that folder.
        repo: Name of the repository, `owner/name`.
        report: Markdown report on these runs, for the card.
        command: Command line to record.
        license: The hub's identifier of a license.
        with_policies: Whether to publish the policies as well.
        with_curves: Whether to publish the learning curves as well.

    Yields:
        The publication, whose files exist only within the context.

    Raises:
        InputError: There are no finished runs, or a policy is missing or a link.
    """
    if not runs.runs:
        raise InputError(f"--out {out}: no finished runs to publish")
    notes = runs.left_out
    card = RepoCard({"tags": [TAG, "imitation-learning", "benchmark-results"], "viewer": False})
    add_license(card, license, notes)
    races = races_of(out, runs.runs)
    has_curves = with_curves and any(run.curve is not None for run in runs.runs)
    about = _FORMAT.format(
        repo=repo,
        policies=_POLICIES if with_policies else "",
        races=_RACES if races else "",
        curves=_CURVES if has_curves else "",
        rewards=_REWARDS if any(run.rewards is not None for run in runs.runs) else "",
    )
    card.text = f"{report.strip()}\n{about}"
    with tempfile.TemporaryDirectory(prefix="imitbench-push-") as scratch:
        folder = Path(scratch) / "results"
        export_results(
            runs.runs,
            folder,
            version=__version__,
            command=command,
            races=races,
            curves=with_curves,
            disclosures=own_disclosures(out, runs.runs),
        )
        files, _ = choose_files(folder, PATTERNS)
        if with_policies:
            files |= _policies(out, runs.runs)
        count = len(runs.runs)
        content = f"Results of {count} run{'s' * (count > 1)}"
        owned = (*PATTERNS, "policies/*/*")
        with staged("dataset", repo, content, files, card, notes, owned) as publication:
            yield publication


def _policies(out: Path, runs: Sequence[PublishedRun]) -> dict[str, Path]:
    files = {}
    for run in runs:
        if run.result is None:
            continue
        folder = RunDirectory.of(out, run.spec).policy
        chosen, _ = choose_files(folder, _POLICY_FILES)
        for name in _POLICY_FILES:
            if name not in chosen:
                raise InputError(f"{folder / name}: no such file; push without --with-policies")
            files[f"policies/{run.spec.run_id}/{name}"] = chosen[name]
    return files
