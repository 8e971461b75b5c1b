"""Experts of a hub, converted and evaluated by their repository's name."""

import json

import pytest
from support.bombs import Bomb, read_zip, tensor_file, write_zip

REPOSITORY = "sb3/ppo-CartPole-v1"


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
