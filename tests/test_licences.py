"""All dependencies of this package, which is under MIT, have permissive licenses."""

import re
from importlib import metadata
from pathlib import Path

import pytest

PERMISSIVE = re.compile(
    r"\b(mit|bsd|apache|isc|psf|python software foundation|python-2\.0|mpl|mozilla public|zlib|"
    r"unlicense|hpnd|historical permission|0bsd|cnri|boost)\b",
    re.IGNORECASE,
)
"""MPL applies only to changes of its own files, which users do not make."""
COPYLEFT = re.compile(
    r"\b(a|l)?gpl|general public licen[sc]e|cc-by-(nc|sa)|sspl|busl", re.IGNORECASE
)

APART = re.compile(r"^(nvidia|cuda|triton)")
"""CUDA ships with some builds of torch, under terms that the user of such a build accepts."""


def dependencies_of(name, found=None):
    """Returns the names of all packages that a package needs on this machine, without extras."""
    found = set() if found is None else found
    for requirement in metadata.requires(name) or []:
        other = re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")
        if "extra ==" in requirement or other in found or APART.match(other):
            continue
        try:
            metadata.distribution(other)
        except metadata.PackageNotFoundError:  # for another platform or an older Python
            continue
        found.add(other)
        dependencies_of(other, found)
    return found


def runtime_dependencies():
    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    [listed] = re.findall(r"^dependencies = \[\n(.*?)^\]", project.read_text(), re.M | re.S)
    direct = {
        re.match(r'\s*"([\w.-]+)', line)[1].lower().replace("_", "-")
        for line in listed.splitlines()
    }
    return sorted(direct.union(*(dependencies_of(name) for name in direct)))


def license_of(name):
    about = metadata.metadata(name)
    stated = [
        about.get("License-Expression") or "",
        (about.get("License") or "").partition("\n")[0],
    ]
    stated += [each for each in about.get_all("Classifier") or [] if each.startswith("License")]
    return " | ".join(filter(None, stated))


def is_acceptable(license):
    # With "A OR B" the user chooses; a license given as full text begins with its name.
    choices = re.split(r"\bor\b", license, flags=re.IGNORECASE)
    return any(PERMISSIVE.search(each) and not COPYLEFT.search(each) for each in choices)


@pytest.mark.parametrize("name", runtime_dependencies())
def test_the_licence_of_a_dependency_is_permissive(name):
    assert is_acceptable(license_of(name)), license_of(name) or "none is stated"


@pytest.mark.parametrize(
    ("license", "acceptable"),
    [
        ("MIT", True),
        ("GPL-3.0-or-later", False),
        ("GNU Lesser General Public License v3", False),
        ("GPL-2.0-only OR MIT", True),
        ("", False),
    ],
)
def test_permissive_and_copyleft_licences_are_distinguished(license, acceptable):
    assert is_acceptable(license) is acceptable
