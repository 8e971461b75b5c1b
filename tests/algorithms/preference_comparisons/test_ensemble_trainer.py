"""Training of ensembles: bags, means of what is logged, seeds, and resuming."""

import numpy as np
import pytest
import torch as th
from support.preference_pairs import (
    ACT_SPACE,
    OBS_SPACE,
    SCALER,
    logged,
    perceptron,
    quiet_logger,
    weights,
)

from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.algorithms.preference_comparisons.preference_model import (
    CrossEntropyRewardLoss,
    PreferenceModel,
)
from imitbench.algorithms.preference_comparisons.reward_trainers import (
    BasicRewardTrainer,
    EnsembleTrainer,
)
from imitbench.regularization.regularizers import LpRegularizer
from imitbench.rewards.reward_nets import AddSTDRewardWrapper, RewardEnsemble


@pytest.fixture
def make(tmp_path):
    def build(seed=0, same=False, **kwargs):
        members = [perceptron(0 if same else index) for index in range(3)]
        net = AddSTDRewardWrapper(RewardEnsemble(OBS_SPACE, ACT_SPACE, members))
        return EnsembleTrainer(
            PreferenceModel(net),
            CrossEntropyRewardLoss(),
            np.random.default_rng(seed),
            custom_logger=quiet_logger(tmp_path),
            **kwargs,
        )

    return build


def test_each_member_is_trained_on_its_own_bag(make, dataset, monkeypatch):
    bags = []

    def note(self, data, epoch_multiplier=1.0):
        bags.append(data.origins.tolist())

    monkeypatch.setattr(BasicRewardTrainer, "train", note)
    trainer = make()
    for _ in range(100):
        trainer._train(dataset)
    assert {len(bag) for bag in bags} == {20}
    assert len({tuple(bag) for bag in bags}) == 300
    # A comparison is missing from a bag with probability (1 - 1/20)^20.
    different = np.mean([len(set(bag)) for bag in bags]) / 20
    assert different == pytest.approx(1 - 0.95**20, abs=0.02)


def test_equal_members_diverge_because_of_their_bags(make, dataset):
    trainer = make(same=True, epochs=3)
    trainer.train(dataset)
    trained = [
        th.cat([each.detach().flatten() for each in member.parameters()])
        for member in trainer._preference_model.ensemble_model.members
    ]
    assert not th.equal(trained[0], trained[1])
    assert not th.equal(trained[1], trained[2])


def test_means_and_deviations_of_the_members_are_logged(make, dataset):
    trainer = make(epochs=2)
    trainer.train(dataset)
    values = logged(trainer)
    for name in ("loss", "accuracy", "gt_reward_loss"):
        own = [values[f"member-{index}/reward/final/train/{name}"] for index in range(3)]
        assert f"mean/member-2/reward/epoch-1/train/{name}" in values
        assert values[f"reward/final/train/{name}"] == pytest.approx(np.mean(own))
        assert values[f"reward/final/train/{name}_std"] == pytest.approx(np.std(own))


def test_outer_prefixes_are_kept(make, dataset):
    trainer = make()
    with trainer.logger.add_accumulate_prefix("outer"):
        trainer.train(dataset)
    assert "outer/member-1/reward/final/train/loss" in logged(trainer)
    assert "outer/reward/final/train/loss_std" in logged(trainer)


def test_the_multiplier_reaches_the_members(make, dataset):
    trainer = make()
    trainer.train(dataset, epoch_multiplier=3)
    assert "mean/member-0/reward/epoch-2/train/loss" in logged(trainer)


def test_the_same_seed_gives_the_same_networks(make, dataset):
    trained = []
    for seed in (0, 0, 1):
        trainer = make(seed=seed, epochs=2)
        trainer.train(dataset)
        trained.append(weights(trainer))
    assert th.equal(trained[0], trained[1])
    assert not th.equal(trained[0], trained[2])


@pytest.mark.parametrize("regularize", [False, True])
def test_training_resumes_bit_for_bit(make, dataset, regularize, tmp_path):
    factory = LpRegularizer.create(initial_lambda=0.1, p=2, lambda_updater=SCALER, val_split=0.25)
    kwargs = {"epochs": 2, "regularizer_factory": factory if regularize else None}
    through, first, second = make(**kwargs), make(**kwargs), make(**kwargs)
    for trainer in (through, first):
        trainer.train(dataset)
    th.save(first.state_dict(), tmp_path / "state.pt")
    second.load_state_dict(th.load(tmp_path / "state.pt", weights_only=True))
    through.train(dataset)
    second.train(dataset)
    assert th.equal(weights(through), weights(second))
    if regularize:
        strengths = [
            [member.regularizer.lambda_ for member in trainer.member_trainers]
            for trainer in (through, second)
        ]
        assert strengths[0] == strengths[1]
        assert strengths[0] != [0.1] * 3


def test_a_new_logger_reaches_the_members(make, tmp_path):
    trainer = make()
    trainer.logger = quiet_logger(tmp_path)
    assert all(member.logger is trainer.logger for member in trainer.member_trainers)


def test_a_single_network_is_refused():
    with pytest.raises(TypeError, match=r"of a RewardEnsemble, not of a BasicRewardNet"):
        EnsembleTrainer(
            PreferenceModel(perceptron()), CrossEntropyRewardLoss(), np.random.default_rng(0)
        )


def test_an_empty_dataset_is_reported(make):
    with pytest.raises(ValueError, match="dataset is empty"):
        make().train(PreferenceDataset())
