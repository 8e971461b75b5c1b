"""All bundled cards are valid, and match environments, experts and demonstrations."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import yaml
from gymnasium import spaces
from pydantic import ValidationError

from imitbench.algorithms.mce_planning import optimal_policy
from imitbench.bench import artifacts
from imitbench.bench.environments import make_environment
from imitbench.bench.learner import Learner
from imitbench.cards.catalog import (
    algorithm_directory,
    algorithm_names,
    load_algorithm,
    load_suite,
    suite_directory,
    suite_names,
)
from imitbench.cards.demonstrations import DemoSet, PolicySet
from imitbench.cards.suite import EnvironmentCard, ExpertRecipe
from imitbench.data.demonstration_checks import validate_demonstrations
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.tabular import TabularModel
from imitbench.errors import InputError
from imitbench.experts.demonstrations import MAX_FILE_BYTES
from imitbench.policies.space_check import check_policy_fits
from imitbench.policies.storage import load_policy
from imitbench.records.runs import EnvironmentSpec
from imitbench.util.extras import check_extra, extra_of_environment

CELLS = [(suite, env_id) for suite in suite_names() for env_id in load_suite(suite).environments]
WITH_EXPERT = [
    (suite, env_id)
    for suite, env_id in CELLS
    if load_suite(suite).environments[env_id].expert is not None
]
BUNDLED = [(suite, env_id) for suite, env_id in CELLS
           if (suite_directory(suite) / "demos").is_dir()]  # fmt: skip
KINDS = {
    "discrete": spaces.Discrete,
    "multi_discrete": spaces.MultiDiscrete,
    "box": spaces.Box,
}
# What an expert must at least return (its issue names the figures); others need a margin over
# random actions only.
GOOD_ENOUGH = {"seals/CartPole-v0": 499.0, "seals/MountainCar-v0": -110.0, "Pendulum-v1": -200.0}


def what_is_missing(suite, env_id):
    """Says which optional package an environment lacks; `None` if it lacks none."""
    card = load_suite(suite).environments[env_id]
    extra = extra_of_environment(card.variant_of or env_id, card.module)
    try:
        if extra is not None:
            check_extra(extra, env_id)
    except InputError as error:
        return str(error)


@pytest.fixture(autouse=True)
def _extra_is_there(request):
    """Skips tests of environments whose optional package is missing."""
    given = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if "env_id" in given and "suite" in given and (why := what_is_missing(**given)):
        pytest.skip(why)


@pytest.mark.parametrize(
    "path",
    [
        *(path for name in algorithm_names() for path in algorithm_directory(name).glob("*.yaml")),
        *(suite_directory(name) / "suite.yaml" for name in suite_names()),
    ],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_no_line_of_a_card_is_longer_than_100_characters(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert not [number for number, line in enumerate(lines, 1) if len(line) > 100]


@pytest.mark.parametrize("name", algorithm_names())
def test_algorithm_card_names_an_existing_learner(name):
    card = load_algorithm(name)
    module, _, cls = card.implementation.partition(":")
    learner = getattr(__import__(module, fromlist=[cls]), cls)
    assert issubclass(learner, Learner)
    assert card.summary.endswith(".")
    assert card.role != "method" or card.paper is not None, "a contender names its paper"
    assert all(p.help.endswith(".") for p in card.hyperparameters.values())


@pytest.mark.parametrize(("suite", "env_id"), CELLS)
def test_the_environment_matches_its_card(suite, env_id):
    card = load_suite(suite).environments[env_id]
    env = make_environment(EnvironmentSpec.of_card(env_id, card))
    assert isinstance(env.action_space, KINDS[card.action_space])
    env.reset(seed=0)
    env.action_space.seed(0)
    length, over = 0, False
    while not over:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        length, over = length + 1, terminated or truncated
    assert length <= card.max_episode_steps
    if card.horizon == "fixed":
        assert length == card.max_episode_steps


@pytest.mark.parametrize(("suite", "env_id"), WITH_EXPERT)
def test_bundled_expert_fits_its_environment_and_is_the_measured_one(suite, env_id):
    card = load_suite(suite).environments[env_id]
    root = suite_directory(suite)
    env = make_environment(EnvironmentSpec.of_card(env_id, card))
    located = artifacts.locate_artifact(root, "experts", "bundled", card, suite)
    policy = load_policy(located.folder)
    check_policy_fits(policy, env.observation_space, env.action_space, where=card.expert.repo)
    pinned = artifacts.pin_expert(located)
    if card.references is None:  # success needs none
        assert card.scored_by_success
        return
    assert card.references.expert.revision == pinned.digest[:12]
    assert card.references.expert.episodes >= 100
    assert card.references.random.episodes >= 100
    # A planner takes long, and success needs no references.
    assert card.references.expert_likely.episodes >= (100 if card.expert.script else 1000)
    assert card.references.expert.mean >= GOOD_ENOUGH.get(env_id, card.references.random.mean)


def test_the_unit_of_scores_is_as_exact_as_the_documentation_says():
    errors = {}
    for suite, env_id in WITH_EXPERT:
        card = load_suite(suite).environments[env_id]
        if card.scored_by_success:  # 0 and 1 are not measured
            continue
        references = card.references
        for one in (references.expert, references.expert_likely):
            error = np.hypot(references.random.standard_error, one.standard_error)
            errors[suite, env_id, one.deterministic] = error / (one.mean - references.random.mean)
    worst = max(errors, key=errors.get)
    of_seals = max((key for key in errors if key[0] == "seals"), key=errors.get)
    assert (worst[1], of_seals[1]) == ("seals/Humanoid-v1", "seals/Walker2d-v1")
    text = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text().replace("\n", " ")
    assert f"{errors[of_seals]:.1%} at most on `seals` (Walker2d)".replace("%", " %") in text
    assert f"{errors[worst]:.1%} on any environment of the package".replace("%", " %") in text


def _known(env_id, card):
    """The name of an environment in that of its expert's folder."""
    if card.expert.home is None:
        return env_id.replace("/", "-").replace("+", "-")
    [name] = [
        name
        for name, each in load_suite(card.expert.home).environments.items()
        if each.expert.repo == card.expert.repo
    ]
    return name.replace("/", "-")


@pytest.mark.parametrize(("suite", "env_id"), WITH_EXPERT)
def test_bundled_expert_has_the_files_of_a_hub_repository(suite, env_id):
    card = load_suite(suite).environments[env_id]
    directory = suite_directory(card.expert.home or suite) / "experts" / card.expert.repo
    learner = card.expert.algo.removesuffix("_true_reward")
    assert card.expert.repo.startswith(f"{learner}-{_known(env_id, card)}")
    assert {path.name for path in directory.iterdir()} == {
        "README.md",
        "config.yml",
        "env_kwargs.yml",
        "policy.json",
        "policy.safetensors",
        "results.json",
        "training.json",
    }
    config = yaml.safe_load((directory / "config.yml").read_text())
    assert config["n_timesteps"] == card.expert.env_steps
    assert config["seed"] == card.expert.seed
    assert card.expert.hyperparameters.items() <= config.items()


@pytest.mark.parametrize(("suite", "env_id"), BUNDLED)
def test_bundled_demonstrations_are_whole_episodes_of_the_expert(suite, env_id):
    card = load_suite(suite).environments[env_id]
    if card.transfer:
        assert load_suite(suite).takes_over(env_id, "demos")
        return
    located = artifacts.locate_artifact(suite_directory(suite), "demos", "bundled", card, suite)
    directory = located.folder
    assert all(f.stat().st_size < MAX_FILE_BYTES for f in (directory / "data").iterdir())
    demos = read_demonstrations(directory)
    env: gym.Env = make_environment(EnvironmentSpec.of_card(env_id, card))
    validate_demonstrations(demos, env.observation_space, env.action_space, where=env_id)
    assert len(demos) == card.demos.trajectories
    assert len(demos) <= (100 if card.scored_by_success else 50) or card.max_episode_steps == 1
    assert all(demo.terminal for demo in demos)
    if card.horizon == "fixed":
        assert {len(demo) for demo in demos} == {card.max_episode_steps}
    returns = np.array([demo.rews.sum() for demo in demos])
    found = card.references
    if found is None:  # success needs none, and demonstrations are successes
        assert card.scored_by_success
        return
    if card.expert is None:
        assert returns.mean() == pytest.approx(found.demonstrations.mean)
        return
    reference = found.expert_likely if card.demos.deterministic else found.expert
    # Both are means of the same policy's episodes, so they agree within their errors. The spread is
    # that of the many episodes: a rare fall may be in none of the few.
    tolerance = 4 * reference.std * np.sqrt(1 / reference.episodes + 1 / len(demos))
    assert abs(returns.mean() - reference.mean) <= tolerance + 1e-6


DEMANDED = [(suite, env_id) for suite, env_id in WITH_EXPERT
            if load_suite(suite).environments[env_id].expert.least_return is not None]  # fmt: skip


@pytest.mark.parametrize(("suite", "env_id"), DEMANDED)
def test_the_references_show_that_an_expert_meets_the_demands_of_its_card(suite, env_id):
    card = load_suite(suite).environments[env_id]
    shown = card.references.expert_likely if card.demos.deterministic else card.references.expert
    assert card.expert.why_too_weak(shown.mean, shown.termination_rate) is None


PLACED = [(suite, env_id) for suite, env_id in CELLS
          if load_suite(suite).environments[env_id].absolute_positions]  # fmt: skip


@pytest.mark.parametrize(("suite", "env_id"), PLACED)
def test_absolute_positions_are_those_that_mujoco_environments_exclude_by_default(suite, env_id):
    card = load_suite(suite).environments[env_id]
    env = make_environment(EnvironmentSpec.of_card(env_id, card))
    env.reset(seed=0)
    env.action_space.seed(0)
    inner = env.unwrapped
    for _ in range(20):
        obs, *_ = env.step(env.action_space.sample())
        inner._exclude_current_positions_from_observation = True
        usual = inner._get_obs()
        inner._exclude_current_positions_from_observation = False
        np.testing.assert_allclose(np.delete(obs, card.absolute_positions), usual, rtol=1e-6)
        places = inner.data.qpos[: len(card.absolute_positions)]
        np.testing.assert_allclose(obs[card.absolute_positions], places, rtol=1e-6)


def test_all_tasks_with_absolute_positions_declare_them():
    assert len(PLACED) == 14  # seven are in the suite transfer, one is in two versions
    for suite, env_id in CELLS:
        if what_is_missing(suite, env_id):
            continue
        env = make_environment(
            EnvironmentSpec.of_card(env_id, load_suite(suite).environments[env_id])
        )
        shown = getattr(env.unwrapped, "_exclude_current_positions_from_observation", True) is False
        assert shown == ((suite, env_id) in PLACED)


def test_bundled_files_stay_small():
    folders = [suite_directory(name) for name in suite_names()]
    # With what else the wheel has, these keep it below 45 MB.
    assert sum(f.stat().st_size for root in folders for f in root.rglob("*")) < 40_500_000


@pytest.mark.parametrize(("suite", "env_id"), CELLS)
def test_training_and_evaluation_environments_have_the_same_spaces(suite, env_id):
    spec = EnvironmentSpec.of_card(env_id, load_suite(suite).environments[env_id])
    here, there = make_environment(spec), make_environment(spec.evaluated)
    assert here.observation_space == there.observation_space
    assert here.action_space == there.action_space


@pytest.mark.parametrize("suite", suite_names())
def test_controls_of_a_suite_are_controls(suite):
    assert {load_algorithm(name).role for name in load_suite(suite).controls} <= {"control"}


@pytest.mark.parametrize("env_id", load_suite("diagnostics").environments)
def test_a_diagnostic_task_states_its_probe_and_its_expert_solves_it(env_id):
    card = load_suite("diagnostics").environments[env_id]
    assert card.probes is not None
    assert card.probes.endswith(".")
    random, expert = card.references.random.mean, card.references.expert
    share = (expert.mean - random) / (card.optimum - random)
    error = expert.std / np.sqrt(expert.episodes) / (card.optimum - random)
    assert 0.95 <= share <= 1 + 3 * error
    if card.tabular:
        env = make_environment(EnvironmentSpec.of_card(env_id, card))
        model = TabularModel.of(env)
        _, values = optimal_policy(model)
        assert values[0] @ model.initial == pytest.approx(card.optimum)


def planned(**changes):
    """An environment card whose expert is planned, with changes to its recipe."""
    card = load_suite("tabular").environments["seals/CliffWorld7x4-v0"]
    document = card.model_dump(mode="json")
    document["expert"] |= changes
    return document


def test_an_expert_can_be_planned_at_a_temperature():
    card = EnvironmentCard.model_validate(planned(hyperparameters={"temperature": 0.5}))
    assert card.expert.algo == "exact"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env_steps": 5}, "env_steps must be 0 for algo exact or scripted"),
        ({"algo": "ppo"}, "env_steps must be 0 for algo exact or scripted, and positive"),
        ({"hyperparameters": {"gamma": 0.9}}, "algo exact has no gamma"),
        ({"algo": "scripted"}, "script: belongs to algo scripted"),
        ({"script": "maze_waypoints"}, "script: belongs to algo scripted"),
        ({"algo": "scripted", "script": "os.system"}, "Input should be 'maze_waypoints'"),
    ],
)
def test_a_recipe_is_either_training_or_planning(changes, message):
    with pytest.raises(ValueError, match=message):
        EnvironmentCard.model_validate(planned(**changes))


def test_planning_needs_a_tabular_environment():
    with pytest.raises(ValueError, match=r"expert\.algo exact needs an environment with tabular"):
        EnvironmentCard.model_validate({**planned(), "tabular": False})


@pytest.mark.parametrize(("suite", "env_id"), CELLS)
def test_tabular_environments_have_a_model(suite, env_id):
    card = load_suite(suite).environments[env_id]
    env = make_environment(EnvironmentSpec.of_card(env_id, card))
    if card.tabular:
        assert TabularModel.of(env).horizon == card.max_episode_steps
    else:
        with pytest.raises(ValueError, match="not a tabular environment"):
            TabularModel.of(env)


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e400"])
def test_hyper_parameters_are_finite(text):
    with pytest.raises(InputError, match=r"learning_rate.* must be (finite|at least)"):
        load_algorithm("bc").resolve({"learning_rate": text})


def test_integer_hyper_parameters_have_64_bits():
    with pytest.raises(InputError, match=r"batch_size.* must be a 64-bit integer"):
        load_algorithm("bc").resolve({"batch_size": str(2**63)})


@pytest.mark.parametrize("repo", [".", "..", "a/b", "../a", ""])
@pytest.mark.parametrize(
    ("part", "others"),
    [
        (DemoSet, {"trajectories": 1}),
        (PolicySet, {"trajectories": 1, "policy": "random"}),
        (ExpertRecipe, {"algo": "ppo", "env_steps": 1000}),
    ],
)
def test_folders_of_experts_and_sets_lie_in_the_folder_of_their_suite(part, others, repo):
    assert part(repo=".a..b-1", **others).repo == ".a..b-1"
    with pytest.raises(ValidationError, match="repo"):
        part(repo=repo, **others)
