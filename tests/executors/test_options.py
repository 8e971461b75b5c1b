"""A field of the run options defines the command's option, the keyword and the job file's entry."""

from typing import Annotated

import pytest
import typer

import imitbench
from imitbench.bench.job import Job
from imitbench.cli.main import app
from imitbench.cli.record_options import command_class
from imitbench.errors import InputError
from imitbench.executors.options import JobOptions, RunOptions
from imitbench.util.options import Option

# Options of the record that a command does not offer, because it decides them itself.
DECIDED = {
    "run": set(),
    "resume": {"device", "force", "pack"},
    "tune": {"fail_fast", "force", "min_task_minutes", "pack", "retries", "wait"},
}


class MoreOptions(RunOptions):
    """The only edit that a new option needs before it is used."""

    nap_s: Annotated[float, Option("Between runs.", keyword="nap_minutes", unit=60.0)] = 0.0


@pytest.mark.parametrize("command", DECIDED)
def test_commands_have_the_options_of_the_record(command):
    flags = {
        flag for each in typer.main.get_command(app).commands[command].params for flag in each.opts
    }
    for keyword, option in RunOptions.options().items():
        assert (option.flag in flags) == (keyword not in DECIDED[command]), keyword


def test_the_function_has_the_keywords_of_the_record():
    for keyword, option in RunOptions.options().items():
        with pytest.raises(InputError, match="did you mean 'bc'"):
            imitbench.run("bcc", **{keyword: option.default})
    with pytest.raises(TypeError, match="nap_minutes"):
        imitbench.run("bc", nap_minutes=1)


def test_a_job_file_has_what_workers_need():
    shared = set(JobOptions.model_fields)
    assert shared == {"force", "checkpoint_s", "retries", "timeout_s", "threads"}
    assert shared < set(Job.model_fields)
    options = RunOptions.of({"retries": 2, "timeout": "90m", "checkpoint_minutes": 1})
    assert options.for_jobs == JobOptions(retries=2, timeout_s=5400.0, checkpoint_s=60.0)


def test_a_new_field_is_both_an_option_and_a_keyword(capsys):
    told = typer.Typer(add_completion=False)

    def show(context: typer.Context) -> None:
        typer.echo(context.obj.nap_s)

    told.command(cls=command_class(MoreOptions))(show)
    typer.main.get_command(told)(["--nap-minutes", "2"], standalone_mode=False)
    assert capsys.readouterr().out == "120.0\n"
    assert MoreOptions.of({"nap_minutes": 2}).nap_s == 120.0


def test_a_command_offers_no_option_that_it_decides(capsys):
    decided = command_class(RunOptions, retries=3)
    told = typer.Typer(add_completion=False)

    def show(context: typer.Context) -> None:
        typer.echo(context.obj.retries)

    told.command(cls=decided)(show)
    command = typer.main.get_command(told)
    assert "retries" not in {each.name for each in command.params}
    command.main([], standalone_mode=False)
    assert capsys.readouterr().out == "3\n"
