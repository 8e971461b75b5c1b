"""`imitbench init-algo` and `init-suite`: write templates of a method or a suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from imitbench.cli.demos import Observation, Rename, open_set
from imitbench.cli.options import argument, option
from imitbench.cli.output import note, progress_bar
from imitbench.errors import InputError

if TYPE_CHECKING:
    from imitbench.data.trajectory_source import TrajectorySource

To = Annotated[Path, option("--to", "Folder in which to create it.", "DIR", file_okay=False)]


def init_algo(
    name: Annotated[str, argument("NAME", "Name of the method.")],
    to: To = Path(),
    kind: Annotated[
        Literal["bc-like", "reward", "chunking", "command", "bc", "gail", "dac"],
        option(
            "--kind",
            "Kind of method: supervised learning, a learned reward, a policy class of its own, an "
            "external program in Python and in JavaScript, or a variant of bc, gail or dac.",
        ),
    ] = "bc-like",
) -> None:
    """Create a new method: a folder with a learner, its card, a test and a README.

    The method runs without changes. Existing files are not overwritten.

    Example: imitbench init-algo my_method --kind reward
    """
    from imitbench.templates.writing import write_template

    folder = write_template("algorithm" if kind == "bc-like" else kind, name, to)
    typer.echo(str(folder))
    note(f"next: imitbench check-algo {_typed(folder)}")
    other = kind if kind in ("gail", "dac") else "bc"
    note(f"then: imitbench run --algo {_typed(folder)} --algo {other} --suite classic")


def init_suite(
    name: Annotated[str, argument("NAME", "Name of the suite.")],
    to: To = Path(),
    from_demos: Annotated[
        str | None,
        option(
            "--from-demos",
            "Use these demonstrations, in any format of `imitbench demos convert`, and no expert.",
            "IN",
        ),
    ] = None,
    env: Annotated[
        str | None,
        option(
            "--env", "Gymnasium id of the demonstrations' environment, perhaps as module:id.", "ID"
        ),
    ] = None,
    score_one: Annotated[
        float | None,
        option("--score-one", "Mean return of score 1 [that of the demonstrators].", "RETURN"),
    ] = None,
    obs: Observation = None,
    rename: Rename = None,
) -> None:
    """Create a new suite: a folder with an environment, the suite's card and a README.

    The README lists the commands that train its expert, collect demonstrations and measure
    references. With `--from-demos`, there are demonstrations only. Existing files are not
    overwritten.

    Example: imitbench init-suite my_suite --from-demos demos.csv --env CartPole-v1
    """
    from imitbench.templates.writing import write_template

    if from_demos is not None:
        opened = open_set(from_demos, trust=False, obs=obs or (), rename=rename or ())
        _init_from_demos(name, to, opened, env, score_one)
        return
    of_demos = {"--env": env, "--score-one": score_one, "--obs": obs, "--rename": rename}
    for flag, given in of_demos.items():
        if given is not None:
            raise InputError(f"{flag}: needs --from-demos, too")
    folder = write_template("suite", name, to)
    typed = _typed(folder)
    typer.echo(str(folder))
    note(f"next: imitbench experts train --suite {typed} --to {typed}/experts")
    note(f"then: imitbench demos collect --suite {typed} --to {typed}/demos")
    note(f"then: imitbench suites measure {typed} --card {typed}/suite.yaml")
    note(f"then: imitbench run --algo bc --suite {typed}")


def _init_from_demos(
    name: str, to: Path, opened: TrajectorySource, env: str | None, score_one: float | None
) -> None:
    from imitbench.experts.demonstrations import write_demonstrations_suite
    from imitbench.templates.writing import write_template

    def fill(folder: Path) -> None:
        with progress_bar("trajectories", quiet=False) as report:
            summary = write_demonstrations_suite(
                opened, folder, name=name, env_id=env, score_one=score_one, progress=report
            )
        for text in summary.notes:
            note(f"note: {text}")
        note(f"{summary.rows} trajectories, {summary.steps} steps")

    folder = write_template("demonstrations", name, to, fill)
    typed = _typed(folder)
    typer.echo(str(folder))
    note(f"next: imitbench suites measure {typed} --card {typed}/suite.yaml")
    note(f"then: imitbench run --algo bc --suite {typed}")


def _typed(folder: Path) -> str:
    """Returns the folder as an argument for commands: relative paths start with `./`."""
    return str(folder) if folder.is_absolute() else f"./{folder}"
