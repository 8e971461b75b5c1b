"""The Python interface of the harness: `imitbench.run`, `race`, `results`, `report`, `compare`.

The functions do the same as the commands of these names, and share results folders with them.
`load_policy` and `load_reward` give what a run has learned.
Names, parameters and the columns of tables are stable: they change only with a new major version,
and new parameters have defaults that keep the old behavior. Bad input raises
`imitbench.InputError` with one line, which names a parameter as the command line does
(`--n-demos` for `n_demos`).

Separate worker processes (`python -m imitbench.bench.worker`) do the runs. They import nothing of
the caller, so these functions work in notebooks, and in scripts without
`if __name__ == "__main__"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from imitbench.api_arguments import (
    algorithm_list,
    call_text,
    check_choice,
    demo_choice,
    make_request,
    planned_race,
    seed_list,
    shared_settings,
)
from imitbench.errors import InputError, did_you_mean
from imitbench.records.selection import ActingChoice, Selection
from imitbench.util.files import write_output
from imitbench.util.hub_client import silent
from imitbench.util.name_lists import split_names
from imitbench.util.text_line import note

if TYPE_CHECKING:
    import pandas
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.bench.summary import SweepSummary
    from imitbench.cards.algorithm import Scalar
    from imitbench.race.reporting import RaceSummary
    from imitbench.report.formats import PlotFormat, TextFormat
    from imitbench.report.model import Report
    from imitbench.report.pairwise import PairwiseComparison, PairwiseOptions
    from imitbench.rewards.base import RewardNet
    from imitbench.stats.verdicts import Verdict
    from imitbench.util.name_lists import Names

__all__ = [
    "Comparison",
    "compare",
    "load_policy",
    "load_reward",
    "race",
    "report",
    "results",
    "run",
]

AnyPath = str | PathLike[str]
ResultsPaths = AnyPath | Sequence[AnyPath]
"""Results folders, folders of published results, or `published` for those of this package."""
Table = Literal[
    "scores",
    "failures",
    "latest",
    "latest_failures",
    "curves",
    "episodes",
    "measures",
    "references",
    "external_scores",
    "reward_board",
]
"""Names that `results` accepts: the documented views and tables of the database."""

DEFAULT_OUT = "runs"
DEFAULT_SUITE = "classic"


def run(
    algos: str | Sequence[str],
    suite: str | Sequence[str] = DEFAULT_SUITE,
    env: Names = None,
    *,
    seeds: int | Sequence[int] | str = 3,
    budget: str = "default",
    n_demos: int | Sequence[int | None] | None = None,
    demo_every: int | None = None,
    regime: str | Sequence[str] | None = None,
    actions: Literal["shown", "hidden"] | None = None,
    mixture: Mapping[str, int] | None = None,
    source: str = "bundled",
    config: Literal["default", "tuned"] = "default",
    overrides: Mapping[str, Scalar] | None = None,
    lock: AnyPath | None = None,
    out: AnyPath = DEFAULT_OUT,
    progress: bool = True,
    **options: Any,
) -> SweepSummary:
    """Trains and evaluates every algorithm on every environment and seed.

    The same call again does only the missing runs, and resumes interrupted ones from their last
    checkpoint. A run that fails is recorded in the results; it does not raise an exception here.

    Args:
        algos: Names or paths of algorithms; `all` for every method.
        suite: Name of a suite of environments, or its folder; or several.
        env: Selects environments whose id matches one of these shell-style patterns.
        seeds: Number of seeds (`3` for 0, 1, 2), or the seeds.
        budget: Amount of training: `quick`, `default`, `full`, or a part such as `default/10`.
        n_demos: Number of demonstrations, or several, each for its own runs; `None` for those of
            the suite's default regime, which are all unless its card says otherwise.
        demo_every: Keep one step out of so many of each demonstration; `None` for all steps.
        regime: Name of a regime of the suite's card, or several, in place of both.
        actions: `hidden` to learn from observations only; `None` for what the regime says.
        mixture: Numbers of further trajectories by the name of their set; `None` as well.
        source: Of experts and demonstrations: `bundled`, `hub`, `path:DIR`, `minari[:NAME]`.
        config: `tuned` for hyper-parameters tuned per environment, where there are any.
        overrides: Hyper-parameters by `name` or `algorithm.name`.
        lock: Lock file with commits of hub repositories.
        out: Results folder, created if missing.
        progress: Whether to print progress on stderr.
        **options: Fields of `imitbench.executors.options.RunOptions` in the command's words, such
            as `jobs=2`, `timeout="90m"` or `force=True`. Unlike the command, this waits for tasks
            in a scheduler's queue unless `wait=False`.

    Returns:
        The outcome, with the runs `left` after Ctrl-C, and the rows of the requested runs.

    Raises:
        InputError: An argument names something that does not exist, does not fit or cannot be done.
        TypeError: An option is unknown.
    """
    given = {name: value for name, value in locals().items() if name != "options"} | options
    from imitbench.bench.progress import make_observer
    from imitbench.bench.request import environments_by_suite, plan_requests
    from imitbench.bench.summary import summarize_sweep
    from imitbench.bench.sweep import carry_out
    from imitbench.executors.options import RunOptions
    from imitbench.executors.registry import resolve
    from imitbench.report.notebook import NotebookSummary

    resolved = resolve(RunOptions.of({"wait": True, **options}))
    settings = {
        **shared_settings(given, resolved),
        "algorithms": algorithm_list(algos),
        "seeds": seed_list(seeds),
        "pack": resolved.pack,
    }
    by_suite = environments_by_suite(split_names("--suite", suite), env, Path.cwd())
    parts = [{"suite": name, "environment": own} for name, own in by_suite.items()]
    requests = [make_request(**settings | part) for part in parts]
    demos = demo_choice(n_demos, demo_every, regime, actions, mixture)
    plans = plan_requests(requests, demos, note if progress else silent)
    with make_observer(quiet=not progress) as observer:
        outcome = carry_out(
            plans, resolved, out=Path(out), command=call_text("run", given), observer=observer
        )
    return NotebookSummary.of(summarize_sweep(plans, Path(out), outcome))


def race(
    new: str | Sequence[str],
    baseline: str | Sequence[str],
    suite: str = DEFAULT_SUITE,
    env: Names = None,
    *,
    batch: int = 5,
    max_seeds: int = 40,
    alpha: float = 0.05,
    margin: float = 0.05,
    failed_runs: Literal["either", "count-as-random", "exclude"] = "either",
    acting: ActingChoice | None = None,
    budget: str = "default",
    n_demos: int | None = None,
    demo_every: int | None = None,
    regime: str | None = None,
    actions: Literal["shown", "hidden"] | None = None,
    mixture: Mapping[str, int] | None = None,
    source: str = "bundled",
    config: Literal["default", "tuned"] = "default",
    overrides: Mapping[str, Scalar] | None = None,
    lock: AnyPath | None = None,
    out: AnyPath = DEFAULT_OUT,
    progress: bool = True,
    **options: Any,
) -> RaceSummary:
    """Trains batches of seeds until each comparison is decided: better, worse or equivalent.

    The design is registered before the first run. The same call goes on with an interrupted race.

    Args:
        new: Algorithms to compare: names or paths.
        baseline: Algorithms to compare each of them with.
        suite: Name of a suite of environments, or its folder.
        env: Selects environments whose id matches one of these shell-style patterns.
        batch: Seeds that are trained between two looks.
        max_seeds: Seeds after which the race ends.
        alpha: Chance of any false decision, over the whole race.
        margin: Largest difference of scores that counts as none.
        failed_runs: How failed runs count; `either`: no decision may depend on it.
        acting: As in `compare`; `None` for both where the suite's card has both references.
        budget: As in `run`, like all that follow.
        n_demos: Number of demonstrations; `None` for those of the suite's default regime.
        demo_every: Keep one step out of so many of each demonstration.
        regime: Name of a regime of the suite's card, in place of both.
        actions: `hidden` to learn from observations only.
        mixture: Numbers of trajectories of other sets, by name.
        source: Source of experts and demonstrations.
        config: `tuned` for hyper-parameters tuned per environment.
        overrides: Hyper-parameters by `name` or `algorithm.name`.
        lock: Lock file with commits of hub repositories.
        out: Results folder, created if missing.
        progress: Whether to print progress on stderr.
        **options: Fields of `imitbench.executors.options.RunOptions`.

    Returns:
        Verdicts and seeds.

    Raises:
        InputError: An argument is not accepted, or the folder has other results of these methods.
        TypeError: An option is unknown.
    """
    given = {name: value for name, value in locals().items() if name != "options"} | options
    from imitbench.executors.options import RunOptions
    from imitbench.executors.registry import resolve
    from imitbench.race.driver import run_race
    from imitbench.race.reporting import RaceNotes, RaceSummary

    check_choice("acting", acting, (*get_args(ActingChoice), None))
    resolved = resolve(RunOptions.of({"wait": True, **options}))
    command = call_text("race", given)
    planned = planned_race(given, resolved, command, note if progress else silent)
    for line in planned.notes if progress else []:
        note(line)
    quiet = not progress
    return RaceSummary.of(
        run_race(planned, resolved, out=Path(out), command=command,
                 observer=RaceNotes(quiet=quiet), quiet=quiet)
    )  # fmt: skip


def results(
    out: ResultsPaths = DEFAULT_OUT,
    table: Table = "scores",
    *,
    suite: Names = None,
    env: Names = None,
    algo: Names = None,
) -> pandas.DataFrame:
    """Collects new runs, and returns results as a table, by default one row per completed run.

    The columns of `scores`, one row per completed run: run_id, suite, env, algo, seed, budget,
    n_demos, all_demos, demo_every, demo_actions, mixture, source, uses_reward, role, raw_return,
    score, score_deterministic, score_likely, mean_length, env_steps, train_s, wall_s, finished_at,
    termination_rate, success_rate, score_one, path. Scores are 0 for random actions and 1 for the
    expert, `score_likely` for its most likely actions; `path` is the folder that
    `imitbench.load_policy` takes, empty where the policy was not published. `failures` has the
    failed runs, with phase, error_type, message.

    Args:
        out: Results folder or published results, or several of them; `published` for the results
            that ship with this package. Published results are only read.
        table: `scores`; `latest` for only the runs of the latest setting of every cell, which
            reports show; `failures`, and `latest_failures` for those of the latest setting;
            `curves` and `episodes`, which have several rows per run; `measures`; `references`;
            `external_scores` for imported results; or `reward_board` for what
            `imitbench rewards evaluate` measured on the rewards of the latest runs.
        suite: Suites to select; `None` for all.
        env: Selects environments whose id matches one of these shell-style patterns.
        algo: Selects algorithms whose name, with or without its variant, matches one of these
            patterns.

    Raises:
        InputError: There are no results, or no such table.
    """
    if table not in get_args(Table):
        raise InputError(f"table {table}: no such table; {did_you_mean(table, get_args(Table))}")

    from imitbench.published.opening import open_results
    from imitbench.store import database

    with open_results(_results_paths(out), notify=note) as connection:
        return database.read_frame(connection, table, selection=Selection.of(suite, env, algo))


@overload
def report(
    out: ResultsPaths = ...,
    format: TextFormat = ...,
    to: AnyPath | None = ...,
    *,
    suite: Names = ...,
    env: Names = ...,
    algo: Names = ...,
    failed_runs: Literal["exclude", "count-as-random"] = ...,
    acting: ActingChoice | None = ...,
    replicates: int = ...,
    external: bool = ...,
    captions: bool = ...,
) -> str: ...
@overload
def report(
    out: ResultsPaths = ...,
    *,
    format: PlotFormat,
    to: AnyPath,
    suite: Names = ...,
    env: Names = ...,
    algo: Names = ...,
    failed_runs: Literal["exclude", "count-as-random"] = ...,
    acting: ActingChoice | None = ...,
    replicates: int = ...,
    external: bool = ...,
    figures: Sequence[str] = ...,
) -> list[Path]: ...
@overload
def report(
    out: ResultsPaths = ...,
    *,
    format: None,
    to: AnyPath | None = ...,
    suite: Names = ...,
    env: Names = ...,
    algo: Names = ...,
    failed_runs: Literal["exclude", "count-as-random"] = ...,
    acting: ActingChoice | None = ...,
    replicates: int = ...,
    external: bool = ...,
) -> Report: ...
def report(
    out: ResultsPaths = DEFAULT_OUT,
    format: TextFormat | PlotFormat | None = "md",
    to: AnyPath | None = None,
    *,
    suite: Names = None,
    env: Names = None,
    algo: Names = None,
    failed_runs: Literal["exclude", "count-as-random"] = "exclude",
    acting: ActingChoice | None = None,
    replicates: int = 50_000,
    external: bool = False,
    figures: Sequence[str] = (),
    captions: bool = True,
) -> str | list[Path] | Report:
    """Reports raw returns, normalized scores, mean and IQM with 95% intervals.

    Args:
        out: Results folders and published results, as for `results`.
        format: `md` (or `markdown`), `text` (aligned columns), `html`, `csv`, `latex`, `paper` (a
            LaTeX table of algorithms by environments) or `json` for text; `png`, `svg` or `pdf`
            for plots; `None` for the report itself, a record that notebooks show as tables.
        to: File to which the text is also written; for plots, their folder.
        suite: Suites to report on; `None` for all.
        env: Selects environments, as for `results`.
        algo: Selects algorithms; the random and the expert policy are always among them.
        failed_runs: How failed runs count.
        acting: Ways of acting to show, as for `compare`.
        replicates: Number of bootstrap replicates.
        external: Whether to show imported results, in separate tables.
        figures: Shell-style patterns of the plots to draw: `intervals`, `profiles`, `improvement`,
            `curve-METRIC`; all if empty.
        captions: Whether tables of format `paper` have captions.

    Returns:
        The text; for plots, the paths of the files; or the record.

    Raises:
        InputError: There are no results, a value is not accepted, or a file cannot be written.
    """
    from imitbench.report import build as building
    from imitbench.report import formats
    from imitbench.report.notebook import ShownReport
    from imitbench.report.plots import check_figures
    from imitbench.stats.coverage import FailurePolicy

    check_choice("format", format, (*get_args(formats.ReportFormat), None))
    check_choice("failed_runs", failed_runs, [policy.value for policy in FailurePolicy])
    check_choice("acting", acting, (*get_args(ActingChoice), None))
    _check_statistics(replicates)
    if formats.is_plot(format) and to is None:
        raise InputError(f"format {format}: needs a folder: to='plots'")
    if figures and not formats.is_plot(format):
        raise InputError(f"figures: works only with {' or '.join(get_args(formats.PlotFormat))}")
    check_figures(figures)
    paths = _results_paths(out)
    built = building.build(
        paths,
        notify=note,
        selection=Selection.of(suite, env, algo),
        replicates=replicates,
        failed_runs=failed_runs,
        with_imported=external,
        acting=acting,
    )
    if format is None:
        return ShownReport.of(built)
    if formats.is_plot(format):
        return formats.plot(built, paths, format, Path(str(to)), figures)
    text = formats.render(built, paths, format, captions=captions)
    if to is not None:
        try:
            write_output(Path(to), text)
        except OSError as error:
            raise InputError(f"to {to}: cannot be written ({error.strerror})") from error
    return text


@dataclass(frozen=True)
class Comparison:
    """Verdicts on an algorithm; `str` gives the text of `imitbench compare`.

    Attributes:
        contests: One comparison for each suite, budget, number and source of demonstrations;
            their numbers must not be mixed.
        options: Settings of the comparisons.
    """

    contests: list[PairwiseComparison]
    options: PairwiseOptions

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts of all comparisons; `decision` is `better`, `worse` or `undecided`."""
        return [verdict for comparison in self.contests for verdict in comparison.verdicts]

    def as_document(self) -> dict[str, Any]:
        """Returns the document that `imitbench compare --json` prints."""
        from imitbench.report.pairwise_text import pairwise_document

        return pairwise_document(self.contests, self.options)

    def _repr_html_(self) -> str:
        from imitbench.report.notebook import comparison_html

        return comparison_html(self.contests, self.options)

    def __str__(self) -> str:
        from imitbench.report import pairwise_text

        lines = []
        for comparison in self.contests:
            lines += pairwise_text.heading(comparison)
            for verdict in comparison.verdicts:
                lines += pairwise_text.summary(comparison, verdict)
        return "\n".join([*lines, pairwise_text.method_text(self.options, self.contests)])


def compare(
    algorithm: str,
    baseline: str | Sequence[str] | None = None,
    *,
    out: ResultsPaths = DEFAULT_OUT,
    against: ResultsPaths | None = None,
    suite: Names = None,
    env: Names = None,
    algo: Names = None,
    budget: str | None = None,
    failed_runs: Literal["either", "exclude", "count-as-random"] = "either",
    acting: ActingChoice | None = None,
    level: float = 0.95,
    replicates: int = 50_000,
) -> Comparison:
    """Decides whether an algorithm is better or worse than others, or whether that is undecided.

    Args:
        algorithm: Name of the algorithm to compare.
        baseline: Names of algorithms to compare it with; `None` for all other methods.
        out: Results folder, published results, a database, a CSV table, or the `leaderboard.json`
            of a leaderboard; or several of them.
        against: Separate results of the baselines, in these forms, or `published` for the results
            that ship with this package; the default baseline is then `algorithm` itself, if it is
            among them. If there is no folder `runs` and `out` is not given, `algorithm` is the one
            in `against`.
        suite: Suites to select, `None` for all; the references of one also give tables without
            scores their scores.
        env: Selects environments whose id matches one of these shell-style patterns.
        algo: Only compares with algorithms whose name matches one of these patterns.
        budget: Name of the budget to select; `None` for all.
        failed_runs: How failed runs count; with `either`, the verdict must not depend on it.
        acting: `sampled` actions, the most `likely` ones (with those of the expert as score 1), or
            `both`: a verdict must hold in both ways. `None` for both where the return of the
            expert's most likely actions is known.
        level: Confidence level of intervals, in (0, 1).
        replicates: Number of bootstrap replicates.

    Raises:
        InputError: A name has no runs, no conditions are shared, or a value is not accepted.
    """
    from imitbench.report.build import compare_results
    from imitbench.report.pairwise import PairwiseOptions
    from imitbench.stats.coverage import FailurePolicy

    check_choice(
        "failed_runs", failed_runs, ["either", *(policy.value for policy in FailurePolicy)]
    )
    check_choice("acting", acting, (*get_args(ActingChoice), None))
    _check_statistics(replicates, level)
    policy = None if failed_runs == "either" else FailurePolicy(failed_runs)
    options = PairwiseOptions(policy=policy, acting=acting, level=level, replicates=replicates)

    found = compare_results(
        algorithm,
        split_names("--baseline", baseline),
        _results_paths(out),
        [] if against is None else _results_paths(against),
        options,
        notify=note,
        selection=Selection.of(suite, env, algo),
        budget=budget,
        own_optional=out == DEFAULT_OUT,
    )
    return Comparison(found, options)


def load_policy(run: Any, *, out: AnyPath = DEFAULT_OUT, device: str = "cpu") -> BasePolicy:
    """Loads the policy of a run.

    Args:
        run: Id of a run or its start; the folder of a run or policy; a row of `results`; a bundled
            expert; or a hub repository `owner/name`.
        out: Results folder in which ids are looked up.
        device: Device of the policy.

    Returns:
        The policy, with the `predict` of Stable-Baselines3.

    Raises:
        InputError: There is no such policy, or it was not published.
    """
    from imitbench.experts.loading import load_run_policy

    return load_run_policy(run, out=Path(out), device=device)


def load_reward(
    run: Any,
    *,
    out: AnyPath = DEFAULT_OUT,
    device: str = "cpu",
    plugin: str | None = None,
    trust: bool = False,
) -> RewardNet:
    """Loads the reward network that a run learned, as GAIL, AIRL and others do.

    Args:
        run: Id of a run or its start; the folder of a run; or a row of `results`.
        out: Results folder in which ids are looked up.
        device: Device of the network.
        plugin: The plug-in method, such as `./my_method`, whose source defines a class of the
            network; it is imported.
        trust: Whether that source may have changed since the run.

    Returns:
        The network; its `predict` and `predict_processed` give rewards of transitions.

    Raises:
        InputError: There is no such run, or it has no reward.
    """
    from imitbench.experts.loading import load_run_reward

    return load_run_reward(run, out=Path(out), device=device, plugin=plugin, trust=trust)


def _results_paths(given: ResultsPaths) -> list[Path]:
    from imitbench.published.opening import results_location

    paths = [given] if isinstance(given, (str, PathLike)) else given
    return [results_location(path) for path in paths]


def _check_statistics(replicates: int, level: float = 0.95) -> None:
    from imitbench.stats.bootstrap import check_options

    try:
        check_options(replicates, level)
    except ValueError as error:
        raise InputError(str(error)) from error
