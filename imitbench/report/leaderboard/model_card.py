"""Writes a method's results on a board as the hub's metadata on evaluations of a model card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imitbench.errors import InputError, did_you_mean
from imitbench.hub.publication import TAG
from imitbench.hub.repo_card import RepoCard
from imitbench.report import text
from imitbench.report.html_tables import finite
from imitbench.report.leaderboard.model import Board, OnBoard, methods
from imitbench.report.leaderboard.row_facts import level_text
from imitbench.util.files import atomic_write_text

_SOURCE = "imitbench leaderboard"


def evaluation_results(
    board: Board, method: str, *, suite: str | None = None, address: str | None = None
) -> list[dict[str, Any]]:
    """Returns the entries of `model-index` for a method: one model, a result per environment.

    Args:
        board: The leaderboard.
        method: Name of the method in its runs.
        suite: Suite of the results; `None` for all.
        address: Address of the board, as the source of the numbers.

    Raises:
        InputError: The board has no such method, or no runs of it in the suite.

    Source: https://github.com/huggingface/hub-docs/blob/main/modelcard.md
    """
    from huggingface_hub import EvalResult
    from huggingface_hub.repocard_data import eval_results_to_model_index

    known = methods(board)
    if method not in known:
        raise InputError(f"--algo {method}: {did_you_mean(method, known)}")
    shown = [entry for entry in known[method] if suite in (None, entry.part.section.suite)]
    results = [
        EvalResult(
            task_type="reinforcement-learning",
            task_name=f"{entry.part.title}, {level_text(entry.row)}",
            dataset_type=cell.environment,
            dataset_name=cell.environment,
            dataset_config=entry.part.section.suite,
            source_name=_SOURCE if address else None,
            source_url=address,
            **metric,
        )
        for entry in shown
        for cell in entry.row.result.covered
        for metric in _metrics(entry, cell.environment)
    ]
    if not results:
        raise InputError(f"--suite {suite}: the board has no results of {method} there")
    index: list[dict[str, Any]] = eval_results_to_model_index(method, results)
    return index


def _metrics(entry: OnBoard, env: str) -> list[dict[str, Any]]:
    [cell] = [cell for cell in entry.row.result.cells if cell.environment == env]
    found: list[dict[str, Any]] = []
    if finite(cell.raw_mean) is not None:
        found.append(
            {
                "metric_type": "mean_reward",
                "metric_name": f"mean return ± standard deviation over {cell.runs} runs",
                "metric_value": text.raw_spread(cell).replace("±", "+/-"),
            }
        )
    score = finite(cell.score)
    if score is not None:
        kinds = {row.score_one for row in entry.part.section.references if row.env == env}
        what = f"0 is random and 1 the {text.score_one_owner(kinds)}"
        if kinds == {"success"}:
            what = "the share of successful episodes"
        name = f"mean score; {what}"
        found.append({"metric_type": "score", "metric_name": name, "metric_value": round(score, 4)})
    return found


def write_model_card(path: Path, index: Sequence[dict[str, Any]]) -> None:
    """Puts the results into a model card, which is created if missing.

    Entries of other models, other metadata, and the text of the card stay.

    Raises:
        InputError: The card cannot be read or written, or its metadata is malformed.
    """
    card = RepoCard.read(path) if path.exists() else RepoCard()
    names = {entry["name"] for entry in index}
    present = card.metadata.get("model-index") or []
    if not isinstance(present, list) or not all(isinstance(entry, dict) for entry in present):
        raise InputError(f"{path}: model-index must be a list of models; correct or remove it")
    kept = [entry for entry in present if entry.get("name") not in names]
    card.metadata["model-index"] = [*kept, *index]
    card.add_tags("reinforcement-learning", "imitation-learning", TAG)
    try:
        atomic_write_text(path, card.render())
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
