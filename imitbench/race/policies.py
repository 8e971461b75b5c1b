"""Races of two given policies: episodes are run in batches until the comparison is decided.

The seed of each batch follows from the design, the policy and the number of the batch. So a race
that is killed at any instant, and then carried on, has the same episodes as one that was not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stable_baselines3.common.policies import BasePolicy

from imitbench.bench.provenance import now
from imitbench.bench.seeding import derive_seed
from imitbench.bench.sweep import check_writable
from imitbench.errors import InputError
from imitbench.experts import loading, measurement
from imitbench.experts.lookup import NamedPolicy, find_references
from imitbench.policies.expert_folder import open_expert_folder
from imitbench.policies.observation_parts import check_all_used, keys_of
from imitbench.published.submission import check_no_submission
from imitbench.race.driver import alone
from imitbench.race.planning import check_numbers
from imitbench.records.race_design import (
    MOST_EPISODES,
    SIDES,
    PolicyDesign,
    RacedPolicy,
)
from imitbench.stats.normalization import has_scale
from imitbench.stats.sequential import Race
from imitbench.store.races import (
    RegisteredPolicyRace,
    read_batch,
    read_policy_races,
    read_returns,
    register_policy_race,
    write_batch,
)
from imitbench.store.registered_designs import design_folder
from imitbench.util.files import digest_files
from imitbench.version import __version__

DEFAULT_MARGIN = 0.05
"""As a score: where there are none, the user states a margin of returns."""


@dataclass(frozen=True)
class PolicyRaceOptions:
    """What two policies do, when a race looks, and what it decides.

    Attributes:
        env: Id of the environment; `None` for that of the policies.
        suite: Name or folder of the only suite to search for it; `None` for all.
        plugin: The plug-in that made both policies; `None` to use the recorded ones if `trust`.
        trust: Whether files that execute code may be read.
        deterministic: Whether policies take their most likely action.
        seed: Seed of episodes and sampled actions.
        batch: Number of episodes of each policy from one look to the next.
        max_episodes: Largest number of episodes of each.
        alpha: Chance of any false decision.
        margin: Largest difference that counts as none; `None` for 0.05 of the score.
        observation_keys: Where policies with named inputs find them; see `load_expert_policy`.
    """

    env: str | None = None
    suite: str | None = None
    plugin: str | None = None
    trust: bool = False
    deterministic: bool = False
    seed: int = 0
    batch: int = 25
    max_episodes: int = 500
    alpha: float = 0.05
    margin: float | None = None
    observation_keys: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Checks the numbers.

        Raises:
            InputError: A number is out of range.
        """
        margin = DEFAULT_MARGIN if self.margin is None else self.margin
        check_numbers(
            self.alpha, margin, self.batch, self.max_episodes, "--max-episodes", MOST_EPISODES
        )


@dataclass(frozen=True)
class PlannedPolicyRace:
    """A race with the policies that it evaluates.

    Attributes:
        race: The design; registered or not.
        policies: Both policies, loaded.
    """

    race: RegisteredPolicyRace
    policies: tuple[BasePolicy, BasePolicy]


def plan_policy_race(
    subjects: tuple[NamedPolicy, NamedPolicy], options: PolicyRaceOptions, *, command: str
) -> PlannedPolicyRace:
    """Plans a race of two policies.

    Args:
        subjects: Both policies; the verdict is about the first.
        options: Settings of the race.
        command: The command that the user typed, for provenance.

    Raises:
        InputError: An option is out of range, the policies have different environments, or one of
            them cannot be loaded.
    """
    options.check()
    digests = [_digest(subject) for subject in subjects]
    if digests[0] == digests[1]:
        raise InputError(
            f"{subjects[1].name}: has the same files as the first policy; name another one"
        )
    specs = [loading.environment_of(subject, options.env, options.suite) for subject in subjects]
    if specs[0] != specs[1]:
        raise InputError(
            f"{subjects[1].name}: was made for another environment than {subjects[0].name} "
            f"({specs[1].id}, not {specs[0].id}, or other arguments); name two policies for one "
            "environment"
        )
    # A policy that is not training needs no information about the ends of episodes.
    spec = specs[0].model_copy(update={"horizon": "variable"})
    keys = options.observation_keys
    plugins = [own.chosen_plugin(options.plugin, trust=options.trust) for own in subjects]
    first, second = (
        loading.load_subject(
            subject, specs[0], trust=options.trust, plugin=plugin, observation_keys=keys
        )
        for subject, plugin in zip(subjects, plugins, strict=True)
    )
    check_all_used(keys, (first, second))
    references = find_references(specs[0], options.suite)
    if references is not None:
        known = has_scale(references.random, references.expert)
        # Designs of one environment keep their ids when its card gets a second reference.
        references = references.model_copy(update={"expert_likely": None}) if known else None
    if references is None and options.margin is None:
        raise InputError(
            f"{spec.id}: no suite gives its scores, so returns are compared; state by --margin the "
            "difference of mean returns up to which policies are equivalent"
        )
    design = PolicyDesign(
        policies=[
            RacedPolicy(
                label=subject.name,
                digest=digest,
                observation_keys=keys_of(policy, keys) or None,
            )
            for subject, digest, policy in zip(subjects, digests, (first, second), strict=True)
        ],
        environment=spec,
        references=references,
        deterministic=options.deterministic,
        batch=options.batch,
        max_episodes=options.max_episodes,
        alpha=options.alpha,
        margin=DEFAULT_MARGIN if options.margin is None else options.margin,
        seed=options.seed,
    )
    race = RegisteredPolicyRace(
        design=design, registered_at=now(), command=command, imitbench=__version__
    )
    return PlannedPolicyRace(race, (first, second))


def _digest(subject: NamedPolicy) -> str:
    """Returns the digest of all files that a policy is loaded from."""
    found = open_expert_folder(subject.path)
    if found.policy.is_dir():
        return digest_files(found.policy, (p for p in found.policy.rglob("*") if p.is_file()))
    beside = [found.folder / name for name in ("config.yml", "args.yml", "env_kwargs.yml")]
    files = [found.policy, found.statistics, *(path for path in beside if path.is_file())]
    return digest_files(found.folder, [path for path in files if path is not None])


@dataclass(frozen=True)
class PolicyRaceResult:
    """A race with its episodes so far.

    Attributes:
        race: The registered race.
        found: Looks, decision, and what the next look needs.
        others: Number of races of these policies in this environment with another design.
    """

    race: RegisteredPolicyRace
    found: Race = field(repr=False)
    others: int = 0


def run_policy_race(
    planned: PlannedPolicyRace,
    out: Path,
    *,
    looked: Callable[[PolicyRaceResult], None],
    waiting: Callable[[], None],
) -> PolicyRaceResult:
    """Registers a race, unless it is registered, and evaluates batches until it is decided.

    Args:
        planned: The race and its policies.
        out: Results folder.
        looked: Called after each look, and before the first one.
        waiting: Called if another process is carrying out this race.

    Raises:
        InputError: A file of the race was edited, the folder cannot be written, or a return is not
            finite.
    """
    check_no_submission(out)
    check_writable(out)
    race = register_policy_race(out, planned.race)
    design, folder = race.design, design_folder(out, race)
    with alone(folder, waiting):
        result = PolicyRaceResult(
            race, design.replay(read_returns(folder, design)), _others(out, race)
        )
        while result.found.needed:
            looked(result)
            look = design.sequential.looks.index(result.found.needed[0].last)
            for side, policy in zip(SIDES, planned.policies, strict=True):
                if read_batch(folder, design, side, look) is None:
                    returns = _evaluate(design, policy, side, look)
                    write_batch(folder, design, side, look, returns)
            found = design.replay(read_returns(folder, design))
            result = replace(result, found=found)
        looked(result)
    return result


def _others(out: Path, race: RegisteredPolicyRace) -> int:
    digests = {policy.digest for policy in race.design.policies}
    return sum(
        other.id != race.id
        and other.design.environment == race.design.environment
        and {policy.digest for policy in other.design.policies} == digests
        for other in read_policy_races(out)
    )


def _evaluate(design: PolicyDesign, policy: BasePolicy, side: str, look: int) -> list[float]:
    with measurement.check_arguments_accepted(design.environment):
        measured = measurement.measure(
            design.environment,
            policy,
            episodes=design.episodes_in(look),
            deterministic=design.deterministic,
            # Another design has other episodes: what it decides does not follow from the first.
            seed=derive_seed(design.seed, f"{design.digest} {side} {look}"),
        )
    episodes = measured.episodes
    by_success = design.references is not None and design.references.score_one == "success"
    values = episodes.success if by_success else episodes.returns
    assert values is not None, "the environment of the design has success"
    returns = [float(value) for value in values]
    if not all(map(math.isfinite, returns)):
        label = design.policies[SIDES.index(side)].label
        raise InputError(f"{label}: an episode in {design.environment.id} has no finite return")
    return returns
