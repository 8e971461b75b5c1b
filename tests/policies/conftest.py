"""Settings of all tests of policies, and what they share."""

import pytest
from support.drift import CHOICE, drift_venv


@pytest.fixture
def torque_venv():
    return drift_venv()


@pytest.fixture
def choice_venv():
    return drift_venv(CHOICE)
