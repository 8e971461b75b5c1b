"""Durations and sizes are read as people mean them, or refused with an example."""

import pytest

from imitbench.errors import InputError
from imitbench.util.quantities import parse_duration, parse_size, show_duration, show_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45s", 45), ("90m", 5400), ("2h", 7200), ("1h30m", 5400), ("1d 2h", 93600),
        ("30", 1800), ("0.5", 30), ("1.5h", 5400), ("2 H", 7200), ("10min", 600),
    ],
)  # fmt: skip
def test_durations(text, seconds):
    assert parse_duration(text, option="--timeout") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "x", "-5m", "0", "5 parsecs", "1h30", "1h,5m", "m", "nan"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(InputError, match=r"--timeout .*must be a duration such as"):
        parse_duration(text, option="--timeout")


@pytest.mark.parametrize(
    ("text", "size"),
    [("4G", 4 * 2**30), ("800M", 800 * 2**20), ("1.5GiB", 3 * 2**29), ("2gb", 2**31),
     ("1T", 2**40), ("2000000K", 2000000 * 2**10), ("4 G", 2**32)],
)  # fmt: skip
def test_sizes(text, size):
    assert parse_size(text, option="--max-mem") == size


@pytest.mark.parametrize("text", ["", "4", "4 elephants", "-4G", "100K", "G", "4096"])
def test_what_is_no_size_or_has_lost_its_unit_is_refused(text):
    with pytest.raises(InputError, match=r"--max-mem .*with its unit such as 800M"):
        parse_size(text, option="--max-mem")


def test_they_are_shown_as_people_say_them():
    assert show_size(int(4.2 * 2**30)) == "4.2 GiB"
    assert show_size(800 * 2**20) == "800 MiB"
    assert show_size(12 * 2**10) == "12 KiB"
    assert show_size(2**20 - 1) == "1 MiB"
    assert show_size(70) == "70 B"
    assert [show_duration(s) for s in (5400, 7200, 45, 2.5)] == ["90m", "2h", "45s", "2.5s"]
