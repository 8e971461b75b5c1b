"""`imitbench train`: one algorithm on one environment, without the harness."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.cli import completion, options, run_options
from imitbench.cli.completion import LOG_FORMATS
from imitbench.cli.evaluate import evaluate
from imitbench.cli.local_pages import open_browser
from imitbench.cli.options import option
from imitbench.cli.output import make_notifier, note, print_json, print_text, typed_command
from imitbench.cli.record_options import command_class
from imitbench.errors import InputError, did_you_mean
from imitbench.experts.training_request import TrainingRequest
from imitbench.util.torch_startup import start_torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imitbench.bench.single_run import TrainingSetup
    from imitbench.bench.training_setup import Trained
    from imitbench.cards.algorithm import AlgorithmCard
    from imitbench.util.logger import HierarchicalLogger

# Command groups of the reference library's scripts, for users who know these.
_GROUPS = {
    "imitation": ("Learn a policy from an expert's actions", ("bc", "dagger")),
    "adversarial": ("Learn a policy and a reward from demonstrations", ("gail", "airl")),
}
_SHORT_NAMES = {"preference_comparisons": "preferences"}
_COMMON = ("env", "suite", "seed", "eval_episodes", "device", "checkpoint_minutes")

LogDir = Annotated[
    Path | None,
    option("--log-dir", "Folder for all outputs [output/ALGO/ENV/TIME].", "DIR", file_okay=False),
]
LogFormat = Annotated[
    str,
    option(
        "--log-format",
        f"Outputs of the logger: {', '.join(LOG_FORMATS)}.",
        "A,B",
        completion.log_formats,
    ),
]
WandbProject = Annotated[
    str, option("--wandb-project", "W&B project, for log format wandb.", "NAME")
]


def train_one(
    context: typer.Context,
    set_: run_options.Set = [],  # noqa: B006 (typer copies it)
    log_dir: LogDir = None,
    log_format: LogFormat = "csv",
    wandb_project: WandbProject = "imitbench",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Trains one algorithm for a command of `imitbench train`."""
    from imitbench.bench.plan import parse_overrides

    formats = _formats(log_format, json=json)
    given: TrainingRequest = context.obj
    request = given.model_copy(update={"overrides": parse_overrides(set_)})

    # Training libraries take seconds to import, so the options are checked first.
    from imitbench.bench.single_run import train_single
    from imitbench.bench.stopping import RunStoppedError
    from imitbench.cli.train_progress import shown_training
    from imitbench.experts.single_training import prepare_training

    start_torch()
    training = prepare_training(request, make_notifier(quiet=quiet))
    folder = log_dir or _usual_folder(training)
    budget = f"{training.budget.amount:,} {training.budget.unit.replace('_', ' ')}"
    if not quiet:
        note(f"{request.algo} on {training.environment.id}: {budget}; {folder}")
    try:
        with (
            _acting(training, request, folder, quiet=quiet) as training,
            shown_training(training, quiet=quiet or "stdout" in formats) as watch,
        ):
            trained = train_single(
                training,
                folder,
                make_logger=_logger_of(training, formats, wandb_project),
                command=typed_command(),
                watch=watch,
                checkpoint_s=request.checkpoint_s,
            )
    except RunStoppedError:
        also = "" if log_dir else f" with --log-dir {folder}"
        note(f"stopped; the same command{also} resumes from a checkpoint")
        raise typer.Exit(130) from None
    _show(training, trained, folder, request.suite, json=json)


@contextmanager
def _acting(
    training: TrainingSetup, request: TrainingRequest, folder: Path, *, quiet: bool
) -> Iterator[TrainingSetup]:
    """Context in which a person acts on a page, if the expert is one."""
    from imitbench.experts.single_training import HUMAN

    if request.expert != HUMAN:
        yield training
        return
    from imitbench.bench.single_run import HAND_FOLDER
    from imitbench.recording.coaching import PersonAtPage
    from imitbench.recording.server import DEFAULT_PORT
    from imitbench.recording.task import controls_for, make_task

    def tell(url: str) -> None:
        note(f"show the task, then correct the policy: {url}")
        if not request.no_browser and not open_browser(url) and not quiet:
            note("no browser found: open the address yourself")

    spec = training.environment
    task = make_task(
        spec,
        controls_for(spec, request.controls),
        rate_hz=request.rate,
        goal=None,
        seed=training.seed,
    )
    port = DEFAULT_PORT if request.port is None else request.port
    with PersonAtPage(task, folder / HAND_FOLDER, port, tell) as person:
        yield replace(training, person=person)


def _formats(text: str, *, json: bool) -> list[str]:
    formats = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in formats:
        if name not in LOG_FORMATS:
            raise InputError(f"--log-format {name}: unknown; {did_you_mean(name, LOG_FORMATS)}")
    if json and "stdout" in formats:
        raise InputError("--json and log format stdout: both write to stdout; use only one")
    return formats


def _usual_folder(training: TrainingSetup) -> Path:
    environment = training.environment.id.replace("/", "-")
    stamp = time.strftime("%Y%m%d_%H%M%S")
    return Path("output", training.card.name, environment, f"{stamp}_seed{training.seed}")


def _logger_of(
    training: TrainingSetup, formats: Sequence[str], project: str
) -> Callable[[Path], HierarchicalLogger]:
    def make(folder: Path) -> HierarchicalLogger:
        from imitbench.util.logger import configure

        if "wandb" in formats:
            from imitbench.report.curve_exports import start_wandb_run

            name = f"{training.card.name} on {training.environment.id}, seed {training.seed}"
            start_wandb_run(project, name, training.record(), folder)
        return configure(folder, formats)

    return make


def _show(
    training: TrainingSetup, trained: Trained, folder: Path, suite: str | None, *, json: bool
) -> None:
    from imitbench.experts.lookup import find_references

    references = find_references(training.environment.evaluated, suite)
    result = trained.as_document()
    mean = result["mean_return"]
    score = math.nan
    if references is not None:
        score = references.score(references.headline(mean, result["success_rate"]))
    if json:
        print_json({"folder": str(folder), **training.record(), **result, "score": score})
        return
    print_text(
        f"return {mean:.2f} ± {result['std_return']:.2f} ({result['episodes']} episodes), "
        f"deterministic {result['deterministic_return']:.2f}, length {result['mean_length']:.1f}"
        + ("" if math.isnan(score) else f", score {score:.3f}")
    )
    note(f"policy in {folder / 'policy'}; `imitbench eval {folder}` measures it again")


def _options_of(card: AlgorithmCard) -> list[str]:
    """Returns the keywords of the options that an algorithm has."""
    needs, parameters = card.needs, card.hyperparameters
    chosen = {
        "demos": needs.demos,
        "n_demos": needs.demos,
        "expert": needs.demos or needs.expert,
        **dict.fromkeys(("controls", "rate", "port", "no_browser"), card.name == "dagger"),
        "total_timesteps": card.counts_steps,
        "iterations": card.budget_unit == "batches" and needs.tabular,
        "batches": card.budget_unit == "batches" and not needs.tabular,
        "epochs": card.budget_unit == "batches" and "batch_size" in parameters,
        "total_comparisons": "total_comparisons" in parameters,
        "allow_variable_horizon": card.counts_steps and (needs.demos or needs.fixed_horizon),
    }
    return [*_COMMON, *(keyword for keyword, wanted in chosen.items() if wanted)]


def _add_command(group: typer.Typer, path: str, name: str, card: AlgorithmCard) -> None:
    env = "seals/CliffWorld7x4-v0" if card.needs.tabular else "Pendulum-v1"
    help_text = f"{card.title}: {card.summary}\n\n"
    if card.needs.supplement:  # hidden: nothing here can train it, and a call says what can
        help_text += "Needs a mixture, which only `imitbench run` gives (--regime, --mixture).\n\n"
        help_text += f"Example: imitbench run --algo {card.name} --env {env} --regime mixed"
    else:
        help_text += f"Example: imitbench train {path}{name} --env {env}"
    made = command_class(TrainingRequest, _options_of(card), algo=card.name)
    group.command(name, cls=made, help=help_text, hidden=card.needs.supplement)(train_one)


def _make_app() -> typer.Typer:
    """Returns the Typer group, with one command for each algorithm whose card is of a method.

    Those of methods that need a mixture are hidden.
    """
    app = options.command_group(
        "Train one algorithm, with logs during training; `imitbench run` compares several."
    )
    app.command(
        "rl",
        cls=command_class(
            TrainingRequest, [*_COMMON, "algo", "reward", "reward_plugin", "total_timesteps"]
        ),
        help="""Train PPO, SAC or DQN on the true reward, or on a learned reward.

        Other commands accept the policy as an expert: `--expert DIR`.

        Example: imitbench train rl --algo sac --env Pendulum-v1 --total-timesteps 20000
        """,
    )(train_one)
    cards = {card.name: card for card in map(load_algorithm, algorithm_names())}
    methods = {name: card for name, card in cards.items() if card.role == "method"}
    for path, (text, names) in _GROUPS.items():
        group = options.command_group(f"{text}: {', '.join(names)}.")
        for name in names:
            _add_command(group, f"{path} ", name, methods.pop(name))
        app.add_typer(group, name=path)
    for name, card in methods.items():
        _add_command(app, "", _SHORT_NAMES.get(name, name.replace("_", "-")), card)
    about = inspect.cleandoc(evaluate.__doc__ or "")
    app.command("eval-policy", help=f"The same as `imitbench eval`.\n\n{about}")(evaluate)
    return app


app = _make_app()
