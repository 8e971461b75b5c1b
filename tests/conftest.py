"""Fixtures that any test may ask for."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_dir():
    """Folder of real files that other tools wrote; too large for the repository."""
    default = Path(__file__).resolve().parents[1].parent / "shared"
    folder = Path(os.environ.get("IMITBENCH_SHARED", default))
    if not folder.is_dir():
        pytest.skip(f"no fixtures at {folder}: set IMITBENCH_SHARED to their folder")
    return folder
