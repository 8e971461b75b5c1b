"""Makes the specification of one run from the cards of suite and algorithm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from imitbench.bench import artifacts
from imitbench.bench.supplement import check_ranking, pin_supplement
from imitbench.cards.algorithm import AlgorithmCard, Scalar
from imitbench.cards.budgets import recorded_budget
from imitbench.cards.suite import EnvironmentCard, SuiteCard
from imitbench.errors import InputError
from imitbench.hub.reported_results import read_reported_return
from imitbench.records.bundled_cards import bundled_suite
from imitbench.records.runs import (
    Budget,
    DemoSpec,
    DeviceClass,
    EnvironmentSpec,
    Protocol,
    ReferenceScores,
    RunSpec,
    variant_label,
)
from imitbench.store.sweep_file import SweepRequest


def make_spec(
    suite: SuiteCard,
    env_id: str,
    algorithm: AlgorithmCard,
    hyperparameters: dict[str, Scalar],
    seed: int,
    request: SweepRequest,
    tuned: Mapping[str, Scalar] | None = None,
) -> RunSpec:
    """Makes the specification of one run.

    Args:
        suite: Card of the suite.
        env_id: Id of one of its environments.
        algorithm: Card of the algorithm.
        hyperparameters: Every hyper-parameter, resolved.
        seed: Seed of the run.
        request: Source, budget and further settings.
        tuned: All hyper-parameters as tuned for this environment, if tuned values are in use.

    Raises:
        InputError: An expert or demonstrations that the algorithm needs are missing.
    """
    environment = suite.environments[env_id]
    source = artifacts.format_source(request.source)
    root = artifacts.source_root(source, suite.origin.folder, Path(request.folder))
    needs = algorithm.needs
    device = choose_processor(request.device, algorithm)
    pack = request.pack if algorithm.packs else None

    def locate(part: artifacts.Part) -> artifacts.ArtifactLocation:
        location = artifacts.locate_artifact(root, part, source, environment, suite.name)
        if part == "demos":
            artifacts.check_demos_are_here(location, environment)
        return location

    role, from_outside = algorithm.role, algorithm.origin.digest is not None
    demos = _pin_demos(locate("demos"), request, suite, env_id, seed) if needs.demos else None
    made = RunSpec(
        suite=suite.name,
        algo=algorithm.name,
        implementation=algorithm.implementation,
        implementation_digest=algorithm.origin.digest,
        hyperparameters=algorithm.recorded(hyperparameters),
        environment=EnvironmentSpec.of_card(env_id, environment, hyperparameters),
        demos=demos,
        expert=_pin_expert(locate("experts")) if needs.expert else None,
        seed=seed,
        budget=_budget(algorithm, environment, request.budget),
        protocol=Protocol(),
        device=device,
        pack=pack,
        uses_reward=needs.true_reward,
        role=role if from_outside and role in ("reference", "control") else None,
        variant=variant_label(
            algorithm.changed(hyperparameters, tuned),
            device,
            tuned=tuned is not None,
            pack=pack,
        ),
    )
    if needs.ranking:
        check_ranking(made, root)
    return made


def choose_processor(asked: DeviceClass | Literal["auto"], algorithm: AlgorithmCard) -> DeviceClass:
    """Returns the class of processor of an algorithm's runs.

    Args:
        asked: Class that the request names. With `auto`, GPUs are there: methods use them unless
            their card says that they train no faster.
        algorithm: Card of the algorithm.
    """
    if asked != "auto":
        return asked
    if algorithm.budget_unit == "none":
        return "cpu"
    return "cpu" if (algorithm.gpu_speedup or math.inf) <= 1 else "hybrid"


def reference_scores(
    suite: SuiteCard, env_id: str, source: str, folder: Path = Path()
) -> ReferenceScores:
    """Returns the reference scores of an environment for the expert or demonstrations in use.

    Args:
        suite: Card of the suite.
        env_id: Id of one of its environments.
        source: Where the expert comes from. The reference of an expert that does not ship with
            the suite is the return that its `results.json` or `README.md` reports, if any. Without
            an expert, and for sets of Minari, which come without one, it is the mean return of the
            demonstrations of that source, if they have rewards and the card does not state a
            number.
        folder: Base folder of a relative path in `source`.

    Raises:
        InputError: The suite has not been measured.
    """
    card = suite.environments[env_id]
    scale = card.scale
    if scale is None:
        raise InputError(
            f"suite {suite.name}: {env_id} has no references; run `imitbench suites measure "
            f"{suite.origin.reference} --card {suite.origin.folder / 'suite.yaml'}`"
        )
    version, likely = suite.version, None
    if bundled_suite(suite.name) is None and card.references is not None:
        likely = card.references.expert_likely
    recipe = card.demos if card.expert is None else card.expert
    lacks = source == artifacts.HUB and recipe.hub is None
    lacks = lacks or (source == artifacts.MINARI_SETS and card.minari is None)
    if source != "bundled" and not lacks and not card.scored_by_success:
        root = artifacts.source_root(source, suite.origin.folder, folder)
        shows = card.expert is None or source == artifacts.MINARI_SETS
        part: artifacts.Part = "demos" if shows else "experts"
        location = artifacts.locate_artifact(root, part, source, card, suite.name)
        at = f":{location.revision[:8]}" if location.revision else ""
        if part == "demos":
            measured = artifacts.demonstrated_returns(location)
            shown = float(measured.mean()) if len(measured) else None
            if shown is not None and scale.score_one != "card":
                version, likely = f"{suite.version}+{source}{at}", None
                scale = scale._replace(one=shown, score_one="demonstrations")
            if scale.score_one != "expert":
                scale = scale._replace(demonstrations=shown)
        elif (published := read_reported_return(location.folder)) is not None:
            version = f"{suite.version}+{source}{at}"
            scale, likely = scale._replace(one=published.mean), None
    return ReferenceScores(
        random=scale.random,
        expert=scale.one,
        version=version,
        score_one=scale.score_one,
        demonstrations=scale.demonstrations,
        expert_likely=likely.mean if likely is not None else None,
    )


def _budget(algorithm: AlgorithmCard, environment: EnvironmentCard, name: str) -> Budget:
    unit, amount = recorded_budget(environment.budgets, name, algorithm.budget_unit)
    return Budget(name=name, unit=unit, amount=amount)


def _pin_demos(
    location: artifacts.ArtifactLocation,
    request: SweepRequest,
    suite: SuiteCard,
    env_id: str,
    seed: int,
) -> DemoSpec:
    card = suite.environments[env_id]
    bundled = location.source == "bundled"
    available = card.demos.trajectories if bundled else _count_trajectories(location)
    demos = _pin_demo_set(location, available, request.n_demos, request.demo_every)
    if request.actions is not None:
        demos = demos.model_copy(update={"actions": request.actions})
    if request.mixture:
        sets = pin_supplement(location, card, request.mixture, env_id, suite.origin.folder)
        demos = demos.model_copy(update={"supplement": sets})
    # Each seed draws its own subset, so that one lucky draw does not decide a comparison.
    return demos if demos.whole else demos.model_copy(update={"subsample_seed": seed})


# A sweep requests the same few artifacts thousands of times; hashing them once is enough.
_pin_expert = cache(artifacts.pin_expert)
_pin_demo_set = cache(artifacts.pin_demos)
_count_trajectories = cache(artifacts.count_trajectories)
