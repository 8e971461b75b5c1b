"""Trains some runs of a submission again, and compares the results.

Runs are planned here from the cards and data of this package, and of plug-ins that the user names.
A submission only selects plans; no code or file that it names is used. A run is the same if the
specification of the plan has the same digest.
"""

from __future__ import annotations

import glob
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.bench.artifacts import HUB
from imitbench.bench.plan import Plan, plan_request
from imitbench.bench.provenance import describe_provenance, now
from imitbench.bench.request import PluginSelection
from imitbench.cards.algorithm import setting_text
from imitbench.cards.budgets import is_budget
from imitbench.errors import InputError
from imitbench.executors.devices import check_cuda, find_cuda
from imitbench.published.results_folder import read_run
from imitbench.published.verification import (
    AGREEING,
    FiniteComparison,
    RefusedRun,
    ReturnComparison,
    Verdict,
    Verification,
    VerifiedRun,
    draw_order,
    worse_verdict,
)
from imitbench.records.episodes import EpisodeTable
from imitbench.records.published import PublishedRun
from imitbench.records.runs import RunSpec
from imitbench.store.comparability import Conditions
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import SweepRequest
from imitbench.util.hub_client import silent
from imitbench.util.hub_errors import Notify
from imitbench.util.text_line import one_line

Z = 3.0
"""Half-width of bands in standard errors: by chance, one comparison in 370 is outside."""

_PLAUSIBLE = 0.01
"""Standard error, in units of scores, to accept from a submission if none was found here."""


@dataclass(frozen=True)
class ReproductionSample:
    """Runs to train again.

    Attributes:
        runs: Submitted runs, in the order in which they were drawn.
        plans: Plans that train them.
        refused: Runs drawn before that cannot be trained; other runs replace them.
    """

    runs: list[PublishedRun] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    refused: list[RefusedRun] = field(default_factory=list)


@dataclass(frozen=True)
class Reproduction:
    """A run that was trained again.

    Attributes:
        spec: Specification of the run.
        verdict: How well the reproduced run agrees with the submitted one.
        stochastic: Comparison for the stochastic policy; `None` if the run failed here.
        deterministic: Comparison for the deterministic policy; `None` if the run failed here.
        same_setting: Whether versions and processor are the same, so that the numbers should be
            identical.
        problem: Why the run failed here; empty if it did not.
    """

    spec: RunSpec
    verdict: Verdict
    stochastic: ReturnComparison | None = None
    deterministic: ReturnComparison | None = None
    same_setting: bool = False
    problem: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the reproduction agrees with the submission."""
        return self.verdict in AGREEING


def sample_runs(
    runs: Sequence[PublishedRun],
    count: int,
    *,
    seed: int,
    notify: Notify = silent,
    plugins: PluginSelection | None = None,
) -> ReproductionSample:
    """Draws completed runs of a submission at random, and plans their training here.

    Runs without training are drawn only when no others are left.

    Args:
        runs: Runs of the submission.
        count: Number of runs to draw; fewer are drawn if fewer can be trained here.
        seed: Seed of the draw.
        notify: Called with messages about downloads.
        plugins: Plug-ins that the user named; runs of others are refused.
    """
    plugins = plugins or PluginSelection()
    drawn = ReproductionSample()
    for run in draw_order(runs, seed):
        if len(drawn.runs) == count:
            break
        try:
            plan = _plan(run.spec, _seeds_with(run.spec, runs), plugins, notify)
        except InputError as error:
            refused = RefusedRun(run_id=run.spec.run_id, label=run.spec.label, why=str(error))
            drawn.refused.append(refused)
        else:
            drawn.runs.append(run)
            drawn.plans.append(plan)
    return replace(drawn, plans=_together(drawn.plans))


def compare_run(run: PublishedRun, out: Path, runs: Iterable[PublishedRun]) -> Reproduction:
    """Compares a submitted run with the same run trained here.

    Args:
        run: Submitted run.
        out: Results folder of the runs trained here.
        runs: All runs of the submission.

    Raises:
        InputError: The run was not trained here, or its files cannot be read.
    """
    spec = run.spec
    here = read_run(RunDirectory.of(out, spec))
    if here.result is None:
        assert here.failure is not None
        problem = f"{here.failure.phase}: {here.failure.error_type}: {here.failure.message}"
        return Reproduction(spec, "failed", problem=one_line(problem))
    assert run.result is not None and run.episodes is not None and here.episodes is not None
    # Without the run itself, because a forged number would widen its own band.
    peers = [
        other
        for other in runs
        if other.result and _cell(other.spec) == _cell(spec) and other.spec.run_id != spec.run_id
    ]
    scale = here.result.references.expert - here.result.references.random
    stochastic, deterministic = (
        _compare(run.episodes, here.episodes, peers, scale, deterministic=choice)
        for choice in (False, True)
    )
    worst = worse_verdict(stochastic, deterministic)
    if _equal(run.episodes, here.episodes) and run.result.env_steps == here.result.env_steps:
        worst = "identical"
    same_setting = _setting(run) == _setting(here)
    return Reproduction(spec, worst, stochastic, deterministic, same_setting)


def _compare(
    stated: EpisodeTable,
    found: EpisodeTable,
    peers: Sequence[PublishedRun],
    scale: float,
    *,
    deterministic: bool,
) -> ReturnComparison:
    name = "deterministic_return" if deterministic else "raw_return"
    one, other = (
        episodes.returns[episodes.deterministic == deterministic] for episodes in (stated, found)
    )
    own = _standard_error(other)
    # Forged episodes with a large spread must not widen the band that judges them.
    theirs = min(_standard_error(one), max(own, _PLAUSIBLE * scale))
    return ReturnComparison(
        stated=float(one.mean()),
        found=float(other.mean()),
        noise_band=Z * math.hypot(theirs, own),
        seed_band=_seed_band([getattr(peer.result, name) for peer in peers]),
    )


def _seeds_with(spec: RunSpec, runs: Iterable[PublishedRun]) -> list[int]:
    """Returns the seeds of a run's pack, in order; only its own if it was trained alone.

    Rounding depends on all seeds of a pack, so all are trained again.

    Args:
        spec: Specification of the run.
        runs: Runs of the submission.

    Raises:
        InputError: Some seeds of the pack are not in the submission.
    """
    if spec.pack is None:
        return [spec.seed]
    cell = sorted({run.spec.seed for run in runs if _cell(run.spec) == _cell(spec)})
    begin = cell.index(spec.seed) // spec.pack * spec.pack
    seeds = cell[begin : begin + spec.pack]
    if len(seeds) < spec.pack:
        raise InputError(
            f"it was trained in a pack of {spec.pack} seeds, of which the submission has only "
            f"{', '.join(map(str, seeds))}"
        )
    return seeds


def _plan(spec: RunSpec, seeds: Sequence[int], plugins: PluginSelection, notify: Notify) -> Plan:
    """Plans a run with the cards and data of this installation.

    Args:
        spec: Specification of the run.
        seeds: Seeds that are trained together with it, and its own.
        plugins: Plug-ins that the user named.
        notify: Called with messages about downloads.

    Raises:
        InputError: The run cannot be planned here.
    """
    outside = spec.implementation_digest is not None
    if outside and spec.algo not in plugins.algorithms:
        raise InputError(
            "its algorithm is a plug-in, which cannot be verified here unless you have it, and "
            f"name it by --algo (source digest {one_line(str(spec.implementation_digest), 12)})"
        )
    if spec.environment.module_digest is not None and spec.suite not in plugins.suites:
        raise InputError(
            "its suite is one of the submitter's own, which cannot be verified here unless you "
            "have it, and name it by --suite"
        )
    card, suite = plugins.algorithm(spec.algo), plugins.suite(spec.suite)
    if spec.implementation != card.implementation:
        where = "of the plug-in" if outside else "of this package"
        raise InputError(
            f"its implementation, {one_line(spec.implementation, 80)}, is not that {where}"
        )
    if spec.implementation_digest != card.origin.digest:
        raise InputError(f"the named source of {card.name} differs from that of the run")
    budget = spec.budget.name
    if not is_budget(budget):
        raise InputError(f"this package has no budget {one_line(spec.budget.name, 40)!r}")
    env_id, unit, amount = spec.environment.id, spec.budget.unit, spec.budget.amount
    if env_id in suite.environments:
        then = suite.environments[env_id].with_amount(budget, unit, amount)
        suite = suite.with_environments({env_id: then})
    source = spec.source or "bundled"
    if source not in ("bundled", HUB):
        raise InputError(
            f"its experts or demonstrations are from {one_line(source, 80)}, not from this package"
        )
    if spec.device != "cpu":
        check_cuda(("0",), find_cuda())
    demos = spec.demos
    request = SweepRequest(
        algorithms=[card.name],
        suite=suite.name,
        environment=glob.escape(spec.environment.id),
        seeds=list(seeds),
        source=source,
        budget=budget,
        **(demos.regime.recorded if demos else {}),
        overrides={
            name: setting_text(value)
            for name, value in card.completed(spec.hyperparameters).items()
        },
        device=spec.device,
        pack=spec.pack,
        folder=".",
    )
    plan = plan_request(request, notify, algorithms=[card], suite=suite)
    planned = [own for own in plan if own.seed == spec.seed]
    if not planned:
        raise InputError(f"cannot be run: {plan.not_applicable[0].why}")
    if planned[0].run_id != spec.run_id:
        names = _unequal(spec.model_dump(), planned[0].model_dump())
        raise InputError(f"a run with these settings has another {', '.join(names)} here")
    return replace(plan, only=frozenset([spec.run_id]))


def _unequal(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Returns the names of values that differ between two specifications."""
    names = []
    for name, value in one.items():
        here = other.get(name)
        if isinstance(value, dict) and isinstance(here, dict) and name != "hyperparameters":
            names += [f"{name}.{key}" for key in value if value[key] != here.get(key)]
        elif value != here:
            names.append(name)
    return names


def _together(plans: Sequence[Plan]) -> list[Plan]:
    """Merges plans with the same settings, so that their runs can be done in parallel."""
    merged: dict[tuple[object, ...], Plan] = {}
    for index, plan in enumerate(plans):
        own = plan.request
        # Commits of hub repositories were looked up separately for each plan.
        apart = index if own.source == HUB else None
        amounts = tuple(
            budget.env_steps
            for card in plan.suite.environments.values()
            for budget in card.budgets.values()
        )
        demos = str(own.regime)
        pack = None if own.pack is None else (own.pack, *own.seeds)
        key = (plan.suite.name, own.source, own.budget, demos, own.device, pack, apart, amounts)
        before = merged.get(key)
        if before is not None:
            algorithms = [*before.algorithms]
            algorithms += [method for method in plan.algorithms if method not in algorithms]
            plan = replace(
                before,
                environments={**before.environments, **plan.environments},
                algorithms=algorithms,
                seeds=list(dict.fromkeys([*before.seeds, *plan.seeds])),
                only=(before.only or frozenset()) | (plan.only or frozenset()),
            )
        merged[key] = plan
    return list(merged.values())


def _cell(spec: RunSpec) -> tuple[object, ...]:
    return Conditions.of_spec(spec), spec.environment.id, spec.algo_label


def _standard_error(returns: npt.NDArray[np.float64]) -> float:
    return float(returns.std(ddof=1) / math.sqrt(len(returns))) if len(returns) > 1 else 0.0


def _seed_band(returns: Sequence[float]) -> float | None:
    """Returns the largest difference of two runs that different seeds explain."""
    if len(returns) < 2:
        return None
    return Z * math.sqrt(2.0) * float(np.std(returns, ddof=1))


def _equal(one: EpisodeTable, other: EpisodeTable) -> bool:
    names = ("returns", "lengths", "terminated", "deterministic", "success")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def _setting(run: PublishedRun) -> tuple[object, ...]:
    """Returns what numbers may depend on in addition to the specification."""
    came = run.provenance
    return came.imitbench, came.git_sha, came.python, came.packages, came.cpu, came.gpu


def record_verification(
    name: str,
    digest: str,
    submitted: Sequence[PublishedRun],
    drawn: ReproductionSample,
    found: Sequence[Reproduction],
    *,
    by: str,
    seed: int,
    public_seed: str | None,
    command: str,
) -> Verification:
    """Returns the record of a verification, with its digest.

    Args:
        name: Name of the submission's folder.
        digest: Digest of the submission.
        submitted: Runs of the submission.
        drawn: The runs that were drawn.
        found: Outcomes of those that were trained again.
        by: Who trained them.
        seed: Seed of the draw.
        public_seed: Text from which the seed follows, if it does.
        command: Command line to record.
    """
    came = describe_provenance(command, "cpu").model_copy(update={"host": ""})
    return Verification(
        submission=digest,
        name=one_line(name),
        verified_by=by,
        verified_at=now(),
        seed=seed,
        public_seed=public_seed,
        completed=sum(run.result is not None for run in submitted),
        runs=[_verified(run) for run in found],
        refused=[run.model_copy(update={"why": one_line(run.why)}) for run in drawn.refused],
        provenance=came,
    ).sealed()


def _verified(run: Reproduction) -> VerifiedRun:
    problem, verdict = run.problem, run.verdict
    comparisons = (run.stochastic, run.deterministic)
    if not problem and not all(c and math.isfinite(c.difference) for c in comparisons):
        # A record has finite numbers only, and readers believe no difference without numbers.
        problem, verdict = "returns are not finite", "failed"

    def numbers(comparison: ReturnComparison | None) -> FiniteComparison | None:
        if problem or comparison is None:
            return None
        return FiniteComparison(**comparison.model_dump())

    return VerifiedRun(
        run_id=run.spec.run_id,
        label=run.spec.label,
        verdict=verdict,
        raw_return=numbers(run.stochastic),
        deterministic_return=numbers(run.deterministic),
        same_setting=run.same_setting,
        problem=problem,
    )
