"""Programs and signatures in the reference texts, which are next to the repository."""

import ast
import re
from pathlib import Path

import pytest

_LONGEST_STATEMENT = 40  # lines
_PACKAGE = "imitation.algorithms.preference_comparisons."
_DEFINITION = re.compile(r"(class )?imitation\.([\w.]+)(?:\(.*\)|$)")
_METHOD = re.compile(r"(?:abstract |static |classmethod )*(\w+)\(.*\)(?:\[source\]#)?$")
_HEADINGS = ("Raises", "Parameters", "Return type", "Returns", "Yields")
_ERROR = re.compile(r"(\w+Error)(?: \W |preferences)")
_SIGNATURE = re.compile(r"^(?:(?:static|abstract|class) )*([\w.]+)\((.*)\)\[source\]#$")


def reference_text(shared_dir: Path, start: str) -> str:
    """Returns the text whose file name starts with `start`; skips the test if there is none."""
    found = sorted((shared_dir / "reference").glob(f"{start}*.txt"))
    if not found:
        pytest.skip(f"no file {start}*.txt in {shared_dir / 'reference'}")
    return found[0].read_text()


def section(text: str, first: str, last: str) -> str:
    """Returns the text between a line that starts with `first` and one that starts with `last`."""
    return text.split(f"\n{first}\n", 1)[1].split(f"\n{last}", 1)[0]


def program_in(text: str) -> str:
    """Returns the Python statements among prose and output, in order, for this package."""
    lines = text.splitlines()
    found, start = [], 0
    while start < len(lines):
        last = min(len(lines), start + _LONGEST_STATEMENT)
        ends = (end for end in range(start + 1, last + 1) if _is_statement(lines[start:end]))
        end = next(ends, None)
        if end is None:
            start += 1
            continue
        while end < len(lines) and (not lines[end] or lines[end][0].isspace()):
            end += 1  # a function ends where its lines are no longer indented
        found += lines[start:end]
        start = end
    return re.sub(r"\bimitation\b", "imitbench", "\n".join(found))


def _is_statement(lines: list[str]) -> bool:
    try:
        body = ast.parse("\n".join(lines)).body
    except SyntaxError:
        return False
    # A single word of prose is also a valid expression.
    return bool(body) and all(
        not isinstance(each, ast.Expr) or isinstance(each.value, ast.Call) for each in body
    )


def with_arguments(program: str, **values: object) -> str:
    """Returns the program with other values of numeric keyword arguments."""
    for name, value in values.items():
        program, changes = re.subn(rf"\b{name}=[\d_]+", f"{name}={value}", program)
        assert changes, f"no argument {name} in the example"
    return program


def signatures_in(text: str) -> list[tuple[str, list[str]]]:
    """Returns the functions, classes and methods in a text, with the names of their arguments."""
    found, owner = [], ""
    for line in text.splitlines():
        if line.startswith(f"class {_PACKAGE}"):
            [owner] = re.findall(r"\w+", line.removeprefix(f"class {_PACKAGE}"))[:1]
        match = _SIGNATURE.match(line)
        if match is None:
            continue
        name, arguments = match[1].removeprefix(_PACKAGE), match[2]
        if name == match[1]:
            name = f"{owner}.{name}"
        parsed = ast.parse(f"def f({arguments}): ...").body[0]
        assert isinstance(parsed, ast.FunctionDef)
        found.append((name, [each.arg for each in parsed.args.args]))
    return found


def documented_errors(text: str) -> set[tuple[str, str]]:
    """Returns each function of the package with each type of error under its heading `Raises`.

    Args:
        text: Documentation with each signature and each heading on a line of its own.

    Returns:
        Names without the package, such as `data.buffer.Buffer.store`, with names of exceptions.
    """
    found, owner, function, inside = set[tuple[str, str]](), "", "", False
    for line in map(str.strip, text.splitlines()):
        if match := _DEFINITION.match(line):
            function, inside = match[2], False
            owner = function if match[1] == "class " else owner
        elif match := _METHOD.match(line):
            function, inside = f"{owner}.{match[1]}", False
        elif line in _HEADINGS:
            inside = line == "Raises"
        elif inside and (match := _ERROR.match(line)):
            found.add((function, match[1]))
    return found
