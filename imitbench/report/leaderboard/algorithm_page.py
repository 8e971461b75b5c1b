"""Writes a page for each algorithm on a suite: its cells, and every run behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from imitbench.records.bundled_cards import bundled_algorithm
from imitbench.records.runs import RunSpec
from imitbench.report import html_tables, text
from imitbench.report.html_markup import Markup, block, fact, join, named, tag
from imitbench.report.html_tables import TableCell, finite, origin, provenance_table
from imitbench.report.leaderboard import model, page
from imitbench.report.leaderboard.model import Board, BoardRow, BoardRun, OnBoard
from imitbench.report.leaderboard.page import interval, row_name
from imitbench.report.leaderboard.row_facts import processors_text
from imitbench.report.model import CellResult, Report
from imitbench.store.external_results import ExternalRun


def pages(board: Board) -> dict[str, list[OnBoard]]:
    """Returns the rows that each page shows, by the path of the page in the site."""
    found: dict[str, list[OnBoard]] = {}
    for row in board.rows:
        if row.row.page is not None:
            found.setdefault(row.row.page, []).append(row)
    return found


def render_page(board: Board, path: str, shown: Sequence[OnBoard]) -> str:
    """Writes the page of an algorithm, from the rows of the board that it shows."""
    up = "../" * path.count("/")
    first, suite = shown[0].row, shown[0].part.section.suite
    runs = {run.row.run_id: run.run for entry in shown for run in entry.row.runs}
    origins = Counter(origin(run.provenance, run.spec.device) for run in runs.values())
    ids = {key: f"o{index}" for index, key in enumerate(sorted(origins))}
    main = [_group(entry, board, up, ids) for entry in shown]
    specs = [run.run.spec for entry in shown for run in entry.row.runs]
    specs += [failure.run.spec for entry in shown for failure in entry.row.failures]
    if specs:
        main.append(block("settings", "Settings", _settings(specs)))
    if origins:
        main.append(block("provenance", "Provenance", provenance_table(origins, ids)))
    main.append(_reading(imported=first.imported is not None))
    crumbs = join(
        tag("a", "← ", board.title, href=f"{up}index.html"),
        " · ",
        tag("a", "all tables of ", suite, href=f"{up}{model.suite_page(suite)}"),
    )
    completed = sum(len(entry.row.runs) for entry in shown)
    failed = sum(len(entry.row.failures) for entry in shown)
    if first.imported is not None:
        completed = len({run.place for entry in shown if entry.row.imported
                         for run in entry.row.imported.runs})  # fmt: skip
    facts = [
        tag("li", f"suite {suite}"),
        tag("li", model.submitter_text(first)),
        *[tag("li", "isolated")] * bool(first.isolated),
        fact(completed, "completed run"),
        fact(failed, "failed run", bad=bool(failed)),
    ]
    return page.render(
        board, path, row_name(first), main, facts=facts, title=first.name, crumbs=crumbs
    )


def _group(entry: OnBoard, board: Board, up: str, origins: Mapping[str, str]) -> Markup:
    """Returns the block of an algorithm for one table of the board."""
    part, row = entry.part, entry.row
    anchor, section = row.anchor, part.section
    rank = model.tier_text(row) or "not ranked"
    rank += f": fewer than {model.LEAST_SEEDS} seeds" * (rank.endswith("provisional"))
    quiet = row.result.iqm_likely
    scores = join(
        "IQM score ", interval(row.result.iqm, row),
        *((", with most likely actions ", interval(quiet, row)) if quiet is not None else ()),
        ", mean score ",
        interval(row.result.mean, row), ", ",
        tag("a", rank, href=f"{up}{model.suite_page(section.suite)}#{part.anchor}"), ".",
    )  # fmt: skip
    parts = [
        tag("p", scores),
        *(tag("p", stated.text) for stated in row.disclosures),
        *(tag("p", said) for said in [processors_text(row.runs)] if said),
        tag("p", text.conditions(section, Report(board.method, (), ())), class_="lead"),
        tag("h3", "By environment", id=f"{anchor}-cells"),
        _cells(row),
        tag("h3", "Runs", id=f"{anchor}-runs"),
    ]
    for number, environment in enumerate(section.environments):
        imported = row.imported.runs if row.imported is not None else ()
        theirs = [run for run in imported if run.env == environment]
        runs = [run for run in row.runs if run.row.env == environment]
        if theirs or runs:
            parts.append(tag("h4", named(environment), id=f"{anchor}-e{number}"))
            parts.append(
                _external_runs(theirs, environment)
                if theirs
                else _runs(runs, row, environment, up, origins)
            )
    if row.failures:
        parts += [tag("h3", "Failed runs", id=f"{anchor}-failures"), _failures(row)]
    return block(anchor, part.title, *parts)


def _reading(*, imported: bool) -> Markup:
    """Returns how to read the tables, once for all of them."""
    caption = "Raw return: mean ± sample standard deviation over seeds. "
    if imported:
        caption += "Runs are as the source has them; they were not made by this package."
    else:
        caption += (
            "Seconds are of the whole run, evaluation included; steps are of training. A run's "
            "name is the start of its digest, which is over all that determines its numbers."
        )
    return block("reading", "How to read this page", tag("p", caption, class_="lead"))


def _cells(row: BoardRow) -> Markup:
    columns = [
        *page.text_columns("Environment"),
        *page.number_columns(
            "Score", "Raw return", "Score, deterministic", "Episode length", "Seeds", "Failed runs"
        ),
    ]
    rows = [_cell(row, cell, index) for index, cell in enumerate(row.result.cells)]
    return html_tables.table(columns, rows, label="By environment", caption="", classes="cells")


def _cell(row: BoardRow, cell: CellResult, index: int) -> list[TableCell]:
    href = f"#{row.anchor}-e{index}"
    count: str = tag("span", str(cell.failures), class_="bad") if cell.failures else "0"
    if cell.failures:
        count = tag("a", count, href=f"#{row.anchor}-failures")

    def linked(shown: str) -> str:
        return tag("a", shown, href=href) if cell.runs else shown

    def number(value: float | None, shown: str) -> TableCell:
        known = finite(value)
        return TableCell(linked(shown) if known is not None else text.NOTHING, known)

    return [
        TableCell(named(cell.environment), cell.environment),
        number(cell.score, text.score(cell.score)),
        number(cell.raw_mean, text.raw_spread(cell)),
        number(cell.score_deterministic, text.score(cell.score_deterministic)),
        number(cell.mean_length, text.fixed(cell.mean_length, 1)),
        TableCell(linked(str(cell.seeds)), float(cell.seeds)),
        TableCell(count, float(cell.failures)),
    ]


def _runs(
    runs: Sequence[BoardRun],
    row: BoardRow,
    environment: str,
    up: str,
    origins: Mapping[str, str],
) -> Markup:
    columns = [
        *page.text_columns("Run"),
        *page.number_columns(
            "Seed", "Raw return", "Over episodes", "Score", "Score, deterministic",
            "Episode length", "Steps", "Seconds",
        ),
        *page.text_columns(
            "Episodes", "Origin", "Finished", "Submitted by", "Digest of the specification"
        ),
    ]  # fmt: skip
    rows = [_run(run, row, up, origins) for run in runs]
    label = f"Runs on {environment}"
    return html_tables.table(columns, rows, label=label, caption="", classes="runs")


def _run(
    board_run: BoardRun, row: BoardRow, up: str, origins: Mapping[str, str]
) -> list[TableCell]:
    shown, run = board_run.row, board_run.run
    result, spec = run.result, run.spec
    assert result is not None
    anchor = f"{row.anchor}--{model.slug(board_run.submitter or 'own')}-{spec.run_id}"
    code = tag("a", tag("code", spec.run_id), href=f"#{anchor}", id=anchor)
    came = origins[origin(run.provenance, spec.device)]
    version = run.provenance.imitbench
    made_by = f"imitbench {version}, {run.provenance.gpu or run.provenance.cpu}"
    return [
        TableCell(code, spec.run_id),
        page.count_cell(shown.seed),
        TableCell(text.raw(shown.raw_return), finite(shown.raw_return)),
        TableCell(f"± {text.raw(result.return_std)}", finite(result.return_std)),
        TableCell(text.score(shown.score), finite(shown.score)),
        TableCell(text.score(shown.score_deterministic), finite(shown.score_deterministic)),
        TableCell(text.fixed(shown.mean_length, 1), finite(shown.mean_length)),
        TableCell(f"{shown.env_steps:,}", float(shown.env_steps)),
        TableCell(text.fixed(shown.wall_s, 1), finite(shown.wall_s)),
        TableCell(
            tag("a", f"{2 * spec.protocol.episodes} episodes", href=f"{up}{board_run.episodes}"),
            spec.run_id,
        ),
        TableCell(tag("a", made_by, href=f"#{came}"), made_by),
        TableCell(shown.finished_at[:16].replace("T", " "), shown.finished_at),
        TableCell(board_run.submitter or model.OWN),
        TableCell(tag("code", spec.digest, class_="digest"), spec.digest),
    ]


def _external_runs(runs: Sequence[ExternalRun], environment: str) -> Markup:
    columns = [
        *page.text_columns("Place"),
        *page.number_columns("Seed", "Raw return", "Score", "Steps"),
        *page.text_columns("Budget"),
        *page.number_columns("Demonstrations"),
        *page.text_columns("Source", "References", "Provenance"),
    ]
    rows = [
        [
            TableCell(tag("code", run.place), run.place),
            _number(run.seed, "" if run.seed is None else str(run.seed)),
            _number(run.raw_return, text.raw(run.raw_return)),
            _number(run.any_score, text.score(run.any_score)),
            _number(run.env_steps, f"{run.env_steps or 0:,}"),
            TableCell(run.budget or text.NOTHING),
            _number(run.n_demos, str(run.n_demos)),
            TableCell(run.source or text.NOTHING),
            TableCell(
                run.reference_version or ("stated" if run.score is not None else text.NOTHING)
            ),
            TableCell(
                ", ".join(f"{key}: {value}" for key, value in sorted(run.provenance.items()))
            ),
        ]
        for run in runs
    ]
    return html_tables.table(
        columns, rows, label=f"Imported runs on {environment}", caption="", classes="runs"
    )


def _number(value: float | None, shown: str) -> TableCell:
    return TableCell(
        text.NOTHING if value is None else shown, None if value is None else float(value)
    )


def _failures(row: BoardRow) -> Markup:
    columns = [
        *page.text_columns("Run", "Environment"),
        *page.number_columns("Seed"),
        *page.text_columns("Phase", "Error", "Message", "Submitted by"),
    ]
    rows = [
        [
            TableCell(tag("code", failure.run.spec.run_id), failure.run.spec.run_id),
            TableCell(named(failure.row.env), failure.row.env),
            page.count_cell(failure.row.seed),
            TableCell(failure.row.phase),
            TableCell(failure.row.error_type),
            TableCell(text.message(failure.row.message)),
            TableCell(failure.submitter or model.OWN),
        ]
        for failure in row.failures
    ]
    caption = "Failed runs have no score; the tables count them."
    return html_tables.table(columns, rows, label="Failed runs", caption=caption)


def _hyperparameters(spec: RunSpec) -> Mapping[str, object]:
    """Returns the hyper-parameters of a run; if the card is known, with those the record omits."""
    card = bundled_algorithm(spec.algo) if spec.implementation_digest is None else None
    return card.completed(spec.hyperparameters) if card else spec.hyperparameters


def _settings(specs: Sequence[RunSpec]) -> Markup:
    """Returns a list of hyper-parameters and further settings, with their values in these runs."""
    values: dict[str, dict[str, None]] = {}
    for spec in specs:
        budget, demos = spec.budget, spec.demos
        facts: dict[str, object] = {
            "implementation": spec.implementation,
            "budget": f"{budget.name} ({budget.amount:,} {budget.unit})",
            "device": spec.device,
            "demonstrations": f"{demos.count} of {demos.available} of {demos.repo}, "
            f"digest {demos.digest[:12]}" if demos else text.NOTHING,
            "expert": f"{spec.expert.repo}, digest {spec.expert.digest[:12]}"
            if spec.expert else text.NOTHING,
            **_hyperparameters(spec),
        }  # fmt: skip
        for name, value in facts.items():
            values.setdefault(name, {})[str(value)] = None
    return page.definitions((name, "; ".join(sorted(texts))) for name, texts in values.items())
