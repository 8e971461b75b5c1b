"""The suite card: environments, experts, demonstrations, references and budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import Field, PrivateAttr, model_validator

from imitbench.cards.algorithm import (
    ActionSpace,
    AlgorithmCard,
    BudgetUnit,
    Card,
    LocatedCard,
    Scalar,
)
from imitbench.cards.budgets import BUDGET_NAMES, BudgetAmounts, WholeBudget, split_budget
from imitbench.cards.demonstrations import (
    FOLDER_NAME,
    FULL,
    DemoSet,
    HubSource,
    Measurement,
    PolicySet,
    Regime,
    SetName,
)
from imitbench.cards.success import CardSuccess, MeasureName
from imitbench.cards.wrappers import EnvironmentWrapper, disturbances, while_training
from imitbench.errors import InputError, did_you_mean
from imitbench.util.numbers import Count, Finite

ScoreOne = Literal["expert", "demonstrations", "card", "success"]
"""What is score 1: the mean return of the expert or of the demonstrators, a number on the card, or
success in every episode."""


_MEASURE_LIKELY = "remove it, and add it by `imitbench suites measure --likely`"


class References(Card):
    """Returns that map to the scores 0 and 1.

    Attributes:
        random: Return of random actions: score 0.
        expert: Return of the expert's sampled actions: score 1; `null` without an expert.
        expert_likely: Return of the expert's most likely actions: score 1 of policies that act in
            this way; `null` until it is measured.
        demonstrations: Return of the demonstrators, where there is no expert and rewards were
            recorded: score 1, unless the card states another number.
    """

    random: Measurement
    expert: Measurement | None = None
    expert_likely: Measurement | None = None
    demonstrations: Measurement | None = None

    @model_validator(mode="after")
    def _both_ways_are_of_one_expert(self) -> References:
        likely = self.expert_likely
        if likely is None:
            return self
        if self.expert is None:
            raise ValueError("expert_likely: there is no expert; remove it")
        if not likely.deterministic:
            raise ValueError(f"expert_likely.deterministic must be true; {_MEASURE_LIKELY}")
        if likely.revision != self.expert.revision:
            raise ValueError(f"expert_likely.revision must be that of expert; {_MEASURE_LIKELY}")
        return self


class ScoreScale(NamedTuple):
    """The returns that are scores 0 and 1 in an environment, or the shares of successes.

    Attributes:
        random: Return of score 0.
        one: Return of score 1.
        score_one: What `one` is.
        demonstrations: Mean return of the demonstrators, where there is no expert and rewards were
            recorded.
    """

    random: float
    one: float
    score_one: ScoreOne
    demonstrations: float | None


Script = Literal["maze_waypoints", "pusht_planner"]
"""Scripted experts by name; `imitbench.policies.scripted` has their classes."""

_OF_SB3 = (
    "net_arch",
    "normalize_observations",
    "normalize_rewards",
    "learning_rate_decay",
    "lean",
)


class ExpertRecipe(Card):
    """An expert and how to train it.

    Attributes:
        repo: Folder under `experts/`, in hub naming: `<algo>-<environment with / as ->`.
        algo: Algorithm of Stable-Baselines3; `ppo_true_reward` or `sac_true_reward` for the bundled
            method of that name; `exact` for planning with the model of a tabular environment;
            `scripted` for a program of this package.
        script: Name of that program; `null` for any other expert.
        env_steps: Training steps; 0 for planning and for a program.
        environments: Number of parallel environments.
        seed: Training seed.
        normalize_observations: Whether the policy normalizes observations by running statistics.
        normalize_rewards: Whether training rewards are divided by the standard deviation of running
            returns.
        learning_rate_decay: `linear` brings the learning rate to zero at the last step.
        lean: Whether the lean algorithms of `imitbench.rl` train it; they round differently from
            Stable-Baselines3, so the same seed gives another policy.
        net_arch: Hidden layer sizes of actor and critic.
        training_kwargs: Additional keyword arguments of `gymnasium.make` that apply only in the
            expert's training, for example to end an episode at a fall; a range is a list.
        hyperparameters: Keyword arguments of the algorithm; of a bundled method, the values that
            differ from its card. For planning, `temperature`: 0 for the optimal policy, higher
            values for more causal entropy. For a program, its settings.
        least_return: Least mean return of an expert whose demonstrations may be collected; `null`
            for any.
        most_terminated: Largest share of its episodes that may end before the time limit.
        home: Bundled suite in whose folder it is; `null` for the suite of this card.
        hub: Expert on the hub, used with `--source hub`; `null` for none.
    """

    repo: str = Field(pattern=FOLDER_NAME)
    algo: Literal["ppo", "sac", "ppo_true_reward", "sac_true_reward", "exact", "scripted"]
    script: Script | None = None
    env_steps: int = Field(ge=0)
    environments: int = Field(default=8, ge=1)
    seed: int = 0
    normalize_observations: bool = False
    normalize_rewards: bool = False
    learning_rate_decay: Literal["none", "linear"] = "none"
    lean: bool = False
    net_arch: list[int] = Field(default_factory=lambda: [64, 64])
    training_kwargs: dict[str, Scalar | list[Finite]] = Field(default_factory=dict)
    hyperparameters: dict[str, Scalar] = Field(default_factory=dict)
    least_return: float | None = None
    most_terminated: float = Field(default=1.0, ge=0, le=1)
    home: str | None = None
    hub: HubSource | None = None

    @property
    def trains(self) -> bool:
        """Whether the expert is trained, and not planned or programmed."""
        return self.algo not in ("exact", "scripted")

    @model_validator(mode="after")
    def _planning_takes_no_steps(self) -> ExpertRecipe:
        if self.trains == (self.env_steps == 0):
            raise ValueError("env_steps must be 0 for algo exact or scripted, and positive for "
                             "any other")  # fmt: skip
        if (self.algo == "scripted") != (self.script is not None):
            raise ValueError("script: belongs to algo scripted, and to no other")
        unknown = set(self.hyperparameters) - {"temperature"}
        if self.algo == "exact" and unknown:
            raise ValueError(f"hyperparameters: algo exact has no {', '.join(sorted(unknown))}")
        return self

    @model_validator(mode="after")
    def _a_method_has_its_own_card(self) -> ExpertRecipe:
        """Settings that are on the method's card are not repeated by fields of the recipe."""
        fields = type(self).model_fields
        given = [
            name
            for name in _OF_SB3
            if getattr(self, name) != fields[name].get_default(call_default_factory=True)
        ]
        if self.algo.endswith(("_true_reward", "scripted")) and given:
            raise ValueError(f"{', '.join(given)}: only for ppo and sac; use hyperparameters")
        return self

    def why_too_weak(self, mean_return: float, terminated: float) -> str | None:
        """Returns why an expert is below the card's demands; `None` if it meets them.

        Args:
            mean_return: Its mean return.
            terminated: Share of its episodes that ended before the time limit.
        """
        if self.least_return is not None and not mean_return >= self.least_return:
            return f"mean return {mean_return:.1f} is below {self.least_return:g} (least_return)"
        if terminated > self.most_terminated:
            return (
                f"{terminated:.0%} of the episodes end early, more than "
                f"{self.most_terminated:.0%} (most_terminated)"
            )
        return None

    @property
    def settings_of_sb3(self) -> dict[str, object]:
        """Fields that only algorithms of Stable-Baselines3 have, by name; empty for others."""
        names = _OF_SB3 if self.algo in ("ppo", "sac") else ()
        return {name: getattr(self, name) for name in names}


class EnvironmentCard(Card):
    """One environment of a suite.

    Attributes:
        title: Display name.
        module: Module whose import registers the environment, if any. For a suite in the user's
            folder, a module next to its card takes precedence over an installed one.
        kwargs: Keyword arguments of `gymnasium.make`.
        horizon: Whether every episode has the same length.
        max_episode_steps: Maximum length of an episode, in steps.
        steps_per_second: Environment steps per second on one core with random actions, for cost
            estimates.
        tabular: Whether states and actions are finite and methods may read the model.
        evaluation_id: Environment of evaluations and of references, with the same arguments; `null`
            for the training environment.
        probes: What the environment tests, in one or two sentences.
        optimum: Highest possible mean return, if known.
        absolute_positions: Indices of flat observations that are absolute positions. Methods may
            exclude them from learned rewards; policies see them.
        earlier_budgets: Earlier amounts of budgets, by name. Results with these stay valid; tables
            show the amount with the budget's name.
        expert: `null` for an environment with demonstrations only, of people for example. Methods
            that query an expert are not applicable there.
        sets: Trajectories of other policies than the expert by name, for regimes with a mixture.
        minari: Data set of Minari that `--source minari` uses as demonstrations, such as
            `mujoco/hopper/expert-v0`; `null` for none.
        score_one: Mean return of score 1, for an environment without an expert; `null` for the mean
            return of the demonstrators.
        success: When an episode is a success; `null` where returns say all. As the headline, it
            replaces returns in scores.
        measures: Entries of the last step's `info` that evaluations average over episodes, besides
            return and success.
        references: `null` only until `imitbench suites measure` has run.
        variant_of: Environment of the suite that this entry changes. It takes over all keys that
            the entry does not state, except title, probes, optimum and references.
        wrappers: From the innermost to the outermost. Disturbances are of a variant, and come after
            the wrappers of its environment.
        evaluation_only: Whether only evaluations and references have the disturbances, so that
            methods train without them.
        transfer: Whether only learned rewards are tested in this variant, by new agents that are
            trained on them. Ordinary runs leave it out, and it has an expert of its own.
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
    expert: ExpertRecipe | None = None
    demos: DemoSet
    sets: dict[SetName, PolicySet] = Field(default_factory=dict)
    minari: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)*$")
    score_one: float | None = Field(default=None, allow_inf_nan=False)
    success: CardSuccess | None = None
    measures: list[MeasureName] = Field(default_factory=list)
    budgets: dict[WholeBudget, BudgetAmounts]
    earlier_budgets: dict[WholeBudget, list[BudgetAmounts]] = Field(default_factory=dict)
    references: References | None = None
    variant_of: str | None = None
    wrappers: list[EnvironmentWrapper] = Field(default_factory=list)
    evaluation_only: bool = False
    transfer: bool = False
    _module_digest: str | None = PrivateAttr(default=None)

    @property
    def module_digest(self) -> str | None:
        """SHA-256 of the source of `module`, if it is next to the suite's card."""
        return self._module_digest

    def with_module_of(self, digest: str) -> EnvironmentCard:
        """Returns a copy of the card, with the digest of the source of its module."""
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
    def _wrappers_are_of_a_variant(self) -> EnvironmentCard:
        disturbed = disturbances(self.wrappers)
        if disturbed and self.variant_of is None:
            raise ValueError("wrappers: make a variant; name what it changes as variant_of")
        if self.wrappers and self.tabular:
            raise ValueError("wrappers: methods read the model of a tabular environment, which "
                             "wrappers do not change; use kwargs")  # fmt: skip
        if self.evaluation_only and not disturbed:
            raise ValueError("evaluation_only: needs wrappers")
        if self.transfer and self.variant_of is None:
            raise ValueError("transfer: name the training environment as variant_of")
        if self.transfer and disturbed:
            raise ValueError("transfer: has no wrappers; change the dynamics by kwargs")
        return self

    @model_validator(mode="after")
    def _planning_has_a_model(self) -> EnvironmentCard:
        if self.expert is not None and self.expert.algo == "exact" and not self.tabular:
            raise ValueError("expert.algo exact needs an environment with tabular: true")
        return self

    @model_validator(mode="after")
    def _score_one_is_of_one_kind(self) -> EnvironmentCard:
        if self.expert is not None and self.score_one is not None:
            raise ValueError("score_one: the expert has score 1; remove score_one, or expert")
        found = self.references
        if found is None:
            return self
        if (self.expert is None) != (found.expert is None):
            raise ValueError(
                "references.expert must be there exactly if the environment has an expert; "
                "run `imitbench suites measure` again"
            )
        if self.expert is not None and found.demonstrations is not None:
            raise ValueError("references.demonstrations: the expert has score 1; remove it")
        if self.scored_by_success:
            return self
        if self.expert is None and self.score_one is None and found.demonstrations is None:
            raise ValueError("score_one: must be a number, as the demonstrations have no rewards")
        return self

    @property
    def scored_by_success(self) -> bool:
        """Whether scores are shares of successful episodes."""
        return self.success is not None and self.success.headline

    @property
    def scale(self) -> ScoreScale | None:
        """Returns of the scores 0 and 1, or the same shares; `None` until they are measured."""
        if self.scored_by_success:
            return ScoreScale(0.0, 1.0, "success", None)
        found = self.references
        if found is None:
            return None
        random = found.random.mean
        if found.expert is not None:
            return ScoreScale(random, found.expert.mean, "expert", None)
        shown = None if found.demonstrations is None else found.demonstrations.mean
        if self.score_one is not None:
            return ScoreScale(random, self.score_one, "card", shown)
        assert shown is not None, "the card was validated"
        return ScoreScale(random, shown, "demonstrations", shown)

    def expert_in(self, env_id: str) -> ExpertRecipe:
        """Returns the recipe of the expert.

        Args:
            env_id: Id of this environment, for the message.

        Raises:
            InputError: The environment has demonstrations only.
        """
        if self.expert is None:
            raise InputError(
                f"{env_id}: the suite's card names no expert, as there are only demonstrations; "
                "choose other environments with --env"
            )
        return self.expert

    def amount(self, budget: str, unit: BudgetUnit) -> int:
        """Returns the amount of a budget, or of a part of one, in the unit of a method."""
        whole, part = split_budget(budget)
        return self.budgets[whole].in_unit(unit, part)

    def was_amount(self, budget: str, unit: BudgetUnit, amount: int) -> bool:
        """Whether this was an earlier amount of a budget, and is not the current one."""
        return amount != self.amount(budget, unit) and self._earlier(budget, unit, amount) != []

    def with_amount(self, budget: str, unit: BudgetUnit, amount: int) -> EnvironmentCard:
        """Returns the card with an earlier amount of a budget; itself if it never had it."""
        if not self.was_amount(budget, unit, amount):
            return self
        then = self._earlier(budget, unit, amount)[0]
        whole = split_budget(budget)[0]
        return self.model_copy(update={"budgets": {**self.budgets, whole: then}})

    def _earlier(self, budget: str, unit: BudgetUnit, amount: int) -> list[BudgetAmounts]:
        whole, part = split_budget(budget)
        return [e for e in self.earlier_budgets.get(whole, ()) if e.in_unit(unit, part) == amount]


class SuiteCard(LocatedCard):
    """The card of one suite (`suites/<name>/suite.yaml`).

    Attributes:
        version: Version of the references; increased with each new measurement.
        controls: Algorithms with role `control` that run with `--algo all` on this suite.
        regimes: Named parts of the demonstrations, besides `full`.
        default_regime: Regime of runs whose request names none.
    """

    schema_version: Literal[1]
    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    title: str
    description: str
    version: str
    controls: list[str] = Field(default_factory=list)
    regimes: dict[str, Regime] = Field(default_factory=dict)
    default_regime: str = FULL
    environments: dict[str, EnvironmentCard] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _variants_take_over_keys(cls, document: Any) -> Any:
        found = document.get("environments") if isinstance(document, dict) else None
        if not isinstance(found, dict):
            return document
        completed = {name: _completed(name, entry, found) for name, entry in found.items()}
        return {**document, "environments": completed}

    @model_validator(mode="after")
    def _variants_change_something(self) -> SuiteCard:
        for name, card in self.environments.items():
            if card.variant_of is not None:
                base = self.environments[card.variant_of]
                if card.wrappers[: len(base.wrappers)] != base.wrappers:
                    raise ValueError(f"environments.{name}.wrappers: must begin with those of "
                                     f"{card.variant_of}")  # fmt: skip
                if (card.kwargs, card.evaluation_id) == (base.kwargs, base.evaluation_id) and not (
                    disturbances(card.wrappers)
                ):
                    raise ValueError(f"environments.{name}: is no variant of {card.variant_of}, "
                                     "as it has the same kwargs and no wrappers")  # fmt: skip
                if card.transfer and card.kwargs == base.kwargs:
                    raise ValueError(f"environments.{name}.transfer: needs other kwargs than "
                                     f"{card.variant_of}")  # fmt: skip
                if card.transfer and (card.expert is None or self.takes_over(name, "expert")):
                    raise ValueError(f"environments.{name}.transfer: needs an expert of its own, "
                                     "which is trained there")  # fmt: skip
        return self

    @model_validator(mode="after")
    def _default_regime_exists(self) -> SuiteCard:
        self.regime(self.default_regime)
        return self

    @model_validator(mode="after")
    def _environments_have_the_sets(self) -> SuiteCard:
        known = {name for card in self.ordinary.values() for name in card.sets}
        for regime_name, regime in self.regimes.items():
            for name, count in regime.mixture.items():
                where = f"regimes.{regime_name}.mixture.{name}"
                if name not in known:
                    raise ValueError(f"{where}: no environment has this set; "
                                     f"{did_you_mean(name, known)}")  # fmt: skip
                for env_id, card in self.ordinary.items():
                    if name in card.sets and (why := card.sets[name].why_too_small(count)):
                        raise ValueError(f"{where}: {env_id}: {why}")
        return self

    @model_validator(mode="after")
    def _one_headline(self) -> SuiteCard:
        by_success = {name: card.scored_by_success for name, card in self.environments.items()}
        if len(set(by_success.values())) > 1:
            other = next(name for name, own in by_success.items() if not own)
            raise ValueError(f"environments.{other}.success: must be the headline, as in other "
                             "environments; a suite has one")  # fmt: skip
        return self

    @property
    def ordinary(self) -> dict[str, EnvironmentCard]:
        """The environments in which methods are compared, by id."""
        return {name: card for name, card in self.environments.items() if not card.transfer}

    def tested_in(self, env_id: str) -> list[str]:
        """Returns the environments in which rewards that are learned in this one are tested."""
        return [
            name
            for name, card in self.environments.items()
            if card.transfer and card.variant_of == env_id
        ]

    def takes_over(self, env_id: str, part: Literal["expert", "demos"]) -> bool:
        """Whether an environment is a variant with the expert or demonstrations of the other."""
        card = self.environments[env_id]
        if card.variant_of is None:
            return False
        return bool(getattr(card, part) == getattr(self.environments[card.variant_of], part))

    def has_own_set(self, env_id: str, name: str) -> bool:
        """Whether an environment has a set that is neither another suite's nor another one's."""
        card = self.environments[env_id]
        recipe = card.sets.get(name)
        if recipe is None or recipe.home is not None:
            return False
        base = card.variant_of
        return base is None or self.environments[base].sets.get(name) != recipe

    @property
    def all_regimes(self) -> dict[str, Regime]:
        """The regimes of the suite by name, `full` first."""
        return {FULL: Regime(), **self.regimes}

    def fitting_regime(self, algorithm: AlgorithmCard) -> Regime:
        """Returns the first regime, `full` before all others, that an algorithm can learn in.

        It is `full` where none fits.
        """
        known = self.all_regimes.values()
        return next(
            (regime for regime in known if not regime_mismatch(algorithm, regime)), Regime()
        )

    def with_environments(self, changed: Mapping[str, EnvironmentCard]) -> SuiteCard:
        """Returns a copy with other cards of some environments."""
        return self.model_copy(update={"environments": {**self.environments, **changed}})

    def regime(self, name: str) -> Regime:
        """Returns the regime with a name.

        Raises:
            ValueError: The card has no such regime.
        """
        known = self.all_regimes
        if name not in known:
            raise ValueError(f"has no regime {name}; {did_you_mean(name, known)}")
        return known[name]


_OWN_KEYS = ("title", "probes", "optimum", "references")
"""Keys that a variant does not take over."""


def _completed(name: str, entry: Any, environments: dict[str, Any]) -> Any:
    """Completes an entry that is a variant by what that of its environment says."""
    base_name = entry.get("variant_of") if isinstance(entry, dict) else None
    if not isinstance(base_name, str):
        return entry
    where, base = f"environments.{name}", environments.get(base_name)
    if ":" in name or name == base_name:
        raise ValueError(f"{where}: a variant has a name of its own without ':', such as "
                         f"{base_name}+noise")  # fmt: skip
    plain = [env for env, card in environments.items() if not _is_variant(card)]
    if base_name not in plain:
        raise ValueError(f"{where}.variant_of: must be an environment of this suite that is no "
                         f"variant; {did_you_mean(base_name, plain)}")  # fmt: skip
    if "title" not in entry:
        raise ValueError(f"{where}.title: a variant needs its own")
    taken = base if isinstance(base, dict) else {}
    return {**{key: value for key, value in taken.items() if key not in _OWN_KEYS}, **entry}


def _is_variant(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("variant_of") is not None


def regime_mismatch(algorithm: AlgorithmCard, regime: Regime) -> str | None:
    """Returns why an algorithm cannot learn in a regime; `None` if it can."""
    needs = algorithm.needs
    if needs.whole_demos and regime.demo_every is not None:
        return (
            "needs demonstrations with all their steps; omit --demo-every, or name another regime"
        )
    if needs.demos and needs.actions and regime.actions == "hidden":
        return "needs the demonstrator's actions, which this regime hides"
    if needs.supplement and not regime.mixture:
        return "needs trajectories of mixed quality, too; name a regime with a mixture"
    return None


def mismatch(algorithm: AlgorithmCard, environment: EnvironmentCard) -> str | None:
    """Returns why an algorithm cannot learn in an environment; `None` if it can."""
    spaces = algorithm.needs.action_spaces
    if algorithm.needs.expert and environment.expert is None:
        return "queries an expert; this environment has demonstrations only"
    if algorithm.needs.tabular and not environment.tabular:
        return "plans with the model of a tabular environment; this one has none"
    if algorithm.needs.fixed_horizon and environment.horizon != "fixed":
        return "needs episodes of one length; those of this environment differ"
    trained_with = while_training(environment.wrappers, environment.evaluation_only)
    if algorithm.command is not None and trained_with:
        return "runs a program, whose environments lack the wrappers on the card"
    if environment.action_space in spaces:
        return None
    return f"acts in {' and '.join(spaces)} spaces only; this one is {environment.action_space}"
