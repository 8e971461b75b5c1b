"""Variants of environments on a suite's card."""

import json

import pytest
import yaml
from support.command import call_imitbench, refusal
from support.short_suite import write_short_suite

from imitbench.bench.environments import check_variants
from imitbench.cards.plugins import find_suite
from imitbench.cards.suite import SuiteCard
from imitbench.errors import InputError
from imitbench.records.runs import EnvironmentSpec, RunSpec

NAME = "Pendulum-v1+noise"
NOISE = {"title": "Noisy", "variant_of": "Pendulum-v1",
         "wrappers": [{"name": "observation_noise", "std": 0.1}]}  # fmt: skip


def write_suite(folder, name=NAME, **entry):
    """A short suite of Pendulum, with a variant."""
    card = write_short_suite(folder) / "suite.yaml"
    document = yaml.safe_load(card.read_text())
    document["environments"][name] = {key: v for key, v in entry.items() if v is not None}
    card.write_text(yaml.safe_dump(document))
    return folder


def read(folder, **entry):
    return find_suite(str(write_suite(folder, **entry)))


def test_a_variant_takes_over_all_that_it_does_not_state(tmp_path):
    suite = read(tmp_path / "own", **NOISE, steps_per_second=5.0)
    base, variant = suite.environments.values()
    assert (variant.title, variant.steps_per_second) == ("Noisy", 5.0)
    assert (variant.expert, variant.demos) == (base.expert, base.demos)
    assert (variant.budgets, variant.kwargs) == (base.budgets, base.kwargs)
    assert base.references is not None
    assert variant.references is None
    assert suite.takes_over(NAME, "expert")
    assert not suite.takes_over("Pendulum-v1", "expert")
    spec = EnvironmentSpec.of_card(NAME, variant)
    assert (spec.id, spec.gym_id) == (NAME, "Pendulum-v1")
    assert SuiteCard.model_validate(suite.model_dump()).environments == suite.environments


def test_records_of_other_environments_do_not_mention_variants(tmp_path):
    suite = read(tmp_path / "own", **NOISE)
    base, variant = (EnvironmentSpec.of_card(*each) for each in suite.environments.items())
    new = {"variant_of", "wrappers"}
    assert not new & base.model_dump().keys()
    written = variant.model_dump(mode="json")
    assert written["wrappers"] == NOISE["wrappers"]
    assert new <= written.keys()
    assert "evaluation_only" not in written
    assert EnvironmentSpec.model_validate_json(json.dumps(written)) == variant


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"variant_of": "Pendulum-v2"}, "must be an environment of this suite that is no variant"),
        ({"title": None}, "title: a variant needs its own"),
        ({"wrappers": None}, "as it has the same kwargs and no wrappers"),
        ({"name": "m:Pendulum"}, "a variant has a name of its own without ':'"),
        ({"wrappers": [{"name": "sticky", "probability": 0.5}]}, "'sticky_actions'"),
        ({"wrappers": [{"name": "sticky_actions", "probability": 1.5}]}, "less than 1"),
        ({"wrappers": [{"name": "sticky_actions"}]}, "probability: this key is required"),
        ({"wrappers": [{"name": "delayed_actions", "steps": 0}]}, "greater than or equal to 1"),
        ({"wrappers": [{"name": "delayed_actions", "stepz": 1}]}, "unknown key"),
        ({"wrappers": [{"name": "observation_noise", "std": 0}]}, "greater than 0"),
        ({"wrappers": None, "evaluation_only": True}, "evaluation_only: needs wrappers"),
        ({"tabular": True}, "wrappers do not change; use kwargs"),
    ],
)
def test_a_malformed_variant_is_refused_in_one_line(entry, line, tmp_path):
    with pytest.raises(InputError) as error:
        read(tmp_path / "own", **NOISE | entry)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


OTHER = {
    "title": "Heavy", "variant_of": "Pendulum-v1", "transfer": True, "kwargs": {"g": 12.0},
    "expert": {"repo": "ppo-heavy", "algo": "ppo", "env_steps": 1000},
}  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (
            {"wrappers": [{"name": "sticky_actions", "probability": 0.25}]},
            "transfer: has no wrappers; change the dynamics by kwargs",
        ),
        ({"kwargs": None, "evaluation_id": "Pendulum-v2"},
         "transfer: needs other kwargs than Pendulum-v1"),
        ({"expert": None}, "transfer: needs an expert of its own"),
        ({"transfer": "maybe"}, "transfer"),
    ],
)  # fmt: skip
def test_a_malformed_test_environment_is_refused_in_one_line(entry, line, tmp_path):
    with pytest.raises(InputError) as error:
        read(tmp_path / "own", **OTHER | entry)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("wrappers", NOISE["wrappers"], "name what it changes as variant_of"),
        ("transfer", True, "transfer: name the training environment as variant_of"),
    ],
)
def test_keys_of_variants_are_refused_elsewhere(key, value, line, tmp_path):
    folder = write_suite(tmp_path / "own", **NOISE)
    document = yaml.safe_load((folder / "suite.yaml").read_text())
    document["environments"]["Pendulum-v1"][key] = value
    (folder / "suite.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(InputError, match=line):
        find_suite(str(folder))


MODULE = """
import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv


class Pendulum(PendulumEnv):
    def __init__(self, blind=False, **kwargs):
        super().__init__(**kwargs)
        if blind:
            self.observation_space = gym.spaces.Box(-1, 1, (1,))


gym.register("own/Pendulum-v0", Pendulum, max_episode_steps=10)
"""


def test_a_variant_that_changes_spaces_is_refused_in_one_line(tmp_path):
    folder = write_suite(
        tmp_path / "own", "own/Blind", title="Blind", variant_of="own/Pendulum-v0",
        kwargs={"blind": True},
    )  # fmt: skip
    document = yaml.safe_load((folder / "suite.yaml").read_text())
    environments = document["environments"]
    base = environments.pop("Pendulum-v1")
    environments["own/Pendulum-v0"] = {**base, "kwargs": {}, "module": "environment"}
    (folder / "suite.yaml").write_text(yaml.safe_dump(document))
    (folder / "environment.py").write_text(MODULE)
    suite = find_suite(str(folder))
    check_variants(suite, ["own/Pendulum-v0"])
    with pytest.raises(InputError, match=r"own/Blind: has observations .* must not change spaces"):
        check_variants(suite, suite.environments)
    run = ("run", "--algo", "random", "--suite", "./own", "--seeds", "1", "--budget", "quick")
    assert "must not change spaces" in refusal(call_imitbench(*run, cwd=tmp_path))
    assert not (tmp_path / "runs").exists()


def test_programs_do_not_train_on_wrapped_variants(tmp_path):
    assert call_imitbench("init-algo", "own", "--kind", "command", cwd=tmp_path).code == 0
    write_suite(tmp_path / "suite", **NOISE, references=None)
    run = ("run", "--algo", "./own", "--suite", "./suite", "--env", NAME, "--budget", "quick")
    line = refusal(call_imitbench(*run, cwd=tmp_path))
    assert "environments lack the wrappers on the card" in line


def test_experts_are_not_trained_for_variants(tmp_path):
    write_suite(tmp_path / "own", **NOISE)
    there = ("--suite", "./own", "--env", NAME)
    for words in (("experts", "train"), ("demos", "collect")):
        line = refusal(call_imitbench(*words, *there, cwd=tmp_path))
        assert f"--env {NAME}: a variant with the " in line
        assert "of Pendulum-v1; name that" in line


@pytest.mark.slow
def test_a_variant_is_measured_run_and_shown(tmp_path):
    write_suite(tmp_path / "own", **NOISE | {"wrappers": [{"name": "delayed_actions", "steps": 4}]})
    run = ("run", "--algo", "bc,random", "--suite", "./own", "--seeds", "1", "--budget", "quick")
    assert f"{NAME} has no references" in call_imitbench(*run, cwd=tmp_path).err
    measure = ("suites", "measure", "./own", "--episodes", "20")
    card = ("--card", "./own/suite.yaml")
    assert call_imitbench(*measure, *card, cwd=tmp_path).code == 0
    suite = find_suite(str(tmp_path / "own"))
    base, variant = (card.references for card in suite.environments.values())
    assert variant.random.mean != base.random.mean
    assert variant.expert.mean < base.expert.mean
    assert variant.expert.revision == base.expert.revision
    document = yaml.safe_load((tmp_path / "own" / "suite.yaml").read_text())
    entry = document["environments"][NAME]
    assert entry.keys() == {"title", "variant_of", "wrappers", "references", "steps_per_second"}
    assert call_imitbench(*run, "--quiet", cwd=tmp_path).code == 0
    specs = [
        RunSpec.model_validate_json(path.read_text())
        for path in (tmp_path / "runs").rglob("spec.json")
    ]
    assert sorted(spec.environment.id for spec in specs) == ["Pendulum-v1"] * 2 + [NAME] * 2
    shown = call_imitbench("suites", "show", "./own", cwd=tmp_path).out
    assert f"{NAME} is Pendulum-v1 with arguments max_episode_steps=10 and actions" in shown
    assert "late by 4 steps" in shown
    [policy] = [path.parent for path in (tmp_path / "runs").rglob("spec.json")
                if (spec := RunSpec.model_validate_json(path.read_text())).algo == "bc"
                and spec.environment.id == NAME]  # fmt: skip
    words = ("eval", policy, "--suite", "./own", "--episodes", "2", "--json")
    assert json.loads(call_imitbench(*words, cwd=tmp_path).out)["env"] == NAME
