"""The `imitbench` command: registers every command and turns bad input into one line."""

from __future__ import annotations

import os
import sys

import typer

from imitbench import __version__
from imitbench.cli import (
    algos,
    cancel,
    check_algo,
    collect,
    compare,
    demos,
    doctor,
    evaluate,
    experts,
    import_,
    init_plugin,
    leaderboard,
    logs,
    prefetch,
    report,
    results,
    resume,
    run,
    sql,
    status,
    suites,
    train,
    tune,
    verify_resume,
)
from imitbench.errors import InputError
from imitbench.util.text_line import printable

app = typer.Typer(
    name="imitbench",
    help="Which imitation or reward learning method is better, on what, and by how much?",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("resume")(resume.resume)
app.command("status")(status.status)
app.command("cancel")(cancel.cancel)
app.command("logs")(logs.logs)
app.command("collect")(collect.collect)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("sql")(sql.sql)
app.command("eval")(evaluate.evaluate)
app.add_typer(train.app, name="train")
app.command("algos")(algos.algos)
app.add_typer(suites.app, name="suites")
app.add_typer(experts.app, name="experts")
app.add_typer(demos.app, name="demos")
app.add_typer(results.app, name="results")
app.add_typer(import_.app, name="import")
app.add_typer(leaderboard.app, name="leaderboard")
app.command("prefetch")(prefetch.prefetch)
app.command("tune")(tune.tune)
app.command("init-algo")(init_plugin.init_algo)
app.command("init-suite")(init_plugin.init_suite)
app.command("check-algo")(check_algo.check_algo)
app.command("verify-resume")(verify_resume.verify_resume)
app.command("doctor")(doctor.doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options of the command as a whole."""


def main() -> None:
    """Runs the command line; never shows a traceback for bad input.

    Exit codes: 0 done; 1 some runs failed, or a check says no; 2 usage or bad input.
    """
    try:
        code = app(standalone_mode=False)
    except InputError as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (KeyboardInterrupt, typer.Abort):
        # What was just being made, such as a progress bar, complains of its missing parts when it
        # is thrown away.
        sys.unraisablehook = lambda _: None
        typer.echo("stopped", err=True)
        sys.exit(130)
    except Exception as error:
        # Typer's own usage errors; their base class has moved between versions.
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands, named alone
            typer.echo(error.format_message(), err=True)
            sys.exit(2)
        _fail(error.format_message().replace("Value error, ", ""))  # said of wrong choices
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    typer.echo(f"error: {printable(message)}", err=True)
    sys.exit(2)
