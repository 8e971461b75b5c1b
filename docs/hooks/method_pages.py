"""What the pages of methods show of cards and of published results, in place of comments.

A page in `docs/methods/` has comments of the form `<!-- KIND: NAME, NAME -->`, with names of
algorithms: `card` for what a method needs, `results` for its rows in `docs/results_tables.md`, and
`hyperparameters` for its defaults and tuned values. `<!-- methods -->` lists all methods. The
home page has `<!-- names of methods -->`, a sentence with their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from markdown.extensions.toc import slugify

from imitbench.cards.algorithm import AlgorithmCard
from imitbench.cards.catalog import algorithm_directory, algorithm_names, load_algorithm
from imitbench.cards.tuned import TUNED_FILE, read_tuned

ROLES = {
    "method": "",
    "reference": "A reference: it trains on the true reward and shows what methods could reach.",
    "control": "A control: it uses no demonstrations, and shows what an environment gives away.",
    "anchor": "A reference policy: it defines the score 0 or 1.",
}
TABLES = "results_tables.md"

_PLACE = re.compile(r"^<!-- (card|results|hyperparameters): ([\w, ]+) -->$", re.MULTILINE)
_ALL = "<!-- methods -->"
_NAMES = "<!-- names of methods -->"
_NAME = re.compile(r"[a-z]\w*")


def fill_method_page(markdown: str, docs: Path) -> str:
    """Returns the text of a page in `docs/methods/` with its comments replaced.

    Args:
        markdown: Text of the page.
        docs: Folder of the documentation.
    """
    tables = (docs / TABLES).read_text(encoding="utf-8")
    parts: dict[str, Callable[[Sequence[str]], str]] = {
        "card": _cards,
        "results": lambda names: _results(names, tables),
        "hyperparameters": _hyperparameters,
    }

    def replacement(place: re.Match[str]) -> str:
        return parts[place[1]](place[2].split(", "))

    filled = _PLACE.sub(replacement, markdown)
    return filled.replace(_ALL, _methods(docs)) if _ALL in filled else filled


def fill_home_page(markdown: str, docs: Path) -> str:
    """Returns the text of the home page with the names of all methods.

    Args:
        markdown: Text of the page.
        docs: Folder of the documentation.
    """
    pages = pages_of_methods(docs)
    cards = [load_algorithm(name) for name in algorithm_names()]
    methods = [card for card in cards if card.role == "method"]
    links = [f"[{card.title}](methods/{pages[card.name]})" for card in methods]
    return markdown.replace(_NAMES, f"They are {', '.join(links)}.")


def pages_of_methods(docs: Path) -> dict[str, str]:
    """Returns the file in `docs/methods/` that describes each algorithm.

    Raises:
        ValueError: Two pages describe the same algorithm.
    """
    pages: dict[str, str] = {}
    for path in sorted((docs / "methods").glob("*.md")):
        for kind, names in _PLACE.findall(path.read_text(encoding="utf-8")):
            for name in names.split(", ") if kind == "card" else []:
                if name in pages:
                    raise ValueError(f"{name} has two pages: {pages[name]} and {path.name}")
                pages[name] = path.name
    return pages


def _methods(docs: Path) -> str:
    pages = pages_of_methods(docs)
    cards = [load_algorithm(name) for name in algorithm_names()]
    cards.sort(key=lambda card: list(ROLES).index(card.role))
    lines = ["| `--algo` | method | needs | action spaces |", "| --- | --- | --- | --- |"]
    for card in cards:
        about = f"**{card.title}.** {card.summary} {ROLES[card.role]}".strip()
        lines.append(
            f"| [`{card.name}`]({pages[card.name]}) | {_cell(about)} | {_needs(card)} "
            f"| {_spaces(card)} |"
        )
    return "\n".join(lines)


def _cards(names: Sequence[str]) -> str:
    if len(names) == 1:
        return _card(load_algorithm(names[0]))
    lines = ["| `--algo` | summary | needs | action spaces | paper |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for card in map(load_algorithm, names):
        about = [_cell(card.summary), _needs(card), _spaces(card), _paper(card)]
        lines.append(f"| `{card.name}` | {' | '.join(about)} |")
    return "\n".join(lines)


def _card(card: AlgorithmCard) -> str:
    lines = [f"{card.summary} {ROLES[card.role]}".strip(), ""]
    if card.paper is not None:
        lines += [f"{_paper(card)}. {card.paper.authors}, {card.paper.year}.", ""]
    return "\n".join(
        [
            *lines,
            f"- Name: `--algo {card.name}`",
            f"- Needs: {_needs(card)}",
            f"- Action spaces: {_spaces(card)}",
            f"- Budget unit: {card.budget_unit}",
            f"- Learner: `{card.implementation}`",
        ]
    )


def _results(names: Sequence[str], tables: str) -> str:
    """The rows of some algorithms in the first table of each section of the tables."""
    head, ruler, found = "", "", []
    for section in re.split(r"^## ", tables, flags=re.MULTILINE)[1:]:
        title, _, rest = section.partition("\n")
        link = f"[{title}](../{TABLES}#{slugify(title, '-')})"
        head_row, _, *rows = _first_table(rest)
        head = "| conditions |" + "|".join(head_row[2:])
        ruler = "| --- " * 3 + "| ---: " * (head.count("|") - 4) + "|"
        for row in rows:
            name = _NAME.match(row[2].strip())
            if name and name[0] in names:
                found.append(f"| {link} |" + "|".join(row[2:]))
    if not found:
        return "No runs of it are published in `results/`."
    note = "Intervals are 95% bootstrap intervals; the conditions link to the whole tables."
    return "\n".join([head, ruler, *found, "", note])


def _first_table(text: str) -> list[list[str]]:
    """The cells of the first table of a text: `row[1]` is the first of a row."""
    table = re.search(r"^(?:\|.*\n)+", text, re.MULTILINE)
    assert table is not None, text
    return [line.split("|") for line in table[0].splitlines()]


def _hyperparameters(names: Sequence[str]) -> str:
    blocks = []
    for card in map(load_algorithm, names):
        if len(names) > 1:
            blocks.append(f"**`{card.name}`**")
        blocks.append(_defaults(card))
        if tuned := _tuned(card.name):
            blocks.append(tuned)
    return "\n\n".join(blocks)


def _defaults(card: AlgorithmCard) -> str:
    if not card.hyperparameters:
        return "No hyper-parameters."
    lines = ["| hyper-parameter | type | default | accepted | meaning |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for name, value in card.hyperparameters.items():
        bounds = [f"at least {value.min:g}"] if value.min is not None else []
        bounds += [f"at most {value.max:g}"] if value.max is not None else []
        accepted = ", ".join(value.choices or bounds)
        kind = f"{value.type} or null" if value.optional else value.type
        lines.append(
            f"| `{name}` | {kind} | `{value.default}` | {accepted} | {_cell(value.help)} |"
        )
    return "\n".join(lines)


def _tuned(name: str) -> str:
    """A table of an algorithm's tuned values; empty if it has none."""
    path = algorithm_directory(name) / TUNED_FILE
    if not path.is_file():
        return ""
    lines = ["With `--config tuned`:", "", "| environment | values |", "| --- | --- |"]
    for env, tuned in read_tuned(path).environments.items():
        values = ", ".join(f"`{key}={value}`" for key, value in tuned.values.items())
        lines.append(f"| `{env}` | {values or 'the defaults: nothing better was found'} |")
    return "\n".join(lines)


def _paper(card: AlgorithmCard) -> str:
    return "" if card.paper is None else f"[{_cell(card.paper.title)}]({card.paper.url})"


def _spaces(card: AlgorithmCard) -> str:
    return ", ".join(card.needs.action_spaces).replace("_", " ")


def _needs(card: AlgorithmCard) -> str:
    needs = {
        "demonstrations": card.needs.demos and card.needs.actions,
        "demonstrations without actions": card.needs.demos and not card.needs.actions,
        "the expert itself": card.needs.expert,
        "the true reward": card.needs.true_reward,
        "a tabular environment": card.needs.tabular,
        "episodes of one length": card.needs.fixed_horizon,
    }
    return ", ".join(name for name, needed in needs.items() if needed) or "nothing"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
