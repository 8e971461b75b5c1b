"""DAgger with a gate: who acts, which answers are learned from, and what they cost."""

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import DummyVecEnv
from support.dagger import Corridor, quiet_logger

from imitbench.algorithms.bc_heads import BCWithHead
from imitbench.algorithms.dagger import SimpleDAggerTrainer
from imitbench.algorithms.ensemble_dagger import EnsembleDAgger
from imitbench.algorithms.gated_dagger import QueryCounts
from imitbench.algorithms.novelty_dagger import NoveltyDAgger
from imitbench.policies.action_heads import DeterministicPolicy, EnsemblePolicy, FlowPolicy
from imitbench.util.state_file import load_state, save_state

EPISODE = 20
ROUND = {
    "rollout_round_min_episodes": 2,
    "rollout_round_min_timesteps": 2 * EPISODE,
    "bc_train_kwargs": {"n_epochs": 2, "progress_bar": False},
}
METHODS = {
    "ensemble": (EnsembleDAgger, {"doubt_threshold": 0.1}),
    "ensemble, asked always": (
        EnsembleDAgger,
        {"doubt_threshold": 0.1, "discrepancy_threshold": 0.5},
    ),
    "novelty": (NoveltyDAgger, {"query_share": 0.2}),
}
ANY_METHOD = pytest.mark.parametrize(("cls", "options"), METHODS.values(), ids=METHODS)


class Slope(Corridor):
    """The corridor with steps of any length up to 0.2; the expert walks towards 0."""

    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def step(self, action):
        self.place += 0.2 * float(action[0])
        self.steps += 1
        return self._observe(), -abs(self.place), False, self.steps == EPISODE, {}


class Homing(BasePolicy):
    """The expert: keeps the observations that it was asked about."""

    def __init__(self, venv):
        super().__init__(venv.observation_space, venv.action_space)
        self.asked = []

    def _predict(self, observation, deterministic=False):
        assert deterministic
        self.asked.append(observation.numpy().copy())
        return (-observation[:, :1]).clamp(-1, 1)


def slope(envs=2):
    return DummyVecEnv([Slope for _ in range(envs)])


def make(cls, options, *, seed=0, envs=2, head=EnsemblePolicy, **head_options):
    th.manual_seed(seed)
    venv, rng = slope(envs), np.random.default_rng(seed)
    return cls(
        venv=venv,
        expert_policy=Homing(venv),
        rng=rng,
        bc_trainer=BCWithHead(
            policy=head(venv.observation_space, venv.action_space, net_arch=[16], **head_options),
            rng=rng,
            batch_size=16,
            optimizer_kwargs={"lr": 1e-2},
            device="cpu",
            custom_logger=quiet_logger(),
        ),
        custom_logger=quiet_logger(),
        **options,
    )


def pretend(trainer, acts, disagreement):
    """Replaces the ensemble by one that is known."""
    trainer.policy.act_with_disagreement = lambda obs: (
        np.full((len(obs), 1), acts, np.float32),
        np.full(len(obs), disagreement),
    )


def asked_of(trainer):
    return sum(map(len, trainer.expert_policy.asked))


# Who acts


@ANY_METHOD
def test_in_the_first_round_the_expert_acts_alone_and_every_step_is_an_answer(cls, options):
    trainer = make(cls, options)
    collected = trainer.train_round(**ROUND)
    assert (collected.number, collected.beta) == (0, 1.0)
    # Two environments start an episode of the expert each; it never ceases to act.
    assert trainer.counts == QueryCounts(40, 40, 40, 2) == collected.counts
    assert asked_of(trainer) == 40
    for trajectory in collected.trajectories:
        expected = np.clip(-trajectory.obs[:-1, :1], -1, 1)
        np.testing.assert_allclose(trajectory.acts, expected, rtol=1e-6)


@ANY_METHOD
def test_every_question_is_counted_and_every_answer_learned_from(cls, options):
    trainer = make(cls, options)
    for _ in range(4):
        trainer.train_round(**ROUND)
    assert trainer.counts.env_steps == 160
    assert trainer.counts.queries == asked_of(trainer) >= 40
    state = trainer.state_dict()
    np.testing.assert_array_equal(state["obs"], np.concatenate(trainer.expert_policy.asked))
    np.testing.assert_allclose(state["acts"], np.clip(-state["obs"][:, :1], -1, 1), rtol=1e-6)


@ANY_METHOD
def test_where_the_expert_does_not_act_the_ensemble_does(cls, options):
    trainer = make(cls, options)
    trainer.train_round(**ROUND)
    policy, seen = trainer.policy, []
    original = policy.act_with_disagreement

    def recorded(obs):
        seen.append((obs.copy(), *original(obs)))
        return original(obs)

    policy.act_with_disagreement = recorded
    collected = trainer.train_round(**ROUND)
    own = {}
    for rows, acts, _ in seen:
        for obs, act in zip(rows, acts, strict=True):
            own.setdefault(obs.tobytes(), act)  # later calls are of the newly trained ensemble
    kinds = set()
    for trajectory in collected.trajectories:
        for obs, act in zip(trajectory.obs[:-1], trajectory.acts, strict=True):
            by_expert = np.allclose(act, np.clip(-obs[:1], -1, 1), atol=1e-6)
            assert by_expert or np.array_equal(act, own[obs.tobytes()])
            kinds.add(by_expert)
    assert False in kinds


# EnsembleDAgger


@pytest.mark.parametrize(
    ("thresholds", "asked", "acted"),
    [
        # Disagreement 0.1, discrepancy 0.3 or more: see `pretend` and the expert.
        ((0.2, None), 0, 0),
        ((0.05, None), 40, 40),
        ((0.2, 9.0), 40, 0),
        ((0.2, 0.0), 40, 40),
        ((0.05, 9.0), 40, 40),
    ],
)
def test_the_decision_rule(thresholds, asked, acted):
    doubt, discrepancy = thresholds
    trainer = make(EnsembleDAgger, {"doubt_threshold": doubt, "discrepancy_threshold": discrepancy})
    trainer.train_round(**ROUND)
    pretend(trainer, 0.123456, 0.1)
    counts = trainer.train_round(**ROUND).counts
    assert (counts.queries, counts.expert_steps) == (asked, acted)


def test_each_environment_is_decided_by_itself():
    trainer = make(EnsembleDAgger, {"doubt_threshold": 0.5, "discrepancy_threshold": 0.4})
    doubt = np.array([0.5, 0.6, 0.1, 0.6])
    discrepancy = np.array([0.4, 0.1, 0.5, 0.9])
    acted = np.zeros(4, dtype=bool)
    assert trainer.asks(doubt, acted).tolist() == [True] * 4
    assert trainer.hands_over(doubt, discrepancy, acted).tolist() == [False, True, True, True]
    lazy = make(EnsembleDAgger, {"doubt_threshold": 0.5})
    assert lazy.asks(doubt, acted).tolist() == [False, True, False, True]


def test_a_round_without_a_question_still_trains():
    trainer = make(EnsembleDAgger, {"doubt_threshold": 1e6})
    trainer.train_round(**ROUND)
    before = [each.clone() for each in trainer.policy.parameters()]
    collected = trainer.train_round(**ROUND)
    assert (collected.counts.queries, collected.beta) == (0, 0.0)
    assert len(trainer.state_dict()["acts"]) == 40
    assert any(not th.equal(a, b) for a, b in zip(before, trainer.policy.parameters(), strict=True))


# Novelty DAgger


def known_novelties(share, novelties):
    trainer = make(NoveltyDAgger, {"query_share": share})
    state = {"agreement": 0.25, "novelties": np.array(novelties), "spent": (100, 0)}
    trainer.load_extra_state(state)
    return trainer


def test_the_expert_takes_over_above_the_quantile():
    trainer = known_novelties(0.25, [1.0, 2.0, 3.0, 4.0, 5.0])
    assert trainer.novelty_threshold == 4.0
    none = np.zeros(3, dtype=bool)
    assert trainer.asks(np.array([4.0, 4.5, 0.0]), none).tolist() == [False, True, False]
    # Only states in which the ensemble acts count: now 0, 1, 2, 3, 4, 4, 5.
    assert trainer.novelty_threshold == np.quantile([0, 1, 2, 3, 4, 4, 5], 0.75)


def test_a_takeover_lasts_a_step_and_until_both_agree():
    trainer = known_novelties(0.25, [1.0])
    acted = np.array([False, False, True, True])
    discrepancy = np.array([0.1, 0.9, 0.25, 0.26])
    taken = trainer.hands_over(np.zeros(4), discrepancy, acted)
    assert taken.tolist() == [True, True, False, True]
    # Who acts is asked again, novel or not.
    assert trainer.asks(np.zeros(4), acted).tolist() == [False, False, True, True]


def test_no_takeover_begins_beyond_the_budget():
    trainer = known_novelties(0.1, [0.0])
    trainer._steps, trainer._queries = 16, 0
    acted = np.zeros(4, dtype=bool)
    # A tenth of 20 steps: two questions, to the first that are novel.
    assert trainer.asks(np.array([0.0, 1.0, 1.0, 1.0]), acted).tolist() == [
        False,
        True,
        True,
        False,
    ]
    # What has begun goes on, and is paid for.
    acted = np.array([False, True, True, False])
    assert trainer.asks(np.ones(4), acted).tolist() == acted.tolist()
    assert (trainer._steps, trainer._queries) == (24, 4)
    # At 40 steps the budget is four; at 52 it is five.
    for _ in range(6):
        assert not trainer.asks(np.full(4, 9.0), np.zeros(4, dtype=bool)).any()
    assert trainer._steps == 48
    assert trainer.asks(np.full(4, 99.0), np.zeros(4, dtype=bool)).sum() == 1
    # A round of 28 steps may spend its part, up to eight in all, at once.
    trainer.begin_round(28)
    assert trainer.asks(np.full(4, 999.0), np.zeros(4, dtype=bool)).sum() == 3


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_questions_stay_within_the_budget(share):
    trainer = make(NoveltyDAgger, {"query_share": share})
    for _ in range(5):
        trainer.train_round(**ROUND)
    later = trainer.counts.queries - 40
    # At most one takeover in each environment is under way when the budget of a round is spent.
    assert later <= share * 160 + 2 * EPISODE * (share > 0)
    assert (later == 0) == (share == 0)


def test_thresholds_are_measured_with_the_trained_ensemble():
    trainer = make(NoveltyDAgger, {})
    trainer.train_round(**ROUND)
    state = trainer.state_dict()
    acts, disagreement = trainer.policy.act_with_disagreement(state["obs"])
    np.testing.assert_array_equal(trainer._novelties, disagreement)
    errors = np.abs(acts - state["acts"]).ravel()  # one entry, from -1 to 1
    assert trainer.agreement == pytest.approx(errors.mean(), rel=1e-6)


# Learning, state and errors


@ANY_METHOD
def test_it_learns_what_the_expert_does(cls, options):
    trainer = make(cls, options)
    many = {**ROUND, "bc_train_kwargs": {"n_epochs": 20, "progress_bar": False}}
    for _ in range(4):
        trainer.train_round(**many)
    obs = np.stack([np.linspace(-1, 1, 50), np.full(50, 0.5)], axis=1).astype(np.float32)
    actions, _ = trainer.policy.predict(obs, deterministic=True)
    assert np.abs(actions + obs[:, :1]).mean() < 0.15


@ANY_METHOD
def test_a_restored_trainer_continues_bit_for_bit(cls, options, tmp_path):
    whole, parts = make(cls, options), make(cls, options)
    for _ in range(4):
        whole.train_round(**ROUND)
    for _ in range(2):
        parts.train_round(**ROUND)
    save_state(tmp_path / "a.state", parts.state_dict())
    resumed = make(cls, options, seed=5)
    resumed.load_state_dict(load_state(tmp_path / "a.state"))
    for _ in range(2):
        resumed.train_round(**ROUND)
    assert resumed.counts == whole.counts
    for key, value in whole.policy.state_dict().items():
        assert th.equal(resumed.policy.state_dict()[key], value), key
    np.testing.assert_array_equal(resumed.state_dict()["obs"], whole.state_dict()["obs"])


def test_training_ends_with_the_round_that_reaches_the_total():
    trainer = make(EnsembleDAgger, {})
    trainer.train(81, **ROUND)
    assert trainer.counts.env_steps == 120
    trainer.train(120, **ROUND)
    assert trainer.round_num == 3


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (EnsembleDAgger, {"doubt_threshold": -0.1}, "doubt_threshold must not be negative"),
        (EnsembleDAgger, {"discrepancy_threshold": -1.0}, "discrepancy_threshold must not"),
        (NoveltyDAgger, {"query_share": 1.5}, r"query_share must be within \[0, 1\]"),
    ],
)
def test_settings_out_of_range_are_refused(cls, options, message):
    with pytest.raises(ValueError, match=message):
        make(cls, options)


def test_other_bad_input_is_refused():
    with pytest.raises(TypeError, match="must be an EnsemblePolicy, not DeterministicPolicy"):
        make(EnsembleDAgger, {}, head=DeterministicPolicy)
    trainer = make(EnsembleDAgger, {})
    with pytest.raises(ValueError, match="rollout_round_min_episodes must be positive"):
        trainer.train_round(rollout_round_min_episodes=0)
    with pytest.raises(ValueError, match="must not be negative"):
        trainer.train(-1)
    trainer.venv.observation_space = spaces.Dict({"a": spaces.Discrete(2)})
    with pytest.raises(ValueError, match="cannot be saved as demonstrations"):
        EnsembleDAgger(
            venv=trainer.venv,
            expert_policy=trainer.expert_policy,
            rng=trainer.rng,
            bc_trainer=trainer.bc_trainer,
        )


def test_an_expert_of_another_space_is_refused():
    trainer = make(EnsembleDAgger, {})
    other = Homing(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    with pytest.raises(ValueError, match="expert_policy: its observation_space"):
        EnsembleDAgger(
            venv=trainer.venv,
            expert_policy=other,
            rng=trainer.rng,
            bc_trainer=trainer.bc_trainer,
        )


def test_plain_dagger_trains_any_head_but_cannot_save_its_trainer(tmp_path):
    trainer = make(EnsembleDAgger, {}, n_members=2)
    flow = FlowPolicy(trainer.venv.observation_space, trainer.venv.action_space, net_arch=[8])
    plain = SimpleDAggerTrainer(
        venv=trainer.venv,
        scratch_dir=tmp_path,
        expert_policy=trainer.expert_policy,
        rng=trainer.rng,
        bc_trainer=BCWithHead(policy=flow, rng=trainer.rng, batch_size=16, device="cpu",
                              custom_logger=quiet_logger()),
        custom_logger=quiet_logger(),
    )  # fmt: skip
    plain.train_round(**{**ROUND, "bc_train_kwargs": {"n_epochs": 1, "progress_bar": False}})
    assert plain.round_num == 1
    with pytest.raises(ValueError, match="a FlowPolicy cannot be saved with its trainer"):
        plain.save_trainer()
