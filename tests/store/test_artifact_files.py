"""Finds the files of experts and demonstrations."""

import pytest

from imitbench.errors import InputError
from imitbench.store.artifact_files import content_bytes, content_files
from imitbench.util.files import digest_files

OWN = ("policy.json", "policy.safetensors")
REPO = "org/ppo-Thing-v0"
ZIP = "ppo-Thing-v0.zip"


@pytest.fixture
def folder(tmp_path):
    def make(*names):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("algo: ppo\n" if path.suffix == ".yml" else name)
        return tmp_path

    return make


def names(kind, folder):
    return [path.relative_to(folder).as_posix() for path in content_files(kind, folder, REPO)]


@pytest.mark.parametrize(
    ("present", "counted"),
    [
        ([*OWN, "README.md", "results.json", "config.yml"], [*OWN]),
        ([*OWN, ZIP, "vec_normalize.pkl"], [*OWN]),
        ([f"policy/{name}" for name in OWN], [f"policy/{name}" for name in OWN]),
        ([ZIP, "train_eval_metrics.zip", "replay.mp4"], [ZIP]),
        ([ZIP, "vec_normalize.pkl", "config.yml"], [ZIP, "vec_normalize.pkl", "config.yml"]),
    ],
)
def test_the_files_of_an_expert_are_those_that_its_loader_reads(folder, present, counted):
    assert names("model", folder(*present)) == counted


def test_the_files_of_demonstrations_are_all_shards(folder):
    shards = [f"data/train-0000{index}-of-00002.parquet" for index in range(2)]
    assert names("dataset", folder("README.md", *shards)) == shards


@pytest.mark.parametrize(
    ("kind", "present", "message"),
    [
        ("model", ["README.md"], r"neither policy\.json nor ppo-Thing-v0\.zip"),
        ("model", ["policy.json"], r"policy\.safetensors: no such file"),
        ("dataset", ["README.md"], "no parquet file"),
    ],
)
def test_missing_files_are_reported(folder, kind, present, message):
    with pytest.raises(InputError, match=message):
        content_files(kind, folder(*present), REPO)


def test_the_digest_follows_content_and_names(folder):
    place = folder(*OWN)
    files = content_files("model", place, REPO)
    before = digest_files(place, files)
    assert content_bytes(files) == sum(len(name) for name in OWN)
    files[1].write_text("changed")
    assert digest_files(place, files) != before
