"""A logger that accumulates values of many rounds of inner training and logs their means.

Inner training (for example an RL algorithm inside GAIL) dumps its values far more often than the
outer loop. Within `accumulate_means`, its dumps go to a separate logger, and the outer logger
gets the mean of each value at its next dump.
"""

from __future__ import annotations

import datetime
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stable_baselines3.common import logger as sb_logger

from imitbench.util.extras import import_extra
from imitbench.util.util import AnyPath, parse_path

DEFAULT_FORMATS = ("stdout", "log", "csv")


def make_output_format(
    _format: str, log_dir: str, log_suffix: str = "", max_length: int = 50
) -> sb_logger.KVWriter:
    """Creates an output of the logger.

    Args:
        _format: `stdout`, `log`, `json`, `csv`, `tensorboard`, or `wandb`.
        log_dir: Folder for files.
        log_suffix: Suffix of file names.
        max_length: Longer keys are truncated (in `stdout` and `log`).

    Raises:
        ModuleNotFoundError: `wandb` is requested but not installed.
        ValueError: Unknown format, or `tensorboard` is requested but not installed.
    """
    Path(log_dir).mkdir(parents=True, exist_ok=True)
    if _format == "wandb":
        return WandbOutputFormat()
    if _format == "log":
        file = str(Path(log_dir) / f"log{log_suffix}.txt")
        return sb_logger.HumanOutputFormat(file, max_length=max_length)
    if _format == "stdout":
        return sb_logger.HumanOutputFormat(sys.stdout, max_length=max_length)
    if _format == "tensorboard":
        import_extra("tensorboard", "tensorboard", "logging to TensorBoard")
    return sb_logger.make_output_format(_format, log_dir, log_suffix)


def _make_output_formats(folder: Path, formats: Sequence[str]) -> list[sb_logger.KVWriter]:
    return [make_output_format(name, str(folder)) for name in formats]


class HierarchicalLogger(sb_logger.Logger):
    """A logger with contexts that accumulate means.

    Args:
        default_logger: Receives all values outside `accumulate_means`, and the means.
        format_strs: Outputs of the loggers of raw values; there is one logger per name.

    Attributes:
        current_logger: Logger of raw values while accumulating, else `None`.
        name_to_value: Values recorded since the last dump of the current context, by key.
        dir: Folder of the default logger's files; `None` without files.
    """

    def __init__(
        self, default_logger: sb_logger.Logger, format_strs: Sequence[str] = DEFAULT_FORMATS
    ) -> None:
        self.default_logger = default_logger
        self.current_logger: sb_logger.Logger | None = None
        self.format_strs = format_strs
        self._raw_loggers: dict[str, sb_logger.Logger] = {}
        self._accumulate_prefixes: list[str] = []
        self._key_prefixes: list[str] = []
        self._name: str | None = None
        super().__init__(folder=default_logger.dir, output_formats=[])
        self._show_values()

    def _show_values(self) -> None:
        """Makes the recorded values those of the current context.

        Callbacks in the style of Stable-Baselines3 read them from the logger itself.
        """
        self.name_to_value = self._logger.name_to_value
        self.name_to_count = self._logger.name_to_count
        self.name_to_excluded = self._logger.name_to_excluded

    @contextmanager
    def add_accumulate_prefix(self, prefix: str) -> Generator[None, None, None]:
        """Adds a prefix to the names of accumulations.

        Raises:
            RuntimeError: An accumulation is active.
        """
        if self.current_logger is not None:
            raise RuntimeError("prefixes cannot be added while means are accumulated")
        self._accumulate_prefixes.append(prefix)
        try:
            yield
        finally:
            self._accumulate_prefixes.pop()

    @contextmanager
    def add_key_prefix(self, prefix: str) -> Generator[None, None, None]:
        """Adds a prefix to the keys recorded during the active accumulation.

        Raises:
            RuntimeError: No accumulation is active, so that the prefix would be ignored.
        """
        if self.current_logger is None:
            raise RuntimeError("key prefixes can be added only while means are accumulated")
        self._key_prefixes.append(prefix)
        try:
            yield
        finally:
            self._key_prefixes.pop()

    def get_accumulate_prefixes(self) -> str:
        """Returns the prefixes of `add_accumulate_prefix`, joined and ending in a slash."""
        return "".join(f"{prefix}/" for prefix in self._accumulate_prefixes)

    @contextmanager
    def accumulate_means(self, name: str) -> Generator[None, None, None]:
        """Sends recorded values to a separate logger, and their means to the default logger.

        A value recorded under `key` is logged as `raw/[prefixes/]name/[key prefixes/]key`, and
        its mean as `mean/…` at the default logger's next dump.

        Args:
            name: Last part of the path. If it is used again, its files are appended to.

        Raises:
            RuntimeError: An accumulation is active already.
        """
        if self.current_logger is not None:
            raise RuntimeError("means are accumulated already; contexts cannot be nested")
        path = f"{self.get_accumulate_prefixes()}{name}"
        if path not in self._raw_loggers:
            folder = None
            formats: list[sb_logger.KVWriter] = []
            if self.default_logger.dir is not None:
                folder = Path(self.default_logger.dir) / "raw" / path
                formats = _make_output_formats(folder, self.format_strs)
            self._raw_loggers[path] = sb_logger.Logger(
                folder=str(folder) if folder else None, output_formats=formats
            )
        self.current_logger, self._name = self._raw_loggers[path], path
        self._show_values()
        try:
            yield
        finally:
            self.current_logger, self._name = None, None
            self._show_values()

    def record(self, key: str, val: Any, exclude: str | tuple[str, ...] | None = None) -> None:
        """Records a value; a later one with the same key replaces it until the next dump."""
        if self.current_logger is None:
            self.default_logger.record(key, val, exclude)
            return
        filed = "/".join([str(self._name), *self._key_prefixes, key])
        self.current_logger.record(f"raw/{filed}", val, exclude)
        self.default_logger.record_mean(f"mean/{filed}", val, exclude)

    def record_mean(
        self, key: str, val: float | None, exclude: str | tuple[str, ...] | None = None
    ) -> None:
        """Records a value for the mean of its key, always in the default logger."""
        self.default_logger.record_mean(key, val, exclude)

    @property
    def _logger(self) -> sb_logger.Logger:
        return self.current_logger or self.default_logger

    def dump(self, step: int = 0) -> None:
        """Writes the values recorded in the current context."""
        self._logger.dump(step)

    def get_dir(self) -> str | None:
        """Returns the folder of the current context's files; `None` without files."""
        return self._logger.get_dir()

    def log(self, *args: Any, level: int = sb_logger.INFO) -> None:
        """Writes a message to the default logger's text outputs."""
        self.default_logger.log(*args, level=level)

    def set_level(self, level: int) -> None:
        """Sets the lowest level of messages that are written."""
        self.default_logger.set_level(level)

    def close(self) -> None:
        """Closes all files."""
        self.default_logger.close()
        for raw in self._raw_loggers.values():
            raw.close()


class WandbOutputFormat(sb_logger.KVWriter):
    """Logs values to Weights & Biases; call `wandb.init()` first.

    Raises:
        ModuleNotFoundError: The package `wandb` is not installed.
    """

    def __init__(self) -> None:
        try:
            import wandb
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "logging to Weights & Biases needs its package: pip install wandb"
            ) from error
        self._wandb = wandb

    def write(
        self,
        key_values: dict[str, Any],
        key_excluded: Mapping[str, tuple[str, ...]],
        step: int = 0,
    ) -> None:
        """Logs all values that do not exclude `wandb`."""
        for key, value in sorted(key_values.items()):
            if "wandb" not in (key_excluded.get(key) or ()):
                self._wandb.log({key: value}, step=step)
        self._wandb.log({}, step=step, commit=True)

    def close(self) -> None:
        """Finishes the run."""
        self._wandb.finish()


def configure(
    folder: AnyPath | None = None, format_strs: Sequence[str] | None = None
) -> HierarchicalLogger:
    """Creates a `HierarchicalLogger`.

    Args:
        folder: Folder for files; `None` for a new temporary one.
        format_strs: Outputs, see `make_output_format`; `stdout`, `log` and `csv` by default.

    Returns:
        The logger.
    """
    if folder is None:
        stamp = datetime.datetime.now().strftime("imitbench-%Y-%m-%d-%H-%M-%S-")
        path = Path(tempfile.mkdtemp(prefix=stamp))
    else:
        path = parse_path(folder)
    formats = DEFAULT_FORMATS if format_strs is None else format_strs
    default = sb_logger.Logger(str(path), _make_output_formats(path, formats))
    return HierarchicalLogger(default, formats)
