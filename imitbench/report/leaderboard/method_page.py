"""Writes a page for each method: what it is, what it needs, where it stands, how to repeat it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from imitbench.cards.algorithm import AlgorithmCard, Paper
from imitbench.cards.tuned import load_tuned
from imitbench.records.bundled_cards import card_of
from imitbench.records.runs import RunSpec
from imitbench.report import html_tables, text
from imitbench.report.html_markup import Markup, block, code_block, fact, join, tag
from imitbench.report.html_tables import TableCell
from imitbench.report.leaderboard import model, page
from imitbench.report.leaderboard.head_to_head import compared_rows, head_link
from imitbench.report.leaderboard.model import (
    Board,
    BoardFailure,
    BoardRow,
    BoardSection,
    OnBoard,
)
from imitbench.report.leaderboard.page import row_name
from imitbench.report.leaderboard.suite_page import short_names
from imitbench.report.leaderboard.videos import Video, Videos


def render_method(
    board: Board, name: str, shown: Sequence[OnBoard], videos: Videos | None = None
) -> str:
    """Writes the page of a method.

    Args:
        board: The whole leaderboard.
        name: Name of the method in its runs, with its variant.
        shown: Its rows on the board, at least one.
        videos: Videos of the site.
    """
    row = shown[0].row
    specs = [spec for entry in shown for spec in entry.row.specs]
    card = card_of(specs[0]) if specs else None
    main = [block("about", "What it is", *_about(card, name))]
    if card is not None and card.paper is not None:
        cite = code_block(bibtex(card.paper).splitlines(), "BibTeX of the paper")
        main.append(block("cite", "Cite", cite))
    main.append(block("standing", "Results", _table(board, shown)))
    if failures := [failure for entry in shown for failure in entry.row.failures]:
        main.append(block("failures", "Failures", _failures(failures)))
    if limits := _limits(card, shown):
        main.append(block("limits", "Known limits", page.bullets(limits)))
    filmed = [(entry, found) for entry in shown if (found := (videos or Videos()).of(entry))]
    if filmed:
        main.append(block("videos", "Videos", *(_videos(*pair) for pair in filmed)))
    main.append(block("commands", "Repeat it", _commands(shown)))
    if card is not None and card.hyperparameters:
        tuned = load_tuned(card) or {}
        main.append(block("hyperparameters", "Hyper-parameters of the card",
                          _parameters(card, tuned)))  # fmt: skip
    failed = sum(len(entry.row.failures) for entry in shown)
    facts = [
        fact(sum(len(entry.row.runs) for entry in shown), "completed run"),
        fact(failed, "failed run", bad=bool(failed)),
    ]
    return page.render(
        board,
        model.method_page(name),
        row_name(row),
        main,
        facts=facts,
        title=name,
        media=bool(filmed),
    )


def _about(card: AlgorithmCard | None, name: str) -> list[Markup]:
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
        ("Tuned", _tuned(card, name)),
        ("Tunable", f"{len(card.search_space)} of {len(card.hyperparameters)} hyper-parameters"),
        ("Implementation", card.implementation),
    ]
    parts = [tag("p", tag("strong", card.title), ": ", card.summary)]
    if card.paper is not None:
        paper = card.paper
        link = tag("a", paper.title, href=paper.url, rel="noreferrer")
        parts.append(tag("p", link, f" ({paper.authors}, {paper.year})"))
    return [*parts, page.definitions(entries)]


def _tuned(card: AlgorithmCard, name: str) -> str:
    """Returns whether the method's values were tuned, and for what it has tuned ones."""
    values = "the card's values" if name == card.name else "values other than the card's"
    environments = ", ".join(load_tuned(card) or ()) or "no environment"
    return f"these rows have {values}; tuned values exist for {environments}"


def _failures(failures: Sequence[BoardFailure]) -> Markup:
    """Returns the causes of failed runs, with their numbers."""
    causes = Counter(
        (
            failure.row.suite,
            failure.row.env,
            failure.row.error_type,
            text.message(failure.row.message),
        )
        for failure in failures
    )
    columns = [
        *page.text_columns("Suite", "Environment", "Error", "Message"),
        *page.number_columns("Failed runs"),
    ]
    rows = [
        [*(TableCell(part) for part in cause), page.count_cell(count)]
        for cause, count in sorted(causes.items())
    ]
    return html_tables.table(columns, rows, label="Failures", caption="", classes="cards", names=2)


def _limits(card: AlgorithmCard | None, shown: Sequence[OnBoard]) -> list[str]:
    """Returns the limits that the card states, and what the tables note on the method."""
    limits = list(card.limits) if card is not None else []
    for entry in shown:
        result, section = entry.row.result, entry.part.section
        if result.partial:
            missing = [cell.environment for cell in result.cells if not cell.runs]
            limits.append(f"{section.title}: no completed run on {', '.join(missing)}")
    return list(dict.fromkeys(limits))


def _videos(entry: OnBoard, videos: Sequence[Video]) -> Markup:
    """Returns the videos of a row."""
    figures = []
    for video in videos:
        run = video.run.row
        caption = (
            f"{run.env}, {video.which} of the seeds: seed {run.seed}, score {text.score(run.score)}"
        )
        film = tag("video", src=f"../{video.site_path}", controls=True, preload="none",
                   aria_label=caption)  # fmt: skip
        figures.append(tag("figure", film, tag("figcaption", caption)))
    return join(tag("h3", entry.part.section.title), tag("div", *figures, class_="films"))


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


def _table(board: Board, shown: Sequence[OnBoard]) -> Markup:
    columns = [
        *page.text_columns("Suite", "Conditions", "Submitted by"),
        *page.number_columns("Tier", "IQM score", "Environments", "Seeds", "Failed runs"),
        *page.text_columns("Head to head"),
    ]
    rows = []
    for entry in shown:
        row, section = entry.row, entry.part.section
        iqm = row.result.iqm
        conditions = board.condition(entry.part)
        table = f"../{model.suite_page(section.suite)}#{model.row_id(entry.part, row)}"
        rows.append(
            [
                TableCell(section.suite),
                TableCell(tag("a", conditions, href=table), conditions),
                TableCell(model.submitter_text(row)),
                page.tier_cell(row),
                TableCell(page.linked(iqm, row, "../"), page.ends(iqm)["point"]),
                TableCell(text.coverage(row.result), float(len(row.result.covered))),
                TableCell(model.seeds(row), float(row.result.seeds[0])),
                page.count_cell(row.result.failures),
                TableCell(_comparison(row, entry.part)),
            ]
        )
    caption = "One row per table of the board; the score links to the runs behind it."
    ids = [
        f"row--{entry.part.section.suite}--{model.row_id(entry.part, entry.row)}" for entry in shown
    ]
    return html_tables.table(
        columns,
        rows,
        label="Results",
        caption=caption,
        classes="cards",
        names=2,
        ids=[model.slug(anchor) for anchor in ids],
    )


def _comparison(row: BoardRow, part: BoardSection) -> str:
    """Returns a link to the comparison of a row with the best other one."""
    rows = compared_rows(part)
    name = row.result.algorithm
    others = [other for other in rows if other != name]
    if name not in rows or not others:
        return text.NOTHING
    best = min(others, key=lambda other: (rows[other].rank is None, rows[other].rank or 0))
    return tag("a", f"with {rows[best].said}", href=f"../{head_link(part, name, best)}")


def _commands(shown: Sequence[OnBoard]) -> Markup:
    seeds: dict[str, set[int]] = {}
    for entry in shown:
        for spec in entry.row.specs:
            seeds.setdefault(command(entry.part.section.suite, spec), set()).add(spec.seed)
    lines = [f"{given} --seeds {_ranges(own)}" for given, own in seeds.items()]
    caption = "Plug-ins and own experts must be there before."
    return join(tag("p", caption), code_block(lines, "Commands"))


def _ranges(numbers: Iterable[int]) -> str:
    """Returns numbers as the option --seeds takes them, such as `0-9,20-20`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(f"{part[0]}-{part[-1]}" for part in parts)


def command(suite: str, spec: RunSpec) -> str:
    """Returns a command that makes runs like a specification, apart from changed budgets."""
    parts = ["imitbench", "run", "--algo", spec.algo, "--suite", suite]
    if spec.budget.name:
        parts += ["--budget", spec.budget.name]
    if spec.demos is not None and spec.demos.count < spec.demos.available:
        parts += ["--n-demos", str(spec.demos.count)]
    if spec.source not in (None, "bundled"):
        parts += ["--source", str(spec.source)]
    card = card_of(spec)
    if card is not None and spec.variant:
        usual = card.resolve({})
        for name, value in card.completed(spec.hyperparameters).items():
            if name in usual and usual[name] != value:
                parts += ["--set", f"{name}={'null' if value is None else value}"]
    return " ".join(shlex.quote(text.one_line(part)) for part in parts)


def _parameters(card: AlgorithmCard, tuned: Mapping[str, Mapping[str, object]]) -> Markup:
    columns = page.text_columns("Name", "Default", *["Tuned"] * bool(tuned), "Search", "Meaning")
    rows = [
        [
            TableCell(tag("code", name), name),
            TableCell(str(hyperparameter.default)),
            *(TableCell(_changed(name, hyperparameter.default, tuned)) for _ in [0] if tuned),
            TableCell(str(hyperparameter.search) if hyperparameter.search else "-"),
            TableCell(hyperparameter.help),
        ]
        for name, hyperparameter in card.hyperparameters.items()
    ]
    caption = "Values of today's card; those of each run are on the pages of its results."
    ids = [f"parameter-{model.slug(name)}" for name in card.hyperparameters]
    return html_tables.table(
        columns, rows, label="Hyper-parameters", caption=caption, classes="cards", ids=ids
    )


def _changed(name: str, default: object, tuned: Mapping[str, Mapping[str, object]]) -> str:
    """Returns the tuned values that differ from the default, with their environments."""
    found: dict[str, list[str]] = {}
    for environment, values in tuned.items():
        if values.get(name, default) != default:
            value = values[name]
            shown = format(value, ".4g") if isinstance(value, float) else str(value)
            found.setdefault(shown, []).append(short_names([environment])[environment])
    return "; ".join(f"{value} ({', '.join(where)})" for value, where in found.items()) or "-"
