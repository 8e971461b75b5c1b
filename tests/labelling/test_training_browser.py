"""Whole trainings that are answered through the page in a real Chromium."""

import json
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.command import call_imitbench
from support.scripted_browser import IMITBENCH, ScriptedBrowser, labelling_page

from imitbench.algorithms.preference_comparisons import PreferenceDataset, make_teacher
from imitbench.algorithms.preference_comparisons.answer_queue import answered_pairs

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = (ROOT / "docs" / "tutorials" / "your_answers.md").read_text()
SMALL = {
    "preference_comparisons": {
        "total_comparisons": "14", "num_iterations": "2", "n_envs": "2", "n_steps": "500",
        "n_epochs": "1", "fragment_length": "10", "reward_epochs": "1", "transfer_steps": "0",
    },
    "pebble": {
        "total_comparisons": "14", "num_iterations": "1", "exploration_steps": "0",
        "steps_per_update": "500", "reset_updates": "1", "reward_epochs": "1",
    },
}  # fmt: skip


def with_settings(arguments, settings):
    """The arguments of a run with other hyper-parameters."""
    kept = [
        word
        for flag, word in zip(arguments, [*arguments[1:], ""], strict=True)
        if flag == "--set" and word.partition("=")[0] not in settings
    ]
    others = [
        word
        for place, word in enumerate(arguments)
        if word != "--set" and (not place or arguments[place - 1] != "--set")
    ]
    for setting in (*kept, *(f"{name}={value}" for name, value in settings.items())):
        others += ["--set", setting]
    return others


def train_with_answers(chromium, label, run, folder):
    """Runs both commands, and answers as the oracle; returns the number of answers."""
    queue = folder / label[0]
    with labelling_page(*label, cwd=folder) as link:
        training = subprocess.Popen(
            [*IMITBENCH, *run], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        with ThreadPoolExecutor() as pool:
            said = pool.submit(training.communicate)
            annotator = ScriptedBrowser(
                chromium, link, queue, make_teacher("oracle", np.random.default_rng(0))
            )
            given = annotator.answer_all(ended=lambda: training.poll() is not None)
            assert annotator.complaints == []
            annotator.close()
            assert training.returncode == 0, said.result()[0].decode()
    return given


def assert_answers_are_those_of_the_oracle(answers):
    for pair, preference in zip(
        zip(answers.fragments1, answers.fragments2, strict=True), answers.preferences, strict=True
    ):
        returns = [fragment.rews.sum() for fragment in pair]
        assert preference == (1 + np.sign(returns[0] - returns[1])) / 2


def test_a_training_is_answered_through_the_page(chromium, tmp_path):
    run = ["run", "--algo", "preference_comparisons", "--env", "Pendulum-v1", "--seeds", "1",
           "--budget", "quick", "--set", "gatherer=human", "--set", "answers=queue"]  # fmt: skip
    run = with_settings(run, SMALL["preference_comparisons"])
    given = train_with_answers(
        chromium, ["queue", "--queue", "--env", "Pendulum-v1"], run, tmp_path
    )
    answers = answered_pairs(tmp_path / "queue")
    assert 14 <= given <= 16  # one of ten pairs comes again
    assert len(answers) == 14
    assert_answers_are_those_of_the_oracle(answers)

    [result] = (tmp_path / "runs").rglob("result.json")
    recorded = [json.loads(line) for line in (result.parent / "metrics.jsonl").open()]
    assert any("reward/accuracy" in json.dumps(line) for line in recorded)

    status = json.loads(call_imitbench("label", "status", "queue", "--json", cwd=tmp_path).out)
    assert (status["pairs"], status["per_annotator"]) == (14, given)
    assert [each["answers"] for each in status["annotators"]] == [given]
    exported = call_imitbench("label", "export", "queue", "answers.safetensors", cwd=tmp_path)
    assert exported.code == 0, exported.err
    again = PreferenceDataset.load(tmp_path / "answers.safetensors")
    assert again.preferences.tolist() == answers.preferences.tolist()
    for one, two in zip(again.fragments1, answers.fragments1, strict=True):
        np.testing.assert_array_equal(one.obs, two.obs)


def test_the_commands_of_the_tutorial_run(chromium, tmp_path):
    blocks = re.findall(r"^```bash\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line, comments=True) for line in "".join(blocks).splitlines()]
    label, install = None, lines.pop(0)
    assert install == ["pip", "install", "imitbench[label]"]
    for program, *arguments in lines:
        assert program == "imitbench"
        if "--queue" in arguments:
            label = arguments[1:]
        elif arguments[0] == "run":
            run = with_settings(arguments, SMALL["pebble"])
            assert train_with_answers(chromium, label, run, tmp_path) >= 14
        else:
            answer = call_imitbench(*arguments, cwd=tmp_path)
            assert answer.code == 0, answer.err
    assert PreferenceDataset.load(tmp_path / "my-answers.safetensors").preferences.size == 14
    assert (tmp_path / "my-preferences" / "README.md").is_file()
