"""`imitbench eval`: measures the return of a policy from any source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import completion, options
from imitbench.cli.experts import Revision

if TYPE_CHECKING:
    from imitbench.experts.lookup import NamedPolicy
    from imitbench.records.episodes import Episodes
    from imitbench.records.runs import ReferenceScores


AnyPolicy = Annotated[
    str,
    typer.Argument(
        metavar="POLICY",
        help="Run id, folder, zip, bundled expert, or repository owner/name.",
        autocompletion=completion.policies,
    ),
]
TrustPlugins = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Import the plug-in of a run, or unpickle a file, if necessary: executes code.",
    ),
]


def evaluate(
    policy: AnyPolicy,
    env: Annotated[
        str | None,
        typer.Option(
            "--env",
            metavar="ID",
            help="Environment id [as recorded with the policy].",
            autocompletion=completion.environments,
        ),
    ] = None,
    suite: options.SuiteOfEnv = None,
    algo: Annotated[
        str | None,
        typer.Option(
            "--algo", metavar="PLUGIN", help="The plug-in that made the policy; it is imported."
        ),
    ] = None,
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Number of episodes.")] = 50,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic/--stochastic", help="Take the most likely action, or sample."
        ),
    ] = False,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of the evaluation [the run's, or 0].")
    ] = None,
    video: Annotated[
        Path | None,
        typer.Option("--video", metavar="FILE.mp4", help="Also record a video.", dir_okay=False),
    ] = None,
    video_episodes: Annotated[
        int, typer.Option("--video-episodes", min=1, help="Number of episodes in the video.")
    ] = 1,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Results folder, for run ids.", file_okay=False),
    ] = options.DEFAULT_OUT,
    revision: Revision = None,
    trust: TrustPlugins = False,
    json: options.Json = False,
) -> None:
    """Measure returns and episode lengths of a policy, and its score if a suite has references.

    The policy of a run gives the result of that run again, with the same seed and number of
    episodes. Where a plug-in defines the policy's class, name the plug-in with --algo. Videos need
    the extra `video`, and for MuJoCo MUJOCO_GL=egl or osmesa on machines without a screen.

    Example: imitbench eval ppo-seals-CartPole-v0 --episodes 10 --video cartpole.mp4
    """
    from imitbench.cli.output import make_notifier, note, print_json
    from imitbench.experts.lookup import find_named_policy
    from imitbench.util.torch_startup import use_one_thread

    subject = find_named_policy(policy, out=out, revision=revision, notify=make_notifier())
    use_one_thread()
    document = _measure(
        subject,
        _EvaluationRequest(
            env=env,
            suite=suite,
            plugin=algo or (subject.plugin if trust else None),
            episodes=episodes,
            deterministic=deterministic,
            seed=subject.seed if seed is None else seed,
            video=video,
            video_episodes=video_episodes,
            trust=trust,
        ),
    )
    if json:
        print_json(document)
        return
    _print(document)
    if video is not None:
        note(f"wrote {video}")


@dataclass(frozen=True)
class _EvaluationRequest:
    """How to measure a policy; attributes are the command's options, and `plugin` is --algo."""

    env: str | None
    suite: str | None
    plugin: str | None
    episodes: int
    deterministic: bool
    seed: int
    video: Path | None
    video_episodes: int
    trust: bool


def _measure(subject: NamedPolicy, request: _EvaluationRequest) -> dict[str, Any]:
    """Evaluates the policy, and records a video if one is requested."""
    from imitbench.cards.plugins import find_algorithm, find_suite
    from imitbench.errors import InputError
    from imitbench.experts import evaluation, lookup, measurement
    from imitbench.experts.lookup import find_references
    from imitbench.experts.video import check_video, record_video
    from imitbench.policies.expert import load_expert_policy
    from imitbench.policies.expert_folder import open_expert_folder
    from imitbench.untrusted import gate

    if request.suite is not None:
        find_suite(request.suite)  # allows the suite's source to run
    if request.plugin is not None:
        find_algorithm(request.plugin)  # and here that of the method
    own = subject.environment
    spec = own
    if request.env is not None:
        spec = lookup.find_environment(request.env, request.suite).evaluated
    if spec is None:
        raise InputError(f"{subject.label}: {subject.lacks}; name it by --env")
    found = open_expert_folder(subject.path)
    spec = evaluation.with_own_arguments(spec, found)
    rendered = None if request.video is None else check_video(spec, request.video)
    load = partial(
        load_expert_policy,
        found,
        evaluation.spaces_of(spec),
        trust=request.trust,
        plugin=request.plugin,
    )
    # The code of a plug-in is trusted by naming it, and may need more than the limits.
    policy = gate.checked(load, subject.path, trusted=request.trust or request.plugin is not None)
    # A policy that is not training needs no information about the ends of episodes.
    free = {"horizon": "variable"}
    with evaluation.check_arguments_accepted(spec):
        measured = measurement.measure(
            spec.model_copy(update=free),
            policy,
            episodes=request.episodes,
            deterministic=request.deterministic,
            seed=request.seed,
        )
    known = subject.references if spec == own else None
    references = known or find_references(spec, request.suite)
    document = _document(subject.label, spec.id, measured.episodes, references)
    if rendered is not None and request.video is not None:
        recorded = record_video(
            rendered.model_copy(update=free),
            policy,
            request.video,
            episodes=request.video_episodes,
            deterministic=request.deterministic,
            seed=request.seed,
        )
        document["video"] = {"file": str(request.video), "episodes": recorded}
    return document


def _document(
    label: str, env_id: str, episodes: Episodes, references: ReferenceScores | None
) -> dict[str, Any]:
    returns, lengths = episodes.returns, episodes.lengths
    mean = float(returns.mean())
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
        "score": references.score(mean) if references else None,
        "references": references.model_dump() if references else None,
        "returns": returns.tolist(),
        "lengths": lengths.tolist(),
        "video": None,
    }


def _print(document: dict[str, Any]) -> None:
    from imitbench.cli.output import print_table, print_text
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
    references = document["references"]
    if references is not None:
        score = document["score"]
        owner = score_one_owner([references.get("score_one", "expert")])
        print_text(
            f"score {'undefined' if math.isnan(score) else f'{score:.3f}'} (0: random actions, "
            f"{references['random']:.2f}; 1: the {owner}, {references['expert']:.2f})"
        )
