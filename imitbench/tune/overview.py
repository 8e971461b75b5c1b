"""Reads tunings from disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from imitbench.errors import InputError
from imitbench.tune.held_out_comparison import HeldOutComparison
from imitbench.tune.request import StudySettings
from imitbench.tune.storage import StudyLocation
from imitbench.tune.study import Trial, read_trials
from imitbench.tune.study_runner import CONTEST_FILE


@dataclass(frozen=True)
class StudyOverview:
    """A study on disk.

    Attributes:
        name: Name of the tuning.
        settings: Settings of the study.
        trials: All trials so far.
        contest: Result of the last held-out comparison; `None` before the first one.
    """

    name: str
    settings: StudySettings
    trials: Sequence[Trial]
    contest: HeldOutComparison | None


def read_studies(root: Path) -> list[StudyOverview]:
    """Reads the studies of a tuning, sorted by folder.

    Raises:
        InputError: A file is damaged.
    """
    found = []
    for folder in sorted(path.parent for path in root.glob("*/study.json")):
        settings = StudySettings.read(folder)
        assert settings is not None
        address = StudyLocation.within(folder, settings.storage)
        trials = read_trials(address) if Path(address.path).exists() else []
        found.append(StudyOverview(root.name, settings, trials, _contest(folder)))
    return found


def _contest(folder: Path) -> HeldOutComparison | None:
    path = folder / CONTEST_FILE
    try:
        return HeldOutComparison.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        problem = str(error).splitlines()[0]
        raise InputError(f"{path}: damaged ({problem}); delete it and tune again") from error
