"""Source outside `sys.path` is imported as what it is now, and disturbs nothing."""

import os
import py_compile
import sys
from importlib.machinery import EXTENSION_SUFFIXES

import pytest

from imitbench.errors import InputError
from imitbench.util.source_import import (
    SourceLocation,
    import_source,
    is_source,
    register,
    source_digest,
    source_files,
)


@pytest.fixture
def load():
    """Registers a folder as it is, and imports a module of it."""

    def call(folder, module="learner", **options):
        place = SourceLocation(folder, **options)
        digest = place.digest
        register(digest, place)
        return import_source(digest, module, "algorithm mine")

    return call


def write(folder, **modules):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_modules_of_one_name_stay_apart(tmp_path, load):
    path = list(sys.path)
    one = load(write(tmp_path / "one", learner="from .helper import X", helper="X = 1"))
    two = load(write(tmp_path / "two", learner="from .helper import X", helper="X = 2"))
    assert (one.X, two.X) == (1, 2)
    assert one.__name__ != two.__name__
    assert sys.path == path
    assert "learner" not in sys.modules
    assert "helper" not in sys.modules


def test_the_same_source_is_imported_once(tmp_path, load):
    folder = write(tmp_path, learner="X = object()")
    assert load(folder).X is load(folder).X


def test_an_edit_within_the_same_second_counts(tmp_path, load):
    """Byte code is taken for its source where size and time agree; it is not read here."""
    folder = write(tmp_path, learner="X = 1")
    assert load(folder).X == 1
    stamp = (folder / "learner.py").stat()
    write(folder, learner="X = 2")
    os.utime(folder / "learner.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert load(folder).X == 2
    assert not (folder / "__pycache__").exists()


def test_source_that_changed_since_it_was_registered_is_refused(tmp_path):
    folder = write(tmp_path, learner="X = 1")
    place = SourceLocation(folder)
    digest = place.digest
    register(digest, place)
    write(folder, learner="raise SystemExit")
    with pytest.raises(InputError, match="has changed since the run was planned"):
        import_source(digest, "learner", "algorithm mine")


def test_source_that_nobody_named_is_refused():
    with pytest.raises(InputError, match="was not named on the command line"):
        import_source("0" * 64, "learner", "algorithm mine")


def test_a_package_initializes_itself(tmp_path, load):
    assert load(write(tmp_path, __init__="Y = 3", learner="from . import Y as X")).X == 3


def test_absolute_imports_of_neighbours_are_explained(tmp_path, load):
    with pytest.raises(InputError, match=r"imported as `from \. import helper`"):
        load(write(tmp_path, learner="import helper", helper=""))


def test_what_is_not_installed_is_named(tmp_path, load):
    with pytest.raises(InputError, match="needs module 'no_such_thing'"):
        load(write(tmp_path, learner="import no_such_thing"))


def test_tests_are_no_source_and_cannot_be_imported(tmp_path, load):
    folder = write(tmp_path, learner="from . import test_it", test_it="X = 1")
    digest = source_digest(folder)
    write(folder, test_it="X = 2")
    assert source_digest(folder) == digest
    with pytest.raises(
        InputError, match=r"test_it\.py: is a test, which is not part of the source"
    ):
        load(folder)


def test_byte_code_without_source_is_refused_unless_it_is_listed(tmp_path, load):
    folder = write(tmp_path, learner="from .helper import X", helper="X = 1")
    py_compile.compile(str(folder / "helper.py"), cfile=str(folder / "helper.pyc"))
    (folder / "helper.py").unlink()
    with pytest.raises(InputError, match=r"helper\.pyc: is not Python source.*under `sources`"):
        load(folder)
    assert load(folder, patterns=("*.pyc",)).X == 1


def test_extension_modules_are_refused_unless_they_are_listed(tmp_path, load):
    folder = write(tmp_path, learner="from . import helper")
    (folder / f"helper{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    with pytest.raises(InputError, match=r"helper.*: is not Python source"):
        load(folder)
    with pytest.raises(ImportError, match="helper"):  # by the loader, which finds no library
        load(folder, patterns=("helper.*",))


def test_modules_behind_links_are_source(tmp_path, load):
    helpers = write(tmp_path / "helpers", __init__="X = 1")
    folder = write(tmp_path / "mine", learner="from .helpers import X")
    (folder / "helpers").symlink_to(helpers)
    before = source_digest(folder)
    assert load(folder).X == 1
    write(helpers, __init__="X = 2")
    assert source_digest(folder) != before
    assert load(folder).X == 2


def test_a_module_that_came_later_is_refused(tmp_path, load):
    learner = load(write(tmp_path, learner="def late():\n    from . import new"))
    write(tmp_path, new="")
    with pytest.raises(ImportError, match=r"new\.py: is newer than the plan"):
        learner.late()


def test_installed_packages_keep_their_name(tmp_path, load):
    write(
        tmp_path / "imitbench_testpkg" / "inner",
        __init__="",
        learner="from imitbench_testpkg import Y",
    )
    write(tmp_path / "imitbench_testpkg", __init__="Y = 4")
    folder = tmp_path / "imitbench_testpkg" / "inner"
    module = load(folder, package="imitbench_testpkg.inner", root=tmp_path)
    assert module.__name__ == "imitbench_testpkg.inner.learner"
    assert module.Y == 4
    write(folder, learner="Y = 5")
    with pytest.raises(InputError, match="imported from other source earlier"):
        load(folder, package="imitbench_testpkg.inner", root=tmp_path)
    assert str(tmp_path) not in sys.path


class TestDigest:
    def test_place_and_time_do_not_matter_and_content_does(self, tmp_path):
        one = write(tmp_path / "one", a="1", b="2")
        two = write(tmp_path / "two", b="2", a="1")
        assert source_digest(one) == source_digest(two)
        write(two, b="3")
        assert source_digest(one) != source_digest(two)

    def test_names_matter(self, tmp_path):
        one, two = write(tmp_path / "one", a="1"), write(tmp_path / "two", b="1")
        assert source_digest(one) != source_digest(two)

    def test_other_files_count_where_they_are_named(self, tmp_path):
        folder = write(tmp_path, a="1")
        usual = source_digest(folder)
        (folder / "weights.npz").write_bytes(b"1")
        assert source_digest(folder) == usual
        named = source_digest(folder, ["*.npz"])
        (folder / "weights.npz").write_bytes(b"2")
        assert len({usual, named, source_digest(folder, ["*.npz"])}) == 3

    def test_links_that_lead_round_in_circles_end(self, tmp_path):
        folder = write(tmp_path / "mine", a="1")
        inner = write(folder / "inner", b="1")
        (inner / "up").symlink_to(folder)
        (folder / "here").symlink_to(folder)
        (folder / "same").symlink_to(inner)
        found = [path.relative_to(folder).as_posix() for path in source_files(folder)]
        assert found == ["a.py", "inner/b.py", "same/b.py"]

    def test_a_link_to_another_folder_of_the_same_counts(self, tmp_path):
        folder = write(tmp_path / "mine", a="1")
        one, two = write(folder / "one", b="1"), write(folder / "two", b="2")
        (folder / "chosen").symlink_to(one)
        before = source_digest(folder)
        (folder / "chosen").unlink()
        (folder / "chosen").symlink_to(two)
        assert source_digest(folder) != before

    def test_a_pipe_is_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.py")
        with pytest.raises(InputError, match=r"pipe\.py: is not a regular file"):
            source_digest(tmp_path)

    def test_settings_count(self, tmp_path):
        folder = write(tmp_path, a="1")
        assert source_digest(folder, settings={"run": ["a"]}) != source_digest(folder)

    @pytest.mark.parametrize("pattern", ["../*", "/etc/passwd", "absent.npz"])
    def test_patterns_stay_inside_and_match_something(self, tmp_path, pattern):
        with pytest.raises(InputError, match="pattern"):
            source_files(write(tmp_path, a="1"), [pattern])

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("learner.py", True),
            ("parts/layers.py", True),
            ("attest_x.py", True),
            ("test_learner.py", False),
            ("learner_test.py", False),
            ("tests/learner.py", False),
            ("conftest.py", False),
            ("__pycache__/learner.cpython.py", False),
            (".venv/lib/a.py", False),
            ("data.json", False),
        ],
    )
    def test_which_files_are_source(self, path, expected):
        from pathlib import PurePath

        assert is_source(PurePath(path)) is expected
