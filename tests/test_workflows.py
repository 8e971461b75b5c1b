"""The workflows of `.github/` call targets that the Makefile has, with few rights."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.stem)
def workflow(request):
    return yaml.safe_load(request.param.read_text(encoding="utf-8"))


def steps_of(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_the_jobs_of_continuous_integration():
    [ci] = [yaml.safe_load(path.read_text()) for path in WORKFLOWS if path.stem == "ci"]
    assert set(ci["jobs"]) == {"tests", "lint", "docs", "wheel"}


def test_each_target_that_is_called_exists(workflow):
    called = {
        target
        for step in steps_of(workflow)
        for target in re.findall(r"\bmake ([\w-]+)", step.get("run", ""))
    }
    assert called
    assert called <= TARGETS


def test_a_workflow_may_only_read(workflow):
    assert workflow["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in workflow["jobs"].values())


def test_actions_are_those_of_github_at_a_major_version(workflow):
    used = {step["uses"] for step in steps_of(workflow) if "uses" in step}
    assert used
    assert {action for action in used if not re.fullmatch(r"actions/[\w-]+@v\d+", action)} == set()


def test_the_versions_of_python_are_supported(workflow):
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [oldest] = re.findall(r'^requires-python = ">=3\.(\d+)"$', project, re.MULTILINE)
    for job in workflow["jobs"].values():
        for version in job.get("strategy", {}).get("matrix", {}).get("python", []):
            major, minor = version.split(".")
            assert (major, int(minor) >= int(oldest)) == ("3", True)
