"""DAgger: rounds, their results, and errors."""

import contextlib
import io
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import DummyVecEnv
from support.dagger import (
    QUIET,
    SMALL_ROUNDS,
    assert_same,
    collect,
    corridor,
    episodes,
    fingerprint,
    make_trainer,
    quiet_logger,
)
from support.environments import CoinFlip, Counter

from imitbench.algorithms import bc
from imitbench.algorithms.dagger import (
    DAggerTrainer,
    LinearBetaSchedule,
    NeedsDemosException,
)
from imitbench.algorithms.dagger_storage import read_demos
from imitbench.data import rollout, serialize
from imitbench.data.demonstrations import write_demonstrations
from imitbench.data.types import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.experts.lookup import find_expert
from imitbench.policies.base import RandomPolicy, ZeroPolicy
from imitbench.policies.interactive import DiscreteInteractivePolicy
from imitbench.policies.storage import load_policy
from imitbench.util.util import make_vec_env

# Learning


def test_it_learns_what_the_expert_does(tmp_path):
    trainer = make_trainer(tmp_path, bc_options={"optimizer_kwargs": {"lr": 3e-3}})
    trainer.train(1500, rollout_round_min_timesteps=100, bc_train_kwargs=QUIET)
    obs = np.random.default_rng(1).normal(size=(400, 2)).astype(np.float32)
    actions, _ = trainer.policy.predict(obs, deterministic=True)
    assert (actions == (obs[:, 0] < 0)).mean() > 0.95


@pytest.mark.slow
def test_it_outperforms_cloning_one_episode(tmp_path):
    """Pendulum: a clone of one episode drifts off to where it has seen nothing."""
    seed = 0
    expert = load_policy(find_expert("sac-Pendulum-v1"))
    rng = np.random.default_rng(seed)
    venv = make_vec_env("Pendulum-v1", rng=rng, n_envs=4)
    (episode, *_) = rollout.rollout(
        expert, venv, rollout.make_min_episodes(1), rng, unwrap=False, verbose=False,
        deterministic_policy=True,
    )  # fmt: skip
    options = {"optimizer_kwargs": {"lr": 3e-3}, "ent_weight": 0.0}
    dagger = make_trainer(
        tmp_path, seed=seed, venv=venv, expert_policy=expert, expert_trajs=[episode],
        beta_schedule=LinearBetaSchedule(2), bc_options=options,
    )  # fmt: skip
    th.manual_seed(seed)
    clone = bc.BC(
        observation_space=venv.observation_space, action_space=venv.action_space, rng=rng,
        demonstrations=[episode], batch_size=16, device="cpu", custom_logger=quiet_logger(),
        **options,
    )  # fmt: skip
    dagger.train(4000, rollout_round_min_episodes=4, bc_train_kwargs={"n_epochs": 8, **QUIET})
    # As many batches as DAgger did: 8 epochs of 1, 2, …, 5 times four episodes, and the first.
    clone.train(n_batches=8 * 15 * 800 // 16, progress_bar=False)

    def mean_return(policy):
        venv.seed(1000)
        trajectories = rollout.generate_trajectories(
            policy, venv, rollout.make_min_episodes(24), rng, deterministic_policy=True
        )
        return rollout.rollout_stats(trajectories)["return_mean"]

    # The expert's mean is -146; the clone's was below -1100.
    learnt = mean_return(dagger.policy)
    assert learnt > -250
    assert learnt > mean_return(clone.policy) + 500


def test_an_algorithm_may_be_the_expert_and_episodes_may_vary_in_length(tmp_path):
    venv = DummyVecEnv([lambda: gym.make("CartPole-v1")])
    expert = PPO("MlpPolicy", venv, seed=0, device="cpu")
    alone = {"beta_schedule": lambda _: 0.0}
    trainer = make_trainer(tmp_path, venv=venv, expert_policy=expert, **alone)
    trainer.train(300, rollout_round_min_timesteps=100, bc_train_kwargs=QUIET)
    lengths = {len(t) for t in read_demos(trainer.round_folder(0))}
    assert len(lengths) > 1


# Rounds of the simple trainer


def test_a_round_queries_the_expert_once_per_step_for_all_environments(tmp_path):
    trainer = make_trainer(tmp_path, venv=corridor(3))
    trainer.train_round(**SMALL_ROUNDS)
    # An episode of 20 steps in each of three environments.
    assert trainer.expert_policy.calls == ((3, True),) * 20


def test_rounds_save_the_experts_actions_and_whole_episodes(tmp_path):
    trainer = make_trainer(tmp_path, beta_schedule=lambda _: 0.0)
    collected = trainer.train_round(**SMALL_ROUNDS)
    assert (collected.number, collected.beta, collected.env_steps) == (0, 0.0, 40)
    saved = serialize.load(tmp_path / "demos" / "round-000" / "rollouts")
    assert len(saved) == 2
    for trajectory, kept in zip(saved, collected.trajectories, strict=True):
        np.testing.assert_array_equal(trajectory.obs, kept.obs)
        np.testing.assert_array_equal(trajectory.acts, kept.acts)
        assert trajectory.terminal and len(trajectory) == 20
        np.testing.assert_array_equal(trajectory.acts, trajectory.obs[:-1, 0] < 0)
        np.testing.assert_allclose(trajectory.rews, -abs(trajectory.obs[1:, 0]), rtol=1e-6)
        assert trajectory.infos[-1]["terminal_observation"] == trajectory.obs[-1].tolist()
        steps = np.sign(np.diff(trajectory.obs[:, 0]))
        # The learner acted, and it knows nothing yet.
        assert (steps != 2 * trajectory.acts - 1).any()


def test_folders_of_a_round_have_the_documented_names(tmp_path):
    trainer = make_trainer(tmp_path, expert_trajs=episodes(3))
    collector = trainer.create_trajectory_collector()
    collector.reset()
    for _ in range(20):
        collector.step(np.zeros(collector.num_envs, np.int64))
    trainer.train_round(**SMALL_ROUNDS)
    names = sorted(each.name for each in (tmp_path / "demos" / "round-000").iterdir())
    assert names == ["demo_000", "demo_001", "initial", "rollouts"]
    text = (Path(__file__).parents[2] / "docs" / "differences.md").read_text()
    assert all(f"`{name}`" in text for name in ("demo_NNN", "initial", "rollouts"))


def test_beta_follows_the_schedule_round_by_round(tmp_path):
    betas = [0.25, 1.0, 0.5]
    trainer = make_trainer(tmp_path, beta_schedule=betas.__getitem__)
    assert [trainer.train_round(**SMALL_ROUNDS).beta for _ in betas] == betas
    assert LinearBetaSchedule(15)(3) == make_trainer(tmp_path / "other").beta_schedule(3)


def test_training_stops_with_the_round_that_reaches_the_total(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.train(0, **SMALL_ROUNDS)
    assert trainer.round_num == 0
    trainer.train(81, **SMALL_ROUNDS)  # 40 steps a round
    assert trainer.round_num == 3


def test_a_round_has_at_least_a_batch(tmp_path):
    trainer = make_trainer(tmp_path, batch_size=128)
    collected = trainer.train_round(
        rollout_round_min_episodes=1, rollout_round_min_timesteps=1, bc_train_kwargs=QUIET
    )
    assert sum(map(len, collected.trajectories)) == 160


def test_short_episodes_are_not_favored(tmp_path):
    venv = DummyVecEnv([CoinFlip for _ in range(8)])
    trainer = make_trainer(tmp_path, venv=venv, expert_policy=ZeroPolicy(
        venv.observation_space, venv.action_space))  # fmt: skip
    shares = []
    for _ in range(40):
        number = trainer.train_round(
            rollout_round_min_episodes=8, rollout_round_min_timesteps=16,
            bc_train_kwargs={"n_batches": 1, **QUIET},
        ).number  # fmt: skip
        saved = read_demos(trainer.round_folder(number))
        shares.append(np.mean([len(t) == 1 for t in saved]))
    # Half of all episodes are short; dropping unfinished ones would give many more.
    assert abs(np.mean(shares) - 0.5) < 4 * np.std(shares) / np.sqrt(len(shares))


def test_given_demonstrations_join_round_zero(tmp_path):
    trainer = make_trainer(tmp_path, expert_trajs=episodes(3, with_rewards=False))
    assert read_demos(trainer.round_folder(0)) == episodes(3, with_rewards=False)
    trainer.train_round(**SMALL_ROUNDS)
    assert len(read_demos(trainer.round_folder(0))) == 3 + 2
    # Building it once more, as after a crash, does not add them a second time.
    assert len(read_demos(make_trainer(tmp_path, expert_trajs=episodes(3)).round_folder(0))) == 5


def test_it_logs_rounds(tmp_path):
    trainer = make_trainer(tmp_path)
    logged = []
    trainer.logger.default_logger.dump = lambda *_: logged.append(
        dict(trainer.logger.default_logger.name_to_value)
    )
    trainer.train(80, **SMALL_ROUNDS)
    (first, second) = logged
    assert first["dagger/round_num"] == 0 and second["dagger/round_num"] == 1
    assert second["dagger/total_timesteps"] == 80
    assert first["dagger/round_episode_count"] == 2
    assert first["dagger/round_timestep_count"] == 40
    assert first["dagger/beta"] == 1.0 and second["dagger/beta"] == 1 - 1 / 15
    returns = [t.rews.sum() for t in read_demos(trainer.round_folder(0))]
    assert first["dagger/mean_episode_reward"] == pytest.approx(np.mean(returns))
    assert "bc/loss" in first


# Rounds step by step


def test_rounds_of_collecting_and_training_can_be_repeated(tmp_path):
    trainer = make_trainer(tmp_path, simple=False)
    for number in range(3):
        collect(trainer, 20)
        assert trainer.extend_and_update(QUIET) == number + 1
    assert [len(read_demos(trainer.round_folder(n))) for n in range(3)] == [2, 2, 2]


def test_without_demonstrations_the_trainer_is_unchanged(tmp_path):
    trainer = make_trainer(tmp_path, simple=False)
    before = fingerprint(trainer)
    with pytest.raises(NeedsDemosException, match="round-000"):
        trainer.extend_and_update(QUIET)
    assert_same(before, fingerprint(trainer))
    collect(trainer, 20)
    trainer.extend_and_update(QUIET)
    with pytest.raises(NeedsDemosException, match="round-001"):
        trainer.extend_and_update(QUIET)


def test_demonstrations_can_be_added_to_a_round_in_any_readable_format(tmp_path):
    trainer = make_trainer(tmp_path, simple=False)
    seen = []
    original = trainer.bc_trainer.set_demonstrations
    trainer.bc_trainer.set_demonstrations = lambda demos: (seen.append(len(demos)), original(demos))
    folder = trainer.round_folder(0)
    serialize.save(folder / "saved", episodes(1))
    hub = write_demonstrations(tmp_path / "hub", episodes(2))
    hub.rename(folder / "a-file.parquet")
    write_demonstrations(folder / "as-on-the-hub", episodes(3))
    (one,) = episodes(1)
    np.savez(folder / "old.npz", obs=one.obs, acts=one.acts, rews=one.rews,
             terminal=np.array([True]), indices=np.array([], int))  # fmt: skip
    (folder / ".hidden").write_text("not a demonstration")
    (folder / "claimed-by-another-process").mkdir()
    trainer.extend_and_update(QUIET)
    collect(trainer, 20)
    serialize.save(trainer.round_folder(1) / "mine", episodes(1))
    trainer.extend_and_update(QUIET)
    assert seen == [7 * 20, 7 * 20 + 3 * 20]


def test_a_file_of_another_format_or_damaged_is_reported(tmp_path):
    trainer = make_trainer(tmp_path, simple=False)
    folder = trainer.round_folder(0)
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"notes\.txt"):
        trainer.extend_and_update(QUIET)
    (folder / "notes.txt").unlink()
    whole = write_demonstrations(tmp_path, episodes(1)).read_bytes()
    (folder / "cut.parquet").write_bytes(whole[:-40])
    with pytest.raises(InputError, match=r"cut\.parquet"):
        trainer.extend_and_update(QUIET)
    assert trainer.round_num == 0


def test_demonstrations_that_do_not_fit_are_refused_with_their_folder(tmp_path):
    trainer = make_trainer(tmp_path, simple=False)
    (wide,) = episodes(1)
    wide = TrajectoryWithRew(np.zeros((21, 3)), wide.acts, None, True, wide.rews)
    serialize.save(trainer.round_folder(0) / "wide", [wide])
    with pytest.raises(ValueError, match=r"round-000: .*shape"):
        trainer.extend_and_update(QUIET)


def test_updates_train_for_four_epochs_and_evaluate_in_the_same_environment(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path, simple=False)
    collect(trainer, 20)
    asked = []
    monkeypatch.setattr(trainer.bc_trainer, "train", lambda **options: asked.append(options))
    trainer.extend_and_update()
    collect(trainer, 20)
    trainer.extend_and_update({"n_batches": 3, "log_rollouts_venv": None})
    assert asked == [
        {"n_epochs": DAggerTrainer.DEFAULT_N_EPOCHS, "log_rollouts_venv": trainer.venv},
        {"n_batches": 3, "log_rollouts_venv": None},
    ]
    assert DAggerTrainer.DEFAULT_N_EPOCHS == 4


def test_one_logger_serves_both_trainers(tmp_path):
    trainer = make_trainer(tmp_path)
    assert trainer.bc_trainer.logger is trainer.logger
    trainer.logger = other = quiet_logger()
    assert trainer.bc_trainer.logger is other
    assert trainer.batch_size == 16 and trainer.policy is trainer.bc_trainer.policy


class Asked(DiscreteInteractivePolicy):
    """A person who is shown the place on the line."""

    def _render(self, obs):
        self._out.write(f"place {obs[0]:+.3f}\n")


def test_a_human_can_be_the_expert(tmp_path):
    venv = corridor(envs=1)
    answers, questions = io.StringIO("r\nl\nx\n" + "r\n" * 18), io.StringIO()
    person = Asked(
        venv.observation_space, venv.action_space, {"l": "left", "r": "right"},
        input_stream=answers, output_stream=questions,
    )  # fmt: skip
    trainer = make_trainer(tmp_path, venv=venv, expert_policy=person)
    trainer.train_round(
        rollout_round_min_episodes=1, rollout_round_min_timesteps=1, bc_train_kwargs=QUIET
    )
    (demo,) = read_demos(trainer.round_folder(0))
    assert (
        demo.acts.tolist() == [1, 0] + [1] * 18
    )  # "x" is not an action, so the question was repeated
    shown = [part.split()[0] for part in questions.getvalue().split("place ")[1:]]
    assert shown == [f"{place:+.3f}" for place in demo.obs[:-1, 0]]


# Bad input


def test_the_expert_has_the_environments_spaces(tmp_path):
    venv = corridor()
    wrong_acts = RandomPolicy(venv.observation_space, spaces.Discrete(3))
    with pytest.raises(ValueError, match="expert_policy: its action_space"):
        make_trainer(tmp_path, expert_policy=wrong_acts)
    wrong_obs = RandomPolicy(spaces.Discrete(2), venv.action_space)
    with pytest.raises(ValueError, match="expert_policy: its observation_space"):
        make_trainer(tmp_path, expert_policy=wrong_obs)
    with pytest.raises(TypeError, match="expert_policy"):
        make_trainer(tmp_path, expert_policy=None)


def test_the_learner_has_the_environments_spaces(tmp_path):
    learner = make_trainer(tmp_path).bc_trainer
    with pytest.raises(ValueError, match="bc_trainer: its observation_space"):
        DAggerTrainer(
            venv=DummyVecEnv([Counter]), scratch_dir=tmp_path, rng=np.random.default_rng(0),
            bc_trainer=learner,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("total_timesteps", -1),
        ("rollout_round_min_episodes", 0),
        ("rollout_round_min_timesteps", -5),
    ],
)
def test_numbers_out_of_range_are_reported(tmp_path, name, value):
    with pytest.raises(ValueError, match=name):
        make_trainer(tmp_path).train(**{"total_timesteps": 10, name: value})


def test_a_probability_out_of_range_is_refused(tmp_path):
    trainer = make_trainer(tmp_path, beta_schedule=lambda _: 2.0)
    for start in (trainer.create_trajectory_collector, trainer.train_round):
        with pytest.raises(ValueError, match="beta"):
            start()


def test_given_demonstrations_must_fit_and_be_finite(tmp_path):
    (bad,) = episodes(1)
    bad.obs[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"expert_trajs: .*finite"):
        make_trainer(tmp_path, expert_trajs=[bad])


def test_a_batch_larger_than_the_data_is_refused(tmp_path):
    trainer = make_trainer(tmp_path, simple=False, batch_size=64)
    serialize.save(trainer.round_folder(0) / "few", episodes(1))
    with pytest.raises(ValueError, match="batch_size 64"):
        trainer.extend_and_update(QUIET)
    # More demonstrations mend it: the round was not counted.
    serialize.save(trainer.round_folder(0) / "more", episodes(3))
    assert trainer.extend_and_update(QUIET) == 1


def test_an_expert_with_non_finite_actions_is_refused_without_damage(tmp_path):
    class Broken(BasePolicy):
        def _predict(self, observation, deterministic=False):
            return th.full((len(observation), 1), th.nan)

    venv = make_vec_env("Pendulum-v1", rng=np.random.default_rng(0), n_envs=2)
    expert = Broken(venv.observation_space, venv.action_space)
    trainer = make_trainer(tmp_path, venv=venv, expert_policy=expert)
    with contextlib.suppress(RuntimeWarning), pytest.raises(ValueError, match="not finite"):
        trainer.train_round(**SMALL_ROUNDS)
    assert read_demos(trainer.round_folder(0)) == []
