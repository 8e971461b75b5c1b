"""`imitbench verify-resume`: checks that interruptions do not change the result of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from imitbench.cli import completion, options, run_options

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
    typer.Option(
        "--algo",
        metavar="NAME",
        help="Algorithm: name, ./plugin or package.module.",
        autocompletion=completion.algorithms,
    ),
]
Env = Annotated[
    str,
    typer.Option(
        "--env", metavar="ID", help="Environment.", autocompletion=completion.environments
    ),
]


def verify_resume(
    algo: Algo,
    env: Env,
    suite: options.Suite = options.DEFAULT_SUITE,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the run and of the interruptions.")
    ] = 0,
    budget: run_options.Budget = "quick",
    set_: run_options.Set = [],  # noqa: B006 (typer copies it)
    kills: Annotated[
        int, typer.Option("--kills", min=1, help="Number of kills; one more follows at the end.")
    ] = 3,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Keep both runs in this folder.", file_okay=False
        ),
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
    import tempfile

    from imitbench.bench.plan import parse_overrides, plan_request
    from imitbench.bench.plugin_check import check_plugins
    from imitbench.bench.sweep import check_writable
    from imitbench.cli.output import note, print_json
    from imitbench.conformance.resume import as_document
    from imitbench.conformance.resume import check_resume as verify
    from imitbench.errors import InputError
    from imitbench.store.sweep_file import SweepRequest

    request = SweepRequest(
        algorithms=[algo],
        suite=suite,
        environment=env,
        seeds=[seed],
        budget=budget,
        overrides=parse_overrides(set_),
        folder=".",
    )
    plan = plan_request(request)
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
    from imitbench.errors import InputError

    runs = list(plan)
    for pair in plan.not_applicable[: not runs]:
        raise InputError(f"--env {env}: {pair.algo} on {pair.env}: {pair.why}")
    if len(runs) > 1:
        found = ", ".join(run.environment.id for run in runs)
        raise InputError(f"--env {env}: must be one environment; this is {found}")
    return runs[0]


def _print(spec: RunSpec, verification: ResumeVerdict) -> None:
    from imitbench.cli.output import Column, by_word, print_table, print_text

    if verification.interruptions:
        print_table(
            [
                "after offer",
                "interruption",
                Column("resumed from", rank=1),
                Column("lost", rank=2),
                Column("training since", below=True, color=by_word(equal="green")),
            ],
            [
                [f"{each.offer} of {verification.offers}", _KINDS[each.kind], *_recovery(each)]
                for each in verification.interruptions
            ],
        )
        typer.echo("")
    if verification.parts:
        print_table(
            [
                "compared",
                Column("there are", rank=1),
                Column("equal", below=True, color=by_word(yes="green", NO="bold red")),
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


def _recovery(each: InterruptionOutcome) -> list[str]:
    lost = f"{each.lost} offer{'s' * (each.lost > 1)}" if each.lost else "nothing"
    start = f"offer {each.resumed_at}" if each.resumed_at else "the beginning"
    if each.unrestored:
        return [start, lost, f"not restored: {each.unrestored[0]}"]
    return [start, lost, "equal" if not each.later else str(each.later[0])]


def _unequal(found: list[str]) -> str:
    if not found:
        return "yes"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"NO: {found[0]}{more}"
