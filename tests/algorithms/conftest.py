"""Settings of all tests of algorithms."""

import pytest
import torch as th


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small networks gain nothing from more, and lose much where cores are shared."""
    before = th.get_num_threads()
    th.set_num_threads(1)
    yield
    th.set_num_threads(before)
