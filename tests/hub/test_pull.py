"""Pulling experts and demonstrations, and copying them out of the cache."""

import shutil

import numpy as np
import pytest
from support.plain_sets import write_lerobot
from support.pusht import KEYPOINTS_REPO, write_keypoints

from imitbench.cards.catalog import suite_directory
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.hub.lock_file import HubLock
from imitbench.hub.pull import copy_out, pull

ROOT = suite_directory("classic")
REPO = "HumanCompatibleAI/ppo-seals-CartPole-v0"
EXPERT = ROOT / "experts" / "ppo-seals-CartPole-v0"

pytestmark = pytest.mark.usefixtures("client")


def test_pulled_files_are_pinned_by_commit_and_content(classic):
    pulled = pull("model", REPO)
    assert pulled.revision == classic.resolve("model", REPO, "main")
    assert pulled.size == sum(
        (EXPERT / name).stat().st_size for name in ("policy.json", "policy.safetensors")
    )
    assert (pulled.folder / "results.json").read_bytes() == (EXPERT / "results.json").read_bytes()
    assert not (pulled.folder / "training.json").exists()


def test_the_digest_is_that_of_the_same_files_elsewhere(classic):
    from imitbench.bench.artifacts import ArtifactLocation, pin_expert

    bundled = pin_expert(ArtifactLocation(ROOT, "experts", "bundled", EXPERT.name))
    assert pull("model", REPO).digest == bundled.digest


def test_a_lock_pins_the_commit(classic):
    old = pull("model", REPO)
    lock = HubLock().with_items([old.as_locked()])
    classic.add_model(REPO, {**classic.files("model", REPO), "README.md": b"new"})
    assert pull("model", REPO, lock=lock) == old
    assert pull("model", REPO).revision != old.revision


def test_a_lock_detects_changed_content(classic):
    old = pull("model", REPO)
    lock = HubLock().with_items([old.as_locked()])
    weights = (old.folder / "policy.safetensors").resolve()
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    with pytest.raises(InputError, match="differs from the lock") as caught:
        pull("model", REPO, lock=lock)
    assert "imitbench prefetch" in str(caught.value)


@pytest.mark.parametrize(("kind", "what"), [("model", "an expert"), ("dataset", "demonstrations")])
def test_a_repository_of_something_else_is_reported(hub, kind, what):
    hub.add(kind, "org/other", {"README.md": b"", "notes.txt": b""})
    with pytest.raises(InputError, match=f"not a repository of {what}") as caught:
        pull(kind, "org/other")
    assert "\n" not in str(caught.value)


def test_a_copy_has_regular_files_and_replaces_an_older_one(classic, tmp_path):
    (tmp_path / "to" / EXPERT.name).mkdir(parents=True)
    (tmp_path / "to" / EXPERT.name / "stale").touch()
    target = copy_out(pull("model", REPO), tmp_path / "to")
    assert target == tmp_path / "to" / EXPERT.name
    assert list((tmp_path / "to").iterdir()) == [target]
    assert not (target / "stale").exists()
    assert all(not path.is_symlink() for path in target.iterdir())
    weights = "policy.safetensors"
    assert (target / weights).read_bytes() == (EXPERT / weights).read_bytes()


def test_an_interrupted_copy_keeps_the_old_content(classic, tmp_path, monkeypatch):
    pulled = pull("model", REPO)
    target = copy_out(pulled, tmp_path / "to")
    (target / "mine").touch()

    def stop(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "copytree", stop)
    with pytest.raises(KeyboardInterrupt):
        copy_out(pulled, tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == [target]
    assert (target / "mine").exists()


def test_a_copy_onto_a_file_is_reported(classic, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        copy_out(pull("model", REPO), tmp_path / "file")


def test_a_set_of_lerobot_is_refused_with_the_way_to_convert_it(hub, client, tmp_path):
    made = [TrajectoryWithRew(np.ones((4, 2)), np.ones((3, 2)), None, True, np.ones(3))]
    write_lerobot(tmp_path / "pusht", made)
    hub.add_folder("dataset", "lerobot/pusht", tmp_path / "pusht")
    with pytest.raises(InputError, match=r"a set of LeRobot, .*hf download lerobot/pusht --repo-"):
        pull("dataset", "lerobot/pusht")


@pytest.fixture
def keypoints(hub, tmp_path, monkeypatch):
    """The hub with a set of LeRobot that suite `pusht` names; returns its demonstrations."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own-cache"))
    made = write_keypoints(tmp_path / "set")
    hub.add_folder("dataset", KEYPOINTS_REPO, tmp_path / "set")
    return made


def test_a_set_of_lerobot_on_a_card_is_pulled_in_our_layout(keypoints, tmp_path):
    with pytest.raises(InputError, match="a set of LeRobot"):  # leaves a part of it in the cache
        pull("dataset", KEYPOINTS_REPO)
    pulled = pull("dataset", KEYPOINTS_REPO, conversion="pusht_keypoints")
    for folder in (pulled.folder, copy_out(pulled, tmp_path / "to")):
        copied = read_demonstrations(folder)
        assert [len(each) for each in copied] == [len(each) for each in keypoints]
        np.testing.assert_allclose(copied[0].obs[:-1], keypoints[0].obs[:-1], atol=1e-3)


def test_a_lock_detects_a_changed_set_of_lerobot(keypoints):
    old = pull("dataset", KEYPOINTS_REPO, conversion="pusht_keypoints")
    lock = HubLock().with_items([old.as_locked()])
    assert pull("dataset", KEYPOINTS_REPO, conversion="pusht_keypoints", lock=lock) == old
    wrong = HubLock().with_items([old.as_locked().model_copy(update={"digest": "0" * 64})])
    with pytest.raises(InputError, match="differs from the lock"):
        pull("dataset", KEYPOINTS_REPO, conversion="pusht_keypoints", lock=wrong)


def test_a_repository_without_frames_is_no_set_of_lerobot(hub):
    hub.add("dataset", KEYPOINTS_REPO, {"README.md": b""})
    with pytest.raises(InputError, match="not a repository of demonstrations") as caught:
        pull("dataset", KEYPOINTS_REPO, conversion="pusht_keypoints")
    assert "\n" not in str(caught.value)
