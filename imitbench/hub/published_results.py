"""What the files of an expert state about its return, and the metadata on its card."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitbench.errors import InputError
from imitbench.hub.card import CARD_FILE, Card

RESULTS_FILE = "results.json"
_NUMBER = r"[-+]?[\d.]+(?:[eE][-+]?\d+)?"
# Such as `500.00 +/- 0.00`.
_VALUE = re.compile(rf"\s*({_NUMBER})\s*(?:(?:\+/-|±)\s*({_NUMBER})\s*)?")


@dataclass(frozen=True)
class PublishedResults:
    """The return that an expert's maker measured.

    Attributes:
        mean: Mean return.
        std: Standard deviation over episodes; `None` where it is not stated, as for the rest.
        episodes: How many episodes.
        deterministic: Whether the policy took its most likely actions.
        source: Name of the file that says so.
    """

    mean: float
    std: float | None
    episodes: int | None
    deterministic: bool | None
    source: str


def read_published_results(folder: Path) -> PublishedResults | None:
    """Reads `results.json`, or else the model index of `README.md`.

    Args:
        folder: Folder with the files of the expert.

    Returns:
        The results; `None` where neither file states any.

    Raises:
        InputError: `results.json` is there, but states no mean return.
    """
    path = folder / RESULTS_FILE
    if not path.exists():
        return _of_card(folder)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        mean = float(document["mean_reward"])
        if not math.isfinite(mean):
            raise ValueError(f"{mean} is no return")
        return PublishedResults(
            mean=mean,
            std=_number(document.get("std_reward")),
            episodes=_count(document.get("n_eval_episodes")),
            deterministic=_flag(document.get("is_deterministic")),
            source=RESULTS_FILE,
        )
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = " ".join(repr(error).split())[:120]
        raise InputError(f"{path}: mean_reward cannot be read ({problem})") from error


def read_card_metadata(folder: Path) -> dict[str, Any]:
    """The metadata at the head of `README.md`; empty where there is none that can be read."""
    try:
        text = (folder / CARD_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    try:
        return Card.parse(text.replace("\r\n", "\n")).metadata
    except InputError:
        return {}


def _of_card(folder: Path) -> PublishedResults | None:
    """The first mean reward of the model index; cards are prose, so anything may be absent."""
    try:
        metrics: list[dict[str, Any]] = [
            metric
            for model in read_card_metadata(folder)["model-index"]
            for result in model["results"]
            for metric in result["metrics"]
        ]
        stated = next(metric["value"] for metric in metrics if metric["type"] == "mean_reward")
        match = _VALUE.fullmatch(str(stated))
        if match is None:
            return None
        std = float(match[2]) if match[2] else None
        return PublishedResults(float(match[1]), std, None, None, CARD_FILE)
    except (KeyError, TypeError, ValueError, StopIteration):
        return None


def _number(value: Any) -> float | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain and math.isfinite(value) and value >= 0 else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
