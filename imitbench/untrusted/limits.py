"""The limits for files from outside, each a number that an environment variable can change."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

from imitbench.errors import InputError

PREFIX = "IMITBENCH_LIMIT_"
"""A limit is set by this prefix and its name in capitals: `IMITBENCH_LIMIT_YAML_NODES=500000`."""


@dataclass(frozen=True)
class Limits:
    """Limits for one file or folder from outside; `docs/security.md` has the same list.

    Attributes:
        text_bytes: Size of a card, settings file or other text that is parsed as a whole.
        sweep_bytes: Size of a file that records what a sweep requested.
        file_bytes: Size of any other file that is read as a whole.
        members: Files in an archive.
        entries: Files and folders below a path that a command reads.
        ratio: Unpacked bytes per packed byte of an archive, above 64 MiB; or of a Parquet file,
            above 256 MiB.
        unpacked_bytes: Bytes of an archive after unpacking.
        yaml_nodes: Values in a YAML document after aliases and merge keys are expanded.
        yaml_depth: Nesting of a YAML document.
        number_digits: Characters of a number in YAML or JSON.
        table_columns: Columns of a text table.
        table_rows: Rows of a text table.
        dimensions: Axes of an array or of a space.
        space_numbers: Numbers in one observation or action.
        episode_steps: Steps of an episode that an expert's settings may state.
        run_episodes: Evaluation episodes of a run.
        database_bytes: Memory of the queries on a database of results.
        pickle_values: Values that the pickle reader creates.
        child_bytes: Memory of the process that tries a file, beyond what the program needs
            and four times the size of the files.
        child_seconds: Processor time of this process for a file of up to 16 MiB; a larger one has
            more in proportion. It may last three times as long.
        child_files: Files that this process may open at the same time.
        child_output_bytes: Bytes that this process may return.
        hub_file_bytes: Size of a file that is fetched from a hub.
        hub_pull_bytes: Size of all files that one pull fetches from a hub.
    """

    text_bytes: int = 2**22
    sweep_bytes: int = 2**26
    file_bytes: int = 2**31
    members: int = 10_000
    entries: int = 200_000
    ratio: int = 200
    unpacked_bytes: int = 2**32
    yaml_nodes: int = 200_000
    yaml_depth: int = 100
    number_digits: int = 1_000
    table_columns: int = 4_096
    table_rows: int = 10_000_000
    dimensions: int = 8
    space_numbers: int = 2**23
    episode_steps: int = 10_000_000
    run_episodes: int = 100_000
    database_bytes: int = 2**30
    pickle_values: int = 2_000_000
    child_bytes: int = 2**30
    child_seconds: int = 10
    child_files: int = 256
    child_output_bytes: int = 2**26
    hub_file_bytes: int = 2**33
    hub_pull_bytes: int = 2**35


_DEFAULTS = asdict(Limits())


def limits() -> Limits:
    """Returns the limits that are in force.

    Raises:
        InputError: A variable of the environment is not a whole number above 0.
    """
    return Limits(**{name: _stated(name, value) for name, value in _DEFAULTS.items()})


def variable(name: str) -> str:
    """Returns the name of the variable that sets a limit."""
    return PREFIX + name.upper()


def beyond(name: str, found: str) -> str:
    """Returns the end of a message about something beyond a limit.

    Args:
        name: Name of the limit.
        found: What was found, such as `5,000 columns`.
    """
    return f"{found}, and the limit is {getattr(limits(), name):,} ({variable(name)} changes it)"


def _stated(name: str, default: int) -> int:
    text = os.environ.get(variable(name), "")
    if not text:
        return default
    # `isdigit` also holds for superscripts; the length bounds the time of `int`.
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text)):
        raise InputError(f"{variable(name)}: must be a whole number above 0, not {text[:60]!r}")
    return int(text)
