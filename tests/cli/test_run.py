"""`imitbench run` imports its summary during the sweep, and always ends cleanly."""

import importlib
import threading

import pytest

from imitbench.cli.main import app
from imitbench.errors import InputError


def test_bad_input_is_reported_after_background_imports_end(tmp_path, monkeypatch):
    begun, told = threading.Event(), threading.Event()
    load, loaded = importlib.import_module, []

    def load_slowly(name, package=None):
        if name == "imitbench.store.collector":
            begun.set()
            loaded.append(told.wait(0.5))
        return load(name, package)

    monkeypatch.setattr(importlib, "import_module", load_slowly)
    with pytest.raises(InputError, match="999"):
        app(
            ["run", "--algo", "bc", "--n-demos", "999", "--out", str(tmp_path)],
            standalone_mode=False,
        )
    told.set()
    assert begun.is_set()
    assert loaded == [False]  # it was over before
