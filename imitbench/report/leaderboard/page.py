"""Parts that all pages of the site share: head, foot, names, marks and intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from imitbench.report import text
from imitbench.report.html_markup import Markup, html_document, join, named, tag, theme_picker
from imitbench.report.html_tables import HtmlColumn, TableCell, finite
from imitbench.report.leaderboard import model
from imitbench.report.leaderboard.answers import Answer
from imitbench.report.leaderboard.model import Board, BoardRow
from imitbench.report.leaderboard.row_facts import tuning_text, values_text
from imitbench.report.leaderboard.table_alarms import TableAlarm
from imitbench.report.model import Report
from imitbench.stats.bootstrap import Interval
from imitbench.version import __version__

STYLES = ("report.css", "board.css")
SCRIPTS = ("theme.js", "elements.js", "tables.js", "views.js", "copying.js", "board.js")


def render(
    board: Board,
    page: str,
    heading: str,
    main: list[Markup],
    *,
    facts: list[Markup],
    title: str | None = None,
    scripts: tuple[str, ...] = SCRIPTS,
    media: bool = False,
    styles: tuple[str, ...] = STYLES,
    crumbs: Markup | None = None,
) -> str:
    """Writes a page of the site.

    Args:
        board: The whole leaderboard.
        page: Path of the page in the site.
        heading: Text or markup of its heading.
        main: Its content.
        facts: List items below its heading.
        title: Title of the window; the heading's text if `None`.
        scripts: File names of its scripts.
        media: Whether it shows videos of the site.
        styles: File names of its style sheets.
        crumbs: Links to the pages above this one, above its heading; `None` for links to all pages
            of the board, below its facts.

    Returns:
        Self-contained HTML, which links to other pages of the site.
    """
    up = "../" * page.count("/")
    body = join(
        tag("a", "Skip to the results", href="#results", class_="skip"),
        tag(
            "header",
            tag("div", tag("p", "imitbench", class_="brand"), theme_picker(), class_="bar"),
            tag("p", crumbs, class_="crumbs") if crumbs is not None else Markup(""),
            tag("h1", heading),
            tag("ul", *facts, class_="facts") if facts else Markup(""),
            _navigation(board, page, up) if crumbs is None else Markup(""),
            class_="top",
        ),
        tag("main", *main, id="results", tabindex="-1" if crumbs is None else None),
        _footer(board),
    )
    shown = title if title is not None else str(heading)
    whole = shown if page == "index.html" else f"{shown} · {board.title}"
    return html_document(whole, body, styles=styles, scripts=scripts, media=media)


def _navigation(board: Board, page: str, up: str) -> Markup:
    pages = [("index.html", board.title if page != "index.html" else "All suites")]
    pages += [(model.suite_page(suite), suite) for suite in board.suites]
    if board.claims:
        pages.append((model.CLAIMS_PAGE, "Claims of papers"))
    pages.append((model.SUBMIT_PAGE, "How to submit"))
    links = [
        tag("a", name, href=f"{up}{path}", aria_current="page" if path == page else None)
        for path, name in pages
    ]
    return tag("nav", *links, aria_label="Pages")


def _footer(board: Board) -> Markup:
    """Returns the footer of every page, with the methods behind the numbers."""
    sections = tuple(part.section for part in board.sections)
    method = text.protocol(Report(board.method, sections, ()))
    method = f"{method[0].upper()}{method[1:]}"
    return tag("footer", tag("p", f"Made by imitbench {__version__}. {method}."))


def save_buttons() -> list[Markup]:
    """Returns the buttons that save what is shown, and the element for the number of rows."""
    return [
        tag("button", "CSV of this view", type="button", data_save="csv"),
        tag("button", "JSON of this view", type="button", data_save="json"),
        tag("output", aria_live="polite"),
    ]


def text_columns(*labels: str) -> list[HtmlColumn]:
    """Returns columns of texts."""
    return [HtmlColumn(label) for label in labels]


def number_columns(*labels: str) -> list[HtmlColumn]:
    """Returns columns of numbers."""
    return [HtmlColumn(label, number=True) for label in labels]


def count_cell(count: int) -> TableCell:
    """Returns a cell with a whole number."""
    return TableCell(str(count), float(count))


def bullets(items: Iterable[str]) -> Markup:
    """Returns a list of texts or markup."""
    return tag("ul", *(tag("li", item) for item in items))


def definitions(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Returns a list of names and what they stand for."""
    parts = [part for name, what in pairs for part in (tag("dt", name), tag("dd", what))]
    return tag("dl", *parts)


def choice(label: str, every: str, options: Mapping[str, str], **data: str) -> Markup:
    """Returns a labelled choice for the script.

    Args:
        label: What is chosen.
        every: Text of the first option, which has no value.
        options: Texts of the other options by value.
        **data: Attributes of the element.
    """
    first = tag("option", every, value="")
    others = (tag("option", name, value=value) for value, name in options.items())
    return tag("label", f"{label} ", tag("select", first, *others, **data))


def row_name(row: BoardRow, up: str | None = None, *, as_method: bool = False) -> Markup:
    """Returns an algorithm's name with a spot of its color, and its marks.

    Args:
        row: Row of the board.
        up: Path to the site's folder, to link the name of a method to its page; `None` for no link.
        as_method: Whether name and color are those of the method, and its values are a mark.
    """
    color = row.method_color if as_method else row.color
    shown_name = row.method if as_method else row.name
    name = named(shown_name, "spotted", "" if color is None else f"c{color}")
    marks = [
        (as_method and bool(row.values), row.values),
        (row.kind == "external", "external"),
        (row.kind == "reference" or row.result.role == "reference", "reference"),
        (row.result.uses_reward, "uses reward"),
        (row.isolated is False and not row.result.uses_reward, "not isolated"),
        (row.result.role == "control", "control"),
        (row.kind in ("run", "external") and row.result.partial, "partial"),
        (row.raced, "registered race"),
        (bool(row.superseded_by), "superseded"),
    ]
    shown = [tag("span", mark, class_="mark") for holds, mark in marks if holds]
    if not row.checked:
        shown.append(tag("span", "checks failed", class_="mark bad"))
    if row.refuted:
        shown.append(tag("span", "differs when trained again", class_="mark bad"))
    if up is not None and row.is_method:
        name = tag("a", name, href=f"{up}{model.method_page(row.name)}")
    return join(name, *shown)


def interval(value: Interval | None, row: BoardRow) -> Markup | str:
    """Returns a point estimate, strong, with its interval."""
    if value is None:
        return text.NOTHING
    point, _, ends = model.interval(value, row).partition(" ")
    strong = tag("strong", point)
    return join(strong, " ", tag("span", ends, class_="ends")) if ends else strong


def ends(value: Interval | None) -> dict[str, float | None]:
    """Returns a point estimate and the ends of its interval, as saved; `None` if unknown."""
    low, high = (value.low, value.high) if value is not None and value.known else (None, None)
    return {"point": finite(value.point) if value is not None else None, "low": low, "high": high}


def linked(value: Interval | None, row: BoardRow, up: str) -> Markup | str:
    """Returns a point estimate of a row with its interval, and a link to the row's runs.

    Args:
        value: The estimate; `None` if it is unknown.
        row: The row.
        up: Path to the site's folder.
    """
    shown = interval(value, row)
    if row.page is None or value is None:
        return shown
    return tag("a", shown, href=f"{up}{row.page}#{row.anchor}")


def alarms(found: Sequence[TableAlarm]) -> Markup:
    """Returns a box with alarms; empty without any."""
    if not found:
        return Markup("")
    items = [tag("li", alarm.text, data_alarm=alarm.kind) for alarm in found]
    return tag("ul", *items, class_="notes alarms")


def answered(answer: Answer, *, headline: bool = True) -> list[Markup]:
    """Returns what a table decides, and its alarms; none of it is folded.

    Args:
        answer: What the table says.
        headline: Whether it begins with the headline.
    """
    tracks = [
        tag("li", tag("span", track.track, class_="track"), ": ", tag("strong", track.lead),
            track.text.removeprefix(track.lead))
        for track in answer.compared
    ]  # fmt: skip
    rest = [
        tag("li", sentence)
        for sentence in (answer.alone, answer.provisional, answer.rewards, answer.coverage)
        if sentence
    ]
    shown = [alarm for alarm in answer.alarms if alarm.kind != "saturated"]
    if answer.saturated:
        shown.insert(0, TableAlarm("saturated", "", answer.saturated))
    return [
        tag("p", answer.headline, class_="headline") if headline else Markup(""),
        alarms(shown),
        tag("ul", *tracks, *rest, class_="answer") if tracks or rest else Markup(""),
    ]


def switch(
    name: str, caption: str, options: Sequence[tuple[str, str, Markup]], **data: str
) -> Markup:
    """Returns a choice between parts of a page of which one is shown; it needs no script.

    Args:
        name: Name of the choice, unique on the page.
        caption: What is chosen.
        options: Value, label and content of each part; the first one is shown at the start. Empty
            content stands for a part that the style sheet shows elsewhere.
        **data: Attributes of the buttons.
    """
    parts = [tag("span", caption, class_="caption")]
    for index, (value, label, content) in enumerate(options):
        id_ = f"{name}--{value}"
        # Firefox would keep an earlier choice when the page is loaded again.
        parts += [
            tag("input", type="radio", name=name, id=id_, value=value, checked=index == 0,
                autocomplete="off", **data),
            tag("label", label, for_=id_),
            *([tag("div", content, class_="panel")] if content else []),
        ]  # fmt: skip
    return tag("div", *parts, class_="switch")


TIERS = (
    "Tiers are among algorithms that need the same (offline, replay, on-policy, asks the expert, "
    "sees the reward): two of a tier cannot be told apart, and each row is decided to be worse "
    "than one of the tier above, by the rule of “imitbench compare”, corrected for all pairs of "
    f"the table. Rows with fewer than {model.LEAST_SEEDS} seeds are provisional."
)


def below(caption: str) -> Markup:
    """Returns a line in small type below the content of a cell; nothing for an empty caption."""
    return tag("span", caption, class_="how") if caption else Markup("")


def tier_cell(row: BoardRow, track: bool = True) -> TableCell:
    """Returns the tier of a row in its table; without one, a mark if it has too few seeds.

    Args:
        row: The row.
        track: Whether its track stands below.
    """
    if not model.tier_text(row):
        return TableCell("", None)
    tier = str(row.tier) if row.tier else tag("span", "provisional", class_="mark few")
    return TableCell(join(tier, below(row.track if track else "")), row.tier and float(row.tier))


def values_cell(row: BoardRow) -> TableCell:
    """Returns how the hyper-parameters of a row were chosen, with the cost of a search below."""
    chosen, (cost, trials) = values_text(row), tuning_text(row.specs, row.disclosures)
    costs = below("" if cost == text.NOTHING else cost)
    return TableCell(join(chosen or text.NOTHING, costs), chosen, {"trials": trials})
