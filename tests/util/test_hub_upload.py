"""The hub's real client against a hub on the loopback interface: what is put there, and told."""

import pytest
from support.hub import serve_hub

from imitbench.errors import InputError
from imitbench.util import hub_upload
from imitbench.util.hub_errors import UnreachableError

REPO = "me/thing"
CONTENT = {
    "README.md": b"---\nlicense: mit\ntags:\n- imitbench\n---\n# A thing\n",
    "data/train.parquet": b"rows" * 100,
    "data/more.parquet": b"more rows" * 100,
    "notes.json": b"{}",
}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with serve_hub() as hub:
        hub.point_client_here(monkeypatch, tmp_path / "cache")
        hub.writers = {"hf_mine": {"me"}}
        monkeypatch.setenv("HF_TOKEN", "hf_mine")
        yield hub


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """Pauses take no time; they are noted."""
    noted = []
    monkeypatch.setattr("time.sleep", noted.append)
    return noted


@pytest.fixture
def files(tmp_path):
    """Makes the files of an upload."""

    def make(content=CONTENT):
        paths = {name: tmp_path / "files" / name for name in content}
        for name, path in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content[name])
        return paths

    return make


def upload(files, repo=REPO, **options):
    options = {
        "kind": "dataset",
        "message": "a thing",
        "owned": ["data/*"],
        "tag": "imitbench",
    } | options
    return hub_upload.upload_files(repo, files, **options)


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_a_repository_is_made_and_filled_in_one_commit(hub, files, kind):
    done = upload(files(), kind=kind)
    assert hub.files(kind, REPO) == {".gitattributes": b"", **CONTENT}
    assert done.commit == hub.resolve(kind, REPO, "main")
    assert done.url.endswith(f"{'datasets/' * (kind == 'dataset')}{REPO}/commit/{done.commit}")
    assert (done.created, done.changed, done.removed) == (True, True, ())
    assert hub.messages == ["a thing"]
    assert hub.count("PUT /store/") == 2


def test_the_same_again_changes_nothing(hub, files):
    first = upload(files())
    again = upload(files())
    assert (again.commit, again.created, again.changed) == (first.commit, False, False)
    assert hub.count("PUT /store/") == 2
    assert len(hub.messages) == 1


def test_only_what_changed_is_uploaded(hub, files):
    upload(files())
    changed = upload(files({**CONTENT, "data/more.parquet": b"other rows"}))
    assert changed.changed
    assert hub.files("dataset", REPO)["data/more.parquet"] == b"other rows"
    assert hub.count("PUT /store/") == 3


def test_what_an_earlier_upload_left_is_removed_in_the_same_commit(hub, files):
    upload(files())
    fewer = {name: each for name, each in CONTENT.items() if "/" not in name or "train" in name}
    fewer.pop("notes.json")
    done = upload(files(fewer))
    assert done.removed == ("data/more.parquet",)
    assert set(hub.files("dataset", REPO)) == {".gitattributes", "notes.json", *fewer}
    assert len(hub.messages) == 2


@pytest.mark.parametrize(
    "present",
    [
        {"model.bin": b""},
        {"data/theirs.parquet": b"", "README.md": b"# no tags"},
        {"model.bin": b"", "README.md": CONTENT["README.md"]},
    ],
    ids=["other files", "without the tag", "of another kind"],
)
def test_work_of_another_kind_is_left_alone(hub, files, present):
    hub.add_dataset(REPO, present)
    with pytest.raises(InputError, match="with files that are not from such a push"):
        upload(files())
    assert hub.files("dataset", REPO) == present


def test_a_repository_with_a_card_alone_may_be_filled(hub, files):
    hub.add_dataset(REPO, {".gitattributes": b"", "README.md": b"# coming soon"})
    assert not upload(files()).created


def test_models_and_datasets_of_one_name_are_apart(hub, files):
    hub.add_model(REPO, {"model.bin": b""})
    assert upload(files()).created
    assert hub.files("model", REPO) == {"model.bin": b""}


def test_a_private_repository_is_made_and_never_a_public_one_used(hub, files):
    assert upload(files(), private=True).created
    assert hub.private == {REPO: "hf_mine"}
    assert not upload(files(), private=True).created
    hub.add_dataset("me/public", {})
    with pytest.raises(InputError, match="exists already and is public"):
        upload(files(), "me/public", private=True)


def test_no_token_is_told_and_nobody_asked(hub, files, monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(InputError, match="no token; set HF_TOKEN"):
        upload(files())
    assert hub.requests == []


@pytest.mark.parametrize(
    ("token", "repo", "message"),
    [
        ("hf_wrong", REPO, r"rejects the token \(401\)"),
        ("hf_mine", "you/thing", r"may not write there \(403\)"),
    ],
)
@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
def test_a_token_that_may_not_is_told(hub, files, monkeypatch, token, repo, message, there):
    if there:
        hub.add_dataset(repo, {})
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(InputError, match=message) as caught:
        upload(files(), repo)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("step", ["GET /api/datasets/", "POST /api/repos", "POST .*/commit"])
@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_hub_is_waited_for(hub, files, pauses, step, status):
    hub.fail(step, status, times=2)
    assert upload(files()).changed
    assert pauses
    assert hub.files("dataset", REPO) == {".gitattributes": b"", **CONTENT}


def test_an_upload_that_breaks_off_goes_on_with_the_same_call(hub, files):
    hub.fail("POST .*/commit", 503, times=1000)
    with pytest.raises(UnreachableError, match=r"the upload was interrupted .*503"):
        upload(files())
    assert hub.files("dataset", REPO) == {".gitattributes": b""}
    assert hub.count("PUT /store/") == 2
    hub.faults.clear()
    done = upload(files())
    assert (done.created, done.changed) == (False, True)
    assert hub.files("dataset", REPO) == {".gitattributes": b"", **CONTENT}
    assert hub.count("PUT /store/") == 2


def test_one_large_file_that_fails_fails_the_upload(hub, files):
    hub.fail("PUT /store/", 403, times=1)
    with pytest.raises(InputError, match="403"):
        upload(files())
    assert hub.files("dataset", REPO) == {".gitattributes": b""}
    upload(files())
    assert hub.files("dataset", REPO) == {".gitattributes": b"", **CONTENT}


def test_a_hub_that_is_down_is_told(hub, files):
    hub.stop()
    with pytest.raises(UnreachableError, match="the upload was interrupted"):
        upload(files())


def test_offline_mode_forbids_uploads(hub, files, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UnreachableError, match="forbids uploading"):
        upload(files())
    assert hub.requests == []


def test_a_card_that_the_hub_refuses_is_told(hub, files):
    hub.fail("POST /api/validate-yaml", 400)
    with pytest.raises(InputError, match=r"the upload was refused .*metadata in README\.md"):
        upload(files())


@pytest.mark.parametrize("name", ["thing", "a/b/c", "me/", "me/th ing", "me/.git", "../x"])
def test_what_is_no_name_is_told(name):
    with pytest.raises(InputError, match=r"owner/name|not a valid repository name"):
        hub_upload.check_repository_name(name)


def test_a_name_is_checked_without_asking(hub):
    hub_upload.check_repository_name("me/ppo-seals-CartPole-v0")
    assert hub_upload.repository_url("dataset", "me/x") == f"{hub.url}/datasets/me/x"
    assert hub.requests == []
