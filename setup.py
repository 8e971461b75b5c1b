"""Writes the commit into what is built; everything else is in pyproject.toml."""

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
VERSION = runpy.run_path(str(ROOT / "imitbench" / "version.py"))


def write_commit(package: Path) -> None:
    """Writes the commit that the package is from into a built package, if it is known."""
    commit = VERSION["commit"]()
    if commit is not None:
        package.mkdir(parents=True, exist_ok=True)
        (package / VERSION["COMMIT_FILE"]).write_text(commit + "\n")


class BuildWithCommit(build_py):
    """Builds the package, with its commit."""

    def run(self) -> None:
        """Adds the commit to the copied files."""
        super().run()
        if not self.editable_mode:
            write_commit(Path(self.build_lib) / "imitbench")


class SourcesWithCommit(sdist):
    """Packs the sources, with their commit: the archive has no history."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Adds the commit to the copied files."""
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir) / "imitbench")


setup(cmdclass={"build_py": BuildWithCommit, "sdist": SourcesWithCommit})
