"""A record's fields are options by their keyword, and what is given is read once."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from imitbench.errors import InputError
from imitbench.util.options import Option, OptionRecord


class Naps(OptionRecord):
    place: Annotated[str, Option("Where.")]
    length_s: Annotated[
        float, Field(ge=0.0), Option("How long.", keyword="minutes", unit=60.0, metavar="N")
    ] = 90.0
    days: Annotated[
        tuple[str, ...], Option("When.", kind=str | None, read=lambda text: tuple(text.split(",")))
    ] = ()
    depth: Annotated[str, Option("How deep.", kind=Literal["light", "deep"], letter="-d")] = "light"
    note: str = "no option"


def test_options_are_told_by_keyword_with_the_default_that_would_be_given():
    options = Naps.options()
    assert list(options) == ["place", "minutes", "days", "depth"]
    assert [each.default for each in options.values()] == [..., 1.5, None, "light"]
    assert [each.least for each in options.values()] == [None, 0.0, None, None]
    assert options["minutes"].flag == "--minutes"
    assert (options["place"].kind, options["depth"].letter) == (str, "-d")


def test_what_is_given_is_read():
    naps = Naps.of({"place": "sofa", "minutes": 2, "days": "sat,sun", "depth": None})
    assert naps == Naps(place="sofa", length_s=120.0, days=("sat", "sun"))


def test_a_wrong_name_or_value_is_told_by_the_name_that_was_given():
    with pytest.raises(TypeError, match="unexpected keyword argument 'plaice'"):
        Naps.of({"plaice": "sofa"})
    with pytest.raises(InputError, match=r"^--minutes -1: .*greater than or equal to 0"):
        Naps.of({"place": "sofa", "minutes": -1})
    with pytest.raises(InputError, match=r"^--place 3: .*string"):
        Naps.of({"place": 3})
