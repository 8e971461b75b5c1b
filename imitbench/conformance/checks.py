"""The individual conformance checks of a method."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from imitbench.bench.plan import Plan, plan_request
from imitbench.bench.plugin_check import check_plugins
from imitbench.bench.provenance import remember_verdict
from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.cards.plugins import find_algorithm, find_suite
from imitbench.conformance.acting import act_in_turn, has_memory, memory_fault
from imitbench.conformance.bitwise import Difference, find_differences
from imitbench.conformance.practice_environments import Poison
from imitbench.conformance.resume import ResumeVerdict, check_resume
from imitbench.conformance.test_bed import (
    MethodUnderTest,
    TestBed,
    TrainingTrace,
    practice_test_bed,
    sizes_in,
    suite_test_bed,
)
from imitbench.errors import InputError
from imitbench.policies.foreign import is_foreign, load_foreign_policy
from imitbench.policies.storage import check_storable, load_policy, save_policy
from imitbench.records.runs import Protocol, RunSpec
from imitbench.rewards import storage as rewards
from imitbench.store.sweep_file import SweepRequest
from imitbench.util.quantities import show_size
from imitbench.util.state_file import load_state, save_state
from imitbench.util.torch_startup import repeat_exactly, use_one_thread

Verdict = Literal["passed", "failed", "skipped", "told"]
_Finding = tuple[Verdict, str]
"""Verdict and finding of a check, see `CheckResult`."""


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check.

    Attributes:
        check: Name of the check.
        verdict: Only `failed` counts against the method. `skipped` if the check is not possible or
            does not apply; `told` for information that is neither right nor wrong.
        what: Finding of the check, as a sentence.
    """

    check: str
    verdict: Verdict
    what: str


@dataclass(frozen=True)
class ConformanceReport:
    """Results of all checks of a method.

    Attributes:
        algo: Name of the method.
        env: Environment of the checks that do not use artificial ones.
        amount: Amount of training per trial, with its unit.
        findings: One result for each check, in order.
    """

    algo: str
    env: str
    amount: str
    findings: list[CheckResult] = field(default_factory=list)

    @property
    def conforms(self) -> bool:
        """Whether no check failed."""
        return not any(result.verdict == "failed" for result in self.findings)

    @property
    def isolated(self) -> bool | None:
        """Whether training depends on no true reward; `None` if that was not checked."""
        verdicts = {result.check: result.verdict for result in self.findings}
        found = [verdicts.get(name) for name in ("rewards", "isolation")]
        if "failed" in found:
            return False
        return True if found == ["passed", "passed"] else None

    def as_document(self) -> dict[str, Any]:
        """Returns the report as a JSON object."""
        return {
            "algo": self.algo,
            "env": self.env,
            "amount": self.amount,
            "conforms": self.conforms,
            "isolated": self.isolated,
            "checks": [vars(result) for result in self.findings],
        }


LARGEST_STATE = 1 << 30
"""Bytes that a checkpoint may take by the end of a default budget."""

_NAMED = 3  # largest entries of a state to report
_UNREPEATABLE = "training is not repeatable, so this cannot be checked; see seeding"
_UNTRAINED = "trains nothing"
_LEARNS_FROM_REWARDS = "the card says that it learns from true rewards"
_WAYS: dict[Poison, str] = {
    "canary": "rewards inside the environment (unwrapped, infos or attributes)",
    "run": "the stack or the folder of the run (evaluation, its seed, results)",
}


@dataclass
class MethodChecker:
    """Runs all checks of a method and reports the results.

    Attributes:
        subject: Method to check.
        bed: Test bed of the checks.
        default_amount: The environment's default budget in the method's unit.
        verify: Runs the check of `imitbench.conformance.resume`.
        notify: Called with messages about progress.
    """

    subject: MethodUnderTest
    bed: TestBed
    default_amount: int
    verify: Callable[[], ResumeVerdict]
    notify: Callable[[str], None]

    def __post_init__(self) -> None:
        self._trains = self.subject.card.budget_unit != "none"
        self._repeats = True
        self._reads_rewards = False

    def check(self) -> ConformanceReport:
        """Runs every check."""
        card = self.subject.card
        amount = f"{self.subject.amount} {card.budget_unit}" if self._trains else "none"
        report = ConformanceReport(card.name, self.bed.environment.id, amount)
        self.notify("training")
        try:
            self._base = self.subject.train(self.bed, measure=True)
        except Exception as error:
            report.findings.append(CheckResult("training", *_raised(error)))
            return report
        report.findings.append(CheckResult("training", "passed", self._base_in_words()))
        for name, check in (
            ("spaces", self._check_spaces),
            ("seeding", self._check_seeding),
            ("rewards", self._check_rewards),
            ("isolation", self._check_isolation),
            ("budget", self._check_budget),
            ("state", self._check_state),
            ("resume", self._check_resume),
            ("policy", self._check_policy),
            ("reward", self._check_reward),
            ("memory", self._check_memory),
            ("speed", self._check_speed),
        ):
            self.notify(name)
            try:
                finding = check()
            except Exception as error:  # any error of the method is a finding
                finding = _raised(error)
            report.findings.append(CheckResult(name, *finding))
        return report

    def _base_in_words(self) -> str:
        if not self._trains:
            return _UNTRAINED
        points = len(self._base.curve)
        return f"{self._base.seconds:.1f} s, {points} points of a curve, {self._base.offers} offers"

    def _check_spaces(self) -> _Finding:
        """Checks each kind of action space that the card names."""
        card = self.subject.card
        if card.needs.tabular:
            wrong = self._misfit(self._base, self.bed)
            what = "tabular: checked only on this environment"
            return "failed" if wrong else "passed", wrong or what
        for kind in card.needs.action_spaces:
            bed = practice_test_bed(kind)
            try:
                trained = self.subject.train(bed)
            except Exception as error:
                return "failed", f"{kind}: training raises {_in_words(error)}"
            wrong = self._misfit(trained, bed)
            if wrong:
                return "failed", f"{kind}: {wrong}"
        return "passed", f"acts in {', '.join(card.needs.action_spaces)}"

    def _misfit(self, trained: TrainingTrace, bed: TestBed) -> str:
        """Describes how a policy does not fit its environment; empty if it fits."""
        policy = trained.learner.policy()
        for name, found, due in (
            ("observation", policy.observation_space, bed.observation_space),
            ("action", policy.action_space, bed.action_space),
        ):
            if found.shape != due.shape or found.dtype != due.dtype:
                return (
                    f"the policy's {name} space is {found.dtype}{list(found.shape or ())}; the "
                    f"environment's is {due.dtype}{list(due.shape or ())}"
                )
        for deterministic in (False, True):
            actions, _ = policy.predict(bed.observations(), deterministic=deterministic)
            for action in actions:
                value = action.item() if np.ndim(action) == 0 else action
                if not bed.action_space.contains(value if np.ndim(action) else int(value)):
                    return f"action {action!r} is not in {bed.action_space}"
        return ""

    def _check_seeding(self) -> _Finding:
        """Checks that the same seed gives the same numbers, independent of global generators."""
        found = self._unlike(self.subject.train(self.bed, others=1))
        if found:
            again = self._unlike(self.subject.train(self.bed))
            self._repeats = not again
            if again:
                what = f"the same seed gives different numbers: {again[0]}"
            else:
                what = f"draws from the global generator of NumPy or Python: {found[0]}"
            return "failed", f"{what}; draw only from `rng`"
        if not self._trains:
            return "passed", f"{_UNTRAINED}; setup is repeatable"
        by_seed = self._unlike(self.subject.train(self.bed, seed=1))
        if self.subject.card.deterministic:
            if by_seed:
                what = f"the card says 'deterministic: true', but by seed differ: {by_seed[0]}"
                return "failed", what
            return "passed", "every seed gives the same bits, as on the card"
        if not by_seed:
            return "failed", (
                "seed 1 gives the same numbers as seed 0; if the method draws no random numbers, "
                "set 'deterministic: true' on its card"
            )
        return "passed", "same seed, same bits; another seed, other numbers"

    def _check_rewards(self) -> _Finding:
        """Checks that true rewards do not affect training, see `InstrumentedEnv`."""
        if self.subject.card.needs.true_reward:
            return "skipped", _LEARNS_FROM_REWARDS
        if not self._repeats:
            return "skipped", _UNREPEATABLE
        ways: dict[Poison, str] = {"nan": "NaN", "other": "other numbers"}
        for poison, words in ways.items():
            try:
                found = self._unlike(self.subject.train(self.bed, poison=poison))
            except Exception as error:
                return "failed", f"with {words} for true rewards: raises {_in_words(error)}"
            if found:
                self._reads_rewards = True
                return "failed", f"learns differently with {words} for true rewards: {found[0]}"
        return "passed", "learns the same for any true rewards"

    def _check_isolation(self) -> _Finding:
        """Checks that no other way leads to true rewards, see `Poison`."""
        card = self.subject.card
        if card.needs.true_reward:
            return "skipped", _LEARNS_FROM_REWARDS
        if not self._repeats:
            return "skipped", _UNREPEATABLE
        if card.command is not None:
            return "skipped", "runs in its own process, with environments of its own: not isolated"
        if self._reads_rewards:
            return "skipped", "learns from true rewards; see rewards"
        for poison, words in _WAYS.items():
            try:
                found = self._unlike(self.subject.train(self.bed, poison=poison))
            except Exception as error:
                return "failed", f"with canaries for {words}: raises {_in_words(error)}"
            if found:
                return "failed", f"not isolated: learns from {words}: {found[0]}"
        return "passed", "isolated: no way to true rewards is used"

    def _check_budget(self) -> _Finding:
        base, asked, unit = self._base, self.subject.amount, self.subject.card.budget_unit
        if self.subject.card.command is not None:
            what = f"runs in its own process: reports {base.claimed_steps} steps, not counted here"
            return "skipped", what
        if base.claimed_steps != base.real_steps:
            what = f"reports {base.claimed_steps} environment steps; it took {base.real_steps}"
            return "failed", what
        if not self._trains:
            return "passed", f"{_UNTRAINED}; {base.real_steps} steps"
        spent = base.real_steps
        if unit == "batches":
            spent = max((int(point["step"]) for point in base.curve), default=0)
        words = f"{spent} of {asked} {unit}"
        if spent > asked:
            return "failed", f"spends more than it is given: {words}"
        if spent == 0:
            return "failed", "reports no point of its curve, so batches cannot be counted"
        return "passed", words

    def _check_state(self) -> _Finding:
        state = self._base.learner.state_dict()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "state")
            try:
                save_state(path, state)
            except TypeError as error:
                return "failed", f"cannot be stored: {error}"
            size = path.stat().st_size
            found = find_differences(state, load_state(path))
        if found:
            return "failed", f"is read back differently: {found[0]}"
        sizes = sorted(sizes_in(state), key=lambda pair: -pair[1])[:_NAMED]
        words = f"{show_size(size)}; largest: " + ", ".join(f"{n} {show_size(b)}" for n, b in sizes)
        expected = max(size, self._expected_size())
        if expected > LARGEST_STATE:
            return "failed", (
                f"grows with training: at this rate {show_size(expected)} by the end of a default "
                f"budget, more than {show_size(LARGEST_STATE)}; {words}"
            )
        return "passed", words if sizes else "empty"

    def _expected_size(self) -> int:
        """Extrapolates the size of the state in bytes linearly to the end of a default budget."""
        sizes = self._base.sizes
        if len(sizes) < 2:
            return 0
        (start, first), (end, last) = sizes[0], sizes[-1]
        if end <= start:
            return last
        return int(last + (last - first) / (end - start) * max(0, self.default_amount - end))

    def _check_resume(self) -> _Finding:
        if not self._repeats:
            return "skipped", _UNREPEATABLE
        verification = self.verify()
        if not verification.exact:
            return "failed", str(verification.hint)
        count = len(verification.interruptions)
        return "passed", f"bit for bit after {count} interruptions" if count else _UNTRAINED

    def _check_policy(self) -> _Finding:
        """Checks that the stored policy acts as the trained one."""
        policy = self._base.learner.policy()
        try:
            check_storable(policy)
        except InputError as error:
            return "failed", str(error)
        with tempfile.TemporaryDirectory() as folder:
            save_policy(policy, Path(folder))
            stored = _load(Path(folder))
            size = sum(path.stat().st_size for path in Path(folder).iterdir())
        policy.set_training_mode(False)
        seen = self.bed.steps() if has_memory(policy) else self.bed.observations()[None]
        for deterministic in (True, False):
            one, other = (
                act_in_turn(actor, seen, deterministic=deterministic) for actor in (policy, stored)
            )
            if not np.array_equal(one, other):
                how = "deterministic" if deterministic else "stochastic"
                return "failed", f"{how} actions change when it is stored"
        return "passed", f"{show_size(size)}; acts the same when loaded"

    def _check_reward(self) -> _Finding:
        """Checks that the stored reward is the learned one."""
        reward = self._base.learner.reward()
        if reward is None:
            return "skipped", "learns none"
        with tempfile.TemporaryDirectory() as folder:
            try:
                rewards.check_storable(reward)
                rewards.save_reward(reward, Path(folder))
                stored = rewards.load_reward_net(Path(folder))
            except InputError as error:
                return "failed", str(error)
            size = sum(path.stat().st_size for path in Path(folder).iterdir())
        seen = self.bed.observations()
        actions = act_in_turn(self._base.learner.policy(), seen[None])[0]
        step = seen[:-1], actions[:-1], seen[1:], np.zeros(len(seen) - 1, dtype=bool)
        reward.eval()
        if not np.array_equal(reward.predict(*step), stored.predict(*step)):
            return "failed", "rewards change when it is stored"
        return "passed", f"{show_size(size)}; gives the same rewards when loaded"

    def _check_memory(self) -> _Finding:
        """Checks that actions depend only on the episode so far."""
        policy = self._base.learner.policy()
        fault = memory_fault(policy, self.bed.steps())
        if fault:
            return "failed", fault
        words = "reset at each episode, in each environment" if has_memory(policy) else "none"
        return "passed", words

    def _check_speed(self) -> _Finding:
        card = self.subject.card
        if not self._trains:
            return "told", _UNTRAINED
        own = self.subject.amount / max(self._base.seconds, 1e-9)
        other = _speed_baseline(card)
        words = f"{own:,.0f} {card.budget_unit} a second"
        without_data = other.needs.demos and not card.needs.demos
        if card.name == other.name or card.needs.tabular or without_data:
            return "told", words
        usual = self._speed_of(other)
        compared = f"{words}; {other.name}: {usual:,.0f} ({own / usual:.2g} x)"
        return "told", compared

    def _speed_of(self, card: AlgorithmCard) -> float:
        amount = max(self.subject.amount, 2048 if card.counts_steps else 1)
        subject = MethodUnderTest(card, card.resolve({}), amount)
        return amount / max(subject.train(self.bed).seconds, 1e-9)

    def _unlike(self, other: TrainingTrace) -> list[Difference]:
        """Returns the differences between the results of a training and of the first one."""
        return find_differences(self._learnt(self._base), self._learnt(other))

    def _learnt(self, training: TrainingTrace) -> dict[str, Any]:
        """Returns the results of a training: policy and reward, without its curve."""
        policy, reward = training.learner.policy(), training.learner.reward()
        return {
            "policy": dict(policy.state_dict()),
            "actions": act_in_turn(policy, self.bed.observations()[None]),
            "reward": {} if reward is None else dict(reward.state_dict()),
            "steps": training.real_steps,
        }


def _speed_baseline(card: AlgorithmCard) -> AlgorithmCard:
    """Returns the method to compare speeds with.

    Of the same unit, it is a control if possible, and acts in as many kinds of spaces as any other.
    """
    bundled = (load_algorithm(name) for name in algorithm_names())
    fitting = [method for method in bundled if method.budget_unit == card.budget_unit]

    def order(method: AlgorithmCard) -> tuple[bool, bool, int, str]:
        needs = method.needs
        return needs.tabular, method.role != "control", -len(needs.action_spaces), method.name

    return min(fitting, key=order)


def _raised(error: Exception) -> _Finding:
    return "failed", f"raises {_in_words(error)}"


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _load(folder: Path) -> Any:
    # The program of a method that was named on the command line may be run.
    return load_foreign_policy(folder, programs=True) if is_foreign(folder) else load_policy(folder)


_PROTOCOL = Protocol(episodes=4, environments=4)
_SHARE = 4  # the default amount is this fraction of a quick budget


def check_method(
    reference: str,
    *,
    suite: str | None = None,
    environment: str | None = None,
    amount: int | None = None,
    overrides: dict[str, str] | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> ConformanceReport:
    """Runs every check of a method.

    Args:
        reference: Name or path of the method, as the user typed it.
        suite: Suite to use; `None` for the classic or the tabular suite.
        environment: Glob over environment ids; the first that the method can learn on is used.
        amount: Amount of training per trial, in the unit of its budget.
        overrides: Hyper-parameters as text.
        notify: Called with messages about progress.

    Raises:
        InputError: The method does not exist, or cannot learn on any of the environments.
    """
    card = find_algorithm(reference)
    suite_card = find_suite(suite or ("tabular" if card.needs.tabular else "classic"))
    request = SweepRequest(
        algorithms=[card.name],
        suite=suite_card.name,
        environment=environment,
        seeds=[0],
        budget="quick",
        overrides=overrides or {},
        folder=".",
        **suite_card.fitting_regime(card).recorded,
    )
    plan = plan_request(request, algorithms=[card], suite=suite_card)
    spec = _first(plan)
    check_plugins(plan)
    use_one_thread()
    repeat_exactly("cpu")
    if card.budget_unit != "none":
        share = max(1, spec.budget.amount // _SHARE) if amount is None else amount
        budget = spec.budget.model_copy(update={"amount": share})
        spec = spec.model_copy(update={"budget": budget, "protocol": _PROTOCOL})
    root = plan.source_root
    references = plan.references(spec.environment.id)

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
    report = MethodChecker(
        MethodUnderTest(card, card.completed(spec.hyperparameters), spec.budget.amount),
        suite_test_bed(spec, root),
        default_amount=env_card.amount("default", card.budget_unit),
        verify=verify,
        notify=notify,
    ).check()
    # Other settings than those of the card may use other ways, so only their failure counts.
    if card.origin.digest is not None and (report.isolated is False or not overrides):
        remember_verdict(card.origin.digest, isolated=report.isolated)
    return report


def _first(plan: Plan) -> RunSpec:
    for spec in plan:
        return spec
    pair = plan.not_applicable[0]
    raise InputError(
        f"{pair.algo} on {pair.env}: {pair.why}; choose an environment where it can learn with "
        "--suite and --env"
    )
