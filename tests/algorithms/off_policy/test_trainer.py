"""Training off-policy methods: alone, packed, interrupted, exported."""

import numpy as np
import pytest
import torch as th
from stable_baselines3.common.env_util import make_vec_env
from support.off_policy import DISCRETE, METHODS, small_options, vectors

from imitbench.algorithms.off_policy.dac import DAC
from imitbench.data import rollout, types
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.util.state_file import load_state, save_state


@pytest.mark.parametrize("method", METHODS)
def test_packed_seeds_learn_what_each_learns_alone(method, make, pendulum_demos):
    packed = make(method, "Pendulum-v1", pendulum_demos, seeds=(3, 4))
    packed.train(45)
    assert packed.n_updates > 20
    for number, seed in enumerate((3, 4)):
        alone = make(method, "Pendulum-v1", pendulum_demos, seeds=(seed,))
        alone.train(45)
        th.testing.assert_close(
            packed.agent.actor.vector[number], alone.agent.actor.vector[0], atol=1e-5, rtol=1e-4
        )
        critics = packed.agent.critics.vector[number::2]
        th.testing.assert_close(critics, alone.agent.critics.vector, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("method", "env"),
    [(method, "Pendulum-v1") for method in METHODS]
    + [(method, "seals/CartPole-v0") for method in DISCRETE],
)
def test_a_resumed_training_gives_the_same_bits(
    method, env, make, pendulum_demos, cartpole_demos, tmp_path
):
    demos = pendulum_demos if env.startswith("Pendulum") else cartpole_demos
    whole = make(method, env, demos, n_envs=2)
    whole.train(30)
    save_state(tmp_path / "state", {"own": whole.state_dict(), "envs": episode_states(whole.venv)})
    whole.train(30)
    state = load_state(tmp_path / "state")
    again = make(method, env, demos, n_envs=2)
    restore_episodes(again.venv, state["envs"])
    again.load_state_dict(state["own"])
    again.train(30)
    for one, other in zip(vectors(whole), vectors(again), strict=True):
        assert th.equal(one, other)
    assert whole.num_timesteps == again.num_timesteps == 60


def test_the_exported_policy_acts_as_the_agent_does(make, pendulum_demos):
    trainer = make(DAC, "Pendulum-v1", pendulum_demos)
    trainer.train(60)
    obs = pendulum_demos[0].obs[:50]
    encoded = th.from_numpy(trainer._encoders[0](obs))[None]
    mean = trainer.agent.actor(encoded)[0, :, :1]
    acts, _ = trainer.policy.predict(obs, deterministic=True)
    np.testing.assert_allclose(acts, 2 * th.tanh(mean).detach().numpy(), atol=1e-4)
    inputs = th.from_numpy(obs).float()
    with th.no_grad():
        theirs = th.stack(trainer.policy.critic(inputs, th.from_numpy(acts) / 2))
    own = trainer.agent.values(encoded, th.from_numpy(acts)[None] / 2)
    th.testing.assert_close(theirs[..., 0], own[:, 0].detach(), atol=1e-4, rtol=1e-3)


def test_hidden_entries_reach_neither_agent_nor_exported_policy(make, pendulum_demos):
    options = small_options(hidden_entries=(2,))
    trainer = make(DAC, "Pendulum-v1", pendulum_demos, options=options)
    trainer.train(60)
    for name in ("obs", "next_obs"):
        stored = trainer._replay.column(name, 0)
        assert not stored[:, 2].any() and stored[:, :2].any()
    obs = pendulum_demos[0].obs[:50]
    moved = obs + np.float32([0, 0, 5])
    acts, _ = trainer.policy.predict(obs, deterministic=True)
    np.testing.assert_array_equal(trainer.policy.predict(moved, deterministic=True)[0], acts)
    mean = trainer.agent.actor(th.from_numpy(trainer._encoders[0](obs))[None])[0, :, :1]
    np.testing.assert_allclose(acts, 2 * th.tanh(mean).detach().numpy(), atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_the_average_of_policies_is_exported(method, make, pendulum_demos):
    options = small_options(agent={"policy_tau": 0.01})
    trainer = make(method, "Pendulum-v1", pendulum_demos, options=options)
    trainer.train(60)
    obs = pendulum_demos[0].obs[:20]
    acts, _ = trainer.policy.predict(obs, deterministic=True)
    outputs = trainer.agent.exported(th.from_numpy(trainer._encoders[0](obs))[None])
    expected = 2 * th.tanh(outputs[0, :, :1]).detach().numpy()
    np.testing.assert_allclose(acts, expected, atol=1e-4)
    assert not th.equal(trainer.agent.exported.vector, trainer.agent.actor.vector)


def test_initial_observations_are_those_in_which_demonstrations_begin(make, pendulum_demos):
    trainer = make(DAC, "Pendulum-v1", pendulum_demos, seeds=(0, 1))
    trainer.train(20)
    drawn = trainer.initial_obs(40)
    assert drawn.shape == (2, 40, 3)
    starts = np.stack([each.obs[0] for each in pendulum_demos])
    for own, encoder in zip(drawn.numpy(), trainer._encoders, strict=True):
        found = {tuple(row) for row in own.tolist()}
        assert found == {tuple(row) for row in encoder(starts).tolist()}


def test_the_exported_policy_for_discrete_actions_has_the_agents_probabilities(
    make, cartpole_demos
):
    trainer = make(DAC, "seals/CartPole-v0", cartpole_demos)
    trainer.train(60)
    obs = cartpole_demos[0].obs[:20]
    encoded = th.from_numpy(trainer._encoders[0](obs))[None]
    acts = th.ones(1, 20, dtype=th.int64)
    own = trainer.agent.log_prob(encoded, acts)[0]
    theirs = trainer.policy.get_distribution(th.from_numpy(obs).float()).log_prob(acts[0])
    th.testing.assert_close(theirs, own, atol=1e-4, rtol=1e-3)


def test_absorbing_states_are_learned_where_episodes_end(make, tmp_path):
    venv = make_vec_env("CartPole-v1", 2)
    demos = rollout.generate_trajectories(
        None, venv, rollout.make_sample_until(min_episodes=3), np.random.default_rng(0)
    )
    trainer = make(DAC, "CartPole-v1", demos, allow_variable_horizon=True)
    trainer.train(60)
    marked = trainer._replay.column("obs", 0)[:, -1]
    assert marked.any() and not marked.all()
    assert not trainer._replay.column("terminal", 0).any()
    trainer.policy.predict(demos[0].obs)  # its inputs have no mark


def test_a_seed_of_an_uneven_pack_is_refused(make, pendulum_demos):
    with pytest.raises(ValueError, match="3 environments, which 2 seeds cannot share"):
        venv = make_vec_env("Pendulum-v1", 3)
        DAC(venv=venv, demonstrations=pendulum_demos, seeds=(0, 1))


def test_actions_without_bounds_are_refused(pendulum_demos):
    venv = make_vec_env("Pendulum-v1", 1)
    venv.action_space = type(venv.action_space)(-np.inf, np.inf, (1,))
    with pytest.raises(ValueError, match="needs actions with bounds"):
        DAC(venv=venv, demonstrations=pendulum_demos)


@pytest.mark.parametrize("method", METHODS)
def test_one_step_episodes_are_learned_from(method, make, pendulum_demos):
    first = pendulum_demos[0]
    demos = [
        types.TrajectoryWithRew(
            obs=first.obs[start : start + 2],
            acts=first.acts[start : start + 1],
            infos=None,
            terminal=True,
            rews=np.zeros(1),
        )
        for start in range(3)  # fewer than a batch
    ]
    trainer = make(method, "Pendulum-v1", demos, allow_variable_horizon=True)
    logged = trainer.train(60)
    assert all(np.isfinite(value) for value in logged.values())


def test_demonstrations_without_next_observations_are_refused(make, pendulum_demos):
    first = pendulum_demos[0]
    demos = types.TransitionsMinimal(
        obs=first.obs[:-1], acts=first.acts, infos=np.array([{}] * len(first))
    )
    with pytest.raises(ValueError, match=r"next observations|next_obs"):
        make(DAC, "Pendulum-v1", demos)


def test_training_needs_demonstrations(make):
    with pytest.raises(ValueError, match="no demonstrations"):
        make(DAC, "Pendulum-v1", None).train(10)


def test_updates_are_as_frequent_as_asked(make, pendulum_demos):
    options = small_options(steps_per_update=10, updates=3)
    trainer = make(DAC, "Pendulum-v1", pendulum_demos, options=options)
    logged = trainer.train(60)
    assert trainer.n_updates == 5 * 3  # after 20, 30, 40, 50 and 60 steps
    assert {"critic_loss", "actor_loss", "discriminator/accuracy"} <= logged.keys()
