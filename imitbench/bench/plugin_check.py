"""Checks plug-ins before any run starts, so that a bad one gives one error, not one per run.

python -m imitbench.bench.plugin_check     a list of `PluginRequirement`s on standard input

Planning reads cards and runs nothing. This check imports the modules of plug-ins in a separate
process, as workers will do.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from imitbench.errors import InputError
from imitbench.records.runs import EnvironmentSpec, Record
from imitbench.util.interpreter import module_command
from imitbench.util.source_import import SourceLocation, register

if TYPE_CHECKING:
    from imitbench.bench.plan import Plan

_CHECK = "imitbench.bench.plugin_check"
_REFUSED = 2


class PluginRequirement(Record):
    """Something from outside this package that a sweep needs: a learner or an environment.

    Attributes:
        what: Name in messages, for example `algorithm NAME`.
        digest: Digest of its source.
        source: Location of the source.
        implementation: A learner class as `module:Class`; `None` for an environment.
        environment: Specification of an environment; `None` for a learner.
    """

    what: str
    digest: str
    source: SourceLocation
    implementation: str | None = None
    environment: EnvironmentSpec | None = None


_QUESTIONS = TypeAdapter(list[PluginRequirement])


def check_plugins(plan: Plan) -> None:
    """Imports what a plan needs from outside this package, in another process.

    Raises:
        InputError: An import fails, or finds something other than a learner or an environment.
    """
    questions = _questions(plan)
    if not questions:
        return
    done = subprocess.run(
        module_command(_CHECK),
        input=_QUESTIONS.dump_json(questions),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines() or ["no word"]
        if done.returncode == _REFUSED:
            raise InputError(words[-1])
        names = ", ".join(question.what for question in questions)
        raise InputError(f"{names}: importing ended with code {done.returncode}: {words[-1]}")


def _questions(plan: Plan) -> list[PluginRequirement]:
    sources = plan.sources
    asked = [
        PluginRequirement(
            what=f"algorithm {card.name}",
            digest=card.origin.digest,
            source=sources[card.origin.digest],
            implementation=card.implementation,
        )
        for card, _ in plan.algorithms
        if card.origin.digest is not None
    ]
    for env_id, card in plan.environments.items():
        if card.module_digest is not None:
            asked.append(
                PluginRequirement(
                    what=f"environment {env_id}",
                    digest=card.module_digest,
                    source=sources[card.module_digest],
                    environment=EnvironmentSpec.of_card(env_id, card),
                )
            )
    return asked


def main() -> int:
    """Entry point.

    Returns:
        0 if all checks pass; else 2, with the reason as the last line on standard error.
    """
    from imitbench.bench.environments import make_environment
    from imitbench.bench.implementation import learner_class

    for question in _QUESTIONS.validate_json(sys.stdin.buffer.read()):
        register(question.digest, question.source)
        try:
            if question.implementation is not None:
                learner_class(question.implementation, question.digest, question.what)
            if question.environment is not None:
                make_environment(question.environment).close()
        except InputError as error:
            print(f"{error}", file=sys.stderr)
            return _REFUSED
        except BaseException as error:
            print(f"{question.what}: {_in_one_line(error, question)}", file=sys.stderr)
            return _REFUSED
    return 0


def _in_one_line(error: BaseException, question: PluginRequirement) -> str:
    """Returns an error as one line, with the line of the plug-in's source that raised it."""
    where = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(str(question.source.folder)):
            where = f"{file}:{trace.tb_lineno}: "
        trace = trace.tb_next
    message = (str(error) or "no message").splitlines()[0]
    return f"{where}importing it raises {type(error).__name__}: {message}"


if __name__ == "__main__":
    sys.exit(main())
