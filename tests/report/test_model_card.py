"""Results of a method as the hub's metadata, read back by the hub's own library."""

import pytest
from huggingface_hub.repocard_data import model_index_to_eval_results
from support.boards import scored_by
from support.submissions import write_submitted_runs

from imitbench.errors import InputError
from imitbench.hub.repo_card import RepoCard
from imitbench.published.results_sources import find_results
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.model_card import evaluation_results, write_model_card


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    out = tmp_path_factory.mktemp("card") / "runs"
    write_submitted_runs(out, algorithms=("bc", "gail"), env=None, failing=())
    return build_board(find_results(out), title="x", replicates=200)


def test_the_library_of_the_hub_reads_the_numbers_of_the_board(board, tmp_path):
    index = evaluation_results(board, "bc", address="https://board.example/")
    write_model_card(tmp_path / "README.md", index)
    card = RepoCard.read(tmp_path / "README.md")
    name, results = model_index_to_eval_results(card.metadata["model-index"])
    assert name == "bc"
    [row] = [row for part in board.sections for row in part.rows if row.name == "bc"]
    stated = {each.dataset_name: each.metric_value for each in results
              if each.metric_type == "score"}  # fmt: skip
    assert stated == {cell.environment: round(cell.score, 4) for cell in row.result.cells}
    returns = [each for each in results if each.metric_type == "mean_reward"]
    assert len(returns) == len(row.result.cells)
    assert all(" +/- " in each.metric_value for each in returns)
    assert {each.source_url for each in results} == {"https://board.example/"}
    assert {each.verified for each in results} == {None}
    assert all("not checked" in each.task_name for each in results)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("expert", "0 is random and 1 the expert"),
        ("demonstrations", "0 is random and 1 the demonstrations"),
        ("success", "the share of successful episodes"),
    ],
)
def test_a_score_says_what_it_is(board, kind, said):
    index = evaluation_results(scored_by(board, kind), "bc")
    metrics = [metric for result in index[0]["results"] for metric in result["metrics"]]
    names = {metric["name"] for metric in metrics if metric["type"] == "score"}
    assert names == {f"mean score; {said}"}


def test_the_rest_of_a_card_stays(board, tmp_path):
    path = tmp_path / "README.md"
    path.write_text(
        "---\nlicense: mit\nmodel-index:\n- name: other\n  results: []\n"
        "- name: bc\n  results: []\n---\n# Mine\n"
    )
    write_model_card(path, evaluation_results(board, "bc"))
    once = path.read_text()
    write_model_card(path, evaluation_results(board, "bc"))
    assert path.read_text() == once
    card = RepoCard.read(path)
    assert (card.metadata["license"], card.text) == ("mit", "# Mine\n")
    assert [each["name"] for each in card.metadata["model-index"]] == ["other", "bc"]
    assert card.metadata["model-index"][1]["results"]


def test_what_cannot_be_written_is_refused(board, tmp_path):
    with pytest.raises(InputError, match=r"--algo bd: .*bc"):
        evaluation_results(board, "bd")
    with pytest.raises(InputError, match="no results of bc there"):
        evaluation_results(board, "bc", suite="seals")
    path = tmp_path / "README.md"
    path.write_text("---\nmodel-index: 3\n---\n")
    with pytest.raises(InputError, match="model-index must be a list"):
        write_model_card(path, evaluation_results(board, "bc"))
