"""What the board says on top follows from the tiers, and says no more than they do."""

import json
import math
import re
from dataclasses import replace

import pytest
from support.boards import Links, build, shown_rows
from support.published import publish
from support.shown_results import write_results
from support.submissions import write_submitted_runs

from imitbench.published.disclosure import Disclosure
from imitbench.report.leaderboard.answers import MOST_NAMES, answer_of, difference, enumerated
from imitbench.report.leaderboard.standings import (
    CONTROLS,
    PARTIAL,
    by_method,
    headline_first,
    ordered_groups,
)
from imitbench.report.model import RewardSummary
from imitbench.report.text import score
from imitbench.stats.bootstrap import Interval

GOOD, MIDDLE, BAD = (((level, 0.01),) * 3 for level in (0.9, 0.6, 0.2))
WIDE = ((0.6, 0.3),) * 3


def board_of(folder, skills, seeds=10):
    """A board on which gail, airl and sqil are on-policy methods, and bc is an offline one."""
    write_results(folder / "runs", seeds=seeds, skills=skills, failing=())
    return build(folder / "runs", folder / "site")


def answered(board):
    [part] = board.sections
    return answer_of(part, board.method)


@pytest.fixture(scope="module")
def leading(tmp_path_factory):
    """gail leads; airl and sqil are lower, and cannot be told apart; bc is alone."""
    folder = tmp_path_factory.mktemp("leading")
    skills = {"gail": GOOD, "airl": MIDDLE, "sqil": MIDDLE, "bc": BAD}
    return board_of(folder, skills), folder / "site"


def text_of(site, page="index.html"):
    return " ".join("".join(Links((site / page).read_text()).text).split())


def test_one_leader_is_said_with_the_differences_in_both_ways_of_acting(leading):
    board, site = leading
    answer = answered(board)
    [part] = board.sections
    assert answer.headline == "gail leads among on-policy methods."
    [track] = answer.compared
    assert track.kind == "leader"
    second = max(("airl", "sqil"), key=lambda name: iqm(part, name).point)
    found = difference(part.pairs, "gail", second)
    assert found.point == pytest.approx(iqm(part, "gail").point - iqm(part, second).point)
    shown = f"{score(found.point)} [{score(found.low)}, {score(found.high)}]"
    assert track.text.startswith(f"gail leads, ahead of {second} by {shown} with sampled actions")
    assert ("most likely actions" in track.text) == bool(part.likely_pairs)
    assert answer.alone == "Alone in its track: bc (offline)."
    for page in ("index.html", "suites/classic.html"):
        said = text_of(site, page)
        assert answer.headline in said
        assert track.more in said
    turned = difference(part.pairs, second, "gail")
    assert (turned.point, turned.low, turned.high) == (-found.point, -found.high, -found.low)


def iqm(part, name):
    [row] = [row for row in part.rows if row.result.algorithm == name]
    return row.result.iqm


def test_several_leaders_share_the_first_tier(tmp_path):
    answer = answered(board_of(tmp_path, {"gail": GOOD, "airl": GOOD, "sqil": BAD}))
    [track] = answer.compared
    assert track.kind == "tied"
    names = {"gail and airl", "airl and gail"}
    [said] = [each for each in names if answer.headline.startswith(each)]
    assert answer.headline == (
        f"{said} cannot be told apart in the first tier of on-policy methods."
    )
    assert re.search(r"; (gail|airl) is ahead of sqil, the next one, by 0\.[67]\d\d \[", track.text)
    assert "leads" not in track.text


def test_nothing_is_decided_where_all_share_a_tier(tmp_path):
    answer = answered(board_of(tmp_path, {"gail": WIDE, "airl": WIDE, "bc": GOOD}))
    assert re.fullmatch(r"Nothing is decided: \w+ and \w+ cannot be told apart\.", answer.headline)
    assert not any("lead" in each for each in answer.sentences)


def test_rows_with_few_seeds_give_no_answer(tmp_path):
    board = board_of(tmp_path, {"gail": GOOD, "airl": BAD}, seeds=9)
    answer = answered(board)
    assert answer.headline == "No answer yet: every method has fewer than 10 seeds."
    assert answer.sentences == [answer.headline]
    page = (tmp_path / "site" / "index.html").read_text()
    assert page.count('class="mark few"') == 2
    assert page.count(' class="few"') == 2


def test_provisional_rows_are_named_beside_those_with_a_tier(tmp_path):
    write_results(tmp_path / "runs", seeds=9, skills={"sqil": GOOD}, failing=())
    answer = answered(board_of(tmp_path, {"gail": GOOD, "airl": BAD}))
    assert answer.headline == "gail leads among on-policy methods."
    assert answer.provisional == "Provisional: sqil has fewer than 10 seeds, and so no tier."


def test_a_saturated_suite_is_said_before_any_order(tmp_path):
    better = ((1.02, 0.001),) * 3
    best = ((1.05, 0.001),) * 3
    board = board_of(tmp_path, {"gail": better, "airl": best, "sqil": BAD})
    answer = answered(board)
    assert answer.all_saturated
    assert answer.headline.startswith("Saturated: on every environment, several methods are")
    assert "airl, gail are as good as the expert" in answer.saturated
    page = (tmp_path / "site" / "index.html").read_text()
    box = page.index('data-alarm="saturated"')
    assert page.rfind("<details", 0, box) <= page.rfind("</details>", 0, box)


def test_one_saturated_environment_of_several_is_named(tmp_path):
    some = ((1.02, 0.001), (0.5, 0.1), (0.5, 0.1))
    answer = answered(board_of(tmp_path, {"gail": some, "airl": some}))
    assert answer.saturated.startswith("Saturated: 1 of 3 environments (")
    assert not answer.all_saturated
    assert answer.headline.endswith(" 1 of 3 environments is saturated.")


def changed(part, tiers, decided=()):
    """The same table with other tiers by name, and other decided pairs."""
    rows = [replace(row, tier=tiers.get(row.name, row.tier)) for row in part.rows]
    return replace(part, rows=tuple(rows), decided=frozenset(decided))


def test_methods_that_beat_each_other_in_a_circle_have_no_leader(leading):
    board, _ = leading
    [part] = board.sections
    circle = [("gail", "airl"), ("airl", "sqil"), ("sqil", "gail")]
    for tiers in ({"gail": 1, "airl": 1, "sqil": 1}, {"gail": 1, "airl": 2, "sqil": 2}):
        pairs = circle if set(tiers.values()) == {1} else [("airl", "sqil"), ("sqil", "airl")]
        answer = answer_of(changed(part, tiers, pairs), board.method)
        [track] = answer.compared
        assert track.kind == "circle"
        assert "so none of them leads" in track.text
        assert answer.headline.startswith("Nothing is decided: ")


def test_a_leader_whose_values_saw_published_seeds_is_said_to(leading):
    board, _ = leading
    [part] = board.sections
    stated = Disclosure(
        suite="classic", algo="gail", chosen="hand", criterion="the score",
        published_seeds=True, exported="last",
    )  # fmt: skip
    rows = [replace(row, disclosures=(stated,)) if row.name == "gail" else row for row in part.rows]
    [track] = answer_of(replace(part, rows=tuple(rows)), board.method).compared
    assert track.text.endswith("Published seeds had a say in the values of gail.")


def test_no_sentence_names_a_leader_that_the_tiers_do_not_have(leading):
    board, _ = leading
    [part] = board.sections
    answer = answer_of(changed(part, {"gail": 1, "airl": 1, "sqil": 1}), board.method)
    assert answer.compared[0].kind == "undecided"
    assert not any("lead" in each or "ahead" in each for each in answer.sentences)


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ({}, None),
        (
            {"gail": (0.2, 1e-4), "airl": (0.3, 0.01), "bc": (-0.1, 1e-3)},
            "fresh policies on those of airl (by 0.300 [0.200, 0.400]) and gail (by 0.200 [0.100, "
            "0.300]) score more than the policies that came along, on those of bc less.",
        ),
        # 0.03 alone is below 0.05, but it is the least of two.
        (
            {"gail": (0.2, 0.03), "airl": (0.1, 0.04)},
            "on those of no method, fresh policies are shown to score more than the policies that "
            "came along.",
        ),
        (
            {"gail": (-0.2, 1e-3), "airl": (0.1, math.nan), "random": (0.5, 1e-9)},
            "on those of no method, fresh policies are shown to score more than the policies that "
            "came along; on those of gail they score less.",
        ),
    ],
    ids=["nothing", "more", "several tests", "less"],
)
def test_rewards_are_told_that_are_worth_more_elsewhere_than_their_policies(leading, gains, said):
    board, _ = leading
    [part] = board.sections
    summaries = tuple(
        RewardSummary(algo, "ppo", 2, 20, {"gain": Interval(gain, gain - 0.1, gain + 0.1)}, p)
        for algo, (gain, p) in gains.items()
    )
    section = replace(part.section, reward_summaries=summaries)
    answer = answer_of(replace(part, section=section), board.method)
    assert answer.rewards == (f"Rewards with other dynamics: {said}" if said else "")
    assert (answer.rewards in answer.sentences) == bool(said)


def test_rewards_of_two_rows_with_one_name_are_told_apart(leading):
    board, _ = leading
    [part] = board.sections
    [gail] = [row for row in part.rows if row.name == "gail"]
    packed = replace(gail, result=replace(gail.result, algorithm="gail[pack=5]"))
    assert packed.said == gail.said
    summaries = tuple(
        RewardSummary(algo, "ppo", 2, 20, {"gain": Interval(gain, gain, gain)}, 1e-4)
        for algo, gain in (("gail", 0.2), ("gail[pack=5]", -0.3))
    )
    section = replace(part.section, reward_summaries=summaries)
    answer = answer_of(replace(part, rows=(*part.rows, packed), section=section), board.method)
    assert "on those of gail (by 0.200 " in answer.rewards
    assert answer.rewards.endswith(", on those of gail[pack=5] less.")


def test_long_enumerations_count_the_rest():
    names = [f"m{number}" for number in range(MOST_NAMES + 3)]
    assert enumerated(names[:2]) == "m0 and m1"
    assert enumerated(names[:1]) == "m0"
    shown = enumerated(names)
    assert shown.endswith("and 4 others")
    assert shown.count("m") == MOST_NAMES - 1


def changed_spec(spec, variant):
    return spec.model_copy(update={"variant": variant})


def test_variants_and_packs_of_a_method_are_one_row(leading):
    board, _ = leading
    [part] = board.sections
    [gail] = [row for row in part.rows if row.name == "gail"]

    def variant(text, **changes):
        runs = tuple(
            replace(
                run, run=replace(run.run, spec=run.run.spec.model_copy(update={"variant": text}))
            )
            for run in gail.runs
        )
        return replace(gail, name=f"gail[{text}]", runs=runs, **changes)

    tuned, packed = variant("tuned,pack=5", tier=2, rank=9), variant("pack=3", tier=3, rank=10)
    assert (tuned.said, packed.said, packed.values) == ("gail (tuned)", "gail", "")
    [entry] = by_method([packed, tuned, gail])
    assert entry.row is gail
    assert entry.others == (tuned, packed)


def test_partial_rows_never_stand_among_complete_ones(tmp_path):
    write_results(tmp_path / "runs", seeds=10, skills={"airl": BAD}, failing=())
    write_results(
        tmp_path / "runs", seeds=10, skills={"gail": GOOD[:1], "bc": GOOD[:1]}, failing=()
    )
    board = build(tmp_path / "runs", tmp_path / "site")
    [part] = board.sections
    groups = dict(ordered_groups(part))
    assert [entry.row.name for entry in groups[PARTIAL]] == ["gail", "bc"]
    assert [entry.row.name for entry in groups["on-policy"]] == ["airl"]
    assert {entry.row.name for entry in groups[CONTROLS]} == {"expert", "random"}
    assert list(groups) == ["on-policy", PARTIAL, CONTROLS]
    [shown] = shown_rows(tmp_path / "site").values()
    assert [name for group, name, _ in shown if group == PARTIAL] == ["gail", "bc"]
    page = (tmp_path / "site" / "suites" / "classic.html").read_text()
    main, partial = page.index("board cards main"), page.index("board cards partial")
    assert main < partial
    assert page.index(">airl<") < partial < page.index("--gail")
    assert page.index("--gail", page.index("<tbody")) > partial


def test_a_suite_opens_with_the_default_budget_and_all_demonstrations(tmp_path):
    for name, settings in (
        ("one", {"budget": "quick"}), ("two", {"budget": "default"}),
        ("three", {"budget": "default", "n_demos": 3}),
    ):  # fmt: skip
        write_submitted_runs(tmp_path / name, ["bc"], env=None, seeds=1, failing=(), **settings)
        publish(tmp_path / name, tmp_path / "results" / name)
    board = build(tmp_path / "results", tmp_path / "site")
    first, *others = board.of_suite("classic")
    assert first.anchor == "default--all--bundled"
    assert board.condition(first) == "all demonstrations, default budget"
    assert len(others) == 2
    assert headline_first([*others, first])[0] is first
    [fewer] = [part for part in others if part.anchor == "default--3--bundled"]
    told = replace(fewer, rows=tuple(replace(row, tier=1) for row in fewer.rows))
    assert headline_first([first, told])[0] is told  # more of its methods have a tier
    quick = replace(others[0] if others[1] is fewer else others[1], rows=told.rows)
    assert headline_first([first, quick])[0] is first
    page = (tmp_path / "site" / "suites" / "classic.html").read_text()
    anchors = re.findall(r'<section id="([\w-]+--bundled)"', page)
    assert anchors == [part.anchor for part in board.sections]
    listed = re.findall(r'<li><a href="#([\w-]+)">([^<]+)</a>( \(headline\))?</li>', page)
    assert [(anchor, bool(flag)) for anchor, _, flag in listed] == [
        (anchor, not place) for place, anchor in enumerate(anchors)
    ]


def test_the_json_says_the_same(leading):
    board, site = leading
    [table] = json.loads((site / "leaderboard.json").read_text())["tables"]
    assert table["answer"] == answered(board).sentences
    for sentence in table["answer"]:
        assert sentence.split(":")[0] in (site / "leaderboard.md").read_text()
