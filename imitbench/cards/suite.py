"""The suite card: environments, experts, demonstrations, references and budgets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PrivateAttr, model_validator

from imitbench.cards.algorithm import ActionSpace, BudgetUnit, Card, Scalar
from imitbench.cards.origin import Origin
from imitbench.util.numbers import Count

BudgetName = Literal["quick", "default", "full"]
BUDGET_NAMES: tuple[BudgetName, ...] = ("quick", "default", "full")


class Measurement(Card):
    """A mean return with everything needed to measure it again.

    Attributes:
        mean: Mean undiscounted return.
        std: Standard deviation over episodes.
        episodes: How many episodes.
        deterministic: Whether the deterministic policy was measured.
        command: The command that did it.
        date: Day of the measurement, ISO 8601.
        revision: Content digest (first 12 digits) of the expert that was measured; `null` for
            random actions.
    """

    mean: float
    std: float = Field(ge=0)
    episodes: int = Field(ge=1)
    deterministic: bool
    command: str
    date: str
    revision: str | None = None


class References(Card):
    """Returns that map to the scores 0 (random) and 1 (expert)."""

    random: Measurement
    expert: Measurement


class HubSource(Card):
    """A repository on a Hugging Face hub.

    Attributes:
        repo: Its name, `owner/name`.
        revision: The commit in use, 40 hexadecimal digits; `null` until `imitbench suites pin`
            has been run where there is a network.
    """

    repo: str = Field(pattern=r"^[\w-][\w.-]*/[\w-][\w.-]*$")
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")


class ExpertRecipe(Card):
    """An expert and how to train it.

    Attributes:
        repo: Folder under `experts/`, in hub naming: `<algo>-<environment with / as ->`.
        algo: Reinforcement-learning algorithm of Stable-Baselines3; `exact` for planning with
            the model of a tabular environment.
        env_steps: Training steps; 0 for planning.
        environments: Environments stepped side by side.
        seed: Training seed.
        normalize_observations: Whether the policy carries a running observation normalizer.
        normalize_rewards: Whether training rewards are scaled by their running return's spread.
        learning_rate_decay: `linear` brings the learning rate to zero at the last step.
        lean: Whether the shortened update of `imitbench.rl` trains it, which rounds otherwise than
            Stable-Baselines3's own, so that each gives another policy from the same seed.
        net_arch: Hidden layer sizes of actor and critic.
        training_kwargs: Keyword arguments of `gymnasium.make` that hold while the expert trains
            and never else. They come on top of the environment's own, for instance to end an
            episode at a fall.
        hyperparameters: Keyword arguments of the algorithm. For planning, `temperature`: 0 for
            the best policy, more for one of higher causal entropy.
        hub: The expert that `--source hub` takes instead, which others have trained; `null`
            where there is none.
    """

    repo: str = Field(pattern=r"^[\w.-]+$")
    algo: Literal["ppo", "sac", "exact"]
    env_steps: int = Field(ge=0)
    environments: int = Field(default=8, ge=1)
    seed: int = 0
    normalize_observations: bool = False
    normalize_rewards: bool = False
    learning_rate_decay: Literal["none", "linear"] = "none"
    lean: bool = False
    net_arch: list[int] = Field(default_factory=lambda: [64, 64])
    training_kwargs: dict[str, Scalar] = Field(default_factory=dict)
    hyperparameters: dict[str, Scalar] = Field(default_factory=dict)
    hub: HubSource | None = None

    @model_validator(mode="after")
    def _planning_takes_no_steps(self) -> ExpertRecipe:
        if (self.algo == "exact") != (self.env_steps == 0):
            raise ValueError("env_steps must be 0 for algo exact, and positive for any other")
        unknown = set(self.hyperparameters) - {"temperature"}
        if self.algo == "exact" and unknown:
            raise ValueError(f"hyperparameters: algo exact has no {', '.join(sorted(unknown))}")
        return self


class DemoSet(Card):
    """The demonstrations that a suite bundles for an environment.

    Attributes:
        repo: Folder under `demos/`, in hub naming.
        trajectories: How many trajectories are bundled.
        seed: Seed of their collection.
        deterministic: Whether the expert acted deterministically.
        hub: The set that `--source hub` takes instead; `null` where there is none.
    """

    repo: str = Field(pattern=r"^[\w.-]+$")
    trajectories: int = Field(ge=1)
    seed: int = 0
    deterministic: bool = False
    hub: HubSource | None = None


class BudgetAmounts(Card):
    """Training amounts per unit."""

    env_steps: int = Field(ge=1)
    batches: int = Field(ge=1)

    def in_unit(self, unit: BudgetUnit) -> int:
        """The amount in a unit; 0 for methods that do not train."""
        if unit == "none":
            return 0
        return self.batches if unit == "batches" else self.env_steps


class EnvironmentCard(Card):
    """One environment of a suite.

    Attributes:
        title: Name for people.
        module: Module whose import registers the environment, if any; for a suite in a folder of
            the user's, one beside its card, or else an installed one.
        kwargs: Keyword arguments of `gymnasium.make`.
        horizon: Whether every episode has the same length.
        max_episode_steps: Length of an episode (the longest, where it varies).
        steps_per_second: Stepping alone on one core, for cost estimates.
        tabular: Whether it is a table of states and actions whose model methods may read.
        evaluation_id: Environment in which policies are evaluated, with the same arguments;
            `null` for the one in which they train. References are measured there.
        probes: What the environment is there to find out, in a sentence or two.
        optimum: Highest mean return that there is, where it is known.
        absolute_positions: Entries of flat observations, from 0, that say where the body is, and
            not how it moves. Methods may hide them from what they learn; policies see them.
        earlier_budgets: Amounts that budgets had before, by name. Results at these stay valid;
            tables name their budget with its amount.
        references: `null` only until `imitbench suites measure` has run.
    """

    title: str
    module: str | None = None
    kwargs: dict[str, Scalar] = Field(default_factory=dict)
    horizon: Literal["fixed", "variable"]
    max_episode_steps: int = Field(ge=1)
    steps_per_second: float = Field(gt=0)
    action_space: ActionSpace
    tabular: bool = False
    evaluation_id: str | None = None
    probes: str | None = None
    optimum: float | None = None
    absolute_positions: list[Count] = Field(default_factory=list)
    expert: ExpertRecipe
    demos: DemoSet
    budgets: dict[BudgetName, BudgetAmounts]
    earlier_budgets: dict[BudgetName, list[BudgetAmounts]] = Field(default_factory=dict)
    references: References | None = None
    _module_digest: str | None = PrivateAttr(default=None)

    @property
    def module_digest(self) -> str | None:
        """What pins the source of `module`, if it lies beside the suite's card."""
        return self._module_digest

    def with_module_of(self, digest: str) -> EnvironmentCard:
        """The same card, whose module lies beside it in source of this digest."""
        card = self.model_copy()
        card._module_digest = digest
        return card

    @model_validator(mode="after")
    def _every_budget_is_given(self) -> EnvironmentCard:
        absent = [name for name in BUDGET_NAMES if name not in self.budgets]
        if absent:
            raise ValueError(f"budgets lacks {', '.join(absent)}")
        return self

    @model_validator(mode="after")
    def _planning_has_a_model(self) -> EnvironmentCard:
        if self.expert.algo == "exact" and not self.tabular:
            raise ValueError("expert.algo exact needs an environment with tabular: true")
        return self

    def amount(self, budget: BudgetName, unit: BudgetUnit) -> int:
        """How much training a budget is, in the unit that a method's budget counts."""
        return self.budgets[budget].in_unit(unit)

    def was_amount(self, budget: BudgetName, unit: BudgetUnit, amount: int) -> bool:
        """Whether a budget was that much training before, and is not now."""
        earlier = [each.in_unit(unit) for each in self.earlier_budgets.get(budget, ())]
        return amount in earlier and amount != self.amount(budget, unit)

    def with_amount(self, budget: BudgetName, unit: BudgetUnit, amount: int) -> EnvironmentCard:
        """The card as it was when a budget was that much training; itself if it never was."""
        if not self.was_amount(budget, unit, amount):
            return self
        then = next(e for e in self.earlier_budgets[budget] if e.in_unit(unit) == amount)
        return self.model_copy(update={"budgets": {**self.budgets, budget: then}})


class SuiteCard(Card):
    """The card of one suite (`suites/<name>/suite.yaml`).

    Attributes:
        version: Version of the references; raised whenever they are measured anew.
        controls: Algorithms with the role of a control that belong to the suite: they run where
            `--algo all` is asked for.
    """

    schema_version: Literal[1]
    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    title: str
    description: str
    version: str
    controls: list[str] = Field(default_factory=list)
    environments: dict[str, EnvironmentCard] = Field(min_length=1)
    _origin: Origin | None = PrivateAttr(default=None)

    @property
    def origin(self) -> Origin:
        """Where it was read from."""
        assert self._origin is not None, "the loaders of cards say where they come from"
        return self._origin

    def found_at(self, origin: Origin) -> SuiteCard:
        """The same card, which knows where it comes from."""
        card = self.model_copy()
        card._origin = origin
        return card
