"""`imitbench rewards`: measures what learned rewards are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import options
from imitbench.cli.options import option
from imitbench.cli.output import (
    Column,
    count,
    note,
    print_json,
    print_table,
    print_text,
    progress_bar,
)
from imitbench.errors import InputError
from imitbench.records.selection import Selection
from imitbench.util.torch_startup import start_torch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from imitbench.reward_board.folder import EvaluatedRun

app = options.command_group("Measure the rewards that runs have learned.")

_SHOWN = {
    "spearman_step": "steps",
    "spearman_return": "returns",
    "pair_accuracy": "pairs",
    "epic": "EPIC",
    "dard": "DARD",
}


@app.command("evaluate")
def evaluate(
    out: options.Out = options.DEFAULT_OUT,
    suite: options.Suites = [],  # noqa: B006 (typer copies it)
    env: options.Envs = [],  # noqa: B006
    algo: options.Algos = [],  # noqa: B006
    again: Annotated[
        bool, option("--again", "Measure rewards that were measured already, too.")
    ] = False,
    trust: Annotated[
        bool,
        option("--trust", "Import the plug-ins of runs, if necessary: executes code."),
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure how far learned rewards agree with the true ones, for runs that are there.

    The run's policy, its expert and random actions act in the run's environment, in episodes that
    no training saw. Nothing is trained. The numbers are stored with each run and in the database:
    table reward_scores, and view reward_board.

    Example: imitbench rewards evaluate --out runs --algo airl
    """
    from imitbench.cards.plugins import find_suite
    from imitbench.records.reward_scores import RewardProtocol
    from imitbench.reward_board.folder import evaluate_runs, runs_with_rewards
    from imitbench.store.collector import collect

    start_torch()
    folder = _folder_of(suite)
    names = [find_suite(each).name if each == folder else each for each in suite]
    runs = runs_with_rewards(out, Selection.of(names, env, algo))
    found: list[EvaluatedRun] = []
    with progress_bar("rewards", quiet=quiet) as show:
        show(0, len(runs))
        for evaluated in evaluate_runs(
            runs, RewardProtocol(), suite=folder, again=again, trust=trust
        ):
            found.append(evaluated)
            show(len(found), len(runs))
    collect(out)
    if json:
        print_json([_document(each) for each in found])
    else:
        _print(found, out)
    failed = [each for each in found if each.scores is None]
    for each in failed:
        note(f"not measured: {each.spec.label}: {each.problem}")
    if failed:
        raise typer.Exit(1)


def _folder_of(suites: Sequence[str]) -> str | None:
    """Returns the folder of a suite, if one was given; other suites are bundled."""
    folders = [each for each in suites if "/" in each]
    if len(folders) > 1:
        raise InputError(f"--suite {folders[1]}: name one folder at a time")
    return folders[0] if folders else None


def _document(run: EvaluatedRun) -> dict[str, Any]:
    scores = None if run.scores is None else run.scores.model_dump(mode="json")
    return {
        "run_id": run.spec.run_id,
        "suite": run.spec.suite,
        "env": run.spec.environment.id,
        "algo": run.spec.algo_label,
        "seed": run.spec.seed,
        "problem": run.problem or None,
        "reward_scores": scores,
    }


def _print(found: Sequence[EvaluatedRun], out: Path) -> None:
    from imitbench.reward_board.folder import medians

    measured = [each for each in found if each.scores is not None]
    shown = {measure: medians(measured, measure) for measure in _SHOWN}
    cells = sorted({(each.spec.environment.id, each.spec.algo_label) for each in measured})
    rows = []
    for cell in cells:
        runs = sum((each.spec.environment.id, each.spec.algo_label) == cell for each in measured)
        values = [shown[measure].get(cell) for measure in _SHOWN]
        numbers = ["n/a" if value is None else f"{value:.2f}" for value in values]
        rows.append([*cell, str(runs), *numbers])
    heads = [Column(name, right=True) for name in ("runs", *_SHOWN.values())]
    print_table(["environment", "algorithm", *heads], rows)
    print_text(
        "\nMedians over runs. steps, returns: Spearman's correlation with the true reward; pairs: "
        "share of pairs of fragments that both order alike; EPIC, DARD: distances, 0 for the same "
        "and 0.71 for unrelated rewards."
    )
    reasons = {why for each in measured if each.scores for why in each.scores.without.values()}
    for why in sorted(reasons):
        note(f"n/a: {why}")
    fresh = sum(each.new for each in measured)
    note(f"{count(fresh, 'reward')} measured, {len(measured) - fresh} known already in {out}")
