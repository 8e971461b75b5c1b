"""Writes the site's first page: what the results say, and a table of methods by condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from imitbench.published.results_sources import ResultsSource
from imitbench.report import html_tables, text
from imitbench.report.html_markup import Markup, block, fact, join, named, tag
from imitbench.report.html_tables import TableCell
from imitbench.report.leaderboard import model, page
from imitbench.report.leaderboard.answers import Answer, answer_of
from imitbench.report.leaderboard.head_to_head import head_link, head_page
from imitbench.report.leaderboard.methods_table import methods_table, reading
from imitbench.report.leaderboard.model import Board, BoardSection
from imitbench.report.leaderboard.row_facts import trained_again


def render_index(board: Board) -> str:
    """Writes the first page."""
    main = [tag("p", text.EMPTY)]
    if board.sections:
        found = {
            suite: [(part, answer_of(part, board.method)) for part in board.of_suite(suite)]
            for suite in board.suites
        }
        found = dict(sorted(found.items(), key=lambda suite: _weight(suite[1][0][1])))
        main = [
            _answers(board, {suite: said[0] for suite, said in found.items()}),
            _filters(),
            block("methods", "Methods", *_conditions(board, found)),
        ]
    main.append(_submissions(board))
    return page.render(board, "index.html", board.title, main, facts=_facts(board))


_Said = tuple[BoardSection, Answer]


def _weight(answer: Answer) -> int:
    """Returns where the suite of an answer stands: those that tell methods apart come first."""
    kinds = {track.kind for track in answer.compared}
    if not answer.tracks:
        return 3
    if answer.all_saturated:
        return 2
    return 0 if kinds & {"leader", "tied"} else 1


def _answers(board: Board, headlines: Mapping[str, _Said]) -> Markup:
    """Returns what the headline of each suite says."""
    short, cards = [], []
    for suite, (part, answer) in headlines.items():
        link = tag("a", suite, href=model.suite_page(suite))
        flag = text.score_one_flag(part.section.score_one)
        where = tag("p", board.condition(part), f", {flag}" if flag else "", class_="how")
        compare = tag("a", "head to head", href=head_page(suite))
        more = tag("p", tag("a", f"all tables of {suite}", href=model.suite_page(suite)), ", ",
                   compare, class_="beside")  # fmt: skip
        said = page.answered(answer, headline=False)
        short.append(tag("li", link, ": ", answer.headline))
        cards.append(tag("article", tag("h3", suite), where, *said, more))
    return block(
        "answer",
        "What the results say",
        tag("ul", *short, class_="headlines"),
        tag("div", *cards, class_="answers"),
    )


def _conditions(board: Board, found: Mapping[str, Sequence[_Said]]) -> list[Markup]:
    """Returns the table of each condition, and the switches that show one of them."""
    suites = []
    for suite, said in found.items():
        conditions = [
            (part.anchor, board.condition(part), _condition(part, answer, index == 0))
            for index, (part, answer) in enumerate(said)
        ]
        short = model.slug(suite)
        shown = page.switch(f"condition-{short}", "Condition", conditions, data_view="condition")
        suites.append((short, suite, shown))
    ways = [(way, name, Markup("")) for way, name in text.ACTIONS.items()]
    parts = [
        page.switch("suite", "Suite", suites, data_view="suite"),
        tag("p", reading(board), class_="lead reading"),
    ]
    if any(row.row.result.iqm_likely is not None for row in board.rows):
        parts.insert(0, page.switch("acting", "Way of acting", ways, data_view="acting"))
    return parts


def _condition(part: BoardSection, answer: Answer, is_headline: bool) -> Markup:
    """Returns the table of a condition, below its answer if that does not stand above already."""
    url = f"{model.suite_page(part.section.suite)}#{part.anchor}"
    link = tag("a", "every environment", href=url)
    compare = tag("a", "head to head", href=head_link(part))
    beside = tag("p", link, ", ", compare, class_="beside")
    said = [] if is_headline else page.answered(answer)
    return join(*said, methods_table(part, answer), beside)


def _facts(board: Board) -> list[Markup]:
    rows = [row.row for row in board.rows]
    runs = {run.row.run_id for row in rows for run in row.runs}
    failed = {failure.row.run_id for row in rows for failure in row.failures}
    methods = {row.method for row in rows if row.kind == "run" and row.result.role == "method"}
    environments = {(part.section.suite, env) for part in board.sections
                    for env in part.section.environments}  # fmt: skip
    files = [
        tag("a", name, href=f"leaderboard.{ending}")
        for name, ending in (("JSON", "json"), ("CSV", "csv"), ("Markdown", "md"))
    ]
    return [
        fact(len(methods), "algorithm"),
        fact(len(environments), "environment"),
        fact(len(runs), "completed run"),
        fact(len(failed), "failed run", bad=bool(failed)),
        fact(len(board.sources), "submission"),
        tag("li", "all data: ", files[0], " ", files[1], " ", files[2]),
    ]


def _filters() -> Markup:
    """Returns the search and the buttons, hidden until the script activates them."""
    field = tag("input", type="search", data_view="q", placeholder="name, year or paper")
    return tag(
        "div",
        tag("label", "Method ", field),
        *page.save_buttons(),
        class_="filters",
        role="search",
        id="filters",
        hidden=True,
    )


def _checks(source: ResultsSource) -> tuple[str, str]:
    """Returns the result of the checks on a submission's runs, and a text to sort by."""
    if not source.name:
        return "not checked", "not checked"
    alarms = len(source.alarms)
    warned = f"{alarms} warning{'s' * (alarms > 1)}" * bool(alarms)
    if source.failed:
        caption = f"fails {', '.join(source.failed)}" + f"; {warned}" * bool(alarms)
        return tag("span", caption, class_="bad"), caption
    caption = warned or "passed"
    return tag("span", caption, title="\n".join(map(str, source.alarms)) or None), caption


def _submitter(source: ResultsSource, board: Board) -> Markup:
    """Returns the name of a submission, and what it supersedes or is superseded by."""
    name = named(source.name or model.OWN)
    details = [f"superseded by {source.superseded_by}"] if source.superseded_by else []
    details += [f"supersedes {other.name}" for other in board.sources
             if source.name and other.superseded_by == source.name]  # fmt: skip
    return join(name, *(tag("span", detail, class_="how") for detail in details))


def _trained_again(source: ResultsSource) -> TableCell:
    """Returns how many of a submission's runs others trained again, and by whom."""
    if not source.verifications:
        return TableCell(text.NOTHING, None)
    own = [run.spec.run_id for run in source.runs if run.result is not None]
    found = trained_again(source, own)
    caption = f"{found.text}, by {', '.join(found.by)}" if found.by else "no run could be trained"
    seeds = [record.public_seed for record in source.verifications if record.public_seed]
    title = "\n".join(f"public seed: {seed}" for seed in seeds) or None
    class_ = "bad" if source.refuted else None
    return TableCell(tag("span", named(caption), title=title, class_=class_), caption)


def _submissions(board: Board) -> Markup:
    columns = [
        *page.text_columns("Submitted by"),
        *page.number_columns("Completed runs", "Failed runs"),
        *page.text_columns("Checks", "Trained again", "Digest"),
    ]
    rows = [
        [
            TableCell(_submitter(source, board), source.name or model.OWN),
            page.count_cell(sum(run.result is not None for run in source.runs)),
            page.count_cell(sum(run.failure is not None for run in source.runs)),
            TableCell(*_checks(source)),
            _trained_again(source),
            TableCell(tag("code", source.digest or text.NOTHING, class_="digest"), source.digest),
        ]
        for source in board.sources
    ]
    caption = (
        "Whose results these are, and whether their budgets, protocols, settings and seeds are "
        "those of the cards. The digest is over all that a submission holds. “imitbench "
        "leaderboard validate” checks all of it. Runs are trained again by others than the "
        "submitter, after a public draw where the table says so."
    )
    ids = [f"from-{model.slug(source.name or 'own')}" for source in board.sources]
    whole = html_tables.table(
        columns, rows, label="Submissions", caption=caption, classes="cards", ids=ids
    )
    return block("submissions", "Submissions", whole)
