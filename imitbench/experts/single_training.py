"""Prepares a training of `imitbench train`: finds environment, demonstrations, expert, reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.policies import BasePolicy

from imitbench.bench.collection import sample_demonstrations
from imitbench.bench.frozen_reward import frozen
from imitbench.bench.learners.reinforcement import NAMES, reinforcement_card
from imitbench.bench.single_run import TrainingSetup
from imitbench.cards.algorithm import AlgorithmCard, Scalar
from imitbench.cards.catalog import load_algorithm
from imitbench.cards.plugins import find_algorithm
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.sources import SUFFIXES
from imitbench.data.types import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.executors.devices import choose_device
from imitbench.experts.lookup import (
    ListedEnvironment,
    LocatedArtifact,
    find_environment,
    find_listed_environment,
    locate_demos,
    locate_expert,
)
from imitbench.experts.measurement import spaces_of
from imitbench.experts.training_request import TrainingRequest
from imitbench.policies.expert import Spaces, load_expert_policy
from imitbench.policies.space_check import check_reward_fits
from imitbench.records.runs import Budget, EnvironmentSpec, Protocol, training_device
from imitbench.rewards.reward_function import RewardFn
from imitbench.untrusted import gate
from imitbench.util.files import digest_files
from imitbench.util.hub_errors import Notify

_BY_HAND = "imitbench.bench.learners.gated_dagger:HumanDAggerLearner"

DEFAULT_STEPS = 100_000
DEFAULT_BATCHES = 2_000
HUMAN = "human"
"""The expert that is a person."""
DEFAULT_HUMAN_STEPS = 3_000
DEFAULT_SAMPLED = 50
"""Number of episodes to sample from an expert, if the request has no number."""


def prepare_training(request: TrainingRequest, notify: Notify) -> TrainingSetup:
    """Finds the inputs of a training.

    Args:
        request: Algorithm, environment and further options.
        notify: Called with messages about downloads.

    Raises:
        InputError: Something does not exist or does not fit.
    """
    if request.epochs is not None and request.batches is not None:
        raise InputError("--epochs and --batches: name one of them")
    if request.reward_plugin is not None and request.reward is None:
        raise InputError("--reward-plugin: defines the class of a reward; name that with --reward")
    card = (
        reinforcement_card(request.algo) if request.algo in NAMES else load_algorithm(request.algo)
    )
    overrides = dict(request.overrides)
    if request.total_comparisons is not None:
        overrides["total_comparisons"] = str(request.total_comparisons)
    values = card.resolve(overrides)
    card.check_extras(values)
    by_hand = _is_by_hand(request, card)
    device = choose_device(request.device).device
    assert device != "auto", "there are no GPUs that it could choose"
    listed = find_listed_environment(request.env.rpartition(":")[2], request.suite)
    spec = _environment(request, card, listed, values)
    spaces = spaces_of(spec)
    origins: dict[str, Any] = {}
    expert = demos = None
    if by_hand:
        card = card.model_copy(update={"implementation": _BY_HAND})
        origins["expert"] = {"name": HUMAN}
    elif card.needs.expert or (card.needs.demos and request.expert is not None):
        expert, origins["expert"] = _expert(request, spaces, listed, notify)
    if card.needs.demos:
        sampled = expert if request.expert is not None else None
        demos, origins["demos"] = _demos(request, spec, listed, sampled, notify)
    reward_fn = None
    if request.reward is not None:
        reward_fn = _reward(request.reward, request.reward_plugin, spaces, training_device(device))
        origins["reward"] = _digest(request.reward)
    return TrainingSetup(
        card=card,
        hyperparameters=values,
        environment=spec,
        # After training, early ends of episodes give no information to the method.
        evaluated=spec.evaluated.model_copy(update={"horizon": "variable"}),
        budget=_budget(request, card, listed, demos or (), values),
        seed=request.seed,
        demos=demos or (),
        expert=expert if card.needs.expert else None,
        reward_fn=reward_fn,
        origins=origins,
        device=device,
        protocol=Protocol(episodes=request.episodes),
    )


def _is_by_hand(request: TrainingRequest, card: AlgorithmCard) -> bool:
    """Returns whether a person is the expert.

    Raises:
        InputError: A person cannot be that of this method, or an option needs a person.
    """
    if request.expert != HUMAN:
        for name in ("controls", "rate", "port"):
            if getattr(request, name) is not None:
                raise InputError(f"--{name}: belongs to --expert {HUMAN}; omit it, or add that")
        return False
    if card.name == "dagger":
        return True
    if card.needs.demos:
        raise InputError(
            f"--expert {HUMAN}: {card.name} learns from demonstrations; make them with "
            "`imitbench record`, and name the folder with --demos"
        )
    raise InputError(
        f"--expert {HUMAN}: {card.name} asks for single actions, which a person cannot give; use "
        "`imitbench train imitation dagger`, in which the person decides who acts"
    )


def _environment(
    request: TrainingRequest,
    card: AlgorithmCard,
    listed: ListedEnvironment | None,
    values: Mapping[str, Scalar],
) -> EnvironmentSpec:
    module, _, env_id = request.env.rpartition(":")
    if listed is None:
        spec = find_environment(env_id)
        # Variable horizons do not affect learners that use only the reward, or only actions.
        harmless = not (card.needs.demos or card.needs.fixed_horizon) or card.name == "bc"
        horizon = "variable" if request.variable_horizon or harmless else "fixed"
        spec = spec.model_copy(update={"module": module or spec.module, "horizon": horizon})
    else:
        spec = EnvironmentSpec.of_card(env_id, listed.card, values)
        if request.variable_horizon:
            spec = spec.model_copy(update={"horizon": "variable"})
    if card.needs.tabular and (listed is None or not listed.card.tabular):
        raise InputError(
            f"--env {request.env}: {card.name} plans with the model of a tabular environment; see "
            "`imitbench suites show tabular`"
        )
    if card.needs.supplement:
        raise InputError(
            f"{card.name}: learns from trajectories of mixed quality, too, which `imitbench train` "
            "cannot give; use `imitbench run` with a --regime that has a mixture, or with --mixture"
        )
    return spec


def _expert(
    request: TrainingRequest, spaces: Spaces, listed: ListedEnvironment | None, notify: Notify
) -> tuple[BasePolicy, dict[str, Any]]:
    if request.expert is not None:
        located = locate_expert(request.expert, None, notify)
    elif listed is not None and listed.expert is not None:
        located = LocatedArtifact(listed.expert)
    else:
        raise InputError(f"--expert: {request.algo} queries an expert, and none is known; name one")
    expert = gate.checked(lambda: load_expert_policy(located.path, spaces), located.path)
    return expert, _origin(located, request.expert)


def _demos(
    request: TrainingRequest,
    spec: EnvironmentSpec,
    listed: ListedEnvironment | None,
    expert: BasePolicy | None,
    notify: Notify,
) -> tuple[Sequence[TrajectoryWithRew], dict[str, Any]]:
    """Returns the named demonstrations, or episodes of the expert, or the suite's ones."""
    if request.demos is not None and expert is not None:
        raise InputError("--demos and --expert: demonstrations come from one of them; name one")
    if expert is not None:
        count = request.n_demos or DEFAULT_SAMPLED
        return sample_demonstrations(expert, spec, count, seed=request.seed), {"sampled": count}
    if request.demos is not None:
        located = locate_demos(request.demos, None, notify)
        _check_layout(located.path, spec.id)
    elif listed is not None:
        located = LocatedArtifact(listed.demos)
    else:
        raise InputError(
            f"--demos: {spec.id} is in no suite, so it has no default demonstrations; name a set"
        )
    demos = gate.checked(lambda: read_demonstrations(located.path), located.path)
    origin = {**_origin(located, request.demos), "count": request.n_demos or len(demos)}
    if request.n_demos is None or request.n_demos == len(demos):
        return demos, origin
    if request.n_demos > len(demos):
        raise InputError(f"--n-demos {request.n_demos}: there are {len(demos)} in {located.path}")
    rng = np.random.default_rng(request.seed)
    chosen = np.sort(rng.choice(len(demos), size=request.n_demos, replace=False))
    return [demos[row] for row in chosen], origin


def _check_layout(path: Path, env_id: str) -> None:
    """Checks that demonstrations are in the layout of the hub, which trainings read.

    Raises:
        InputError: They are in another format of `imitbench demos convert`.
    """
    if path.is_file():
        fits = SUFFIXES.get(path.suffix, "parquet") == "parquet"
    else:
        fits = any((path / "data").glob("train-*.parquet"))
    if not fits:
        raise InputError(
            f"--demos {path}: is not in the layout of the hub; convert it first: "
            f"`imitbench demos convert {path} OUT --env {env_id}`"
        )


def _origin(located: LocatedArtifact, name: str | None) -> dict[str, Any]:
    return {"name": located.origin or name or "bundled", "digest": _digest(located.path)}


def _digest(path: Path) -> str:
    """Returns the SHA-256 of a file, or over all files of a folder."""
    if path.is_file():
        return digest_files(path.parent, [path])
    return digest_files(path, (file for file in path.rglob("*") if file.is_file()))


def _reward(folder: Path, plugin: str | None, spaces: Spaces, device: str) -> RewardFn:
    from imitbench.rewards.storage import load_reward_net

    nested = folder / "reward"  # in the folder of a run or a training
    path = nested if nested.is_dir() else folder
    if plugin is not None:
        find_algorithm(plugin)
    named = "--reward-plugin"
    load = partial(load_reward_net, path, device, plugin=plugin, trust=None, option=named)
    # Code that the user named is imported as it is.
    net = gate.checked(load, path, trusted=plugin is not None)
    check_reward_fits(
        net, spaces.observation_space, spaces.action_space, where=f"--reward {folder}"
    )
    return frozen(net)


def _budget(
    request: TrainingRequest,
    card: AlgorithmCard,
    listed: ListedEnvironment | None,
    demos: Sequence[TrajectoryWithRew],
    values: dict[str, Any],
) -> Budget:
    unit = card.budget_unit
    amount = request.amount
    if request.epochs is not None:
        transitions = sum(len(demo) for demo in demos)
        amount = request.epochs * -(-transitions // min(int(values["batch_size"]), transitions))
    if amount is None and request.expert == HUMAN:
        amount = DEFAULT_HUMAN_STEPS
    if amount is None and listed is not None:
        amount = listed.card.amount("default", unit)
    if amount is None:
        amount = DEFAULT_BATCHES if unit == "batches" else DEFAULT_STEPS
    return Budget(name="own", unit=unit, amount=amount)
