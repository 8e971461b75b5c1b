"""Registries: by value, or found when asked for."""

import sys

import numpy as np
import pytest

from imitbench.policies.base import RandomPolicy
from imitbench.util import registry
from imitbench.util.util import make_vec_env


@pytest.fixture
def names():
    return registry.Registry()


def test_values_are_found_by_name(names):
    names.register("one", value=1)
    names.register("sqrt", indirect="math:sqrt")
    assert list(names.keys()) == ["sqrt", "one"]
    assert names.get("one") == 1
    assert names.get("sqrt")(4) == 2


def test_a_module_is_imported_only_when_asked_for(names, tmp_path, monkeypatch):
    (tmp_path / "lazily_registered.py").write_text("thing = 5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    names.register("x", indirect="lazily_registered:thing")
    assert "lazily_registered" not in sys.modules
    assert names.get("x") == 5


def test_names_are_registered_once(names):
    names.register("x", value=1)
    with pytest.raises(KeyError, match="already"):
        names.register("x", indirect="math:sqrt")


def test_mistakes_are_told(names):
    names.register("alpha", value=1)
    with pytest.raises(KeyError, match="did you mean 'alpha'"):
        names.get("alhpa")
    with pytest.raises(ValueError, match="exactly one"):
        names.register("y")
    with pytest.raises(ValueError, match="exactly one"):
        names.register("y", value=1, indirect="math:sqrt")
    with pytest.raises(ValueError, match="module:attribute"):
        registry.load_attr("math.sqrt")


def test_factories_become_loaders():
    venv = make_vec_env("Pendulum-v1", rng=np.random.default_rng(0), n_envs=1)
    by_space = registry.build_loader_fn_require_space(RandomPolicy)
    assert by_space(venv).action_space == venv.action_space
    by_env = registry.build_loader_fn_require_env(lambda env, a, b: (env.num_envs, a, b), a=2)
    assert by_env(venv, b=3) == (1, 2, 3)
    venv.close()
