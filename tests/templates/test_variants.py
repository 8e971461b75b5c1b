"""Variants of bundled methods that `init-algo` writes: short, and with the card of their method."""

import ast

import numpy as np
import pytest
import torch as th
from support.command import call_imitbench

from imitbench import load_reward
from imitbench.bench.training import _check_storable
from imitbench.cards.catalog import load_algorithm
from imitbench.cards.plugins import find_algorithm
from imitbench.conformance.test_bed import MethodTester
from imitbench.errors import InputError
from imitbench.rewards.storage import DESCRIPTION_FILE, load_reward_net, save_reward
from imitbench.templates.writing import write_template
from imitbench.util import source_import

SMALL = {"n_envs": "2", "n_steps": "50", "batch_size": "50"}


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    """Keeps what a test names from other tests."""
    monkeypatch.setattr(source_import, "_locations", {})


@pytest.mark.parametrize("method", ["gail", "dac", "bc"])
def test_a_variant_is_a_dozen_statements_with_the_card_of_its_method(method, tmp_path):
    folder = write_template(method, "mine", tmp_path)
    tree = ast.parse((folder / "learner.py").read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    code = [node for node in found if not isinstance(node, ast.Expr)]  # without docstrings
    assert len(code) <= 12
    card, base = find_algorithm(str(folder)), load_algorithm(method)
    for key in ("needs", "budget_unit", "packs", "hyperparameters"):
        assert getattr(card, key) == getattr(base, key)
    assert (card.name, card.paper, card.earlier_defaults) == ("mine", None, [])


def test_a_variant_changes_and_adds_hyper_parameters(tmp_path):
    folder = write_template("gail", "mine", tmp_path)
    path = folder / "card.yaml"
    own = "{gamma: {default: 0.95}, limit: {type: float, default: 2.0, help: Bound.}}"
    path.write_text(path.read_text().replace("hyperparameters: {}", f"hyperparameters: {own}"))
    values = find_algorithm(str(folder)).resolve({})
    assert values == load_algorithm("gail").resolve({}) | {"gamma": 0.95, "limit": 2.0}


def test_a_variant_of_nothing_is_refused(tmp_path):
    path = write_template("gail", "mine", tmp_path) / "card.yaml"
    path.write_text(path.read_text().replace("variant_of: gail", "variant_of: gial"))
    with pytest.raises(InputError, match=r"card.yaml: variant_of: must be .* did you mean 'gail'"):
        find_algorithm(str(path.parent))


def test_a_reward_class_is_stored_as_data_and_imported_only_if_its_method_is_named(
    tmp_path, monkeypatch
):
    folder = write_template("gail", "mine", tmp_path)
    net = MethodTester(folder, amount=200, **SMALL).trained("box").reward()
    save_reward(net, tmp_path / "reward")
    batch = [
        np.stack([space.sample() for _ in range(5)])
        for space in (net.observation_space, net.action_space, net.observation_space)
    ]
    due = net.predict(*batch, np.zeros(5, bool))
    np.testing.assert_allclose(
        load_reward_net(tmp_path / "reward").predict(*batch, np.zeros(5, bool)), due
    )
    monkeypatch.setattr(source_import, "_locations", {})  # as in another process
    with pytest.raises(InputError, match=r"only if you name it: plugin='./mine' of imitbench"):
        load_reward_net(tmp_path / "reward")
    again = load_reward_net(tmp_path / "reward", plugin=str(folder))
    np.testing.assert_allclose(again.predict(*batch, np.zeros(5, bool)), due)
    (folder / "learner.py").write_text((folder / "learner.py").read_text() + "\n# changed\n")
    with pytest.raises(InputError, match="source has changed since it made the reward network"):
        load_reward_net(tmp_path / "reward", plugin=str(folder))
    trusted = load_reward_net(tmp_path / "reward", plugin=str(folder), trust=True)
    np.testing.assert_allclose(trusted.predict(*batch, np.zeros(5, bool)), due)


@pytest.mark.parametrize("name", ["learner:absent", "os:system", "learner:MyMethod", "..os:x", 3])
def test_a_file_cannot_name_what_is_no_network(name, tmp_path):
    folder = write_template("gail", "mine", tmp_path)
    save_reward(MethodTester(folder, amount=100, **SMALL).trained("box").reward(), tmp_path / "r")
    path = tmp_path / "r" / DESCRIPTION_FILE
    text = path.read_text()
    assert text.count('"learner:MineReward"') == 1
    path.write_text(text.replace('"learner:MineReward"', repr(name).replace("'", '"')))
    with pytest.raises(InputError):
        load_reward_net(tmp_path / "r", plugin=str(folder))


UNSTORABLE = {
    "return MineReward(super().make_reward_net(task))": (
        "cannot be stored without pickle; define it at the top",
        "return type('Local', (MineReward,), {})(super().make_reward_net(task))",
    ),
    "    def forward(": (
        "takes 'width', which the reward network does not keep",
        "    def __init__(self, base, width=1):\n        super().__init__(base)\n\n"
        "    def forward(",
    ),
}


@pytest.mark.parametrize("old", UNSTORABLE)
def test_a_reward_that_cannot_be_stored_is_refused_before_training(old, tmp_path):
    folder = write_template("gail", "mine", tmp_path)
    said, new = UNSTORABLE[old]
    path = folder / "learner.py"
    path.write_text(path.read_text().replace(old, new))
    learner = MethodTester(folder, amount=100, **SMALL).trained("box")
    th.manual_seed(3)
    before = th.get_rng_state()
    with pytest.raises(InputError, match=said):
        _check_storable(learner)
    assert th.equal(th.get_rng_state(), before)


def test_an_own_loss_of_behavioral_cloning_is_what_is_minimized(tmp_path):
    folder = write_template("bc", "mine", tmp_path)
    path = folder / "learner.py"
    text = path.read_text()
    old = "return th.nn.functional.softplus(-log_prob).log1p().mean()"
    assert text.count(old) == 1
    path.write_text(text.replace(old, "return 0.0 * log_prob.mean()"))
    tester = MethodTester(folder, amount=20)
    first, second = (tester.trained("box").policy() for _ in range(2))
    untrained = MethodTester(folder, amount=1).trained("box").policy()
    for one, other, start in zip(
        first.parameters(), second.parameters(), untrained.parameters(), strict=True
    ):
        assert th.equal(one, other)
        assert th.equal(one, start)  # a loss without slope changes nothing


def test_a_variant_runs_and_its_reward_is_loaded(tmp_path):
    write_template("gail", "mine", tmp_path)
    words = "run --algo ./mine --env Pendulum-v1 --seeds 1 --budget quick --executor inline --quiet"
    done = call_imitbench(*words.split(), "--set", "n_epochs=1", cwd=tmp_path)
    assert done.code == 0, done.err
    [result] = (tmp_path / "runs").rglob("result.json")
    with pytest.raises(InputError, match="only if you name it"):
        load_reward(result.parent)
    net = load_reward(result.parent, plugin=str(tmp_path / "mine"))
    assert type(net.base).__name__ == "MineReward"
