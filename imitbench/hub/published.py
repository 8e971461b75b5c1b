"""The return that an expert's repository states for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from imitbench.errors import InputError
from imitbench.hub.content import CARD_FILE, RESULTS_FILE

_FENCE = "---"


def published_return(folder: Path) -> float | None:
    """Mean return by an expert's `results.json`, or else by the metadata of its `README.md`.

    Args:
        folder: Folder with the files of the repository.

    Returns:
        The mean return; `None` where neither states one.

    Raises:
        InputError: `results.json` is there, but states none.
    """
    results = folder / RESULTS_FILE
    if not results.exists():
        return _of_card(folder / CARD_FILE)
    try:
        return float(json.loads(results.read_text(encoding="utf-8"))["mean_reward"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{results}: mean_reward cannot be read ({error!r})") from error


def _of_card(card: Path) -> float | None:
    """The first mean reward of the model index; cards are prose, so anything may be absent."""
    if not card.exists():
        return None
    text = card.read_text(encoding="utf-8", errors="replace")
    _, fence, rest = text.partition(f"{_FENCE}\n")
    try:
        metadata: Any = yaml.safe_load(rest.partition(f"\n{_FENCE}")[0]) if fence else None
        metrics: list[dict[str, Any]] = [
            metric
            for model in metadata["model-index"]
            for result in model["results"]
            for metric in result["metrics"]
        ]
        stated = next(metric["value"] for metric in metrics if metric["type"] == "mean_reward")
        return float(str(stated).split("+/-")[0])  # such as `500.00 +/- 0.00`
    except (yaml.YAMLError, KeyError, TypeError, ValueError, StopIteration):
        return None
