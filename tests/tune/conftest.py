"""Requests of small tunings, and tunings in this process."""

from pathlib import Path

import pytest
from support.tuning import small_plan

from imitbench.executors.inline import InlineExecutor
from imitbench.tune.request import TuneRequest
from imitbench.tune.runner import check_request, tune
from imitbench.tune.trial_job import TRIAL_WORKER


@pytest.fixture
def make_request():
    """A request with two trials and a held-out comparison of one of them on two seeds."""

    def make(*names, plan=None, **changes):
        usual = {
            "trials": 2,
            "search_seeds": (100,),
            "held_out_seeds": (200, 201),
            "best": 1,
            "points": 2,
            "episodes": 2,
        }
        return TuneRequest(plan=plan or small_plan(*names), **{**usual, **changes})

    return make


class Notes:
    """An observer that records its calls."""

    def __init__(self):
        self.told = []

    def __getattr__(self, name):
        return lambda *arguments: self.told.append((name, *arguments))

    def of(self, name):
        return [rest for kind, *rest in self.told if kind == name]


@pytest.fixture
def run_tuning(tmp_path):
    """Tunes in this process; returns the outcome and the observer's records."""

    def run(request, root=None, executor=None):
        notes, root = Notes(), Path(root or tmp_path / "tuning")
        check_request(request, root)
        pool = executor or InlineExecutor(TRIAL_WORKER)
        return tune(request, pool, root, notes, at_once=1), notes

    return run
