"""The loopback hub itself: the hub's other clients, and pushing, work against it."""

import numpy as np
import pytest

from imitbench.cards.catalog import suite_directory
from imitbench.data.demonstrations import read_demonstrations
from imitbench.hub.pull import pull

DEMOS = suite_directory("classic") / "demos" / "sac-Pendulum-v1"


@pytest.fixture
def api(hub, client):
    import huggingface_hub

    return huggingface_hub.HfApi(endpoint=hub.url, token="hf_any")


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_pulling_returns_what_was_pushed(hub, api, tmp_path, kind):
    files = {
        "README.md": b"---\nlicense: mit\n---\n# Card\n",
        "policy.json": b"{}",
        "policy.safetensors": b"weights" * 100,
        "data/train-00000-of-00001.parquet": b"rows" * 100,
    }
    for name, content in files.items():
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    api.create_repo("tester/pushed", repo_type=kind)
    done = api.upload_folder(
        folder_path=tmp_path / "folder", repo_id="tester/pushed", repo_type=kind
    )
    assert hub.count("PUT /store/") == 2
    pulled = pull(kind, "tester/pushed")
    assert pulled.revision == done.oid
    fetched = [path for path in pulled.folder.rglob("*") if path.is_file()]
    assert fetched
    for path in fetched:
        assert path.read_bytes() == files[path.relative_to(pulled.folder).as_posix()]


def test_the_same_large_file_is_not_sent_twice(hub, api, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"weights" * 100)
    for name in ("one", "two"):
        api.create_repo(f"tester/{name}")
        api.upload_file(
            path_or_fileobj=tmp_path / "a.safetensors",
            path_in_repo="a.safetensors",
            repo_id=f"tester/{name}",
        )
    assert hub.count("PUT /store/") == 1


def test_an_existing_repository_is_reported(hub, api):
    from huggingface_hub.errors import HfHubHTTPError

    api.create_repo("tester/there")
    api.create_repo("tester/there", exist_ok=True)
    with pytest.raises(HfHubHTTPError):
        api.create_repo("tester/there")


def test_files_are_listed_by_folder(hub, api):
    hub.add_folder("dataset", "org/demos", DEMOS)
    listed = api.list_repo_tree("org/demos", repo_type="dataset")
    assert {entry.path for entry in listed} == {"README.md", "data"}
    [shard] = api.list_repo_tree("org/demos", "data", repo_type="dataset")
    assert shard.lfs.size == shard.size > 0
    assert [ref.name for ref in api.list_repo_refs("org/demos", repo_type="dataset").branches]


def test_datasets_loads_demonstrations_from_it(hub, client, tmp_path):
    """In a separate process: the library reads the hub's address when it is imported."""
    import os
    import subprocess
    import sys

    hub.add_folder("dataset", "org/demos", DEMOS)
    script = (
        "import datasets\n"
        "rows = datasets.load_dataset('org/demos', split='train')\n"
        "print(len(rows), sum(rows[0]['rews']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **hub.environment(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    count, total = done.stdout.split()
    trajectories = read_demonstrations(DEMOS)
    assert int(count) == len(trajectories)
    np.testing.assert_allclose(float(total), trajectories[0].rews.sum(), rtol=1e-5)
