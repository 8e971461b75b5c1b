"""Keeps the current folder off Python's import path, here and in processes that are started.

Python looks for modules in the current folder first when it is called with `-m` or `-c`. A file
`json.py` in a folder of results or in a submission would then be executed. Other modules start
Python with `module_command` only.

This module imports only what Python itself has loaded before, because the current folder may still
be on the path.
"""

import os
import sys

# What `-P` does, which exists since Python 3.11: `-c` puts an empty entry first on the path.
_WITHOUT_FOLDER = (
    "import sys; sys.path[:] = [entry for entry in sys.path if entry]; import runpy; "
    "sys.argv = sys.argv[sys.argv.index('-m') + 1:]; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def module_command(module: str, *arguments: str) -> list[str]:
    """Returns the command that runs a module as a program, for `subprocess`.

    Args:
        module: Dotted name of an installed module.
        *arguments: Arguments of the program.
    """
    start = ["-P"] if sys.version_info >= (3, 11) else ["-c", _WITHOUT_FOLDER]
    return [sys.executable, *start, "-m", module, *arguments]


def shell_prefix(python: str, *, own: bool) -> str:
    """Returns a shell command of an interpreter, to which `-m MODULE` can be added.

    Args:
        python: Shell command of the interpreter.
        own: Whether it is the interpreter of this process. The version of another one, such as
            that of a container, is unknown.
    """
    if own and sys.version_info >= (3, 11):
        return f"{python} -P"
    return f'{python} -c "{_WITHOUT_FOLDER}"'


def leave_out_current_folder() -> None:
    """Removes the current folder from the import path, and from `PYTHONPATH` for child processes.

    It stays where `PYTHONPATH` names it in full, or an installed package put it there.
    """
    try:
        here = os.path.realpath(os.getcwd())  # noqa: PTH109 (pathlib may not be loaded)
    except OSError:  # the folder was removed
        return
    given = os.environ.get("PYTHONPATH")
    named = [] if given is None else given.split(os.pathsep)
    kept = [entry for entry in named if os.path.isabs(entry) or not _is(entry, here)]  # noqa: PTH117
    if named and not kept:
        del os.environ["PYTHONPATH"]
    elif kept != named:
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    if any(_is(entry, here) for entry in kept):
        return
    # Entries after the standard library were put there by installed packages.
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    end = sys.path.index(library) if library in sys.path else len(sys.path)
    sys.path[:end] = [entry for entry in sys.path[:end] if not _is(entry, here)]


def _is(entry: str, folder: str) -> bool:
    return os.path.realpath(entry or os.curdir) == folder
