"""Prepares a repository of results from run directories."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from imitbench.errors import InputError
from imitbench.hub.publication import TAG, Publication, add_licence, choose_files
from imitbench.hub.repo_card import CARD_FILE, RepoCard
from imitbench.published.results_folder import PATTERNS, export_results, races_of
from imitbench.records.published import PublishedRun, PublishedRuns
from imitbench.store.run_dir import RunDirectory
from imitbench.version import __version__

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
{curves}{races}{policies}
`imitbench results pull {repo} --out DIR` checks all files and writes run directories, which
`imitbench report --out DIR` reads.
"""
_CURVES = "- `curves/<suite>/<run_id>.csv`: the main metric of a run during training.\n"
_RACES = "- `races/<id>.json`: a design that was registered before its first run.\n"
_POLICIES = "- `policies/<run_id>/`: the policy of a run.\n"


@contextmanager
def staged_results(
    out: Path,
    runs: PublishedRuns,
    repo: str,
    *,
    report: str,
    command: str,
    licence: str | None = None,
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
        licence: The hub's identifier of a licence.
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
    add_licence(card, licence, notes)
    races = races_of(out, runs.runs)
    has_curves = with_curves and any(run.curve is not None for run in runs.runs)
    about = _FORMAT.format(
        repo=repo,
        policies=_POLICIES if with_policies else "",
        races=_RACES if races else "",
        curves=_CURVES if has_curves else "",
    )
    card.text = f"{report.strip()}\n{about}"
    with tempfile.TemporaryDirectory(prefix="imitbench-push-") as scratch:
        stage = Path(scratch)
        export_results(
            runs.runs,
            stage,
            version=__version__,
            command=command,
            races=races,
            curves=with_curves,
        )
        (stage / CARD_FILE).write_text(card.render(), encoding="utf-8")
        files, _ = choose_files(stage, [*PATTERNS, CARD_FILE])
        if with_policies:
            files |= _policies(out, runs.runs)
        count = len(runs.runs)
        yield Publication(
            kind="dataset",
            repo=repo,
            message=f"Results of {count} run{'s' * (count > 1)}, by imitbench {__version__}",
            files=files,
            owned=(*PATTERNS, "policies/*/*"),
            card=card,
            notes=notes,
        )


def _policies(out: Path, runs: list[PublishedRun]) -> dict[str, Path]:
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
