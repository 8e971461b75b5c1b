"""`imitbench run --source hub`: the same numbers online, from the cache, and by a lock."""

import json

import pytest
from support.hub import serve_hub
from support.observer import Recorder
from support.plans import make_plan
from support.pusht import KEYPOINTS_REPO, write_keypoints

from imitbench.bench.spec import reference_scores
from imitbench.bench.sweep import run_sweeps
from imitbench.bench.worker_death import JobWorker
from imitbench.executors.inline import InlineExecutor
from imitbench.executors.options import RunOptions
from imitbench.hub.pull import pull

CARTPOLE = "HumanCompatibleAI/ppo-seals-CartPole-v0"
PENDULUM = "HumanCompatibleAI/ppo-Pendulum-v1"


TIMES = ("train_s", "wall_s", "finished_at")


def numbers(answer):
    assert answer.code == 0, answer.err
    scores = json.loads(answer.out)["scores"]
    return [{name: value for name, value in row.items() if name not in TIMES} for row in scores]


def run(imitbench, out, *more, **variables):
    return imitbench(
        "run", "--algo", "bc", "--suite", "classic", "--source", "hub", "--budget", "quick",
        "--out", out, "--json", *more, **variables,
    )  # fmt: skip


@pytest.mark.slow
def test_a_run_gives_the_same_numbers_with_the_hub_down(imitbench, classic, tmp_path):
    cell = ("--env", "seals/CartPole-v0", "--seeds", 1)
    first = run(imitbench, "first", *cell)
    commit = classic.resolve("dataset", CARTPOLE, "main")
    assert f"warning: datasets/{CARTPOLE}: the suite card pins no commit" in first.err
    [spec] = [json.loads(path.read_text()) for path in tmp_path.glob("first/**/spec.json")]
    assert (spec["demos"]["source"], spec["demos"]["repo"]) == ("hub", CARTPOLE)
    assert spec["demos"]["revision"] == commit
    classic.stop()
    second = run(imitbench, "second", *cell)
    assert f"using commit {commit[:12]} from the cache" in second.err
    assert numbers(first) == numbers(second)


@pytest.mark.slow
def test_a_whole_suite_gives_the_same_numbers_online_cached_and_locked(
    imitbench, classic, tmp_path
):
    first = run(imitbench, "first", "--seeds", 1, "--jobs", 2)
    assert "not applicable: bc on seals/MountainCar-v0" in first.err
    assert imitbench("prefetch", "--suite", "classic").code == 0
    classic.stop()
    second = run(imitbench, "second", "--seeds", 1, "--jobs", 2)
    third = run(imitbench, "third", "--seeds", 1, "--jobs", 2, HF_HUB_OFFLINE="1")
    assert len(numbers(first)) == 2
    assert numbers(first) == numbers(second) == numbers(third)
    assert "warning" not in second.err + third.err
    assert "cannot be reached" not in second.err + third.err


@pytest.mark.slow
def test_experts_of_others_reach_their_published_returns(shared_dir, tmp_path):
    from support.command import call_imitbench

    fixtures = shared_dir / "hub-fixtures" / "imitation"
    with serve_hub() as hub:
        for kind, folder in (("model", "models"), ("dataset", "datasets")):
            for each in (fixtures / folder).iterdir():
                hub.add_folder(kind, f"HumanCompatibleAI/{each.name}", each)
        answer = call_imitbench(
            "run", "--algo", "expert", "--algo", "bc", "--source", "hub", "--seeds", 1,
            "--budget", "quick", "--jobs", 2, "--json",
            cwd=tmp_path, env=hub.environment(tmp_path / "home"),
        )  # fmt: skip
    returns = {(row["algo"], row["env"]): row["raw_return"] for row in numbers(answer)}
    assert returns["expert", "seals/CartPole-v0"] == 500
    assert returns["bc", "seals/CartPole-v0"] > 490
    assert returns["expert", "Pendulum-v1"] == pytest.approx(-190, abs=30)


@pytest.fixture
def keypoints(hub, tmp_path):
    """Puts a set of LeRobot on the hub, by the rules of its format."""
    write_keypoints(tmp_path / "set")
    hub.add_folder("dataset", KEYPOINTS_REPO, tmp_path / "set")


@pytest.mark.slow
def test_methods_learn_from_a_set_of_lerobot(imitbench, keypoints, hub, tmp_path):
    pytest.importorskip("gym_pusht")

    def learned(out, **variables):
        return numbers(
            imitbench(
                "run", "--algo", "bc", "--suite", "pusht", "--source", "hub", "--seeds", 1,
                "--n-demos", 3, "--budget", "quick/100", "--out", out, "--json", **variables,
            )
        )  # fmt: skip

    first = learned("first")
    [spec] = [json.loads(path.read_text()) for path in tmp_path.glob("first/**/spec.json")]
    commit = hub.resolve("dataset", KEYPOINTS_REPO, "main")
    stated = {name: spec["demos"][name] for name in ("source", "repo", "revision", "conversion")}
    assert stated == {
        "source": "hub",
        "repo": KEYPOINTS_REPO,
        "revision": commit,
        "conversion": "pusht_keypoints",
    }
    assert (spec["demos"]["count"], spec["demos"]["available"]) == (3, 6)
    assert imitbench("prefetch", "--suite", "pusht").code == 0
    hub.stop()
    assert learned("second", HF_HUB_OFFLINE="1") == first


def test_demonstrations_of_lerobot_can_be_copied_and_named(imitbench, keypoints):
    pytest.importorskip("gym_pusht")
    pulled = imitbench("demos", "pull", "--suite", "pusht", "--to", "pulled/demos")
    assert pulled.code == 0, pulled.err
    planned = imitbench(
        "run", "--algo", "bc", "--suite", "pusht", "--source", "path:pulled", "--seeds", 1,
        "--dry-run", "--json",
    )  # fmt: skip
    assert planned.code == 0, planned.err
    [cell] = json.loads(planned.out)["cells"]
    assert cell["runs"] == 1


@pytest.fixture
def plan_of(client):
    def make(algorithm, environment, **options):
        return make_plan(
            algorithms=[algorithm],
            suite="classic",
            environment=environment,
            seeds=[0],
            source="hub",
            budget="quick",
            **options,
        )

    return make


def sweep(plan, out):
    executor = InlineExecutor(JobWorker())
    given = {"out": out, "command": "imitbench run", "observer": Recorder()}
    return run_sweeps([plan], executor, options=RunOptions(), **given)


def test_experts_are_pinned_and_their_published_return_is_the_reference(classic, plan_of):
    plan = plan_of("expert", "Pendulum-v1")
    [spec] = list(plan)
    pulled = pull("model", PENDULUM)
    assert spec.expert.model_dump() == {
        "source": "hub",
        "repo": PENDULUM,
        "revision": pulled.revision,
        "digest": pulled.digest,
    }
    references = reference_scores(plan.suite, "Pendulum-v1", "hub")
    results = json.loads((pulled.folder / "results.json").read_text())
    assert references.expert == results["mean_reward"]
    assert references.version == f"1+hub:{pulled.revision[:8]}"


def test_environments_without_a_repository_are_not_applicable(classic, plan_of):
    for algorithm in ("bc", "expert"):
        plan = plan_of(algorithm, "seals/MountainCar-v0")
        assert list(plan) == []
        [pair] = plan.not_applicable
        assert "names no hub repository" in pair.why
    assert len(list(plan_of("random", "seals/MountainCar-v0"))) == 1
    assert classic.requests == []


def test_only_what_is_needed_is_fetched(classic, plan_of):
    list(plan_of("expert", "Pendulum-v1"))
    assert classic.count("api/datasets") == 0


def test_a_pinned_plan_needs_no_further_requests(classic, plan_of, tmp_path):
    from imitbench.hub.lock_file import HubLock, write_lock

    pulled = [pull(kind, PENDULUM) for kind in ("model", "dataset")]
    lock = HubLock().with_items([each.as_locked() for each in pulled])
    write_lock(tmp_path / "hub.lock", lock)
    classic.requests.clear()
    told = []
    options = {"lock": "hub.lock", "folder": tmp_path, "notify": told.append}
    assert len(list(plan_of("bc", "Pendulum-v1", **options))) == 1
    assert (classic.requests, told) == ([], [])


def test_content_that_changed_since_planning_is_refused(classic, plan_of, tmp_path):
    plan = plan_of("expert", "Pendulum-v1")
    assert list(plan)
    weights = (pull("model", PENDULUM).folder / "policy.safetensors").resolve()
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    [(_, failure)] = sweep(plan, tmp_path / "out").failed
    assert failure.phase == "setup"
    assert "content changed since the run was planned" in failure.message


def test_a_worker_without_the_files_suggests_prefetch(classic, plan_of, tmp_path):
    plan = plan_of("expert", "Pendulum-v1")
    assert list(plan)
    (pull("model", PENDULUM).folder / "policy.safetensors").unlink()
    [(_, failure)] = sweep(plan, tmp_path / "out").failed
    assert "run `imitbench prefetch --suite classic`" in failure.message
    assert "\n" not in failure.message
