"""Sacred's run folders become external runs, in any state."""

import json
import os
from datetime import datetime, timezone

import pytest
from support.sacred_folders import RUN, write_sacred

from imitbench.errors import InputError
from imitbench.store.external_results import MAX_RUNS
from imitbench.store.importers import sacred_runs
from imitbench.store.importers.sacred_runs import import_sacred

NOW = datetime(2025, 1, 1, tzinfo=timezone.utc)


def only_run(folder):
    [run] = import_sacred(folder, now=NOW).runs
    return run


@pytest.fixture(scope="module")
def real(shared_dir):
    folder = shared_dir / "legacy-fixtures" / "sacred"
    return {run.place: run for run in import_sacred(folder, now=None).runs}


def test_all_real_runs_are_imported_with_their_status(real):
    others = {place: run.status for place, run in real.items() if run.status != "completed"}
    assert len(real) == 11
    assert others == {"train_adversarial/3": "interrupted", "train_adversarial/4": "killed"}
    assert "last sign of life 2026-11-21T03:15:28" in real["train_adversarial/4"].reason


def test_real_returns_of_adversarial_methods_are_under_the_true_reward(real):
    run = real["train_adversarial/1"]
    assert (run.algo, run.env, run.seed) == ("gail", "seals/CartPole-v0", 1)
    assert (run.raw_return, run.episodes, run.mean_length) == (34.52, 50, 500.0)  # not 345.45
    assert (run.env_steps, run.wall_s) == (10_000, pytest.approx(28.532667))
    assert (run.expert_return, run.expert_episodes, run.n_demos) == (500.0, 24, 24)
    assert "imitation==1.0.1" in run.provenance["packages"]


def test_real_seeds_of_one_setting_are_not_variants_and_different_methods_are(real):
    settings = {}
    for run in real.values():
        settings.setdefault((run.algo, run.env), set()).add(run.config)
    assert all(len(each) == 1 for each in settings.values())
    assert len(settings) == 5


def test_statistics_of_daggers_mixture_are_not_the_experts(real):
    run = real["train_imitation/2"]
    assert (run.algo, run.raw_return, run.env_steps) == ("dagger", 75.8, 2000)
    assert (run.expert_return, run.n_demos, run.all_demos) == (None, None, None)


def test_a_run_says_where_and_when_but_not_on_which_machine(tmp_path):
    run = only_run(write_sacred(tmp_path / "7"))
    assert (run.place, run.status, run.raw_return, run.return_std) == (".", "completed", 90.0, 2.0)
    assert (run.env_steps, run.wall_s) == (0, 90.5)
    assert run.started_at == "2024-01-01T00:00:00+00:00"
    assert "secret-host" not in run.model_dump_json()


@pytest.mark.parametrize(
    ("record", "status", "told"),
    [
        ({"status": "INTERRUPTED"}, "interrupted", "INTERRUPTED"),
        ({"status": "TIMEOUT"}, "interrupted", "TIMEOUT"),
        ({"status": "RUNNING"}, "killed", "2024-01-01T00:01:00"),
        ({"status": "RUNNING", "heartbeat": None}, "killed", "no sign of life"),
        ({"status": "RUNNING", "heartbeat": "2024-12-31T23:59:30"}, "running", "not finished"),
        ({"status": "QUEUED"}, "failed", "QUEUED"),
        ({"status": None}, "failed", "None"),
        ({"status": "FAILED", "fail_trace": ["Tra", "  x\n", "ValueError: no"]}, "failed", "no"),
        ({"status": "COMPLETED", "result": None}, "unusable", "no finite mean return"),
        ({"status": "COMPLETED", "result": [1]}, "unusable", "no finite mean return"),
    ],
)
def test_incomplete_runs_are_rows_with_a_reason(tmp_path, record, status, told):
    run = only_run(write_sacred(tmp_path / "1", record))
    assert (run.status, run.raw_return) == (status, None)
    assert (run.algo, run.env, run.seed) == ("bc", "Pendulum-v1", 3)
    assert told in run.reason


@pytest.mark.parametrize("command", ["gail", "airl", "train_rl"])
def test_a_return_that_may_be_under_a_learned_reward_is_ignored(tmp_path, command):
    record = {"command": command, "result": {"imit_stats": {"return_mean": 300.0}}}
    run = only_run(write_sacred(tmp_path / "1", record))
    assert (run.status, run.raw_return) == ("unusable", None)
    assert "learnt reward" in run.reason


def test_methods_with_the_true_reward_need_no_monitor(tmp_path):
    run = only_run(write_sacred(tmp_path, {"result": {"imit_stats": {"return_mean": 5}}}))
    assert (run.status, run.raw_return, run.expert_return) == ("completed", 5.0, None)


def test_runs_of_other_scripts_are_read_the_same_way(tmp_path):
    run = {"command": "train_preference_comparisons"}
    write_sacred(tmp_path / "1", run, {"environment": None, "common": {"env_name": "A-v0"}})
    flat = {"command": "train_rl", "result": {"monitor_return_mean": 4.0, "n_traj": 3}}
    write_sacred(tmp_path / "2", flat, {"environment": None, "env_name": "B-v0"})
    found = [(r.algo, r.env, r.status, r.n_demos) for r in import_sacred(tmp_path, now=NOW).runs]
    assert found == [
        ("preference_comparisons", "A-v0", "completed", None),
        ("rl", "B-v0", "completed", None),
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "90", True, None, 10**400])
def test_a_return_that_is_not_finite_is_missing(tmp_path, value):
    folder = write_sacred(tmp_path, {"result": {"imit_stats": {"monitor_return_mean": value}}})
    assert only_run(folder).status == "unusable"


def test_runs_are_in_natural_order_at_any_depth(tmp_path):
    for name in ("10", "2", "deep/er/1"):
        write_sacred(tmp_path / name, config={"seed": len(name)})
    places = [run.place for run in import_sacred(tmp_path, now=NOW).runs]
    assert places == ["2", "10", "deep/er/1"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("run.json", b'{"status": "COMPL', "run.json: is no JSON"),
        ("run.json", b"[1, 2]", "run.json: is no object"),
        ("run.json", b"[" * 100_000, "recursion limit"),
        ("config.json", b"\xff\xfe", "config.json: is no JSON"),
        ("config.json", b"", "config.json: is no JSON"),
        ("config.json", None, "config.json: no such file"),
        ("run.json", None, "run.json: no such file"),
    ],
)
def test_damaged_runs_are_reported_and_the_others_read(tmp_path, name, content, told):
    write_sacred(tmp_path / "1")
    path = write_sacred(tmp_path / "2", config={"seed": 4}) / name
    (path.parent / "cout.txt").write_text("the run's output")
    path.unlink() if content is None else path.write_bytes(content)
    results = import_sacred(tmp_path, now=NOW)
    assert results.counts == {"completed": 1, "unusable": 1}
    assert told in results.runs[1].reason


def test_huge_files_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(sacred_runs, "_MAX_BYTES", 1000)
    path = write_sacred(tmp_path) / "config.json"
    with path.open("ab") as stream:
        stream.truncate(2**34)  # a sparse file, which uses no disk space
    assert "config.json: has more than 1000 bytes" in only_run(tmp_path).reason


def test_links_are_not_followed(tmp_path):
    outside = write_sacred(tmp_path / "outside")
    folder = write_sacred(tmp_path / "in" / "1").parent
    (folder / "linked").symlink_to(outside)
    (folder / "2").mkdir()
    (folder / "2" / "run.json").symlink_to(outside / "run.json")
    (folder / "2" / "config.json").symlink_to(outside / "config.json")
    results = import_sacred(folder, now=NOW)
    assert [(run.place, run.status) for run in results.runs] == [
        ("1", "completed"),
        ("2", "unusable"),
    ]
    assert "symbolic link" in results.runs[1].reason
    assert not any(name.startswith("2/") for name in results.files)


def test_a_pipe_does_not_block_the_import(tmp_path):
    write_sacred(tmp_path)
    (tmp_path / "run.json").unlink()
    os.mkfifo(tmp_path / "run.json")
    assert "no ordinary file" in only_run(tmp_path).reason


def test_a_folder_in_place_of_a_file_is_reported(tmp_path):
    write_sacred(tmp_path)
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").mkdir()
    assert "no ordinary file" in only_run(tmp_path).reason


@pytest.mark.parametrize("env", ["a\nb", "x" * 300, "\x1b[31m", ""])
def test_invalid_names_are_refused(tmp_path, env):
    run = only_run(write_sacred(tmp_path, config={"environment": {"gym_id": env}}))
    assert (run.status, run.env) == ("unusable", None)
    assert run.reason.isprintable()


@pytest.mark.parametrize("env", ["<script>alert(1)</script>", "../../etc/passwd", "a|b$\\x", "雪"])
def test_odd_names_stay_text(tmp_path, env):
    run = only_run(write_sacred(tmp_path, config={"environment": {"gym_id": env}}))
    assert (run.status, run.env) == ("completed", env)


def test_odd_folder_names_are_one_line_and_stay_different(tmp_path):
    for number, name in enumerate(["a\nb", "a\\nb", "a\tb"]):
        write_sacred(tmp_path / name, config={"seed": number})
    places = [run.place for run in import_sacred(tmp_path, now=NOW).runs]
    assert len(places) == 3
    assert all(place.isprintable() for place in places)


def test_copies_count_once(tmp_path):
    write_sacred(tmp_path / "1")
    write_sacred(tmp_path / "backup" / "1")
    results = import_sacred(tmp_path, now=NOW)
    assert results.counts == {"completed": 1, "duplicate": 1}
    assert results.runs[1].reason == "has the same files as 1"


def test_repetitions_and_variants_and_missing_seeds_are_noted(tmp_path):
    write_sacred(tmp_path / "1")
    write_sacred(tmp_path / "2", {"heartbeat": "2024-01-02T00:00:00"})
    write_sacred(tmp_path / "3", config={"bc": {"batch_size": 7}})
    write_sacred(tmp_path / "4", config={"seed": None})
    results = import_sacred(tmp_path, now=NOW)
    assert results.counts == {"completed": 4}
    assert results.runs[3].seed is None
    assert results.notes == [
        "bc on Pendulum-v1: 2 runs with seed 3 and equal settings",
        "bc on Pendulum-v1: 2 different settings, see column config",
        "1 completed runs say no seed",
    ]


def test_types_that_files_name_are_never_created(tmp_path):
    bomb = {"py/reduce": [{"py/function": "os.system"}, {"py/tuple": ["touch pwned"]}]}
    folder = write_sacred(tmp_path, config={"environment": bomb, "seed": bomb, "rl": bomb})
    (folder / "run.json").write_text(json.dumps(RUN | {"command": bomb}))
    assert only_run(folder).status == "unusable"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_runs_is_refused(tmp_path, exists):
    folder = tmp_path / "folder"
    if exists:
        folder.mkdir()
        (folder / "config.json").write_text("{}")  # many tools have files of this name
    with pytest.raises(InputError, match=r"no such folder|no Sacred runs"):
        import_sacred(folder, now=NOW)


def test_too_many_runs_are_refused_before_they_are_read(tmp_path, monkeypatch):
    assert MAX_RUNS >= 10_000
    monkeypatch.setattr(sacred_runs, "MAX_RUNS", 2)
    for name in "abc":
        write_sacred(tmp_path / name)
    with pytest.raises(InputError, match="more than 2 runs"):
        import_sacred(tmp_path, now=NOW)


def test_folders_too_deep_are_noted(tmp_path):
    write_sacred(tmp_path / "1")
    write_sacred(tmp_path.joinpath(*"abcdefghijklmnopqrst"))
    results = import_sacred(tmp_path, now=NOW)
    assert len(results.runs) == 1
    assert "not looked into" in results.notes[0]
