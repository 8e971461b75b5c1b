"""GPUs are used when requested, and problems of torch with them are reported in one line."""

import os

import pytest

from imitbench.errors import InputError
from imitbench.executors import devices
from imitbench.executors.devices import (
    Choice,
    CudaFacts,
    ask_driver,
    check_cuda,
    choose_device,
    count_threads,
    explain_cuda,
    parse_gpus,
    visible_gpus,
)


@pytest.mark.parametrize(
    ("device", "gpus", "choice"),
    [
        ("auto", (), Choice("cpu")),
        ("cpu", (), Choice("cpu")),
        ("auto", ("1", "3"), Choice("auto", ("1", "3"))),
        ("hybrid", ("1", "3"), Choice("hybrid", ("1", "3"))),
        ("hybrid:1", (), Choice("hybrid", ("1",))),
        ("cuda", ("1", "3"), Choice("cuda", ("1", "3"))),
        ("cuda", (), Choice("cuda", ("0",))),
        ("cuda:2", (), Choice("cuda", ("2",))),
        ("cuda:2", ("2",), Choice("cuda", ("2",))),
    ],
)
def test_gpus_are_used_when_they_are_requested(device, gpus, choice):
    assert choose_device(device, gpus) == choice


@pytest.mark.parametrize(
    ("device", "gpus"),
    [
        ("gpu", ()),
        ("cuda:", ()),
        ("cuda:x", ()),
        ("cuda:²", ()),
        ("cpu:0", ()),
        ("auto:1", ()),
        ("mps", ()),
    ],
)
def test_other_devices_are_refused(device, gpus):
    with pytest.raises(InputError, match="must be auto, cpu, cuda, hybrid, or cuda:N"):
        choose_device(device, gpus)


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_contradictions_are_refused(device):
    with pytest.raises(InputError, match="GPUs were requested"):
        choose_device(device, ("0",))


def test_gpus_are_named_by_number_or_uuid():
    assert parse_gpus("0, 1") == ("0", "1")
    assert parse_gpus("GPU-0a1b-2c,MIG-9f") == ("GPU-0a1b-2c", "MIG-9f")


@pytest.mark.parametrize("text", ["", "0,", "a", "-1", "0;1", "0,0"])
def test_invalid_gpu_names_are_refused(text):
    with pytest.raises(InputError, match="--gpus"):
        parse_gpus(text)


def test_gpu_numbers_count_visible_gpus():
    assert visible_gpus(("0", "1"), None) == ("0", "1")
    assert visible_gpus(("1", "0"), "4,GPU-7") == ("GPU-7", "4")
    with pytest.raises(InputError, match="leaves 2 to choose from"):
        visible_gpus(("2",), "4,7")


def facts(**changes):
    usual = {"torch": "2.9.0", "built_for": "13.0", "usable": (), "seen": 1, "supports": "13.0"}
    return CudaFacts(**usual | changes)


@pytest.mark.parametrize(
    ("found", "ok", "line"),
    [
        (
            facts(supports="12.4", why="The NVIDIA driver on your system is too old"),
            False,
            "torch 2.9.0 built for CUDA 13.0, the driver supports up to 12.4: "
            "install a build for cu124",
        ),
        (facts(why="hidden"), False, "cannot use the GPU that nvidia-smi sees (hidden)"),
        (facts(supports=None), False, "CUDA_VISIBLE_DEVICES"),
        (facts(built_for=None), True, "CPU build of torch (2.9.0), while nvidia-smi sees a GPU"),
        (facts(seen=0, supports=None), True, "no GPU: runs use the CPU"),
        (facts(seen=0, supports=None, built_for=None), True, "no GPU: runs use the CPU"),
        (facts(usable=("NVIDIA H100",)), True, "NVIDIA H100: torch 2.9.0 built for CUDA 13.0"),
        # A driver runs builds for later minor versions, too: what counts is that it works.
        (facts(usable=("A", "A"), supports="12.4", built_for="12.8"), True, "A and 1 more"),
    ],
)
def test_one_line_says_what_runs_can_use(found, ok, line):
    verdict, text = explain_cuda(found)
    assert (verdict, line in text, "\n" in text) == (ok, True, False)
    if not found.usable:
        with pytest.raises(InputError, match=r"--device cuda: .*use --device cpu"):
            check_cuda(("0",), found)


def test_a_missing_gpu_is_reported():
    check_cuda(("1", "GPU-ab"), facts(usable=("A", "A")))
    with pytest.raises(InputError, match="no GPU 2 here; there are 2: 0 to 1"):
        check_cuda(("0", "2"), facts(usable=("A", "A")))


SMI = """#!/bin/sh
if [ "$1" = -L ]; then
    echo "GPU 0: NVIDIA H100 (UUID: GPU-0)"
    echo "  MIG 1g.10gb Device 0: (UUID: MIG-0)"
    echo "GPU 1: NVIDIA H100 (UUID: GPU-1)"
else
    echo "| NVIDIA-SMI 550.54.15     Driver Version: 550.54.15     CUDA Version: 12.4     |"
fi
"""


@pytest.mark.parametrize(
    ("script", "answer"), [(SMI, (2, "12.4")), ("#!/bin/sh\nexit 9\n", (0, None))]
)
def test_the_driver_is_queried(tmp_path, monkeypatch, script, answer):
    command = tmp_path / "nvidia-smi"
    command.write_text(script)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert ask_driver() == answer


def test_a_missing_driver_is_handled(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask_driver() == (0, None)


@pytest.mark.parametrize(
    ("load", "jobs", "threads"),
    [
        (0.0, 1, 16),
        (0.0, 3, 5),
        (3.6, 1, 12),
        (3.6, 4, 3),
        (15.9, 1, 1),
        (40.0, 2, 1),
        (0.0, 32, 1),
    ],
)
def test_runs_share_the_idle_cores(monkeypatch, load, jobs, threads):
    monkeypatch.setattr(devices, "usable_cores", lambda: 16)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert count_threads(None, jobs) == threads
    assert count_threads(7, jobs) == 7  # a request is a request


def test_more_threads_than_cores_are_refused(monkeypatch):
    monkeypatch.setattr(devices, "usable_cores", lambda: 16)
    with pytest.raises(InputError, match="--threads 17: this process may use 16 cores"):
        count_threads(17, 1)
