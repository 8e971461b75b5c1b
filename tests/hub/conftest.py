"""Hubs on the loopback interface, with the repositories that the suite `classic` names."""

import pytest
from support.command import call_imitbench, refusal
from support.hub import serve_hub
from typer.testing import CliRunner

from imitbench.cards.catalog import load_suite, suite_directory
from imitbench.cli.main import app
from imitbench.errors import InputError


@pytest.fixture
def hub():
    """A running hub without repositories."""
    with serve_hub() as hub:
        yield hub


@pytest.fixture
def client(hub, tmp_path, monkeypatch):
    """Makes this process's client use the hub, with an empty cache; pauses take no time."""
    pauses = []
    monkeypatch.setattr("time.sleep", pauses.append)
    hub.point_client_here(monkeypatch, tmp_path / "cache")
    return pauses


@pytest.fixture
def classic(hub):
    """The hub with our own experts and demonstrations under the names on the card."""
    fill(hub)
    return hub


def fill(hub):
    root = suite_directory("classic")
    for card in load_suite("classic").environments.values():
        if card.expert.hub is not None:
            hub.add_folder("model", card.expert.hub.repo, root / "experts" / card.expert.repo)
            hub.add_folder("dataset", card.demos.hub.repo, root / "demos" / card.demos.repo)


@pytest.fixture
def imitbench(hub, tmp_path):
    """Runs `imitbench ARGUMENTS…` in an empty folder, with the hub and an empty cache."""

    def call(*arguments, **variables):
        env = {**hub.environment(tmp_path / "home"), **variables}
        return call_imitbench(*arguments, cwd=tmp_path, env=env)

    return call


@pytest.fixture
def told(client, tmp_path, monkeypatch):
    """Calls a command that must be refused, in this process; returns the line it would print."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(InputError) as caught:
            CliRunner().invoke(app, arguments, catch_exceptions=False)
        [line] = str(caught.value).splitlines()
        return line

    return call


@pytest.fixture
def refused(imitbench):
    """Runs a command that must be refused with one line and exit code 2; returns the line."""

    def call(*arguments, **variables):
        return refusal(imitbench(*arguments, **variables))

    return call
