"""`imitbench demos validate`: is a set of demonstrations fit for use?"""

from __future__ import annotations

from typing import Annotated

import typer

from imitbench.cli import options
from imitbench.cli.demos_convert import OneEnv, Trust

_SHOWN = 20


def validate(
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="As IN of `imitbench demos convert`."),
    ],
    env: OneEnv = None,
    suite: options.SuiteOfEnv = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="First N trajectories [all].")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Count notes, such as values out of bounds, too.")
    ] = False,
    trust: Trust = False,
    json: options.Json = False,
) -> None:
    """Check demonstrations and name every row that is wrong; exit code 1 if there are any.

    Example: imitbench demos validate ppo-seals-CartPole-v0 --env seals/CartPole-v0
    """
    from imitbench.cli.demos_convert import environment_of, open_set
    from imitbench.cli.output import note, print_json
    from imitbench.data.inspection import inspect_demonstrations

    opened = open_set(path, trust=trust)
    with environment_of(env, suite) as environment:
        found = inspect_demonstrations(opened, environment=environment, limit=limit)
    bad = bool(found.problems or (strict and found.notes))
    if json:
        print_json({"valid": not bad, **found.to_json()})
    else:
        for problem in found.problems[:_SHOWN]:
            typer.echo(problem)
        if len(found.problems) > _SHOWN:
            typer.echo(f"and {len(found.problems) - _SHOWN} more problems")
        for text in found.notes:
            note(f"note: {text}")
        verdict = f"{len(found.problems)} problems" if found.problems else "no problems"
        note(
            f"{found.where} ({found.form}): {found.rows} trajectories, {found.steps} steps, "
            f"{verdict}"
        )
    if bad:
        raise typer.Exit(1)
