"""The Python API does what the commands do, and returns records and data frames."""

import json
import subprocess
import sys

import pytest
from support.shown_results import write_results

import imitbench
from imitbench import InputError
from imitbench.report.model import Report

SCORES = [
    "run_id", "suite", "env", "algo", "seed", "budget", "n_demos", "all_demos", "demo_every",
    "demo_actions", "mixture", "source", "uses_reward", "role", "raw_return", "score",
    "score_deterministic", "score_likely", "mean_length", "env_steps", "train_s", "wall_s",
    "finished_at", "termination_rate", "success_rate", "score_one", "path",
]  # fmt: skip
SCRIPT = """
import imitbench
done = imitbench.run(
    "random", env="Pendulum-v1", seeds=[0, 3], budget="quick", jobs=2, progress=False
)
print(done.ok, done.outcome.done, [row.seed for row in done.scores], len(imitbench.results()))
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api") / "runs"
    write_results(folder, seeds=3, failing=(("gail", "Pendulum-v1", 2),))
    return folder


def test_importing_the_package_loads_no_large_packages():
    code = (
        "import imitbench, sys\n"
        "assert callable(imitbench.report) and 'run' in dir(imitbench)\n"
        "heavy = {'torch', 'numpy', 'pandas', 'pydantic', 'typer', 'duckdb'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_script_without_a_main_guard_runs_with_several_workers(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "2", "[0,", "3]", "2"]
    assert done.stderr == ""
    [result, _] = tmp_path.glob("runs/classic/random/Pendulum-v1/*/result.json")
    command = json.loads(result.read_text())["provenance"]["command"]
    assert command.startswith("imitbench.run(algos='random', suite='classic', env='Pendulum-v1'")
    assert "seeds=[0, 3]" in command


def test_completed_runs_are_not_repeated(tmp_path, capsys):
    options = {"env": "Pendulum-v1", "seeds": 1, "budget": "quick", "executor": "inline"}
    first = imitbench.run("random", out=tmp_path / "runs", **options)
    again = imitbench.run(["random"], out=tmp_path / "runs", **options)
    assert (first.outcome.done, again.outcome.done, again.outcome.already_done) == (1, 0, 1)
    assert again.to_frame().equals(first.to_frame())
    assert "[1/1] random on Pendulum-v1, seed 0: score " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"algos": "bcc"}, "did you mean 'bc'"),
        ({"algos": "bc", "suite": "clasic"}, "did you mean 'classic'"),
        ({"algos": "bc", "budget": "tiny"}, "budget 'tiny'"),
        ({"algos": "bc", "seeds": []}, "seeds"),
        ({"algos": "bc", "seeds": [-1]}, "seeds"),
        ({"algos": []}, "algos: is empty"),
        ({"algos": "bc", "n_demos": 0}, "--n-demos 0"),
        ({"algos": "bc", "overrides": {"batch_sise": 3}}, "did you mean 'batch_size'"),
        ({"algos": "bc", "overrides": {"batch_size": None}}, "must be int, not 'null'"),
        ({"algos": "bc", "executor": "moon"}, "--executor moon"),
        ({"algos": "bc", "timeout": "soon"}, "--timeout soon"),
    ],
)
def test_bad_input_raises_an_error_of_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message) as raised:
        imitbench.run(**arguments)
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.rglob("result.json"))


def test_an_unknown_parameter_is_an_error():
    with pytest.raises(TypeError, match="retrys"):
        imitbench.run("bc", retrys=3)


def test_results_are_a_data_frame_with_the_documented_columns(out):
    frame = imitbench.results(out)
    assert list(frame.columns) == SCORES
    assert frame.run_id.is_unique
    some = imitbench.results(out, env="Pendulum*", algo="bc")
    assert set(some.env) == {"Pendulum-v1"}
    assert set(some.algo) == {"bc"}
    assert len(imitbench.results(out, suite="other")) == 0


def test_failures_curves_and_other_tables_are_data_frames(out):
    failures = imitbench.results(out, "failures")
    assert {"run_id", "phase", "error_type", "message"} <= set(failures.columns)
    assert len(failures) == 1
    episodes = imitbench.results(out, "episodes", algo="bc")
    assert {"run_id", "raw_return", "algo", "seed"} <= set(episodes.columns)
    assert set(episodes.algo) == {"bc"}
    for table in ("curves", "measures", "latest", "references", "external_scores", "reward_board"):
        imitbench.results(out, table, env="Pendulum-v1", algo="bc")
    with pytest.raises(InputError, match="did you mean 'failures'"):
        imitbench.results(out, "failure")


def test_a_missing_results_folder_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        imitbench.results(tmp_path / "nothing")


def test_a_report_is_text_a_file_plots_or_a_record(out, tmp_path):
    text = imitbench.report(out, to=tmp_path / "report.md", replicates=200)
    assert (tmp_path / "report.md").read_text() == text
    assert "Pendulum-v1" in text
    document = json.loads(imitbench.report(out, "json", replicates=200))
    [section] = document["sections"]
    assert {row["row"] for row in section["rows"]} >= {"cell", "aggregate"}
    assert len(document["failures"]) == 1
    record = imitbench.report(out, format=None, replicates=200)
    assert isinstance(record, Report)
    assert imitbench.report(out, "html", replicates=200).startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "pdf"}, "format pdf"),
        ({"format": "png"}, "needs a folder"),
        ({"failed_runs": "ignore"}, "failed_runs ignore"),
    ],
)
def test_a_report_refuses_invalid_arguments(out, arguments, message):
    with pytest.raises(InputError, match=message):
        imitbench.report(out, **arguments)


def test_report_is_a_function_and_a_package():
    from imitbench.report.tables import build_report

    assert imitbench.report.tables.build_report is build_report


def test_compare_gives_the_verdict_of_the_command(out):
    found = imitbench.compare("gail", "bc", out=out, replicates=500)
    [verdict] = found.verdicts
    assert verdict.decision in ("better", "worse", "undecided")
    assert found.as_document()["contests"][0]["verdicts"][0]["verdict"] == verdict.decision
    assert "gail" in str(found)
    with pytest.raises(InputError, match="has no runs here"):
        imitbench.compare("gail", "bcc", out=out)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda out: imitbench.report(out, replicates=-1), "replicates must be at least 1"),
        (lambda out: imitbench.compare("gail", "bc", out=out, level=2.0), "level must be inside"),
        (lambda out: imitbench.compare("gail", out=out, replicates=0), "replicates must be"),
    ],
)
def test_numbers_out_of_range_are_bad_input(out, call, message):
    with pytest.raises(InputError, match=message):
        call(out)
