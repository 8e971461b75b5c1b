"""The inverse dynamics model and its methods, where the action alone decides the next state."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from support.off_policy import small_options

from imitbench.algorithms.off_policy.bco import BCO
from imitbench.algorithms.off_policy.inverse_dynamics import InverseDynamics
from imitbench.algorithms.off_policy.ls_iq import LSIQ, LSIQObs
from imitbench.algorithms.off_policy.opolo import OPOLO
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.transitions import Batch, store_of
from imitbench.data.types import TrajectoryWithRew


class Switch(gym.Env):
    """The action is the next state: one of 0 and 1, or any number in [-1, 1]."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, kind="discrete"):
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        box = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2) if kind == "discrete" else box

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.asarray(action, np.float32).reshape(1), 0.0, False, False, {}


for kind in ("discrete", "box"):
    gym.register(
        f"tests/Switch-{kind}-v0", entry_point=Switch, kwargs={"kind": kind}, max_episode_steps=10
    )


def alternating():
    """An expert that is in states 0 and 1 by turns, without actions."""
    obs = np.resize([0.0, 1.0], 11).astype(np.float32)[:, None]
    none = np.zeros((10, 0), np.float32)
    return [TrajectoryWithRew(obs=obs, acts=none, infos=None, terminal=True, rews=np.zeros(10))]


def batch(obs, next_obs, acts):
    obs, next_obs = (th.as_tensor(np.asarray([rows], np.float32)) for rows in (obs, next_obs))
    zeros = th.zeros(obs.shape[:2])
    return Batch(obs, th.as_tensor(acts)[None], next_obs, terminal=zeros, rewards=zeros)


def model(features, actions, discrete, **given):
    return InverseDynamics(
        features, actions, discrete=discrete, hidden_sizes=(16,), learning_rate=0.02,
        streams=SeedStreams([0]), **given,
    )  # fmt: skip


def test_the_action_that_leads_from_one_of_two_states_to_another_is_recovered():
    """Action 1 stays and action 0 moves, in either state."""
    fitted = model(1, 2, discrete=True)
    all_pairs = batch([[0], [0], [1], [1]], [[0], [1], [0], [1]], [1, 0, 0, 1])
    for _ in range(200):
        loss = fitted.update(all_pairs)["inverse/loss"]
    assert loss.shape == (1,)
    assert loss < 0.05
    assert fitted.actions(all_pairs).tolist() == [[1, 0, 0, 1]]


def test_a_continuous_action_is_recovered_and_stays_within_its_bounds():
    """The change of the first entry is twice the action; the second entry is noise."""
    rng = np.random.default_rng(0)
    obs, acts = rng.normal(size=(256, 2)), rng.uniform(-1, 1, (256, 1)).astype(np.float32)
    after = np.concatenate([obs[:, :1] + 2 * acts, rng.normal(size=(256, 1))], axis=1)
    own = batch(obs, after, acts)
    fitted = model(2, 1, discrete=False, hidden_entries=[1])
    for _ in range(600):
        fitted.update(own)
    assert (fitted.actions(own) - own.acts).abs().max() < 0.1
    far = batch([[0, 0]], [[9, 0]], [[0]])
    assert fitted.actions(far).item() == 1.0


def test_the_model_ignores_hidden_entries():
    fitted = model(2, 1, discrete=False, hidden_entries=[1])
    some, other = batch([[1, 2]], [[3, 4]], [[0]]), batch([[1, 9]], [[3, -9]], [[0]])
    assert th.equal(fitted.actions(some), fitted.actions(other))


@pytest.mark.parametrize("discrete", [True, False])
def test_the_action_of_the_absorbing_state_is_0_and_teaches_nothing(discrete):
    fitted = model(2, 3, discrete=discrete, absorbing=True)
    acts = th.tensor([2]) if discrete else th.ones(1, 3)
    inside = batch([[0, 1]], [[0, 1]], acts)
    assert not fitted.actions(inside).any()
    assert fitted.update(inside)["inverse/loss"] == 0
    reached = batch([[1, 0]], [[0, 1]], acts)
    assert fitted.update(reached)["inverse/loss"] > 0


def test_changes_are_in_units_of_their_deviation_over_random_steps():
    """Else changes of the second entry, which are a hundredth of the first's, would not count."""
    fitted = model(2, 1, discrete=False)
    rng = np.random.default_rng(0)
    changes = rng.normal(size=(500, 2)) * [1.0, 0.01]
    rows = batch(np.zeros((500, 2)), changes, np.zeros((500, 1), np.float32))
    store = store_of([{name: values[0] for name, values in vars(rows).items()}])
    fitted.standardize(store)
    np.testing.assert_allclose(fitted._scale[0, 0], changes.std(axis=0), rtol=0.01)


def test_the_trainer_fixes_the_unit_of_changes_and_a_state_has_it(make, pendulum_demos):
    given = {"options": small_options(learning_starts=30), "model_pretraining": 5}
    trainer = make(LSIQObs, "Pendulum-v1", pendulum_demos, **given)
    trainer.train(30)
    obs, after = (trainer._replay.column(name, 0) for name in ("obs", "next_obs"))
    th.testing.assert_close(trainer.inverse._scale[0, 0], (after - obs).std(dim=0))
    again = make(LSIQObs, "Pendulum-v1", pendulum_demos, **given)
    again.load_state_dict(trainer.state_dict())
    expert = trainer.expert.take(np.arange(20)[None])
    assert th.equal(again.inverse.actions(expert), trainer.inverse.actions(expert))


def test_the_model_takes_a_step_in_every_so_many_updates(make, pendulum_demos):
    trainer = make(
        LSIQObs, "Pendulum-v1", pendulum_demos, model_interval=3,
        options=small_options(learning_starts=20),
    )  # fmt: skip
    trainer.train(20)  # the first update
    logged = [trainer._update().keys() for _ in range(6)]
    assert ["inverse/loss" in names for names in logged] == [False, False, True] * 2


@pytest.mark.parametrize("mode_only", [True, False])
def test_in_the_absorbing_state_there_is_nothing_to_clone(mode_only, make, pendulum_demos):
    trainer = make(OPOLO, "Pendulum-v1", pendulum_demos, allow_variable_horizon=True)
    trainer.train(30)
    first, both = (trainer.expert.take(np.arange(count)[None]) for count in (1, 2))
    both.obs[0, 1] = th.eye(4)[-1]  # the mark alone
    alone, found = (trainer.cloning_loss(each, mode_only=mode_only) for each in (first, both))
    th.testing.assert_close(found, alone / 2)


@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_bco_takes_the_actions_that_lead_through_the_experts_states(make, kind):
    options = small_options(
        learning_starts=40,
        batch_size=16,
        agent={"critic_learning_rate": 0.01, "actor_learning_rate": 0.01},
    )
    trainer = make(
        BCO, f"tests/Switch-{kind}-v0", alternating(), options=options,
        alpha=0.5, model_updates=300, bc_updates=300, model_learning_rate=0.01,
    )  # fmt: skip
    trainer.train(39)
    assert trainer.n_updates == 0
    logged = trainer.train(21)
    assert trainer.n_updates == 1200  # rounds after 40 and 60 steps
    assert logged.keys() == {"inverse/loss", "bc/loss"}
    acts, _ = trainer.policy.predict(np.array([[0.0], [1.0]], np.float32), deterministic=True)
    np.testing.assert_allclose(acts.ravel(), [1, 0], atol=0.1)


def test_bco_without_further_rounds_clones_once(make):
    trainer = make(
        BCO, "tests/Switch-box-v0", alternating(), alpha=0.0, model_updates=2, bc_updates=3,
        options=small_options(learning_starts=20),
    )  # fmt: skip
    trainer.train(60)
    assert trainer.n_updates == 5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"alpha": -0.1}, "alpha must be at least 0, not -0.1"),
        ({"model_updates": 0}, "model_updates must be at least 1, not 0"),
        ({"bc_updates": 0}, "bc_updates must be at least 1, not 0"),
        ({"model_pretraining": -1}, "model_pretraining must be at least 0, not -1"),
        ({"model_interval": 0}, "model_interval must be at least 1, not 0"),
    ],
)
def test_values_out_of_range_are_refused(make, given, said):
    with pytest.raises(ValueError, match=said):
        make(BCO, "tests/Switch-box-v0", alternating(), **given)


@pytest.mark.parametrize("method", [LSIQObs, OPOLO])
def test_agents_learn_to_go_through_the_experts_states(make, method):
    agent = {"actor_learning_rate": 0.003, "critic_learning_rate": 0.003, "gamma": 0.8, "tau": 0.02}
    trainer = make(
        method, "tests/Switch-discrete-v0", alternating(), model_pretraining=100,
        options=small_options(learning_starts=50, batch_size=32, agent=agent),
        model_learning_rate=0.01,
    )  # fmt: skip
    trainer.train(400)
    acts, _ = trainer.policy.predict(np.array([[0.0], [1.0]], np.float32), deterministic=True)
    assert acts.tolist() == [1, 0]


@pytest.fixture
def compared(make, pendulum_demos):
    """Makes a trainer, and evaluates functions of its batches with the same random numbers."""

    def compared(method, *functions, **given):
        trainer = make(method, "Pendulum-v1", pendulum_demos, **given)
        trainer.train(30)
        own, expert = (
            store.sample(trainer.streams, 8) for store in (trainer._replay, trainer.expert)
        )
        state, found = trainer.streams.state_dict(), []
        for function in functions:
            trainer.streams.load_state_dict(state)
            found.append(function(trainer, own, expert))
        return found

    return compared


def test_ls_iq_from_observations_is_ls_iq_with_the_inferred_actions(compared):
    def inferred(trainer, own, expert):
        return LSIQ.critic_loss(trainer, own, replace(expert, acts=trainer.inverse.actions(expert)))

    def unread(trainer, own, expert):
        return trainer.critic_loss(own, replace(expert, acts=expert.acts + 0.5))

    due, found = compared(LSIQObs, inferred, unread)
    assert th.equal(found, due)


def test_opolo_adds_the_policys_values_to_temporal_differences(compared):
    """With a weight of 2 and a discount factor of 0.99."""

    def parts(trainer, own, expert):
        differences = trainer.td_loss(own, trainer.discriminator.logits(own))
        values = trainer.agent.values(own.obs, trainer.agent.act(own.obs))
        return differences + 2 * (1 - 0.99) * values.mean(dim=-1).sum(dim=0)

    def loss(trainer, own, expert):
        return trainer.critic_loss(own, expert)

    due, found = compared(OPOLO, parts, loss, initial_weight=2.0)
    th.testing.assert_close(found, due)


def test_opolos_policy_follows_the_inverse_model_as_far_as_it_weighs(compared):
    found = {}
    for weight in (0.0, 1000.0):

        def mode(trainer, own, expert):
            trainer.inverse.actions = lambda batch: th.full(batch.acts.shape, 0.5)
            for _ in range(100):
                trainer.improve_policy(own, expert)
            return th.tanh(trainer.agent.actor(expert.obs)[..., :1]).detach()

        [found[weight]] = compared(
            OPOLO, mode, inverse_weight=weight,
            options=small_options(agent={"actor_learning_rate": 0.01}),
        )  # fmt: skip
    assert (found[1000.0] - 0.5).abs().max() < 0.1
    assert (found[0.0] - 0.5).abs().mean() > 0.2
