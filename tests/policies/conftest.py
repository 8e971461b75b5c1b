"""Settings of all tests of policies, and what they share."""

import pytest
import torch as th
from support.drift import CHOICE, drift_venv


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small networks gain nothing from more, and lose much where cores are shared."""
    before = th.get_num_threads()
    th.set_num_threads(1)
    yield
    th.set_num_threads(before)


@pytest.fixture
def torque_venv():
    return drift_venv()


@pytest.fixture
def choice_venv():
    return drift_venv(CHOICE)
