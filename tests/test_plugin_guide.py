"""The commands of docs/plugins.md run as written."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from support.command import call_imitbench

import imitbench

GUIDE = (Path(__file__).parent.parent / "docs" / "plugins.md").read_text()
BLOCKS = [
    [line for line in block.splitlines() if line]
    for block in re.findall(r"^```\n(imitbench .*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
]
# Options that make the guide's commands shorter.
SHORTER = {
    "run": ["--seeds", "2", "--budget", "quick", "--jobs", "2"],
    "experts train": ["--steps", "4000", "--episodes", "5"],
    "suites measure": ["--episodes", "5"],
    "check-algo": ["--amount", "60"],
}


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block[0].split()[1])
def test_commands_run_in_a_fresh_folder(block, tmp_path):
    for line in block:
        words = shlex.split(line)[1:]
        if words[0] == "run":
            words = words[: words.index("--seeds")]
            if "classic" in words:
                words += ["--env", "Pendulum-v1"]
        more = SHORTER.get(words[0]) or SHORTER.get(" ".join(words[:2]), [])
        answer = call_imitbench(*words, *more, cwd=tmp_path)
        # `compare` may be undecided with few seeds.
        assert answer.code == 0 or words[0] == "compare", answer


def test_the_guide_covers_algorithms_and_suites():
    assert [block[0].split()[1] for block in BLOCKS] == ["init-algo", "init-algo", "init-suite"]


def check_suite(shown):
    """Checks entries of a suite's card, the first of which is shown without its other keys."""
    from imitbench.cards.suite import SuiteCard

    template = Path(imitbench.__file__).parent / "templates" / "suite" / "suite.yaml"
    card = yaml.safe_load(template.read_text())
    for name, entry in shown["environments"].items():
        card["environments"].setdefault(name, {}).update(entry)
    assert len(SuiteCard.model_validate(card).environments) == len(shown["environments"])


def test_cards_in_the_guide_are_valid():
    from imitbench.cards.algorithm import AlgorithmCard
    from imitbench.cards.plugins import complete_variant

    for text in re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL):
        usual = {
            "schema_version": 1,
            "name": "mine",
            "title": "Mine",
            "summary": "Mine.",
            "needs": {"demos": True, "action_spaces": ["box"]},
            "budget_unit": "batches",
            "seconds_per_1000": 1.0,
        }
        document = yaml.safe_load(text)
        if "environments" in document:
            check_suite(document)
            continue
        own = complete_variant(document, Path("card.yaml"))
        AlgorithmCard.model_validate(usual | own)
