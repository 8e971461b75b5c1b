"""A leaderboard and a report as pages, with failures, an import, and a name like markup."""

from imitbench.published.results_sources import find_results
from imitbench.records.reward_scores import (
    OptimizationProtocol,
    RewardProtocol,
    RewardScore,
    RewardScores,
)
from imitbench.report.html_page import render_html
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.site import write_site
from imitbench.report.tables import build_report
from imitbench.store import database
from imitbench.store.collector import collect
from imitbench.store.external_results import ExternalRun, ImportedResults, write_external
from imitbench.store.run_details import read_details
from imitbench.store.run_dir import RunDirectory
from support.published import publish
from support.shown_results import SKILLS, write_results
from support.submissions import write_submitted_runs

ODD = "<img src=x onerror=boom()>|$_{}\\&amp;"
SUITE = "suites/classic.html"
TABLES = ["default--all--bundled", "quick--10--bundled"]  # the headline is first
_SKILLS = {**SKILLS, ODD: ((0.5, 0.1), (0.5, 0.1), (0.5, 0.1))}


def write_board(folder):
    """Writes the site of three submissions in two tables, and an import; returns its folder."""
    write_results(folder / "a", seeds=3, skills=_SKILLS, message=ODD, version="1",
                  failing=(("gail", "Pendulum-v1", 2), (ODD, "Pendulum-v1", 0)))  # fmt: skip
    write_submitted_runs(folder / "b", env=None, n_demos=10)
    write_rewards(folder / "b", ("gail",), elsewhere=())
    write_submitted_runs(folder / "c", algorithms=("bc", "random"), env=None, budget="default")
    for name in "abc":
        publish(folder / name, folder / "results" / f"team-{name}")
    runs = [
        ExternalRun(place=str(seed), status="completed", algo="bc", env="Pendulum-v1",
                    raw_return=-150.0, score=1.5, seed=seed)
        for seed in range(3)
    ]  # fmt: skip
    write_external(
        ImportedResults("csv", "t.csv", {}, runs), folder / "results", "paper", version="0"
    )
    found = find_results(folder / "results", external=True)
    board = build_board(found, title="Board", replicates=300)
    write_site(board, folder / "site", results=[folder / "results"])
    return folder / "site"


def write_rewards(out, algorithms, elsewhere=("heavier", "longer")):
    """Writes what the rewards of all runs of some algorithms are worth, here and elsewhere."""
    for name in algorithms:
        for path in sorted(out.glob(f"*/{name}/*/*/result.json")):
            directory = RunDirectory(path.parent)
            seed, result = directory.read_spec().seed, directory.read_result()
            values = {
                "learner": result.references.score(result.raw_return),
                "reoptimized_ppo": 0.5 + seed / 50,
                "true_reward_ppo": 0.9,
            }
            scores = [
                RewardScore(measure="score", behavior=policy, tested_in=where,
                            value=value - far, low=value - far - 0.1, high=value)
                for policy, value in values.items()
                for where, far in ((None, 0.0), *zip(elsewhere, (0.3, 0.1), strict=False))
            ]  # fmt: skip
            further = [
                RewardScore(measure=measure, behavior=behavior, value=0.1, low=0.0, high=0.2)
                for measure, behavior in (("hacking_gap", "reoptimized_ppo"), ("epic", "all"))
            ]
            protocol = RewardProtocol(optimization=OptimizationProtocol())
            directory.write_reward_scores(
                RewardScores(run_id=path.parent.name, protocol=protocol,
                             scores=(*scores, *further), imitbench="0.1.0")
            )  # fmt: skip


def write_report(folder):
    """Writes the report on a small benchmark; returns its file."""
    failing = (("gail", "Pendulum-v1", 4), (ODD, "Pendulum-v1", 0))
    write_results(folder / "runs", skills=_SKILLS, failing=failing, message=ODD)
    write_rewards(folder / "runs", ("gail", "preference_comparisons"))
    collect(folder / "runs")
    with database.reader(folder / "runs") as connection:
        report = build_report(
            database.read_scores(connection),
            database.read_failures(connection),
            database.read_references(connection),
            database.read_measures(connection),
            rewards=database.read_reward_scores(connection),
            replicates=500,
        )
        page = render_html(report, read_details(connection))
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path
