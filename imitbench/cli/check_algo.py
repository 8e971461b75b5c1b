"""`imitbench check-algo`: checks that a method follows the rules of the harness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from imitbench.cli import options, run_options
from imitbench.cli.options import argument, option
from imitbench.cli.output import TextColumn, by_word, note, print_json, print_table, print_text
from imitbench.util.name_lists import join_names

if TYPE_CHECKING:
    from imitbench.conformance.checks import ConformanceReport

_MARKS = {"passed": "ok", "failed": "FAILED", "skipped": "skipped", "told": "-"}


def check_algo(
    algo: Annotated[str, argument("ALGO", "Algorithm: name, ./plugin or package.module.")],
    suite: Annotated[
        str | None, option("--suite", "Name of a suite, or its folder [one that fits].", "NAME")
    ] = None,
    env: options.Env = [],  # noqa: B006 (typer copies it)
    amount: Annotated[
        int | None,
        option("--amount", "Amount of training of each trial [a quarter of quick].", min=1),
    ] = None,
    set_: run_options.Set = [],  # noqa: B006 (typer copies it)
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check a method: spaces, seeding, rewards, isolation, budget, state, resuming, policy, speed.

    Trains the method a dozen times, briefly: on artificial environments with each kind of action
    space on its card, with the same seed and another one, with true rewards replaced by NaN, by
    other numbers and by canaries inside the environment, and with an interruption. Counts
    environment steps in the environments. Exits with 1 if a check fails.

    Example: imitbench check-algo bc
    """
    from imitbench.bench.plan import parse_overrides
    from imitbench.conformance.checks import check_method

    report = check_method(
        algo,
        suite=suite,
        environment=join_names("--env", env),
        amount=amount,
        overrides=parse_overrides(set_),
        notify=(lambda _: None) if quiet else note,
    )
    if json:
        print_json(report.as_document())
    else:
        _print(report)
    if not report.conforms:
        raise typer.Exit(1)


def _print(report: ConformanceReport) -> None:
    print_table(
        [
            "check",
            TextColumn("", color=by_word(ok="green", FAILED="bold red", skipped="yellow")),
            TextColumn("what was seen", below=True),
        ],
        [[finding.check, _MARKS[finding.verdict], finding.what] for finding in report.findings],
    )
    verdict = "conforms" if report.conforms else "does NOT conform"
    print_text(f"{report.algo} on {report.env}, {report.amount} a trial: {verdict}")
