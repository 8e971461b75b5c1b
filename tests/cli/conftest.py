"""The real command in a real process."""

import pytest
from support.command import call_imitbench, refusal


@pytest.fixture
def imitbench(tmp_path):
    """Runs `imitbench ARGUMENTS…` in an empty folder."""

    def call(*arguments, cwd=tmp_path, env=None):
        return call_imitbench(*arguments, cwd=cwd, env=env)

    return call


@pytest.fixture
def refused(imitbench):
    """Runs a command that must be refused with one line and exit code 2; returns the line."""

    def call(*arguments, **options):
        return refusal(imitbench(*arguments, **options))

    return call
