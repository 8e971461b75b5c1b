"""From the name of a method to the report about it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from imitbench.bench import artifacts
from imitbench.bench.plan import Plan, make_plan
from imitbench.bench.plugin_check import check_plugins
from imitbench.bench.spec import SweepSettings, reference_scores
from imitbench.cards.plugins import find_algorithm
from imitbench.conformance.checks import MethodChecker
from imitbench.conformance.report import ConformanceReport
from imitbench.conformance.resume import ResumeVerdict, check_resume
from imitbench.conformance.test_bed import MethodUnderTest, suite_test_bed
from imitbench.errors import InputError
from imitbench.records.runs import Protocol, RunSpec
from imitbench.util.torch_startup import repeat_exactly, use_one_thread

_PROTOCOL = Protocol(episodes=4, environments=4)
_SHARE = 4  # of a quick budget


def check_method(
    reference: str,
    *,
    suite: str | None = None,
    environment: str | None = None,
    amount: int | None = None,
    overrides: dict[str, str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> ConformanceReport:
    """Makes every check of a method.

    Args:
        reference: The method, as the user names it.
        suite: Where to try it; `None` for the classic or the tabular suite.
        environment: Glob; the first environment that the method can learn on is taken.
        amount: Training of each trial, in the unit of its budget.
        overrides: Hyper-parameters as text.
        tell: Told about progress.

    Raises:
        InputError: There is no such method, or nothing there that it can learn on.
    """
    card = find_algorithm(reference)
    plan = make_plan(
        algorithms=[card],
        suite=suite or ("tabular" if card.needs.tabular else "classic"),
        environment=environment,
        seeds=[0],
        settings=SweepSettings(budget="quick", overrides=overrides or {}),
    )
    spec = _first(plan)
    check_plugins(plan)
    use_one_thread()
    repeat_exactly("cpu")
    if card.budget_unit != "none":
        share = max(1, spec.budget.amount // _SHARE) if amount is None else amount
        spec = _with_amount(spec, share)
    root = artifacts.source_root("bundled", plan.suite.origin.folder)
    references = reference_scores(plan.suite, spec.environment.id, "bundled")

    def verify() -> ResumeVerdict:
        with tempfile.TemporaryDirectory(prefix="imitbench-") as folder:
            return check_resume(
                spec,
                source_root=root,
                sources=plan.sources,
                references=references,
                folder=Path(folder),
                kills=1,
            )

    env_card = plan.environments[spec.environment.id]
    return MethodChecker(
        MethodUnderTest(card, card.completed(spec.hyperparameters), spec.budget.amount),
        suite_test_bed(spec, root),
        default_amount=env_card.amount("default", card.budget_unit),
        verify=verify,
        tell=tell,
    ).check()


def _first(plan: Plan) -> RunSpec:
    for spec in plan:
        return spec
    pair = plan.not_applicable[0]
    raise InputError(
        f"{pair.algo} on {pair.env}: {pair.why}; name where it can learn by --suite and --env"
    )


def _with_amount(spec: RunSpec, amount: int) -> RunSpec:
    budget = spec.budget.model_copy(update={"amount": amount})
    return spec.model_copy(update={"budget": budget, "protocol": _PROTOCOL})
