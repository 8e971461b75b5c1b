"""The algorithm card: what a method is, what it needs, and its hyper-parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from imitbench.cards.origin import Origin
from imitbench.cards.search import Search
from imitbench.errors import InputError, did_you_mean
from imitbench.util.numbers import INTEGERS, Finite, Integer

Scalar = bool | Integer | Finite | str | None
"""A hyper-parameter or keyword value that survives YAML, JSON and the command line."""

BudgetUnit = Literal["env_steps", "batches", "none"]
"""What a budget counts; `none` for learners that do not train."""

ActionSpace = Literal["discrete", "multi_discrete", "box"]
"""Kinds of action space: one choice, several at once, or numbers."""

Role = Literal["method", "reference", "control", "anchor"]

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
}


class Card(BaseModel):
    """Base of every card model: frozen, strict types, unknown keys rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Paper(Card):
    """Where a method was published."""

    title: str
    authors: str
    year: int
    url: str


class Needs(Card):
    """What a method must be given.

    Attributes:
        demos: Demonstrations of the expert.
        expert: The expert itself, to be queried.
        true_reward: The environment's own reward; flagged in reports.
        action_spaces: Kinds of action space it can act in.
        tabular: The model of a tabular environment.
        fixed_horizon: Episodes that all have the same length.
    """

    demos: bool
    expert: bool = False
    true_reward: bool = False
    action_spaces: list[ActionSpace]
    tabular: bool = False
    fixed_horizon: bool = False


class Hyperparameter(Card):
    """One typed hyper-parameter.

    Attributes:
        type: Python type of its value.
        default: Value when nothing else is asked for; `null` where `optional` says so.
        help: One line for people.
        optional: Whether `null` is accepted.
        min: Least accepted number.
        max: Greatest accepted number.
        choices: The only accepted values, for text.
        search: Where tuning looks for values; `null` where it keeps the default.
        absent: Value that runs had before the card knew this key, if it is a later one. Records
            leave such a key out where it has this value, so that identities stay what they were.
    """

    type: Literal["bool", "int", "float", "str"]
    default: Scalar
    help: str
    optional: bool = False
    min: float | None = None
    max: float | None = None
    choices: list[str] | None = None
    search: Search | None = None
    absent: Scalar = None

    @property
    def may_be_absent(self) -> bool:
        """Whether records without this key say what its value was; `null` may be that value."""
        return "absent" in self.model_fields_set

    @model_validator(mode="after")
    def _search_is_accepted(self) -> Hyperparameter:
        space = self.search
        if space is None:
            return self
        if space.choices is None and self.type not in ("int", "float"):
            raise ValueError(f"search: a {self.type} has no range; list its choices")
        if space.step is not None and self.type != "int":
            raise ValueError(f"search: step goes with int only, not with {self.type}")
        ends: list[tuple[str, Scalar]] = [("low", space.low), ("high", space.high)]
        listed = enumerate(space.choices or ())
        named = [(f"choices.{place}", each) for place, each in listed]
        for where, value in named or ends:
            try:
                self.check(value)
            except ValueError as error:
                raise ValueError(f"search.{where} {error}") from None
        if self.default not in space:
            raise ValueError(
                f"search: lacks the default {self.default!r}, with which every search begins"
            )
        return self

    def check(self, value: Scalar) -> Scalar:
        """Returns `value` in this parameter's type.

        Args:
            value: A value from a card or from `--set`.

        Raises:
            ValueError: Wrong type or out of range; the message completes "must …".
        """
        if value is None:
            if self.optional:
                return None
            raise ValueError(f"must be {self.type}, not null")
        accepted = _PYTHON_TYPES[self.type]
        if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
            raise ValueError(f"must be {self.type}, not {value!r}")
        if isinstance(value, int) and value not in INTEGERS:
            raise ValueError("must be a number of 64 bits")
        if self.type == "float" and isinstance(value, int):
            value = float(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"must be finite, not {value!r}")
        if self.min is not None and isinstance(value, int | float) and not value >= self.min:
            raise ValueError(f"must be at least {self.min:g}, not {value!r}")
        if self.max is not None and isinstance(value, int | float) and not value <= self.max:
            raise ValueError(f"must be at most {self.max:g}, not {value!r}")
        if self.choices is not None and value not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}, not {value!r}")
        return value

    def parse(self, text: str) -> Scalar:
        """Reads a value given as text on the command line.

        Raises:
            ValueError: The text is no value of this parameter; completes "must …".
        """
        if self.optional and text.lower() in ("null", "none"):
            return None
        if self.type == "bool":
            words = {"true": True, "false": False}
            if text.lower() not in words:
                raise ValueError(f"must be true or false, not '{text}'")
            return words[text.lower()]
        if self.type == "str":
            return self.check(text)
        try:
            number: Scalar = int(text) if self.type == "int" else float(text)
        except ValueError:
            raise ValueError(f"must be {self.type}, not '{text}'") from None
        return self.check(number)


class CommandRecipe(Card):
    """A program of its own that trains, in whatever language (see `bench.learners.command`).

    Attributes:
        run: The program and its arguments, started in the card's folder; `python` stands for
            the interpreter that runs the harness. The task's file follows as last argument.
        checkpoints: Whether it keeps files from which it goes on after an interruption.
        timeout_minutes: Longest that it may take; `null` for as long as it likes.
    """

    run: list[str] = Field(min_length=1)
    checkpoints: bool = False
    timeout_minutes: float | None = Field(default=None, gt=0)


class AlgorithmCard(Card):
    """The card of one algorithm (`algorithms/<name>/card.yaml`).

    Attributes:
        implementation: Learner class as `module:Class`. On the card of a plug-in, the module is
            one beside the card, or one of this package.
        command: The program that trains, for the implementation that starts one.
        sources: Globs of files beside the card, other than Python's, that the method depends on;
            they count as its source.
        budget_unit: What the suite's budget counts for this method; `none` when it does not
            train.
        role: A `method` contends. An `anchor` shows what scores 0 and 1 look like. A `control` is
            trained without any teaching, and shows what an environment gives away; suites name
            the ones that belong to them. A `reference` shows what methods could reach at best, by
            means that they do not have.
        earlier_defaults: Defaults that the card had before, those that were others, each time that
            it changed. Published results with these stay valid under the name that they have.
        seconds_per_1000: Rough training seconds per 1,000 budget units on one core, for
            `--dry-run` until finished runs tell better.
    """

    schema_version: Literal[1]
    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    title: str
    summary: str
    paper: Paper | None = None
    implementation: str = Field(pattern=r"^[\w.]+:\w+$")
    command: CommandRecipe | None = None
    sources: list[str] = Field(default_factory=list)
    needs: Needs
    budget_unit: BudgetUnit
    role: Role = "method"
    seconds_per_1000: float = Field(ge=0)
    hyperparameters: dict[str, Hyperparameter] = Field(default_factory=dict)
    earlier_defaults: list[dict[str, Scalar]] = Field(default_factory=list)
    _origin: Origin | None = PrivateAttr(default=None)

    @property
    def origin(self) -> Origin:
        """Where it was read from."""
        assert self._origin is not None, "the loaders of cards say where they come from"
        return self._origin

    def found_at(self, origin: Origin) -> AlgorithmCard:
        """The same card, which knows where it comes from."""
        card = self.model_copy()
        card._origin = origin
        return card

    @property
    def search_space(self) -> dict[str, Search]:
        """Where tuning looks, by hyper-parameter."""
        return {
            name: parameter.search
            for name, parameter in self.hyperparameters.items()
            if parameter.search is not None
        }

    @model_validator(mode="after")
    def _defaults_are_valid(self) -> AlgorithmCard:
        for name, parameter in self.hyperparameters.items():
            given = {"default": parameter.default}
            if parameter.may_be_absent:
                given["absent"] = parameter.absent
            for key, value in given.items():
                try:
                    parameter.check(value)
                except ValueError as error:
                    raise ValueError(f"hyperparameters.{name}.{key} {error}") from None
        return self

    @model_validator(mode="after")
    def _earlier_defaults_are_valid(self) -> AlgorithmCard:
        for place, values in enumerate(self.earlier_defaults):
            for name, value in values.items():
                where = f"earlier_defaults.{place}.{name}"
                if name not in self.hyperparameters:
                    raise ValueError(f"{where}: there is no such hyper-parameter")
                try:
                    self.hyperparameters[name].check(value)
                except ValueError as error:
                    raise ValueError(f"{where} {error}") from None
        return self

    def earlier_values(self) -> list[dict[str, Scalar]]:
        """Every hyper-parameter's default, as the card had them before, each time."""
        return [{**self.resolve({}), **self._checked(values)} for values in self.earlier_defaults]

    def _checked(self, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
        return {name: self.hyperparameters[name].check(value) for name, value in values.items()}

    def recorded(self, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Hyper-parameters as records have them: without later keys that change nothing.

        Args:
            values: Hyper-parameters.
        """
        return {
            name: value
            for name, value in values.items()
            if not (
                (parameter := self.hyperparameters.get(name))
                and parameter.may_be_absent
                and value == parameter.check(parameter.absent)
            )
        }

    def completed(self, recorded: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Hyper-parameters of a record with the later keys that it leaves out.

        Args:
            recorded: Hyper-parameters as `recorded` gives them, or as an earlier version of the
                card had them.

        Returns:
            Those of the card in its order, as far as they are known; then the others.
        """
        found: dict[str, Scalar] = {}
        for name, parameter in self.hyperparameters.items():
            if name in recorded:
                found[name] = recorded[name]
            elif parameter.may_be_absent:
                found[name] = parameter.check(parameter.absent)
        return found | {name: value for name, value in recorded.items() if name not in found}

    def changed(
        self, values: Mapping[str, Scalar], base: Mapping[str, Scalar] | None = None
    ) -> dict[str, Scalar]:
        """Those of some hyper-parameters that are not the card's, in the card's order.

        Args:
            values: Hyper-parameters.
            base: What to compare with instead of the card's defaults: every hyper-parameter.
        """
        usual = self.resolve({}) if base is None else base
        return {
            name: values[name]
            for name in self.hyperparameters
            if name in values and values[name] != usual[name]
        }

    def resolve(
        self, overrides: dict[str, str], base: Mapping[str, Scalar] | None = None
    ) -> dict[str, Scalar]:
        """Completes command-line settings with the card's defaults.

        Args:
            overrides: Parameter names and values as text.
            base: Values to start from instead of the defaults: every hyper-parameter.

        Returns:
            Every hyper-parameter with a value of its type, in the card's order.

        Raises:
            InputError: An unknown name or a value of the wrong type or range.
        """
        values: dict[str, Scalar] = {
            name: parameter.check(parameter.default if base is None else base[name])
            for name, parameter in self.hyperparameters.items()
        }
        for name, text in overrides.items():
            if name not in values:
                raise InputError(
                    f"--set {name}: {self.name} has no such hyper-parameter; "
                    f"{did_you_mean(name, values)}"
                )
            try:
                values[name] = self.hyperparameters[name].parse(text)
            except ValueError as error:
                raise InputError(f"--set {name}: {self.name}.{name} {error}") from None
        return values
