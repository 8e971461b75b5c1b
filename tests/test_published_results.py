"""The published results are valid, and the tables in the documents are derived from them."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.score_tables import ablation_table, cost_table, score_cell, score_table

from imitbench.cards.catalog import load_suite
from imitbench.cards.tuned import read_tuned
from imitbench.published.alarms import FRESH
from imitbench.published.results_sources import find_results, read_source
from imitbench.published.submission import is_submission
from imitbench.published.validation import validate
from imitbench.records.bundled_cards import likely_score
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.data_formats import render_json, render_section
from imitbench.report.leaderboard.site import write_site
from imitbench.report.markdown import laid_out, table
from imitbench.report.reward_board import summary_table
from imitbench.stats.normalization import normalize

REPLICATES = 50_000
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
SUBMISSIONS = sorted(path for path in RESULTS.iterdir() if is_submission(path))
ABLATIONS = sorted(path for path in (ROOT / "ablations").iterdir() if is_submission(path))


@pytest.fixture(scope="module")
def found():
    return find_results(RESULTS, external=True)


@pytest.fixture(scope="module")
def board(found):
    return build_board(found, title="Leaderboard", replicates=REPLICATES)


@pytest.mark.parametrize("folder", SUBMISSIONS, ids=lambda path: path.name)
def test_published_results_are_valid(found, folder):
    [source] = [source for source in found.sources if source.name == folder.name]
    assert source.failed == source.alarms == ()
    assert source.runs


@pytest.mark.parametrize("folder", ABLATIONS, ids=lambda path: path.name)
def test_ablations_are_valid(folder):
    assert not validate(folder).failed


def test_published_results_share_no_runs(found):
    assert [note for note in found.notes if note.startswith("warning: ")] == []


def test_published_results_name_no_machine_or_absolute_path():
    for folder in SUBMISSIONS + ABLATIONS:
        manifest = json.loads((folder / "manifest.json").read_text())
        commands = [manifest["command"]]
        for made in manifest["provenances"].values():
            assert made["host"] == ""
            commands.append(made["command"])
        assert not [command for command in commands if " /" in command]


def test_what_is_wrong_with_earlier_tables_is_said_of_each():
    """Results of the registered table have fresh seeds alone."""
    page = (ROOT / "docs" / "earlier_tables.md").read_text()
    for folder in SUBMISSIONS:
        runs = [json.loads(line) for path in folder.glob("runs/*.jsonl")
                for line in path.read_text().splitlines()]  # fmt: skip
        if any(run["spec"]["seed"] < FRESH for run in runs):
            assert f"`{folder.name}`" in page


def test_every_published_folder_is_on_the_board(board):
    assert SUBMISSIONS
    assert {source.name for source in board.sources} == {path.name for path in SUBMISSIONS}
    assert all(row.checked for part in board.sections for row in part.rows)


def test_the_same_results_make_the_same_bytes(tmp_path):
    """Those of one folder with all parts of a board: others differ in numbers only."""
    folder = RESULTS / "imitbench-classic"
    for name in ("one", "two"):
        board = build_board(find_results(folder), title="Leaderboard", replicates=100)
        write_site(board, tmp_path / name, results=[folder])
    one, two = (
        {str(path.relative_to(tmp_path / name)): path.read_bytes()
         for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("one", "two")
    )  # fmt: skip
    assert one == two


def test_methods_change_places_with_the_way_of_acting(board):
    """What docs/results.md says of BC and DAC."""
    shared = "budget default, all demonstrations, source bundled"
    [part] = [part for part in board.of_suite("seals") if part.shared == shared]
    methods = [row for row in part.rows if row.rank is not None]
    keys = {row.name: row.result.algorithm for row in methods}
    names = {keys["bc"], keys["dac[tuned,pack=5]"]}
    [pair] = [pair for pair in part.pairs if set(pair) == names]
    found = [outcomes[pair].decision for outcomes in (part.pairs, part.likely_pairs)]
    assert found == ["undecided", "better" if pair[0] == keys["bc"] else "worse"]
    quiet = sorted(methods, key=lambda row: -row.result.iqm_likely.point)
    assert {row.name: row.rank for row in methods}["bc"] == 4
    assert [row.name for row in quiet[:3]] == ["airl", "iq_learn[tuned,pack=5]", "bc"]


def test_the_board_says_what_rewards_are_worth_over_environments(board):
    document = json.loads(render_json(board))
    [part] = [part for part in document["tables"] if part["reward_summaries"]]
    summaries = {row["algorithm"]: row for row in part["reward_summaries"]}
    assert summaries["airl[pack=5]"]["environments"] == 5
    assert summaries["airl[pack=5]"]["rewards"] == 50
    gain = summaries["ml_irl[pack=5]"]
    assert 0 < gain["gain_low"] < gain["gain"] < gain["gain_high"]
    assert summaries["csil[pack=5]"]["environments"] == 2
    [said] = [sentence for sentence in part["answer"] if sentence.startswith("Rewards")]
    more, less = said.split(" score more than the policies that came along")
    assert "preference_comparisons (by 0.171 [0.100, 0.242])" in more
    assert "ml_irl" in more and "iq_learn" in less
    # Its interval is above 0, but it is one of many.
    assert summaries["f_irl[pack=5]"]["gain_low"] > 0
    assert "f_irl" not in said


def tables_of(board):
    blocks = [block for part in board.sections for block in render_section(part, board)]
    return "\n\n".join(blocks)


def first_table_of(suite):
    def make(board):
        [part] = [
            part for part in board.of_suite(suite)
            if part.section.conditions.budget == "default"
            and part.section.conditions.n_demos == "all"
        ]  # fmt: skip
        return next(block for block in render_section(part, board) if block.startswith("|"))

    return make


LEFT_OUT = {"IQM, likely", "Demonstrations", "Environments", "Failed runs"}


def short_table_of(suite):
    """The rows that have a tier, with the most important columns."""

    def make(board):
        lines = first_table_of(suite)(board).splitlines()
        titles, *rows = [line.strip("|").split(" | ") for line in lines]
        kept = [index for index, title in enumerate(titles) if title.strip() not in LEFT_OUT]
        assert len(kept) == len(titles) - len(LEFT_OUT)
        return "\n".join(
            "| " + " | ".join(row[index].strip() for index in kept) + " |"
            for row in (titles, *rows)
            if row[0].strip()
        )

    return make


def runs_of(board, *names):
    return [run for source in board.sources if source.name in names for run in source.runs]


def generator_table(board):
    return score_table(
        ["environment", "ppo_true_reward", "ppo_true_reward[tuned]", "gail", "gail[tuned]"],
        runs_of(
            board,
            "imitbench-seals-gail-airl",
            "imitbench-seals-gail-tuned",
            "imitbench-seals-ppo",
            "imitbench-seals-ppo-tuned",
        ),
        lambda spec: (spec.environment.id,),
        lambda spec: spec.algo_label,
    )


def off_policy_table(board):
    gail = [
        run for run in runs_of(board, "imitbench-seals-gail-airl") if run.spec.algo == "gail"
    ]  # fmt: skip
    return score_table(
        ["environment", "dac[tuned,pack=5]", "bc", "gail", "airl"],
        gail + runs_of(board, "imitbench-seals", "imitbench-seals-airl", "imitbench-seals-dac"),
        lambda spec: (spec.environment.id,),
        lambda spec: spec.algo_label,
    )


def off_policy_on_classic(board):
    return score_table(
        ["method", "Pendulum-v1", "seals/CartPole-v0", "seals/MountainCar-v0"],
        runs_of(board, "imitbench-classic-off-policy"),
        lambda spec: (spec.algo,),
        lambda spec: spec.environment.id,
    )


def off_policy_on_seals(board):
    names = ["Ant", "HalfCheetah", "Hopper", "Swimmer", "Walker2d"]
    return score_table(
        ["method", *(f"seals/{name}-v1" for name in names)],
        runs_of(
            board,
            "imitbench-seals-dac",
            "imitbench-seals-iq-learn",
            "imitbench-seals-off-policy",
        ),
        lambda spec: (spec.algo,),
        lambda spec: spec.environment.id,
    )


def one_demonstration(board):
    return score_table(
        ["environment", "iq_learn"],
        runs_of(board, "imitbench-seals-iq-learn-demos"),
        lambda spec: (spec.environment.id,),
        lambda spec: spec.algo,
    )


def discount_table(runs):
    return score_table(
        ["method", "gamma=0.9", "gamma=0.99"],
        runs,
        lambda spec: (spec.algo,),
        lambda spec: f"gamma={spec.hyperparameters['gamma']}",
    )


def changes_table(algo):
    def make(board):
        del board  # it has no such runs
        both = ("off-policy-discount", "off-policy-values")
        runs = [run for name in both for run in read_source(ROOT / "ablations" / name).runs]
        return values_table(
            run
            for run in runs
            if run.spec.algo == algo and run.spec.hyperparameters["gamma"] == 0.9
        )

    return make


def values_table(runs):
    runs = list(runs)
    return score_table(
        ["changed", *sorted({run.spec.environment.id for run in runs})],
        runs,
        lambda spec: (_change(spec) or "nothing",),
        lambda spec: spec.environment.id,
    )


def _change(spec):
    common = {"tuned", "steps_per_update=2", "steps_per_update=4", "gamma=0.9", "pack=3"}
    return ", ".join(each for each in spec.variant.split(",") if each not in common)


def demonstrations_table(board):
    few = runs_of(board, "imitbench-seals-demos", "imitbench-seals-dac-demos")
    environments = {run.spec.environment.id for run in few}
    every = runs_of(board, "imitbench-seals", "imitbench-seals-gail-airl", "imitbench-seals-dac")
    return score_table(
        ["environment", "demonstrations", "bc", "gail", "airl", "dac[tuned,pack=5]"],
        few + [run for run in every if run.spec.environment.id in environments],
        lambda spec: (spec.environment.id, spec.demos.count),
        lambda spec: spec.algo_label,
    )


def search_table(board):
    del board  # the runs of a search are not published one by one
    found = read_tuned(ROOT / "algorithms" / "gail" / "tuned.yaml").environments
    environments = [env for env, each in found.items() if each.tuning.per == "suite"]
    tuning = found[environments[0]].tuning
    every = len(tuning.held_out_seeds)
    parts = [slice(index * every, (index + 1) * every) for index in range(len(environments))]
    body = [
        [env, score_cell(tuning.default.runs[part]), score_cell(tuning.tuned.runs[part])]
        for env, part in zip(environments, parts, strict=True)
    ]
    return table(["environment", "defaults", "found"], body, 1)


def rewards_table(board):
    """The last measurement of each training that `benchmarks/airl_rewards.py` followed."""
    del board  # it has no such runs
    found = []
    for path in sorted((ROOT / "ablations" / "airl-rewards").glob("*.jsonl")):
        last = json.loads(path.read_text().splitlines()[-1])
        known = load_suite("seals").environments[last["env"]].references
        scores = [
            normalize(last[f"return_{way}"], known.random.mean, one.mean)
            for way, one in (("sampled", known.expert), ("likely", known.expert_likely))
        ]
        numbers = [
            *scores,
            *(last[name] for name in ("learner_episodes", "expert_episodes", "steps")),
        ]
        found.append(
            [last["env"], ", ".join(last["changed"]), *(f"{each:.2f}" for each in numbers)]
        )
    columns = ["environment", "changed", "score, sampled", "score, likely",
               "learner to random", "expert to random", "steps"]  # fmt: skip
    return table(columns, sorted(found), names=2)


def correlations_table(package):
    """How well the rewards of AIRL's runs rank behavior: tasks by seeds."""

    def make(board):
        found = {
            (run.spec.environment.id, run.spec.seed): run.result.measures["reward_correlation"]
            for run in runs_of(board, package)
            if run.spec.algo_label == "airl"
        }
        tasks, seeds = (sorted(set(each)) for each in zip(*found, strict=True))
        body = [[task, *(f"{found[task, seed]:.2f}" for seed in seeds)] for task in tasks]
        return table(["environment", *(f"seed {seed}" for seed in seeds)], body, names=1)

    return make


def state_only_table(board):
    """AIRL with rewards of states and actions, and of states alone: means, and correlations."""
    found = {}
    for run in runs_of(board, "imitbench-seals-airl"):
        of = "states" if "reward_use_action=False" in run.spec.variant else "states and actions"
        found.setdefault((run.spec.environment.id, of), []).append(run)
    body = []
    for (task, of), runs in sorted(found.items()):
        assert len(runs) == 10
        result = [run.result for run in runs]
        scores = [each.references.score(each.raw_return) for each in result]
        likely = [
            likely_score(
                "seals", task, each.references, each.references.score(each.deterministic_return)
            )
            for each in result
        ]
        ranks = [each.measures["reward_correlation"] for each in result]
        numbers = (np.mean(scores), np.mean(likely), np.median(ranks), min(ranks))
        body.append([task, of, *(f"{number:.2f}" for number in numbers)])
    columns = ["environment", "reward of", "score, sampled", "score, likely",
               "correlation, median", "lowest"]  # fmt: skip
    return table(columns, body, names=2)


def learned_rewards_table(board):
    [part] = [part for part in board.of_suite("transfer") if part.section.reward_summaries]
    whole = summary_table(part.section.reward_summaries)
    left_out = {"On the true reward", "On the true reward elsewhere"}
    kept = [n for n, column in enumerate(whole.columns) if column.heading not in left_out]
    assert len(kept) == len(whole.columns) - len(left_out)
    columns, *rows = [tuple(line[n] for n in kept) for line in (whole.columns, *whole.rows)]
    return laid_out(replace(whole, columns=columns, rows=tuple(rows)))[0]


def ablation(name, make_table=ablation_table):
    def make(board):
        del board  # it has no such runs
        return make_table(read_source(ROOT / "ablations" / name).runs)

    return make


def test_the_text_says_how_far_fresh_policies_follow_learned_rewards():
    """Numbers of `docs/results.md` that no table has."""
    found = []
    for run in read_source(RESULTS / "imitbench-transfer").runs:
        if run.rewards is None or run.spec.budget.name != "default":
            continue
        by_key = {score.key: score.value for score in run.rewards.scores}
        learned = by_key.get(("learned_score", "reoptimized_ppo", None))
        if learned is not None and not run.spec.algo.endswith("_reward"):
            found.append((run, learned, by_key["score", "reoptimized_ppo", None]))
    low = [learned for _, learned, score in found if score < 0.5]
    every = [learned for _, learned, _ in found]
    shares = [round(100 * np.mean(np.array(part) >= 0.9)) for part in (every, low)]
    density = [
        np.mean(
            [
                learned
                for run, learned, _ in found
                if (run.spec.algo, run.spec.environment.id) == ("density", f"imitbench/{env}-v0")
            ]
        )
        for env in ("MountainCar", "CartPole")
    ]
    said = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    said = " ".join(said.split())
    assert f"of at least 0.9 on {shares[0]} % of the rewards, and on {shares[1]} % of the " in said
    assert f"{len(low)} rewards on which they score below 0.5" in said
    assert f"learned scores are {density[0]:.2f} and {density[1]:.2f}." in said


@pytest.mark.parametrize(
    ("page", "name", "make"),
    [
        ("docs/results.md", "demonstrations", demonstrations_table),
        ("docs/results.md", "learned-rewards", learned_rewards_table),
        ("docs/results_tables.md", "tables", tables_of),
        ("docs/off_policy.md", "classic", off_policy_on_classic),
        ("docs/off_policy.md", "every", off_policy_on_seals),
        ("docs/off_policy.md", "discount", ablation("off-policy-discount", discount_table)),
        ("docs/methods/airl.md", "correlations", correlations_table("imitbench-seals-airl")),
        (
            "docs/methods/airl.md",
            "earlier-correlations",
            correlations_table("imitbench-seals-gail-airl"),
        ),
        ("docs/methods/airl.md", "state-only", state_only_table),
        ("docs/methods/airl.md", "rewards", rewards_table),
        ("docs/methods/controls.md", "generator", generator_table),
        ("docs/methods/gail.md", "ablation", ablation("gail")),
        ("docs/methods/gail.md", "additions", ablation("gail-halfcheetah")),
        ("docs/methods/gail.md", "search", search_table),
        ("docs/methods/dac.md", "seals", off_policy_table),
        ("docs/methods/dac.md", "sizes", ablation("off-policy-sizes", cost_table)),
        ("docs/methods/iq_learn.md", "one", one_demonstration),
        (
            "docs/methods/iq_learn.md",
            "one-values",
            ablation("iq-learn-values", values_table),
        ),
        ("docs/methods/ls_iq.md", "ls-iq", ablation("ls-iq-targets", values_table)),
        ("docs/methods/ls_iq.md", "values", changes_table("ls_iq")),
        ("docs/methods/hype.md", "values", changes_table("hype")),
        ("docs/methods/pwil.md", "values", changes_table("pwil")),
        ("docs/methods/adril.md", "adril", ablation("adril-halfcheetah", values_table)),
        ("README.md", "classic", short_table_of("classic")),
        ("README.md", "seals", short_table_of("seals")),
    ],
)
def test_tables_in_the_documents_are_those_of_the_board(board, page, name, make):
    path, start, end = ROOT / page, f"<!-- {name}: start -->", f"<!-- {name}: end -->"
    before, _, rest = path.read_text(encoding="utf-8").partition(start)
    _, _, after = rest.partition(end)
    due = f"{before}{start}\n\n{make(board)}\n\n{end}{after}"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(due, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == due, "UPDATE_GOLDEN=1 writes the tables again"
