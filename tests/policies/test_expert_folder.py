"""Settings with tags for Python objects are read as plain values."""

import pytest

from imitbench.errors import InputError
from imitbench.policies.expert_folder import read_tagless_mapping


def read(tmp_path, text):
    path = tmp_path / "args.yml"
    path.write_text(text)
    return read_tagless_mapping(path)


def test_plain_mappings_come_as_they_are(tmp_path):
    assert read(tmp_path, "a: 1\nb: [x, null]\n") == {"a": 1, "b": ["x", None]}
    assert read(tmp_path, "") == {}


def test_an_ordered_dictionary_is_the_mapping_that_it_stands_for(tmp_path):
    text = (
        "!!python/object/apply:collections.OrderedDict\n- - - algo\n    - ppo\n  - - n\n    - 3\n"
    )
    assert read(tmp_path, text) == {"algo": "ppo", "n": 3}


def test_tags_execute_nothing(tmp_path):
    mark = tmp_path / "executed"
    text = (
        f"a: !!python/object/apply:os.system ['touch {mark}']\n"
        f"b: !!python/object/new:subprocess.Popen {{args: [touch, {mark}]}}\n"
        "c: !!python/name:os.system ''\n"
        "d: !!python/tuple [1, 2]\n"
    )
    found = read(tmp_path, text)
    assert found["a"] == [f"touch {mark}"]
    assert found["d"] == [1, 2]
    assert not mark.exists()


def test_real_files_are_read(shared_dir):
    folder = shared_dir / "hub-fixtures/rl-zoo/ppo-HalfCheetah-v3"
    assert read_tagless_mapping(folder / "args.yml")["env"] == "HalfCheetah-v3"
    assert read_tagless_mapping(folder / "config.yml")["normalize"] is True


@pytest.mark.parametrize(
    "text", ["- 1\n- 2\n", "7", "a: [", "[" * 5000, "- - 1\n", "a: b: c", "x" * (2**20 + 1)]
)
def test_what_is_no_mapping_is_told_in_one_line(tmp_path, text):
    with pytest.raises(InputError, match=r"args\.yml") as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_an_absent_file_is_told(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_tagless_mapping(tmp_path / "absent.yml")
