"""A library that makes the disk of a process fail."""

import pytest
from support.failing_disk import build_library


@pytest.fixture(scope="session")
def failing_disk(tmp_path_factory):
    return build_library(tmp_path_factory.mktemp("library"))
