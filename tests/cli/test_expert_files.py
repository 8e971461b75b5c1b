"""`imitbench experts convert` and `imitbench experts eval`, as people type them."""

import json

import pytest
from support.sb3_models import SHORT

FIXTURES = {
    "hub-fixtures/rl-zoo/ppo-CartPole-v1": "CartPole-v1",
    "hub-fixtures/rl-zoo/ppo-Pendulum-v1": "Pendulum-v1",
    "hub-fixtures/rl-zoo/sac-Pendulum-v1": "Pendulum-v1",
    "hub-fixtures/rl-zoo/ppo-HalfCheetah-v3": "HalfCheetah-v5",
    "hub-fixtures/imitation/models/ppo-Pendulum-v1": "Pendulum-v1",
    "hub-fixtures/imitation/models/ppo-seals-CartPole-v0": "seals/CartPole-v0",
    "legacy-fixtures/expert_models_cartpole_0_policies_final_model.zip": "CartPole-v1",
}
# Deterministic, as RL Zoo's uploads are measured; -v3 of HalfCheetah is -v4 in Gymnasium.
SCORES = {
    "hub-fixtures/rl-zoo/ppo-CartPole-v1": ("CartPole-v1", 20, 500, 1e-9),
    "hub-fixtures/rl-zoo/ppo-Pendulum-v1": ("Pendulum-v1", 200, -192, 20),
    "hub-fixtures/rl-zoo/sac-Pendulum-v1": ("Pendulum-v1", 200, -145, 20),
    "hub-fixtures/rl-zoo/ppo-HalfCheetah-v3": ("HalfCheetah-v4", 10, 5872, 587),
    "hub-fixtures/imitation/models/ppo-Pendulum-v1": ("Pendulum-v1", 200, -190, 20),
    "hub-fixtures/imitation/models/ppo-seals-CartPole-v0": ("seals/CartPole-v0", 20, 500, 1e-9),
    "legacy-fixtures/expert_models_cartpole_0_policies_final_model.zip": (
        "CartPole-v1", 20, 500, 1e-9,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("where", FIXTURES)
def test_every_fixture_converts_without_trust(imitbench, shared_dir, tmp_path, where):
    answer = imitbench("experts", "convert", shared_dir / where, "out", "--env", FIXTURES[where])
    assert answer.code == 0, answer.err
    assert answer.out.startswith("out: ")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"README.md", "config.yml", "policy.json", "policy.safetensors"} <= names
    assert not any(path.suffix in (".pkl", ".zip", ".pth") for path in (tmp_path / "out").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("where", SCORES)
def test_every_fixture_scores_as_published(imitbench, shared_dir, where):
    env, episodes, published, tolerance = SCORES[where]
    assert imitbench("experts", "convert", shared_dir / where, "out").code == 0
    for source in (shared_dir / where, "out"):
        answer = imitbench(
            "experts", "eval", source, "--env", env, "--episodes", episodes, "--deterministic",
            "--json",
        )  # fmt: skip
        found = json.loads(answer.out)
        assert found["mean_return"] == pytest.approx(published, abs=tolerance)
        assert (found["episodes"], found["deterministic"]) == (episodes, True)


@pytest.fixture
def expert(tmp_path, shared_dir, imitbench):
    """A converted expert on CartPole, with results to state."""
    folder = shared_dir / "hub-fixtures/rl-zoo/ppo-CartPole-v1"
    assert imitbench("experts", "convert", folder, "expert").code == 0

    def state(mean, std=0.0, deterministic=True):
        results = {
            "mean_reward": mean, "std_reward": std, "n_eval_episodes": 10,
            "is_deterministic": deterministic,
        }  # fmt: skip
        (tmp_path / "expert" / "results.json").write_text(json.dumps(results))

    return state


EVAL = ("experts", "eval", "expert", "--env", "CartPole-v1", "--episodes", "3")


def test_a_measurement_that_agrees_says_so(imitbench, expert):
    answer = imitbench(*EVAL)
    assert answer.out == "return 500.00 ± 0.00 (3 episodes, stochastic policy)\n"
    assert answer.err == ""
    expert(500.0)
    answer = imitbench(*EVAL)
    assert answer.out == "return 500.00 ± 0.00 (3 episodes, deterministic policy)\n"
    assert answer.err == "published 500.00 ± 0.00 (results.json): the same\n"


def test_a_measurement_that_does_not_agree_warns(imitbench, expert):
    expert(480.0, std=3.0)
    answer = imitbench(*EVAL, "--json")
    document = json.loads(answer.out)
    assert answer.code == 0
    assert document["published"] == {
        "mean_return": 480.0, "std_return": 3.0, "episodes": 10, "deterministic": True,
        "file": "results.json", "difference": 20.0, "standard_error": 1.0,
        "standard_errors_apart": 20.0, "agrees": False,
    }  # fmt: skip
    assert {k: document[k] for k in ("mean_return", "std_return", "episodes", "deterministic")} == {
        "mean_return": 500.0, "std_return": 0.0, "episodes": 3, "deterministic": True,
    }  # fmt: skip
    assert answer.err.startswith("warning: published 480.00 ± 3.00 (results.json): does not agree")


@pytest.mark.slow
def test_stochastic_and_deterministic_returns_are_not_compared(imitbench, expert):
    expert(480.0)
    answer = imitbench(*EVAL, "--stochastic")
    assert "of the other kind of policy; give --deterministic to compare" in answer.err
    assert json.loads(imitbench(*EVAL, "--stochastic", "--json").out)["published"]["agrees"] is None


def test_statistics_are_folded_in_and_said(imitbench, shared_dir, tmp_path):
    folder = shared_dir / "hub-fixtures/rl-zoo/ppo-HalfCheetah-v3"
    answer = imitbench("experts", "convert", folder, "out", "--json")
    assert json.loads(answer.out) == {
        "directory": "out",
        "policy_class": "ActorCriticPolicy",
        "includes": ["normalization of observations"],
        "published_mean_return": None,
    }


def test_what_is_wrong_is_one_line(refused, shared_dir, tmp_path):
    cheetah = shared_dir / "hub-fixtures/rl-zoo/ppo-HalfCheetah-v3"
    assert "made for" in refused("experts", "convert", cheetah, "out", "--env", "Pendulum-v1")
    assert "made for" in refused("experts", "eval", cheetah, "--env", "Pendulum-v1")
    assert "neither a path" in refused("experts", "convert", "absent", "out")
    assert "no policy found" in refused("experts", "convert", tmp_path, "out")
    assert "--revision" in refused("experts", "convert", cheetah, "out", "--revision", "main")
    (tmp_path / "bad.zip").write_bytes(b"no zip")
    assert "bad.zip" in refused("experts", "convert", "bad.zip", "out")
    assert not (tmp_path / "out").exists()


def test_trust_opens_what_cannot_be_read_otherwise(imitbench, refused, tmp_path):
    import gymnasium as gym
    import torch as th
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    venv = DummyVecEnv([lambda: gym.make("CartPole-v1")])
    PPO("MlpPolicy", venv, policy_kwargs={"activation_fn": th.nn.Softplus}, **SHORT).save(
        tmp_path / "model.zip"
    )
    arguments = ("experts", "eval", "model.zip", "--env", "CartPole-v1", "--episodes", "2")
    assert "activation_fn" in (line := refused(*arguments))
    assert "--trust" in line
    assert imitbench(*arguments, "--trust").code == 0
