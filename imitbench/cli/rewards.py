"""`imitbench rewards`: looks into learned rewards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from imitbench.cli import completion, options
from imitbench.cli.options import argument, option
from imitbench.cli.output import note, print_json, print_table
from imitbench.errors import InputError
from imitbench.util.torch_startup import start_torch

if TYPE_CHECKING:
    from imitbench.rewards.pictures import RewardPicture

app = options.command_group("Look into learned rewards.")

AnyReward = Annotated[
    str, argument("RUN", "Run id, or the folder of a run or of a reward.", completion.runs)
]
RewardEnv = Annotated[
    str | None,
    option("--env", "Environment id [as recorded with the run].", "ID", completion.environments),
]
RewardPlugin = Annotated[
    str | None, option("--algo", "The plug-in that made the reward; it is imported.", "PLUGIN")
]
TrustReward = Annotated[
    bool, option("--trust", "Import the plug-in of a run, even if changed: executes code.")
]
DEFAULT_FILE = Path("reward.png")


@app.callback()
def _group() -> None:
    """Keeps the name of the command below the group, while there is only one."""


@app.command("show")
def show(
    run: AnyReward,
    to: Annotated[
        Path | None,
        option(
            "--to", "File to write: .png, .svg or .html [reward.png; none with --json].", "FILE"
        ),
    ] = None,
    dims: Annotated[
        str | None,
        option("--dims", "Dimensions of the observation for the map [those of the task].", "I,J"),
    ] = None,
    episodes: Annotated[
        int, option("--episodes", "Episodes of each behavior.", min=1, max=1000)
    ] = 5,
    seed: Annotated[
        int | None, option("--seed", "Seed of episodes and permutations [the run's, or 0].", min=0)
    ] = None,
    env: RewardEnv = None,
    suite: options.SuiteOfEnv = None,
    algo: RewardPlugin = None,
    out: options.Out = options.DEFAULT_OUT,
    trust: TrustReward = False,
    force: Annotated[bool, option("--force", "Replace an existing file.")] = False,
    json: options.Json = False,
) -> None:
    """Draw a learned reward: beside the true one, along episodes, and what it depends on.

    The figure has three parts: maps of the learned and the true reward over two dimensions of the
    observation; both rewards along an episode of the suite's expert, of the run's policy and of
    random actions; and how much the learned reward changes when one dimension is permuted. Where a
    task has no usual coordinates, the map is over the two dimensions that matter most, or --dims.

    For a reward without a run, name its environment by --env. Figures need the extra `plots`.

    Example: imitbench rewards show 3f2a --to reward.html
    """
    from imitbench.cards.plugins import find_algorithm, find_suite
    from imitbench.experts.reward_pictures import find_subject, make_picture
    from imitbench.report.reward_figure import check_target, write_picture

    chosen = None if dims is None else parse_dims(dims)
    target = to if to is not None or json else DEFAULT_FILE
    if target is not None:
        check_target(target, replace=force)
    start_torch()
    if suite is not None:
        find_suite(suite)
    if algo is not None:
        find_algorithm(algo)
    subject = find_subject(run, out=out, env=env, suite=suite, plugin=algo, trust=trust)
    picture = make_picture(subject, dims=chosen, episodes=episodes, seed=seed)
    if target is not None:
        write_picture(picture, target, replace=force)
    if json:
        print_json({**picture.as_document(), "file": None if target is None else str(target)})
    else:
        _print(picture)
    if target is not None:
        note(f"wrote {target}")


def parse_dims(given: str) -> tuple[int, int]:
    """Returns two dimensions of the observation.

    Args:
        given: Text of the option `--dims`, such as `0,2`.

    Raises:
        InputError: It is not two whole numbers from 0.
    """
    parts = [part.strip() for part in given.split(",")]
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(f"--dims {given}: must be two numbers from 0, such as 0,2")
    return int(parts[0]), int(parts[1])


def _print(picture: RewardPicture) -> None:
    """Prints the correlations along episodes, and the sensitivities."""
    numbers = ("learned_return", "true_return", "spearman", "pearson")
    rows = [
        [each["behavior"], each["episodes"], *(_rounded(each[name]) for name in numbers)]
        for each in picture.as_document()["episodes"]
    ]
    headings = ["behavior", "episodes", "learned return", "true return", "Spearman", "Pearson"]
    print_table(headings, rows)
    shares = [[each.name, each.kind, _rounded(each.share)] for each in picture.sensitivities]
    print_table(["dimension", "of", "sensitivity"], shares)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
