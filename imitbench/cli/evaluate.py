"""`imitbench eval`: measures the return of a policy from any source."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from imitbench.cli import completion, options
from imitbench.cli.experts import Revision
from imitbench.cli.options import argument, option
from imitbench.cli.output import (
    make_notifier,
    note,
    print_json,
    print_table,
    print_text,
    typed_command,
)
from imitbench.errors import InputError
from imitbench.util.torch_startup import start_torch

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.experts.lookup import NamedPolicy
    from imitbench.records.episodes import Episodes
    from imitbench.records.runs import EnvironmentSpec, ReferenceScores


AnyPolicy = Annotated[
    str,
    argument(
        "POLICY",
        "Run id, folder, file, bundled expert, or repository owner/name.",
        completion.policies,
    ),
]
TrustPlugins = Annotated[
    bool,
    option(
        "--trust",
        "Import the plug-in of a run, unpickle a file, or run an ONNX program, if necessary: "
        "executes code.",
    ),
]


OtherPolicy = Annotated[
    str | None,
    argument("[OTHER]", "The policy to compare it with.", completion.policies),
]
OneEnv = Annotated[
    str | None,
    option("--env", "Environment id [as recorded with the policy].", "ID", completion.environments),
]
Algo = Annotated[
    str | None, option("--algo", "The plug-in that made the policy; it is imported.", "PLUGIN")
]
EpisodeCount = Annotated[int | None, option("--episodes", "Number of episodes [50].", min=1)]
Deterministic = Annotated[
    bool, option("--deterministic/--stochastic", "Take the most likely action, or sample.")
]
Seed = Annotated[int | None, option("--seed", "Seed of the evaluation [the run's, or 0].", min=0)]
Video = Annotated[
    Path | None, option("--video", "Also record a video.", "FILE.mp4", dir_okay=False)
]
VideoEpisodes = Annotated[
    int | None, option("--video-episodes", "Number of episodes in the video [1].", min=1)
]
IsRace = Annotated[bool, option("--race", "Run episodes of two policies until it is decided.")]
Batch = Annotated[int | None, option("--batch", "Episodes between two looks [25].", "N")]
MaxEpisodes = Annotated[
    int | None, option("--max-episodes", "Episodes after which a race ends, undecided [500].", "N")
]
ObservationKeys = Annotated[
    list[str] | None,
    option(
        "--observation-key",
        "Where a policy of LeRobot or robomimic finds an input: an entry of the observations, or "
        "FIRST:END of an array; once per input.",
        "INPUT=KEY",
    ),
]
Alpha = Annotated[
    float | None, option("--alpha", "Chance of any false decision, over the whole race [0.05].")
]
Margin = Annotated[
    float | None,
    option("--margin", "Difference of scores up to which policies are equivalent [0.05]."),
]
DEFAULT_EPISODES = 50


def evaluate(
    policy: AnyPolicy,
    other: OtherPolicy = None,
    env: OneEnv = None,
    suite: options.SuiteOfEnv = None,
    algo: Algo = None,
    observation_key: ObservationKeys = None,
    episodes: EpisodeCount = None,
    deterministic: Deterministic = False,
    seed: Seed = None,
    video: Video = None,
    video_episodes: VideoEpisodes = None,
    race: IsRace = False,
    batch: Batch = None,
    max_episodes: MaxEpisodes = None,
    alpha: Alpha = None,
    margin: Margin = None,
    out: options.Out = options.DEFAULT_OUT,
    revision: Revision = None,
    trust: TrustPlugins = False,
    json: options.Json = False,
) -> None:
    """Measure returns and episode lengths of a policy, and its score if a suite has references.

    The policy of a run gives the result of that run again, with the same seed and number of
    episodes. Where a plug-in defines the policy's class, name the plug-in with --algo. Videos need
    the extra `video`, and for MuJoCo MUJOCO_GL=egl or osmesa on machines without a screen.

    Two policies are compared over the same start states: returns by a permutation test, successes
    by Barnard's exact test. With --race, batches of episodes are run until the first is better,
    worse or equivalent, or --max-episodes is reached. The design is registered in the results
    folder before the first episode, and the same command goes on with an interrupted race. Neither
    says anything about the methods that made the policies: `imitbench race` compares these.

    Example: imitbench eval ppo-seals-CartPole-v0 --episodes 10 --video cartpole.mp4
    """
    from imitbench.experts.lookup import find_named_policy

    looks = {"batch": batch, "max_episodes": max_episodes, "alpha": alpha, "margin": margin}
    if video_episodes is not None and video is None:
        raise InputError(f"--video-episodes {video_episodes}: needs --video FILE.mp4")
    _check_words(race, other, {"--episodes": episodes, "--video": video}, looks)
    names = [name for name in (policy, other) if name is not None]
    notify = make_notifier()
    subjects = [find_named_policy(n, out=out, revision=revision, notify=notify) for n in names]
    start_torch()
    from imitbench.policies.observation_parts import check_all_used, parse_observation_keys

    request = _EvaluationRequest(
        observation_keys=parse_observation_keys(observation_key or ()),
        env=env,
        suite=suite,
        plugin=algo,
        episodes=episodes or DEFAULT_EPISODES,
        deterministic=deterministic,
        seed=(0 if race else subjects[0].seed) if seed is None else seed,
        video=video,
        video_episodes=video_episodes or 1,
        trust=trust,
    )
    _allow_named_code(request, subjects)
    if race:
        _race(subjects, request, looks, out, json=json)
        return
    loaded = [_load(subject, request) for subject in subjects]
    check_all_used(request.observation_keys, [subject.policy for subject in loaded])
    documents = [_measure(subject, request) for subject in loaded]
    if other is not None:
        _compare(documents, request.seed, json=json)
        return
    [document] = documents
    if json:
        print_json(document)
        return
    _print(document)
    if video is not None:
        note(f"wrote {video}")


def _check_words(
    race: bool, other: str | None, alone: Mapping[str, object], looks: Mapping[str, object]
) -> None:
    """Checks that options are those of a race, or of a measurement, and not of both."""
    if race and other is None:
        raise InputError("--race: needs two policies; name the one to compare with as well")
    if not race:
        if other is not None and alone["--video"] is not None:
            raise InputError(f"--video {alone['--video']}: records one policy; name one")
        for name, value in looks.items():
            if value is not None:
                raise InputError(f"--{name.replace('_', '-')} {value}: works only with --race")
    for name, value in alone.items():
        if race and value is not None:
            hint = "; a race has --batch and --max-episodes" if name == "--episodes" else ""
            raise InputError(f"{name} {value}: does not work with --race{hint}")


def _allow_named_code(request: _EvaluationRequest, subjects: Sequence[NamedPolicy]) -> None:
    """Allows the sources of a suite and of methods to run where the user named or trusts them."""
    from imitbench.cards.plugins import find_algorithm, find_suite

    if request.suite is not None:
        find_suite(request.suite)
    for subject in subjects:
        plugin = subject.chosen_plugin(request.plugin, trust=request.trust)
        if plugin is not None:
            find_algorithm(plugin)


def _race(
    subjects: Sequence[NamedPolicy],
    request: _EvaluationRequest,
    looks: Mapping[str, Any],
    out: Path,
    *,
    json: bool,
) -> None:
    """Carries out a race of two policies and prints its result."""
    from imitbench.race import reporting
    from imitbench.race.policies import PolicyRaceOptions, plan_policy_race, run_policy_race

    planned = plan_policy_race(
        (subjects[0], subjects[1]),
        PolicyRaceOptions(
            env=request.env,
            suite=request.suite,
            plugin=request.plugin,
            trust=request.trust,
            deterministic=request.deterministic,
            seed=request.seed,
            observation_keys=request.observation_keys,
            **{name: value for name, value in looks.items() if value is not None},
        ),
        command=typed_command(),
    )
    notes = reporting.PolicyRaceNotes(out)
    result = run_policy_race(planned, out, looked=notes.looked, waiting=notes.waiting)
    if json:
        print_json(reporting.document(result))
    else:
        print_table(*reporting.verdict_table(result))


@dataclass(frozen=True)
class _EvaluationRequest:
    """How to measure policies; attributes are the command's options, and `plugin` is --algo."""

    observation_keys: Mapping[str, str]
    env: str | None
    suite: str | None
    plugin: str | None
    episodes: int
    deterministic: bool
    seed: int
    video: Path | None
    video_episodes: int
    trust: bool


@dataclass(frozen=True)
class _Loaded:
    """A policy and its environment; `rendered` is that of the video, if one is requested."""

    subject: NamedPolicy
    policy: BasePolicy
    spec: EnvironmentSpec
    rendered: EnvironmentSpec | None


def _load(subject: NamedPolicy, request: _EvaluationRequest) -> _Loaded:
    """Loads a policy for its environment."""
    from imitbench.experts import loading
    from imitbench.experts.video import check_video

    spec = loading.environment_of(subject, request.env, request.suite)
    rendered = None if request.video is None else check_video(spec, request.video)
    policy = loading.load_subject(
        subject,
        spec,
        trust=request.trust,
        plugin=subject.chosen_plugin(request.plugin, trust=request.trust),
        observation_keys=request.observation_keys,
    )
    return _Loaded(subject, policy, spec, rendered)


def _measure(loaded: _Loaded, request: _EvaluationRequest) -> dict[str, Any]:
    """Evaluates the policy, and records a video if one is requested."""
    from imitbench.experts import measurement
    from imitbench.experts.lookup import find_references
    from imitbench.experts.video import record_video

    subject, policy, spec = loaded.subject, loaded.policy, loaded.spec
    # A policy that is not training needs no information about the ends of episodes.
    free = {"horizon": "variable"}
    with measurement.check_arguments_accepted(spec):
        measured = measurement.measure(
            spec.model_copy(update=free),
            policy,
            episodes=request.episodes,
            deterministic=request.deterministic,
            seed=request.seed,
        )
    same = spec == subject.environment and request.suite is None  # a named suite has its own
    references = (subject.references if same else None) or find_references(spec, request.suite)
    document = _document(subject.name, spec.id, measured.episodes, references)
    if loaded.rendered is not None and request.video is not None:
        recorded = record_video(
            loaded.rendered.model_copy(update=free),
            policy,
            request.video,
            episodes=request.video_episodes,
            deterministic=request.deterministic,
            seed=request.seed,
        )
        document["video"] = {"file": str(request.video), "episodes": recorded}
    return document


def _compare(documents: Sequence[dict[str, Any]], seed: int, *, json: bool) -> None:
    """Prints two measurements, and whether their difference could be chance."""
    import numpy as np

    from imitbench.stats.mean_test import mean_test
    from imitbench.stats.proportions import exact_p_value

    if len({document["env"] for document in documents}) > 1:
        names = ", ".join(f"{document['policy']} in {document['env']}" for document in documents)
        raise InputError(f"{names}: were trained in different environments; name one by --env")
    first, second = ({document["env"]: document["returns"]} for document in documents)
    p_value = mean_test(first, second, rng=np.random.default_rng(seed))
    means = [float(document["mean_return"]) for document in documents]
    found = {"return": {"difference": means[0] - means[1], "p": p_value}}
    counts = [
        (document["success"]["episodes"], document["episodes"])
        for document in documents
        if document["success"] is not None
    ]
    if len(counts) == 2:
        rates = [successes / episodes for successes, episodes in counts]
        found["success"] = {"difference": rates[0] - rates[1], "p": exact_p_value(*counts)}
    if json:
        print_json({"policies": list(documents), "difference": found})
        return
    for document in documents:
        _print(document)
    for what, difference in found.items():
        print_text(
            f"difference in {what}: {difference['difference']:+.3f}, p {difference['p']:.3f}"
        )


def _document(
    label: str, env_id: str, episodes: Episodes, references: ReferenceScores | None
) -> dict[str, Any]:
    from imitbench.stats.proportions import wilson_interval

    returns, lengths = episodes.returns, episodes.lengths
    mean = float(returns.mean())
    success: dict[str, Any] | None = None
    if episodes.success is not None:
        count = int(episodes.success.sum())
        rate = wilson_interval(count, len(returns))
        success = {"episodes": count, "rate": rate.point, "low": rate.low, "high": rate.high}
    return {
        "policy": label,
        "env": env_id,
        "episodes": len(returns),
        "deterministic": episodes.deterministic,
        "mean_return": mean,
        "std_return": float(returns.std()),
        "min_return": float(returns.min()),
        "max_return": float(returns.max()),
        "mean_length": float(lengths.mean()),
        "min_length": int(lengths.min()),
        "max_length": int(lengths.max()),
        "termination_rate": float(episodes.terminated.mean()),
        "success": success,
        "score": references.score(references.headline(mean, episodes.success_rate))
        if references
        else None,
        "references": references.model_dump() if references else None,
        "returns": returns.tolist(),
        "lengths": lengths.tolist(),
        "video": None,
    }


def _print(document: dict[str, Any]) -> None:
    from imitbench.report.text import score_one_owner

    acting = "deterministic" if document["deterministic"] else "stochastic"
    print_text(
        f"{document['policy']}: {document['episodes']} episodes in {document['env']}, {acting}"
    )
    rows: list[list[object]] = [
        [
            "return",
            *(document[f"{name}_return"] for name in ("mean", "std", "min", "max")),
        ],
        [
            "length",
            document["mean_length"],
            None,
            document["min_length"],
            document["max_length"],
        ],
    ]
    print_table(["", "mean", "std", "min", "max"], rows)
    success = document["success"]
    if success is not None:
        print_text(
            f"success in {success['episodes']} of {document['episodes']} episodes: "
            f"{success['rate']:.3f} [{success['low']:.3f}, {success['high']:.3f}] (95% interval)"
        )
    references = document["references"]
    if references is not None and references.get("score_one") != "success":
        score = document["score"]
        owner = score_one_owner([references.get("score_one", "expert")])
        print_text(
            f"score {'undefined' if math.isnan(score) else f'{score:.3f}'} (0: random actions, "
            f"{references['random']:.2f}; 1: the {owner}, {references['expert']:.2f})"
        )
