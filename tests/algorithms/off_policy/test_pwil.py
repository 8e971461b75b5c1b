"""PWIL's coupling and rewards on cases worked out by hand."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from stable_baselines3.common.env_util import make_vec_env
from support.off_policy import small_options

from imitbench.algorithms.off_policy.collector import encoded_demonstrations
from imitbench.algorithms.off_policy.pwil import PWIL, GreedyCoupling, PWILState
from imitbench.data import rollout
from imitbench.data.resumable_env import episode_states, restore_episodes

# Their standard deviation is 1.
ATOMS = np.array([[0.0], [2.0]])


@pytest.mark.parametrize(
    ("horizon", "costs"),
    [
        # A step takes both atoms.
        (1, [1]),
        # A step takes one atom: first the near one, then only the far one is left.
        (2, [0, 1]),
        # A step weighs 2 sixths, an atom 3: the second step takes one sixth of each.
        (3, [0, 1 / 3, 2 / 3]),
        (4, [0, 0, 1 / 2, 1 / 2]),
    ],
)
def test_a_step_takes_its_weight_from_the_nearest_atoms(horizon, costs):
    coupling = GreedyCoupling(ATOMS, horizon, 1)
    for _ in range(2):  # after the last step all weights are spent, and the next ones count again
        found = [coupling.cost(0, np.zeros(1)) for _ in range(horizon)]
        assert found == pytest.approx(costs)


def test_episodes_have_their_own_weights_until_they_start_again():
    coupling = GreedyCoupling(ATOMS, 2, 2)
    assert coupling.cost(0, np.zeros(1)) == 0
    assert coupling.cost(1, np.zeros(1)) == 0
    coupling.restart(1)
    assert coupling.cost(0, np.zeros(1)) == 1
    assert coupling.cost(1, np.zeros(1)) == 0


def costs_of_algorithm_1(atoms, steps, horizon):
    """The paper's loop, in exact fractions; atoms are removed when their weight is spent."""
    atoms = [(each, Fraction(1, len(atoms))) for each in atoms]
    costs = []
    for step in steps:
        weight, cost = Fraction(1, horizon), 0.0
        while weight > 0:
            nearest = min(range(len(atoms)), key=lambda i: np.linalg.norm(atoms[i][0] - step))
            place, left = atoms[nearest]
            moved = min(weight, left)
            cost += float(moved) * np.linalg.norm(place - step)
            weight -= moved
            if moved == left:
                del atoms[nearest]
            else:
                atoms[nearest] = (place, left - moved)
        costs.append(cost)
    return costs


@pytest.mark.parametrize(("count", "horizon"), [(7, 20), (20, 7), (12, 12)])
def test_costs_are_those_of_the_papers_loop(count, horizon):
    rng = np.random.default_rng(0)
    atoms, steps = rng.normal(size=(count, 3)), rng.normal(size=(horizon, 3))
    coupling = GreedyCoupling(atoms, horizon, 1)
    found = [coupling.cost(0, each) for each in steps]
    wanted = costs_of_algorithm_1(atoms / coupling.scale, steps / coupling.scale, horizon)
    np.testing.assert_allclose(found, wanted)


def test_the_sum_of_costs_bounds_the_wasserstein_distance_from_above():
    rng = np.random.default_rng(1)
    atoms, steps = rng.normal(size=(30, 2)), 1 + rng.normal(size=(30, 2))
    coupling = GreedyCoupling(atoms, 30, 1)
    total = sum(coupling.cost(0, each) for each in steps)
    distances = np.linalg.norm((atoms[:, None] - steps) / coupling.scale, axis=-1)
    distance = distances[linear_sum_assignment(distances)].mean()
    assert distance < total < 2 * distance
    assert [coupling.cost(0, each) for each in rng.permutation(atoms)] == [0.0] * 30


def test_costs_do_not_depend_on_units():
    rng = np.random.default_rng(2)
    atoms, steps = rng.normal(size=(9, 2)), rng.normal(size=(9, 2))
    unit, zero = np.array([1000.0, 0.01]), np.array([5.0, -7.0])
    one, other = GreedyCoupling(atoms, 9, 1), GreedyCoupling(atoms * unit + zero, 9, 1)
    np.testing.assert_allclose(
        [one.cost(0, each) for each in steps],
        [other.cost(0, each * unit + zero) for each in steps],
    )


def test_an_entry_that_the_expert_never_varies_keeps_its_unit():
    coupling = GreedyCoupling(np.array([[0.0, 0.1], [2.0, 0.1], [4.0, 0.1]]), 3, 1)
    assert coupling.scale[1] == 1.0
    assert coupling.cost(0, np.array([0.0, 0.6])) == pytest.approx(0.5 / 3)


def labelled(trainer, rows, ended=False):
    """Rewards of one environment's transitions, one by one."""
    rewards = []
    for number in range(len(rows["acts"])):
        trainer._collector.ended = np.array([ended])
        row = {name: values[number : number + 1].copy() for name, values in rows.items()}
        rewards.append(float(trainer.set_rewards(0, row)["rewards"][0]))
    return rewards


def demonstration_rows(trainer):
    rows = trainer._demonstrations[0]
    return encoded_demonstrations(trainer._encoders[0], rows, trainer.venv.action_space)


def test_who_repeats_the_demonstration_gets_the_largest_reward(make, pendulum_demos):
    trainer = make(PWIL, "Pendulum-v1", pendulum_demos[:1], subsampling=1, alpha=3.0)
    rewards = labelled(trainer, demonstration_rows(trainer))
    assert len(rewards) == 200
    np.testing.assert_allclose(rewards, 3.0, rtol=1e-4)


def test_rewards_fall_exponentially_with_the_distance(make, pendulum_demos):
    trainer = make(PWIL, "Pendulum-v1", pendulum_demos[:1], subsampling=1, alpha=3.0, beta=2.0)
    rows = demonstration_rows(trainer)
    pairs = np.concatenate([rows["obs"], rows["acts"]], axis=1).astype(np.float64)
    far = {name: values[:1].copy() for name, values in rows.items()}
    far["acts"] += 0.7
    other = pairs[0] + [0, 0, 0, 0.7]
    distance = np.linalg.norm((pairs - other) / pairs.std(axis=0), axis=1).min()
    # T * cost is the distance, because a step takes exactly one of 200 atoms; |S| + |A| = 4.
    reward = labelled(trainer, far)[0]
    assert reward == pytest.approx(3 * np.exp(-2 / np.sqrt(4) * distance), rel=1e-4)
    assert 0 < reward < 2.9


def test_rewards_do_not_depend_on_how_observations_are_standardized(make, pendulum_demos):
    trainer = make(PWIL, "Pendulum-v1", pendulum_demos)
    rng = np.random.default_rng(0)
    steps = {"obs": rng.normal(size=(20, 3)), "acts": rng.uniform(-1, 1, (20, 1))}

    def rewards():
        encoded = trainer._encoders[0](steps["obs"])
        rows = {"obs": encoded, "acts": steps["acts"], "rewards": np.zeros(20, np.float32)}
        return labelled(trainer, rows, ended=True)

    before = rewards()
    trainer._encoders[0].standardize(3 + rng.normal(size=(50, 3)))
    np.testing.assert_allclose(rewards(), before, rtol=1e-4)


def test_what_is_hidden_from_the_agent_is_no_part_of_the_distance(make, pendulum_demos):
    trainer = make(
        PWIL, "Pendulum-v1", pendulum_demos[:1], subsampling=1, alpha=3.0,
        options=small_options(hidden_entries=(1,)),
    )  # fmt: skip
    np.testing.assert_allclose(labelled(trainer, demonstration_rows(trainer)), 3.0, rtol=1e-4)


def test_weights_are_whole_again_after_an_episode(make, pendulum_demos):
    options = small_options(learning_starts=1000)
    trainer = make(PWIL, "Pendulum-v1", pendulum_demos, options=options, n_envs=2)
    trainer.train(400)  # one episode in each environment
    atoms = len(trainer._kept[0])
    assert (trainer._couplings[0].left == 200).all()
    trainer.train(2)
    assert trainer._couplings[0].left.sum(axis=1).tolist() == [atoms * 199] * 2
    rewards = trainer._replay.column("rewards", 0)
    assert 0 < float(rewards.min()) < float(rewards.max()) <= 5.0


def test_every_twentieth_step_of_each_demonstration_is_an_atom(make, pendulum_demos):
    packed = make(PWIL, "Pendulum-v1", pendulum_demos, seeds=(3, 4))
    packed.train(1)
    starts = []
    for kept in packed._kept:
        parts = np.split(kept, [10, 20])
        assert [set(np.diff(part)) for part in parts] == [{20}] * 3
        starts += [part[0] - 200 * number for number, part in enumerate(parts)]
    assert min(starts) >= 0
    assert max(starts) < 20
    assert len(set(starts)) > 1
    alone = make(PWIL, "Pendulum-v1", pendulum_demos, seeds=(4,))
    alone.train(1)
    np.testing.assert_array_equal(alone._kept[0], packed._kept[1])


def test_a_demonstration_shorter_than_the_subsampling_keeps_a_step(make, pendulum_demos):
    trainer = make(PWIL, "Pendulum-v1", pendulum_demos, subsampling=1000)
    trainer.train(1)
    assert [number // 200 for number in trainer._kept[0]] == [0, 1, 2]


def test_other_demonstrations_are_coupled_from_the_next_step_on(make, pendulum_demos):
    trainer = make(PWIL, "Pendulum-v1", pendulum_demos)
    trainer.train(30)
    trainer.set_demonstrations(pendulum_demos[:1])
    trainer.train(1)
    assert trainer._couplings[0].left.shape == (1, 10)


def test_the_replay_buffer_starts_with_the_experts_transitions(make, pendulum_demos):
    trainer = make(PWIL, "Pendulum-v1", pendulum_demos, prefill=70)
    trainer.train(20)
    assert trainer._replay.sizes == [90]
    assert trainer._replay.column("rewards", 0)[20:].tolist() == [5.0] * 70
    rows = trainer._expert.column("next_obs", 0)[np.resize(trainer._kept[0], 70)]
    assert (trainer._replay.column("next_obs", 0)[20:] == rows).all()
    full = make(PWIL, "Pendulum-v1", pendulum_demos, prefill=10_000)
    full.train(20)
    assert full._replay.sizes == [500]


def test_absorbing_states_have_no_reward(make):
    venv = make_vec_env("CartPole-v1", 2)
    demos = rollout.generate_trajectories(
        None, venv, rollout.make_sample_until(min_episodes=3), np.random.default_rng(0)
    )
    trainer = make(PWIL, "CartPole-v1", demos, subsampling=2, allow_variable_horizon=True)
    trainer.train(60)
    absorbing = trainer._replay.column("obs", 0)[:, -1].bool()
    rewards = trainer._replay.column("rewards", 0)
    assert absorbing.any()
    assert (rewards[absorbing] == 0).all()
    assert (rewards[~absorbing] > 0).all()


def test_hidden_entries_have_no_distance(make, pendulum_demos):
    trainer = make(PWIL, "Pendulum-v1", pendulum_demos, hidden_entries=[0, 1])
    rows = demonstration_rows(trainer)
    usual = labelled(trainer, rows, ended=True)
    rows["obs"][:, :2] += 9
    assert labelled(trainer, rows, ended=True) == usual


def test_without_a_time_limit_the_horizon_is_the_demonstrations_length(make, pendulum_demos):
    trainer = make(PWIL, "Pendulum-v1", pendulum_demos)
    assert trainer._coupling_horizon(trainer._demonstrations[0]) == 200
    trainer.venv.get_attr = lambda _: [None]
    assert trainer._coupling_horizon(trainer._demonstrations[0]) == 200
    given = make(PWIL, "Pendulum-v1", pendulum_demos, horizon=50)
    assert given._coupling_horizon(given._demonstrations[0]) == 50


def test_resuming_between_episodes_of_two_environments_gives_the_same_rewards(make, pendulum_demos):
    whole = make(PWIL, "Pendulum-v1", pendulum_demos, n_envs=2, prefill=10)
    whole.train(50)
    state, envs = whole.state_dict(), episode_states(whole.venv)
    whole.train(20)
    again = make(PWIL, "Pendulum-v1", pendulum_demos, n_envs=2, prefill=10)
    restore_episodes(again.venv, envs)
    again.load_state_dict(state)
    again.train(20)
    one, other = (each._replay.column("rewards", 0) for each in (whole, again))
    assert (one == other).all()


def test_resuming_from_before_the_first_step_gives_the_same_rewards(make, pendulum_demos):
    whole = make(PWIL, "Pendulum-v1", pendulum_demos)
    state = whole.state_dict()
    again = make(PWIL, "Pendulum-v1", pendulum_demos, seeds=(1,))
    again.load_state_dict(state)
    again.venv.seed(0)
    for each in (whole, again):
        each.train(10)
    one, other = (each._replay.column("rewards", 0) for each in (whole, again))
    assert one.all() and (one == other).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"subsampling": 0}, "subsampling must be at least 1"),
     ({"prefill": -1}, "prefill must be at least 0"),
     ({"horizon": 0}, "horizon must be at least 1"),
     ({"beta": 0.0}, "alpha and beta must be positive")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(make, pendulum_demos, settings, words):
    with pytest.raises(ValueError, match=words):
        make(PWIL, "Pendulum-v1", pendulum_demos, **settings)


def test_rewards_of_states_depend_on_no_action(make, pendulum_demos):
    trainer = make(PWILState, "Pendulum-v1", pendulum_demos[:1], subsampling=1, alpha=3.0, beta=2.0)
    rows = demonstration_rows(trainer)
    rows["acts"] = np.linspace(-1, 1, 200, dtype=np.float32)[:, None]
    np.testing.assert_allclose(labelled(trainer, rows), 3.0, rtol=1e-4)
    far = {name: values[:1].copy() for name, values in rows.items()}
    far["obs"][0, 2] += 5.0
    states = rows["obs"].astype(np.float64)
    distance = np.linalg.norm((states - far["obs"]) / states.std(axis=0), axis=1).min()
    found = labelled(trainer, far, ended=True)
    assert found == pytest.approx([3 * np.exp(-2 / np.sqrt(3) * distance)], rel=1e-4)


def test_transitions_without_actions_cannot_be_prefilled(make, pendulum_demos):
    with pytest.raises(ValueError, match="prefill must be 0 without the expert's actions"):
        make(PWILState, "Pendulum-v1", pendulum_demos, prefill=100)
