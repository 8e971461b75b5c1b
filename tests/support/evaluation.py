"""Evaluations of a few episodes, where their number is not the point."""

import contextlib
import functools

import pytest

from imitbench.bench import spec
from imitbench.records.runs import Protocol


@contextlib.contextmanager
def short_evaluation():
    """Plans that are made in this process ask for 4 episodes instead of 50."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spec, "Protocol", functools.partial(Protocol, episodes=4, environments=4))
        yield
