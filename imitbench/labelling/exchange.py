"""Takes answers out of a set, and into it: exports, imports, and merges of copies."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from pydantic import ValidationError

from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.algorithms.preference_comparisons.human_gatherer import Answer, AnswerFile, Choice
from imitbench.data.preference_table import (
    PreferenceRow,
    RecordedAnswer,
    read_preferences,
    write_preferences,
)
from imitbench.data.types import TrajectoryWithRewPair
from imitbench.errors import InputError
from imitbench.labelling.agreement import Alpha, AnnotatorSummary, agreement, summarize
from imitbench.labelling.answers import (
    LONGEST_NAME,
    Annotator,
    AnswerStore,
    GivenAnswer,
    Purpose,
)
from imitbench.labelling.label_set import LabelSet
from imitbench.untrusted import gate
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text, check_new_folder, digest_files, new_folder
from imitbench.util.text_line import one_line

Weights = Literal["equal", "obvious"]
DATA_FILE = Path("data") / "train-00000-of-00001.parquet"
CARD_FILE = "README.md"
_CHOICES: dict[float, Choice] = {1.0: "left", 0.0: "right", 0.5: "tie"}
_MOST_BYTES = 256 * 2**20


def summaries(labels: LabelSet, store: AnswerStore) -> list[tuple[Annotator, AnnotatorSummary]]:
    """Summarizes each annotator with their answers."""
    answers = store.answers()
    return [
        (
            person,
            summarize(
                person.number, [a for a in answers if a.annotator == person.number], labels.pairs
            ),
        )
        for person in store.annotators()
    ]


def preference_rows(
    labels: LabelSet, store: AnswerStore, *, weights: Weights = "equal", names: bool = False
) -> list[PreferenceRow]:
    """Combines the answers to each pair, in the order of the set.

    Args:
        labels: The set.
        store: Its answers.
        weights: Weight of annotators: all 1, or by their answers to obvious pairs, see
            `AnnotatorSummary.weight`.
        names: Whether to keep names of annotators; otherwise `annotator-1` and so on.

    Returns:
        A row per answered pair. Its preference is the weighted mean of the first answer of each
        annotator; repeats are recorded, but do not count twice.
    """
    people = summaries(labels, store)
    shown = {
        person.number: person.name if names else f"annotator-{person.number}"
        for person, _ in people
    }
    weight = {
        person.number: summary.weight() if weights == "obvious" else 1.0
        for person, summary in people
    }
    by_pair: dict[str, list[GivenAnswer]] = {}
    for answer in store.answers():
        by_pair.setdefault(answer.pair, []).append(answer)
    rows = []
    for pair in labels.header.pairs:
        given = by_pair.get(pair.digest, [])
        if not given:
            continue
        counted: dict[int, GivenAnswer] = {}
        for answer in given:
            if answer.purpose != "repeat" and not math.isnan(answer.preference):
                counted.setdefault(answer.annotator, answer)
        total = sum(weight[number] for number in counted)
        mean = sum(weight[n] * answer.preference for n, answer in counted.items())
        rows.append(
            PreferenceRow(
                pair.digest,
                labels.fragments[pair.first],
                labels.fragments[pair.second],
                mean / total if counted else None,
                total,
                [_recorded(a, shown[a.annotator], weight[a.annotator]) for a in given],
            )
        )
    if not rows:
        raise InputError(
            f"{labels.folder}: has no answers yet; give some with imitbench label {labels.folder}"
        )
    return rows


def _recorded(answer: GivenAnswer, name: str, weight: float) -> RecordedAnswer:
    preference = answer.preference
    return RecordedAnswer(
        annotator=name,
        preference=None if math.isnan(preference) else preference,
        choice=answer.choice,
        swapped=answer.swapped,
        purpose=answer.purpose,
        weight=weight,
        response_ms=answer.response_ms,
    )


def export(
    labels: LabelSet,
    store: AnswerStore,
    to: Path,
    *,
    weights: Weights = "equal",
    names: bool = False,
) -> list[PreferenceRow]:
    """Writes the preferences of a set; the ending of the path chooses the format.

    Args:
        labels: The set.
        store: Its answers.
        to: A new folder, for a data set with a card as on the hub; `.safetensors`, for a
            `PreferenceDataset`, without skips; or `.jsonl`, for one line per pair and annotator.
        weights: See `preference_rows`.
        names: See `preference_rows`.

    Raises:
        InputError: There are no answers, or something is at the path.
    """
    if to.suffix in (".safetensors", ".jsonl") and to.exists():
        raise InputError(f"{to}: exists; name a new file")
    rows = preference_rows(labels, store, weights=weights, names=names)
    try:
        if to.suffix == ".safetensors":
            as_dataset(rows).save(to)
        elif to.suffix == ".jsonl":
            atomic_write_text(to, "".join(_lines(rows)))
        else:
            check_new_folder(to)
            with new_folder(to) as draft:
                write_preferences(draft / DATA_FILE, rows)
                digest = digest_files(draft, [draft / DATA_FILE])
                people = [summary for _, summary in summaries(labels, store)]
                card = _preference_card(
                    labels, rows, people, agreement(store.answers()), digest, weights
                )
                atomic_write_text(draft / CARD_FILE, card)
    except OSError as error:
        raise InputError(f"{to}: cannot be written ({error.strerror})") from error
    return rows


def as_dataset(rows: Sequence[PreferenceRow]) -> PreferenceDataset:
    """The preferences as a training set, without pairs that all annotators skipped.

    Raises:
        InputError: All pairs were skipped.
    """
    known = [row for row in rows if row.preference is not None]
    if not known:
        raise InputError("all pairs were skipped: there is nothing to learn from")
    pairs: list[TrajectoryWithRewPair] = [(row.first, row.second) for row in known]  # type: ignore[misc]
    dataset = PreferenceDataset()
    preferences, weights = (
        np.array([getattr(row, name) for row in known], dtype=np.float32)
        for name in ("preference", "weight")
    )
    dataset.push(pairs, preferences, weights)
    return dataset


def _lines(rows: Sequence[PreferenceRow]) -> list[str]:
    """A line per pair and annotator: pair, preference (null for a skip), annotator and weight."""
    lines = []
    for row in rows:
        for answer in row.answers:
            if answer.purpose == "repeat":
                continue
            line = {
                "pair": row.pair,
                "preference": answer.preference,
                "annotator": answer.annotator,
                "weight": answer.weight,
            }
            lines.append(json.dumps(line) + "\n")
    return lines


def import_answers(labels: LabelSet, store: AnswerStore, source: Path, annotator: str) -> int:
    """Adds answers from a file; those that are there already are not added again.

    Args:
        labels: The set.
        store: Its answers.
        source: A folder or Parquet file of `export`; lines of `export`, or the answer file of
            `SynchronousHumanGatherer` (`.jsonl`); or the database of a copy of the set (`.sqlite`).
        annotator: Name for answers without a name.

    Returns:
        Number of added answers.

    Raises:
        InputError: The file is damaged, or has no answer to a pair of this set.
    """
    if source.suffix == ".sqlite":
        return merge(labels, store, source)
    if source.suffix == ".jsonl":
        found = gate.checked(lambda: _read_lines(source, annotator), source)
    else:
        table = source / DATA_FILE if source.is_dir() else source
        found = gate.checked(lambda: _read_table(table), source)
    own = [(name, answer) for name, answer in found if answer.pair in labels.pairs]
    if not own:
        raise InputError(
            f"{source}: has no answer to a pair of {labels.folder}; name answers to this set"
        )
    known, added = store.keys(), []
    given = {_what(answer) for answer in store.answers()}
    for name, answer in own:
        key = _import_key(name, answer)
        if key not in known:
            known.add(key)
            moved = replace(answer, key=key, annotator=store.annotator(name).number)
            if moved.purpose == "new" and labels.pairs[moved.pair].expected is not None:
                moved = replace(moved, purpose="obvious")  # lines do not say it
            if _what(moved) not in given:
                added.append(moved)
    store.add(added)
    return len(added)


def _what(answer: GivenAnswer) -> tuple[object, ...]:
    """What an answer that was given on the page has in common with an export of it."""
    preference = None if answer.choice == "skip" else answer.preference
    return answer.annotator, answer.pair, answer.purpose, preference


def _import_key(name: str, answer: GivenAnswer) -> str:
    content = f"{name}\n{answer.pair}\n{answer.purpose}\n{answer.preference}"
    return f"import-{hashlib.sha256(content.encode()).hexdigest()[:40]}"


def _imported(
    pair: str,
    choice: Choice,
    *,
    swapped: bool = False,
    purpose: Purpose = "new",
    response_ms: int | None = None,
) -> GivenAnswer:
    return GivenAnswer("", 0, None, pair, purpose, swapped, choice, response_ms, time.time())


def _read_table(path: Path) -> list[tuple[str, GivenAnswer]]:
    found = []
    for row in read_preferences(path):
        for answer in row.answers:
            try:
                checked = Answer.model_validate(
                    {"choice": answer.choice, "swapped": answer.swapped}
                )
            except ValidationError as error:
                raise InputError(f"{path}: an answer that the page cannot give") from error
            given = _imported(
                row.pair,
                checked.choice,
                swapped=checked.swapped,
                purpose=_purpose(answer.purpose, path),
                response_ms=answer.response_ms,
            )
            found.append((str(answer.annotator), given))
    return found


def _purpose(text: str, path: Path) -> Purpose:
    if text not in ("new", "repeat", "obvious"):
        raise InputError(f"{path}: an answer of purpose '{one_line(text, 20)}'; export it again")
    return text  # type: ignore[return-value]


def _read_lines(path: Path, annotator: str) -> list[tuple[str, GivenAnswer]]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path}: is larger than any file of answers")
        content = read_content(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error, 80)})") from error
    if '"answer"' in content.partition("\n")[0]:
        return [
            (annotator, _imported(pair, answer.choice, swapped=answer.swapped))
            for pair, answer in AnswerFile(path, read_only=True).items()
        ]
    found = []
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            found.append(_read_line(line, f"{path}, line {number}", annotator))
    return found


def _read_line(line: str, where: str, annotator: str) -> tuple[str, GivenAnswer]:
    try:
        entry: dict[str, Any] = json.loads(line)
        pair, preference = entry["pair"], entry["preference"]
        name = entry.get("annotator") or annotator
        choice: Choice = "skip" if preference is None else _CHOICES[preference]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{where}: not an answer with pair and preference (0, 0.5, 1 or null); correct or "
            "remove the line"
        ) from error
    return str(name), _imported(str(pair), choice)


def merge(labels: LabelSet, store: AnswerStore, source: Path) -> int:
    """Adds the answers of a copy of the set.

    Annotators with the same link are the same; others of the same name get a number. If one
    annotator answered a position in both copies, the answer of this copy stays.

    Args:
        labels: The set.
        store: Its answers.
        source: The copy's folder, or its database.

    Returns:
        Number of added answers.

    Raises:
        InputError: It is not a copy of this set.
    """
    path = source / labels.answers_path.name if source.is_dir() else source
    if not path.is_file():
        raise InputError(f"{path}: there are no answers; name a copy of {labels.folder}")
    if path.resolve() == labels.answers_path.resolve():
        raise InputError(f"{path}: are the answers of this set already; name a copy")
    other = AnswerStore(path, labels.set_id)
    try:
        numbers = _match_people(store, other.annotators())
        theirs = other.answers()
    finally:
        other.close()
    known, taken, added = store.keys(), store.positions(), []
    for answer in theirs:
        moved = replace(answer, annotator=numbers[answer.annotator])
        position = moved.annotator, moved.position
        if moved.key not in known and (moved.position is None or position not in taken):
            added.append(moved)
    store.add(added)
    return len(added)


def _match_people(store: AnswerStore, others: Sequence[Annotator]) -> dict[int, int]:
    """Numbers in this database of the annotators of another; adds those that are missing."""
    own = store.annotators()
    by_token = {person.token: person.number for person in own}
    names = {person.name.casefold() for person in own}
    numbers = {}
    for person in others:
        if person.token not in by_token:
            name, count = person.name, 2
            while name.casefold() in names:
                mark = f" ({count})"
                name, count = person.name[: LONGEST_NAME - len(mark)].rstrip() + mark, count + 1
            names.add(name.casefold())
            token = person.token or secrets.token_urlsafe(18)
            by_token[person.token] = store.add_annotator(name, token, person.stream).number
        numbers[person.number] = by_token[person.token]
    return numbers


# The card (`README.md`) of exported preferences, as the hub displays it.
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


def _preference_card(
    labels: LabelSet,
    rows: Sequence[PreferenceRow],
    people: Sequence[AnnotatorSummary],
    alpha: Alpha,
    digest: str,
    weights: str,
) -> str:
    """Markdown with the hub's metadata; only the owner of the answers knows the license."""
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
