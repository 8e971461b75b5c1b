"""Small tables of scores in the documents, from published runs."""

from collections import defaultdict
from statistics import fmean

from imitbench.report.markdown import table


def score_table(head, runs, row_of, column_of):
    """Returns a Markdown table with the mean score of each cell, and the lowest and highest.

    Args:
        head: Head of each column, those with the names of rows first.
        runs: Runs, of which all are completed.
        row_of: Function of a specification that returns a tuple of names.
        column_of: Function of a specification that returns a name; `None` excludes the run.
    """
    cells = defaultdict(list)
    for run in runs:
        place = (row_of(run.spec), column_of(run.spec))
        if place[1] is not None:
            cells[place].append(run.result.references.score(run.result.raw_return))
    rows = sorted({row for row, _ in cells})
    columns = head[len(rows[0]) :]
    return table(
        head,
        [[*row, *(_cell(cells[row, column]) for column in columns)] for row in rows],
        names=len(rows[0]),
    )


def _cell(scores):
    return f"{fmean(scores):.3f} ({min(scores):.3f} to {max(scores):.3f})"
