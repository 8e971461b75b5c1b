"""Similar failures are reported once."""

import pytest
from support.runs import make_spec

from imitbench.errors import InputError
from imitbench.store.failure_groups import normalized, read_failure_groups


@pytest.mark.parametrize(
    ("message", "pattern"),
    [
        ("worker was killed by SIGKILL", "worker was killed by SIGKILL"),
        ("shape (3, 64) does not fit (5, 64)", "shape (N, …) does not fit (N, …)"),
        ("shape (3, 64, 2) does not fit (1, 2)", "shape (N, …) does not fit (N, …)"),
        ("loss is -1.5e-3 after 30 s", "loss is N after N s"),
        ("/tmp/a b/x.json: no", "PATH b/x.json: no"),
        ("/home/me/runs/1/spec.json: cannot be read", "PATH: cannot be read"),
        ("runs/classic/bc/Pendulum-v1/ab12: broken", "PATH: broken"),
        ("run 0a1b2c3d4e5f: gone", "run ID: gone"),
        ("<Object at 0x7f00aa>", "<Object at ADDRESS>"),
        ("out of memory: 512MiB of 2GiB", "out of memory: NMiB of NGiB"),
        ("seals/CartPole-v0 and/or Pendulum-v1", "seals/CartPole-v0 and/or Pendulum-v1"),
        ("float32 and tanh2", "float32 and tanh2"),
        ("deadbeef defaced", "deadbeef defaced"),
    ],
)
def test_details_of_single_runs_are_removed_from_messages(message, pattern):
    assert normalized(message) == pattern


def test_groups_are_sorted_by_size_and_know_their_cells(tmp_path, finished, failed):
    for seed in range(3):
        failed(make_spec(seed=seed), f"loss is nan at step {seed}")
    failed(make_spec(seed=9, algo="gail", env="seals/CartPole-v0"), "loss is nan at step 9")
    failed(make_spec(seed=3), "no space left")
    finished(make_spec(seed=4))
    found = read_failure_groups(tmp_path)
    assert [(len(g.runs), g.error_type, g.message, g.phase) for g in found.groups] == [
        (4, "RuntimeError", "loss is nan at step N", "train"),
        (1, "RuntimeError", "no space left", "train"),
    ]
    first = found.groups[0]
    assert first.cells.most_common() == [
        (("bc", "Pendulum-v1"), 3),
        (("gail", "seals/CartPole-v0"), 1),
    ]
    assert first.example.startswith("loss is nan at step ")
    assert first.last_lines == ["Traceback"]


def test_runs_can_be_chosen(tmp_path, failed):
    failed(make_spec(seed=0))
    failed(make_spec(seed=0, algo="gail"))
    [group] = read_failure_groups(tmp_path, lambda spec: spec.algo == "gail").groups
    assert [spec.algo for spec, _ in group.runs] == ["gail"]


def test_a_run_that_succeeds_later_is_not_a_failure(tmp_path, finished, failed):
    failed(make_spec())
    finished(make_spec())
    assert read_failure_groups(tmp_path).groups == []


def test_unreadable_failures_are_named(tmp_path, failed):
    (failed(make_spec()).path / "error.json").write_text("{")
    found = read_failure_groups(tmp_path)
    assert found.groups == []
    assert "error.json" in found.unreadable[0]


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(InputError, match="imitbench run"):
        read_failure_groups(tmp_path / "absent")
