"""`imitbench train`: the script family of the reference library, as commands."""

import json
import os
import signal
import subprocess
import sys
import time

import gymnasium as gym
import pytest
from support.command_lines import root_command
from typer.testing import CliRunner

from imitbench.cards.plugins import find_algorithm
from imitbench.cli.main import app
from imitbench.errors import InputError
from imitbench.rewards.reward_nets import BasicRewardNet
from imitbench.rewards.storage import save_reward
from imitbench.templates.writing import write_template
from imitbench.util import source_import
from imitbench.util.source_import import import_source

QUICK = ("--eval-episodes", "2", "--log-format", "csv")


def call(*arguments):
    answer = CliRunner().invoke(
        app, ["train", *(str(each) for each in arguments)], standalone_mode=False
    )
    if answer.exception is not None:
        raise answer.exception
    return answer


def train(*arguments):
    return json.loads(call(*arguments, *QUICK, "--json").stdout)


def test_a_command_prints_its_outcome(tmp_path):
    folder = tmp_path / "bc"
    found = train(
        "imitation", "bc", "--env", "Pendulum-v1", "--batches", 20, "--n-demos", 2,
        "--set", "hidden_size=8", "--log-dir", folder,
    )  # fmt: skip
    assert (found["algo"], found["folder"]) == ("bc", str(folder))
    assert found["hyperparameters"]["hidden_size"] == 8
    assert found["score"] is not None
    again = json.loads(
        CliRunner()
        .invoke(app, ["eval", str(folder), "--episodes", "2", "--json"], standalone_mode=False)
        .stdout
    )
    assert again["mean_return"] == found["mean_return"]


def test_outputs_go_to_a_folder_of_their_own_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = train("imitation", "bc", "--env", "Pendulum-v1", "--batches", 5)
    assert found["folder"].startswith("output/bc/Pendulum-v1/")
    assert (tmp_path / found["folder"] / "policy").is_dir()


def test_logs_are_written_in_the_formats_that_are_named(tmp_path):
    answer = call(
        "imitation", "bc", "--env", "Pendulum-v1", "--batches", 5, "--eval-episodes", 1,
        "--log-dir", tmp_path / "bc", "--log-format", "tensorboard,csv,json,log",
    )  # fmt: skip
    assert "step 4 of 5 (80 %), loss " in answer.stderr
    names = {path.name.split(".out.")[0] for path in (tmp_path / "bc" / "log").iterdir()}
    assert names == {"events", "progress.csv", "progress.json", "log.txt"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--log-format", "tensorbord"], "did you mean 'tensorboard'"),
        (["--log-format", "stdout", "--json"], "both write to stdout"),
        (["--epochs", "1", "--batches", "1"], "--epochs and --batches"),
        (["--set", "hidden_size"], "--set hidden_size: must be name=value"),
        (["--set", "hiden_size=1"], "did you mean 'hidden_size'"),
        (["--demos", "nowhere"], "nowhere: neither a path nor one of the bundled demos"),
    ],
)
def test_bad_options_are_refused_and_write_nothing(tmp_path, arguments, message):
    folder = tmp_path / "bc"
    with pytest.raises(InputError, match=message):
        call("imitation", "bc", "--env", "Pendulum-v1", "--log-dir", folder, *arguments)
    assert not folder.exists()


def test_chunks_longer_than_every_demonstration_are_one_line(tmp_path):
    with pytest.raises(InputError) as refused:
        call("act", "--env", "Pendulum-v1", "--set", "chunk=201", "--log-dir", tmp_path / "act")
    due = "chunk: 201 actions are more than the longest demonstration has; choose at most 200"
    assert str(refused.value) == due


def test_methods_that_need_a_mixture_are_not_listed():
    listed = {name for name, command in _training_commands().items() if not command.hidden}
    assert {"bco", "drex"} <= listed
    assert not {"bc-all", "demodice", "dwbc", "iswbc", "smodice", "trex"} & listed
    with pytest.raises(InputError, match="use `imitbench run` with a --regime"):
        call("trex", "--env", "Pendulum-v1")


def test_the_help_of_a_method_that_needs_a_mixture_names_a_command_that_runs():
    example = _training_commands()["trex"].help.split("Example: imitbench ")[1]
    words = [*example.split(), "--seeds", "1", "--dry-run"]
    assert CliRunner().invoke(app, words, standalone_mode=False).exception is None


def _training_commands():
    return root_command().commands["train"].commands


@pytest.mark.parametrize("name", ["pebble", "cpl", "preferences"])
def test_the_number_of_comparisons_is_that_of_the_card(name):
    [option] = [
        each for each in _training_commands()[name].params if each.name == "total_comparisons"
    ]
    assert option.help.endswith("[from the card].")


SMALL_PPO = ("--set", "n_envs=2", "--set", "n_steps=100", "--set", "n_epochs=1")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "imitation dagger --env seals/CartPole-v0 --total-timesteps 600",
        "adversarial gail --env Pendulum-v1 --total-timesteps 400",
        "adversarial airl --env Pendulum-v1 --total-timesteps 400 --expert sac-Pendulum-v1 "
        "--n-demos 2",
        "density --env Pendulum-v1 --total-timesteps 400 --n-demos 2",
        "preferences --env Pendulum-v1 --total-timesteps 2000 --total-comparisons 20",
        "rl --env Pendulum-v1 --total-timesteps 400",
    ],
)
def test_every_algorithm_trains(tmp_path, words):
    small = () if "dagger" in words else SMALL_PPO
    expert = words.replace("sac-Pendulum-v1", str(_bundled("sac-Pendulum-v1")))
    found = train(*expert.split(), *small, "--log-dir", tmp_path / "out")
    assert found["env_steps"] > 0
    learnt = ("gail", "airl", "density", "preference_comparisons")
    assert (tmp_path / "out" / "reward").is_dir() == (found["algo"] in learnt)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "sqil --env seals/CartPole-v0 --total-timesteps 1500",
        "rl --algo sac --env Pendulum-v1 --total-timesteps 1200",
        "rl --algo dqn --env seals/CartPole-v0 --total-timesteps 1200",
        "mce-irl --env seals/CliffWorld7x4-v0 --iterations 5",
    ],
)
def test_every_other_algorithm_trains(tmp_path, words):
    found = train(*words.split(), "--log-dir", tmp_path / "out")
    assert found["episodes"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_a_learned_reward_trains_another_policy(tmp_path, algo):
    train(
        "adversarial", "gail", "--env", "Pendulum-v1", "--total-timesteps", 400, *SMALL_PPO,
        "--log-dir", tmp_path / "gail",
    )  # fmt: skip
    small = SMALL_PPO if algo == "ppo" else ()
    arguments = ("rl", "--algo", algo, "--env", "Pendulum-v1", "--total-timesteps", 1200, *small)
    learnt = train(*arguments, "--reward", tmp_path / "gail", "--log-dir", tmp_path / "learnt")
    own = train(*arguments, "--log-dir", tmp_path / "own")
    assert learnt["reward"]
    assert learnt["mean_return"] != own["mean_return"]
    with pytest.raises(InputError, match="made for observations"):
        train("rl", "--env", "seals/CartPole-v0", "--reward", tmp_path / "gail")


def test_the_class_of_a_reward_can_be_that_of_a_plug_in(tmp_path, monkeypatch):
    folder = write_template("gail", "mine", tmp_path)
    digest = find_algorithm(str(folder)).origin.digest
    env = gym.make("Pendulum-v1")
    net = import_source(digest, "learner", "a reward").MineReward(
        BasicRewardNet(env.observation_space, env.action_space)
    )
    save_reward(net, tmp_path / "reward")
    monkeypatch.setattr(source_import, "_locations", {})  # as in another process
    arguments = (
        "rl", "--env", "Pendulum-v1", "--total-timesteps", 200, *SMALL_PPO, "--log-dir",
        tmp_path / "out",
    )  # fmt: skip
    with pytest.raises(InputError, match=r"only if you name it: --reward-plugin ./mine$"):
        train(*arguments, "--reward", tmp_path / "reward")
    with pytest.raises(InputError, match="--reward-plugin: defines the class of a reward; name"):
        train(*arguments, "--reward-plugin", folder)
    found = train(*arguments, "--reward", tmp_path / "reward", "--reward-plugin", folder)
    assert len(found["reward"]) == 64
    (folder / "learner.py").write_text((folder / "learner.py").read_text() + "\n# changed\n")
    with pytest.raises(InputError, match=r"^--reward-plugin .*: its source .*; restore it$"):
        train(*arguments, "--reward", tmp_path / "reward", "--reward-plugin", folder)


@pytest.mark.slow
def test_ctrl_c_writes_a_checkpoint_and_says_how_to_resume(tmp_path):
    command = [
        sys.executable, "-m", "imitbench", "train", "rl", "--env", "Pendulum-v1",
        "--total-timesteps", "6000", "--set", "n_steps=50", *QUICK, "--log-dir", "rl",
    ]  # fmt: skip
    running = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ},
    )  # fmt: skip
    while not (tmp_path / "rl" / "metrics.jsonl").exists():
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate()
    assert (running.returncode, out) == (130, "")
    assert "stopped; the same command resumes from a checkpoint" in err
    assert "Traceback" not in err
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("return ")
    assert (tmp_path / "rl" / "result.json").is_file()


def _bundled(name):
    from imitbench.cards.catalog import suite_directory

    return suite_directory("classic") / "experts" / name
