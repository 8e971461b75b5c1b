"""`imitbench doctor` says of each suite what of it is here."""

import pytest

from imitbench.bench import installation
from imitbench.bench.installation import check_installation


@pytest.fixture
def found(tmp_path, monkeypatch):
    """Returns what is found of a suite."""

    def ask(suite):
        monkeypatch.setattr(installation, "suite_names", lambda: [suite])
        [check] = [each for each in check_installation(tmp_path) if each.what == f"suite {suite}"]
        assert check.ok
        return check.detail

    return ask


def test_bundled_files_are_present(found):
    assert found("classic") == "3 environments, bundled experts and demonstrations present"


def test_sets_of_minari_are_not_said_to_be_here(found):
    pytest.importorskip("gymnasium_robotics")
    command = "imitbench prefetch --suite adroit --source minari"
    assert (
        found("adroit") == f"4 environments; nothing is bundled: `{command}` fetches sets of Minari"
    )
