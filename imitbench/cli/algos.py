"""`imitbench algos`: lists algorithms and their hyper-parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from imitbench.cli import completion, options
from imitbench.cli.options import argument
from imitbench.cli.output import TextColumn, print_json, print_table, print_text

if TYPE_CHECKING:
    from imitbench.cards.algorithm import Paper


def algos(
    name: Annotated[
        str | None,
        argument(
            "NAME", "Show the hyper-parameters of this algorithm or plug-in.", completion.algorithms
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """List the algorithms, or one algorithm's hyper-parameters.

    The list includes plug-ins of installed packages. Name other plug-ins by folder or module.

    Example: imitbench algos bc
    """
    from imitbench.cards.catalog import algorithm_names
    from imitbench.cards.plugins import entry_points, find_algorithm, find_algorithms

    if name is None:
        bundled = algorithm_names()
        cards = find_algorithms([*bundled, *(n for n in entry_points() if n not in bundled)])
        if json:
            print_json([card.model_dump(mode="json") for card in cards])
        else:
            print_table(
                [
                    "algorithm",
                    TextColumn("role", rank=2),
                    TextColumn("budget in", rank=1),
                    "needs",
                    TextColumn("paper", rank=3),
                    TextColumn("summary", below=True),
                ],
                [
                    [c.name, c.role, c.budget_unit, _needs(c.needs), _paper(c.paper), c.summary]
                    for c in cards
                ],
            )
        return
    card = find_algorithm(name)
    if json:
        print_json(card.model_dump(mode="json"))
        return
    print_text(f"{card.title}: {card.summary}")
    if card.paper:
        print_text(
            f"{card.paper.authors} ({card.paper.year}). {card.paper.title}. {card.paper.url}"
        )
    print_table(
        [
            "hyper-parameter",
            TextColumn("type", rank=2),
            "default",
            TextColumn("tuning tries", rank=1),
            TextColumn("meaning", below=True),
        ],
        [
            [key, p.type, str(p.default), str(p.search or ""), p.help]
            for key, p in card.hyperparameters.items()
        ],
    )


def _paper(paper: Paper | None) -> str:
    """Returns first author and year."""
    if paper is None:
        return ""
    first, *others = paper.authors.split(", ")
    surname = first.split()[-1]
    return f"{surname}{' et al.' if others else ''} {paper.year}"


def _needs(needs: object) -> str:
    wanted = [name for name in ("demos", "expert", "true_reward") if getattr(needs, name)]
    return ", ".join(wanted) or "nothing"
