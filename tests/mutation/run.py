"""Plants faults in a copy of the project, one at a time, and reports which tests detect them.

This tests the test suite, and is started manually: `python tests/mutation/run.py`. `faults.yaml`
lists the faults; `table.md` has the results of the latest run of all faults.

Each copy has a separate interpreter that imports `imitbench` from the copy, so that processes
started by tests have the fault as well, for any PYTHONPATH. In the working tree, only the table is
changed.

Exit codes: 0 every fault was caught; 1 a fault survived; 2 bad input, or tests that fail without a
fault.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import importlib.util
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FAULTS_FILE = HERE / "faults.yaml"
TABLE_FILE = HERE / "table.md"

_LIMIT_S = 300.0
"""Seconds after which a test run is considered to hang."""
_SHOWN = 3
"""Maximum number of failing tests to list in the table."""
# Folders of a checkout that are inside the package of an installation.
_LINKS = {
    "imitbench/cards/algorithms": "../../algorithms",
    "imitbench/cards/suites": "../../suites",
    "imitbench/published/bundled": "../../results",
}
_WHERE = """
import imitbench, imitbench.cards.algorithms, imitbench.cards.suites, imitbench.published.bundled
folders = imitbench.cards.algorithms, imitbench.cards.suites, imitbench.published.bundled
print(imitbench.__file__, *(path for folder in folders for path in folder.__path__), sep="\\n")
"""


class BadInputError(Exception):
    """The request cannot be carried out; the message has the reason."""


class Fault(BaseModel):
    """A fault to plant.

    Attributes:
        id: Short name.
        kind: Kind of mistake, such as `wrong sign`.
        file: File with the fault, relative to the root.
        old: Text that occurs exactly once in the file.
        new: Replacement of this text.
        breaks: Consequence of the fault, in one line.
        tests: Files, folders or single tests that can detect it, as few as possible.
        slow: Whether tests marked `slow` are needed.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    kind: str = Field(min_length=1)
    file: str
    old: str = Field(min_length=1)
    new: str
    breaks: str = Field(min_length=1)
    tests: list[str] = Field(min_length=1)
    slow: bool = False

    @property
    def package(self) -> str:
        """Package of the file."""
        first, _, rest = self.file.partition("/")
        return rest.partition("/")[0].removesuffix(".py") if first == "imitbench" else first


@dataclass(frozen=True)
class Outcome:
    """Result of a test run.

    Attributes:
        failed: Failed tests, in order.
        seconds: Duration of the test run.
    """

    failed: tuple[str, ...]
    seconds: float


def read_faults(path: Path, only: Sequence[str]) -> list[Fault]:
    """Reads the list of faults.

    Args:
        path: `faults.yaml`.
        only: Ids of the faults to return; empty for all.

    Raises:
        BadInputError: The list is malformed, an id is duplicated or unknown, a text does not
            occur exactly once, or a test does not exist.
    """
    try:
        faults = TypeAdapter(list[Fault]).validate_python(yaml.safe_load(path.read_text()))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadInputError(f"{path}: {where}: {first['msg']}") from error
    except (OSError, yaml.YAMLError) as error:
        raise BadInputError(f"{path}: {' '.join(str(error).split())[:300]}") from error
    counts = Counter(fault.id for fault in faults)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise BadInputError(f"{path}: {twice[0]}: two faults have this id; rename one")
    unknown = [name for name in only if name not in counts]
    if unknown:
        raise BadInputError(f"--only {unknown[0]}: no such fault in {path.name}")
    chosen = [fault for fault in faults if not only or fault.id in only]
    problems = [problem for fault in chosen if (problem := _problem(fault))]
    if problems:
        raise BadInputError("\n".join(problems))
    return chosen


def _problem(fault: Fault) -> str | None:
    path = ROOT / fault.file
    if not path.is_file():
        return f"{fault.id}: {fault.file}: no such file; name the file that has the code now"
    count = path.read_text(encoding="utf-8").count(fault.old)
    if count != 1:
        return (
            f"{fault.id}: {fault.file} contains the old text {count} times, not once; "
            "update it to the present code"
        )
    for test in fault.tests:
        if not (ROOT / test.partition("::")[0]).exists():
            return f"{fault.id}: {test}: no such test; name tests that can detect the fault"
    return None


class Copy:
    """A copy of the project with an interpreter that imports it.

    Args:
        place: Folder for the copy.

    Raises:
        BadInputError: The project is not a git checkout, or the interpreter imports another
            package.
    """

    def __init__(self, place: Path) -> None:
        self.root = place / "project"
        self._scratch = place
        self._runs = 0
        for name in _tracked():
            target = self.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
        for name, points_to in _LINKS.items():
            (self.root / name).symlink_to(points_to)
        self._python = _make_interpreter(place / "python", self.root)
        self._check_imports()

    def _check_imports(self) -> None:
        found = subprocess.run(
            [self._python, "-c", _WHERE],
            cwd=self._scratch,
            env=_environment(),
            capture_output=True,
            text=True,
        )
        expected = [str(self.root / name) for name in ("imitbench/__init__.py", *_LINKS)]
        if found.stdout.splitlines() != expected:
            said = " ".join((found.stdout + found.stderr).split())
            raise BadInputError(f"{self._python}: does not import the copy ({said[-300:]})")

    @contextlib.contextmanager
    def planted(self, fault: Fault) -> Iterator[None]:
        """Plants a fault in the copy within the context."""
        path = self.root / fault.file
        right = path.read_text(encoding="utf-8")
        try:
            self._write(path, right.replace(fault.old, fault.new))
            yield
        finally:
            self._write(path, right)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        # Python's cache does not detect a change of equal size within a second.
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            cached.unlink()

    def test(
        self, tests: Sequence[str], *, slow: bool, until_first: bool, limit_s: float, jobs: int = 1
    ) -> Outcome:
        """Runs tests in the copy.

        Args:
            tests: Files, folders or single tests.
            slow: Whether to run tests marked `slow`, too.
            until_first: Whether to stop at the first failed test.
            limit_s: Time limit in seconds.
            jobs: Number of processes.

        Raises:
            BadInputError: There is no test to run, or pytest fails.
        """
        self._runs += 1
        report = self._scratch / f"report-{self._runs}.xml"
        command = [str(self._python), "-m", "pytest", *tests, "-q", "--tb=line"]
        command += ["-p", "no:cacheprovider", f"--basetemp={self._scratch / 't'}"]
        command += ["-o", "junit_family=xunit1", f"--junitxml={report}"]
        command += ["-x"] * until_first
        command += ["-m", "not slurm and not browser"] if slow else []
        command += ["-n", str(jobs)] if jobs > 1 else []
        started = time.monotonic()
        code, said = _run(command, self.root, limit_s)
        seconds = time.monotonic() - started
        if code is None:
            return Outcome((f"no end after {limit_s:.0f} s",), seconds)
        failed = tuple(_failed(report)) if report.exists() else ()
        if code == 0 or (code in (1, 2) and failed):
            return Outcome(failed, seconds)
        lines = [line for line in said.splitlines() if line.strip()] or [f"exit code {code}"]
        why = next((line for line in lines if line.startswith("ERROR")), lines[-1])
        raise BadInputError(f"pytest cannot run the tests of {FAULTS_FILE.name}: {why}")


def _tracked() -> list[str]:
    """Lists the files of the checkout: tracked by git, or new and not ignored."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise BadInputError(f"{ROOT}: is not a git checkout ({done.stderr.strip()})")
    return [name for name in done.stdout.split("\0") if name and os.path.lexists(ROOT / name)]


def _make_interpreter(folder: Path, root: Path) -> Path:
    """Creates an interpreter that imports from `root` first, then this one's packages.

    The .pth files of this interpreter's packages, including the one that maps `imitbench` to the
    working tree, are not read.
    """
    venv.EnvBuilder(symlinks=True).create(folder)
    installed = [entry for entry in sys.path if Path(entry).name.endswith("-packages")]
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "copy.pth").write_text("\n".join([str(root), *installed]) + "\n")
    return folder / "bin" / "python"


def _environment() -> dict[str, str]:
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # The folder of tests/conftest.py, relative to the working tree.
    return {"IMITBENCH_SHARED": str(ROOT.parent / "shared"), **given}


def _run(command: Sequence[str], folder: Path, limit_s: float) -> tuple[int | None, str]:
    """Runs a command in a new session; the exit code is `None` after the time limit."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, ""
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, said


def _failed(report: Path) -> Iterator[str]:
    """Yields the names of failed tests in a JUnit file."""
    for case in ET.parse(report).iter("testcase"):
        if case.find("failure") is None and case.find("error") is None:
            continue
        file, name = case.get("file"), case.get("name", "")
        if file is None:  # a file that could not be imported
            yield name
            continue
        # For tests of a class, its name follows that of the module.
        inner = case.get("classname", "").removeprefix(file.removesuffix(".py").replace("/", "."))
        yield "::".join([file, *filter(None, inner.split(".")), name])


def make_table(found: Sequence[tuple[Fault, Outcome]], heading: Sequence[str]) -> str:
    """Returns the table as Markdown.

    Args:
        found: Faults with their outcomes.
        heading: Lines above the table.
    """
    lines = [
        *heading,
        "",
        "| Fault | Kind | Package | What it breaks | Caught by | Seconds |",
        "| --- | --- | --- | --- | --- | ---: |",
    ]
    for fault, outcome in found:
        caught = [f"`{_escape(name.removeprefix('tests/'))}`" for name in outcome.failed[:_SHOWN]]
        more = len(outcome.failed) - _SHOWN
        told = "<br>".join([*caught, *([f"and {more} more"] if more > 0 else [])])
        words = (fault.id, fault.kind, fault.package, _escape(fault.breaks))
        lines.append(f"| {' | '.join(words)} | {told or '**survives**'} | {outcome.seconds:.0f} |")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def _heading(arguments: argparse.Namespace, found: Sequence[tuple[Fault, Outcome]]) -> list[str]:
    kinds = len({fault.kind for fault, _ in found})
    caught = sum(bool(outcome.failed) for _, outcome in found)
    command = shlex.join(["python", "tests/mutation/run.py", *arguments.given])
    return [
        "# Planted faults, and the tests that catch them",
        "",
        f"{len(found)} faults of {kinds} kinds, {caught} caught. Made at commit {_commit()} by "
        f"`{command}`.",
    ]


def _commit() -> str:
    def git(*command: str) -> str:
        return subprocess.run(
            ["git", *command], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    # Except for the table, which a run changes.
    changed = git("status", "--porcelain", "--", ".", f":!{TABLE_FILE.relative_to(ROOT)}")
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def check_pristine(copy: Copy, faults: Sequence[Fault], jobs: int) -> None:
    """Checks that the tests pass without a fault.

    Raises:
        BadInputError: A test fails.
    """
    for slow in (False, True):
        tests = list(dict.fromkeys(t for f in faults if f.slow == slow for t in f.tests))
        if not tests:
            continue
        limit_s = _LIMIT_S * len(tests)
        outcome = copy.test(tests, slow=slow, until_first=False, limit_s=limit_s, jobs=jobs)
        if outcome.failed:
            raise BadInputError(
                f"{outcome.failed[0]} fails without any fault ({len(outcome.failed)} tests do); "
                "fix the tests first"
            )
        _tell(f"{len(tests)} test files pass without a fault ({outcome.seconds:.0f} s)")


def find_catchers(
    copies: Sequence[Copy], faults: Sequence[Fault], *, until_first: bool
) -> list[tuple[Fault, Outcome]]:
    """Plants the faults one by one, each in a free copy.

    Args:
        copies: Copies of the project, as many as faults are tried at a time.
        faults: Faults to plant.
        until_first: Whether to stop at the first failed test.
    """
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def attempt(fault: Fault) -> Outcome:
        copy = free.get()
        try:
            with copy.planted(fault):
                outcome = copy.test(
                    fault.tests, slow=fault.slow, until_first=until_first, limit_s=_LIMIT_S
                )
        finally:
            free.put(copy)
        said = outcome.failed[0] if outcome.failed else "SURVIVES"
        _tell(f"{fault.id}: {said} ({outcome.seconds:.1f} s)")
        return outcome

    with concurrent.futures.ThreadPoolExecutor(len(copies)) as pool:
        try:
            return list(zip(faults, pool.map(attempt, faults), strict=True))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parse(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="ID", help="only these faults; prints the table"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="faults at a time [1]")
    parser.add_argument(
        "--all", action="store_true", help="run every test, not only up to the first that fails"
    )
    arguments = parser.parse_args(given)
    if arguments.jobs < 1:
        parser.error("--jobs must be at least 1")
    arguments.given = list(given)
    return arguments


def main(given: Sequence[str]) -> int:
    """Entry point; see the top of this file.

    Args:
        given: Command-line arguments.
    """
    arguments = _parse(given)
    try:
        if arguments.jobs > 1 and importlib.util.find_spec("xdist") is None:
            raise BadInputError("--jobs: needs pytest-xdist; pip install pytest-xdist")
        faults = read_faults(FAULTS_FILE, arguments.only)
        with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as scratch:
            copies = [Copy(Path(scratch, str(n))) for n in range(min(arguments.jobs, len(faults)))]
            check_pristine(copies[0], faults, arguments.jobs)
            found = find_catchers(copies, faults, until_first=not arguments.all)
    except BadInputError as error:
        _tell(f"error: {error}")
        return 2
    table = make_table(found, _heading(arguments, found))
    if arguments.only:
        print(table, end="")
    else:
        draft = TABLE_FILE.with_suffix(".tmp")
        draft.write_text(re.sub(r"[ \t]+$", "", table, flags=re.MULTILINE), encoding="utf-8")
        draft.replace(TABLE_FILE)
    survivors = [fault.id for fault, outcome in found if not outcome.failed]
    _tell(f"{len(found) - len(survivors)} of {len(found)} faults caught")
    if survivors:
        _tell(f"not caught: {', '.join(survivors)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
