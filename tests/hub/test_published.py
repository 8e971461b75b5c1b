"""The return that a repository states."""

import pytest

from imitbench.cards.catalog import suite_directory
from imitbench.errors import InputError
from imitbench.hub.published import published_return

EXPERT = suite_directory("classic") / "experts" / "sac-Pendulum-v1"


def test_results_come_first(tmp_path):
    (tmp_path / "results.json").write_text('{"mean_reward": -12.5}')
    (tmp_path / "README.md").write_text((EXPERT / "README.md").read_text())
    assert published_return(tmp_path) == -12.5


def test_the_model_index_of_a_card_is_understood(tmp_path):
    (tmp_path / "README.md").write_text((EXPERT / "README.md").read_text())
    assert published_return(tmp_path) == pytest.approx(published_return(EXPERT), abs=0.01)


@pytest.mark.parametrize(
    "card",
    [
        "# No metadata",
        "---\nlicense: mit\n---\n",
        "---\nmodel-index:\n- results: []\n---\n",
        "---\nmodel-index: !!python/object/apply:os.getcwd []\n---\n",
        "---\n: [\n---\n",
    ],
)
def test_a_card_that_states_none_is_no_error(tmp_path, card):
    (tmp_path / "README.md").write_text(card)
    assert published_return(tmp_path) is None


def test_nothing_at_all_is_no_error(tmp_path):
    assert published_return(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{}", '{"mean_reward": "much"}', "[]"])
def test_results_that_state_none_are_told(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(InputError, match="mean_reward cannot be read"):
        published_return(tmp_path)
