"""Policies of classes that a plug-in defines: data in files, code only where the user names it."""

import json
import shutil

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from safetensors.torch import load_file
from support.own_policies import ENSEMBLE, write_own_policy

from imitbench.cards.plugins import find_algorithm
from imitbench.errors import InputError
from imitbench.policies.storage import check_storable, load_policy, save_policy
from imitbench.util import source_import
from imitbench.util.source_import import import_source

VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float32)
CHOICE = spaces.Discrete(4)
OBSERVATIONS = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)

VARIANTS = """
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn


class Widening(BaseFeaturesExtractor):
    def __init__(self, observation_space, width):
        super().__init__(observation_space, width)
        self.layer = nn.Linear(observation_space.shape[0], width)

    def forward(self, observations):
        return self.layer(observations)


class Narrow(ActorCriticPolicy):
    def __init__(self, *args, temperature=1.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.temperature = temperature

    def _get_action_dist_from_latent(self, latent):
        return self.action_dist.proba_distribution(self.action_net(latent) / self.temperature)


class Plain(BasePolicy):
    def __init__(self, observation_space, action_space, thing):
        super().__init__(observation_space, action_space)
        self.layer = nn.Linear(observation_space.shape[0], action_space.n)
        self.keep(thing)

    def keep(self, thing):
        self.thing = thing

    def _predict(self, observation, deterministic=False):
        return self.layer(observation).argmax(1)


class Forgetful(Plain):
    def keep(self, thing):
        pass


class Growing(Plain):
    def keep(self, thing):
        self.thing = thing + 1
        self.layer = nn.Linear(self.layer.in_features, self.layer.out_features * thing)


class Wordy(Plain):
    def get_extra_state(self):
        return "words"

    def set_extra_state(self, state):
        pass


class Module(nn.Module):
    pass


def make_class():
    class Local(Plain):
        pass

    return Local
"""


def rate(_):
    return 1e-3


@pytest.fixture
def registered(monkeypatch):
    """Keeps what a test names from other tests."""
    monkeypatch.setattr(source_import, "_locations", {})


@pytest.fixture
def folder(tmp_path, registered):
    return write_own_policy(tmp_path / "mine", ENSEMBLE)


def classes_of(folder):
    card = find_algorithm(str(folder))
    return import_source(card.origin.digest, "policy", "test")


@pytest.fixture
def ensemble(folder):
    th.manual_seed(0)
    return classes_of(folder).Ensemble(VECTOR, CHOICE, members=2, units=5)


@pytest.fixture
def stored(ensemble, tmp_path):
    save_policy(ensemble, tmp_path / "policy")
    return tmp_path / "policy"


@pytest.fixture
def variants(tmp_path, registered):
    return classes_of(write_own_policy(tmp_path / "mine", VARIANTS))


def actions_of(policy):
    th.manual_seed(1)
    return [policy.predict(OBSERVATIONS, deterministic=choice)[0] for choice in (True, False)]


def test_a_policy_acts_the_same_after_a_round_trip(ensemble, stored):
    check_storable(ensemble)
    again = load_policy(stored)
    assert type(again) is type(ensemble)
    np.testing.assert_array_equal(actions_of(again), actions_of(ensemble))


def test_the_files_hold_tensors_and_names(ensemble, stored, folder):
    assert load_file(stored / "policy.safetensors").keys() == ensemble.state_dict().keys()
    document = json.loads((stored / "policy.json").read_text())
    assert document["policy_class"] == "policy:Ensemble"
    assert document["kwargs"] == {"members": 2, "units": 5}
    assert document["plugin"]["name"] == "mine"
    assert str(folder.parent) not in json.dumps(document)


def test_a_class_is_imported_only_if_the_user_names_its_method(stored, folder, monkeypatch):
    monkeypatch.setattr(source_import, "_locations", {})
    with pytest.raises(InputError, match=r"source of method mine, .* --algo \./mine, or --trust"):
        load_policy(stored)
    with pytest.raises(InputError, match=r"name it: --algo \./mine$"):
        load_policy(stored, trust=True)
    assert load_policy(stored, plugin=str(folder)).members == 2


def test_changed_source_needs_trust(stored, folder):
    (folder / "policy.py").write_text(ENSEMBLE + "\nX = 1\n")
    with pytest.raises(InputError, match=r"has changed since it made the policy .* pass --trust"):
        load_policy(stored, plugin=str(folder))
    assert load_policy(stored, plugin=str(folder), trust=True).units == 5


def test_trusted_source_that_no_longer_fits_is_one_line(stored, folder):
    (folder / "policy.py").write_text(ENSEMBLE.replace("nn.Tanh(), ", ""))
    with pytest.raises(InputError, match="does not describe its weights") as told:
        load_policy(stored, plugin=str(folder), trust=True)
    assert "\n" not in str(told.value)


def test_another_method_does_not_serve(stored, folder, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    (other / "card.yaml").write_text((other / "card.yaml").read_text().replace("mine", "other"))
    with pytest.raises(InputError, match=r"is method other; the policy in .* is of mine"):
        load_policy(stored, plugin=str(other))
    with pytest.raises(InputError, match="is method bc"):
        load_policy(stored, plugin="bc")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy_class": "policy:th"}, "no such class of networks"),
        ({"policy_class": "policy:nn"}, "no such class of networks"),
        ({"policy_class": "os:system"}, "no module 'os' there"),
        ({"policy_class": "policy:Ensemble", "plugin": None}, "not known"),
        ({"policy_class": "Ensemble"}, "not known"),
        ({"plugin": {"name": "mine", "digest": "../x"}}, "digest"),
        ({"kwargs": {"members": 2, "units": 10**9}}, "does not describe its weights"),
        ({"kwargs": {"members": 2, "units": {"$type": "subprocess:Popen"}}}, "no module"),
    ],
)
def test_altered_descriptions_are_refused(stored, change, message):
    file = stored / "policy.json"
    document = json.loads(file.read_text()) | change
    file.write_text(json.dumps({k: v for k, v in document.items() if v is not None}))
    with pytest.raises(InputError, match=message) as told:
        load_policy(stored)
    assert "\n" not in str(told.value)


def test_arguments_of_a_base_class_are_stored_too(variants, tmp_path):
    policy = variants.Narrow(
        VECTOR,
        CHOICE,
        rate,
        net_arch=[4],
        temperature=0.5,
        features_extractor_class=variants.Widening,
        features_extractor_kwargs={"width": 7},
    )
    policy.set_training_mode(False)
    save_policy(policy, tmp_path / "policy")
    again = load_policy(tmp_path / "policy")
    assert again.temperature == 0.5
    assert type(again.features_extractor) is variants.Widening
    np.testing.assert_array_equal(actions_of(again), actions_of(policy))


@pytest.mark.parametrize(
    ("name", "thing", "message"),
    [
        ("Forgetful", 1, r"set `self\.thing = thing` there"),
        ("Plain", object(), r"cannot be stored as JSON \(argument thing of policy:Plain\)"),
        ("Plain", np.zeros(3), "cannot be stored as JSON"),
        ("Growing", 2, r"arguments \['thing'\] and weights .*size mismatch for layer"),
        ("Wordy", 1, "'_extra_state' of its state is not a tensor but a str"),
    ],
)
def test_what_cannot_be_stored_is_refused(variants, name, thing, message):
    with pytest.raises(InputError, match=message) as told:
        check_storable(getattr(variants, name)(VECTOR, CHOICE, thing))
    assert "\n" not in str(told.value)


def test_classes_that_cannot_be_found_again_are_refused(variants):
    with pytest.raises(InputError, match="define it at the top of a module of a plug-in"):
        check_storable(variants.make_class()(VECTOR, CHOICE, 1))
    with pytest.raises(InputError, match="make its class a subclass of"):
        check_storable(variants.Module())


def test_classes_of_two_methods_are_not_stored_together(variants, tmp_path):
    other = classes_of(write_own_policy(tmp_path / "other", VARIANTS + "\nX = 1\n", "other"))
    policy = variants.Narrow(
        VECTOR,
        CHOICE,
        rate,
        features_extractor_class=other.Widening,
        features_extractor_kwargs={"width": 7},
    )
    with pytest.raises(InputError, match="is of method other, and another class is of mine"):
        check_storable(policy)


def test_a_method_of_an_installed_package_stores_its_policy(tmp_path, registered, monkeypatch):
    home = write_own_policy(tmp_path / "site" / "own_package_for_test", ENSEMBLE)
    (home / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "site")
    policy = classes_of_package("own_package_for_test").Ensemble(VECTOR, CHOICE, 2)
    save_policy(policy, tmp_path / "policy")
    document = json.loads((tmp_path / "policy" / "policy.json").read_text())
    assert document["policy_class"] == "policy:Ensemble"
    again = load_policy(tmp_path / "policy", plugin="own_package_for_test")
    assert type(again) is type(policy)


def classes_of_package(name):
    return import_source(find_algorithm(name).origin.digest, "policy", "test")
