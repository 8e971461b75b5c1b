"""Synthetic run directories, written by the same code as real ones."""

from functools import partial

import pytest
from support.synthetic_runs import write_failed, write_finished


@pytest.fixture
def finished(tmp_path):
    return partial(write_finished, tmp_path)


@pytest.fixture
def failed(tmp_path):
    return partial(write_failed, tmp_path)
