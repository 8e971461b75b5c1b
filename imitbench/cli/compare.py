"""`imitbench compare`: tests whether an algorithm is better than others."""

from __future__ import annotations

import sys
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from imitbench.cli import completion, options
from imitbench.cli.options import argument, option
from imitbench.cli.output import note, print_json, print_table, print_text
from imitbench.records.selection import Selection
from imitbench.util.name_lists import split_names
from imitbench.util.text_line import width_of
from imitbench.util.text_table import format_text

if TYPE_CHECKING:
    from imitbench.report.pairwise import PairwiseComparison
    from imitbench.report.pairwise import PairwiseOptions as Method


New = Annotated[str, argument("NEW", "Algorithm to compare.", completion.algorithms)]
Baseline = Annotated[
    list[str] | None,
    option(
        "--baseline",
        "Algorithm to compare with; repeatable [all others].",
        "ALGO",
        completion.algorithms,
    ),
]
Results = Annotated[
    list[str],
    option(
        "--out",
        "Results folder, published results, a database, a CSV table or leaderboard.json; "
        "repeatable.",
        "PATH",
        completion.results_locations,
    ),
]
Against = Annotated[
    list[str],
    option(
        "--against",
        "Separate results of the baselines, in any of these forms, or 'published'; "
        "repeatable. The default baseline is then NEW itself, if it is among them.",
        "PATH",
        completion.results_locations,
    ),
]


Suites = Annotated[
    list[str],
    option(
        "--suite",
        "Only these suites; repeatable [all]. The references of one also serve tables without "
        "scores.",
        "NAME",
        completion.suites,
    ),
]
Algos = Annotated[
    list[str],
    option(
        "--algo",
        "Only compare with these algorithms, e.g. 'gail*'; repeatable [all].",
        "GLOB",
        completion.algorithms,
    ),
]


class FailIf(str, Enum):
    """Results that give exit code 1. An enumeration, as Typer accepts no list of literals."""

    worse = "worse"
    worse_anywhere = "worse-anywhere"
    undecided = "undecided"
    not_better = "not-better"


def compare(
    algorithm: New,
    baseline: Baseline = None,
    out: Results = options.DEFAULT_RESULTS,
    against: Against = [],  # noqa: B006 (typer copies it)
    suite: Suites = [],  # noqa: B006
    env: options.Envs = [],  # noqa: B006
    algo: Algos = [],  # noqa: B006
    budget: Annotated[str | None, option("--budget", "Only use this budget.", "NAME")] = None,
    fail_if: Annotated[
        list[FailIf] | None, option("--fail-if", "Exit with 1 for this result; repeatable.")
    ] = None,
    failed_runs: Annotated[
        Literal["either", "count-as-random", "exclude"],
        option("--failed-runs", "How failed runs count; either: the result must not depend on it."),
    ] = "either",
    acting: options.Acting = None,
    level: Annotated[
        float, option("--level", "Confidence level of intervals.", min=0.5, max=0.999)
    ] = 0.95,
    replicates: options.Replicates = options.DEFAULT_REPLICATES,
    json: options.Json = False,
) -> None:
    """Report whether an algorithm is better or worse than others, or whether that is undecided.

    A difference counts if permutation tests of means and of typical runs find it, corrected for
    several environments and baselines. The overall result also requires that the interval of the
    IQM agrees, and all of it holds with sampled actions and with the most likely ones, unless
    `--acting` chooses. Runs that collapse are counted, with what is not excluded. Imported
    results take part under the name IMPORT:ALGO. `--against published` names the results that
    ship with this package.

    Example: imitbench compare airl --baseline bc --baseline gail --fail-if worse
    """
    from imitbench.published.opening import results_location
    from imitbench.report.build import compare_results
    from imitbench.report.pairwise import PairwiseOptions as Method
    from imitbench.report.pairwise_text import pairwise_document
    from imitbench.stats.coverage import FailurePolicy

    policy = None if failed_runs == "either" else FailurePolicy(failed_runs)
    method = Method(policy=policy, acting=acting, level=level, replicates=replicates)
    found = compare_results(
        algorithm,
        split_names("--baseline", baseline),
        [results_location(name) for name in out],
        [results_location(name) for name in against],
        method,
        notify=note,
        selection=Selection.of(suite, env, algo),
        budget=budget,
        own_optional=out == options.DEFAULT_RESULTS,
    )
    if json:
        print_json(pairwise_document(found, method))
    else:
        _print(found, method)
    if any(_is_case(case, comparison) for case in fail_if or [] for comparison in found):
        raise typer.Exit(1)


def _is_case(case: FailIf, comparison: PairwiseComparison) -> bool:
    decisions = {verdict.decision for verdict in comparison.verdicts}
    if case is FailIf.not_better:
        return decisions != {"better"}
    if case is FailIf.worse_anywhere:
        decisions |= {
            found.decision for verdict in comparison.verdicts for found in verdict.environments
        }
    return ("undecided" if case is FailIf.undecided else "worse") in decisions


def _print(found: list[PairwiseComparison], method: Method) -> None:
    from imitbench.report import pairwise_text

    if lines := pairwise_text.overview(found):
        for line in lines:
            print_text(line, indent=4)
        typer.echo()
    for comparison in found:
        for line in pairwise_text.heading(comparison):
            print_text(line)
        for verdict in comparison.verdicts:
            typer.echo()
            for line in pairwise_text.summary(comparison, verdict):
                print_text(line, indent=4)
            columns, rows = pairwise_text.environment_table(comparison, verdict)
            if rows:
                typer.echo()
                print_table(columns, rows)
        typer.echo()
    note(format_text(pairwise_text.method_text(method, found), width=width_of(sys.stderr)))
