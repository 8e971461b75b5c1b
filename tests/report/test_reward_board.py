"""The reward board: means over learned rewards, as a table and as a figure."""

import pytest
from scipy import stats

from imitbench.records.reward_scores import RewardScoreRow
from imitbench.records.runs import RunRow
from imitbench.report.html_charts import reward_chart
from imitbench.report.html_page import render_html
from imitbench.report.report_tables import section_tables
from imitbench.report.reward_board import (
    CAPTION,
    inconclusive,
    reward_board,
    reward_summaries,
    reward_table,
    summary_table,
)
from imitbench.report.tables import build_report

VALUES = {"learner": (0.9, 0.7), "reoptimized_ppo": (0.5, 0.3), "true_reward_ppo": (1.0, 1.0)}
MOVED = {"heavier": (0.2, 0.2), "longer": (0.4, 0.6)}


@pytest.fixture
def runs(make_score):
    return [make_score("airl", "Pendulum", seed, -300.0) for seed in (0, 1)]


@pytest.fixture
def numbers(runs):
    """Numbers about the rewards of two runs of AIRL, where they were learned and elsewhere."""

    def row(run, behavior, value, tested_in=None, measure="score"):
        shared = {name: getattr(run, name) for name in RunRow.model_fields}
        return RewardScoreRow(
            **shared, measure=measure, behavior=behavior, tested_in=tested_in,
            value=value, low=value - 0.1, high=value + 0.1,
        )  # fmt: skip

    found = []
    for run in runs:
        found += [row(run, name, own[run.seed]) for name, own in VALUES.items()]
        found += [row(run, "reoptimized_ppo", own[run.seed], e) for e, own in MOVED.items()]
        found += [row(run, "learner", 0.1, env) for env in MOVED]
        found += [row(run, "reoptimized_ppo", 0.25, measure="hacking_gap")]
        found += [row(run, "all", 0.5, measure="epic")]
    return found


def test_a_row_has_means_over_rewards_with_students_interval(numbers):
    same, heavier, longer = reward_board(numbers)
    assert [row.tested_in for row in (same, heavier, longer)] == [None, *MOVED]
    assert same.rewards == 2
    learner = same.scores["learner"]
    low, high = stats.t.interval(0.95, 1, 0.8, 0.1)  # mean 0.8, standard error 0.1
    assert (learner.point, learner.low, learner.high) == pytest.approx((0.8, low, high))
    true = same.scores["true_reward"]  # the same policies for both rewards
    assert (true.point, true.low, true.high) == (1.0, 0.9, 1.1)
    assert same.scores["hacking_gap"].point == pytest.approx(0.25)
    assert longer.scores["reoptimized"].point == pytest.approx(0.5)
    assert set(longer.scores) == {"learner", "reoptimized", "gain"}


def test_the_gain_is_of_the_same_reward(numbers, runs):
    same, _, longer = reward_board(numbers)
    gain = same.scores["gain"]  # -0.4 of both rewards
    assert (gain.point, gain.low, gain.high) == pytest.approx((-0.4, -0.4, -0.4))
    gain = longer.scores["gain"]  # 0.3 and 0.5
    assert (gain.point, gain.low, gain.high) == pytest.approx(
        (0.4, *stats.t.interval(0.95, 1, 0.4, 0.1))
    )
    unknown = [row for row in numbers if (row.run_id, row.behavior) != (runs[0].run_id, "learner")]
    same, *_ = reward_board(unknown)
    assert same.scores["gain"].point == pytest.approx(-0.4)  # of the reward with both


def test_a_single_reward_has_no_interval(numbers, runs):
    [same, *_] = reward_board(row for row in numbers if row.run_id == runs[0].run_id)
    assert same.rewards == 1
    assert not same.scores["learner"].known
    assert [cell.shown for cell in reward_table([same]).rows[0]][4] == "0.900"


def elsewhere(numbers, **changes):
    """The same numbers about rewards of the same algorithm in another environment."""
    return [
        row.model_copy(
            update={
                "env": "CartPole",
                "run_id": f"other {row.run_id}",
                **(changes if row.measure == "score" else {}),
            }
        )
        for row in numbers
    ]


def test_over_environments_rewards_count_with_their_mean_over_other_dynamics(numbers, runs):
    assert reward_summaries(numbers) == ()
    [summary] = reward_summaries([*numbers, *elsewhere(numbers, value=0.6)])
    assert (summary.algorithm, summary.environments, summary.rewards) == ("airl", 2, 4)
    points = {name: interval.point for name, interval in summary.scores.items()}
    # On Pendulum 0.8, 0.4, 1.0, 0.1, (0.2 + 0.5) / 2 and (0.1 + 0.4) / 2; on CartPole all 0.6.
    assert points == pytest.approx(
        {"learner": 0.7, "reoptimized": 0.5, "true_reward": 0.8, "unchanged": 0.35,
         "transferred": 0.475, "gain": 0.125}
    )  # fmt: skip
    t = 0.125 / (0.05 / 2)  # the gains are 0.2 and 0.3 on Pendulum, and 0 on CartPole
    assert summary.gain_p == pytest.approx(2 * stats.t.sf(t, 1))
    learner = summary.scores["learner"]  # only Pendulum's two rewards differ, by 0.2
    low, high = stats.t.interval(0.95, 1, 0.7, 0.1 / 2)
    assert (learner.low, learner.high) == pytest.approx((low, high))
    transferred = summary.scores["transferred"]  # 0.3 and 0.4 on Pendulum
    low, high = stats.t.interval(0.95, 1, 0.475, 0.05 / 2)
    assert (transferred.low, transferred.high) == pytest.approx((low, high))


def test_algorithms_of_fewer_environments_are_summarized_last(numbers):
    better = [row.model_copy(update={"algo": "best", "value": 2.0}) for row in numbers]
    table = summary_table(reward_summaries([*numbers, *elsewhere(numbers), *better]))
    assert [[cell.shown for cell in row[:2]] for row in table.rows] == [
        ["airl", "2 of 2"],
        ["best", "1 of 2"],
    ]
    assert "come last" in table.caption
    alone = [row for row in [*numbers, *elsewhere(numbers)] if row.tested_in is None]
    headings = [column.heading for column in summary_table(reward_summaries(alone)).columns]
    assert "Re-optimized" in headings and "Transferred" not in headings
    assert (
        "come last" not in summary_table(reward_summaries([*numbers, *elsewhere(numbers)])).caption
    )


def test_optimizers_are_told_apart_where_there_are_several(numbers):
    other = [
        row.model_copy(update={"behavior": row.behavior.replace("ppo", "sac"), "value": 0.0})
        for row in numbers
        if row.behavior.endswith("ppo")
    ]
    table = reward_table(reward_board([*numbers, *other]))
    trained_by = [column.heading for column in table.columns].index("Trained by")
    assert [row[trained_by].shown for row in table.rows[:2]] == ["PPO", "SAC"]
    # The policy that came along is the same for both.
    assert table.rows[0][5].shown == table.rows[1][5].shown
    drawn = str(reward_chart(reward_board([*numbers, *other])))
    assert "on Pendulum, by PPO: came along 0.800" in drawn
    assert "transferred 0.350, from 0.200 to 0.500" in drawn  # of PPO's policies only
    assert "transferred 0.000" in drawn
    alone = reward_table(reward_board(numbers)).columns
    assert "Trained by" not in [each.heading for each in alone]


def test_reports_have_the_board_where_policies_were_trained(numbers, runs, references):
    report = build_report(runs, [], references, rewards=numbers, replicates=200)
    [section] = report.sections
    [table] = [each for each in section_tables(section, report) if each.title == "Reward board"]
    assert [row[2].shown for row in table.rows] == ["the same", *MOVED]
    page = render_html(report)
    assert 'href="#s0-rewards">Reward board</a>' in page
    assert "re-optimized 0.400" in page
    assert CAPTION in page.replace("&#x27;", "'")
    without = build_report(runs, [], references, replicates=200)
    assert "Reward board" not in render_html(without)
    both = build_report(runs, [], references, rewards=[*numbers, *elsewhere(numbers)])
    page = render_html(both)
    assert 'href="#s0-rewards-overall">Reward board</a>' in page
    assert page.count('id="s0-rewards-overall"') == page.count('id="s0-rewards"') == 1
    agreement = [row for row in numbers if row.measure == "epic"]
    assert (
        not build_report(runs, [], references, rewards=agreement, replicates=200)
        .sections[0]
        .rewards
    )


def test_nothing_is_concluded_where_the_true_reward_is_not_learned_from(numbers):
    assert inconclusive(reward_board(numbers)) == ""
    weak = [
        row.model_copy(update={"value": 0.1}) if row.behavior == "true_reward_ppo" else row
        for row in numbers
    ]
    found = reward_board(weak)
    assert "score below 0.2 themselves: Pendulum (PPO: 0.100); use" in inconclusive(found)
    assert reward_table(found).caption == f"{CAPTION} {inconclusive(found)}"


def test_the_figure_has_three_marks_for_each_algorithm(numbers):
    drawn = str(reward_chart(reward_board(numbers)))
    assert drawn.count('class="strip tall"') == 1
    assert drawn.count('class="dot"') == 3
    title = "airl on Pendulum: came along 0.800"
    assert title in drawn
    # Transferred: the mean over environments, from the worst to the best.
    assert "transferred 0.350, from 0.200 to 0.500" in drawn
    only = str(reward_chart(reward_board([row for row in numbers if row.tested_in is None])))
    assert only.count('class="dot"') == 2
    assert "transferred n/a" in only
