"""`imitbench train`: one algorithm on one environment, without the harness."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from imitbench.cli.evaluate import evaluate
from imitbench.cli.train_options import LOG_FORMATS, make_command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imitbench.bench.single import OnPoint, Trained, Training
    from imitbench.util.logger import HierarchicalLogger

_TOLD = 20  # lines of progress at most
_TELLING = ("/return_mean", "/loss", "/accuracy")  # what they say first

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Train a single algorithm, with logs as it learns; `imitbench run` compares several.",
)
imitation = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Learn a policy from an expert's actions: bc, dagger.",
)
adversarial = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Learn a policy and a reward from demonstrations: gail, airl.",
)


def train_one(algo: str, env: str, **given: Any) -> None:
    """Carries out a command of `imitbench train`."""
    from imitbench.bench.plan import parse_overrides
    from imitbench.cli.hub_progress import make_tell
    from imitbench.cli.output import note
    from imitbench.errors import InputError

    formats = _formats(given["log_format"], json=given["json"])
    overrides = parse_overrides(given["set_"])
    if given.get("comparisons") is not None:
        overrides["total_comparisons"] = str(given["comparisons"])
    if given.get("epochs") is not None and given.get("batches") is not None:
        raise InputError("--epochs and --batches: name one of them")
    amounts = [given.get(name) for name in ("amount", "batches", "iterations")]

    # Training libraries take seconds to load: only once the options are known to be good.
    from imitbench.bench.single import train
    from imitbench.bench.stopping import RunStoppedError
    from imitbench.cli.provenance import typed_command
    from imitbench.experts.single_training import Wish, prepare
    from imitbench.util.torch_startup import use_one_thread

    use_one_thread()
    training = prepare(
        Wish(
            algo=algo,
            env=env,
            suite=given["suite"],
            demos=given.get("demos"),
            n_demos=given.get("n_demos"),
            expert=given.get("expert") or given.get("asked_expert"),
            reward=given.get("reward"),
            amount=next((each for each in amounts if each is not None), None),
            epochs=given.get("epochs"),
            seed=given["seed"],
            overrides=overrides,
            variable_horizon=given.get("variable_horizon", False),
            device=given["device"],
            episodes=given["episodes"],
        ),
        make_tell(quiet=given["quiet"]),
    )
    folder = given["log_dir"] or _usual_folder(training)
    budget = f"{training.budget.amount:,} {training.budget.unit.replace('_', ' ')}"
    if not given["quiet"]:
        note(f"{algo} on {training.environment.id}: {budget}; {folder}")
    try:
        trained = train(
            training,
            folder,
            make_logger=_logger_of(training, formats, given["wandb_project"]),
            command=typed_command(),
            on_point=_teller(training, quiet=given["quiet"] or "stdout" in formats),
            checkpoint_s=60 * given["checkpoint_minutes"],
        )
    except RunStoppedError:
        also = "" if given["log_dir"] else f" with --log-dir {folder}"
        note(f"stopped; the same command{also} goes on from a checkpoint")
        raise typer.Exit(130) from None
    _show(training, trained, folder, given["suite"], json=given["json"])


def _formats(text: str, *, json: bool) -> list[str]:
    from imitbench.errors import InputError, did_you_mean

    formats = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in formats:
        if name not in LOG_FORMATS:
            raise InputError(f"--log-format {name}: unknown; {did_you_mean(name, LOG_FORMATS)}")
    if json and "stdout" in formats:
        raise InputError("--json and log format stdout: both are for stdout; leave one out")
    return formats


def _usual_folder(training: Training) -> Path:
    environment = training.environment.id.replace("/", "-")
    stamp = time.strftime("%Y%m%d_%H%M%S")
    return Path("output", training.card.name, environment, f"{stamp}_seed{training.seed}")


def _logger_of(
    training: Training, formats: Sequence[str], project: str
) -> Callable[[Path], HierarchicalLogger]:
    def make(folder: Path) -> HierarchicalLogger:
        from imitbench.util.logger import configure

        if "wandb" in formats:
            from imitbench.report.wandb_upload import begin

            name = f"{training.card.name} on {training.environment.id}, seed {training.seed}"
            begin(project, name, training.record(), folder)
        return configure(folder, formats)

    return make


def _teller(training: Training, *, quiet: bool) -> OnPoint:
    """Tells of the training now and then, on stderr."""
    from imitbench.cli.output import note

    amount = training.budget.amount
    told = 0

    def tell(step: int, metrics: Any) -> None:
        nonlocal told
        part = _TOLD * step // max(amount, 1)
        if quiet or part <= told:
            return
        told = part
        shown = sorted(metrics, key=lambda name: not name.endswith(_TELLING))[:3]
        words = [f"{name.rpartition('/')[2]} {metrics[name]:.4g}" for name in shown]
        note(f"  {step:>{len(f'{amount:,}')},} / {amount:,}  {', '.join(words)}")

    return tell


def _show(
    training: Training, trained: Trained, folder: Path, suite: str | None, *, json: bool
) -> None:
    from imitbench.cli.output import note, print_json
    from imitbench.experts.locate import find_references

    references = find_references(training.environment.evaluated, suite)
    result = trained.as_document()
    mean = result["mean_return"]
    score = references.score(mean) if references else math.nan
    if json:
        print_json({"folder": str(folder), **training.record(), **result, "score": score})
        return
    typer.echo(
        f"return {mean:.2f} ± {result['std_return']:.2f} ({result['episodes']} episodes), "
        f"deterministic {result['deterministic_return']:.2f}, length {result['mean_length']:.1f}"
        + ("" if math.isnan(score) else f", score {score:.3f}")
    )
    note(f"policy in {folder / 'policy'}; `imitbench eval {folder}` measures it again")


_FROM_DEMOS = ("demos", "n_demos", "expert")
_RL = ("amount", "variable_horizon")
app.command("rl")(
    make_command(
        train_one,
        None,
        ("algo", "reward", "amount"),
        """Train PPO, SAC or DQN on the true reward, or on a reward that was learnt.

        The policy is an expert for the other commands: `--expert DIR`.

        Example: imitbench train rl --algo sac --env Pendulum-v1 --total-timesteps 20000
        """,
    )
)
imitation.command("bc")(
    make_command(
        train_one,
        "bc",
        (*_FROM_DEMOS, "batches", "epochs"),
        """Behavioral cloning.

        Example: imitbench train imitation bc --env seals/CartPole-v0 --epochs 4
        """,
    )
)
imitation.command("dagger")(
    make_command(
        train_one,
        "dagger",
        ("asked_expert", "amount"),
        """DAgger, which asks the expert about what the learner meets.

        Example: imitbench train imitation dagger --env seals/CartPole-v0 --total-timesteps 8000
        """,
    )
)
adversarial.command("gail")(
    make_command(
        train_one,
        "gail",
        (*_FROM_DEMOS, *_RL),
        """Generative adversarial imitation learning.

        Example: imitbench train adversarial gail --env seals/CartPole-v0 --set n_envs=4
        """,
    )
)
adversarial.command("airl")(
    make_command(
        train_one,
        "airl",
        (*_FROM_DEMOS, *_RL),
        """Adversarial inverse reinforcement learning.

        Example: imitbench train adversarial airl --env Pendulum-v1 --log-format csv,wandb
        """,
    )
)
app.add_typer(imitation, name="imitation")
app.add_typer(adversarial, name="adversarial")
app.command("preferences")(
    make_command(
        train_one,
        "preference_comparisons",
        ("comparisons", *_RL),
        """Preference comparisons; the answers come from the true reward.

        Example: imitbench train preferences --env Pendulum-v1 --total-comparisons 500
        """,
    )
)
app.command("density")(
    make_command(
        train_one,
        "density",
        (*_FROM_DEMOS, *_RL),
        """PPO on the density of the demonstrations.

        Example: imitbench train density --env Pendulum-v1 --set kernel_bandwidth=0.2
        """,
    )
)
app.command("sqil")(
    make_command(
        train_one,
        "sqil",
        (*_FROM_DEMOS, *_RL),
        """Soft Q imitation learning, with DQN or SAC.

        Example: imitbench train sqil --env seals/CartPole-v0 --n-demos 10
        """,
    )
)
app.command("mce-irl")(
    make_command(
        train_one,
        "mce_irl",
        (*_FROM_DEMOS, "iterations"),
        """Maximum causal entropy IRL, on tabular environments.

        Example: imitbench train mce-irl --env seals/CliffWorld7x4-v0 --iterations 200
        """,
    )
)
app.command("eval-policy", help=f"The same as `imitbench eval`.\n\n{evaluate.__doc__}")(evaluate)
