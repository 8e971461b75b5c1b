"""Describes what pydantic found wrong with a record."""

from __future__ import annotations

from pydantic import ValidationError

from imitbench.util.text_line import one_line


def first_problem(error: ValidationError) -> str:
    """Returns the first problem in one line, with the path of its field: `design.batch: …`."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    return one_line(f"{where}: {message}" if where else message)
