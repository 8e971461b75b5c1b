"""Each planted fault stands in today's code, and its tests exist."""

from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FAULTS = yaml.safe_load((HERE / "faults.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["id"])
def test_a_fault_stands_in_the_present_code(fault):
    text = (ROOT / fault["file"]).read_text(encoding="utf-8")
    assert text.count(fault["old"]) == 1
    assert fault["new"] != fault["old"]
    for test in fault["tests"]:
        assert (ROOT / test.partition("::")[0]).exists(), test
