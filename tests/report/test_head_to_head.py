"""The data of the pages on which methods are compared, and the links to them."""

import json
import re
from dataclasses import replace
from itertools import combinations, permutations
from urllib.parse import parse_qs

import numpy as np
import pytest
from support import shown_results
from support.boards import scored_by
from support.published import publish
from support.shown_results import SKILLS, write_results
from support.submissions import write_submitted_runs

import imitbench
from imitbench.cards.catalog import load_suite
from imitbench.published.results_sources import find_results
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.head_to_head import (
    STEPS,
    compared_rows,
    head_link,
    head_page,
    payload,
    render_head_to_head,
)
from imitbench.report.leaderboard.model import Board
from imitbench.report.leaderboard.site import write_site
from imitbench.report.leaderboard.standings import scores_of
from imitbench.report.model import StatisticsSettings
from imitbench.stats.coverage import FailurePolicy
from imitbench.stats.significance import welch
from imitbench.stats.verdicts import verdicts

ODD = "<!--<script><img src=x onerror=boom()>&"
FEWER = {"bc": ((0.6, 0.02), (0.5, 0.06), (0.4, 0.1)), "gail": ((0.5, 0.1),) * 3}


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """A table of five methods, one of which fails, and one with fewer demonstrations."""
    out = tmp_path_factory.mktemp("runs")
    skills = {**SKILLS, ODD: ((0.5, 0.1), (0.5, 0.1), (0.5, 0.1))}
    write_results(out, seeds=6, skills=skills)
    usual = shown_results._spec

    def fewer(*cell):
        spec = usual(*cell)
        return spec.model_copy(update={"demos": spec.demos.model_copy(update={"count": 2})})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shown_results, "_spec", fewer)
        write_results(out, seeds=3, skills=FEWER, failing=())
    return build_board(find_results(out), title="Board", replicates=1000)


@pytest.fixture(scope="module")
def data(board):
    return payload(board, "classic")


def table_of(data, words):
    [found] = [table for table in data["tables"] if words in table["title"]]
    return found


def by_key(table):
    return {entry["key"]: entry for entry in table["entries"]}


def pairs_of(table):
    return dict(zip(combinations(by_key(table), 2), table["pairs"], strict=True))


def test_verdicts_are_those_of_single_comparisons(board, data):
    table = table_of(data, "10 demonstrations")
    part = next(p for p in board.sections if p.section.conditions.n_demos == 10)
    rows = compared_rows(part)
    decided = 0
    for (first, second), found in pairs_of(table).items():
        decision, lacking, environments, *numbers = found
        expected = []
        for policy in FailurePolicy:
            one, other = (scores_of(rows[name], policy) for name in (first, second))
            [verdict] = verdicts(first, one, {second: other}, replicates=1000)
            expected.append(verdict)
        [counted, excluded] = expected
        agreed = counted.decision if counted.decision == excluded.decision else "undecided"
        assert decision == {"better": 1, "worse": -1, "undecided": 0}[agreed]
        assert (lacking, environments) == (0, 3)
        assert numbers[0] == pytest.approx(counted.iqm.point)
        assert numbers[1:3] == pytest.approx([counted.iqm.low, counted.iqm.high], abs=0.05)
        assert numbers[3] == pytest.approx(counted.improvement.probability.point)
        decided += bool(decision)
    assert 0 < decided < len(table["pairs"])


def test_both_ways_of_acting_are_compared(tmp_path, monkeypatch):
    card = load_suite("classic")
    known = {
        env: (found.references.random.mean, found.references.expert.mean)
        for env, found in card.environments.items()
    }
    monkeypatch.setattr(shown_results, "REFERENCES", known)
    write_results(tmp_path, seeds=6, failing=(), version=card.version)
    [part] = build_board(find_results(tmp_path), title="Board", replicates=500).sections
    assert part.likely_pairs.keys() == part.pairs.keys()
    rows = compared_rows(part)
    for (first, second), found in part.likely_pairs.items():
        one, other = (
            scores_of(rows[name], FailurePolicy.EXCLUDE, "likely") for name in (first, second)
        )
        [verdict] = verdicts(first, one, {second: other}, replicates=500)
        assert (found.decision, found.iqm.point) == (verdict.decision, verdict.iqm.point)
    pendulum = [run.row for run in rows["bc"].runs if run.row.env == "Pendulum-v1"]
    expected = (
        pendulum[0].score_deterministic
        * (known["Pendulum-v1"][1] - known["Pendulum-v1"][0])
        / (card.environments["Pendulum-v1"].references.expert_likely.mean - known["Pendulum-v1"][0])
    )
    assert pendulum[0].score_likely == pytest.approx(expected)
    decided = dict(part.likely_pairs)
    pair = next(pair for pair, found in part.pairs.items() if found.decision == "better")
    decided[pair] = replace(decided[pair], decision="worse")
    turned = Board(
        "B", StatisticsSettings(10, 500, 0, 0.95), (), (replace(part, likely_pairs=decided),)
    )
    [table] = payload(turned, "classic")["tables"]
    found = pairs_of(table)[pair]
    assert (found[0], found[9]) == (1, -1)
    assert found[10] == decided[pair].iqm.point


def test_without_the_second_reference_ways_of_acting_are_not_compared(board, data):
    assert all(not part.likely_pairs for part in board.sections)
    found = pairs_of(table_of(data, "10 demonstrations"))
    assert all(entry[9] is None for entry in found.values())


def test_differences_by_environment_have_welch_intervals(board, data):
    table = table_of(data, "10 demonstrations")
    part = next(p for p in board.sections if p.section.conditions.n_demos == 10)
    rows, entries = compared_rows(part), by_key(table)
    for (first, second), found in pairs_of(table).items():
        one, other = (scores_of(rows[name], FailurePolicy.COUNT_AS_RANDOM)
                      for name in (first, second))  # fmt: skip
        for place, env in enumerate(table["environments"]):
            due = welch({env: one[env]}, {env: other[env]})
            means = [entries[name]["cells"][place][0] for name in (first, second)]
            assert means[0] - means[1] == pytest.approx(due.difference)
            assert found[-1][place] == pytest.approx((due.high - due.low) / 2)


def test_curves_open_low_and_end_near_the_final_score(data):
    gail = by_key(table_of(data, "10 demonstrations"))["gail"]["curves"]
    first, last, runs, values, low, high = gail["whole"]
    assert (0 < first < 0.1, last, runs) == (True, 1.0, 17)  # a failed run has none
    assert len(values) == STEPS
    assert values[0] < 0.2 < values[-1]
    assert all(a <= v <= b for a, v, b in zip(low, values, high, strict=True))
    assert sorted(gail["by"]) == ["0", "1", "2"]
    assert gail["by"]["0"][:2] == [500.0, 20_000.0]
    assert gail["counts"]
    # Batches are no environment steps; the share of the budget is comparable.
    assert not by_key(table_of(data, "10 demonstrations"))["bc"]["curves"]["counts"]


def test_profiles_fall_from_one_to_zero(data):
    table = table_of(data, "10 demonstrations")
    for entry in table["entries"]:
        values = entry["profile"][0]
        assert len(values) == table["thresholds"][2]
        assert (np.diff(values) <= 1e-12).all()
        assert values[0] >= values[-1] >= 0


def test_costs_and_demonstrations_are_those_of_the_runs(data):
    few, many = table_of(data, " 2 demonstrations"), table_of(data, "10 demonstrations")
    assert few["group"] == many["group"]
    assert (few["regime"], many["regime"]) == ("2", "10")
    assert data["regimes"] == ["2", "10"]
    # Methods that use no demonstrations stand in each table of their budget.
    assert {entry["demos"] for entry in few["entries"]} == {2.0, None}
    gail = by_key(many)["gail"]
    assert (gail["demos"], gail["steps"]) == (10.0, 20_000.0)
    assert gail["hours"] == pytest.approx(np.mean([10, 11, 12, 13, 14, 15]) / 3600, rel=0.05)


def test_the_frontier_has_no_method_that_another_one_beats(data):
    [frontier] = [each for each in data["frontiers"] if each["steps"]]
    ranked = [e for table in data["tables"] for e in table["entries"] if e["sound"]]
    for cost in ("hours", "steps"):
        chosen = [data["tables"][number]["entries"][place] for number, place in frontier[cost]]
        assert chosen
        for entry in chosen:
            assert not any(
                other["iqm"][0] > entry["iqm"][0] and other[cost] <= entry[cost] for other in ranked
            )
        best = max(ranked, key=lambda entry: entry["iqm"][0])
        assert chosen[-1]["iqm"][0] == best["iqm"][0]


def test_a_method_on_some_environments_is_compared_over_these(tmp_path):
    write_results(tmp_path / "runs", seeds=5, failing=())
    for path in tmp_path.glob("runs/*/gail/Pendulum-v1/*/result.json"):
        path.unlink()
    board = build_board(find_results(tmp_path / "runs"), title="Board", replicates=300)
    [table] = [t for t in payload(board, "classic")["tables"] if "10 demo" in t["title"]]
    gail = by_key(table)["gail"]
    assert (gail["sound"], gail["tier"], gail["profile"]) == (False, "", None)
    assert gail["cells"][table["environments"].index("Pendulum-v1")] is None
    assert gail["curves"]["whole"] is not None
    for pair, found in pairs_of(table).items():
        assert found[2] == (2 if "gail" in pair else 3)


def test_published_results_without_curves_have_none(tmp_path, board):
    write_results(tmp_path / "runs", seeds=3, failing=())
    for path in tmp_path.glob("runs/*/*/*/*/metrics.jsonl"):
        path.unlink()
    publish(tmp_path / "runs", tmp_path / "results" / "team")
    found = build_board(find_results(tmp_path / "results"), title="Board", replicates=300)
    entries = [e for table in payload(found, "classic")["tables"] for e in table["entries"]]
    assert {entry["curves"] for entry in entries} == {None}


def test_returns_are_no_scores_where_success_is(board):
    other = scored_by(board, "success")
    entries = [e for table in payload(other, "classic")["tables"] for e in table["entries"]]
    assert {entry["curves"] for entry in entries} == {None}
    page = render_head_to_head(other, "classic")
    assert "Scores are shares of successful episodes." in page
    assert 'data-zero="no success" data-one="success in every episode"' in page
    assert "Score 0 is the random reference" not in page
    usual = render_head_to_head(board, "classic")
    assert "Score 0 is the random reference, score 1 the expert." in usual
    assert 'data-zero="random" data-one="expert"' in usual


def test_the_page_is_deterministic_and_names_cannot_end_its_data(board):
    page = render_head_to_head(board, "classic")
    assert page == render_head_to_head(board, "classic")
    [document] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert ODD in {e["name"] for table in json.loads(document)["tables"] for e in table["entries"]}
    assert "onerror=boom()>" not in page


def test_pages_link_to_comparisons_that_exist(board, tmp_path):
    write_site(board, tmp_path / "site", results=[])
    assert (tmp_path / "site" / head_page("classic")).is_file()
    titles = {table["title"] for table in payload(board, "classic")["tables"]}
    names = {name for part in board.sections for name in compared_rows(part)}
    found = 0
    for page in ("index.html", "suites/classic.html", "methods/gail.html"):
        text = (tmp_path / "site" / page).read_text()
        links = re.findall(r'href="((?:\.\./)?head-to-head/[^"]+)"', text)
        assert links, page
        for link in links:
            path, _, view = link.replace("&amp;", "&").partition("#")
            assert ((tmp_path / "site" / page).parent / path).resolve().is_file()
            chosen = parse_qs(view)
            assert set(chosen.get("runs", [])) <= titles
            assert set(chosen.get("m", [])) <= names
            found += bool(chosen.get("m"))
    assert found >= 2
    assert parse_qs(head_link(board.sections[0], ODD).partition("#")[2])["m"] == [ODD]


def test_names_for_the_terminal_are_those_that_compare_knows(tmp_path):
    """Of a table with a method of two submitters, and of one in which it is alone."""
    for team, algorithms in (("a", ("bc", "gail")), ("b", ("bc", "dagger"))):
        own = {name: SKILLS[name] for name in algorithms}
        write_results(tmp_path / team, seeds=4, skills=own, failing=())
        publish(tmp_path / team, tmp_path / "results" / f"team-{team}")
    write_submitted_runs(
        tmp_path / "c", algorithms=("bc", "gail"), env=None, failing=(), budget="default"
    )
    publish(tmp_path / "c", tmp_path / "results" / "team-c")
    board = build_board(find_results(tmp_path / "results"), title="Board", replicates=300)
    write_site(board, tmp_path / "site", results=[tmp_path / "results"])
    found = set()
    for table in payload(board, "classic")["tables"]:
        for first, *others in permutations([e["typed"] for e in table["entries"]], 2):
            place = tmp_path / "site" / "leaderboard.json"
            compared = imitbench.compare(first, others, out=place, replicates=100)
            assert {verdict.second for verdict in compared.verdicts} == set(others)
            found |= {first, *others}
    assert found == {"bc", "gail", "dagger", "bc (team-a)", "bc (team-b)"}


def test_a_name_with_a_comma_has_no_command(tmp_path):
    skills = dict.fromkeys(("bc", "gail,bc", "gail[size=8,rate=1]"), SKILLS["bc"])
    write_results(tmp_path, seeds=3, skills=skills, failing=())
    board = build_board(find_results(tmp_path), title="Board", replicates=300)
    [table] = payload(board, "classic")["tables"]
    assert {entry["name"]: entry["typed"] for entry in table["entries"]} == {
        "bc": "bc",
        "gail,bc": None,
        "gail[size=8,rate=1]": "gail[size=8,rate=1]",
    }
