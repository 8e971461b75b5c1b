"""Writes a page for each method: what it is, what it needs, where it stands, how to repeat it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from imitbench.cards.algorithm import AlgorithmCard, Paper
from imitbench.records.bundled_cards import bundled_algorithm
from imitbench.records.runs import RunSpec
from imitbench.report import html_tables, text
from imitbench.report.html_markup import Markup, code_block, fact, join, tag
from imitbench.report.html_tables import Column, TableCell
from imitbench.report.leaderboard import model, page
from imitbench.report.leaderboard.model import Board, BoardRow, OnBoard
from imitbench.report.leaderboard.page import block, interval, place_text, row_name


def render_method(board: Board, name: str, shown: Sequence[OnBoard]) -> str:
    """Writes the page of a method.

    Args:
        board: The whole leaderboard.
        name: Name of the method in its runs, with its variant.
        shown: Its rows on the board, at least one.

    Returns:
        Self-contained HTML, which links to other pages of the site.
    """
    row = shown[0].row
    specs = [spec for each in shown for spec in each.row.specs]
    card = card_of(specs)
    main = [
        block("about", "What it is", *_about(card)),
        block("standing", "Results", _table(shown)),
    ]
    if card is not None and card.paper is not None:
        cite = code_block(bibtex(card.paper).splitlines(), "BibTeX of the paper")
        main.insert(1, block("cite", "Cite", cite))
    main.append(block("commands", "Repeat it", _commands(shown)))
    if card is not None and card.hyperparameters:
        main.append(block("hyperparameters", "Hyper-parameters of the card", _parameters(card)))
    failed = sum(len(each.row.failures) for each in shown)
    facts = [
        fact(sum(len(each.row.runs) for each in shown), "completed run"),
        fact(failed, "failed run", bad=bool(failed)),
    ]
    return page.render(board, model.method_page(name), row_name(row), main, facts=facts, title=name)


def card_of(specs: Sequence[RunSpec]) -> AlgorithmCard | None:
    """Returns the card that ships with this package, if the runs used its implementation."""
    if not specs or specs[0].implementation_digest is not None:
        return None
    card = bundled_algorithm(specs[0].algo)
    return card if card is not None and card.implementation == specs[0].implementation else None


def _about(card: AlgorithmCard | None) -> list[Markup]:
    if card is None:
        return [tag("p", "This method does not ship with imitbench; its submitters can tell more.")]
    needs = card.needs
    wanted = [
        (needs.demos, "demonstrations"),
        (needs.expert, "an expert that answers queries"),
        (needs.true_reward, "the environment's own reward"),
        (needs.tabular, "the model of a tabular environment"),
        (needs.fixed_horizon, "episodes of equal length"),
    ]
    entries = [
        ("Needs", ", ".join(name for holds, name in wanted if holds) or "nothing"),
        ("Action spaces", ", ".join(needs.action_spaces)),
        ("Budget counts", card.budget_unit.replace("_", " ")),
        ("Tunable", f"{len(card.search_space)} of {len(card.hyperparameters)} hyper-parameters"),
        ("Implementation", card.implementation),
    ]
    parts = [tag("p", tag("strong", card.title), ": ", card.summary)]
    if card.paper is not None:
        paper = card.paper
        link = tag("a", paper.title, href=paper.url, rel="noreferrer")
        parts.append(tag("p", link, f" ({paper.authors}, {paper.year})"))
    pairs = [each for name, value in entries for each in (tag("dt", name), tag("dd", value))]
    return [*parts, tag("dl", *pairs)]


def bibtex(paper: Paper) -> str:
    """Returns a BibTeX entry for a paper."""
    first = paper.authors.split(",")[0].split()[-1] if paper.authors.split() else "unknown"
    word = next((w for w in re.findall(r"[A-Za-z]+", paper.title) if len(w) > 3), "paper")
    key = re.sub(r"[^a-z0-9]", "", f"{first}{paper.year}{word}".lower())
    authors = " and ".join(part.strip() for part in paper.authors.split(","))
    fields = {"title": f"{{{paper.title}}}", "author": authors, "year": str(paper.year),
              "url": paper.url}  # fmt: skip
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@misc{{{key},", *lines, "}"])


def _table(shown: Sequence[OnBoard]) -> Markup:
    columns = [
        Column("Suite"),
        Column("Conditions"),
        Column("Submitted by"),
        Column("Rank", number=True),
        Column("IQM score", number=True),
        Column("Environments", number=True),
        Column("Seeds", number=True),
        Column("Failed runs", number=True),
    ]
    rows = []
    for each in shown:
        row, section = each.row, each.part.section
        up = "../"
        conditions = section.title.removeprefix(section.suite).removeprefix(": ") or "none"
        table = f"{up}{model.suite_page(section.suite)}#{model.row_id(each.part, row)}"
        score: str = interval(row.result.iqm, row)
        if row.page is not None:
            score = tag("a", score, href=f"{up}{row.page}#{row.anchor}")
        iqm = row.result.iqm
        rows.append(
            [
                TableCell(section.suite),
                TableCell(tag("a", conditions, href=table), conditions),
                TableCell(model.submitter_text(row)),
                TableCell(_rank(row, each), None if row.place is None else float(row.place)),
                TableCell(score, html_tables.finite(iqm.point) if iqm else None),
                TableCell(text.coverage(row.result), float(len(row.result.covered))),
                TableCell(model.seeds(row), float(row.result.seeds[0])),
                TableCell(str(row.result.failures), float(row.result.failures)),
            ]
        )
    caption = "One row per table of the board; the score links to the runs behind it."
    return html_tables.table(
        columns, rows, label="Results", caption=caption, classes="cards", names=2
    )


def _rank(row: BoardRow, each: OnBoard) -> str:
    places = [other.place for other in each.part.rows]
    return place_text(row.place, tied=places.count(row.place) > 1)


def _commands(shown: Sequence[OnBoard]) -> Markup:
    lines = dict.fromkeys(
        command(each.part.section.suite, spec) for each in shown for spec in each.row.specs
    )
    said = "With all seeds of the table, e.g. --seeds 10; plug-ins and own experts come first."
    return join(tag("p", said), code_block(lines, "Commands"))


def command(suite: str, spec: RunSpec) -> str:
    """Returns a command that makes runs like a specification, apart from changed budgets."""
    parts = ["imitbench", "run", "--algo", spec.algo, "--suite", suite]
    if spec.budget.name:
        parts += ["--budget", spec.budget.name]
    if spec.demos is not None and spec.demos.count < spec.demos.available:
        parts += ["--n-demos", str(spec.demos.count)]
    if spec.source not in (None, "bundled"):
        parts += ["--source", str(spec.source)]
    card = card_of([spec])
    if card is not None and spec.variant:
        usual = card.resolve({})
        for name, value in card.completed(spec.hyperparameters).items():
            if name in usual and usual[name] != value:
                parts += ["--set", f"{name}={'null' if value is None else value}"]
    return " ".join(shlex.quote(text.one_line(part)) for part in parts)


def _parameters(card: AlgorithmCard) -> Markup:
    columns = [Column("Name"), Column("Default"), Column("Search"), Column("Meaning")]
    rows = [
        [
            TableCell(tag("code", name), name),
            TableCell(str(each.default)),
            TableCell(str(each.search) if each.search else "-"),
            TableCell(each.help),
        ]
        for name, each in card.hyperparameters.items()
    ]
    caption = "Values of today's card; those of each run are on the pages of its results."
    return html_tables.table(
        columns, rows, label="Hyper-parameters", caption=caption, classes="cards"
    )
