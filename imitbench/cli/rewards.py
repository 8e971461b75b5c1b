"""`imitbench rewards`: measures learned rewards, and draws them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import completion, options
from imitbench.cli.options import argument, option
from imitbench.cli.output import (
    TextColumn,
    count,
    note,
    print_json,
    print_table,
    print_text,
    progress_bar,
)
from imitbench.cli.record_options import command_class
from imitbench.errors import InputError, did_you_mean
from imitbench.executors.options import RunOptions
from imitbench.records.reward_scores import Optimizer
from imitbench.records.selection import Selection
from imitbench.util.name_lists import split_names
from imitbench.util.torch_startup import start_torch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from imitbench.records.reward_scores import RewardProtocol, RewardScoreRow
    from imitbench.reward_board.folder import EvaluatedRun
    from imitbench.reward_board.optimization import Optimizations
    from imitbench.rewards.pictures import RewardPicture

app = options.command_group("Measure and draw the rewards that runs have learned.")

AnyReward = Annotated[
    str, argument("RUN", "Run id, or the folder of a run or of a reward.", completion.runs)
]
RewardEnv = Annotated[
    str | None,
    option("--env", "Environment id [as recorded with the run].", "ID", completion.environments),
]
RewardPlugin = Annotated[
    str | None, option("--algo", "The plug-in that made the reward; it is imported.", "PLUGIN")
]
TrustReward = Annotated[
    bool, option("--trust", "Import the plug-in of a run, even if changed: executes code.")
]
DEFAULT_FILE = Path("reward.png")
_SHOWN = {
    "spearman_step": "steps",
    "spearman_return": "returns",
    "pair_accuracy": "pairs",
    "epic": "EPIC",
    "dard": "DARD",
}


@app.command("evaluate", cls=command_class(RunOptions, pack=None))
def evaluate(
    context: typer.Context,
    out: options.Out = options.DEFAULT_OUT,
    suite: options.Suites = [],  # noqa: B006 (typer copies it)
    env: options.Envs = [],  # noqa: B006
    algo: options.Algos = [],  # noqa: B006
    reoptimize: Annotated[
        bool,
        option("--reoptimize", "Also train three fresh policies on each reward, and score them."),
    ] = False,
    optimizer: Annotated[
        list[str], option("--optimizer", "What trains them: ppo or sac; repeatable [ppo].", "NAME")
    ] = [],  # noqa: B006
    true_policies: Annotated[
        int | None,
        option("--true-policies", "How many to train on the true reward [3].", "N", min=1),
    ] = None,
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
    """Measure what learned rewards are worth, for runs that are there.

    The run's policy, its expert and random actions act in the run's environment, in episodes that
    no training saw, and the learned reward of their steps is compared with the true one. With
    --reoptimize, fresh policies are trained on the learned reward, with the budget of the run,
    there and in the environments with other dynamics that the suite's card names; and on the true
    reward, which all rewards of an environment share. The run itself is not trained again. The
    numbers are stored with each run and in the database: table reward_scores, and view
    reward_board.

    Example: imitbench rewards evaluate --out runs --algo airl --reoptimize --jobs 2
    """
    from imitbench.cards.plugins import find_suite
    from imitbench.executors.registry import resolve
    from imitbench.records.reward_scores import OptimizationProtocol, RewardProtocol

    for name, value in (("--optimizer", optimizer), ("--true-policies", true_policies)):
        if value and not reoptimize:
            raise InputError(f"{name}: trains policies with --reoptimize only; add it, or omit it")
    if context.obj.force and not reoptimize:
        raise InputError(
            "--force: trains policies again with --reoptimize only; add it, or measure again with "
            "--again"
        )
    folder = _folder_of(suite)
    names = [find_suite(name).name if name == folder else name for name in suite]
    protocol = RewardProtocol()
    if reoptimize:
        chosen = OptimizationProtocol(optimizers=parse_optimizers(optimizer))
        if true_policies is not None:
            chosen = chosen.model_copy(update={"true_policies": true_policies})
        protocol = protocol.model_copy(update={"optimization": chosen})
    found = measure_rewards(
        out,
        Selection.of(names, env, algo),
        protocol,
        resolve(context.obj),
        suite=folder,
        again=again,
        trust=trust,
        quiet=quiet,
    )
    print_rewards(found, out, json=json)


def parse_optimizers(given: Sequence[str]) -> tuple[Optimizer, ...]:
    """Returns the optimizers that `--optimizer` names; PPO if it names none.

    Raises:
        InputError: A name is none of them.
    """
    known: dict[str, Optimizer] = {"ppo": "ppo", "sac": "sac"}
    names = split_names("--optimizer", given) or ["ppo"]
    for name in names:
        if name not in known:
            raise InputError(f"--optimizer {name}: {did_you_mean(name, known)}")
    return tuple(known[name] for name in names)


def measure_rewards(
    out: Path,
    selection: Selection,
    protocol: RewardProtocol,
    run_options: RunOptions,
    *,
    suite: str | None = None,
    again: bool = False,
    trust: bool = False,
    quiet: bool = False,
    only: Collection[str] | None = None,
) -> list[EvaluatedRun]:
    """Trains what the protocol asks for, measures the rewards of runs, and stores the numbers.

    Args:
        out: Results folder.
        selection: Which runs.
        protocol: How to measure.
        run_options: Executor, jobs and other execution options.
        suite: Folder of the suite that has their experts; `None` for the bundled ones.
        again: Whether to measure rewards that were measured already. With `run_options.force`,
            which trains the fresh policies again, they always are.
        trust: Whether to import the plug-ins that made them.
        quiet: Whether to hide progress.
        only: Ids of the runs; `None` for all that are selected.

    Raises:
        InputError: There are no such runs, or one cannot be planned.
        typer.Exit: Trainings were stopped, or failed.
    """
    from imitbench.cli.launch import complete
    from imitbench.report.reward_board import inconclusive, reward_board
    from imitbench.reward_board.folder import evaluate_runs, runs_with_rewards
    from imitbench.reward_board.optimization import plan_optimizations, reoptimized_folder
    from imitbench.store.collector import collect

    start_torch()
    runs = runs_with_rewards(out, selection, only)
    optimizations: dict[str, Optimizations] = {}
    if protocol.optimization is not None:
        plans, optimizations = plan_optimizations(
            runs,
            protocol.optimization,
            suite=suite,
            trust=trust,
            device=run_options.device_class,
        )
        folder = reoptimized_folder(out)
        complete(plans, run_options, folder, quiet=quiet, what="the measurement")
    found: list[EvaluatedRun] = []
    measured = evaluate_runs(
        out,
        runs,
        protocol,
        suite=suite,
        again=again or run_options.force,
        trust=trust,
        optimizations=optimizations,
        options=run_options,
    )
    with progress_bar("rewards", quiet=quiet) as show:
        show(0, len(runs))
        for evaluated in measured:
            found.append(evaluated)
            show(len(found), len(runs))
    collect(out)
    for rows in _scored_policies(_by_conditions(found).values(), out):
        if why := inconclusive(reward_board(rows)):
            note(why)
    return found


def print_rewards(found: Sequence[EvaluatedRun], out: Path, *, json: bool) -> None:
    """Prints what was measured.

    Raises:
        typer.Exit: With 1 when a reward could not be measured.
    """
    if json:
        print_json(documents(found))
    else:
        _print_scores(found, out)
    failed = [run for run in found if run.scores is None]
    for run in failed:
        note(f"not measured: {run.spec.label}: {run.problem}")
    if failed:
        raise typer.Exit(1)


def _folder_of(suites: Sequence[str]) -> str | None:
    """Returns the folder of a suite, if one was given; other suites are bundled."""
    folders = [suite for suite in suites if "/" in suite]
    if len(folders) > 1:
        raise InputError(f"--suite {folders[1]}: name one folder at a time")
    return folders[0] if folders else None


def documents(found: Sequence[EvaluatedRun]) -> list[dict[str, Any]]:
    """Returns what was measured as JSON objects."""
    return [_document(run) for run in found]


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


def _print_scores(found: Sequence[EvaluatedRun], out: Path) -> None:
    measured = [run for run in found if run.scores is not None]
    groups = _by_conditions(measured)
    scored = _scored_policies(groups.values(), out)
    for (title, runs), rows in zip(groups.items(), scored, strict=True):
        if len(groups) > 1:
            print_text(title)
        _print_group(runs)
        _print_policies(rows)
    reasons = {why for run in measured if run.scores for why in run.scores.without.values()}
    for why in sorted(reasons):
        note(f"n/a: {why}")
    fresh = sum(run.new for run in measured)
    note(f"{count(fresh, 'reward')} measured, {len(measured) - fresh} known already in {out}")


def _by_conditions(found: Sequence[EvaluatedRun]) -> dict[str, list[EvaluatedRun]]:
    """Returns the runs that may be averaged or shown together, by the title of their conditions."""
    from imitbench.store.comparability import Conditions, whole_conditions

    own = [Conditions.of_spec(run.spec) for run in found]
    whole = {conditions.title: conditions for conditions in whole_conditions(own)}
    return {
        title: [run for run, its in zip(found, own, strict=True) if its.is_part_of(conditions)]
        for title, conditions in sorted(whole.items())
    }


def _print_group(measured: Sequence[EvaluatedRun]) -> None:
    from imitbench.reward_board.folder import medians

    shown = {measure: medians(measured, measure) for measure in _SHOWN}
    cells = sorted({(run.spec.environment.id, run.spec.algo_label) for run in measured})
    rows = []
    for cell in cells:
        runs = sum((run.spec.environment.id, run.spec.algo_label) == cell for run in measured)
        values = [shown[measure].get(cell) for measure in _SHOWN]
        numbers = ["n/a" if value is None else f"{value:.2f}" for value in values]
        rows.append([*cell, str(runs), *numbers])
    heads = [TextColumn(name, right=True) for name in ("runs", *_SHOWN.values())]
    print_table(["environment", "algorithm", *heads], rows)
    print_text(
        "\nMedians over runs. steps, returns: Spearman's correlation with the true reward; pairs: "
        "share of pairs of fragments that both order alike; EPIC, DARD: distances, 0 for the same "
        "and 0.71 for unrelated rewards."
    )


def _print_policies(rows: Sequence[RewardScoreRow]) -> None:
    """Prints the scores of the policies that belong to rewards, if any were trained."""
    from imitbench.report import reward_board as board
    from imitbench.report.terminal import text_columns

    over = board.summary_table(board.reward_summaries(rows))
    found = (board.reward_table(board.reward_board(rows)), board.CAPTION), (over, over.caption)
    for table, caption in found:
        if table.rows:
            shown = [[cell.shown for cell in row] for row in table.rows]
            print_table(text_columns(table.columns), shown)
            print_text(f"\n{caption}")


def _scored_policies(
    groups: Iterable[Sequence[EvaluatedRun]], out: Path
) -> list[list[RewardScoreRow]]:
    """Returns the numbers about the rewards of each group; none if no policies were trained."""
    from imitbench.store import database

    wanted = [
        {
            run.spec.run_id
            for run in runs
            if run.scores and any(score.measure == "score" for score in run.scores.scores)
        }
        for runs in groups
    ]
    if not any(wanted):
        return [[] for _ in wanted]
    with database.reader(out) as connection:
        rows = database.read_reward_scores(connection)
    return [[row for row in rows if row.run_id in ids] for ids in wanted]


@app.command("show")
def show(
    run: AnyReward,
    to: Annotated[
        Path | None,
        option(
            "--to", "File to write: .png, .svg or .html [reward.png; none with --json].", "FILE"
        ),
    ] = None,
    dims: Annotated[
        str | None,
        option("--dims", "Dimensions of the observation for the map [those of the task].", "I,J"),
    ] = None,
    episodes: Annotated[
        int, option("--episodes", "Episodes of each behavior.", min=1, max=1000)
    ] = 5,
    seed: Annotated[
        int | None, option("--seed", "Seed of episodes and permutations [the run's, or 0].", min=0)
    ] = None,
    env: RewardEnv = None,
    suite: options.SuiteOfEnv = None,
    algo: RewardPlugin = None,
    out: options.Out = options.DEFAULT_OUT,
    trust: TrustReward = False,
    force: Annotated[bool, option("--force", "Replace an existing file.")] = False,
    json: options.Json = False,
) -> None:
    """Draw a learned reward: beside the true one, along episodes, and what it depends on.

    The figure has three parts: maps of the learned and the true reward over two dimensions of the
    observation; both rewards along an episode of the suite's expert, of the run's policy and of
    random actions; and how much the learned reward changes when one dimension is permuted. Where a
    task has no usual coordinates, the map is over the two dimensions that matter most, or --dims.

    For a reward without a run, name its environment by --env. Figures need the extra `plots`.

    Example: imitbench rewards show 3f2a --to reward.html
    """
    from imitbench.cards.plugins import find_algorithm, find_suite
    from imitbench.experts.reward_pictures import find_subject, make_picture
    from imitbench.report.reward_figure import check_target, write_picture

    chosen = None if dims is None else parse_dims(dims)
    target = to if to is not None or json else DEFAULT_FILE
    if target is not None:
        check_target(target, replace=force)
    start_torch()
    if suite is not None:
        find_suite(suite)
    if algo is not None:
        find_algorithm(algo)
    subject = find_subject(run, out=out, env=env, suite=suite, plugin=algo, trust=trust)
    picture = make_picture(subject, dims=chosen, episodes=episodes, seed=seed)
    if target is not None:
        write_picture(picture, target, replace=force)
    if json:
        print_json({**picture.as_document(), "file": None if target is None else str(target)})
    else:
        _print_picture(picture)
    if target is not None:
        note(f"wrote {target}")


def parse_dims(given: str) -> tuple[int, int]:
    """Returns two dimensions of the observation.

    Args:
        given: Text of the option `--dims`, such as `0,2`.

    Raises:
        InputError: It is not two whole numbers from 0.
    """
    parts = [part.strip() for part in given.split(",")]
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(f"--dims {given}: must be two numbers from 0, such as 0,2")
    return int(parts[0]), int(parts[1])


def _print_picture(picture: RewardPicture) -> None:
    """Prints the correlations along episodes, and the sensitivities."""
    numbers = ("learned_return", "true_return", "spearman", "pearson")
    rows = [
        [entry["behavior"], entry["episodes"], *(_rounded(entry[name]) for name in numbers)]
        for entry in picture.as_document()["episodes"]
    ]
    headings = ["behavior", "episodes", "learned return", "true return", "Spearman", "Pearson"]
    print_table(headings, rows)
    shares = [
        [sensitivity.name, sensitivity.kind, _rounded(sensitivity.share)]
        for sensitivity in picture.sensitivities
    ]
    print_table(["dimension", "of", "sensitivity"], shares)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
