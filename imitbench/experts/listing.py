"""Lists the experts of suites: what their training took, and how they act."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from imitbench.bench.artifacts import locate_artifact
from imitbench.cards.suite import SuiteCard
from imitbench.errors import InputError
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text
from imitbench.util.text_line import one_line

_TRAINING_FILE = "training.json"
_HOUR_S = 3600


class ExpertTraining(BaseModel):
    """What an expert's training was: `training.json` in its folder.

    Attributes:
        command: Command line that trained it.
        imitbench: Version of this package.
        env_steps: Environment steps that were taken.
        wall_s: Seconds of training, over all attempts.
        curve: Points of the learning curve, each with `env_steps` and `mean_return`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str
    imitbench: str
    env_steps: int
    wall_s: float
    curve: list[dict[str, int | float]]

    def write(self, folder: Path) -> None:
        """Writes the file."""
        text = json.dumps(self.model_dump(mode="json"), indent=1)
        atomic_write_text(folder / _TRAINING_FILE, text + "\n")

    @classmethod
    def read(cls, folder: Path) -> ExpertTraining | None:
        """Reads the file of an expert; `None` if there is none.

        Raises:
            InputError: The file is malformed.
        """
        path = folder / _TRAINING_FILE
        try:
            return cls.model_validate_json(read_content(path))
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise InputError(f"{path}: is malformed ({one_line(error)})") from error


@dataclass(frozen=True)
class ListedExpert:
    """An expert of a suite, with its cost and its measured returns.

    Attributes:
        suite: Name of the suite.
        env: Environment id.
        repo: Folder of the expert.
        env_steps: Environment steps of its training.
        core_hours: Hours of its training on one core; `None` if its folder does not tell.
        mean_return: Mean return of its sampled actions.
        std_return: Standard deviation of that over episodes.
        likely_return: Mean return of its most likely actions.
        termination_rate: Share of the episodes with most likely actions that ended before the time
            limit.
        mean_length: Mean number of steps of these.
        episodes: Number of episodes of each measurement.
        command: Command that trained it.
    """

    suite: str
    env: str
    repo: str
    env_steps: int
    core_hours: float | None
    mean_return: float | None
    std_return: float | None
    likely_return: float | None
    termination_rate: float | None
    mean_length: float | None
    episodes: int | None
    command: str | None

    def as_document(self) -> dict[str, Any]:
        """Returns the entry as a JSON object."""
        return asdict(self)


def list_experts(suite: SuiteCard) -> Iterator[ListedExpert]:
    """Yields the experts of a suite, in the order of its card.

    Raises:
        InputError: A file about an expert's training is malformed.
    """
    for env_id, card in suite.environments.items():
        if card.expert is None:
            continue
        measured = card.references
        sampled = measured.expert if measured else None
        likely = measured.expert_likely if measured else None
        location = locate_artifact(suite.origin.folder, "experts", "bundled", card, suite.name)
        training = ExpertTraining.read(location.folder)
        yield ListedExpert(
            suite=suite.name,
            env=env_id,
            repo=card.expert.repo,
            env_steps=card.expert.env_steps,
            core_hours=round(training.wall_s / _HOUR_S, 2) if training else None,
            mean_return=sampled.mean if sampled else None,
            std_return=sampled.std if sampled else None,
            likely_return=likely.mean if likely else None,
            termination_rate=likely.termination_rate if likely else None,
            mean_length=likely.mean_length if likely else None,
            episodes=sampled.episodes if sampled else None,
            command=training.command if training else None,
        )
