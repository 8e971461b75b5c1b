"""Bad input: one line that says what, where and how to fix it; exit code 2; nothing written."""

import os
import shutil
import subprocess

import pytest
import torch
import yaml
from support.small_disk import small_disk

from imitbench.cards.catalog import suite_directory


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--algo", "bc", "--suite", "clasic"], "did you mean 'classic'"),
        (["run", "--algo", "bd"], "did you mean 'bc'"),
        (["run", "--algo", "bc", "--env", "seals/Ant*"], "use --suite seals, which has it"),
        (["run", "--algo", "bc", "--env", "nothing"], "matches no environment"),
        (["run", "--algo", "bc", "--executor", "kubernetes", "--dry-run"], "no such executor"),
        (["run", "--algo", "bc", "--config", "tuned", "--dry-run"], "only for seals/Ant-v1"),
        (["run", "--algo", "sqil", "--config", "tuned", "--dry-run"], "no tuned values for sqil"),
        (["run", "--algo", "bc", "--seeds", "x"], "--seeds x"),
        (["run", "--algo", "bc", "--set", "batch_sise=1"], "did you mean 'batch_size'"),
        (["run", "--algo", "bc", "--set", "batch_size"], "name=value"),
        (
            ["run", "--algo", "bc", "--budget", "huge"],
            "'--budget': huge: must be one of quick, default, full",
        ),
        (["report", "--format", "doc"], "'--format': 'doc' is not one of 'md', 'markdown'"),
        (["run", "--algo", "bc", "--jobs", "0"], "--jobs"),
        (["run", "--algo", "bc", "--n-demos", "999"], "choose 1 to"),
        (["run", "--algo", "bc", "--source", "ftp"], "'minari', 'path:DIR' or 'minari:NAME'"),
        (["run", "--algo", "bc", "--executor", "lokal"], "did you mean 'local'"),
        (["run"], "--algo"),
        (["run", "--algo", "bc", "--sedes", "1"], "--seeds"),
        (["run", "--algo", "bc", "--seeds", "99999999999999999999,"], "each below 2^32"),
        (["run", "--algo", "bc", "--set", "learning_rate=inf"], "must be finite, not inf"),
        (
            ["report", "--replicates", "10000000000000"],
            "'--replicates': Input should be less than or equal to 1000000",
        ),
        (
            ["report", "--json", "--format", "html", "--to", "x.html"],
            "--format html: contradicts --json; leave one of them out",
        ),
        (["report", "--figure", "intervals"], "works only with --format png, svg or pdf"),
        (
            ["report", "--format", "svg", "--to", "plots", "--figure", "profile"],
            "--figure profile: no such figure; did you mean 'profiles'",
        ),
        (["rum"], "Did you mean 'run'"),
        (["bc"], "Did you mean `imitbench train imitation bc`?"),
        (["train", "bc"], "Did you mean `imitbench train imitation bc`?"),
        (["train", "gial"], "Did you mean `imitbench train adversarial gail`?"),
        (["demos", "swap"], "Accepted: pull, push, convert"),
        (["eval", "ppo-seals-CartPole-v0", "--algo", "./absent"], "no such file; name a folder"),
        (["report"], "imitbench run"),
        (["status"], "imitbench run"),
        (["collect", "--out", "absent"], "imitbench run"),
        (
            ["demos", "collect", "--suite", "classic", "--set", "rnadom"],
            "have no such set; did you mean 'random'",
        ),
        (
            ["demos", "collect", "--suite", "classic", "--set", "random", "--experts", "."],
            "needs no expert; omit it",
        ),
        (["demos", "collect", "--suite", "classic", "--card", "a"], "give --set, or omit it"),
        (["sql", "select 1"], "imitbench run"),
        (["algos", "gali"], "did you mean 'gail'? Accepted: act, adril, airl"),
        (["suites", "show", "clasic"], "did you mean 'classic'"),
        (
            ["experts", "eval", "absent", "--env", "Pendulum-v1"],
            "neither a path nor one of the bundled",
        ),
        (["experts", "train", "--suite", "classic", "--env", "x"], "matches no environment"),
        (["demos", "show", "absent"], "neither a path nor one of the bundled"),
        (
            ["demos", "show", "human-AdroitHandDoor-v1"],
            "suite adroit does not bundle it, Minari has it; run `imitbench demos convert "
            "minari:D4RL/door/human-v2 human-AdroitHandDoor-v1 --download`",
        ),
        (["logs", "zz", "--out", "."], "run zz: . has no runs; run `imitbench run --out .` first"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_one_line_names_the_fix(refused, tmp_path, arguments, message):
    assert message in refused(*arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("executor", ["local", "inline"])
def test_a_dry_run_needs_the_device_that_the_run_needs(refused, tmp_path, executor):
    words = ["run", "--algo", "bc", "--device", "cuda", "--executor", executor]
    assert refused(*words, "--dry-run") == refused(*words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("query", ["", "/* nothing */"])
def test_a_query_without_a_statement_is_refused(refused, tmp_path, query):
    (tmp_path / "runs").mkdir()
    assert "query: is empty" in refused("sql", query, "--out", "runs")


def test_a_card_of_another_suite_is_refused_before_anything_is_measured(refused, tmp_path):
    text = (suite_directory("classic") / "suite.yaml").read_text()
    measure = ("suites", "measure", "classic", "--env", "Pendulum-v1", "--episodes", "1")
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("name: classic", "name: other", 1))
    line = refused(*measure, "--card", other)
    assert line.endswith("other.yaml: card of suite other, not of classic")
    smaller = tmp_path / "smaller.yaml"
    document = yaml.safe_load(text)
    del document["environments"]["Pendulum-v1"]
    smaller.write_text(yaml.safe_dump(document))
    assert "has no environment 'Pendulum-v1'; Accepted: " in refused(*measure, "--card", smaller)
    assert other.read_text() == text.replace("name: classic", "name: other", 1)


def test_an_expert_for_another_environment_is_refused(refused):
    line = refused("experts", "eval", "sac-Pendulum-v1", "--env", "seals/CartPole-v0")
    assert "the environment has" in line


@pytest.fixture
def source(tmp_path):
    root = tmp_path / "source"
    for kind in ("experts", "demos"):
        shutil.copytree(suite_directory("classic") / kind, root / kind)
    return root


def test_a_truncated_expert_is_refused(refused, source):
    weights = source / "experts" / "sac-Pendulum-v1" / "policy.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    expert = source / "experts" / "sac-Pendulum-v1"
    line = refused("experts", "eval", expert, "--env", "Pendulum-v1")
    assert "truncated or altered" in line


def test_arguments_at_which_an_environment_fails_later_are_refused(refused, source):
    expert = source / "experts" / "sac-Pendulum-v1"
    (expert / "env_kwargs.yml").write_text("g: 10**9\n")
    for command in (("experts", "eval"), ("eval",)):
        line = refused(*command, expert, "--env", "Pendulum-v1", "--episodes", "1")
        assert "cannot be used with g=10**9 (" in line
        assert "is this the environment of env_kwargs.yml?" in line


def test_a_corrupt_parquet_file_is_refused(refused, source):
    demos = source / "demos" / "sac-Pendulum-v1" / "data" / "train-00000-of-00001.parquet"
    demos.write_bytes(demos.read_bytes()[:1000])
    assert demos.name in refused("demos", "show", source / "demos" / "sac-Pendulum-v1")
    line = refused("run", "--algo", "bc", "--env", "Pendulum-v1", "--source", f"path:{source}")
    assert demos.name in line


def test_failed_runs_are_named_with_exit_code_1(imitbench, source):
    shutil.rmtree(source / "demos" / "sac-Pendulum-v1")
    shutil.copytree(
        source / "demos" / "ppo-seals-CartPole-v0", source / "demos" / "sac-Pendulum-v1"
    )
    answer = imitbench(
        "run", "--algo", "bc", "--algo", "random", "--env", "Pendulum-v1", "--seeds", 1,
        "--budget", "quick", "--source", f"path:{source}", "--executor", "inline",
    )  # fmt: skip
    assert answer.code == 1
    assert "failed: bc on Pendulum-v1, seed 0 (setup): InputError:" in answer.err
    assert "1 done, 0 already there, 1 failed" in answer.err
    report = imitbench("report")
    assert "InputError" in report.out


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_nothing_is_half_written(imitbench, tmp_path):
    out = tmp_path / "small"
    arguments = (
        "run", "--algo", "bc", "--env", "Pendulum-v1", "--seeds", 4, "--budget", "quick",
        "--out", out,
    )  # fmt: skip
    with small_disk(out, "200k"):
        answer = imitbench(*arguments)
        assert answer.code in (1, 2)
        told = [line for line in answer.err.splitlines() if "No space left" in line]
        assert told
        assert not list(out.rglob("*.tmp"))
        finished = [path.parent for path in out.rglob("result.json")]
        assert all((path / "episodes.parquet").exists() for path in finished)
        subprocess.run(["mount", "-o", "remount,size=50m", str(out)], check=True)
        assert imitbench(*arguments).code == 0
        assert len(list(out.rglob("result.json"))) == 4


def test_a_read_only_folder_is_refused(tmp_path, refused):
    out = tmp_path / "locked"
    out.mkdir(mode=0o555)
    if os.geteuid() == 0:
        # Root may write anywhere except on a read-only file system.
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(out)], check=True)
    try:
        line = refused("run", "--algo", "random", "--out", out)
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", "-l", str(out)], check=True)
    assert "cannot be written" in line
