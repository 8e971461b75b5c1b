"""Audits of termination: a method's learner on constant rewards, beside the method."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from imitbench.bench.curve import silent_logger
from imitbench.bench.monitor import Monitor
from imitbench.bench.plan import Plan, plan_request
from imitbench.bench.single_run import TrainingSetup, train_single
from imitbench.cards.algorithm import AlgorithmCard, Scalar, setting_text
from imitbench.cards.budgets import BudgetAmounts, WholeBudget, recorded_budget
from imitbench.cards.catalog import load_algorithm
from imitbench.cards.plugins import find_algorithm
from imitbench.cards.suite import mismatch
from imitbench.errors import InputError
from imitbench.experts.lookup import ListedEnvironment
from imitbench.experts.measurement import REFERENCE_SEED, measure
from imitbench.experts.single_training import prepare_training
from imitbench.experts.training_request import TrainingRequest
from imitbench.records.episodes import Episodes
from imitbench.records.runs import DeviceClass
from imitbench.store.sweep_file import SweepRequest
from imitbench.util.hub_errors import Notify

DeviceChoice = DeviceClass | Literal["auto"]

METHOD, RANDOM = "method", "random"
_REWARDS = {"plus": 1.0, "minus": -1.0, "zero": 0.0}
_ON_POLICY = {"plus": "constant_plus", "minus": "constant_minus", "zero": "zero_reward"}
_OFF_POLICY = "constant_reward"
CONTROLS = tuple(_REWARDS)

BUDGETS: dict[WholeBudget, BudgetAmounts] = {
    "quick": BudgetAmounts(env_steps=50_000, replay_steps=20_000, batches=5_000),
    "default": BudgetAmounts(env_steps=500_000, replay_steps=200_000, batches=20_000),
    "full": BudgetAmounts(env_steps=2_000_000, replay_steps=1_000_000, batches=80_000),
}
"""Amounts of training in an environment that is in no suite."""


@dataclass(frozen=True)
class Control:
    """A control with the learner of a method.

    Attributes:
        card: Card of the control.
        overrides: Values that differ from the card's, as text: those of the method.
    """

    card: AlgorithmCard
    overrides: Mapping[str, str]


def controls_of(method: AlgorithmCard) -> dict[str, Control]:
    """Returns the controls of a method, with the hyper-parameters that its learner has.

    Methods with a replay buffer get their agent, all others PPO. A method that trains neither has
    the controls' own values.

    Args:
        method: Card of the method.

    Returns:
        The controls, by `CONTROLS`.
    """
    known = method.resolve({})
    replay = "buffer_size" in known
    names = {key: _OFF_POLICY if replay else name for key, name in _ON_POLICY.items()}
    found = {}
    for key, name in names.items():
        card = load_algorithm(name)
        usual = card.resolve({})
        own = dict(known) if replay or "clip_range" in known else {}
        if replay:
            # Numbers of environments of other agents do not divide the steps between updates.
            own.pop("n_envs")
            own |= {
                "reward": _REWARDS[key],
                "absorbing_states": known.get("absorbing_states", False),
            }
        changed = {
            parameter: value
            for parameter, value in own.items()
            if parameter in usual and value != usual[parameter]
            if _is_valid(card, parameter, value)
        }
        overrides = {parameter: setting_text(value) for parameter, value in changed.items()}
        found[key] = Control(card, overrides)
    return found


def _is_valid(card: AlgorithmCard, parameter: str, value: Scalar) -> bool:
    choices = card.hyperparameters[parameter].choices
    return choices is None or value in choices


def plan_audit(
    listed: ListedEnvironment,
    algo: str,
    seeds: Sequence[int],
    budget: str,
    device: DeviceChoice,
    notify: Notify,
) -> dict[str, Plan]:
    """Plans the runs of an audit in an environment of a suite.

    Args:
        listed: The environment.
        algo: Method, as the user typed it.
        seeds: Seeds of each learner.
        budget: Name of the budget.
        device: Class of processor, as in requests.
        notify: Called with messages about downloads.

    Returns:
        Plans of the method, of random actions and of each control.

    Raises:
        InputError: Something does not exist, or the method or a control does not fit.
    """
    folder = Path.cwd()
    method = find_algorithm(algo, folder)
    _check_role(method)
    wanted: dict[str, Control] = {METHOD: Control(method, {}), **controls_of(method)}
    wanted[RANDOM] = Control(load_algorithm("random"), {})
    suite, env_id = listed.suite, listed.env_id
    for control in wanted.values():
        if (why := mismatch(control.card, listed.card)) is not None:
            raise InputError(f"--algo {algo}: {control.card.name} does not fit {env_id}: {why}")
    plans = {}
    for key, control in wanted.items():
        request = SweepRequest(
            algorithms=[algo if key == METHOD else control.card.name],
            suite=suite.origin.reference,
            environment=env_id,
            seeds=list(seeds[:1] if key == RANDOM else seeds),
            budget=budget,
            overrides=dict(control.overrides),
            device=device,
            folder=str(folder),
        )
        regime = suite.regime(suite.default_regime).recorded
        plans[key] = plan_request(
            request.model_copy(update=regime), notify, algorithms=[control.card], suite=suite
        )
    return plans


Watch = Callable[[TrainingSetup], AbstractContextManager[Monitor]]


def train_audit(
    env: str,
    algo: str,
    seeds: Sequence[int],
    budget: str,
    demos: str | None,
    command: str,
    watch: Watch,
    notify: Notify,
) -> dict[str, list[Episodes]]:
    """Trains the learners of an audit in an environment that is in no suite; nothing is kept.

    Args:
        env: Environment id, or `module:id`.
        algo: Name of the method.
        seeds: Seeds of each learner.
        budget: Name of the budget, see `BUDGETS`.
        demos: Demonstrations of the method; without, a method that needs them is not trained.
        command: Command line, for provenance.
        watch: Makes the context in which the progress of a training is shown.
        notify: Called with messages.

    Returns:
        Evaluation episodes of each seed, by learner; none of the method if it was not trained.

    Raises:
        InputError: Something does not exist or does not fit.
    """
    method = load_algorithm(algo)
    _check_role(method)
    if method.needs.expert:
        raise InputError(f"--algo {algo}: queries an expert, and {env} is in no suite with one")
    wanted: dict[str, Control] = {METHOD: Control(method, {}), **controls_of(method)}
    if method.needs.demos and demos is None:
        del wanted[METHOD]
        notify(
            f"{algo} is not trained: {env} is in no suite, so it has no demonstrations; name some "
            "with --demos, or make a suite of them with `imitbench init-suite --from-demos`"
        )
    # All are prepared first, so that what does not fit is told before anything is trained.
    setups = [
        (key, prepare_training(_request(env, control, seed, budget, demos), notify))
        for key, control in wanted.items()
        for seed in seeds
    ]
    found: dict[str, list[Episodes]] = {}
    with tempfile.TemporaryDirectory(prefix="imitbench-audit-") as folder:
        for number, (key, setup) in enumerate(setups):
            notify(f"{setup.card.name}, seed {setup.seed}: {setup.budget.amount:,} steps")
            with watch(setup) as monitor:
                trained = train_single(
                    setup,
                    Path(folder, str(number)),
                    make_logger=lambda _: silent_logger(),
                    command=command,
                    watch=monitor,
                )
            found.setdefault(key, []).append(trained.stochastic)
    measured = measure(
        setups[0][1].evaluated, None, episodes=50, deterministic=False, seed=REFERENCE_SEED
    )
    return {**found, RANDOM: [measured.episodes]}


def _request(
    env: str, control: Control, seed: int, budget: str, demos: str | None
) -> TrainingRequest:
    card = control.card
    _, amount = recorded_budget(BUDGETS, budget, card.budget_unit)
    of_steps = card.budget_unit != "batches"
    return TrainingRequest(
        algo=card.name,
        env=env,
        demos=demos if card.needs.demos else None,
        total_timesteps=amount if of_steps else None,
        batches=None if of_steps else amount,
        variable_horizon=True,
        seed=seed,
        overrides=dict(control.overrides),
    )


def _check_role(method: AlgorithmCard) -> None:
    if method.role in ("control", "anchor"):
        raise InputError(f"--algo {method.name}: is a {method.role}, not a method; name a method")


def mean_episodes(episodes: Sequence[Episodes]) -> tuple[float, float, float]:
    """Returns mean return, mean length and share of terminated episodes, over all seeds."""
    return (
        float(np.mean([own.returns.mean() for own in episodes])),
        float(np.mean([own.lengths.mean() for own in episodes])),
        float(np.mean([own.terminated.mean() for own in episodes])),
    )
