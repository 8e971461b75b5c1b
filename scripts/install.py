"""Puts imitbench and what some step needs into a virtual environment.

    python3 scripts/install.py             # the package itself
    python3 scripts/install.py test docs   # and these extras of pyproject.toml

What is there already is not installed again, and what an interrupted call left is mended. Needs
nothing but Python; the versions are those of constraints.txt, for Python 3.11 or newer.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OLDEST = (3, 10)
# Several releases in constraints.txt do not support older versions of Python.
OLDEST_WITH_CONSTRAINTS = (3, 11)
RECORD = ".imitbench-installed.json"
TESTING = {"test", "browser", "dev"}
# Tests need it, but not its opencv-python, which fails on servers and takes the place of
# opencv-python-headless. Its other requirements are in the extra `test`.
WITHOUT_DEPENDENCIES = ("gym-pusht",)


class InstallError(Exception):
    """What stops the installation, in one line that names the fix."""


def main() -> int:
    """Installs; returns the exit code."""
    parser = argparse.ArgumentParser(description="Install imitbench into a virtual environment.")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="folder [.venv]")
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help="extras of pyproject.toml")
    arguments = parser.parse_args()
    try:
        install(arguments.venv, set(arguments.extras))
    except InstallError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def install(venv: Path, extras: set[str]) -> None:
    """Makes the environment where it is missing, and installs what it lacks.

    Raises:
        InstallError: Something that the user can mend stops it.
    """
    running = sys.version_info[:2]
    if running < OLDEST:
        raise InstallError(
            f"imitbench needs Python {_dotted(OLDEST)} or newer, and {sys.executable} is "
            f"{_dotted(running)}: name another, such as make quickstart PYTHON=python3.12"
        )
    known = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    for name in sorted(extras.difference(known)):  # pip would only warn
        raise InstallError(f"{name}: no such extra in pyproject.toml")
    installed, up_to_date = _read_record(venv)
    wanted = sorted(installed | extras)
    if up_to_date and extras <= installed:
        return
    try:
        _make_environment(venv)
        _remove_half_installed(venv)
        _run_pip(venv, wanted)
        _write_record(venv, wanted)
    except OSError as error:
        raise InstallError(
            f"{error.filename or venv}: cannot be written ({error.strerror})"
        ) from error


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _fingerprint() -> str:
    """Of all that the installed versions depend on."""
    texts = (ROOT / name for name in ("pyproject.toml", "constraints.txt"))
    digest = hashlib.sha256(str(ROOT).encode())
    for text in texts:
        digest.update(text.read_bytes())
    return digest.hexdigest()


def _read_record(venv: Path) -> tuple[set[str], bool]:
    """The extras that are installed, and whether they are as they would be today."""
    try:
        record = json.loads((venv / RECORD).read_text())
        return set(record["extras"]), record["fingerprint"] == _fingerprint()
    except (OSError, ValueError, KeyError, TypeError):
        return set(), False


def _write_record(venv: Path, extras: list[str]) -> None:
    fresh = venv / f"{RECORD}.new"
    fresh.write_text(json.dumps({"fingerprint": _fingerprint(), "extras": extras}) + "\n")
    fresh.replace(venv / RECORD)


def _python(venv: Path) -> Path:
    folder = "Scripts" if os.name == "nt" else "bin"
    return venv / folder / "python"


def _make_environment(venv: Path) -> None:
    """Makes the environment, anew if one is half made."""
    if venv.exists() and not venv.is_dir():
        raise InstallError(f"{venv}: is no folder; remove it, or name another: make VENV=…")
    if _usable(venv):
        return
    if venv.is_dir() and any(venv.iterdir()) and not (venv / "pyvenv.cfg").is_file():
        raise InstallError(
            f"{venv}: is no virtual environment; remove it, or name another: make VENV=…"
        )
    done = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(venv)], capture_output=True, text=True
    )
    if done.returncode:
        if not os.access(venv.parent, os.W_OK):
            raise InstallError(
                f"{venv.parent.resolve()}: is not writable; clone into a folder of your own"
            )
        told = _last_line(done.stdout + done.stderr)
        raise InstallError(
            f"{venv}: cannot be made ({told}); on Debian: apt-get install python3-venv"
        )


def _usable(venv: Path) -> bool:
    """Whether there is an environment whose pip runs, on a Python that is new enough."""
    check = f"import sys, pip; sys.exit(sys.version_info < {OLDEST})"
    try:
        return subprocess.run([_python(venv), "-c", check], capture_output=True).returncode == 0
    except OSError:
        return False


def _has_tested_versions(venv: Path) -> bool:
    """Whether the versions of constraints.txt can be installed in an environment."""
    check = f"import sys; sys.exit(sys.version_info < {OLDEST_WITH_CONSTRAINTS})"
    return subprocess.run([_python(venv), "-c", check]).returncode == 0


def _remove_half_installed(venv: Path) -> None:
    """Removes the papers of packages whose installation was cut off.

    Installers write the file INSTALLER last. Without it pip would take a package for complete.
    """
    for papers in venv.glob("lib*/**/site-packages/*.dist-info"):
        if not (papers / "INSTALLER").is_file():
            shutil.rmtree(papers)


def _run_pip(venv: Path, extras: list[str]) -> None:
    target = f".[{','.join(extras)}]" if extras else "."
    print(f"installing imitbench{target[1:]} into {venv}", file=sys.stderr)
    quiet = [] if sys.stdout.isatty() else ["--quiet"]
    # Python keeps what it compiles when it first imports a module, unless told not to; most of
    # what is installed never is imported.
    compiling = [] if sys.dont_write_bytecode else ["--no-compile"]
    command = [
        *(str(_python(venv)), "-m", "pip", "install", "--disable-pip-version-check"),
        *("--prefer-binary", *compiling, *quiet),
        *(["--constraint", "constraints.txt"] if _has_tested_versions(venv) else []),
    ]
    alone = [] if TESTING.isdisjoint(extras) else [["--no-deps", *WITHOUT_DEPENDENCIES]]
    for packages in (["--editable", target], *alone):
        done = subprocess.run([*command, *packages], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise InstallError(
                f"pip cannot install imitbench{target[1:]} ({_last_line(done.stderr)}); mend that "
                "and give the same command again: what was downloaded is kept"
            )


def _last_line(text: str) -> str:
    """The last thing that a program complained of."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error:")]
    return (errors or lines or ["it did not say why"])[-1]


if __name__ == "__main__":
    sys.exit(main())
