"""Every learner uses only the given device."""

import numpy as np
import pytest
import torch as th
from support.other_device import other_device
from support.plans import make_plan

from imitbench.bench import artifacts
from imitbench.bench.implementation import card_of, make_learner
from imitbench.bench.learner import Task
from imitbench.bench.learners import reward_agreement
from imitbench.bench.protocol import Evaluator
from imitbench.bench.supplement import supplement_of_run
from imitbench.cards.catalog import algorithm_names, load_algorithm, load_suite, suite_directory

# Small enough for a round within the budget.
SETTINGS = {
    "n_steps": "32",
    "n_envs": "2",
    "n_epochs": "1",
    "demo_batch_size": "32",
    "hidden_size": "8",
    "rollout_round_min_episodes": "2",
    "rollout_round_min_timesteps": "40",
    "total_comparisons": "6",
    "num_iterations": "1",
    "fragment_length": "10",
    "pairs": "50",
    "snippet_length": "10",
    "reward_epochs": "1",
    "learning_starts": "20",
    "steps_per_update": "10",
    "buffer_size": "1000",
    "bc_updates": "2",
    "model_updates": "2",
    "model_pretraining": "2",
    "critic_updates": "2",
    "exploration_steps": "10",
    "reset_updates": "2",
    "episodes": "2",
    "bc_batches": "1",
    "disc_batches": "1",
    "horizon": "4",
    "execute": "2",
    "chunk": "4",
    "channels": "8",
    "feedforward": "16",
}
BUDGETS = {"env_steps": 70, "replay_steps": 40, "batches": 3}
MORE = {"preference_comparisons": 400, "pebble": 60, "drex": 300}
EPISODE = 20  # steps
TRAINED = [name for name in algorithm_names() if name not in ("random", "expert")]
# They sample whole episodes, which are shorter in Pendulum; others try discrete actions with PPO
# and the off-policy core.
SAMPLING = tuple(MORE)
# The off-policy core has another agent for each kind of action space.
BOTH_SPACES = [
    name
    for name in TRAINED
    if load_algorithm(name).packs and len(load_algorithm(name).needs.action_spaces) == 2
]


def set_up(name, device, discrete=True):
    suite = "tabular" if load_algorithm(name).needs.tabular else "classic"
    discrete &= "discrete" in load_algorithm(name).needs.action_spaces
    classic = "seals/CartPole-v0" if discrete else "Pendulum-v1"
    env = None if suite == "tabular" else classic
    known = load_algorithm(name).hyperparameters
    overrides = {key: value for key, value in SETTINGS.items() if key in known}
    if name == "pebble":
        overrides["n_envs"] = "1"  # each environment explores for at least an episode
    regime = load_suite(suite).fitting_regime(load_algorithm(name)).recorded | {"n_demos": 4}
    plan = make_plan(
        algorithms=[name],
        suite=suite,
        environment=env,
        seeds=[0],
        budget="quick",
        overrides=overrides,
        **regime,
    )
    spec = next(iter(plan))
    if suite == "classic":
        kwargs = {**spec.environment.kwargs, "max_episode_steps": EPISODE}
        environment = spec.environment.model_copy(update={"kwargs": kwargs})
        spec = spec.model_copy(update={"environment": environment})
    root = suite_directory(suite)
    learner, demos = make_learner(spec), artifacts.demos_of_run(spec, root)
    with Evaluator(spec.environment, 1) as evaluator:
        spaces = evaluator.observation_space, evaluator.action_space
        expert = artifacts.expert_of_run(spec, root, *spaces, "cpu")
        task = Task(
            environment=spec.environment,
            observation_space=evaluator.observation_space,
            action_space=evaluator.action_space,
            hyperparameters=card_of(spec).completed(spec.hyperparameters),
            seed=0,
            expert=expert,
            supplement=supplement_of_run(spec, root, ranked=load_algorithm(name).needs.ranking),
        )
        learner.setup(task, demos, np.random.default_rng(0), device)
    return learner, spec.budget.model_copy(
        update={"amount": MORE.get(name, BUDGETS[spec.budget.unit])}
    )


@pytest.mark.parametrize(
    ("name", "discrete"),
    [(name, name not in SAMPLING) for name in TRAINED] + [(name, False) for name in BOTH_SPACES],
)
def test_all_computation_is_on_the_given_device(name, discrete, monkeypatch):
    monkeypatch.setattr(reward_agreement, "RANDOM_RATES", (0.0,))  # episodes of the policy only
    with other_device() as device:
        learner, budget = set_up(name, device, discrete)
        learner.train(budget, lambda *_: None)
        tensors = learner.policy().state_dict().values()
        if not load_algorithm(name).needs.tabular:  # else it plans with NumPy
            assert {tensor.device.type for tensor in tensors} == {device}
        learner.measures()
        learner.state_dict()


@pytest.mark.skipif(th.version.cuda is not None, reason="this torch knows CUDA")
@pytest.mark.parametrize("name", TRAINED)
def test_an_unusable_gpu_is_an_error_instead_of_a_fallback(name, monkeypatch):
    # Stable-Baselines3 would fall back to the CPU; the worker checks before.
    monkeypatch.setattr(th.cuda, "is_available", lambda: True)
    with pytest.raises((AssertionError, ValueError), match="not compiled with CUDA"):
        set_up(name, "cuda")


@pytest.mark.skipif(th.version.cuda is not None, reason="this torch knows CUDA")
def test_experts_are_put_on_the_device():
    spec = next(
        iter(
            make_plan(
                algorithms=["expert"],
                suite="classic",
                environment="Pendulum-v1",
                seeds=[0],
            )
        )
    )
    with Evaluator(spec.environment, 1) as evaluator:
        spaces = evaluator.observation_space, evaluator.action_space
        with pytest.raises(AssertionError, match="not compiled with CUDA"):
            artifacts.expert_of_run(spec, suite_directory("classic"), *spaces, "cuda")


@pytest.mark.skipif(not th.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", TRAINED)
def test_policies_are_on_the_gpu(name):
    assert set_up(name, "cuda")[0].policy().device.type == "cuda"
