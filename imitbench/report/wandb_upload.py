"""Sends curves to Weights & Biases: of a running training, and of finished runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitbench.errors import InputError
from imitbench.report.curve_source import LoggedCurve, read_curves
from imitbench.util.extras import import_extra
from imitbench.util.files import atomic_write_text
from imitbench.util.hub_errors import Notify
from imitbench.util.name_lists import Names
from imitbench.util.text_line import one_line

RECORD_FILE = ".wandb.json"
"""File in a results folder that lists the uploaded runs, by project."""


@dataclass(frozen=True)
class UploadSummary:
    """Numbers of runs in an upload, by outcome.

    Attributes:
        uploaded: Runs that this upload sent.
        present: Runs that were uploaded before.
        unfinished: Runs that are not complete, which are skipped.
        offline: Whether W&B stored them in a local folder instead.
    """

    uploaded: int
    present: int
    unfinished: int
    offline: bool


def start_wandb_run(
    project: str, name: str, config: Mapping[str, Any], folder: Path, **options: Any
) -> Any:
    """Starts a W&B run, in the mode of WANDB_MODE.

    Args:
        project: Name of the W&B project.
        name: Display name of the run.
        config: Settings of the run.
        folder: Parent of W&B's folder, `<folder>/wandb`.
        **options: Further arguments of `wandb.init`.

    Raises:
        InputError: The package is not installed, or W&B reports an error.
    """
    wandb = import_extra("wandb", "wandb", "sending curves to W&B")
    folder.mkdir(parents=True, exist_ok=True)
    quiet = wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True)
    try:
        return wandb.init(
            project=project,
            name=name,
            config=dict(config),
            dir=str(folder),
            settings=quiet,
            **options,
        )
    except Exception as error:  # the class hierarchy of errors differs between versions
        raise InputError(
            f"W&B: {one_line(str(error))[:200]}; `wandb login` first, or set WANDB_MODE=offline"
        ) from error


def upload_runs(
    out: Path,
    project: str,
    *,
    notify: Notify,
    entity: str | None = None,
    suite: Names = None,
    folder: Path = Path(),
    again: bool = False,
) -> UploadSummary:
    """Uploads finished runs: specification, learning curve and result.

    Each gets the id of the run, its suite and environment as group, and its algorithm as type.
    The results folder records uploaded runs, so that the next upload sends only new runs.

    Args:
        out: Results folder.
        project: Name of the W&B project.
        notify: Called with messages about runs that cannot be read.
        entity: User or team; W&B's default when `None`.
        suite: Suites to upload; `None` for all.
        folder: Parent of W&B's folder, `<folder>/wandb`.
        again: Whether to upload runs that were uploaded before.

    Raises:
        InputError: There are no results, or W&B reports an error.
    """
    import_extra("wandb", "wandb", "sending curves to W&B")  # checked before reading results
    place = f"{entity or ''}/{project}"
    known = _read_known(out)
    done = set(known.get(place, []))
    counts = {"uploaded": 0, "present": 0, "unfinished": 0}
    offline = False
    for curve in read_curves(out, notify=notify, suite=suite):
        run_id = curve.spec.run_id
        if curve.result is None:
            counts["unfinished"] += 1
        elif run_id in done and not again:
            counts["present"] += 1
        else:
            offline = _upload(curve, project, entity, folder)
            counts["uploaded"] += 1
            done.add(run_id)
            known[place] = sorted(done)
            atomic_write_text(out / RECORD_FILE, json.dumps(known, indent=1) + "\n")
    return UploadSummary(**counts, offline=offline)


def _upload(curve: LoggedCurve, project: str, entity: str | None, folder: Path) -> bool:
    spec = curve.spec
    run = start_wandb_run(
        project,
        spec.label,
        spec.model_dump(mode="json"),
        folder,
        entity=entity,
        id=spec.run_id,
        group=f"{spec.suite}/{spec.environment.id}",
        job_type=spec.algo_label,
        reinit="finish_previous",
    )
    for point in curve.points:
        metrics = {name: value for name, value in point.items() if name != "step"}
        run.log(metrics, step=int(point["step"]))
    run.summary.update(curve.outcome)
    offline = bool(run.offline)
    run.finish()
    return offline


def _read_known(out: Path) -> dict[str, list[str]]:
    path = out / RECORD_FILE
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); delete it") from error
    return found if isinstance(found, dict) else {}
