"""`imitbench leaderboard model-card`: results of a method as metadata of the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from imitbench.cli import completion, options


def write_card(
    card: Annotated[
        Path,
        typer.Argument(
            metavar="CARD", help="Model card, README.md; created if missing.", dir_okay=False
        ),
    ],
    algo: Annotated[
        str, typer.Option("--algo", metavar="NAME", help="Method, as its runs name it.")
    ],
    results: Annotated[
        list[str],
        typer.Option(
            "--results",
            metavar="DIR",
            help="Results, as for `leaderboard build`; repeatable.",
            autocompletion=completion.results_places,
        ),
    ] = options.DEFAULT_PLACES,
    suite: Annotated[
        str | None, typer.Option("--suite", metavar="NAME", help="Suite of the results [all].")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Address of the board, named as the source."),
    ] = None,
    replicates: options.Replicates = options.DEFAULT_REPLICATES,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a method's results into a model card, as the hub's metadata on evaluations.

    Sets the method's entry of `model-index`: for each environment, mean return and score, the
    conditions, and how far the numbers were checked. The rest of the card stays.

    Example: imitbench leaderboard model-card model/README.md --algo bc --results published
    """
    from imitbench.cli.output import count, note, print_json
    from imitbench.errors import InputError
    from imitbench.published.opening import results_place
    from imitbench.published.results_sources import find_results
    from imitbench.report.leaderboard.board import build_board
    from imitbench.report.leaderboard.model_card import evaluation_results, write_model_card

    if url is not None and not url.startswith("https://"):
        raise InputError(f"--url {url}: must start with https://")
    found = find_results(*(results_place(name) for name in dict.fromkeys(results)))
    board = build_board(found, title="Leaderboard", replicates=replicates)
    index = evaluation_results(board, algo, suite=suite, address=url)
    write_model_card(card, index)
    entries = sum(len(model["results"]) for model in index)
    if json:
        print_json({"card": str(card), "model-index": index})
    elif not quiet:
        note(f"{card}: {count(entries, 'result')} of {algo}")
