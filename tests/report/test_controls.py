"""Controls are shown separately, and notes say what score the environment alone gives."""

import csv
import io
import math
import re

import pytest

from imitbench.cards.catalog import load_suite, suite_names
from imitbench.report.comparison_runs import own_entries, table_entries
from imitbench.report.data_formats import render_csv
from imitbench.report.html_page import render_html
from imitbench.report.latex import render_latex
from imitbench.report.markdown import render_markdown
from imitbench.report.model import ANCHORS, color_numbers
from imitbench.report.notes import GIVEN_AWAY
from imitbench.report.pairwise import PairwiseOptions, compare_pairwise
from imitbench.report.section_comparison import compare_section
from imitbench.report.tables import build_report
from imitbench.report.terminal import render_short
from imitbench.store.external_results import ExternalRun

TAUGHT_NOTHING = {"n_demos": None, "all_demos": None, "source": None}


@pytest.fixture
def controlled(rows, references, make_score):
    """Makes the report with runs of controls on CartPole; lengths follow returns on request."""

    def make(returns, *, lengths=True, **algorithms):
        found = [
            make_score(
                algo,
                "CartPole",
                seed,
                raw,
                mean_length=raw if lengths else 200.0,
                uses_reward=algo == "ppo_true_reward",
                **TAUGHT_NOTHING,
            )
            for algo, values in {"constant_plus": returns, **algorithms}.items()
            for seed, raw in enumerate(values)
        ]
        return build_report([*rows, *found], [], references, replicates=200)

    return make


@pytest.mark.parametrize("role", ["reference", "control"])
def test_the_role_comes_from_the_record_not_the_name(rows, references, make_score, role):
    names = ("mine", "mine[gamma=0.9]", "mine (someone)")
    found = [make_score(name, "CartPole", 0, 500.0, role=role) for name in names]
    (section,) = build_report([*rows, *found], [], references, replicates=200).sections
    roles = {result.algorithm: result.role for result in section.algorithms}
    assert {name for name, own in roles.items() if own == role} == set(names)
    named = {result.algorithm for result in section.algorithms[:2]}
    assert named == {"bc", "gail"}  # a score of 1 does not put it before methods


def test_a_failed_control_is_a_control(rows, references, make_failure):
    failure = make_failure("mine", "CartPole", 0, role="control")
    (section,) = build_report(rows, [failure], references, replicates=200).sections
    assert {each.algorithm: each.role for each in section.algorithms}["mine"] == "control"


def test_a_table_has_roles_or_names_of_this_package():
    runs = [
        ExternalRun(place=str(place), status="completed", algo=algo, env="A", score=0.5,
                    provenance={"role": role} if role else {})
        for place, (algo, role) in enumerate(
            [("zero_reward[gamma=0.9]", None), ("mine", "control"), ("mine", None), ("a", "x")]
        )
    ]  # fmt: skip
    roles = [entry.role for entry in table_entries(runs)]
    assert roles == ["control", "control", "method", "method"]


def test_they_follow_the_methods_however_they_score(controlled):
    report = controlled([500.0] * 3, zero_reward=[20.0] * 3)
    (section,) = report.sections
    names = [result.algorithm for result in section.algorithms]
    assert names == ["bc", "gail", "zero_reward", "constant_plus", *ANCHORS]


def test_every_format_marks_them(controlled):
    report = controlled([480.0] * 3)
    assert "| constant_plus (control) |" in render_markdown(report)
    assert "constant\\_plus (control)" in render_latex(report)
    assert "constant_plus (control)  " in render_short(report)
    assert 'plus</span><span class="mark">control</span>' in render_html(report)
    rows = list(csv.DictReader(io.StringIO(render_csv(report))))
    roles = {row["algorithm"]: row["role"] for row in rows}
    assert roles["bc"] == "method"
    assert roles["constant_plus"] == "control"
    assert roles["random"] == "anchor"


def test_a_reference_is_unranked_between_methods_and_controls(controlled):
    """A reference that uses the true reward has no rank, for any score."""
    report = controlled([20.0] * 3, ppo_true_reward=[500.0] * 3)
    (section,) = report.sections
    names = [result.algorithm for result in section.algorithms]
    assert names == ["bc", "gail", "ppo_true_reward", "constant_plus", *ANCHORS]
    assert "| ppo_true_reward (reference, uses reward) |" in render_markdown(report)
    marks = re.compile(
        'reward</span> ?<span class="mark">reference</span> ?<span class="mark">uses'
    )
    assert marks.search(render_html(report))
    assert compare_section(section, report.method).algorithms == ("bc", "gail")
    assert set(color_numbers(report)) == {"bc", "gail"}
    rows = csv.DictReader(io.StringIO(render_csv(report)))
    roles = {row["algorithm"]: row["role"] for row in rows}
    assert roles["ppo_true_reward"] == "reference"


def test_they_take_part_in_no_comparison(controlled):
    report = controlled([480.0] * 3)
    (section,) = report.sections
    assert compare_section(section, report.method).algorithms == ("bc", "gail")
    assert set(color_numbers(report)) == {"bc", "gail"}
    [cost] = [table for table in section.extra if table.title == "Cost"]
    assert {row[0].shown for row in cost.rows} == {"bc", "gail"}
    entries = own_entries(section.runs, [])
    [comparison] = compare_pairwise("bc", entries, entries, [], PairwiseOptions(replicates=50))
    assert [verdict.second for verdict in comparison.verdicts] == ["gail"]


def test_a_failed_anchor_counts_once_and_not_where_its_seed_completed(make_score, make_failure):
    budgets = ("quick", "default")
    scores = [make_score("random", "CartPole", 0, 20.0)]
    failures = [
        make_failure("random", "CartPole", seed, budget=budget, **TAUGHT_NOTHING)
        for seed in (0, 1)
        for budget in budgets
    ]
    failures += [make_failure("bc", "CartPole", 0, budget=budget) for budget in budgets]
    entries = own_entries(scores, failures)
    assert [(run.algo, run.conditions.budget, run.score) for run in entries] == [
        ("random", None, 0.0),
        ("random", None, None),
        ("bc", "quick", None),
        ("bc", "default", None),
    ]


@pytest.mark.parametrize(
    ("lengths", "why"),
    [
        (True, "surviving or ending early is rewarded there under any reward function"),
        (False, "training alone is worth that much there under any reward function"),
    ],
)
def test_a_score_that_the_environment_alone_gives_is_noted(controlled, lengths, why):
    (section,) = controlled([260.0, 250.0, 270.0], lengths=lengths).sections
    reach = 4.302653 * (10 / 480) / math.sqrt(3)  # Student's, for three runs
    low, high = 0.5 - reach, 0.5 + reach
    expected = f"constant_plus (control) scores 0.500 [{low:.3f}, {high:.3f}] on CartPole: {why}."
    assert expected in section.notes


@pytest.mark.parametrize(
    "returns",
    [
        [20.0, 25.0, 15.0],  # chance
        [60.0, 62.0, 58.0],  # above chance, but within the error of its reference
        [20.0, 500.0, 260.0],  # not certain with three runs
        [500.0],  # one run has no interval
    ],
)
def test_nothing_is_noted_without_confidence(controlled, returns):
    (section,) = controlled(returns).sections
    assert not any("constant_plus (control) scores" in note for note in section.notes)


@pytest.mark.parametrize("suite", suite_names())
def test_the_margin_is_beyond_the_error_of_every_random_reference(suite):
    for env_id, card in load_suite(suite).environments.items():
        if card.references is None:
            continue
        random = card.references.random
        error = random.std / math.sqrt(random.episodes) / (card.scale.one - random.mean)
        assert 2 * error < GIVEN_AWAY, env_id


def test_low_scores_of_the_quick_budget_are_explained(rows, references, make_score):
    low = [make_score("mine", "CartPole", seed, 30.0) for seed in (0, 1)]
    for found, named in (([*rows, *low], True), (rows, False)):
        (section,) = build_report(found, [], references, replicates=200).sections
        said = [note for note in section.notes if "the budget quick is for trying out" in note]
        assert [note.startswith("Scores of mine are low") for note in said] == [True] * named
