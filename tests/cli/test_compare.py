"""`imitbench compare` on the results of a small benchmark."""

import csv
import json
import shutil

import pytest
from support.shown_results import write_results
from typer.testing import CliRunner

from imitbench.cli.main import app

LEVELS = {
    "bc": ((0.5, 0.02), (0.86, 0.06), (0.62, 0.02)),
    "dagger": ((1.0, 0.01), (0.97, 0.02), (0.93, 0.03)),
    "gail": ((1.0, 0.01), (0.04, 0.02), (0.92, 0.05)),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("results") / "runs"
    write_results(out, skills=LEVELS, failing=())
    return out


@pytest.fixture
def compare(results):
    """Compares within this process; `refused` starts the real command."""

    def call(*arguments, out=results):
        words = ["compare", *arguments, "--out", str(out), "--replicates", "1000"]
        return CliRunner().invoke(app, words, catch_exceptions=False)

    return call


@pytest.fixture
def verdict(compare):
    """The only verdict of a comparison, as JSON."""

    def call(*arguments, **options):
        [contest] = json.loads(compare(*arguments, "--json", **options).stdout)["contests"]
        [found] = contest["verdicts"]
        return found

    return call


def table(results, path, algorithms, shift=0.0, columns=("algo", "env", "seed", "score")):
    """Writes a CSV table from specifications and results of run directories."""
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, columns, extrasaction="ignore")
        writer.writeheader()
        for folder in sorted(results.glob("classic/*/*/*")):
            spec = json.loads((folder / "spec.json").read_text())
            result = json.loads((folder / "result.json").read_text())
            anchors = result["references"]
            score = (result["raw_return"] - anchors["random"]) / (
                anchors["expert"] - anchors["random"]
            )
            if spec["algo"] in algorithms:
                writer.writerow(
                    {
                        "algo": spec["algo"],
                        "env": spec["environment"]["id"],
                        "seed": spec["seed"],
                        "score": score + shift,
                        "raw_return": result["raw_return"],
                    }
                )
    return path


def test_a_better_algorithm_is_called_better_everywhere(compare, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")  # all columns have room
    answer = compare("dagger", "--baseline", "bc")
    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert lines[0] == "classic: budget quick, 10 demonstrations, source bundled"
    assert "dagger against bc: better" in lines
    rows = [line.split() for line in lines if line.startswith(("Pendulum", "seals/"))]
    assert [(row[0], row[1]) for row in rows] == [
        ("Pendulum-v1", "5"),
        ("seals/CartPole-v0", "5"),
        ("seals/MountainCar-v0", "5"),
    ]
    assert all("better" in row for row in rows)
    assert "  typical runs are better: P(dagger > bc) 1.00 [1.000, 1.000]" in lines
    assert "  collapses (score below 0.5): 0 of 15 and 2 of 15 runs" in answer.stdout
    assert "the larger of means and of ranks, corrected by Holm" in answer.stderr


def test_the_runs_of_each_side_are_counted(compare, results, tmp_path):
    fewer = shutil.copytree(results, tmp_path / "fewer", ignore=shutil.ignore_patterns("*.duckdb*"))
    kept, *others = sorted((fewer / "classic" / "dagger" / "Pendulum-v1").iterdir())
    for run in others:
        shutil.rmtree(run)
    assert kept.is_dir()
    shown = compare("dagger", "--baseline", "bc", "--env", "Pendulum-v1", out=fewer).stdout
    assert "  over 1 environment, 1 run of dagger and 5 of bc\n" in shown, shown
    whole = compare("dagger", "--baseline", "bc").stdout
    assert "  over 3 environments, 5 runs of each algorithm on each\n" in whole


def test_several_verdicts_begin_with_a_summary(compare, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    first, second, third, *_ = compare("dagger").stdout.splitlines()
    assert first == "dagger in typical runs:"
    assert second.endswith("source bundled: better than bc; undecided: gail")
    assert third == ""
    assert "in typical runs:" not in compare("dagger", "--baseline", "bc").stdout


def test_a_single_environment_has_one_verdict(compare):
    """Also where only the correction for several baselines leaves it undecided."""
    shown = compare("gail", "--env", "Pendulum-v1").stdout.splitlines()
    overall = [line.split(": ")[1].split()[0] for line in shown if " against " in line]
    rows = [line for line in shown if line.startswith("Pendulum-v1")]
    assert len(overall) == len(rows) == 2
    for decision, row in zip(overall, rows, strict=True):
        assert f" {decision}" in row


def test_the_json_says_the_same(verdict):
    found = verdict("dagger", "--baseline", "bc")
    assert (found["verdict"], found["reason"]) == ("better", "decided")
    assert found["iqm"]["low"] > 0
    assert found["improvement"]["point"] > 0.9
    cartpole = found["environments"][1]
    assert cartpole["runs"] == [5, 5]
    assert cartpole["raw_means"][0] > cartpole["raw_means"][1] > 0


@pytest.mark.parametrize(
    ("algorithm", "baseline", "condition", "code"),
    [
        ("bc", "dagger", "worse", 1),
        ("dagger", "bc", "worse", 0),
        ("dagger", "bc", "not-better", 0),
        ("bc", "dagger", "not-better", 1),
        ("gail", "bc", "worse", 0),
        ("gail", "bc", "worse-anywhere", 1),
        ("gail", "bc", "undecided", 1),
        ("dagger", "bc", "undecided", 0),
    ],
)
def test_the_exit_code_is_the_requested_one(compare, algorithm, baseline, condition, code):
    answer = compare(algorithm, "--baseline", baseline, "--fail-if", condition)
    assert answer.exit_code == code, answer.stdout


def test_one_baseline_that_is_beaten_does_not_hide_another_that_is_not(compare, results):
    both = ("--baseline", "bc", "--baseline", "dagger", "--against", str(results))
    assert compare("dagger", *both, "--fail-if", "not-better").exit_code == 1
    assert compare("dagger", *both, "--fail-if", "worse").exit_code == 0


def test_all_others_are_the_default_baselines(compare):
    stdout = compare("dagger").stdout
    assert [line.split(":")[0] for line in stdout.splitlines() if " against " in line] == [
        "dagger against bc",
        "dagger against gail",
    ]


def test_between_two_databases_the_same_algorithm_is_compared(verdict, results, tmp_path, compare):
    compare("dagger")  # makes the database
    before = tmp_path / "before.duckdb"
    shutil.copy(results / "imitbench.duckdb", before)
    found = verdict("bc", "--against", str(before))
    assert (found["baseline"], found["verdict"]) == ("bc (baseline)", "undecided")
    assert found["seeds"]["outlook"] == "no effect"
    assert verdict("dagger", "--against", str(before), "--baseline", "bc")["verdict"] == "better"


def test_between_two_tables(verdict, results, tmp_path):
    new = table(results, tmp_path / "new.csv", {"bc"}, shift=0.2)
    old = table(results, tmp_path / "old.csv", {"bc"})
    assert verdict("bc", "--against", str(old), out=new)["verdict"] == "better"
    assert verdict("bc", "--against", str(new), out=old)["verdict"] == "worse"


def test_returns_alone_get_the_references_of_a_suite(verdict, results, tmp_path, refused):
    path = table(
        results, tmp_path / "returns.csv", {"bc", "dagger"}, columns=("algo", "env", "raw_return")
    )
    assert "--suite NAME" in refused("compare", "dagger", "--out", str(path))
    assert verdict("dagger", "--suite", "classic", out=path)["verdict"] == "better"


def test_imported_results_take_part_when_they_are_named(compare, verdict, results, tmp_path):
    out = tmp_path / "with-import"
    shutil.copytree(results, out)
    path = table(results, tmp_path / "others.csv", {"bc"})
    words = ["import", "csv", str(path), "--name", "paper", "--out", str(out)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert "paper" not in compare("dagger", out=out).stdout
    assert verdict("dagger", "--baseline", "paper:bc", out=out)["verdict"] == "better"


def test_a_verdict_that_depends_on_failed_runs_is_undecided(verdict, tmp_path):
    out = tmp_path / "failing"
    everywhere = [("dagger", env, seed) for env in ENVIRONMENTS for seed in (0, 1, 2)]
    write_results(out, seeds=7, skills=LEVELS, failing=everywhere)
    asked = ("dagger", "--baseline", "bc")
    assert verdict(*asked, "--failed-runs", "exclude", out=out)["verdict"] == "better"
    assert verdict(*asked, "--failed-runs", "count-as-random", out=out)["verdict"] != "better"
    found = verdict(*asked, out=out)
    assert (found["verdict"], found["reason"]) == ("undecided", "failed runs decide")
    assert found["environments"][0]["failures"] == [3, 0]


ENVIRONMENTS = ("seals/CartPole-v0", "seals/MountainCar-v0", "Pendulum-v1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["daggre"], "did you mean 'dagger'?"),
        (["dagger", "--baseline", "cb"], "did you mean 'bc'?"),
        (["dagger", "--baseline", "airl"], "airl: has no runs here; run it first, or name results"),
        (["airl", "--baseline", "bc"], "airl: has no runs here; run it first; here are bc, "),
        (["dagger", "--env", "Ant*"], "no runs match the selection"),
        (["dagger", "--against", "missing.csv"], "missing.csv"),
        (["dagger", "--fail-if", "bad"], "--fail-if"),
        (["dagger", "--acting", "greedy"], "--acting"),
    ],
)
def test_bad_input_is_reported_in_one_line(refused, results, arguments, said):
    assert said in refused("compare", *arguments, "--out", str(results))


@pytest.mark.parametrize("acting", ["likely", "both"])
def test_most_likely_actions_need_the_second_reference(refused, compare, tmp_path, acting):
    out = tmp_path / "older"
    write_results(out, seeds=2, skills=LEVELS, failing=(), version="0")
    line = refused("compare", "dagger", "--acting", acting, "--out", str(out))
    assert f"--acting {acting}: the return of the expert's most likely actions" in line
    assert (
        "; use --acting sampled, or add it to the card of a suite of your own: `imitbench" in line
    )
    assert "sampled actions only: the return of the expert's" in compare("dagger", out=out).stdout


def test_without_shared_conditions_those_of_both_are_named(refused, results, tmp_path):
    columns = ("algo", "env", "seed", "score", "budget")
    path = table(results, tmp_path / "other.csv", {"bc"}, columns=columns)
    lines = path.read_text().splitlines()
    assert lines[0].endswith("budget")
    changed = [lines[0], *(f"{line.rpartition(',')[0]},hours" for line in lines[1:])]
    path.write_text("\n".join(changed))
    line = refused("compare", "dagger", "--against", str(path), "--out", str(results))
    assert "dagger has classic: budget" in line
    assert "bc has unnamed suite: budget hours" in line


def test_each_named_baseline_is_compared_or_refused(refused, compare, tmp_path):
    """A name that is silently left out could never be `worse`."""
    path = tmp_path / "table.csv"
    rows = [
        f"s,{budget},e,{algo},{seed},{level + seed / 100}"
        for algo, budget, level in (("a", "b1", 0.9), ("b", "b1", 0.2), ("c", "b2", 0.2))
        for seed in range(4)
    ]
    path.write_text("\n".join(["suite,budget,env,algo,seed,score", *rows]) + "\n")
    error = refused("compare", "a", "--baseline", "b", "--baseline", "c", "--out", str(path))
    assert error.startswith("error: a and c: no runs under the same suite, budget, ")
    assert error.endswith("(a has s: budget b1; c has s: budget b2)")
    assert compare("a", out=path).exit_code == 0  # without names, with all that it shares them with


def test_a_file_that_is_not_a_database_is_refused(refused, tmp_path):
    path = tmp_path / "other.duckdb"
    path.write_bytes(b"nothing of the kind")
    line = refused("compare", "bc", "--out", str(path))
    assert f"{path}: is neither a database of results nor a table (.csv)" in line
    assert path.exists()
    assert "delete" not in line


def test_names_that_could_steer_the_terminal_are_refused(refused, results, tmp_path):
    path = table(results, tmp_path / "evil.csv", {"bc", "dagger"})
    path.write_text(path.read_text().replace("dagger", "da\u202egger"))
    assert "control characters" in refused("compare", "bc", "--out", str(path))
