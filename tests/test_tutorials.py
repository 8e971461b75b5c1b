"""All code of the tutorials runs, in order and in an empty folder.

The numbers that determine the run time are constants in the first block of a tutorial; these tests
replace them with smaller ones. Shell commands are run as well, `imitbench run` with smaller
hyper-parameters if necessary. Nothing is skipped: a constant or a kind of block that this file does
not know is an error. The commands of `slurm_lab` are run by `tests/slurm/test_tutorial.py`, and
those of `your_answers` by `tests/labelling/test_training_browser.py`. `own_pusht` and
`lerobot_table` are run by `tests/test_robot_tutorials.py`.
"""

import itertools
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.command import call_imitbench
from support.command_lines import with_options
from support.sacred_folders import write_sacred

from imitbench.algorithms.preference_comparisons import PreferenceDataset
from imitbench.rewards.storage import load_reward_net

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "tutorials"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSTANT = re.compile(r"^([A-Z_]+) = ([\d_]+)\b", re.MULTILINE)

# Replaces each constant of a tutorial.
SMALL = {
    "preference_comparisons": {
        "PENDULUM_TIMESTEPS": 2,
        "PENDULUM_COMPARISONS": 10,
        "PENDULUM_ROUNDS": 1,
        "CARTPOLE_TIMESTEPS": 2,
        "CARTPOLE_COMPARISONS": 10,
        "CARTPOLE_ROUNDS": 1,
        "CARTPOLE_FRAGMENT_LENGTH": 5,
        "FRAGMENT_LENGTH": 5,
        "HELD_OUT_EPISODES": 1,
        "HUMAN_COMPARISONS": 4,
    },
    "preference_comparisons_atari": {
        "EPISODE_LENGTH": 8,
        "ENVIRONMENTS": 1,
        "ROLLOUT": 8,
        "TIMESTEPS": 2,
        "COMPARISONS": 4,
        "ROUNDS": 1,
        "FRAGMENT_LENGTH": 3,
        "TRANSFER_TIMESTEPS": 8,
    },
    "learnt_reward": {
        "TIMESTEPS": 2,
        "COMPARISONS": 10,
        "ROUNDS": 1,
        "TRANSFER_TIMESTEPS": 1,
        "EPISODES": 1,
    },
    "density": {"TIMESTEPS": 1, "EPISODES": 1},
    "mce_irl": {"ITERATIONS": 5},
    "migrating": {},
}
NEEDS = {
    "preference_comparisons": ("imageio_ffmpeg", "PIL", "pygame"),
    "preference_comparisons_atari": ("ale_py", "cv2"),
}
SMALL_PREFERENCES = ["--set", "transfer_steps=2048", "--set", "total_comparisons=20"]
# Appended to each `imitbench run` of a tutorial.
MORE_OPTIONS = {
    "learnt_reward": SMALL_PREFERENCES,
    "reading_the_report": ["--env", "Pendulum-v1"],
    "reproducing_the_leaderboard": ["--env", "Pendulum-v1"],
}
# Replaced in each `imitbench run` of a tutorial.
OTHER_OPTIONS = {"first_run": {"--seeds": "1"}, "reading_the_report": {"--seeds": "2"}}
# The input at the terminal, for the tutorial that asks questions.
ANSWERS = "left\nnonsense\nright\nundo\nr\nt\ns\n"

NAMES = sorted(path.stem for path in FOLDER.glob("*.md"))
MADE = {"../cluster.md"}  # generated with the site; the build of the site checks links to it
# A cluster, a browser, a person, or policies of LeRobot are needed.
ELSEWHERE = {"slurm_lab", "your_answers", "own_pusht", "lerobot_table"}
# Their commands train several methods, or one method repeatedly.
LONG = {
    "density",
    "first_run",
    "learnt_reward",
    "mce_irl",
    "migrating",
    "reading_the_report",
    "reproducing_the_leaderboard",
}


def blocks(name):
    text = (FOLDER / f"{name}.md").read_text()
    found = BLOCK.findall(text)
    assert 2 * len(found) == len(re.findall(r"^ *```", text, re.MULTILINE)), "a block was not found"
    return found


def of_language(name, language):
    return [block for kind, block in blocks(name) if kind == language]


def small_program(name):
    first, *others = of_language(name, "python")
    if not SMALL[name]:
        assert not any(CONSTANT.findall(block) for block in (first, *others))
        return "\n".join([first, *others])
    assert CONSTANT.findall(first), "the first block holds the constants"
    assert {constant for constant, _ in CONSTANT.findall(first)} == set(SMALL[name])
    assert not any(CONSTANT.findall(block) for block in others)
    first = CONSTANT.sub(lambda found: f"{found[1]} = {SMALL[name][found[1]]}", first)
    return "\n".join([first, *others])


def run(arguments, folder, **kwargs):
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "SDL_VIDEODRIVER": "dummy"},
        **kwargs,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Runs the Python of a tutorial once; returns its folder and its output."""
    results = {}

    def result(name):
        for module in NEEDS.get(name, ()):
            if find_spec(module) is None:
                pytest.skip(f"{module} is missing, which the tutorial needs")
        if name not in results:
            folder = tmp_path_factory.mktemp(name)
            printed = run(["-c", small_program(name)], folder, input=ANSWERS)
            results[name] = folder, printed
        return results[name]

    return result


def test_every_tutorial_is_tested():
    assert {name for name in NAMES if of_language(name, "python")} - ELSEWHERE == set(SMALL)
    assert {*NEEDS, *MORE_OPTIONS, *OTHER_OPTIONS, *LONG, *ELSEWHERE} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_block_is_of_a_kind_that_is_run(name):
    other_library = {"py"} if name == "migrating" else set()
    assert {kind for kind, _ in blocks(name)} <= {"python", "bash", "text", "yaml"} | other_library


def test_scripts_for_the_other_library_differ_only_in_the_package_and_the_expert():
    found = blocks("migrating")
    pairs = [(block, now) for (kind, block), (_, now) in itertools.pairwise(found) if kind == "py"]
    assert len(pairs) == 3
    for before, now in pairs:
        renamed = before.replace("imitation.", "imitbench.").splitlines()
        differing = [line for line in renamed if line not in now.splitlines()]
        assert all(re.search(r'"ppo-huggingface"|organization=|env_name=', x) for x in differing)


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_files_that_exist(name):
    text = (FOLDER / f"{name}.md").read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert target in MADE or (FOLDER / target).is_file(), target


def with_its_worker(name, *values):
    """Parameters of a test that needs what the program of a tutorial left, which runs once."""
    return pytest.param(name, *values, marks=pytest.mark.xdist_group(f"tutorial {name}"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [with_its_worker(name) for name in sorted(SMALL)])
def test_all_python_of_a_tutorial_runs(ran, name):
    _, printed = ran(name)
    assert printed


@pytest.mark.slow
@pytest.mark.xdist_group("tutorial preference_comparisons")
def test_typed_answers_are_stored_as_comparisons(ran):
    folder, printed = ran("preference_comparisons")
    assert "'nonsense' is not an answer" in printed
    assert "3 of 4 questions were answered" in printed
    assert len(list((folder / "videos").glob("*.mp4"))) == 8
    assert (folder / "videos" / "answers.jsonl").is_file()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        with_its_worker("preference_comparisons", "pendulum-comparisons.safetensors"),
        with_its_worker("preference_comparisons_atari", "atari-comparisons.safetensors"),
    ],
)
@pytest.mark.slow
def test_comparisons_are_saved_on_disk(ran, name, file):
    folder, _ = ran(name)
    comparisons = next(SMALL[name][key] for key in SMALL[name] if key.endswith("COMPARISONS"))
    assert len(PreferenceDataset.load(folder / file)) == comparisons


@pytest.mark.parametrize(
    ("name", "reward"),
    [
        with_its_worker("learnt_reward", "pendulum-reward"),
        with_its_worker("preference_comparisons_atari", "atari-reward"),
    ],
)
@pytest.mark.slow
def test_the_learned_reward_is_saved_on_disk(ran, name, reward):
    folder, _ = ran(name)
    assert sum(parameter.numel() for parameter in load_reward_net(folder / reward).parameters())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
        for name in NAMES
        if name not in ELSEWHERE
    ],
)
def test_all_commands_of_a_tutorial_run(tmp_path, name):
    if name == "migrating":
        for seed in range(3):
            write_sacred(tmp_path / "output" / "sacred" / str(seed), config={"seed": seed})
    for line in "".join(of_language(name, "bash")).splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program == "pip":
            [extra] = re.findall(r"^pip install 'imitbench\[(\w+)\]'$", line)
            project = (ROOT / "pyproject.toml").read_text()
            assert re.search(rf"^{extra} = \[", project, re.MULTILINE)
            continue
        assert program == "imitbench"
        if arguments[0] == "run":
            arguments += MORE_OPTIONS.get(name, [])
            arguments = with_options(arguments, OTHER_OPTIONS.get(name, {}))
        done = call_imitbench(*arguments, cwd=tmp_path, env={"SDL_VIDEODRIVER": "dummy"})
        assert done.code == 0, done.err
        printed = done.out
        if name == "learnt_reward" and arguments[0] == "report":
            text = (FOLDER / f"{name}.md").read_text()
            for measure in re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE):
                assert measure in printed
