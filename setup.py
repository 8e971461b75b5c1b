"""Writes the commit into what is built, and packs results; everything else is in pyproject.toml."""

import json
import runpy
import shutil
import tarfile
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


def pack_results(bundled: Path) -> None:
    """Packs the files that each manifest of published results lists, thousands of small ones.

    They then take half as much of a wheel. `imitbench.published.submission` reads both forms.
    """
    for manifest in bundled.glob("*/manifest.json"):
        folder = manifest.parent
        names = sorted(json.loads(manifest.read_text(encoding="utf-8"))["files"])
        with tarfile.open(folder / "files.tar.xz", "w:xz", preset=9) as archive:
            for name in names:
                member = tarfile.TarInfo(name)  # without times and owners
                member.size = (folder / name).stat().st_size
                with (folder / name).open("rb") as stream:
                    archive.addfile(member, stream)
        for name in {name.split("/")[0] for name in names}:
            shutil.rmtree(folder / name)


class BuildPackage(build_py):
    """Builds the package, with its commit and packed results."""

    def run(self) -> None:
        """Changes the copied files."""
        super().run()
        if not self.editable_mode:
            package = Path(self.build_lib) / "imitbench"
            write_commit(package)
            pack_results(package / "published" / "bundled")


class SourcesWithCommit(sdist):
    """Packs the sources, with their commit: the archive has no history."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Adds the commit to the copied files."""
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir) / "imitbench")


setup(cmdclass={"build_py": BuildPackage, "sdist": SourcesWithCommit})
