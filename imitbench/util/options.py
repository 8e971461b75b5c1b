"""Records of options, each declared once for the command line and the Python API.

The command line makes an option of each field (`imitbench.cli.record_options`), and
`OptionRecord.of` accepts the fields as keywords. Both use the same names: `--fail-fast` on the
command line is the keyword `fail_fast`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from imitbench.errors import InputError

_Record = TypeVar("_Record", bound="OptionRecord")


@dataclass(frozen=True)
class Option:
    """Declares how the value of a field is given.

    Attributes:
        help: One line for `--help`.
        keyword: Name of the keyword and of the option; by default that of the field.
        kind: Type of the given value; by default that of the field.
        read: Converts the given value, unless it is `None`, to the field's value.
        unit: Factor from the given number to the field's value.
        metavar: Placeholder of the value in `--help`.
        letter: Short form of the option, as in `-j`.
        field: Name of the field; this and the following are set by the record.
        default: Value if none is given; `...` for required options.
        least: Smallest accepted number; `None` for any.
    """

    help: str
    keyword: str = ""
    kind: Any = None
    read: Callable[[Any], Any] | None = None
    unit: float | None = None
    metavar: str | None = None
    letter: str | None = None
    field: str = ""
    default: Any = None
    least: float | None = None

    @property
    def flag(self) -> str:
        """Name on the command line, such as `--fail-fast`."""
        return f"--{self.keyword.replace('_', '-')}"

    def value(self, given: Any) -> Any:
        """Converts a given value, which is not `None`, to the field's value.

        Raises:
            InputError: The value is malformed.
        """
        if self.read is not None:
            return self.read(given)
        return given if self.unit is None else self.unit * given


class OptionRecord(BaseModel):
    """A frozen record whose fields have an `Option` in their annotation."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def options(cls) -> dict[str, Option]:
        """The options by keyword, in the order of the fields."""
        found = {}
        for name, field in cls.model_fields.items():
            for option in (part for part in field.metadata if isinstance(part, Option)):
                default: Any = ... if field.is_required() else field.get_default()
                if option.read is not None and default is not ...:
                    default = None
                elif option.unit is not None:
                    default = default / option.unit
                bounds = [part.ge for part in field.metadata if hasattr(part, "ge")]
                found[option.keyword or name] = dataclasses.replace(
                    option,
                    keyword=option.keyword or name,
                    kind=option.kind or field.annotation,
                    field=name,
                    default=default,
                    least=bounds[0] if bounds else None,
                )
        return found

    @classmethod
    def of(cls: type[_Record], given: Mapping[str, Any]) -> _Record:
        """Creates a record from given options.

        Args:
            given: Values by keyword; options that are missing or `None` have their default.

        Raises:
            TypeError: A keyword is unknown.
            InputError: A value is wrong.
        """
        options = cls.options()
        unknown = [keyword for keyword in given if keyword not in options]
        if unknown:
            raise TypeError(f"unexpected keyword argument '{unknown[0]}'")
        values = {
            options[keyword].field: options[keyword].value(value)
            for keyword, value in given.items()
            if value is not None
        }
        try:
            return cls(**values)
        except ValidationError as error:
            [first, *_] = error.errors()
            option = next(option for option in options.values() if option.field == first["loc"][0])
            shown = given.get(option.keyword)
            raise InputError(f"{option.flag} {shown}: {first['msg']}") from error
