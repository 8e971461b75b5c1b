"""Small tables of scores in the documents, from published runs."""

from collections import defaultdict
from statistics import fmean

import numpy as np

from imitbench.report.markdown import table
from imitbench.stats.mean_test import mean_test


def score_table(head, runs, row_of, column_of):
    """Returns a Markdown table with the mean score of each cell, and the lowest and highest.

    Args:
        head: Head of each column, those that name the rows first. Runs of other columns are left
            out; a cell without runs is empty.
        runs: Runs, of which all are completed.
        row_of: Function of a specification that returns the tuple that names its row.
        column_of: Function of a specification that returns the name of its column.
    """
    cells = defaultdict(list)
    for run in runs:
        if (column := column_of(run.spec)) in head:
            cells[row_of(run.spec), column].append(_score(run))
    rows = sorted({row for row, _ in cells})
    names = len(rows[0])
    body = [
        [*map(str, row), *(_cell(cells[row, column]) for column in head[names:])] for row in rows
    ]
    return table(head, body, names)


def ablation_table(runs):
    """Returns a Markdown table of an algorithm's variants, each with p against the defaults."""
    cells, variants, environments = _by_variant(runs)
    body = []
    for variant in variants:
        row = [_changes(variant)]
        for environment in environments:
            scores = cells[variant, environment]
            row += [score_cell(scores), _p(scores, cells["", environment]) if variant else ""]
        body.append(row)
    heads = [each for environment in environments for each in (environment, "p")]
    return table(["changed", *heads], body, 1)


def cost_table(runs):
    """Returns a Markdown table of an algorithm's variants and their cost, the cheapest score first.

    Args:
        runs: Runs, of which each variant has some on every environment.
    """
    cells, variants, environments = _by_variant(runs)
    rows = []
    for variant in variants:
        minutes = fmean(run.result.train_s for run in runs if run.spec.variant == variant) / 60
        scores = [cells[variant, environment] for environment in environments]
        rows.append((variant, scores, minutes, fmean(map(fmean, scores)) / minutes))
    rows.sort(key=lambda row: (-row[3], row[0]))
    body = [
        [_changes(variant), *map(score_cell, scores), f"{minutes:.1f}", f"{rate:.2f}"]
        for variant, scores, minutes, rate in rows
    ]
    heads = ["changed", *environments, "core-minutes per seed", "score per core-minute"]
    return table(heads, body, 1)


def _by_variant(runs):
    """Returns scores by variant and environment, all variants, and all environments."""
    cells = defaultdict(list)
    for run in runs:
        cells[run.spec.variant, run.spec.environment.id].append(_score(run))
    variants, environments = (sorted(set(names)) for names in zip(*cells, strict=True))
    return cells, variants, environments


def _changes(variant):
    changed = [each for each in variant.split(",") if not each.startswith("pack=")]
    return ", ".join(filter(None, changed)) or "nothing"


def _score(run):
    return run.result.references.score(run.result.raw_return)


def _cell(scores):
    return score_cell(scores) if scores else ""


def score_cell(scores):
    """Returns the mean score of some runs, and the lowest and highest."""
    return f"{fmean(scores):.3f} ({min(scores):.3f} to {max(scores):.3f})"


def _p(scores, others):
    rng = np.random.default_rng(0)
    return f"{mean_test({'': scores}, {'': others}, rng=rng):.2g}"
