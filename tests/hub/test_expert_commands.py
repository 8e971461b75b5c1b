"""Experts of a hub, converted and evaluated by their repository's name."""

import json
from pathlib import Path

import pytest
from support.bombs import Bomb, read_zip, tensor_file, write_zip

REPOSITORY = "sb3/ppo-CartPole-v1"
ACT = Path(__file__).parents[1] / "policies" / "robot_policies" / "act"
ON_REACHER = (
    "--env", "Reacher-v5", "--observation-key", "observation.state=0:2",
    "--observation-key", "observation.environment_state=2:5", "--episodes", 2,
)  # fmt: skip


@pytest.fixture
def cartpole(hub, shared_dir):
    hub.add_folder("model", REPOSITORY, shared_dir / "hub-fixtures/rl-zoo/ppo-CartPole-v1")
    return hub


@pytest.mark.slow
def test_a_repository_is_converted_and_named_on_the_card(imitbench, cartpole, tmp_path):
    answer = imitbench("experts", "convert", REPOSITORY, "out")
    assert answer.code == 0, answer.err
    commit = cartpole.resolve("model", REPOSITORY, "main")
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"`{REPOSITORY} at {commit[:12]}`, `ppo-CartPole-v1.zip`" in card
    assert not (tmp_path / "out" / "policy.json").is_symlink()


def test_a_repository_is_evaluated_at_a_revision(imitbench, cartpole):
    commit = cartpole.resolve("model", REPOSITORY, "main")
    answer = imitbench(
        "experts", "eval", REPOSITORY, "--env", "CartPole-v1", "--episodes", 2, "--json",
        "--revision", commit,
    )  # fmt: skip
    assert json.loads(answer.out)["mean_return"] == 500.0


def test_a_name_of_nothing_is_neither_a_path_nor_a_repository(imitbench, hub):
    answer = imitbench("eval", "absent/policy", "--env", "CartPole-v1")
    assert answer.code == 2
    told = "error: absent/policy: no such file or folder here, and no such repository on the hub"
    assert answer.err.splitlines()[-1].startswith(told)
    hub.stop()
    told = "error: absent/demos: no such file or folder here, and the hub cannot be reached"
    answer = imitbench(
        "train", "imitation", "bc", "--env", "CartPole-v1", "--demos", "absent/demos"
    )
    assert answer.err.splitlines()[-1].startswith(told)


@pytest.mark.usefixtures("classic")
def test_a_repository_in_a_folder_of_its_owners_name_needs_its_revision(imitbench, tmp_path):
    name = "HumanCompatibleAI/ppo-seals-CartPole-v0"
    (tmp_path / "HumanCompatibleAI").mkdir()
    command = ("experts", "eval", name, "--env", "seals/CartPole-v0", "--episodes", 1)
    answer = imitbench(*command)
    assert answer.code == 2
    assert f"no such file or folder; `imitbench experts pull {name}` fetches" in answer.err
    assert imitbench(*command, "--revision", "main").code == 0


def test_a_hostile_repository_is_refused_in_one_line(hub, imitbench, shared_dir, tmp_path):
    folder = shared_dir / "hub-fixtures/rl-zoo/ppo-CartPole-v1"
    files = read_zip(folder / "ppo-CartPole-v1.zip")
    mark = tmp_path / "executed"
    bomb = write_zip(tmp_path / "bomb.zip", {**files, "policy.pth": tensor_file({"a": Bomb(mark)})})
    hub.add_model(REPOSITORY, {"ppo-CartPole-v1.zip": bomb.read_bytes()})
    answer = imitbench("experts", "convert", REPOSITORY, "out")
    assert (answer.code, answer.out) == (2, "")
    fetching, line = answer.err.splitlines()
    assert fetching.startswith(f"{REPOSITORY}: fetching")
    assert line.endswith("'policy.pth' is not plain tensors (it names io.open)")
    assert not mark.exists()
    assert not (tmp_path / "out").exists()


def test_a_policy_of_lerobot_is_evaluated_as_its_files_are(hub, imitbench):
    files = {path.name: path.read_bytes() for path in ACT.iterdir()}
    unread = {"train_config.json": b"{}", "optimizer_state.safetensors": bytes(9), "eval.mp4": b""}
    commit = hub.add_model("robots/act_reach", {**files, **unread})
    answer = imitbench("eval", "robots/act_reach", *ON_REACHER, "--revision", commit, "--json")
    assert answer.code == 0, answer.err
    found, local = (
        json.loads(each.out) for each in (answer, imitbench("eval", ACT, *ON_REACHER, "--json"))
    )
    assert found["policy"] == f"robots/act_reach at {commit[:12]}"
    assert found["returns"] == local["returns"]
    assert hub.count("GET .*config.json") == 1
    assert hub.count("|".join(unread)) == 0


def test_a_policy_of_lerobot_without_its_normalization_is_refused_in_one_line(hub, imitbench):
    files = {path.name: path.read_bytes() for path in ACT.iterdir()}
    hub.add_model("robots/bare", {n: c for n, c in files.items() if not n.startswith("policy_")})
    answer = imitbench("eval", "robots/bare", *ON_REACHER)
    assert (answer.code, answer.out) == (2, "")
    *_, line = answer.err.splitlines()
    assert line.startswith("error: ")
    assert "its normalization is missing: observation.state needs mean (MEAN_STD)" in line
