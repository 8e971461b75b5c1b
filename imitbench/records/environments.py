"""The environment of a run as its record states it, and the base of all records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from imitbench.cards.algorithm import Scalar
from imitbench.cards.success import MeasureName, SuccessRule
from imitbench.cards.wrappers import EnvironmentWrapper, while_training
from imitbench.util.numbers import Count

if TYPE_CHECKING:
    from imitbench.cards.suite import EnvironmentCard

POSITIONS_KEYS = ("disc_absolute_positions", "absolute_positions")
"""Hyper-parameters, `show` or `hide`: whether the learned reward, or the values that stand for it,
see absolute positions."""


class Record(BaseModel):
    """A frozen record; unknown keys and wrong types are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class AbbreviatedRecord(Record):
    """A record with fields that are serialized only if they are not `None`.

    Such fields were added later: identities and files of earlier records stay as they were.
    """

    optional: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_absent(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = write(self)
        for name in self.optional:
            if document.get(name) is None:
                document.pop(name, None)
        return document


class EnvironmentSpec(AbbreviatedRecord):
    """The environment that a run trains and is evaluated on.

    Attributes:
        id: Gymnasium id, for example `seals/CartPole-v0`.
        module: Module whose import registers the id, if any.
        kwargs: Keyword arguments of `gymnasium.make`.
        horizon: Whether every episode has the same length. Variable horizons leak the reward
            through termination and must be declared.
        evaluation_id: Gymnasium id of the evaluation environment, if it differs; serialized only
            then, so that earlier identities stay valid.
        module_digest: Digest of the source of `module`, if it belongs to a user's suite;
            serialized only then.
        hidden_positions: Entries of observations that the learned reward does not see; serialized
            only if there are any.
        variant_of: Gymnasium id, for a variant, whose `id` is its name on the suite's card;
            serialized only then, as are the other two.
        wrappers: Wrappers, from the innermost to the outermost.
        evaluation_only: Whether only evaluations have those of them that disturb.
        success: When an evaluation episode is a success; serialized only if it is measured.
        measures: Entries of the last step's `info` that evaluations average; serialized only if
            there are any.
    """

    optional = (
        "evaluation_id",
        "module_digest",
        "hidden_positions",
        "variant_of",
        "wrappers",
        "evaluation_only",
        "success",
        "measures",
    )

    id: str
    module: str | None = None
    kwargs: dict[str, Scalar] = Field(default_factory=dict)
    horizon: Literal["fixed", "variable"] = "fixed"
    evaluation_id: str | None = None
    module_digest: str | None = None
    hidden_positions: list[Count] | None = None
    variant_of: str | None = None
    wrappers: list[EnvironmentWrapper] | None = None
    evaluation_only: Literal[True] | None = None
    success: SuccessRule | None = None
    measures: list[MeasureName] | None = None

    @property
    def gym_id(self) -> str:
        """The id that Gymnasium makes it by; `id` names it everywhere else."""
        return self.id if self.variant_of is None else self.variant_of

    @property
    def active_wrappers(self) -> list[EnvironmentWrapper]:
        """The wrappers that an environment of this specification has."""
        return while_training(self.wrappers or [], bool(self.evaluation_only))

    @property
    def evaluated(self) -> EnvironmentSpec:
        """The environment that policies are evaluated on."""
        if self.evaluation_id is None and self.evaluation_only is None:
            return self
        changes: dict[str, Any] = {"evaluation_id": None, "evaluation_only": None}
        if self.evaluation_id is not None:
            changes["id" if self.variant_of is None else "variant_of"] = self.evaluation_id
        return self.model_copy(update=changes)

    @classmethod
    def of_card(
        cls,
        env_id: str,
        card: EnvironmentCard,
        hyperparameters: Mapping[str, Scalar] | None = None,
    ) -> EnvironmentSpec:
        """Makes the specification of an environment of a suite.

        Args:
            env_id: Id of the environment.
            card: Card of the environment.
            hyperparameters: Hyper-parameters of the run, which may hide positions.
        """
        hides = "hide" in ((hyperparameters or {}).get(key) for key in POSITIONS_KEYS)
        return cls(
            id=env_id,
            module=card.module,
            kwargs=dict(card.kwargs),
            horizon=card.horizon,
            evaluation_id=card.evaluation_id,
            module_digest=card.module_digest,
            hidden_positions=(list(card.absolute_positions) or None) if hides else None,
            variant_of=card.variant_of,
            wrappers=list(card.wrappers) or None,
            evaluation_only=True if card.evaluation_only else None,
            success=None if card.success is None else card.success.rule,
            measures=list(card.measures) or None,
        )
