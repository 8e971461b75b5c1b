"""The card (`README.md`) of exported preferences, as the hub displays it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import yaml

from imitbench.data.preference_table import PreferenceRow
from imitbench.labelling.agreement import Alpha, AnnotatorSummary
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    from imitbench.labelling.label_set import LabelSet

_METADATA = {
    "tags": ["preferences", "human-feedback", "reinforcement-learning", "imitbench"],
    "configs": [{"config_name": "default", "data_files": "data/*.parquet"}],
}
_COLUMNS = (
    "One row per pair of fragments: `obs_1`, `acts_1`, `terminal_1` and perhaps `rews_1` of the "
    "first, the same with `_2` of the second; `preference`, the probability that the first is "
    "preferred (null if everybody skipped the pair), and its `weight`; `answers`, what each "
    "annotator said.\n"
)


def alpha_text(alpha: Alpha) -> str:
    """Krippendorff's alpha with its interval, in words."""
    if math.isnan(alpha.value):
        return "not defined: needs pairs with answers of two annotators that differ"
    interval = (
        "" if math.isnan(alpha.low) else f", 95 % interval {alpha.low:.2f} to {alpha.high:.2f}"
    )
    return f"{alpha.value:.2f}{interval} ({alpha.units} pairs)"


def share_text(part: int, whole: int) -> str:
    """A share of a few: `7 of 8`, or `none` of none."""
    return f"{part} of {whole}" if whole else "none asked"


def preference_card(
    labels: LabelSet,
    rows: Sequence[PreferenceRow],
    people: Sequence[AnnotatorSummary],
    alpha: Alpha,
    digest: str,
    weights: str,
) -> str:
    """Returns the card.

    Args:
        labels: The set.
        rows: What was exported.
        people: Summary of each annotator.
        alpha: Agreement of the annotators.
        digest: Digest of the data file.
        weights: How annotators were weighted.

    Returns:
        Markdown with the hub's metadata, without a licence, which only the owner of the answers
        knows.
    """
    header = labels.header
    answers = [answer for row in rows for answer in row.answers]
    times = [answer.response_ms for answer in answers if answer.response_ms is not None]
    active = [person for person in people if person.answers]
    facts: dict[str, object] = {
        "pairs with answers": f"{len(rows)} of {len(header.pairs)}",
        "answers": len(answers),
        "annotators": len(active),
        "ties, skips": ", ".join(
            str(sum(answer.choice == name for answer in answers)) for name in ("tie", "skip")
        ),
        "agreement (Krippendorff's alpha)": alpha_text(alpha),
        "same answer to a repeated pair": share_text(
            sum(p.consistent for p in active), sum(p.repeats for p in active)
        ),
        "expected answer to an obvious pair": share_text(
            sum(p.sane for p in active), sum(p.obvious for p in active)
        ),
        "median time of an answer": f"{np.median(times) / 1000:.1f} s" if times else "unknown",
        "weights of annotators": weights,
        "steps of a fragment": len(rows[0].first),
        "source of the fragments": one_line(header.source),
        "question": one_line(header.question, None),
        "digest of the set": labels.set_id,
        "digest of the data file": digest,
    }
    environment = header.env or "an environment that was not named"
    return _markdown(f"Human preferences on {_cell(environment)}", facts)


def imported_card(
    env: str, length: int, counts: dict[str, int], digest: str, *, human: bool
) -> str:
    """Returns the card of preferences in the format of Uni-RLHF.

    Args:
        env: Name of the labelled data set.
        length: Steps of a segment.
        counts: Number of labels by what they mean.
        digest: Digest of the data file.
        human: Whether people gave the labels.
    """
    facts: dict[str, object] = {
        "pairs": sum(counts.values()),
        **{f"labels: {name}": count for name, count in counts.items()},
        "labels by": "people" if human else "a script",
        "steps of a segment": length,
        "format of the source": "Uni-RLHF",
        "digest of the data file": digest,
    }
    return _markdown(f"Preferences on {_cell(one_line(env, 80))}", facts)


def _markdown(title: str, facts: dict[str, object]) -> str:
    table = "\n".join(f"| {name} | {_cell(value)} |" for name, value in facts.items())
    return (
        f"---\n{yaml.safe_dump(_METADATA, sort_keys=False)}---\n"
        f"# {title}\n\n| | |\n|---|---|\n{table}\n\n{_COLUMNS}"
    )


def _cell(value: object) -> str:
    """Text in a table of Markdown, in which nothing is markup."""
    return str(value).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
