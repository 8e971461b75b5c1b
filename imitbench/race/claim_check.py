"""Checks a claim: registers it, trains its method on the claim's task, and compares the returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from imitbench.bench.plan import DemoChoice, Plan
from imitbench.bench.provenance import now
from imitbench.bench.request import plan_requests
from imitbench.bench.sweep import SweepOutcome, carry_out, check_writable
from imitbench.errors import InputError
from imitbench.executors.options import RunOptions
from imitbench.published.claim_outcomes import (
    LEVEL,
    MARGIN,
    ComparedClaim,
    outcome_of,
    verdict_of,
    why_not_comparable,
)
from imitbench.published.claims import Claim
from imitbench.published.submission import check_no_submission
from imitbench.store.claim_designs import ClaimDesign, RegisteredClaim, register_claim
from imitbench.store.races import read_outcome
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import SweepRequest
from imitbench.util.hub_client import silent
from imitbench.util.hub_errors import Notify
from imitbench.version import __version__


@dataclass(frozen=True)
class PlannedCheck:
    """A check of a claim with the plan of its runs.

    Attributes:
        number: Number of the claim.
        claim: The claim.
        registered: Its design; registered or not.
        plan: All runs.
    """

    number: int
    claim: Claim
    registered: RegisteredClaim
    plan: Plan


def plan_check(
    number: int,
    claim: Claim,
    seeds: Sequence[int],
    options: RunOptions,
    *,
    command: str,
    notify: Notify = silent,
    collect: bool = True,
) -> PlannedCheck:
    """Plans the runs of a check.

    Args:
        number: Number of the claim.
        claim: The claim.
        seeds: Seeds of its runs.
        options: Execution options, as `imitbench.executors.registry.resolve` returns them.
        command: The command that the user typed, for provenance.
        notify: Called with messages to the user.
        collect: As for `plan_request`.

    Raises:
        InputError: The claim is not comparable with runs of this package, or they cannot be made.
    """
    if (why := why_not_comparable(claim)) is not None:
        raise InputError(f"claim {number}: not comparable ({why}); no run can settle it")
    demos = None if claim.n_demos is None else str(claim.n_demos)
    request = SweepRequest(
        algorithms=[claim.algo],
        suite=claim.suite,
        environment=claim.env,
        seeds=list(seeds),
        config=claim.config,
        budget=claim.budget,
        overrides={},
        source="bundled",
        lock=None,
        device=options.device_class,
        pack=options.pack,
        folder=str(Path.cwd()),
    )
    choice = DemoChoice.parse(demos, None, claim.regime)
    [plan] = plan_requests([request], choice, notify, collect=collect)
    claimed = claim.share if claim.share is not None else claim.score
    assert claimed is not None  # else it is not comparable
    design = ClaimDesign(
        source=claim.text,
        url=claim.url,
        algo=claim.algo,
        suite=claim.suite,
        env=claim.env,
        claimed=claimed,
        margin=MARGIN,
        level=LEVEL,
        seeds=tuple(seeds),
        setting=next(iter(plan)).setting,
    )
    registered = RegisteredClaim(
        design=design, registered_at=now(), command=command, imitbench=__version__
    )
    return PlannedCheck(number, claim, registered.sealed(), plan)


@dataclass(frozen=True)
class CheckResult:
    """How a check ended.

    Attributes:
        registered: The registered claim.
        compared: The claim beside the runs; `None` while runs are missing.
        trained: Outcome of the runs of this process.
    """

    registered: RegisteredClaim
    compared: ComparedClaim | None
    trained: SweepOutcome


def run_check(
    planned: PlannedCheck, options: RunOptions, *, out: Path, command: str, quiet: bool = True
) -> CheckResult:
    """Registers a check, unless it is registered, does its missing runs, and compares.

    Args:
        planned: The check and its plan.
        options: Execution options, as `imitbench.executors.registry.resolve` returns them.
        out: Results folder.
        command: The command that the user typed, for provenance.
        quiet: Whether not to show the progress of runs.

    Returns:
        The result. A failed run counts as random actions.

    Raises:
        InputError: The folder has other results, or the runs cannot be done.
    """
    from imitbench.bench.progress import make_observer

    check_no_submission(out)
    check_writable(out)
    registered = register_claim(out, planned.registered, planned.plan)
    with make_observer(quiet=quiet) as observer:
        trained = carry_out([planned.plan], options, out=out, command=command, observer=observer)
    found = [read_outcome(RunDirectory.of(out, spec)) for spec in planned.plan]
    runs = [run for run in found if run is not None]
    if len(runs) < len(found):
        return CheckResult(registered, None, trained)
    own = outcome_of(runs)
    verdict = verdict_of(planned.claim, own, margin=registered.design.margin)
    return CheckResult(
        registered, ComparedClaim(planned.number, planned.claim, own, *verdict), trained
    )
