"""Profiles define what a task requests, and reject values that SLURM would misread."""

from pathlib import Path

import pytest
import submitit

from imitbench.errors import InputError
from imitbench.executors.options import RunOptions
from imitbench.executors.slurm.executor import SlurmExecutor
from imitbench.executors.slurm.profile import Profile, read_profile

PROFILES = sorted((Path(__file__).resolve().parents[3] / "slurm").glob("*.yaml"))


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.name)
def test_profiles_that_ship_are_valid_and_submitit_takes_their_parameters(
    path, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "srun").write_text("#!/bin/sh\n")
    (tmp_path / "srun").chmod(0o755)
    executor = submitit.SlurmExecutor(folder=tmp_path / "logs")
    parameters = read_profile(path).parameters()
    executor.update_parameters(**parameters)
    assert executor.parameters == parameters


def test_every_setting_reaches_the_scheduler():
    profile = Profile(
        partition="gpu", account="lab", qos="high", constraint="a100|h100", time="1-02:30:00",
        cpus=8, mem="1.5T", gpus=2, gpu_type="a100", array_parallelism=7, signal_before_s=60,
        setup=["module load cuda"], environment={"DATA": "/a b"}, extra={"exclusive": True},
    )  # fmt: skip
    assert profile.parameters() == {
        "partition": "gpu",
        "account": "lab",
        "qos": "high",
        "constraint": "a100|h100",
        "time": 26 * 60 + 30,
        "cpus_per_task": 8,
        "mem": "1572864M",
        "array_parallelism": 7,
        "signal_delay_s": 60,
        "setup": ["export DATA='/a b'", "module load cuda"],
        "additional_parameters": {"requeue": True, "gres": "gpu:a100:2", "exclusive": True},
    }


def test_unspecified_settings_are_left_to_the_cluster():
    parameters = Profile().parameters()
    assert not {"partition", "account", "qos", "constraint", "mem", "setup"} & set(parameters)
    assert parameters["additional_parameters"] == {"requeue": True}


@pytest.mark.parametrize(("asked", "threads"), [(None, 4), (1, 1), (8, 8)])
def test_runs_of_a_task_share_its_cores(tmp_path, asked, threads):
    profile = tmp_path / "profile.yaml"
    profile.write_text("cpus: 8\nworkers: 2\n")
    options = RunOptions(executor="slurm", profile=profile, threads=asked)
    assert SlurmExecutor.resolve(options).threads == threads


def test_more_threads_than_a_task_has_cores_are_refused():
    with pytest.raises(InputError, match="--threads 2: tasks have 1 cores; set cpus"):
        SlurmExecutor.resolve(RunOptions(executor="slurm", threads=2))


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("90", 90),
        ("90:30", 91),
        ("4:00:00", 240),
        ("0:00:10", 1),
        ("2-0", 2880),
        ("1-12:30", 2190),
        ("1-12:30:01", 2191),
    ],
)
def test_times_are_read_as_slurm_reads_them(text, minutes):
    assert Profile(time=text).minutes == minutes


@pytest.mark.parametrize(
    ("container", "gpus", "command"),
    [
        (None, 0, "'/my venv/python'"),
        ({"image": "a b.sif"}, 0, "apptainer exec 'a b.sif' python3"),
        (
            {"image": "x.sif", "runtime": "singularity", "options": ["--bind /data"]},
            1,
            "singularity exec --nv --bind /data x.sif python3",
        ),
        ({"image": "x.sqsh", "runtime": "pyxis", "python": "/opt/python"}, 1, "/opt/python"),
    ],
)
def test_the_interpreter_is_the_containers(container, gpus, command):
    profile = Profile.model_validate({"container": container, "gpus": gpus})
    assert profile.python("/my venv/python") == command
    srun = profile.parameters().get("srun_args")
    assert srun == (["--container-image=x.sqsh"] if command == "/opt/python" else None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("partitions: gpu", "partitions: unknown key; did you mean 'partition'"),
        ("time: 4:00:00", "in quotes"),  # YAML 1.1 reads 14,400 in the base of sixty
        ("time: soon", "such as '4:00:00'"),
        ("time: '0'", "such as '4:00:00'"),
        ("mem: 16", "such as 800M, 16G or 1.5T"),
        ("mem: 16GB", "such as 800M, 16G or 1.5T"),
        ("cpus: 0", "greater than or equal to 1"),
        ("gpus: one", "gpus"),
        ("partition: a b", "partition"),
        ('setup: ["true\\nrm -rf /"]', "setup.0"),
        ("environment: {1A: x}", "environment"),
        ("extra: {Mail: x}", "extra"),
        ('extra: {comment: "a\\nrm -rf /"}', "extra.comment"),
        ("container: {image: x, runtime: docker}", "apptainer"),
    ],
)
def test_a_mistake_is_reported_with_its_location(tmp_path, text, told):
    path = tmp_path / "profile.yaml"
    path.write_text(f"# first line\n{text}\n")
    with pytest.raises(InputError) as refused:
        read_profile(path)
    message = str(refused.value)
    assert message.startswith(f"{path}:2: ")
    assert told in message
    assert "\n" not in message
