"""Run directories: consistent, claimed by one process, and read back as written."""

import subprocess
import sys

import pytest
from support.plans import make_plan

from imitbench.errors import InputError
from imitbench.store.lease import LeaseLostError
from imitbench.store.run_dir import RunDirectory, RunStatus


@pytest.fixture
def spec():
    return next(
        iter(
            make_plan(
                algorithms=["random"],
                suite="classic",
                environment="Pendulum-v1",
                seeds=[0],
            )
        )
    )


def test_the_path_names_suite_algorithm_environment_and_run(tmp_path, spec):
    directory = RunDirectory.of(tmp_path, spec)
    assert directory.path == tmp_path / "classic" / "random" / "Pendulum-v1" / spec.run_id


def test_beginning_clears_leftovers_and_writes_the_specification(tmp_path, spec):
    directory = RunDirectory.of(tmp_path, spec)
    (directory.path / "policy").mkdir(parents=True)
    (directory.path / "policy" / "half").touch()
    (directory.path / "error.json").touch()
    directory.begin(spec)
    assert {path.name for path in directory.path.iterdir()} == {"spec.json"}
    assert directory.read_spec() == spec


def test_a_claim_excludes_others_and_ends_with_its_process(tmp_path, spec):
    directory = RunDirectory.of(tmp_path, spec)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from pathlib import Path\n"
            "from imitbench.store.run_dir import RunDirectory\n"
            "with RunDirectory(Path(sys.argv[1])).claim(wait=False) as got:\n"
            "    print(got, flush=True); time.sleep(60)",
            str(directory.path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "True\n"
    with directory.claim(wait=False) as claimed:
        assert not claimed
    assert directory.is_claimed()
    holder.kill()
    holder.wait()
    with directory.claim(wait=True) as claimed:
        assert claimed
    assert not directory.is_claimed()


def test_a_process_that_lost_its_claim_writes_nothing(tmp_path, spec):
    directory, successor = RunDirectory.of(tmp_path, spec), RunDirectory.of(tmp_path, spec)
    status = RunStatus(state="done", phase="save", pid=1, host="a", updated_at="2026")
    with directory.claim(wait=False):
        directory.begin(spec)
        directory.write_status(status)
        (directory.path / ".lease").unlink()
        with successor.claim(wait=False) as claimed:
            assert claimed
            for write in (lambda: directory.begin(spec), lambda: directory.write_status(status)):
                with pytest.raises(LeaseLostError):
                    write()
            with pytest.raises(LeaseLostError):
                directory.check_claim()
            successor.begin(spec, rebuild=True)
            assert not (directory.path / "status.json").exists()


def test_beginning_removes_lease_files_of_crashed_processes_but_not_its_own(tmp_path, spec):
    directory = RunDirectory.of(tmp_path, spec)
    with directory.claim(wait=False):
        litter = directory.path / f".lease.{'0' * 32}.tmp"
        litter.touch()
        directory.begin(spec)
        assert not litter.exists()
        assert directory.is_claimed()


def test_checkpoints_are_removed_once_they_are_not_needed(tmp_path, finished, spec):
    directory = finished(spec)
    checkpoint = directory.checkpoints / "000001.state"
    checkpoint.parent.mkdir()
    checkpoint.touch()
    with directory.claim(wait=False):
        RunDirectory(directory.path).remove_leftover_checkpoints()  # another process works on it
    assert checkpoint.exists()
    directory.remove_leftover_checkpoints()
    assert not directory.checkpoints.exists()
    assert not directory.is_claimed()
    directory.begin(spec)
    checkpoint.parent.mkdir()
    checkpoint.touch()
    directory.remove_leftover_checkpoints()  # the run will resume from there
    assert checkpoint.exists()


def test_a_damaged_specification_is_reported(tmp_path, spec):
    directory = RunDirectory.of(tmp_path, spec)
    directory.begin(spec)
    path = directory.path / "spec.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": "zero"'))
    with pytest.raises(InputError, match="seed"):
        directory.read_spec()


def test_links_in_a_run_directory_are_removed_and_not_followed(tmp_path, spec):
    directory = RunDirectory.of(tmp_path / "runs", spec)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "policy.json").write_text("mine")
    directory.begin(spec)
    directory.policy.symlink_to(elsewhere)
    (directory.path / "video.mp4").symlink_to(elsewhere / "policy.json")
    directory.begin(spec)
    assert [path.name for path in directory.path.iterdir()] == ["spec.json"]
    assert (elsewhere / "policy.json").read_text() == "mine"
