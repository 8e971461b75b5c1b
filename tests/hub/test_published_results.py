"""The return that an expert's files state."""

import json

import pytest

from imitbench.errors import InputError
from imitbench.hub.reported_results import (
    ReportedReturn,
    read_card_metadata,
    read_reported_return,
)

CARD = """---
license: mit
model-index:
- name: PPO
  results:
  - task: {{type: reinforcement-learning}}
    metrics:
    - type: other
      value: 7
    - type: mean_reward
      value: {value}
---
# PPO
"""


def write(folder, **results):
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def test_results_are_read_with_all_fields(tmp_path):
    write(
        tmp_path, mean_reward=-192.3, std_reward=5, is_deterministic=True, n_eval_episodes=10,
        eval_datetime="2022",
    )  # fmt: skip
    assert read_reported_return(tmp_path) == ReportedReturn(-192.3, 5.0, 10, True, "results.json")
    write(tmp_path, mean_reward=500, std_reward=float("nan"), n_eval_episodes="many")
    assert read_reported_return(tmp_path) == ReportedReturn(500.0, None, None, None, "results.json")


def test_invalid_numbers_count_as_not_stated(tmp_path):
    write(tmp_path, mean_reward=1, std_reward=10**400, n_eval_episodes=10**400)
    assert read_reported_return(tmp_path) == ReportedReturn(1.0, None, None, None, "results.json")


@pytest.mark.parametrize(
    ("value", "mean", "std"),
    [
        ("500.00 +/- 0.00", 500.0, 0.0),
        ("'-192.30 ± 5.1'", -192.3, 5.1),
        ("12", 12.0, None),
        ("-1.5e2", -150.0, None),
    ],
)
def test_without_results_the_card_is_read(tmp_path, value, mean, std):
    (tmp_path / "README.md").write_text(CARD.format(value=value))
    assert read_reported_return(tmp_path) == ReportedReturn(mean, std, None, None, "README.md")
    assert read_card_metadata(tmp_path)["license"] == "mit"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# prose",
        "---\n[",
        "---\na: 1\n---\n",
        "---\nnothing closes it",
        CARD.format(value="good"),
        CARD.format(value="9" * 400),
        CARD.format(value="[1]"),
        "---\nlicense: !!bool perhaps\n---\n",
    ],
)
def test_a_card_without_a_mean_reward_is_accepted(tmp_path, text):
    (tmp_path / "README.md").write_text(text)
    assert read_reported_return(tmp_path) is None


def test_without_files_there_are_no_results(tmp_path):
    assert read_reported_return(tmp_path) is None
    assert read_card_metadata(tmp_path) == {}


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "{",
        '{"mean_reward": "good"}',
        '{"mean_reward": Infinity}',
        f'{{"mean_reward": 1{"0" * 400}}}',
        "[" * 100_000,
    ],
)
def test_damaged_results_are_reported_in_one_line(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(InputError, match=r"results\.json: mean_reward cannot be read") as caught:
        read_reported_return(tmp_path)
    assert "\n" not in str(caught.value)


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
def test_an_unreadable_card_is_not_an_error(tmp_path, card):
    (tmp_path / "README.md").write_text(card)
    assert read_reported_return(tmp_path) is None


def bomb(last):
    """Lists of ten lists of ten lists…, eleven levels deep, in a few lines."""
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    return "\n".join(["---", "a0: &a0 [1]", *levels, last, "---", ""])


@pytest.mark.parametrize(
    "last",
    [
        "model-index: [{results: [{metrics: [{type: mean_reward, value: *a11}]}]}]",
        "model-index: *a11",
    ],
)
def test_a_card_with_nested_aliases_is_ignored(tmp_path, last):
    (tmp_path / "README.md").write_text(bomb(last))
    assert read_reported_return(tmp_path) is None


def test_only_the_first_items_of_long_lists_are_read(tmp_path):
    """With aliases, a short card may have a million lists of a million items."""
    others = "- {type: other, value: 7}\n    " * 100
    text = CARD.format(value=1).replace("- type: other\n      value: 7\n    ", others)
    (tmp_path / "README.md").write_text(text)
    assert read_card_metadata(tmp_path)["model-index"]
    assert read_reported_return(tmp_path) is None


def test_oversized_files_are_not_read(tmp_path):
    (tmp_path / "README.md").write_text(CARD.format(value=1) + " " * 2**20)
    assert read_reported_return(tmp_path) is None
    (tmp_path / "results.json").write_text('{"mean_reward": 1}' + " " * 2**20)
    with pytest.raises(InputError, match=r"results\.json: has more than"):
        read_reported_return(tmp_path)
