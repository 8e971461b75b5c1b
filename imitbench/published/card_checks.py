"""Checks runs against the cards of the suites and algorithms that ship with this package."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache

from imitbench.cards.algorithm import STEP_UNITS, Scalar
from imitbench.cards.budgets import BUDGET_NAMES, is_budget
from imitbench.cards.catalog import load_algorithm, suite_directory
from imitbench.cards.demonstrations import DemoSet, PolicySet
from imitbench.cards.suite import (
    EnvironmentCard,
    ExpertRecipe,
    ScoreOne,
    mismatch,
    regime_mismatch,
)
from imitbench.cards.tuned import load_tuned
from imitbench.published.findings import Check, Findings
from imitbench.published.submission import LocatedRun
from imitbench.published.table_values import table_values
from imitbench.records.bundled_cards import bundled_algorithm, bundled_suite, environment_of
from imitbench.records.runs import (
    ArtifactSpec,
    EnvironmentSpec,
    Protocol,
    ReferenceScores,
    RunSpec,
    variant_label,
)
from imitbench.stats.normalization import has_scale
from imitbench.store.artifact_files import content_files, recipe_digest
from imitbench.util.files import digest_files
from imitbench.util.hub_client import RepoKind
from imitbench.util.text_line import one_line

_RERUN = "run it again with `imitbench run`"


@cache
def _tuned(name: str, env_id: str) -> Sequence[dict[str, Scalar]]:
    """Returns all hyper-parameters as tuned for an environment: next to the card, or a table's."""
    card = load_algorithm(name)
    beside = (load_tuned(card) or {}).get(env_id)
    found = [tuned[env_id].values for tuned in table_values(name) if env_id in tuned]
    return [*([beside] if beside else []), *({**card.resolve({}), **values} for values in found)]


@cache
def _defaults(name: str) -> Sequence[dict[str, Scalar]]:
    """Returns all hyper-parameters of a bundled algorithm's card, then of its earlier versions."""
    card = load_algorithm(name)
    return [card.resolve({}), *card.earlier_values()]


def check_against_cards(runs: Sequence[LocatedRun], findings: Findings) -> None:
    """Checks specifications and references of runs against the bundled cards.

    Suites and algorithms that are not bundled are noted, which is not a problem.
    """
    for run in runs:
        spec = run.run.spec
        _check_suite(spec, run.where, findings)
        _check_budget(spec, run.where, findings)
        _check_algorithm(spec, run.where, findings)
        _check_content(run, findings)
        _check_rewards(run, findings)
    _check_references(runs, findings)


def _check_suite(spec: RunSpec, where: str, findings: Findings) -> None:
    def fail(what: str) -> None:
        findings.fail("suite", where, what, _RERUN)

    if spec.protocol != Protocol():
        own, due = spec.protocol, Protocol()
        fail(
            f"evaluated by {own.episodes} episodes in {own.environments} environments; expected "
            f"{due.episodes} in {due.environments}"
        )
    suite = bundled_suite(spec.suite)
    if suite is None:
        findings.note(
            "suite", one_line(spec.suite, 60), "is not a suite of this package: unchecked"
        )
        return
    card = environment_of(spec)
    env_id = spec.environment.id
    if card is None:
        fail(f"suite {suite.name} has no environment {one_line(env_id, 60)!r}")
    elif spec.environment != EnvironmentSpec.of_card(env_id, card, spec.hyperparameters):
        fail(f"{env_id}: module, kwargs, horizon or hidden positions differ from the suite's card")


def _check_rewards(located: LocatedRun, findings: Findings) -> None:
    """Checks where policies were scored that belong to a learned reward."""
    run = located.run
    suite = bundled_suite(run.spec.suite)
    if run.rewards is None or suite is None:
        return
    here = run.spec.environment.id
    known = suite.tested_in(here)
    for tested_in in dict.fromkeys(score.tested_in for score in run.rewards.scores):
        if tested_in is not None and tested_in not in known:
            what = f"its reward was tested in {one_line(tested_in, 60)!r}, which is not for {here}"
            fix = "measure it again with `imitbench rewards evaluate`"
            findings.fail("rewards", located.where, what, fix)


def _check_budget(spec: RunSpec, where: str, findings: Findings) -> None:
    card, budget = environment_of(spec), spec.budget
    if card is None:
        return
    if not is_budget(budget.name):
        known = ", ".join(BUDGET_NAMES)
        what = f"budget {one_line(budget.name, 40)!r} is not one of {known}, nor a part"
        findings.fail("budget", where, what, _RERUN)
        return
    due = card.amount(budget.name, budget.unit)
    if card.was_amount(budget.name, budget.unit, budget.amount):
        what = f"budget {budget.name} was {budget.amount} {budget.unit} then; now it is {due}"
        findings.note("budget", f"{spec.suite}, {spec.environment.id}", what)
    elif budget.amount != due:
        findings.fail(
            "budget",
            where,
            f"{budget.amount} {budget.unit}; budget {budget.name} of the suite's card is {due}",
            _RERUN,
        )


def _check_algorithm(spec: RunSpec, where: str, findings: Findings) -> None:
    card = bundled_algorithm(spec.algo)
    if card is None:
        name = one_line(spec.algo, 60)
        findings.note("algorithm", name, "is not an algorithm of this package: its settings and "
                      "its behavior are unchecked")  # fmt: skip
        return

    def fail(check: Check, what: str) -> None:
        findings.fail(check, where, f"{card.name}: {what}", _RERUN)

    if spec.implementation != card.implementation or spec.implementation_digest is not None:
        fail("algorithm", f"implementation is not the card's, {card.implementation}")
    values = card.completed(spec.hyperparameters)
    for name in sorted(values.keys() ^ card.hyperparameters.keys()):
        lacks = "lacks" if name in card.hyperparameters else "has no"
        fail("algorithm", f"{lacks} hyper-parameter {one_line(name, 60)}")
    for name in spec.hyperparameters.keys() - card.recorded(spec.hyperparameters).keys():
        fail("algorithm", f"names {name}, which records omit where it has no effect")
    for name, parameter in card.hyperparameters.items():
        if name in values:
            try:
                parameter.check(values[name])
            except ValueError as error:
                fail("algorithm", f"{name} {one_line(error)}")
    tuned = _tuned(card.name, spec.environment.id) if spec.tuned else ()
    label, *others = (
        variant_label(card.changed(values, base), spec.device, tuned=bool(tuned), pack=spec.pack)
        for base in tuned or _defaults(card.name)
    )
    if spec.variant not in (label, *others):
        due = f"differ from the card by {one_line(label)!r}" if label else "are the card's"
        fail("algorithm", f"labeled {one_line(spec.variant, 80)!r}, but its settings {due}")
    if spec.pack is not None and not card.packs:
        fail("algorithm", f"a pack of {spec.pack} seeds; it trains one seed at a time")
    units = STEP_UNITS if card.budget_unit == "replay_steps" else (card.budget_unit,)
    if spec.budget.unit not in units:
        fail("budget", f"budget counts {spec.budget.unit}; the card's counts {card.budget_unit}")
    needs = card.needs
    for what, has, due_there in (
        ("demonstrations", spec.demos is not None, needs.demos),
        ("an expert", spec.expert is not None, needs.expert),
        ("the environment's reward", spec.uses_reward, needs.true_reward),
    ):
        if has != due_there:
            fail("algorithm", f"{'uses' if has else 'does not use'} {what}, unlike the card")
    environment = environment_of(spec)
    why_not = mismatch(card, environment) if environment else None
    if why_not:
        fail("algorithm", f"on {spec.environment.id}: {why_not}")
    if spec.demos is not None and (unfit := regime_mismatch(card, spec.demos.regime)):
        fail("algorithm", f"with {spec.demos.regime}: {unfit}")
    if environment is not None and spec.source == "bundled":
        for what in _not_bundled(spec, environment):
            fail("algorithm", what)
    demos = spec.demos
    if demos is not None:
        if demos.count > demos.available:
            fail("algorithm", f"{demos.count} demonstrations out of {demos.available}")
        # Each seed draws its own subset.
        elif demos.subsample_seed != (0 if demos.whole else spec.seed):
            fail("algorithm", "its demonstrations were not drawn by its seed")


def _not_bundled(spec: RunSpec, card: EnvironmentCard) -> list[str]:
    """Returns the stated bundled demonstrations and expert that differ from the suite's card."""
    wrong = []
    demos, due = spec.demos, card.demos
    if demos and (demos.repo, demos.available) != (due.repo, due.trajectories):
        what = f"{demos.available} demonstrations of {one_line(demos.repo, 60)}"
        wrong.append(f"{what}; the suite comes with {due.trajectories} of {due.repo}")
    for part in (demos.supplement if demos else None) or ():
        named = card.sets.get(part.name)
        if named is None or (part.repo, part.available) != (named.repo, named.trajectories):
            what = f"{part.available} trajectories of {one_line(part.repo, 60)} as set {part.name}"
            wrong.append(f"{what}; the suite comes with other sets")
    own = card.expert.repo if card.expert else "none"
    if spec.expert and spec.expert.repo != own:
        repo = one_line(spec.expert.repo, 60)
        wrong.append(f"expert {repo}; the suite comes with {own}")
    return wrong


@cache
def _bundled_digest(suite: str, kind: RepoKind, repo: str) -> str:
    folder = suite_directory(suite) / ("demos" if kind == "dataset" else "experts") / repo
    return digest_files(folder, content_files(kind, folder, repo))


def _due_digest(
    spec: RunSpec, card: EnvironmentCard, kind: RepoKind, stated: DemoSet | PolicySet | ExpertRecipe
) -> str:
    """Returns the digest of what this package has in place of what a run states."""
    home = stated.home or spec.suite
    if isinstance(stated, PolicySet) and not stated.bundled:
        policy = suite_directory(home) / "experts" / stated.repo
        return recipe_digest(policy, EnvironmentSpec.of_card(spec.environment.id, card), stated)
    return _bundled_digest(home, kind, stated.repo)


def _check_content(located: LocatedRun, findings: Findings) -> None:
    """Checks the digests of a run's demonstrations and expert, if these are stated as bundled."""
    spec, card = located.run.spec, environment_of(located.run.spec)
    if card is None or spec.source != "bundled":
        return
    pinned: list[
        tuple[RepoKind, str, ArtifactSpec | None, DemoSet | PolicySet | ExpertRecipe | None]
    ] = [
        ("dataset", "demonstrations", spec.demos, card.demos),
        ("model", "expert", spec.expert, card.expert),
    ]
    pinned += [
        ("dataset", f"set {part.name}", part, card.sets.get(part.name))
        for part in (spec.demos.supplement if spec.demos else None) or ()
    ]
    for kind, name, found, stated in pinned:
        if found is None or stated is None or found.repo != stated.repo:
            continue  # another name is a problem already
        due = _due_digest(spec, card, kind, stated)
        if found.digest == due:
            continue
        what = f"{name} {stated.repo}: its digest is {found.digest[:12]}, this package's {due[:12]}"
        # Later versions of a suite may bundle other files; results with earlier ones stay valid.
        base, suite = (
            located.run.outcome.references.version.partition("+")[0],
            bundled_suite(spec.suite),
        )
        if suite is None or not is_earlier(base, suite.version):
            findings.fail("algorithm", located.where, what, _RERUN)
        else:
            findings.note("algorithm", f"{spec.suite}, {spec.environment.id}", what)


def _check_references(runs: Sequence[LocatedRun], findings: Findings) -> None:
    """Checks references by environment and version against the card; notes other versions."""
    seen: dict[tuple[str, str, str], ReferenceScores] = {}
    learned = {
        version
        for run in runs
        if run.run.spec.source is not None
        and _knows_its_expert(run.run.spec, version := run.run.outcome.references.version, ())
    }
    for located in runs:
        found, spec = located.run.outcome.references, located.run.spec
        env_id = spec.environment.id
        if found.expert_likely is not None and bundled_suite(spec.suite) is not None:
            what = f"expert_likely {found.expert_likely:g}: the suite's card states it, runs do not"
            findings.fail("references", located.where, what, _RERUN)
        if not has_scale(found.random, found.expert):
            what = f"random {found.random:g} and expert {found.expert:g} define no scores"
            findings.fail("references", located.where, what)
            continue
        if not _knows_its_expert(spec, found.version, learned):
            what = f"version {one_line(found.version, 60)}: no run here learned from that source"
            findings.fail("references", located.where, what, _RERUN)
            continue
        first = seen.setdefault((spec.suite, env_id, found.version), found)
        if not first.agrees(found):
            what = f"{env_id}: another run has different references of the same version"
            findings.fail("references", located.where, what)
        elif first is found:
            _check_reference(spec, found, located.where, findings)


def _knows_its_expert(spec: RunSpec, version: str, learned: Collection[str]) -> bool:
    """Whether the expert in a version of references belongs to the source of the run.

    Args:
        spec: Specification of the run.
        version: Version of its references, as `imitbench.bench.spec.reference_scores` writes it.
        learned: Versions of runs with a source; runs without a source may have one of these.
    """
    _, foreign, expert = version.partition("+")
    if not foreign or spec.source is None:
        return not foreign or version in learned
    revision = expert.removeprefix(spec.source)
    return (
        spec.source != "bundled"
        and expert.startswith(spec.source)
        and (not revision or re.fullmatch(r":[0-9a-f]{8}", revision) is not None)
    )


def _check_reference(spec: RunSpec, found: ReferenceScores, where: str, findings: Findings) -> None:
    suite, card = bundled_suite(spec.suite), environment_of(spec)
    if suite is None or card is None or card.scale is None:
        return
    due = card.scale
    base, plus, source = found.version.partition("+")
    task = f"{spec.suite}, {spec.environment.id}"
    if is_earlier(base, suite.version):
        version = one_line(found.version, 60)
        what = f"references of version {version}; this package has {suite.version}"
        findings.note("references", task, f"{what}, so scores do not compare")
    elif base != suite.version:
        version = one_line(found.version, 60)
        what = f"references of version {version}, which this package does not know; it has"
        fix = "if that version is newer, update imitbench"
        findings.fail("references", where, f"{what} {suite.version}", fix)
    elif (found.random, found.score_one) != (due.random, due.score_one) or (
        not plus and found.expert != due.one
    ):
        findings.fail(
            "references",
            where,
            f"random {found.random:.10g} and expert {found.expert:.10g}; version {base} of the "
            f"suite's card says {due.random:.10g} and {due.one:.10g}",
        )
    elif plus:
        findings.note(
            "references",
            task,
            f"score 1 is {found.expert:.6g}, of the {_owner(due.score_one)} of "
            f"{one_line(source, 60)}; the suite's own has {due.one:.6g}",
        )


def _owner(score_one: ScoreOne) -> str:
    return "expert" if score_one == "expert" else "demonstrations"


def is_earlier(version: str, own: str) -> bool:
    """Whether a suite had that version before its current one; versions count up from 1."""
    return version in {str(number) for number in range(1, int(own))} if own.isdigit() else False
