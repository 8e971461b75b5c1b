"""DAgger: snapshots, and that it can be resumed."""

import numpy as np
import pytest
import torch as th
from support.dagger import (
    QUIET,
    SMALL_ROUNDS,
    Homing,
    assert_same,
    collect,
    corridor,
    episodes,
    fingerprint,
    make_trainer,
    quiet_logger,
)

from imitbench.algorithms import bc
from imitbench.algorithms.dagger import (
    DAggerTrainer,
    ExponentialBetaSchedule,
    SimpleDAggerTrainer,
    reconstruct_trainer,
)
from imitbench.algorithms.dagger_storage import read_demos
from imitbench.errors import InputError
from imitbench.policies.base import FeedForward32Policy
from imitbench.util.state_file import load_state, save_state


def test_results_depend_on_the_generators_alone(tmp_path):
    def result(name, disturb):
        trainer = make_trainer(tmp_path / name)
        if disturb:
            th.rand(5)
            trainer.venv.reset()
            trainer.venv.step(np.zeros(2, int))
        trainer.train(120, **SMALL_ROUNDS)
        return fingerprint(trainer)

    assert_same(result("a", disturb=False), result("b", disturb=True))


@pytest.mark.parametrize("folder", ["the same", "another"])
@pytest.mark.parametrize("shared_rng", [True, False])
def test_resuming_between_rounds_equals_uninterrupted_training(tmp_path, folder, shared_rng):
    options = {"shared_rng": shared_rng, "expert_trajs": episodes(2)}
    # Measuring steps the environments, too, and must not matter.
    rounds = {**SMALL_ROUNDS, "bc_train_kwargs": {"progress_bar": False}}
    whole = make_trainer(tmp_path / "whole", **options)
    for _ in range(4):
        whole.train_round(**rounds)

    first = make_trainer(tmp_path / "first", **options)
    for _ in range(2):
        first.train_round(**rounds)
    save_state(tmp_path / "state", first.state_dict())
    first.train_round(**rounds)  # what came after the checkpoint is lost and done again
    second = make_trainer(tmp_path / ("first" if folder == "the same" else "second"), **options)
    second.load_state_dict(load_state(tmp_path / "state"))
    for _ in range(2):
        second.train_round(**rounds)
    if folder == "another":  # the state excludes rewards and infos of demonstrations
        assert_same((*fingerprint(whole)[:1], 0), (*fingerprint(second)[:1], 0))
        assert [len(t) for t in fingerprint(whole)[1]] == [len(t) for t in fingerprint(second)[1]]
    else:
        assert_same(fingerprint(whole), fingerprint(second))


@pytest.mark.parametrize("shared_rng", [True, False])
def test_a_reconstructed_trainer_continues_as_the_saved_one(tmp_path, shared_rng):
    options = {
        "bc_options": {"ent_weight": 0.01, "l2_weight": 1e-4, "minibatch_size": 8,
                       "optimizer_cls": th.optim.SGD, "optimizer_kwargs": {"lr": 0.02}},
        "beta_schedule": ExponentialBetaSchedule(0.5),
        "shared_rng": shared_rng,
    }  # fmt: skip
    whole = make_trainer(tmp_path / "whole", **options)
    whole.train(160, **SMALL_ROUNDS)
    first = make_trainer(tmp_path / "first", **options)
    first.train(80, **SMALL_ROUNDS)
    checkpoint, policy = first.save_trainer()
    assert (checkpoint.name, policy.name) == ("checkpoint-002.pt", "policy-002")
    first.train(40, **SMALL_ROUNDS)
    venv = corridor()
    second = reconstruct_trainer(
        tmp_path / "first", venv, quiet_logger(), "cpu",
        expert_policy=Homing(venv.observation_space, venv.action_space),
    )  # fmt: skip
    assert isinstance(second, SimpleDAggerTrainer) and second.round_num == 2
    second.train(80, **SMALL_ROUNDS)
    assert_same(fingerprint(whole), fingerprint(second))


def test_a_saved_policy_can_be_loaded_alone(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.train(40, **SMALL_ROUNDS)
    _, path = trainer.save_trainer()
    trainer.save_policy(tmp_path / "alone")
    obs = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    expected, _ = trainer.policy.predict(obs, deterministic=True)
    for folder in (path, tmp_path / "policy-latest", tmp_path / "alone"):
        actions, _ = bc.reconstruct_policy(folder, "cpu").predict(obs, deterministic=True)
        np.testing.assert_array_equal(actions, expected)


def test_without_an_expert_the_step_by_step_trainer_is_reconstructed(tmp_path):
    trainer = make_trainer(tmp_path, simple=False)
    collect(trainer, 20)
    trainer.extend_and_update(QUIET)
    trainer.save_trainer()
    again = reconstruct_trainer(tmp_path, corridor(), quiet_logger(), "cpu")
    assert type(again) is DAggerTrainer
    for each in (trainer, again):
        collect(each, 20)
    # Both saved to the same folder, so the observations are the same.
    saved = read_demos(trainer.round_folder(1))
    assert saved[:2] == saved[2:]


def test_a_custom_schedule_must_be_passed_again(tmp_path):
    trainer = make_trainer(tmp_path, beta_schedule=lambda _: 0.5)
    trainer.train(40, **SMALL_ROUNDS)
    trainer.save_trainer()
    with pytest.raises(ValueError, match="beta_schedule"):
        reconstruct_trainer(tmp_path, corridor(), quiet_logger())
    schedule = ExponentialBetaSchedule(0.9)
    again = reconstruct_trainer(tmp_path, corridor(), quiet_logger(), beta_schedule=schedule)
    assert again.beta_schedule is schedule


def test_checkpoints_contain_no_executable_code(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.train(40, **SMALL_ROUNDS)
    trainer.save_trainer()
    files = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {".pt", ".json", ".safetensors", ".parquet"}
    assert load_state(tmp_path / "checkpoint-latest.pt")["format"] == "imitbench-dagger"


def test_missing_and_damaged_checkpoints_are_reported(tmp_path):
    with pytest.raises(InputError, match=r"checkpoint-latest\.pt"):
        reconstruct_trainer(tmp_path, corridor())
    trainer = make_trainer(tmp_path)
    trainer.train(40, **SMALL_ROUNDS)
    trainer.save_trainer()
    save_state(tmp_path / "checkpoint-latest.pt", {"format": "something else"})
    with pytest.raises(InputError, match="not a DAgger checkpoint"):
        reconstruct_trainer(tmp_path, corridor())
    trainer.save_trainer()
    (tmp_path / "demos" / "round-000").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"round-000: no demonstrations"):
        reconstruct_trainer(tmp_path, corridor(), quiet_logger())


def test_a_policy_that_cannot_be_saved_is_reported(tmp_path):
    class Own(FeedForward32Policy):
        pass

    venv = corridor()
    own = Own(venv.observation_space, venv.action_space, lambda _: 1e-3)
    trainer = make_trainer(tmp_path, venv=venv, bc_options={"policy": own})
    with pytest.raises(ValueError, match="Own"):
        trainer.save_trainer()
