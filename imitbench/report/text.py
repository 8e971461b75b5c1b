"""Formats numbers and short texts for all report formats."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import get_args

from imitbench.cards.suite import ScoreOne
from imitbench.records.runs import ReferenceRow
from imitbench.report.model import AlgorithmResult, CellResult, MeasureSummary, Report, Section
from imitbench.stats.bootstrap import Interval
from imitbench.util import text_line

NOTHING = "n/a"
EMPTY = (
    "No results: there is neither a completed nor a failed run here. `imitbench run` makes some."
)
SCORE_DIGITS = 3
ENDINGS = (
    "Terminated: share of episodes that ended before a time limit cut them off; the expert's is "
    "known where it was run."
)
ACTIONS: dict[str, str] = {"sampled": "sampled actions", "likely": "most likely actions"}
"""What policies take in each way of acting."""
MESSAGE_LENGTH = 300
"""Maximum length of a shown error message; the database has the full text."""


def one_line(text: str) -> str:
    """Makes untrusted text safe to print: one line, without control or formatting characters."""
    return text_line.one_line(text, None)


def message(text: str) -> str:
    """Returns an error message on one line, truncated to `MESSAGE_LENGTH`."""
    line = one_line(text)
    return line if len(line) <= MESSAGE_LENGTH else line[:MESSAGE_LENGTH] + "…"


def fixed(value: float | None, digits: int) -> str:
    """Returns a number with `digits` decimals, never as minus zero; `n/a` for `None`."""
    if value is None:
        return NOTHING
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def score(value: float | None) -> str:
    """Returns a score with `SCORE_DIGITS` decimals; `n/a` for `None`."""
    return fixed(value, SCORE_DIGITS)


def raw_digits(value: float) -> int:
    """Returns the decimals for a raw return: two, or enough for three digits of a small one."""
    if not math.isfinite(value) or value == 0 or abs(value) >= 0.1:
        return 2
    return min(12, 2 - math.floor(math.log10(abs(value))))


def raw(value: float | None) -> str:
    """Returns a raw return with `raw_digits` decimals; `n/a` for `None`."""
    return NOTHING if value is None else fixed(value, raw_digits(value))


def raw_spread(cell: CellResult) -> str:
    """Returns the raw return of a cell: mean ± standard deviation over runs."""
    if cell.raw_mean is None:
        return "no completed run"
    if cell.kind == "reference":
        return raw(cell.raw_mean)
    return f"{raw(cell.raw_mean)} ± {fixed(cell.raw_std, raw_digits(cell.raw_mean))}"


def measured_spread(measured: MeasureSummary) -> str:
    """Returns a further measurement: mean ± standard deviation over runs."""
    digits = max(SCORE_DIGITS, raw_digits(measured.mean))
    spread = "" if measured.std is None else f" ± {fixed(measured.std, digits)}"
    return fixed(measured.mean, digits) + spread


def share(value: float | None) -> str:
    """Returns a share, in [0, 1], as a percentage; `n/a` for `None`."""
    return NOTHING if value is None else f"{fixed(100 * value, 1)}%"


def interval(value: Interval | None, result: AlgorithmResult) -> str:
    """Returns a point estimate with its interval, or the reason why there is no interval."""
    if value is None:
        return NOTHING
    if result.kind == "reference":
        given = "by definition" if value.point in (0.0, 1.0) else "of the demonstrations"
        return f"{score(value.point)} ({given})"
    ends = f"{score(value.low)}, {score(value.high)}" if value.known else f"{NOTHING} (1 seed)"
    return f"{score(value.point)} [{ends}]"


def seeds(result: AlgorithmResult) -> str:
    """Returns the number of seeds per environment: `3`, or `2-3` if it differs."""
    if result.kind == "reference":
        return "reference"
    fewest, most = result.seeds
    return str(fewest) if fewest == most else f"{fewest}-{most}"


def all_seeds(section: Section) -> str:
    """Returns numbers of seeds per environment: `5`, or `4-5, 10` if algorithms differ."""
    counts = {result.seeds: seeds(result) for result in section.algorithms if result.kind == "run"}
    return ", ".join(counts[number] for number in sorted(counts)) or "none"


def conditions(section: Section, report: Report) -> str:
    """Returns sentences on the methods behind the numbers of a section."""
    sentence = f"{protocol(report, section.score_one)}; {reference_versions(section)}."
    return f"{sentence[0].upper()}{sentence[1:]} {report.method.failed_runs.statement}"


def marked_name(result: AlgorithmResult) -> str:
    """Returns an algorithm's name, marked if it is a reference or control, or uses the reward."""
    name = result.algorithm
    if result.uses_reward:
        marks = "reference, uses reward" if result.role == "reference" else "uses reward"
        name = f"{name} ({marks})"
    return f"{name} (control)" if result.role == "control" else name


def marks(result: AlgorithmResult) -> list[str]:
    """Returns what is special about an algorithm: its role, and that it uses the reward."""
    reward = ["uses reward"] * result.uses_reward
    roles = {"reference": ["reference", *reward], "control": [*reward, "control"]}
    return roles.get(result.role, reward)


def environments(result: AlgorithmResult) -> str:
    """Returns over how many environments an aggregate is, such as `2 of 3 environments`."""
    count = len(result.cells)
    return f"{len(result.covered)} of {count} environment{'' if count == 1 else 's'}"


def coverage(result: AlgorithmResult) -> str:
    """Returns the number of covered environments out of those in the section."""
    count = f"{len(result.covered)} of {len(result.cells)}"
    return f"{count} (partial)" if result.partial else count


_OWNERS: dict[ScoreOne, str] = {
    "expert": "expert",
    "demonstrations": "demonstrations",
    "card": "number on the card",
    "success": "success in every episode",
}
_FLAGS: dict[ScoreOne, str] = {
    "expert": "of the expert",
    "demonstrations": "of the demonstrations",
    "card": "as the suite's card states",
    "success": "for success in every episode",
}


def score_formula(kinds: Iterable[ScoreOne]) -> str:
    """Returns the formula of scores.

    Args:
        kinds: Whose returns are score 1; the expert's if empty.
    """
    known = _ordered(kinds)
    of_returns = [kind for kind in known if kind != "success"]
    formulas = []
    if of_returns or not known:
        formulas.append(f"(return - random) / ({score_one_owner(of_returns)} - random)")
    if "success" in known:
        formulas.append("share of successful episodes")
    return f"score = {', or '.join(formulas)}"


def scale(kinds: Iterable[ScoreOne]) -> str:
    """Returns what the scores 0 and 1 are, in whole sentences."""
    known = _ordered(kinds)
    of_returns = [kind for kind in known if kind != "success"]
    sentences = []
    if of_returns or not known:
        sentences.append(
            f"0 is the random reference, 1 the {score_one_owner(of_returns)}. References are mean "
            "raw returns, measured once per version of the suite; scores are linear between."
        )
    if "success" in known:
        sentences.append("Where success is the headline, scores are shares of successful episodes.")
    return " ".join(sentences)


def likely_scale(kinds: Iterable[ScoreOne]) -> str:
    """Returns what most likely actions are scored by, as the end of a phrase; may be empty."""
    return "" if set(kinds) == {"success"} else " with those of the expert as score 1"


def score_one_owner(kinds: Iterable[ScoreOne]) -> str:
    """Returns whose return is score 1, such as `expert`; see `score_formula`."""
    return " or ".join(_OWNERS[kind] for kind in _ordered(kinds)) or "expert"


def score_one_flag(kinds: Iterable[ScoreOne]) -> str | None:
    """Returns what score 1 is, such as `score 1 of the demonstrations`; `None` for an expert."""
    known = _ordered(kinds)
    if known in ([], ["expert"]):
        return None
    return "score 1 " + " or ".join(_FLAGS[kind] for kind in known)


def _ordered(kinds: Iterable[ScoreOne]) -> list[ScoreOne]:
    found = set(kinds)
    return [kind for kind in get_args(ScoreOne) if kind in found]


def score_one_return(row: ReferenceRow) -> str:
    """Returns the return of score 1, with whose it is if it is not an expert's."""
    shown = raw(row.expert)
    return shown if row.score_one == "expert" else f"{shown} {_FLAGS[row.score_one]}"


def protocol(report: Report, score_one: Iterable[ScoreOne] | None = None) -> str:
    """Returns one line on the methods behind scores and intervals.

    Args:
        report: The report.
        score_one: Whose returns are score 1; those of all sections of the report when `None`.
    """
    method = report.method
    if score_one is None:
        score_one = {kind for section in report.sections for kind in section.score_one}
    episodes = f"{method.episodes} episodes" if method.episodes else "evaluation episodes"
    return (
        f"{episodes}, stochastic policy; {score_formula(score_one)}; "
        f"{method.level:.0%} stratified bootstrap percentile intervals, "
        f"{method.replicates} replicates, seed {method.seed}"
    )


def reference_versions(section: Section) -> str:
    """Returns the versions of the references of a section, as part of a sentence."""
    versions = sorted({row.version for row in section.references})
    if not versions:
        return "references not recorded"
    flag = score_one_flag(section.score_one)
    stated = f"references version{'s' if len(versions) > 1 else ''} {', '.join(versions)}"
    return f"{stated}, {flag}" if flag else stated
