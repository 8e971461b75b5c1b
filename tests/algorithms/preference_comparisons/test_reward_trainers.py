"""Training of a reward network: gradients, logs, seeds, validation, resuming, and errors."""

import functools

import numpy as np
import pytest
import torch as th
from support.preference_pairs import (
    SCALER,
    LinearReward,
    linear_ensemble,
    logged,
    pairs_of,
    perceptron,
    quiet_logger,
    weights,
)

from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.algorithms.preference_comparisons.preference_model import (
    CrossEntropyRewardLoss,
    LossAndMetrics,
    PreferenceModel,
    RewardLoss,
)
from imitbench.algorithms.preference_comparisons.reward_trainers import (
    BasicRewardTrainer,
    EnsembleTrainer,
    make_reward_trainer,
)
from imitbench.regularization.regularizers import LpRegularizer, WeightDecayRegularizer
from imitbench.util.networks import RunningNorm


@pytest.fixture
def make(tmp_path):
    def build(net=None, seed=0, **kwargs):
        model = PreferenceModel(net or perceptron())
        kwargs.setdefault("custom_logger", quiet_logger(tmp_path))
        kwargs.setdefault("loss", CrossEntropyRewardLoss())
        return BasicRewardTrainer(model, rng=np.random.default_rng(seed), **kwargs)

    return build


class Recorder:
    """Notes the gradient at each step of an optimizer, whose steps lead nowhere."""

    def __init__(self, trainer):
        self.gradients = []
        self.parameters = list(trainer._preference_model.parameters())
        trainer.optim.register_step_pre_hook(self)
        trainer.optim.param_groups[0]["lr"] = 0.0

    def __call__(self, *_):
        self.gradients.append(th.cat([each.grad.flatten() for each in self.parameters]))


@pytest.mark.parametrize("regularize", [False, True])
@pytest.mark.parametrize("minibatch_size", [1, 2, 4, 8])
def test_gradients_of_minibatches_add_up_to_that_of_the_batch(
    make, dataset, minibatch_size, regularize
):
    factory = LpRegularizer.create(initial_lambda=0.1, p=2) if regularize else None
    whole = make(batch_size=8, regularizer_factory=factory)
    parts = make(batch_size=8, minibatch_size=minibatch_size, regularizer_factory=factory)
    recorders = Recorder(whole), Recorder(parts)
    whole.train(dataset)
    parts.train(dataset)
    assert len(recorders[0].gradients) == len(recorders[1].gradients) == 3
    for one, other in zip(*(each.gradients for each in recorders), strict=True):
        assert th.allclose(one, other, rtol=1e-4, atol=1e-6)
    for name in ("loss", "accuracy"):
        key = f"reward/final/train/{name}"
        assert logged(parts)[key] == pytest.approx(logged(whole)[key], rel=1e-5)
    if regularize:
        key = "reward/final/regularized_loss"
        assert logged(parts)[key] == pytest.approx(logged(whole)[key], rel=1e-5)


def test_steps_are_those_of_adamw_on_the_closed_form_gradient(make, dataset):
    net = LinearReward([0.3, -0.2, 0.1])
    trainer = make(net, batch_size=20, lr=0.01)
    weight = net.weight.detach().numpy().astype(np.float64)
    features = np.array(
        [f1.obs[:-1].sum(0) - f2.obs[:-1].sum(0)
         for f1, f2 in zip(dataset.fragments1, dataset.fragments2, strict=True)]
    ).astype(np.float64)  # fmt: skip
    first, second = np.zeros(3), np.zeros(3)
    for step in range(1, 6):
        trainer.train(dataset)
        probabilities = 1 / (1 + np.exp(-features @ weight))
        gradient = ((probabilities - dataset.preferences)[:, None] * features).mean(axis=0)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        direction = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        weight = weight * (1 - 0.01 * 0.01) - 0.01 * direction
        assert np.allclose(net.weight.detach(), weight, rtol=1e-5, atol=1e-6)


def test_the_last_incomplete_batch_counts_by_its_size(make, dataset):
    trainer = make(LinearReward([0.3, -0.2, 0.1]), batch_size=32)  # of 20 comparisons
    recorder = Recorder(trainer)
    trainer.train(dataset)
    alone = make(LinearReward([0.3, -0.2, 0.1]), batch_size=20)
    full = Recorder(alone)
    alone.train(dataset)
    assert th.allclose(recorder.gradients[0], full.gradients[0] * 20 / 32, rtol=1e-5)
    assert logged(trainer)["reward/final/train/loss"] == pytest.approx(
        logged(alone)["reward/final/train/loss"], rel=1e-6
    )


def test_training_fits_the_preferences(make, dataset):
    trainer = make(perceptron(hid_sizes=(32, 32)), epochs=200, lr=0.01)
    trainer.train(dataset)
    assert logged(trainer)["reward/final/train/accuracy"] == 1.0
    assert logged(trainer)["reward/final/train/loss"] < 0.05


@pytest.mark.parametrize(("epochs", "multiplier", "expected"), [(2, 1.5, 3), (1, 4.0, 4)])
def test_the_multiplier_lengthens_training(make, dataset, epochs, multiplier, expected):
    trainer = make(epochs=epochs, batch_size=10)
    recorder = Recorder(trainer)
    trainer.train(dataset, epoch_multiplier=multiplier)
    assert len(recorder.gradients) == 2 * expected
    assert f"mean/reward/epoch-{expected - 1}/train/loss" in logged(trainer)
    assert f"mean/reward/epoch-{expected}/train/loss" not in logged(trainer)


def test_each_epoch_is_logged_and_the_last_one_also_as_final(make, dataset):
    trainer = make(epochs=2, batch_size=6)
    trainer.train(dataset)
    values = logged(trainer)
    for name in ("loss", "accuracy", "gt_reward_loss"):
        assert f"mean/reward/epoch-0/train/{name}" in values
        last = values[f"mean/reward/epoch-1/train/{name}"]
        assert values[f"reward/final/train/{name}"] == last
    trainer.train(dataset)  # before any dump: the final numbers are those of the last training
    assert values["reward/final/train/loss"] != pytest.approx(
        values["mean/reward/epoch-1/train/loss"], rel=1e-9
    )


def test_logged_numbers_are_means_over_comparisons_not_over_batches(make, dataset):
    trainer = make(LinearReward([0.3, -0.2, 0.1]), batch_size=19)
    Recorder(trainer)  # the weights stay
    trainer.train(dataset)
    pairs = [dataset[index][0] for index in range(20)]
    whole = CrossEntropyRewardLoss()(pairs, dataset.preferences, trainer._preference_model)
    assert logged(trainer)["reward/final/train/loss"] == pytest.approx(whole.loss.item(), rel=1e-5)
    for name, value in whole.metrics.items():
        assert logged(trainer)[f"reward/final/train/{name}"] == pytest.approx(
            value.item(), rel=1e-5
        )


def test_the_same_seed_gives_the_same_network_and_another_seed_does_not(make, dataset):
    trained = []
    for seed in (0, 0, 1):
        th.manual_seed(len(trained))  # torch's global generator plays no part
        trainer = make(seed=seed, batch_size=4, epochs=3)
        trainer.train(dataset)
        trained.append(weights(trainer))
    assert th.equal(trained[0], trained[1])
    assert not th.equal(trained[0], trained[2])


REGULARIZERS = {
    "none": None,
    "decay": WeightDecayRegularizer.create(initial_lambda=0.1),
    "validated": LpRegularizer.create(
        initial_lambda=0.1, p=2, lambda_updater=SCALER, val_split=0.2
    ),
}


@pytest.mark.parametrize("kind", REGULARIZERS)
def test_training_resumes_bit_for_bit(make, dataset, kind, tmp_path):
    build = functools.partial(
        make,
        batch_size=4,
        minibatch_size=2,
        epochs=2,
        regularizer_factory=REGULARIZERS[kind],
    )

    def fresh():
        return build(perceptron(normalize_input_layer=RunningNorm))

    through, first, second = fresh(), fresh(), fresh()
    for trainer in (through, first):
        trainer.train(dataset)
    th.save(first.state_dict(), tmp_path / "state.pt")
    second._preference_model.model.mlp.dense0.weight.data.zero_()
    second.load_state_dict(th.load(tmp_path / "state.pt", weights_only=True))
    through.train(dataset)
    second.train(dataset)
    ours, theirs = through._preference_model.state_dict(), second._preference_model.state_dict()
    assert all(th.equal(ours[name], theirs[name]) for name in ours)
    if kind == "validated":
        assert through.regularizer.lambda_ == second.regularizer.lambda_ != 0.1


def test_a_state_needs_the_same_regularizer(make):
    state = make(regularizer_factory=REGULARIZERS["decay"]).state_dict()
    with pytest.raises(ValueError, match="state was made with a regularizer"):
        make().load_state_dict(state)
    with pytest.raises(ValueError, match="state was made without a regularizer"):
        make(regularizer_factory=REGULARIZERS["decay"]).load_state_dict(make().state_dict())


def test_a_regularizer_changes_what_is_learned(make, dataset):
    trained = []
    for kind in ("none", "decay"):
        trainer = make(epochs=5, regularizer_factory=REGULARIZERS[kind])
        trainer.train(dataset)
        trained.append(weights(trainer))
    assert trained[1].norm() < trained[0].norm()


def test_weights_decay_once_per_step_however_many_minibatches(make, dataset):
    trained = []
    for minibatch_size in (20, 5):
        trainer = make(
            LinearReward([100.0, 100.0, 100.0]),
            batch_size=20,
            minibatch_size=minibatch_size,
            regularizer_factory=WeightDecayRegularizer.create(initial_lambda=100.0),
        )
        trainer.train(dataset)
        trained.append(weights(trainer))
    # 100 * 1e-3 of each weight, and Adam's and its own decay's 1e-3 and 1e-5.
    assert th.allclose(trained[0], th.full((3,), 90.0), atol=0.01)
    assert th.allclose(trained[0], trained[1], atol=1e-5)


def test_validation_is_logged_moves_the_strength_and_changes_no_statistics(make, dataset):
    trainer = make(
        perceptron(normalize_input_layer=RunningNorm),
        epochs=3,
        regularizer_factory=REGULARIZERS["validated"],
    )
    assert trainer.requires_regularizer_update
    trainer.train(dataset)
    values = logged(trainer)
    for name in ("train/loss", "val/loss", "val/accuracy", "regularization_lambda"):
        assert f"mean/reward/epoch-2/{name}" in values
        assert f"reward/final/{name}" in values
    assert values["reward/final/regularization_lambda"] == trainer.regularizer.lambda_ != 0.1
    # Three epochs over 16 of 20 pairs of fragments of 4 steps; none of the 4 for validation.
    assert int(trainer._preference_model.model.mlp.normalize_input.count) == 3 * 16 * 2 * 4


def test_losses_of_training_and_validation_are_comparable(make, dataset):
    seen = []

    def note(lambda_, train_loss, val_loss):
        seen.append((train_loss, val_loss))
        return lambda_

    factory = LpRegularizer.create(initial_lambda=1e-9, p=2, lambda_updater=note, val_split=0.5)
    trainer = make(LinearReward([0.0, 0.0, 0.0]), batch_size=2, lr=0.0, regularizer_factory=factory)
    trainer.train(dataset)
    # An untrained network has a loss of log 2 on both parts, of any size.
    assert seen == [(pytest.approx(np.log(2)), pytest.approx(np.log(2)))]


def test_without_an_updater_nothing_is_held_out(make):
    assert not make().requires_regularizer_update
    assert not make(regularizer_factory=REGULARIZERS["decay"]).requires_regularizer_update


def test_a_new_logger_reaches_the_regularizer(make, tmp_path):
    trainer = make(regularizer_factory=REGULARIZERS["decay"])
    trainer.logger = quiet_logger(tmp_path)
    assert trainer.regularizer.logger is trainer.logger


class FirstWins(RewardLoss):
    """Looks at single pairs, as losses of other libraries do."""

    def forward(self, fragment_pairs, preferences, preference_model):
        self.modes.append(preference_model.model.training)
        assert all(len(first) == len(second) for first, second in fragment_pairs)
        assert len(fragment_pairs[:1]) == 1
        probabilities, _ = preference_model(fragment_pairs)
        return LossAndMetrics(-probabilities.log().mean(), {"size": th.tensor(len(preferences))})


def test_any_reward_loss_is_accepted(make, dataset):
    loss = FirstWins()
    loss.modes = []
    trainer = make(loss=loss, batch_size=8)
    trainer._preference_model.model.eval()
    trainer.train(dataset)
    assert loss.modes == [True, True, True]
    assert not trainer._preference_model.model.training
    assert logged(trainer)["reward/final/train/size"] == pytest.approx((8 * 8 + 8 * 8 + 4 * 4) / 20)


def test_the_dataset_may_grow_between_trainings(make, dataset):
    trainer = make(batch_size=10)
    recorder = Recorder(trainer)
    trainer.train(dataset)
    rng = np.random.default_rng(1)
    dataset.push(pairs_of(rng, [7] * 20), rng.integers(2, size=20).astype(np.float32))
    trainer.train(dataset)  # now of fragments of different lengths
    assert len(recorder.gradients) == 2 + 4


def test_an_empty_dataset_is_reported(make):
    with pytest.raises(ValueError, match="dataset is empty"):
        make().train(PreferenceDataset())


def test_too_few_comparisons_to_validate_are_reported(make, dataset):
    few = [dataset[index] for index in range(4)]
    trainer = make(regularizer_factory=REGULARIZERS["validated"])
    with pytest.raises(ValueError, match="4 comparisons are too few to validate on a share"):
        trainer.train(few)


def test_a_multiplier_without_an_epoch_is_reported(make, dataset):
    with pytest.raises(ValueError, match=r"epoch_multiplier 0.1 leaves no epoch of 2"):
        make(epochs=2).train(dataset, epoch_multiplier=0.1)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"batch_size": 32, "minibatch_size": 5}, "32 is not a multiple of minibatch_size 5"),
        ({"batch_size": 0}, "batch_size must be positive"),
        ({"minibatch_size": 0}, "minibatch_size must be positive"),
        ({"epochs": 0}, "epochs must be at least 1"),
    ],
)
def test_bad_sizes_are_reported(make, kwargs, message):
    with pytest.raises(ValueError, match=message):
        make(**kwargs)


def test_diverging_training_stops_with_advice(make, dataset):
    trainer = make(lr=1e30, epochs=50, batch_size=4)
    with pytest.raises(ValueError, match="training has diverged"):
        trainer.train(dataset)


def test_the_trainer_fits_the_network(tmp_path):
    options = {"epochs": 3, "custom_logger": quiet_logger(tmp_path)}
    loss, rng = CrossEntropyRewardLoss(), np.random.default_rng(0)
    single = make_reward_trainer(PreferenceModel(perceptron()), loss, rng, options)
    assert type(single) is BasicRewardTrainer
    several = PreferenceModel(linear_ensemble([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]))
    ensemble = make_reward_trainer(several, loss, rng, options)
    assert type(ensemble) is EnsembleTrainer
    assert single.epochs == ensemble.epochs == 3


def test_training_does_not_change_earlier_states(make, dataset):
    trainer = make()
    trainer.train(dataset)
    state, at_state = trainer.state_dict(), weights(trainer).clone()
    trainer.train(dataset)
    trainer.load_state_dict(state)
    assert th.equal(weights(trainer), at_state)
    expected = make()
    expected.load_state_dict(state)
    for each in (trainer, expected):
        each.train(dataset)
    assert th.equal(weights(trainer), weights(expected))
