"""`imitbench init-algo` and `init-suite`: write templates of a method or a suite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

To = Annotated[
    Path, typer.Option("--to", metavar="DIR", help="Folder in which to create it.", file_okay=False)
]


def init_algo(
    name: Annotated[str, typer.Argument(help="Name of the method.")],
    to: To = Path(),
    kind: Annotated[
        Literal["bc-like", "reward", "chunking"],
        typer.Option(
            "--kind",
            help="Kind of method: supervised learning, a learned reward, or an own policy class.",
        ),
    ] = "bc-like",
) -> None:
    """Create a new method: a folder with a learner, its card, a test and a README.

    The method runs without changes. Existing files are not overwritten.

    Example: imitbench init-algo my_method --kind reward
    """
    from imitbench.cli.output import note
    from imitbench.templates.writing import write_template

    folder = write_template("algorithm" if kind == "bc-like" else kind, name, to)
    typer.echo(str(folder))
    note(f"next: imitbench check-algo {_typed(folder)}")
    note(f"then: imitbench run --algo {_typed(folder)} --algo bc --suite classic")


def init_suite(
    name: Annotated[str, typer.Argument(help="Name of the suite.")], to: To = Path()
) -> None:
    """Create a new suite: a folder with an environment, the suite's card and a README.

    The README lists the commands that train its expert, collect demonstrations and measure
    references. Existing files are not overwritten.

    Example: imitbench init-suite my_suite
    """
    from imitbench.cli.output import note
    from imitbench.templates.writing import write_template

    folder = write_template("suite", name, to)
    place = _typed(folder)
    typer.echo(str(folder))
    note(f"next: imitbench experts train --suite {place} --to {place}/experts")
    note(f"then: imitbench demos collect --suite {place} --to {place}/demos")
    note(f"then: imitbench suites measure {place} --card {place}/suite.yaml")
    note(f"then: imitbench run --algo bc --suite {place}")


def _typed(folder: Path) -> str:
    """Returns the folder as an argument for commands: relative paths start with `./`."""
    return str(folder) if folder.is_absolute() else f"./{folder}"
