"""Reads the return that an expert's files state, and the metadata on its card."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from imitbench.errors import InputError
from imitbench.hub.repo_card import CARD_FILE, RepoCard
from imitbench.untrusted.files import read_bounded
from imitbench.util.parse_errors import BAD_YAML_VALUES

RESULTS_FILE = "results.json"
_MAX_BYTES = 2**20
_MOST_EPISODES = 10**9
_MOST_ITEMS = 100  # of a list on a card; with YAML aliases, a short one may have billions
_NUMBER = r"[-+]?[\d.]+(?:[eE][-+]?\d+)?"
# For example `500.00 +/- 0.00`.
_VALUE = re.compile(rf"\s*({_NUMBER})\s*(?:(?:\+/-|±)\s*({_NUMBER})\s*)?")


@dataclass(frozen=True)
class ReportedReturn:
    """The return that the publisher of an expert states.

    Attributes:
        mean: Mean undiscounted return.
        std: Standard deviation over episodes; `None` if not stated, also below.
        episodes: Number of episodes.
        deterministic: Whether the deterministic policy was evaluated.
        source: Name of the file with these results.
    """

    mean: float
    std: float | None
    episodes: int | None
    deterministic: bool | None
    source: str


def read_reported_return(folder: Path) -> ReportedReturn | None:
    """Reads `results.json` or, without it, the model index of `README.md`; `None` without results.

    Raises:
        InputError: `results.json` states no mean return, or is too large.
    """
    path = folder / RESULTS_FILE
    if not path.exists():
        return _of_card(folder)
    content = read_bounded(path, _MAX_BYTES, follow_link=True)
    try:
        document = json.loads(content.decode())
        mean = float(document["mean_reward"])
        if not math.isfinite(mean):
            raise ValueError(f"{mean} is not finite")
        return ReportedReturn(
            mean=mean,
            std=_number(document.get("std_reward")),
            episodes=_count(document.get("n_eval_episodes")),
            deterministic=_flag(document.get("is_deterministic")),
            source=RESULTS_FILE,
        )
    except (*BAD_YAML_VALUES, RecursionError) as error:
        problem = " ".join(repr(error).split())[:120]
        raise InputError(f"{path}: mean_reward cannot be read ({problem})") from error


def read_card_metadata(folder: Path) -> dict[str, Any]:
    """Reads the metadata of `README.md`; empty if missing or unreadable."""
    try:
        # Files in the hub's cache are links.
        content = read_bounded(folder / CARD_FILE, _MAX_BYTES, follow_link=True)
        text = content.decode(errors="replace")
        return RepoCard.parse(text.replace("\r\n", "\n")).metadata
    except InputError:
        return {}


def _of_card(folder: Path) -> ReportedReturn | None:
    """Returns the first mean reward of the model index, if any; cards may have any content."""
    try:
        metrics: list[dict[str, Any]] = [
            metric
            for model in islice(read_card_metadata(folder)["model-index"], _MOST_ITEMS)
            for result in islice(model["results"], _MOST_ITEMS)
            for metric in islice(result["metrics"], _MOST_ITEMS)
        ]
        stated = next(metric["value"] for metric in metrics if metric["type"] == "mean_reward")
        if not isinstance(stated, str | int | float):
            return None
        match = _VALUE.fullmatch(str(stated))
        mean = float(match[1]) if match else math.nan
        if match is None or not math.isfinite(mean):
            return None
        std = _number(float(match[2])) if match[2] else None
        return ReportedReturn(mean, std, None, None, CARD_FILE)
    except (LookupError, TypeError, ValueError, StopIteration):
        return None


def reported_environment(folder: Path) -> str | None:
    """Returns the environment that the model index of `README.md` names; `None` without one."""
    try:
        named = next(
            result["dataset"]["name"]
            for model in islice(read_card_metadata(folder)["model-index"], _MOST_ITEMS)
            for result in islice(model["results"], _MOST_ITEMS)
        )
    except (LookupError, TypeError, StopIteration):
        return None
    return named if isinstance(named, str) else None


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 < value <= _MOST_EPISODES else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
