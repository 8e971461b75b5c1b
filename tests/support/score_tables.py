"""Small tables of scores in the documents, from published runs."""

from collections import defaultdict
from statistics import fmean

from imitbench.report.markdown import table


def score_table(head, runs, row_of, column_of):
    """Returns a Markdown table with the mean score of each cell, and the lowest and highest.

    Args:
        head: Head of each column, those that name the rows first. Runs of other columns are left
            out.
        runs: Runs, of which all are completed.
        row_of: Function of a specification that returns the tuple that names its row.
        column_of: Function of a specification that returns the name of its column.
    """
    cells = defaultdict(list)
    for run in runs:
        column = column_of(run.spec)
        if column in head:
            score = run.result.references.score(run.result.raw_return)
            cells[row_of(run.spec), column].append(score)
    rows = sorted({row for row, _ in cells})
    names = len(rows[0])
    body = [
        [*map(str, row), *(_cell(cells[row, column]) for column in head[names:])] for row in rows
    ]
    return table(head, body, names)


def _cell(scores):
    return f"{fmean(scores):.3f} ({min(scores):.3f} to {max(scores):.3f})"
