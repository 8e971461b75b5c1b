"""Commands that monitor a sweep: logs, resume, status, verify-resume."""

import json
import shutil
import signal
import time

import pytest
from support.command import Started, call_imitbench
from support.runs import make_spec
from support.synthetic_runs import write_failed, write_finished

from imitbench.store.sweep_file import active_sweep

HERE = ("--executor", "inline")
RANDOM = (
    "run", "--algo", "random", "--suite", "diagnostics", "--env", "seals/EarlyTermPos-v0",
    "--budget", "quick", "--seeds", 3, *HERE,
)  # fmt: skip


@pytest.fixture
def failures(tmp_path):
    """Three failures of two kinds, and a run that completed."""
    out = tmp_path / "runs"
    for seed in range(2):
        write_failed(out, make_spec(seed=seed), f"loss is nan at step {seed}")
    write_failed(out, make_spec(seed=0, algo="gail", env="seals/CartPole-v0"), "no\x1b[2J space")
    directory = write_finished(out, make_spec(seed=7))
    directory.log.write_text("".join(f"line {number}\n" for number in range(5)))
    return out


@pytest.fixture(scope="module")
def completed(tmp_path_factory):
    """A results folder of three runs, made by `imitbench run`."""
    folder = tmp_path_factory.mktemp("completed")
    assert call_imitbench(*RANDOM, "--quiet", cwd=folder).code == 0
    return folder / "runs"


@pytest.mark.parametrize("command", ["logs", "resume", "verify-resume"])
def test_they_explain_themselves_with_an_example(imitbench, command):
    answer = imitbench(command, "--help")
    assert answer.code == 0
    assert f"Example: imitbench {command}" in " ".join(answer.out.split())


def test_logs_of_a_run(imitbench, failures):
    run_id = make_spec(seed=7).run_id
    answer = imitbench("logs", run_id[:8], "--tail", 2)
    assert (answer.code, answer.out, answer.err) == (0, "line 3\nline 4\n", "")
    assert imitbench("logs", run_id, "--tail", 0).out.strip() == ""
    document = json.loads(imitbench("logs", run_id, "--json").out)
    assert document["logs"] == {"log.txt": [f"line {number}" for number in range(5)]}
    assert (document["run_id"], document["error"]) == (run_id, None)


def test_logs_of_a_failed_run_end_with_its_error(imitbench, failures):
    answer = imitbench("logs", make_spec(seed=0).run_id)
    assert (answer.code, answer.out) == (0, "Traceback\n")
    assert answer.err == "failed (train): RuntimeError: loss is nan at step 0\n"


def test_all_failures_are_grouped(imitbench, failures):
    answer = imitbench("logs", "--failed")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "2 x RuntimeError (train): loss is nan at step N"
    assert lines[1] == "  where:  bc on Pendulum-v1 (2)"
    shown = lines[2].removeprefix("  runs:   ").split(", ")
    assert set(shown) == {make_spec(seed=seed).run_id for seed in range(2)}
    assert f"  whole:  imitbench logs {shown[0]}" in lines
    assert "1 x RuntimeError (train): no�[2J space" in lines
    assert answer.err == "3 failed runs, 2 kinds\n"
    [group] = json.loads(imitbench("logs", "--failed", "--algo", "ga*", "--json").out)
    assert group["cells"] == [{"algo": "gail", "env": "seals/CartPole-v0", "count": 1}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["logs", "--follow"], "--follow: name a run by the start of its id"),
        (["logs", "abc", "--failed"], "or use --failed"),
        (["logs", "abc", "--algo", "bc"], "leave out the id of a run"),
        (["logs", "zzz"], "no run of runs starts with it"),
        (["resume", "--out", "absent"], "imitbench run --out absent"),
        (["verify-resume", "--algo", "bd", "--env", "Pendulum-v1"], "did you mean 'bc'"),
        (["verify-resume", "--algo", "bc", "--env", "*P*"], "must be one environment"),
        (["verify-resume", "--algo", "mce_irl", "--env", "Pendulum-v1"], "tabular environment"),
        (
            ["verify-resume", "--algo", "bc", "--env", "Pendulum-v1", "--out", "runs"],
            "is not empty",
        ),
        (
            ["run", "--algo", "bc", "--source", "hub", "--lock", "absent.lock"],
            "absent.lock: no such file",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(refused, failures, arguments, message):
    assert message in refused(*arguments)


def test_resume_does_only_missing_runs(imitbench, completed, tmp_path):
    shutil.copytree(completed, tmp_path / "runs")
    kept, gone, _ = sorted(tmp_path.glob("runs/diagnostics/*/*/*"))
    shutil.rmtree(gone)
    before = (kept / "result.json").stat().st_mtime_ns
    planned = json.loads(imitbench("resume", "--dry-run", "--json").out)
    assert [(cell["runs"], cell["done"]) for cell in planned["cells"]] == [(3, 2)]
    document = json.loads(imitbench("resume", "--json", "--quiet", *HERE).out)
    assert (document["already_done"], document["done"], document["failed"]) == (2, 1, [])
    assert len(document["scores"]) == 3
    assert (gone / "result.json").exists()
    assert (kept / "result.json").stat().st_mtime_ns == before
    assert imitbench("resume").err == "nothing is missing in runs\n"


def test_resume_reports_runs_that_it_cannot_resume(imitbench, completed, tmp_path):
    shutil.copytree(completed, tmp_path / "runs")
    shutil.rmtree(tmp_path / "runs" / "diagnostics")
    [path] = tmp_path.glob("runs/.sweeps/*.json")
    sweep = json.loads(path.read_text())
    sweep["cells"][0]["run_ids"] = ["0" * 12]
    path.write_text(json.dumps(sweep))
    answer = imitbench("resume")
    assert (answer.code, answer.out) == (1, "")
    [line] = answer.err.splitlines()
    assert line.startswith("skipped: 1 run of `imitbench run --algo random")


def test_watching_ends_when_no_process_is_active(imitbench, completed, tmp_path):
    shutil.copytree(completed, tmp_path / "other")
    shutil.rmtree(next(iter(tmp_path.glob("other/diagnostics/*/*/*"))))
    answer = imitbench("status", "--watch", "--every", 0.1, "--out", "other")
    assert answer.code == 0
    *_, counts, advice = answer.err.splitlines()
    assert counts.startswith("2 done, 1 waiting")
    assert advice == "no process is working on them: `imitbench resume --out other` continues"


def test_watching_continues_while_a_process_is_active_and_ends_cleanly(completed, tmp_path):
    shutil.copytree(completed, tmp_path / "runs")
    shutil.rmtree(next(iter(tmp_path.glob("runs/diagnostics/*/*/*"))))
    with active_sweep(tmp_path / "runs"):
        watching = Started("status", "--watch", "--every", "0.1", cwd=tmp_path)
        assert watching.stderr.readline().startswith("2 done, 1 waiting")
        time.sleep(1.0)
        assert watching.running()
        watching.signal(signal.SIGINT)
        answer = watching.end()
    assert answer.code == 0
    assert "EarlyTermPos" in answer.out


@pytest.mark.slow
def test_verify_resume_reports_by_its_exit_code(imitbench, tmp_path):
    arguments = ("--algo", "bc", "--env", "Pendulum-v1", "--kills", 1, "--set", "hidden_size=8")
    answer = imitbench("verify-resume", *arguments, "--out", "kept")
    assert answer.code == 0
    assert "bc[hidden_size=8] on Pendulum-v1, seed 0: resumes bit for bit" in answer.out
    assert len(list(tmp_path.glob("kept/*/classic/bc/*/*/result.json"))) == 2
    document = json.loads(imitbench("verify-resume", *arguments, "--json", "--quiet").out)
    assert (document["exact"], len(document["interruptions"])) == (True, 2)
