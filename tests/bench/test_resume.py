"""Every bundled algorithm gives the same numbers after an interruption."""

import numpy as np
import pytest
import torch as th
from support.plans import make_plan, request_of

from imitbench.bench import environments
from imitbench.bench.checkpoint import generator_states, restore_generators
from imitbench.bench.protocol import Evaluator
from imitbench.bench.spec import make_spec
from imitbench.bench.training import TrainingConfig, TrainingInputs, seed_generators, set_up
from imitbench.cards.catalog import algorithm_names, load_algorithm, load_suite, suite_directory
from imitbench.envs.batch_vec_env import BatchVecEnv
from imitbench.records.runs import Budget
from imitbench.util.state_file import load_state, save_state

# Steps of an episode, so that several rounds of whole episodes are quick.
EPISODE = 40
BUDGETS = {"env_steps": 400, "replay_steps": 80, "batches": 10, "none": 0}
MORE = {
    "preference_comparisons": 1200,
    "pebble": 240,  # exploration of whole episodes, and two rounds
    "sqil": 120,
    "drex": 800,  # half of it noisy trajectories
}
# Small enough for several rounds within the budget.
SETTINGS = {
    "n_steps": "64",
    "n_envs": "2",
    "n_epochs": "2",
    "demo_batch_size": "32",
    "n_disc_updates_per_round": "2",
    "hidden_size": "16",
    "rollout_round_min_episodes": "2",
    "rollout_round_min_timesteps": "80",
    "total_comparisons": "12",
    "num_iterations": "2",
    "fragment_length": "10",
    "reward_epochs": "2",
    "learning_starts": "40",
    "steps_per_update": "4",
    "bc_updates": "20",
    "critic_updates": "20",
    "exploration_steps": "50",
    "reset_updates": "5",
    "episodes": "2",
    "bc_batches": "10",
    "reward_interval": "4",
    "disc_batches": "2",
    "disc_updates": "2",
    "trajectories": "2",
    "pairs": "20",
    "model_updates": "5",
    "model_pretraining": "5",
    "horizon": "4",
    "execute": "2",
    "chunk": "4",
    "channels": "8",
    "feedforward": "16",
}
# One environment per kind of action space is enough, and one per kind of table.
SIMILAR = {
    "seals/MountainCar-v0",
    "seals/CliffWorld7x4XY-v0",
    "seals/CliffWorld15x6-v0",
    "seals/CliffWorld15x6XY-v0",
    *(f"imitbench/RandomMDP-{number}-v0" for number in range(1, 5)),
}
CELLS = [
    (run.algo, run.suite, run.environment.id)
    for card in map(load_algorithm, algorithm_names())
    for suite in [load_suite("tabular" if card.needs.tabular else "classic")]
    for run in make_plan([card], suite, seeds=[0], **suite.fitting_regime(card).recorded)
    if run.environment.id not in SIMILAR
]


# Enables together all options that have a state or draw random numbers.
OPTIONS = {
    "reward_scaling": "returns",
    "log_std_source": "expert",
    "log_std_init": "-0.5",
    "target_kl": "0.05",
    "normalizer_source": "both",
    "warm_start_batches": "20",
    "warm_start_critic_steps": "600",
    "gradient_penalty": "1.0",
    "disc_label_smoothing": "0.1",
    "disc_spectral_norm": "true",
    "disc_lipschitz": "3.0",
    "disc_absolute_positions": "hide",
    "reward_form": "logit",
}
VARIANTS = [
    ("gail", OPTIONS),
    ("gail", {"reward_scaling": "running", "normalizer_source": "expert", "reward_form": "log_d"}),
    ("gail", {"reward_scaling": "returns", "lean_ppo": "false", "warm_start_batches": "20",
              "warm_start_critic_steps": "600", "normalizer_source": "both"}),
    ("airl", OPTIONS),
    ("density", OPTIONS),
    ("preference_comparisons", OPTIONS),
    ("preference_comparisons", {"teacher": "stochastic"}),
    ("pebble", {"teacher": "mistaken", "teacher_parameter": "0.5", "active_selection_factor": "1"}),
    ("bc_gmm", {"low_noise": "false"}),
    ("bc_ensemble", {"member": "gaussian"}),
    ("bc_rnn", {"layers": "2", "low_noise": "false"}),
    ("act", {"temporal_ensembling": "false"}),
    ("flow_policy", {"average_power": "null"}),
    ("ensemble_dagger", {"discrepancy_threshold": "0.1"}),
]  # fmt: skip


def ready(name, suite, env_id, options=()):
    """Returns a learner ready to train, created as in the worker."""
    card = load_algorithm(name)
    wanted = {**SETTINGS, **dict(options)}
    values = card.resolve({k: v for k, v in wanted.items() if k in card.hyperparameters})
    regime = load_suite(suite).fitting_regime(card).recorded | {"n_demos": 4}
    spec = make_spec(
        load_suite(suite), env_id, card, values, 0, request_of(budget="quick", **regime)
    )
    if suite != "tabular":
        kwargs = {**spec.environment.kwargs, "max_episode_steps": EPISODE}
        environment = spec.environment.model_copy(update={"kwargs": kwargs})
        spec = spec.model_copy(update={"environment": environment})
    # Three rounds of DAgger.
    amount = 260 if "dagger" in name else MORE.get(name, BUDGETS[card.budget_unit])
    budget = Budget(name="quick", unit=card.budget_unit, amount=amount)
    config = TrainingConfig.of(spec)
    seed_generators(config)
    inputs = TrainingInputs.of(spec, suite_directory(suite))
    with Evaluator(spec.environment, 1) as evaluator:
        learner = set_up(config, inputs, evaluator.observation_space, evaluator.action_space)
    return learner, budget


@pytest.mark.parametrize(("name", "suite", "env_id"), CELLS)
def test_resumed_training_equals_uninterrupted_training(name, suite, env_id, tmp_path):
    check_resumption(name, suite, env_id, tmp_path)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_resumption_is_exact_with_other_hyperparameters(name, options, tmp_path):
    check_resumption(name, "classic", "Pendulum-v1", tmp_path, options)


IN_BATCHES = {"n_envs": "4", "n_steps": "27"}  # a rollout ends within an episode


@pytest.mark.parametrize(
    ("suite", "env_id"),
    [
        ("classic", "Pendulum-v1"),
        ("classic", "seals/CartPole-v0"),
        ("classic", "seals/MountainCar-v0"),
        ("transfer", "imitbench/CliffWorld-v0"),  # whose steps are random
    ],
)
def test_environments_in_batches_resume_and_change_no_number(suite, env_id, tmp_path, monkeypatch):
    curves, parameters = [], []
    for batched in (True, False):
        if not batched:
            monkeypatch.setattr(environments, "stepped_in_batches", lambda *_: False)
        learner, budget = ready("gail", suite, env_id, IN_BATCHES)
        assert (type(learner._environments) is BatchVecEnv) is batched
        curves.append([])
        learner.train(budget, lambda *point: curves[-1].append(point))
        parameters.append(learner.policy().state_dict())
        check_resumption("gail", suite, env_id, tmp_path, IN_BATCHES)
    np.testing.assert_equal(*curves)
    for key, value in parameters[0].items():
        assert th.equal(parameters[1][key], value), key


def check_resumption(name, suite, env_id, tmp_path, options=()):
    learner, budget = ready(name, suite, env_id, options)
    whole: list = []
    states: list = []
    offers = 0

    def keep():
        nonlocal offers
        offers += 1
        if offers & (offers - 1) == 0:  # 1, 2, 4, …: the last before the end is at half or later
            path = tmp_path / f"{offers}.state"
            state = {"learner": learner.state_dict(), "generators": generator_states()}
            save_state(path, state)
            states.append((offers, path, len(whole)))

    steps = learner.train(budget, lambda *point: whole.append(point), keep)
    if not states:
        assert not whole
        assert load_algorithm(name).role == "anchor", "a method that trains must offer checkpoints"
        return
    assert offers >= 2

    *_, (path, count) = [(path, count) for offer, path, count in states if offer < offers]
    rest = whole[:count]
    resumed, _ = ready(name, suite, env_id, options)
    state = load_state(path)
    resumed.load_state_dict(state["learner"])
    restore_generators(state["generators"])
    assert resumed.train(budget, lambda *point: rest.append(point)) == steps
    np.testing.assert_equal(rest, whole)
    for key, value in learner.policy().state_dict().items():
        assert th.equal(resumed.policy().state_dict()[key], value), key
