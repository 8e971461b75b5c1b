"""`imitbench verify-resume`: checks that interruptions do not change the result of a run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from imitbench.cli import completion, options, run_options
from imitbench.cli.options import option
from imitbench.cli.output import TextColumn, by_word, note, print_json, print_table, print_text
from imitbench.errors import InputError

if TYPE_CHECKING:
    from imitbench.bench.plan import Plan
    from imitbench.conformance.resume import InterruptionOutcome, ResumeVerdict
    from imitbench.records.runs import RunSpec

_KINDS = {
    "stopped": "stop requested",
    "killed": "killed",
    "damaged": "stop requested, latest checkpoint damaged",
}

Algo = Annotated[
    str,
    option("--algo", "Algorithm: name, ./plugin or package.module.", "NAME", completion.algorithms),
]
Env = Annotated[str, option("--env", "Environment.", "ID", completion.environments)]


def verify_resume(
    algo: Algo,
    env: Env,
    suite: options.Suite = options.DEFAULT_SUITE,
    seed: Annotated[int, option("--seed", "Seed of the run and of the interruptions.", min=0)] = 0,
    budget: run_options.Budget = "quick",
    set_: run_options.Set = [],  # noqa: B006 (typer copies it)
    kills: Annotated[
        int, option("--kills", "Number of kills; one more follows at the end.", min=1)
    ] = 3,
    out: Annotated[
        Path | None, option("--out", "Keep both runs in this folder.", "DIR", file_okay=False)
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check that an interrupted run gives exactly the numbers of an uninterrupted one.

    Trains a run without interruption. Then stops and kills the same run at random points of its
    training. A new process resumes it each time from its checkpoints, and once the latest
    checkpoint is damaged. Evaluation episodes, learning curve, policy, reward and measures must be
    equal to the last bit. Exits with 1 if they are not, and reports the first difference.

    Example: imitbench verify-resume --algo bc --env Pendulum-v1
    """
    from imitbench.bench.plan import parse_overrides, plan_request
    from imitbench.bench.plugin_check import check_plugins
    from imitbench.bench.sweep import check_writable
    from imitbench.cards.plugins import find_algorithm, find_suite
    from imitbench.conformance.resume import as_document
    from imitbench.conformance.resume import check_resume as verify
    from imitbench.store.sweep_file import SweepRequest

    card, suite_card = find_algorithm(algo), find_suite(suite)
    request = SweepRequest(
        algorithms=[card.name],
        suite=suite_card.name,
        environment=env,
        seeds=[seed],
        budget=budget,
        overrides=parse_overrides(set_),
        folder=".",
        **suite_card.fitting_regime(card).recorded,
    )
    plan = plan_request(request, algorithms=[card], suite=suite_card)
    spec = _only_run(plan, env)
    check_plugins(plan)
    if out is not None:
        if out.exists() and any(out.iterdir()):
            raise InputError(f"--out {out}: is not empty; name a new folder")
        check_writable(out)
    with tempfile.TemporaryDirectory(prefix="imitbench-") as temporary:
        verification = verify(
            spec,
            source_root=plan.source_root,
            sources=plan.sources,
            references=plan.references(spec.environment.id),
            folder=out or Path(temporary),
            kills=kills,
            notify=(lambda _: None) if quiet else note,
        )
    if json:
        print_json({"algo": spec.algo_label, "env": spec.environment.id, "seed": spec.seed}
                   | as_document(verification))  # fmt: skip
    else:
        _print(spec, verification)
    if not verification.exact:
        raise typer.Exit(1)


def _only_run(plan: Plan, env: str) -> RunSpec:
    runs = list(plan)
    for pair in plan.not_applicable[: not runs]:
        raise InputError(f"--env {env}: {pair.algo} on {pair.env}: {pair.why}")
    if len(runs) > 1:
        found = ", ".join(run.environment.id for run in runs)
        raise InputError(f"--env {env}: must be one environment; this is {found}")
    return runs[0]


def _print(spec: RunSpec, verification: ResumeVerdict) -> None:
    if verification.interruptions:
        print_table(
            [
                "after offer",
                "interruption",
                TextColumn("resumed from", rank=1),
                TextColumn("lost", rank=2),
                TextColumn("training since", below=True, color=by_word(equal="green")),
            ],
            [
                [f"{stop.offer} of {verification.offers}", _KINDS[stop.kind], *_recovery(stop)]
                for stop in verification.interruptions
            ],
        )
        typer.echo("")
    if verification.parts:
        print_table(
            [
                "compared",
                TextColumn("there are", rank=1),
                TextColumn("equal", below=True, color=by_word(yes="green", NO="bold red")),
            ],
            [
                [part.part, part.count, _unequal([str(d) for d in part.differences])]
                for part in verification.parts
            ],
        )
        typer.echo("")
    verdict = "resumes bit for bit" if verification.exact else "does NOT resume bit for bit"
    if verification.exact and not verification.offers:
        verdict = "trains nothing that could be interrupted"
    print_text(f"{spec.label}: {verdict}")
    if verification.hint is not None:
        print_text(f"hint: {verification.hint}", indent=6)


def _recovery(stop: InterruptionOutcome) -> list[str]:
    lost = f"{stop.lost} offer{'s' * (stop.lost > 1)}" if stop.lost else "nothing"
    start = f"offer {stop.resumed_at}" if stop.resumed_at else "the beginning"
    if stop.unrestored:
        return [start, lost, f"not restored: {stop.unrestored[0]}"]
    return [start, lost, "equal" if not stop.later else str(stop.later[0])]


def _unequal(found: list[str]) -> str:
    if not found:
        return "yes"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"NO: {found[0]}{more}"
