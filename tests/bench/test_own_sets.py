"""A mixture may have sets of the user: files as D4RL writes them, Minari's, or any data set."""

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
import yaml
from support.minari_sets import record

from imitbench.bench import artifacts
from imitbench.bench.plan import DemoChoice, plan_request
from imitbench.bench.request import plan_requests
from imitbench.bench.supplement import supplement_of_run
from imitbench.cards.catalog import suite_directory
from imitbench.cards.demonstrations import parse_mixture
from imitbench.data.demonstrations import read_demonstrations, write_demonstrations
from imitbench.errors import InputError
from imitbench.records.runs import RunSpec
from imitbench.store.sweep_file import SweepRequest

h5py = pytest.importorskip("h5py")
pytest.importorskip("minari")
ROOT = suite_directory("classic")
MEDIUM = ROOT / "demos" / "medium-Pendulum-v1"


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def write_d4rl(path, episodes=4, rewards=True):
    """Writes episodes of the medium policy in the layout of D4RL, and returns them."""
    kept = read_demonstrations(MEDIUM, rows=range(episodes))
    ends = np.cumsum([len(each) for each in kept]) - 1
    timeouts = np.zeros(ends[-1] + 1, bool)
    timeouts[ends] = True
    with h5py.File(path, "w") as file:
        file["observations"] = np.concatenate([each.obs[:-1] for each in kept])
        file["actions"] = np.concatenate([each.acts for each in kept])
        file["terminals"] = np.zeros_like(timeouts)
        file["timeouts"] = timeouts
        if rewards:
            file["rewards"] = np.concatenate([each.rews for each in kept])
    return kept


def runs_of(mixture, *, algo="iswbc", folder=".", suite="classic", seeds=(0,)):
    request = SweepRequest(
        algorithms=[algo], suite=str(suite), environment="Pendulum-v1", seeds=list(seeds),
        folder=str(folder),
    )  # fmt: skip
    [plan] = plan_requests([request], DemoChoice.parse("1", None, None, mixture=mixture))
    return plan, list(plan)


def test_a_file_of_d4rl_is_part_of_a_mixture(tmp_path):
    whole = write_d4rl(tmp_path / "replay.hdf5")
    plan, [run] = runs_of("replay=replay.hdf5:3,random:2", folder=tmp_path)
    parts = {part.name: part for part in run.demos.supplement}
    assert run.demos.mixture == {"replay": 3, "random": 2}
    assert (parts["replay"].source, parts["replay"].available) == ("file", 4)
    # The record says nothing of the machine, and a worker needs nothing but the record.
    assert str(tmp_path) not in run.model_dump_json()
    (tmp_path / "replay.hdf5").unlink()
    again = RunSpec.model_validate_json(run.model_dump_json())
    found = supplement_of_run(again, ROOT, ranked=True)
    known = [each.obs[:-1].tobytes() for each in whole]
    drawn = [each.obs[: len(each)].tobytes() for each in found.trajectories]
    assert sum(each in known for each in drawn) == 3
    assert len(found.ranks) == 5
    assert plan.request.own_sets == {"replay": "replay.hdf5"}


def test_another_content_is_another_run(tmp_path):
    write_d4rl(tmp_path / "replay.hdf5")
    _, [first] = runs_of("replay=replay.hdf5:2", folder=tmp_path)
    write_d4rl(tmp_path / "replay.hdf5", episodes=5)
    artifacts.copy_of_file.cache_clear()  # as in another process
    _, [second] = runs_of("replay=replay.hdf5:2", folder=tmp_path)
    assert first.run_id != second.run_id


def test_a_set_of_minari_is_part_of_a_mixture():
    env = gym.make("Pendulum-v1")
    played = record("pendulum/replay-v0", env, episodes=3, steps=30)
    _, [run] = runs_of("replay=minari:pendulum/replay-v0:2")
    [part] = run.demos.supplement
    assert (part.source, part.available) == ("minari:pendulum/replay-v0", 3)
    found = supplement_of_run(run, ROOT, ranked=False)
    known = [np.asarray(obs, np.float32).tobytes() for obs in played]
    drawn = [each.obs.astype(np.float32).tobytes() for each in found.trajectories]
    assert len(drawn) == 2
    assert all(each in known for each in drawn)


def test_a_suite_card_may_name_such_sets(tmp_path):
    write_demonstrations(tmp_path / "mine" / "other", read_demonstrations(MEDIUM, rows=range(3)))
    document = yaml.safe_load((ROOT / "suite.yaml").read_text())
    card = document["environments"]["Pendulum-v1"]
    for part, repo in (("experts", card["expert"]["repo"]), ("demos", card["demos"]["repo"])):
        (tmp_path / "mine" / part).mkdir()
        (tmp_path / "mine" / part / repo).symlink_to(ROOT / part / repo)
    card["sets"] = {"other": {"repo": "other", "trajectories": 3, "source": "other"}}
    document |= {"name": "mine", "environments": {"Pendulum-v1": card}, "regimes": {}}
    (tmp_path / "mine" / "suite.yaml").write_text(yaml.safe_dump(document))
    _, [run] = runs_of("other:3", suite=tmp_path / "mine")
    [part] = run.demos.supplement
    assert (part.name, part.available) == ("other", 3)


def test_a_request_gives_the_same_runs_again(tmp_path):
    write_d4rl(tmp_path / "replay.hdf5")
    plan, runs = runs_of("replay=replay.hdf5:2", folder=tmp_path, seeds=(0, 1))
    request = SweepRequest.model_validate_json(plan.request.model_dump_json())
    assert [run.run_id for run in plan_request(request)] == [run.run_id for run in runs]


def unlike(tmp_path):
    """Writes a set with other spaces, and returns the part of a mixture."""
    other = ROOT / "demos" / "random-seals-CartPole-v0"
    write_demonstrations(tmp_path / "cart", read_demonstrations(other, rows=range(2)))
    return "cart=cart:1"


def of_another_environment(tmp_path):
    env = gym.make("MountainCarContinuous-v0")
    record("car/replay-v0", env, episodes=2, steps=10)
    return "car=minari:car/replay-v0:1"


def without_rewards(tmp_path):
    write_d4rl(tmp_path / "bare.hdf5", rewards=False)
    return "bare=bare.hdf5:1"


BAD = {
    "too few": (lambda _: "replay=replay.hdf5:9", "replay.* 4 trajectories, fewer than 9"),
    "nothing there": (lambda _: "replay=none.hdf5:1", r"none.hdf5: no such file or folder"),
    "a name of the card": (lambda _: "random=replay.hdf5:1", "has a set of this name"),
    "no data set": (lambda _: "notes=notes.txt:1", r"notes\.txt"),
    "a set that Minari lacks": (lambda _: "m=minari:none/none-v0:1", "minari:none/none-v0"),
    "other spaces": (unlike, "a mixture has parts with the same spaces"),
    "another environment": (of_another_environment, "recorded on MountainCarContinuous-v0"),
    "no rewards for ranks": (without_rewards, "bare.*rewards"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused(case, tmp_path):
    mixture, problem = BAD[case]
    write_d4rl(tmp_path / "replay.hdf5")
    (tmp_path / "notes.txt").write_text("no data")
    with pytest.raises(InputError, match=problem):
        runs_of(mixture(tmp_path), algo="trex", folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "counts", "sources"),
    [
        ("medium:10, random:2", {"medium": 10, "random": 2}, {}),
        ("a=b.hdf5:3", {"a": 3}, {"a": "b.hdf5"}),
        ("a=minari:x/y-v0:3,b:1", {"a": 3, "b": 1}, {"a": "minari:x/y-v0"}),
    ],
)
def test_mixtures_are_parsed(text, counts, sources):
    assert parse_mixture(text) == (counts, sources)


@pytest.mark.parametrize("text", ["a", "a:0", "a=:3", "a=b", "A:3", "a:1,a=b:2", "minari:x:2"])
def test_malformed_mixtures_are_refused(text):
    with pytest.raises(ValueError, match=r"must be a set|named twice"):
        parse_mixture(text)


@pytest.mark.parametrize("value", [1, 2])
def test_actions_that_the_environment_lacks_are_refused_before_the_first_run(tmp_path, value):
    kept = read_demonstrations(ROOT / "demos" / "random-seals-CartPole-v0", rows=range(2))
    acts = np.zeros_like(kept[1].acts)
    acts[3] = value
    other = dataclasses.replace(kept[1], acts=acts)
    write_demonstrations(tmp_path / "cart", [kept[0], other])
    request = SweepRequest(
        algorithms=["iswbc"], suite="classic", environment="seals/CartPole-v0", seeds=[0],
        folder=str(tmp_path), own_sets={"own": "cart"}, n_demos=1, mixture={"own": 1},
    )  # fmt: skip
    plan = plan_request(request)
    if value == 1:
        assert len(list(plan)) == 1
        return
    problem = r"^seals/CartPole-v0: set own \(.*/cart\), episode 1: actions hold 2 at step 3.*: use"
    with pytest.raises(InputError, match=problem):
        list(plan)


def test_a_race_takes_sets_of_the_card_only():
    choice = DemoChoice.parse("1", None, None, mixture="replay=replay.hdf5:3")
    with pytest.raises(InputError, match="a race takes sets of the suite's card"):
        choice.only("classic", "a race")
