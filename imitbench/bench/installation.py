"""Checks of the installation and of this machine."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from imitbench.bench import artifacts
from imitbench.bench.environments import make_environment
from imitbench.bench.provenance import cpu_model, package_versions
from imitbench.bench.sweep import check_writable
from imitbench.cards.catalog import algorithm_names, load_algorithm, load_suite, suite_names
from imitbench.errors import InputError
from imitbench.executors.devices import explain_cuda, find_cuda, usable_cores
from imitbench.records.runs import EnvironmentSpec
from imitbench.util.extras import check_extra, extra_of_environment

_LEAST_FREE_BYTES = 1_000_000_000


@dataclass(frozen=True)
class InstallationCheck:
    """Result of one check.

    Attributes:
        what: Name of what was checked, for example `packages`.
        ok: Whether the check passed.
        detail: What was found; for a problem, also how to fix it.
    """

    what: str
    ok: bool
    detail: str


def check_installation(out: Path) -> list[InstallationCheck]:
    """Checks packages, cards, environments, bundled files, the device and the results folder.

    Args:
        out: Results folder that would be used.
    """
    checks: list[tuple[str, Callable[[], str]]] = [
        ("machine", _machine),
        ("packages", lambda: ", ".join(f"{n} {v}" for n, v in package_versions().items())),
        ("device", _device),
        ("results folder", lambda: _results_folder(out)),
        ("algorithms", lambda: ", ".join(load_algorithm(n).name for n in algorithm_names())),
        *((f"suite {name}", partial(_suite, name)) for name in suite_names()),
    ]
    return [_check(what, check) for what, check in checks]


def _check(what: str, check: Callable[[], str]) -> InstallationCheck:
    try:
        return InstallationCheck(what, True, check())
    except Exception as error:  # any error is a finding to report
        return InstallationCheck(what, False, str(error).splitlines()[0])


def _machine() -> str:
    return f"Python {platform.python_version()}, {usable_cores()} cores, {cpu_model()}"


def _device() -> str:
    ok, line = explain_cuda(find_cuda())
    if not ok:
        raise OSError(line)
    return line


def _results_folder(out: Path) -> str:
    created = [folder for folder in (out, *out.parents) if not folder.exists()]
    check_writable(out)
    free = shutil.disk_usage(out).free
    for folder in created:
        # Another process may have begun to use it.
        with suppress(OSError):
            folder.rmdir()
    if free < _LEAST_FREE_BYTES:
        raise OSError(f"{out}: only {free / 1e6:.0f} MB free; free some space or choose --out")
    return f"{out.resolve()}: writable, {free / 1e9:.0f} GB free"


def _suite(name: str) -> str:
    suite = load_suite(name)
    for env_id, card in suite.environments.items():
        extra = extra_of_environment(card.variant_of or env_id, card.module)
        try:
            if extra is not None:
                check_extra(extra, f"environment {env_id}")
        except InputError as error:
            return f"optional: {error}"
    root = artifacts.source_root("bundled", suite.origin.folder)
    bundled = False
    for env_id, card in suite.environments.items():
        make_environment(EnvironmentSpec.of_card(env_id, card)).close()
        if card.expert is not None:
            artifacts.pin_expert(artifacts.locate_artifact(root, "experts", "bundled", card, name))
        demos = artifacts.locate_artifact(root, "demos", "bundled", card, name)
        if card.minari is None or demos.folder.is_dir():
            artifacts.pin_demos(demos, card.demos.trajectories, None)
            bundled = True
    number = len(suite.environments)
    environments = f"{number} environment{'s' * (number != 1)}"
    if not bundled:
        fetch = f"imitbench prefetch --suite {name} --source minari"
        return f"{environments}; nothing is bundled: `{fetch}` fetches sets of Minari"
    return f"{environments}, bundled experts and demonstrations present"
