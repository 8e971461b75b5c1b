"""The algorithm card: what a method is, what it needs, and its hyper-parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from imitbench.errors import InputError, did_you_mean
from imitbench.util.extras import check_extra
from imitbench.util.numbers import INTEGERS, Finite, Integer
from imitbench.util.source_import import SourceLocation

if TYPE_CHECKING:
    from typing_extensions import Self

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
            return any(value == choice and type(value) is type(choice) for choice in self.choices)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        assert self.low is not None
        assert self.high is not None
        on_grid = self.step is None or (value - self.low) % self.step == 0
        return self.low <= value <= self.high and on_grid

    def __str__(self) -> str:
        if self.choices is not None:
            return ", ".join("null" if choice is None else str(choice) for choice in self.choices)
        how = " (log)" if self.log else f" by {self.step}" if self.step else ""
        return f"{self.low:g} to {self.high:g}{how}"


@dataclass(frozen=True)
class Origin:
    """Source of a card.

    Attributes:
        folder: Folder with the card.
        reference: What the user can type for it in any working folder.
        source: Location of the source of the module, if outside this package.
        digest: SHA-256 of that source.
    """

    folder: Path
    reference: str
    source: SourceLocation | None = None
    digest: str | None = None


Scalar = bool | Integer | Finite | str | None
"""A hyper-parameter or keyword value that YAML, JSON and the command line can express."""

BudgetUnit = Literal["env_steps", "replay_steps", "batches", "none"]
"""Unit of a budget: environment steps; environment steps of methods that learn each of them many
times, from a replay buffer, so that they need fewer; optimizer batches; `none` for learners that
do not train."""
STEP_UNITS: tuple[BudgetUnit, ...] = ("env_steps", "replay_steps")
"""Units that count environment steps."""

ActionSpace = Literal["discrete", "multi_discrete", "box"]
"""Kinds of action space, by their names in gymnasium."""

Role = Literal["method", "reference", "control", "anchor"]

_MOST_SECONDS_PER_1000 = 1e9  # 32 years, so that sums are finite numbers
_MOST_MINUTES = 1e7

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
    """Publication of a method."""

    title: str
    authors: str
    year: int
    url: str


class Needs(Card):
    """Requirements of a method.

    Attributes:
        demos: Demonstrations of the expert.
        expert: The expert's policy, for queries.
        true_reward: The environment's own reward; flagged in reports.
        action_spaces: Supported kinds of action space.
        tabular: The model of a tabular environment.
        fixed_horizon: Episodes of equal length.
        whole_demos: Demonstrations of which no step was left out.
        actions: The demonstrator's actions. Methods without this need learn from observations, and
            get trajectories whose actions have no entries where a regime hides them.
        supplement: A second set of trajectories, of mixed quality; see `Task.supplement`.
        ranking: Ranks of the trajectories in that set.
    """

    demos: bool
    expert: bool = False
    true_reward: bool = False
    action_spaces: list[ActionSpace]
    tabular: bool = False
    fixed_horizon: bool = False
    whole_demos: bool = False
    actions: bool = True
    supplement: bool = False
    ranking: bool = False

    @model_validator(mode="after")
    def _ranks_are_of_a_set(self) -> Needs:
        if self.ranking and not self.supplement:
            raise ValueError("ranking: needs supplement, too; the trajectories there are ranked")
        if self.supplement and not self.demos:
            raise ValueError("supplement: needs demos, too; a mixture has an expert part")
        return self


class Hyperparameter(Card):
    """One typed hyper-parameter.

    Attributes:
        type: Python type of its value.
        default: Value unless another is given; `null` only if `optional`.
        help: One line of description.
        optional: Whether `null` is accepted.
        min: Smallest accepted number.
        max: Largest accepted number.
        choices: All accepted values, for `str`.
        search: Search space of tuning; `null` to keep the default.
        extras: For values of `choices` that need an optional package: its extra.
        absent: For a key that was added later: the value that earlier runs had. Records omit the
            key if it has this value, so that run ids do not change.
    """

    type: Literal["bool", "int", "float", "str"]
    default: Scalar
    help: str
    optional: bool = False
    min: float | None = None
    max: float | None = None
    choices: list[str] | None = None
    search: SearchSpace | None = None
    extras: dict[str, Literal["density"]] = Field(default_factory=dict)
    absent: Scalar = None

    @property
    def may_be_absent(self) -> bool:
        """Whether records may omit this key; their value, `absent`, may be `null`."""
        return "absent" in self.model_fields_set

    @model_validator(mode="after")
    def _search_is_accepted(self) -> Hyperparameter:
        space = self.search
        if space is None:
            return self
        if space.choices is None and self.type not in ("int", "float"):
            raise ValueError(f"search: a {self.type} has no range; list its choices")
        if space.step is not None and self.type != "int":
            raise ValueError(f"search: step is for int only, not for {self.type}")
        ends: list[tuple[str, Scalar]] = [("low", space.low), ("high", space.high)]
        listed = enumerate(space.choices or ())
        named = [(f"choices.{index}", choice) for index, choice in listed]
        for where, value in named or ends:
            try:
                self.check(value)
            except ValueError as error:
                raise ValueError(f"search.{where} {error}") from None
        if self.default not in space:
            raise ValueError(
                f"search: must include the default {self.default!r}, where every search starts"
            )
        return self

    def check(self, value: Scalar) -> Scalar:
        """Returns `value` in this parameter's type.

        Args:
            value: A value from a card or from `--set`.

        Raises:
            ValueError: The type is wrong or the value is out of range; the message is "must …".
        """
        if value is None:
            if self.optional:
                return None
            raise ValueError(f"must be {self.type}, not null")
        accepted = _PYTHON_TYPES[self.type]
        if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
            raise ValueError(f"must be {self.type}, not {value!r}")
        if isinstance(value, int) and value not in INTEGERS:
            raise ValueError("must be a 64-bit integer")
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

    def check_extras(self, name: str, values: Iterable[Scalar]) -> None:
        """Checks that the optional packages of values are installed.

        Args:
            name: Name of this parameter, for the message.
            values: Values of this parameter.

        Raises:
            InputError: A package is not installed; the message has the `pip` command.
        """
        for value in values:
            if value in self.extras:
                check_extra(self.extras[str(value)], f"{name}={value}")

    def parse(self, text: str) -> Scalar:
        """Reads a value given as text on the command line.

        Raises:
            ValueError: The text is not a value of this parameter; the message is "must …".
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


def setting_text(value: Scalar) -> str:
    """Returns a hyper-parameter's value as text that `--set` takes; the inverse of `parse`."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


class CommandRecipe(Card):
    """An external program that trains, in any language (see `bench.learners.command`).

    Attributes:
        run: The program and its arguments, started in the card's folder; `python` stands for the
            interpreter of the harness. The path of the task file is appended.
        checkpoints: Whether it writes checkpoints and resumes from them after an interruption.
        timeout_minutes: Time limit; `null` for none.
        demos: Format of the demonstrations: `parquet`, a folder of Parquet files; or `jsonl`, a
            text file with one episode per line, see `imitbench.data.json_lines`. Serialized only
            if it is not `parquet`, so that earlier identities stay valid.
    """

    run: list[str] = Field(min_length=1)
    checkpoints: bool = False
    timeout_minutes: float | None = Field(default=None, gt=0, le=_MOST_MINUTES)
    demos: Literal["parquet", "jsonl"] = "parquet"

    @model_serializer(mode="wrap")
    def _without_usual_format(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = write(self)
        if document.get("demos") == "parquet":
            del document["demos"]
        return document


class LocatedCard(Card):
    """A card that knows where it was found."""

    _origin: Origin | None = PrivateAttr(default=None)

    @property
    def origin(self) -> Origin:
        """Source of the card."""
        assert self._origin is not None, "the loaders of cards set it"
        return self._origin

    def found_at(self, origin: Origin) -> Self:
        """Returns a copy of the card with its origin."""
        card = self.model_copy()
        card._origin = origin
        return card


class AlgorithmCard(LocatedCard):
    """The card of one algorithm (`algorithms/<name>/card.yaml`).

    Attributes:
        implementation: Learner class as `module:Class`. The module of a plug-in is next to its
            card, or in this package.
        command: The external program that trains, for the implementation that starts one.
        sources: Globs of further files next to the card, other than Python files, that belong to
            the method's source.
        budget_unit: Unit of the suite's budget for this method; `none` if it does not train.
            `replay_steps` becomes `env_steps` where a suite makes no difference.
        role: A `method` is compared with others. An `anchor` has score 0 or 1. A `control` is
            trained without information from the expert, and shows how much score the environment
            alone gives; suites list their controls. A `reference` shows what is achievable with
            information that methods do not have.
        limits: Sentences on where the method fails or does not apply, for readers of results.
        earlier_defaults: For each earlier version of the defaults, the values that differed.
            Published results with these stay valid under their name.
        packs: Whether several seeds can be trained together as one batched network (`--pack`); its
            implementation is then a `PackedLearner`.
        deterministic: Whether training draws no random numbers, so that every seed gives the same
            policy.
        seconds_per_1000: Estimated training time in seconds per 1,000 budget units on one core with
            the default hyper-parameters, for `--dry-run` and the time left, until there are
            finished runs.
        gpu_speedup: How many times as fast it trains on a GPU as on one core, as measured; `None`
            if it was not. With `--device auto`, methods that are no faster stay on the CPU.
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
    limits: list[str] = Field(default_factory=list)
    packs: bool = False
    deterministic: bool = False
    seconds_per_1000: float = Field(ge=0, le=_MOST_SECONDS_PER_1000)
    gpu_speedup: float | None = Field(default=None, gt=0)
    hyperparameters: dict[str, Hyperparameter] = Field(default_factory=dict)
    earlier_defaults: list[dict[str, Scalar]] = Field(default_factory=list)

    @property
    def counts_steps(self) -> bool:
        """Whether its budget counts environment steps."""
        return self.budget_unit in STEP_UNITS

    @property
    def search_space(self) -> dict[str, SearchSpace]:
        """Search spaces by hyper-parameter."""
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
        for index, values in enumerate(self.earlier_defaults):
            for name, value in values.items():
                where = f"earlier_defaults.{index}.{name}"
                if name not in self.hyperparameters:
                    raise ValueError(f"{where}: no such hyper-parameter")
                try:
                    self.hyperparameters[name].check(value)
                except ValueError as error:
                    raise ValueError(f"{where} {error}") from None
        return self

    def earlier_values(self) -> list[dict[str, Scalar]]:
        """Returns all hyper-parameters for each earlier version of the defaults."""
        return [
            self.resolve({})
            | {name: self.hyperparameters[name].check(value) for name, value in values.items()}
            for values in self.earlier_defaults
        ]

    def recorded(self, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Returns hyper-parameters as in records: without later keys that have no effect."""
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
        """Returns the hyper-parameters of a record with the later keys that it omits.

        Args:
            recorded: Result of `recorded`, of this or an earlier version of the card.

        Returns:
            Known hyper-parameters in the card's order, then the others.
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
        """Returns the hyper-parameters that differ from the defaults, in the card's order.

        Args:
            values: Values of hyper-parameters by name.
            base: All hyper-parameters to compare with; the card's defaults when `None`.
        """
        usual = self.resolve({}) if base is None else base
        return {
            name: values[name]
            for name in self.hyperparameters
            if name in values and values[name] != usual[name]
        }

    def check_extras(self, values: Mapping[str, Scalar]) -> None:
        """Checks that the optional packages of hyper-parameters are installed.

        Raises:
            InputError: A package is not installed; the message has the `pip` command.
        """
        for name, parameter in self.hyperparameters.items():
            parameter.check_extras(f"{self.name}.{name}", [values[name]])

    def resolve(
        self, overrides: dict[str, str], base: Mapping[str, Scalar] | None = None
    ) -> dict[str, Scalar]:
        """Completes command-line settings with the card's defaults.

        Args:
            overrides: Values as text, by name.
            base: All hyper-parameters to start from; the card's defaults when `None`.

        Returns:
            All hyper-parameters, with values of their types, in the card's order.

        Raises:
            InputError: A name is unknown, or a value has the wrong type or range.
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
