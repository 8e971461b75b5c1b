"""What learned rewards are worth is published with the runs, checked, shown and restored."""

import json
from dataclasses import replace
from typing import get_args

import pytest
from support.boards import build
from support.pages import write_rewards
from support.published import change, edit_line, publish
from support.submissions import write_submitted_runs

from imitbench.errors import InputError
from imitbench.hub.dataset_publication import staged_results
from imitbench.published.opening import open_results
from imitbench.published.results_folder import read_runs, rescore
from imitbench.published.results_sources import find_results
from imitbench.published.submission import read_strictly, restore_runs
from imitbench.published.validation import validate
from imitbench.records.reward_scores import LEAST, RewardScore
from imitbench.rewards.agreement import Measure
from imitbench.store import database
from imitbench.store.run_dir import RunDirectory

FILE = "reward_scores/transfer.jsonl"
HERE, THERE = "imitbench/Pendulum-v0", ("imitbench/Pendulum-v0+heavy", "imitbench/Pendulum-v0+long")


@pytest.fixture
def out(tmp_path):
    """Runs of `bc` and `gail` on Pendulum, of which those of `gail` have learned a reward."""
    folder = tmp_path / "runs"
    write_submitted_runs(folder, ("bc", "gail"), HERE, failing=(), suite="transfer")
    write_rewards(folder, ("gail",), THERE)
    return folder


@pytest.fixture
def published(out, tmp_path):
    return publish(out, tmp_path / "results" / "mine")


def problems(folder):
    return [str(problem) for problem in validate(folder).of_check("rewards")]


def test_they_are_published_checked_and_restored(out, published, tmp_path):
    checked = validate(published)
    assert checked.problems == ()
    # Nothing else is run in test environments.
    assert not [note for note in checked.notes if THERE[0] in str(note)]
    found = read_strictly(published)
    with_rewards = [run for run in found.published if run.rewards is not None]
    assert [(run.spec.algo, run.spec.seed) for run in with_rewards] == [
        ("gail", s) for s in (0, 1, 2)
    ]
    assert len((published / FILE).read_text().splitlines()) == 3
    restored = tmp_path / "restored"
    restore_runs(found.published, restored)
    for run in found.published:
        own = RunDirectory.of(out, run.spec).read_reward_scores()
        assert RunDirectory.of(restored, run.spec).read_reward_scores() == own == run.rewards
    again = publish(restored, tmp_path / "again")
    assert (again / "manifest.json").read_bytes() == (published / "manifest.json").read_bytes()


def test_the_hub_gets_them_and_its_card_says_so(out):
    with staged_results(out, read_runs(out), "me/mine", report="", command="c") as publication:
        assert FILE in publication.files
        assert "`reward_scores/<suite>.jsonl`" in publication.card.text


def test_runs_without_them_are_published_as_before(out, tmp_path):
    for path in out.glob("*/*/*/*/reward_scores.json"):
        path.unlink()
    folder = publish(out, tmp_path / "without")
    assert not (folder / "reward_scores").exists()
    assert not [name for name in json.loads((folder / "manifest.json").read_text())["files"]
                if "reward" in name]  # fmt: skip


def test_a_published_folder_is_read_like_own_runs(published):
    with open_results([published], notify=pytest.fail) as connection:
        rows = database.read_reward_scores(connection)
    assert {(row.algo, row.env) for row in rows} == {("gail", HERE)}
    assert {row.tested_in for row in rows} == {None, *THERE}


def score_of(behavior="learner", tested_in=None, measure="score"):
    def find(document):
        return next(
            score for score in document["scores"]
            if (score["measure"], score["behavior"], score.get("tested_in"))
            == (measure, behavior, tested_in)
        )  # fmt: skip

    return find


def changed(find, **values):
    return lambda document: find(document).update(values)


def dropped_protocol(document):
    document["protocol"]["optimization"] = None


def doubled(document):
    document["scores"].append(document["scores"][0])


WRONG = {
    "score 0.99 of learner is not that of its result": changed(
        score_of(), value=0.99, low=0.9, high=1.0
    ),
    "scores.0: score of learner: the interval ends below its start": changed(score_of(), low=9.0),
    "scores.0: jump of learner: is not a known number": changed(score_of(), measure="jump"),
    "scores.0: score of friends: is not a known number": changed(score_of(), behavior="friends"),
    "epic of all: cannot be 1.5": changed(score_of("all", None, "epic"), value=1.5, high=1.6),
    "hacking_gap of reoptimized_ppo: cannot be -0.5": changed(
        score_of("reoptimized_ppo", None, "hacking_gap"), value=-0.5, low=-1.0
    ),
    "scores.0.value: Input should be a valid number": changed(score_of(), value=None),
    "the protocol trains nothing by ppo": dropped_protocol,
    "score of learner occurs twice": doubled,
    "Extra inputs are not permitted": lambda document: document.update(more=1),
    "run 0123456789abcdef is none of suite transfer": (
        lambda document: document.update(run_id="0123456789abcdef")
    ),
}


@pytest.mark.parametrize(("message", "edit"), WRONG.items(), ids=WRONG)
def test_what_is_no_such_number_is_refused(published, message, edit):
    edit_line(published, FILE, 0, edit)
    [problem] = problems(published)
    assert problem.startswith(f"{FILE}, line 1: ")
    assert message in problem
    with pytest.raises(InputError, match="line 1"):
        read_strictly(published)


def test_each_run_has_one_line_in_the_file_of_its_suite(published):
    text = (published / FILE).read_text()
    change(published, FILE, text, text + text.splitlines()[0] + "\n")
    assert "line 4: run" in problems(published)[0]
    assert "has two lines" in problems(published)[0]
    (published / FILE).write_text("")
    assert "digests" in validate(published).failed


def test_rewards_are_tested_where_the_suite_says(published):
    for number in range(3):
        edit_line(published, FILE, number,
                  changed(score_of("learner", THERE[0]), tested_in="seals/Ant-v1"))  # fmt: skip
    found = problems(published)
    assert len(found) == 3
    assert "its reward was tested in 'seals/Ant-v1'" in found[0]
    read_strictly(published)  # a finding about cards, not a contradiction


def test_a_problem_is_one_short_line(published):
    edit_line(published, FILE, 1, changed(score_of(), measure="x\n\x1b[31m" * 5000))
    [problem] = problems(published)
    assert problem.startswith(f"{FILE}, line 2: ")
    assert problem.isprintable()
    assert len(problem) < 500


def test_newer_references_leave_them_out(published):
    runs = read_strictly(published).published
    older = [run for run in runs if run.rewards is not None]
    earlier = older[0].result.references.model_copy(update={"random": -2000.0, "version": "0"})
    moved = [
        replace(run, result=run.result.model_copy(update={"references": earlier})) for run in older
    ]
    assert all(run.rewards is None for run in rescore(moved, "mine"))


def test_the_record_knows_all_measures_of_agreement():
    assert tuple(LEAST) == get_args(Measure)


def test_a_run_directory_with_numbers_of_another_run_is_left_out(out, tmp_path):
    one, other = sorted(out.glob("*/gail/*/*/reward_scores.json"))[:2]
    one.write_text(other.read_text())
    [message] = read_runs(out).unreadable
    assert "reward_scores.json: belongs to run" in message


def test_the_site_has_the_reward_board(published, tmp_path):
    site = tmp_path / "site"
    build(published.parent, site)
    page = (site / "suites" / "transfer.html").read_text()
    [link] = [part for part in page.split('href="') if part.startswith("#rewards--")]
    assert f'id="{link[1 : link.index(chr(34))]}"' in page
    assert "re-optimized 0.520" in page
    [table] = json.loads((site / "leaderboard.json").read_text())["tables"]
    rows = {row["tested_in"]: row for row in table["reward_board"]}
    assert rows.keys() == {None, *THERE}
    assert rows[None]["reoptimized"] == pytest.approx(0.52)
    assert rows[THERE[0]]["reoptimized"] == pytest.approx(0.22)
    assert rows[None]["rewards"] == 3
    assert rows[None]["learner_low"] < rows[None]["learner"] < rows[None]["learner_high"]
    assert table["reward_summaries"] == []  # all rewards are of one environment
    assert "Came along" in (site / "leaderboard.md").read_text()


def test_the_site_leaves_out_rewards_of_results_that_fail_a_check(published, tmp_path):
    for number in range(3):
        edit_line(published, FILE, number,
                  changed(score_of("learner", THERE[0]), tested_in="seals/Ant-v1"))  # fmt: skip
    [source] = find_results(published.parent).sources
    assert source.failed == ("rewards",)
    board = build(published.parent, tmp_path / "site")
    assert [part.section.rewards for part in board.sections] == [()]
    assert "Reward board" not in (tmp_path / "site" / "suites" / "transfer.html").read_text()


def test_a_record_is_validated_where_it_enters():
    with pytest.raises(ValueError, match="finite"):
        RewardScore(measure="score", behavior="learner", value=float("nan"), low=0.0, high=1.0)
