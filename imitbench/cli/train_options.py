"""Options of `imitbench train`, which its commands choose from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from imitbench.cli import completion, options, run_options

LOG_FORMATS = ("tensorboard", "csv", "json", "log", "stdout", "wandb")
DEFAULT_FORMATS = "csv"
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _option(kind: Any, default: Any, *names: str, **settings: Any) -> tuple[Any, Any]:
    return Annotated[kind, typer.Option(*names, **settings)], default


# By the names under which `train_one` gets them: type and default of each.
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "env": _option(
        str, ..., "--env", metavar="ID",
        help="Environment id, or module:id where importing a module registers it.",
        autocompletion=completion.environments,
    ),
    "suite": (options.SuiteOfEnv, None),
    "algo": _option(Literal["ppo", "sac", "dqn"], "ppo", "--algo", help="Algorithm."),
    "reward": _option(
        Path | None, None, "--reward", metavar="DIR", file_okay=False,
        help="Learn from this saved reward [the environment's own]; a training's folder does.",
    ),
    "demos": _option(
        str | None, None, "--demos", metavar="DIR_OR_REPO", autocompletion=completion.demos,
        help="Demonstrations: folder, bundled set, or repository owner/name [the suite's].",
    ),
    "n_demos": _option(
        int | None, None, "--n-demos", metavar="N", min=1,
        help="How many of them [all], or how many to sample from --expert [50].",
    ),
    "expert": _option(
        str | None, None, "--expert", metavar="DIR_OR_REPO", autocompletion=completion.experts,
        help="Sample demonstrations from this one: folder, zip, bundled, or owner/name.",
    ),
    "asked_expert": _option(
        str | None, None, "--expert", metavar="DIR_OR_REPO", autocompletion=completion.experts,
        help="Whom to ask: folder, zip, bundled, or owner/name [the suite's].",
    ),
    "amount": _option(
        int | None, None, "--total-timesteps", metavar="N", min=1,
        help="Environment steps [the suite's default budget, or 100000].",
    ),
    "batches": _option(
        int | None, None, "--batches", metavar="N", min=1,
        help="Batches [the suite's default budget, or 2000].",
    ),
    "epochs": _option(
        int | None, None, "--epochs", metavar="N", min=1,
        help="Passes over the demonstrations, instead of --batches.",
    ),
    "iterations": _option(
        int | None, None, "--iterations", metavar="N", min=1,
        help="Iterations at most [the suite's default budget].",
    ),
    "comparisons": _option(
        int | None, None, "--total-comparisons", metavar="N", min=1,
        help="Pairs of fragments that are asked about [1000].",
    ),
    "variable_horizon": _option(
        bool, False, "--allow-variable-horizon",
        help="Accept episodes of different length, whose ends tell of the reward.",
    ),
    "seed": _option(int, 0, "--seed", min=0, help="Seed."),
    "set_": (run_options.Set, []),
    "log_dir": _option(
        Path | None, None, "--log-dir", metavar="DIR", file_okay=False,
        help="Folder of all outputs [output/ALGO/ENV/TIME].",
    ),
    "log_format": _option(
        str, DEFAULT_FORMATS, "--log-format", metavar="A,B",
        help=f"Outputs of the logger: {', '.join(LOG_FORMATS)}.",
        autocompletion=completion.log_formats,
    ),
    "wandb_project": _option(
        str, "imitbench", "--wandb-project", metavar="NAME", help="With log format wandb."
    ),
    "episodes": _option(int, 50, "--eval-episodes", min=1, help="To measure the policy."),
    "device": (run_options.Device, "auto"),
    "checkpoint_minutes": (run_options.CheckpointMinutes, 10.0),
    "json": (options.Json, False),
    "quiet": (options.Quiet, False),
}  # fmt: skip
_ALWAYS = (
    *("seed", "set_", "log_dir", "log_format", "wandb_project", "episodes", "device"),
    *("checkpoint_minutes", "json", "quiet"),
)


def make_command(
    do: Callable[..., None], algo: str | None, names: Sequence[str], text: str
) -> Callable[..., None]:
    """A command with some of the options, and with those that all have.

    Args:
        do: Called with the algorithm and every option by its name.
        algo: The algorithm; `None` where an option says.
        names: Options of its own.
        text: Its help.
    """
    chosen = {name: _OPTIONS[name] for name in ("env", "suite", *names, *_ALWAYS)}

    def command(**given: Any) -> None:
        do(**({"algo": algo} if algo else {}), **given)

    # Typer reads parameters from here.
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, _KEYWORD, default=default, annotation=annotation)
            for name, (annotation, default) in chosen.items()
        ]
    )
    command.__annotations__ = {name: kind for name, (kind, _) in chosen.items()}
    command.__doc__ = text
    return command
