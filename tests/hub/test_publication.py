"""Publications: which files are selected, and how cards are changed."""

import pytest

from imitbench.errors import InputError
from imitbench.hub.publication import check_for_tokens, choose_files
from imitbench.hub.repo_card import RepoCard

PATTERNS = ("README.md", "data/train-*.parquet", ".env")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "set"
    for name in (
        "README.md", "notes.txt", ".env", ".cache/README.md", "data/train-0.parquet",
        "data/test-0.parquet", "checkpoint/README.md", "data/.train-1.parquet",
    ):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_only_listed_files_are_selected_and_no_hidden_ones(folder):
    chosen, rest = choose_files(folder, PATTERNS)
    assert chosen == {
        "README.md": folder / "README.md",
        "data/train-0.parquet": folder / "data" / "train-0.parquet",
    }
    assert rest == [
        ".cache/", ".env", "checkpoint/", "data/.train-1.parquet", "data/test-0.parquet",
        "notes.txt",
    ]  # fmt: skip


@pytest.mark.parametrize("link", ["README.md", "data"])
def test_a_link_is_refused(folder, tmp_path, link):
    (folder / link).rename(tmp_path / "elsewhere")
    (folder / link).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="a link, which may lead anywhere"):
        choose_files(folder, PATTERNS)


def test_links_among_the_rest_do_not_matter(folder, tmp_path):
    (folder / "other").symlink_to(tmp_path)
    (folder / "dangling").symlink_to(tmp_path / "nowhere")
    _, rest = choose_files(folder, PATTERNS)
    assert {"other/", "dangling"} <= set(rest)


def test_the_folder_itself_may_be_reached_by_a_link(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert choose_files(tmp_path / "link", PATTERNS)[0]


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        choose_files(tmp_path / "none", PATTERNS)


@pytest.mark.parametrize("token", ["hf_" + "a1" * 17, "ghp_" + "Z9" * 18, "AKIA" + "A" * 16])
def test_access_tokens_are_found(tmp_path, token):
    (tmp_path / "config.yml").write_text(f"wandb: {token}\n")
    with pytest.raises(InputError, match="an access token") as caught:
        check_for_tokens([tmp_path / "config.yml"])
    assert token not in str(caught.value)


def test_ordinary_text_is_not_a_token(tmp_path):
    (tmp_path / "config.yml").write_text("hf_home: x\ndigest: " + "a1" * 32)
    check_for_tokens([tmp_path / "config.yml"])


CARD = "---\nlicense: mit\ntags:\n- mine\n---\n# Title\n\nText.\n"


def test_a_card_that_is_not_changed_stays_the_same():
    assert RepoCard.parse(CARD).render() == CARD


def test_a_card_without_metadata_gets_some():
    card = RepoCard.parse("# Title\n")
    card.add_tags("imitbench")
    assert card.render() == "---\ntags:\n- imitbench\n---\n# Title\n"


def test_tags_are_added_once():
    card = RepoCard.parse(CARD)
    card.add_tags("imitbench", "mine")
    card.add_tags("imitbench")
    assert card.metadata["tags"] == ["mine", "imitbench"]


def test_a_section_replaces_the_older_one():
    card = RepoCard.parse(CARD + "\n## Use\n\nOld.\n\n### Part\n\nOld.\n\n## More\n\nMore.\n")
    card.set_section("Use", "New.\n")
    assert card.text == "# Title\n\nText.\n\n## More\n\nMore.\n\n## Use\n\nNew.\n"
    card.set_section("Use", None)
    assert card.text == "# Title\n\nText.\n\n## More\n\nMore.\n"


@pytest.mark.parametrize(
    ("whole", "metadata", "text"),
    [
        ("---\nlicense: mit\n---", {"license": "mit"}, ""),
        ("---\n---\n# Title\n", {}, "# Title\n"),
        ("---\n# none yet\n---\n# Title", {}, "# Title"),
    ],
)
def test_metadata_may_be_empty_or_end_the_file(whole, metadata, text):
    assert RepoCard.parse(whole) == RepoCard(metadata, text)


def test_a_text_below_a_line_is_no_metadata():
    with pytest.raises(InputError, match="metadata between ---"):
        RepoCard.parse("---\n# Title\n")


@pytest.mark.parametrize("head", ["a: [", "- a", "text"])
def test_malformed_metadata_is_reported(tmp_path, head):
    (tmp_path / "README.md").write_text(f"---\n{head}\n---\n# Title\n")
    with pytest.raises(InputError, match="metadata between ---") as caught:
        RepoCard.read(tmp_path / "README.md")
    assert "\n" not in str(caught.value)
