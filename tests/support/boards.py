"""Boards that tests build, and what their pages say."""

import json
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

from imitbench.published.results_sources import find_results
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.site import write_site


def build(results, site, **options):
    external = options.pop("external", False)
    board = build_board(
        find_results(results, external=external), title=options.pop("title", "Board"),
        replicates=options.pop("replicates", 200), **options,
    )  # fmt: skip
    write_site(board, site, results=[results])
    return board


def scored_by(board, score_one):
    """Returns the board as if scores were of another kind."""

    def changed(run):
        result = run.run.result
        references = result.references.model_copy(update={"score_one": score_one})
        result = result.model_copy(update={"references": references})
        return replace(run, run=replace(run.run, result=result))

    sections = [
        replace(
            part,
            section=replace(
                part.section,
                references=tuple(
                    row.model_copy(update={"score_one": score_one})
                    for row in part.section.references
                ),
            ),
            rows=tuple(replace(row, runs=tuple(map(changed, row.runs))) for row in part.rows),
        )
        for part in board.sections
    ]
    return replace(board, sections=tuple(sections))


class Links(HTMLParser):
    """The links and link targets of a page, and all its tags and attributes."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.ids, self.tags, self.attributes = [], [], Counter(), set()
        self.text, self.last = [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.last = tag
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        found = dict(attrs)
        if tag == "a":
            self.targets.append(found["href"])
        if "id" in found:
            self.ids.append(found["id"])

    def handle_data(self, data):
        if self.last not in ("style", "script"):
            self.text.append(data)


class Rows(HTMLParser):
    """Rows of the first page by table: group, name, and what the cell of the score says."""

    def __init__(self, text):
        super().__init__()
        self.found, self.table, self.group, self.name = {}, None, None, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "table" and found.get("id", "").startswith("t-"):
            self.table = self.found.setdefault(found["id"], [])
        elif tag == "tbody":
            self.group = found.get("data-group")
        elif tag == "th" and "data-key" in found:
            self.name = found["data-key"]
        elif tag == "td" and "data-value" in found:
            self.table.append((self.group, self.name, json.loads(found["data-value"])))


def shown_rows(site):
    return Rows((site / "index.html").read_text()).found
