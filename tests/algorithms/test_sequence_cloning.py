"""Behavioral cloning of sequences: windows, averaged weights, and what each method can learn."""

import copy

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from support.sequence_policies import ACTS, OBS, POLICIES, demonstrations

from imitbench.algorithms.bc_heads import BCWithHead
from imitbench.algorithms.sequence_cloning import SequenceCloning, SequenceOptions, Windows
from imitbench.bench.curve import silent_logger
from imitbench.conformance.acting import act_in_turn
from imitbench.data.rollout import flatten_trajectories
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew, every_nth_step
from imitbench.errors import InputError
from imitbench.policies.action_heads import DeterministicPolicy
from imitbench.policies.sequences.bc_rnn import RecurrentPolicy
from imitbench.policies.sequences.diffusion import DiffusionPolicy
from imitbench.policies.sequences.encoding import Normalizer
from imitbench.policies.sequences.flow import FlowChunkPolicy

ANY_POLICY = pytest.mark.parametrize(("cls", "options"), POLICIES.values(), ids=POLICIES)
AVERAGED = SequenceOptions(batch_size=16, average_power=0.75)


def trainer_of(policy, demos, options=AVERAGED):
    return SequenceCloning(
        policy=policy,
        demonstrations=demos,
        rng=np.random.default_rng(0),
        options=options,
        custom_logger=silent_logger(),
    )


def small(cls, options, seed=0):
    th.manual_seed(seed)
    return cls(OBS, ACTS, **options)


# Windows


def test_windows_stay_within_their_trajectory():
    demos = [
        Trajectory(np.arange(low, low + n + 1.0)[:, None], np.arange(low, low + n) * 10, None, True)
        for low, n in ((0, 3), (100, 2))
    ]
    windows = Windows(demos)
    assert len(windows) == 5
    assert windows.longest == 3
    batch = windows.take(np.array([0, 2, 4]), observed=range(-1, 1), acted=range(-1, 2))
    np.testing.assert_array_equal(batch.obs[:, :, 0], [[0, 0], [1, 2], [100, 101]])
    np.testing.assert_array_equal(batch.acts, [[0, 0, 10], [10, 20, 20], [1000, 1010, 1010]])
    np.testing.assert_array_equal(batch.real, [[0, 1, 1], [1, 1, 0], [1, 1, 0]])


def test_images_and_choices_keep_their_types():
    demos = demonstrations(obs=spaces.Box(0, 255, (4, 5, 3), np.uint8), acts=spaces.Discrete(3))
    batch = Windows(demos).take(np.array([0]), range(1), range(1))
    assert batch.obs.dtype == th.uint8
    assert batch.acts.dtype == th.int64


@pytest.mark.parametrize("kind", ["range", "moments"])
def test_normalization_is_that_of_the_demonstrations(kind):
    rows = np.random.default_rng(0).uniform(-3, 7, (500, 2))
    rows[:, 1] = 5.0  # constant: nothing to divide by
    layer = Normalizer(2, kind)
    layer.fit(rows)
    given = th.tensor(rows, dtype=th.float32)
    found = layer(given)
    assert th.allclose(layer.inverse(found), given, atol=1e-5)
    assert (found[:, 1] == 0).all()
    if kind == "range":
        assert found.amin(0)[0].item() == pytest.approx(-1, abs=1e-5)
        assert found.amax(0)[0].item() == pytest.approx(1, abs=1e-5)
    else:
        assert found.mean(0)[0].item() == pytest.approx(0, abs=1e-5)
        assert found[:, 0].std(correction=0).item() == pytest.approx(1, abs=1e-5)


# Training


def test_averaged_weights_are_the_closed_form():
    trainer = trainer_of(small(*POLICIES["bc_rnn"]), demonstrations())
    seen = []
    for _ in range(4):
        trainer.train(1)
        seen.append(trainer.state_dict()["policy"]["head.weight"])
    # Update n keeps d = 1 - (1 + n)^-0.75: the weights of step i have (1 - d_i) d_{i+1} … d_3.
    kept = 1 - (1 + np.arange(4.0)) ** -0.75
    shares = [(1 - kept[i]) * np.prod(kept[i + 1 :]) for i in range(4)]
    assert sum(shares) == pytest.approx(1)
    expected = sum(share * each for share, each in zip(shares, seen, strict=True))
    found = trainer.policy.state_dict()["head.weight"]
    assert th.allclose(found, expected, atol=1e-6)
    assert not th.allclose(found, seen[-1], atol=1e-6)


@ANY_POLICY
def test_resumed_training_is_the_same_bit_for_bit(cls, options):
    demos = demonstrations()
    whole, resumed = (trainer_of(small(cls, options, seed), demos) for seed in (0, 1))
    whole.train(2)
    state = copy.deepcopy(whole.state_dict())
    th.manual_seed(5)  # of dropout, which the harness restores
    logged = whole.train(2)
    resumed.load_state_dict(state)
    th.manual_seed(5)
    assert resumed.train(2) == logged
    assert resumed.n_batches == 4
    for key, value in whole.policy.state_dict().items():
        assert th.equal(resumed.policy.state_dict()[key], value), key


class StoppedError(Exception):
    """Ends a training."""


@ANY_POLICY
def test_a_training_that_is_stopped_between_its_points_goes_on_to_the_same(cls, options):
    demos = demonstrations()
    whole, stopped, resumed = (trainer_of(small(cls, options, seed), demos) for seed in (0, 0, 1))
    th.manual_seed(5)  # of dropout, which the harness restores
    logged = whole.train(25)
    states = []

    def stop_at_the_second():
        states.append((copy.deepcopy(stopped.state_dict()), th.get_rng_state()))
        if len(states) == 2:
            raise StoppedError

    th.manual_seed(5)
    with pytest.raises(StoppedError):
        stopped.train(25, stop_at_the_second)
    assert stopped.n_batches == 20
    for state, generator in states:
        resumed.load_state_dict(state)
        th.set_rng_state(generator)
        assert resumed.train(25 - state["batches"]) == logged
        for key, value in whole.policy.state_dict().items():
            assert th.equal(resumed.policy.state_dict()[key], value), key


def test_chunks_longer_than_the_demonstrations_are_refused_in_one_line():
    for name, argument in (("act", "chunk"), ("diffusion", "horizon"), ("bc_rnn", "horizon")):
        with pytest.raises(InputError, match="longest demonstration has; choose at most 3") as said:
            trainer_of(small(*POLICIES[name]), demonstrations(steps=3))
        assert str(said.value).startswith(f"{argument}: 4 actions")
    trainer_of(small(*POLICIES["act"]), [*demonstrations(steps=3), *demonstrations(steps=4)])


def test_demonstrations_with_steps_left_out_are_refused():
    whole = demonstrations(1)[0]
    scored = TrajectoryWithRew(whole.obs, whole.acts, None, True, np.zeros(len(whole)))
    with pytest.raises(ValueError, match="need whole episodes"):
        trainer_of(small(*POLICIES["act"]), every_nth_step(scored, 2, 0))


def test_demonstrations_of_other_spaces_are_refused():
    with pytest.raises(ValueError, match="acts has shape"):
        trainer_of(
            small(*POLICIES["act"]), demonstrations(acts=spaces.Box(-1, 1, (3,), np.float32))
        )


# What each method can learn

ONE = spaces.Box(-1.0, 1.0, (1,), np.float32)
NARROW = {"history": 1, "horizon": 2, "execute": 2, "channels": 24, "levels": 1}
BIMODAL = {
    "bc_rnn": (RecurrentPolicy, {"horizon": 4, "hidden_size": 16}, 80),
    "diffusion": (DiffusionPolicy, {**NARROW, "train_steps": 50}, 200),
    "flow": (FlowChunkPolicy, NARROW, 200),
}


def of_two_minds():
    """Where experts see 0, half of them do 1 and the others -1; where they see 1, they do 0.5."""
    return [
        TrajectoryWithRew(
            np.full((9, 1), seen, np.float32),
            np.full((8, 1), done, np.float32),
            None,
            True,
            np.zeros(8),
        )
        for seen, done in ((0.0, 1.0), (0.0, -1.0), (1.0, 0.5))
    ]


def test_a_single_action_is_the_mean_of_two():
    cloned = BCWithHead(
        policy=DeterministicPolicy(ONE, ONE),
        rng=np.random.default_rng(0),
        demonstrations=flatten_trajectories(of_two_minds()),
        batch_size=16,
        custom_logger=silent_logger(),
    )
    cloned.train(n_batches=200, progress_bar=False)
    acted, _ = cloned.policy.predict(np.zeros((1, 1), np.float32), deterministic=True)
    assert abs(acted.item()) < 0.2


@pytest.mark.parametrize(("cls", "options", "batches"), BIMODAL.values(), ids=BIMODAL)
def test_both_modes_of_an_expert_are_learned(cls, options, batches):
    th.manual_seed(0)
    settings = SequenceOptions(learning_rate=0.01, average_power=0.75)
    trainer = trainer_of(cls(ONE, ONE, **options), of_two_minds(), settings)
    trainer.train(batches)
    seen = np.zeros((1, 300, 1), np.float32)
    seen[:, 200:] = 1.0
    [sampled], [fixed] = (
        act_in_turn(trainer.policy, seen, deterministic=each)[:, :, 0] for each in (False, True)
    )
    for acted in (sampled, fixed):
        assert abs(acted[200:] - 0.5).mean() < 0.25
    sampled, fixed = sampled[:200], fixed[:200]
    assert (abs(sampled) > 0.5).mean() > 0.9
    assert 0.3 < (sampled > 0).mean() < 0.7
    assert (abs(fixed) > 0.5).all()
    assert len(np.unique(np.sign(fixed))) == 1


def remembered(episodes, steps, delay, rng):
    """Episodes in which the action is the observation of some steps ago, or 0."""
    found = []
    for _ in range(episodes):
        obs = rng.choice([-1.0, 1.0], (steps + 1, 1)).astype(np.float32)
        acts = np.concatenate([np.zeros((delay, 1), np.float32), obs[: steps - delay]])
        found.append(TrajectoryWithRew(obs, acts, None, True, np.zeros(steps)))
    return found


def test_a_recurrent_policy_acts_on_what_it_saw_steps_ago_and_a_plain_one_cannot():
    steps, delay = 12, 2
    rng = np.random.default_rng(0)
    demos, unseen = (remembered(100, steps, delay, rng) for _ in range(2))
    th.manual_seed(0)
    recurrent = RecurrentPolicy(ONE, ONE, horizon=steps, hidden_size=32)
    trainer = trainer_of(recurrent, demos, SequenceOptions(learning_rate=0.01))
    trainer.train(200)
    plain = BCWithHead(
        policy=DeterministicPolicy(ONE, ONE),
        rng=rng,
        demonstrations=flatten_trajectories(demos),
        custom_logger=silent_logger(),
    )
    plain.train(n_batches=200, progress_bar=False)
    seen = np.stack([each.obs[:-1] for each in unseen], axis=1)  # steps first
    due = np.stack([each.acts for each in unseen], axis=1)
    acted = act_in_turn(trainer.policy, seen)
    alone, _ = plain.policy.predict(seen.reshape(-1, 1), deterministic=True)
    assert abs(acted - due)[delay:].mean() < 0.1
    assert abs(alone.reshape(seen.shape) - due)[delay:].mean() > 0.8
