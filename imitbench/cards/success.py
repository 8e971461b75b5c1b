"""When an episode is a success: what an environment's info says of it, and where a card says so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from imitbench.cards.algorithm import Card

MeasureName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
"""Entry of `info` with a number that is averaged over episodes."""


class SuccessRule(Card):
    """How an episode is judged from the infos of its steps.

    Attributes:
        key: Entry of `info` that says whether the task is done: a truth value, or a number that
            is not 0.
        when: `ever`: an episode succeeds if a step of it says so; `end`: if its last step does.
    """

    key: Annotated[str, Field(min_length=1, max_length=80)]
    when: Literal["ever", "end"]

    def __str__(self) -> str:
        at = "a step says" if self.when == "ever" else "the last step says"
        return f"{at} {self.key}"

    def read(self, info: Mapping[str, Any]) -> bool | None:
        """Returns what a step says; `None` if its info has no such entry.

        Raises:
            ValueError: The entry is no single number or truth value; NaN is none.
        """
        said = value = info.get(self.key)
        if value is None:
            return None
        if getattr(value, "size", 0) == 1:  # of an array or scalar of NumPy
            value = value.item()
        if not isinstance(value, (bool, int, float)) or math.isnan(value):
            raise ValueError(f"info['{self.key}'] is {said!r}, not a truth value")
        return bool(value)


class CardSuccess(SuccessRule):
    """Success on a suite card.

    Attributes:
        headline: Whether the share of successful episodes is the score: 0 for none, 1 for all. If
            not, success stands beside scores of returns. All environments of a suite have the same
            headline.
    """

    headline: bool = True

    def __str__(self) -> str:
        shown = "the score" if self.headline else "beside the score"
        return f"{super().__str__()}; the share of episodes is {shown}"

    @property
    def rule(self) -> SuccessRule:
        """The part that determines what is measured."""
        return SuccessRule(key=self.key, when=self.when)
