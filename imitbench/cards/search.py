"""The search space of a hyper-parameter, on an algorithm's card."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, model_validator

Value = bool | int | float | str | None


class SearchSpace(BaseModel):
    """The search space of one hyper-parameter: a range of numbers, or a list of values.

    Attributes:
        low: Smallest value of a range.
        high: Largest value of a range.
        log: Whether a range is searched on a logarithmic scale.
        step: Distance between the integers of a range.
        choices: List of values, instead of a range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    step: int | None = None
    choices: list[Value] | None = None

    @model_validator(mode="after")
    def _is_one_space(self) -> SearchSpace:
        if self.choices is not None:
            if (self.low, self.high, self.step, self.log) != (None, None, None, False):
                raise ValueError("choices cannot be combined with low, high, log and step")
            distinct = {(type(value), value) for value in self.choices}
            if len(self.choices) < 2 or len(distinct) < len(self.choices):
                raise ValueError("choices must be two or more different values")
            return self
        if self.low is None or self.high is None:
            raise ValueError("needs low and high, or choices")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low must be less than high, not {self.low!r} and {self.high!r}")
        if self.log and self.low <= 0:
            raise ValueError(f"low must be above 0 if log is true, not {self.low!r}")
        if self.step is not None and (self.log or self.step < 1):
            raise ValueError("step must be at least 1, and cannot be combined with log")
        return self

    def __contains__(self, value: object) -> bool:
        """Whether a value is in the search space."""
        if self.choices is not None:
            return any(value == each and type(value) is type(each) for each in self.choices)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        assert self.low is not None
        assert self.high is not None
        on_grid = self.step is None or (value - self.low) % self.step == 0
        return self.low <= value <= self.high and on_grid

    def __str__(self) -> str:
        if self.choices is not None:
            return ", ".join("null" if each is None else str(each) for each in self.choices)
        how = " (log)" if self.log else f" by {self.step}" if self.step else ""
        return f"{self.low:g} to {self.high:g}{how}"
