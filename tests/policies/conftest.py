"""Fixtures shared by the tests of policies."""

import pytest
from support.drift import CHOICE, drift_venv


@pytest.fixture
def torque_venv():
    return drift_venv()


@pytest.fixture
def choice_venv():
    return drift_venv(CHOICE)
