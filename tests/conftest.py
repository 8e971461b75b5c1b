"""Fixtures that any test may ask for."""

import os
import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_litter(tmp_path_factory):
    """Temporary folders of the library, its workers' too, go where pytest clears up."""
    folder = str(tmp_path_factory.mktemp("t"))
    patch = pytest.MonkeyPatch()
    patch.setenv("TMPDIR", folder)
    patch.setattr(tempfile, "tempdir", folder)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def shared_dir():
    """Folder of real files that other tools wrote; too large for the repository."""
    default = Path(__file__).resolve().parents[1].parent / "shared"
    folder = Path(os.environ.get("IMITBENCH_SHARED", default))
    if not folder.is_dir():
        pytest.skip(f"no fixtures at {folder}: set IMITBENCH_SHARED to their folder")
    return folder
