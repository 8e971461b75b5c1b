"""Says in sentences what a table decides: who leads and by how much, and what is saturated.

Sentences claim no more than the tiers do: a method leads if it is decided to be better than each
of the next tier, in both ways of acting and after Holm's correction, see `docs/statistics.md`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from imitbench.records.bundled_cards import bundled_suite
from imitbench.report import text
from imitbench.report.leaderboard.model import (
    LEAST_SEEDS,
    TRACKS,
    BoardRow,
    BoardSection,
    submitter_text,
)
from imitbench.report.leaderboard.table_alarms import MARGIN, TableAlarm, table_alarms
from imitbench.report.model import StatisticsSettings
from imitbench.stats.bootstrap import Interval
from imitbench.stats.decided_pairs import PairOutcome
from imitbench.stats.significance import holm, significance_at

Kind = Literal["leader", "tied", "undecided", "circle", "alone"]
"""What a track decides: one method leads; several share the first of several tiers; nothing; some
beat each other in a circle; there is one method only."""

MOST_NAMES = 6
"""Names of an enumeration; of more, the rest is counted."""


@dataclass(frozen=True)
class TrackAnswer:
    """What is decided among the methods of a track.

    Attributes:
        track: The track.
        kind: Kind of the answer.
        lead: The answer in a few words, without a full stop.
        more: What follows it, up to the full stop: differences, and who comes next.
        caveat: Sentence on how values of the first tier were chosen; empty without a reason.
    """

    track: str
    kind: Kind
    lead: str
    more: str = ""
    caveat: str = ""

    @property
    def text(self) -> str:
        """The whole answer, as sentences."""
        return f"{self.lead}{self.more}.{' ' * bool(self.caveat)}{self.caveat}"


@dataclass(frozen=True)
class Answer:
    """What a table says.

    Attributes:
        headline: The shortest true answer, as a sentence.
        tracks: Answers of the tracks that have methods with a tier, in the order of tracks.
        alone: Sentence on the methods that nobody else of their track is compared with.
        provisional: Sentence on methods with too few seeds.
        rewards: Sentences on learned rewards with other dynamics.
        coverage: Sentence on environments of the suite that the table lacks.
        saturated: Sentence on what cannot tell the best methods apart.
        all_saturated: Whether that is so on every environment.
        alarms: All alarms of the table.

    Sentences without content are empty.
    """

    headline: str
    tracks: tuple[TrackAnswer, ...]
    alone: str
    provisional: str
    rewards: str
    coverage: str
    saturated: str
    all_saturated: bool
    alarms: tuple[TableAlarm, ...]

    @property
    def compared(self) -> tuple[TrackAnswer, ...]:
        """Answers of the tracks in which methods are compared."""
        return tuple(track for track in self.tracks if track.kind != "alone")

    @property
    def sentences(self) -> list[str]:
        """All of it as sentences, the headline first."""
        tracks = [f"{TRACKS[track.track].capitalize()}: {track.text}" for track in self.compared]
        rest = (self.alone, self.provisional, self.rewards, self.coverage, self.saturated)
        return [self.headline, *tracks, *filter(None, rest)]


def answer_of(part: BoardSection, method: StatisticsSettings) -> Answer:
    """Returns what a table says, at the confidence of the board.

    Args:
        part: The table.
        method: Settings of the board's statistics.
    """
    ranked = [row for row in part.rows if row.rank is not None and row.track]
    by_track: dict[str, list[BoardRow]] = {track: [] for track in TRACKS}
    for row in ranked:
        by_track[row.track].append(row)
    tracks = tuple(
        _track_answer(part, track, rows)
        for track, rows in by_track.items()
        if any(row.tier for row in rows)
    )
    tiered = {row.said for row in ranked if row.tier}
    waiting = list(dict.fromkeys(row.said for row in ranked if row.said not in tiered))
    provisional = ""
    if waiting and tiered:
        have = "has" if len(waiting) == 1 else "have"
        provisional = (
            f"Provisional: {enumerated(waiting)} {have} fewer than {LEAST_SEEDS} seeds, and so "
            "no tier."
        )
    alarms = table_alarms(part, method)
    full = {alarm.environment for alarm in alarms if alarm.kind == "saturated"}
    environments = len(part.section.environments)
    saturated = environments if "" in full else len(full)
    return Answer(
        headline=_headline(tracks, ranked, environments, saturated),
        tracks=tracks,
        alone=_alone(tracks),
        provisional=provisional,
        rewards=_rewards(part, method),
        coverage=_coverage(part),
        saturated=_saturated(part, alarms),
        all_saturated=saturated == environments,
        alarms=alarms,
    )


def _headline(
    tracks: Sequence[TrackAnswer],
    ranked: Sequence[BoardRow],
    environments: int,
    saturated: int,
) -> str:
    if not ranked:
        return "No answer: no method has sound runs on every environment."
    if not tracks:
        return f"No answer yet: every method has fewer than {LEAST_SEEDS} seeds."
    if saturated == environments:
        return "Saturated: on every environment, several methods are as good as the expert."
    decided = _decided(tracks)
    if not saturated:
        return decided
    flag = f"1 of {environments} environments is saturated"
    if saturated > 1:
        flag = f"{saturated} of {environments} environments are saturated"
    return f"{decided} {flag}."


def _decided(tracks: Sequence[TrackAnswer]) -> str:
    """Returns what is decided between methods, as a sentence."""
    leading = []
    for track in tracks:
        if track.kind == "leader":
            leading.append(f"{track.lead} among {TRACKS[track.track]}")
        elif track.kind == "tied":
            leading.append(f"{track.lead} of {TRACKS[track.track]}")
    if leading:
        return f"{'; '.join(leading)}."
    compared = [track for track in tracks if track.kind != "alone"]
    if not compared:
        return f"Nothing to decide yet: no two methods of a track have {LEAST_SEEDS} seeds."
    if len(compared) == 1:
        return f"Nothing is decided: {compared[0].lead}."
    return "Nothing is decided: no method is shown to be better than all others of its track."


def _alone(tracks: Sequence[TrackAnswer]) -> str:
    names = [
        f"{track.lead[:-1]}; {track.track})"
        if track.lead.endswith(")")
        else f"{track.lead} ({track.track})"
        for track in tracks
        if track.kind == "alone"
    ]
    if not names:
        return ""
    return f"Alone in {'its track' if len(names) == 1 else 'their tracks'}: {enumerated(names)}."


def _coverage(part: BoardSection) -> str:
    card = bundled_suite(part.section.suite)
    own = part.section.environments
    if card is None or set(card.ordinary) <= {*own}:
        return ""
    return f"On {len(own)} of the {len(card.ordinary)} environments of the suite."


def _rewards(part: BoardSection, method: StatisticsSettings) -> str:
    """Says whose rewards are worth more or less than their policies, with other dynamics."""
    said = {row.result.algorithm: row.said for row in part.rows if row.result.role == "method"}
    shared = Counter(said.values())
    names = {key: name if shared[name] == 1 else key for key, name in said.items()}
    summaries = part.section.reward_summaries
    several = len({summary.optimizer for summary in summaries}) > 1
    tested = {
        f"{names[summary.algorithm]}{f', {summary.optimizer.upper()}' * several}": summary
        for summary in summaries
        if summary.algorithm in names and not math.isnan(summary.gain_p)
    }
    if not tested:
        return ""
    p_values = holm({name: summary.gain_p for name, summary in tested.items()})
    gains = {
        name: tested[name].scores["gain"]
        for name, p_value in p_values.items()
        if p_value <= significance_at(method.level)
    }
    ordered = sorted(gains, key=lambda name: -gains[name].point)
    more = [f"{name} (by {_amount(gains[name])})" for name in ordered if gains[name].point > 0]
    less = [name for name in ordered if gains[name].point < 0]
    than = "than the policies that came along"
    if more:
        found = f"fresh policies on those of {enumerated(more)} score more {than}"
        found += f", on those of {enumerated(less)} less" if less else ""
    else:
        found = f"on those of no method, fresh policies are shown to score more {than}"
        found += f"; on those of {enumerated(less)} they score less" if less else ""
    return f"Rewards with other dynamics: {found}."


def _track_answer(part: BoardSection, track: str, rows: Sequence[BoardRow]) -> TrackAnswer:
    """Returns the answer of a track of which a row has a tier; the rows are sorted by IQM."""
    tiers: dict[int, list[BoardRow]] = defaultdict(list)
    for row in rows:
        if row.tier:
            tiers[row.tier].append(row)
    names = _names(tiers)
    best, later = tiers[1], [row for tier in sorted(tiers) for row in tiers[tier] if tier > 1]
    leaders = _said(best, names)
    if not later and len(leaders) == 1:
        return TrackAnswer(track, "alone", leaders[0])
    circle = next((own for own in tiers.values() if _beaten(part, own, own)), [])
    if circle and (circle is best or circle is tiers[2]):
        lead = f"{enumerated(_said(circle, names))} beat each other in a circle"
        return TrackAnswer(track, "circle", lead, ", so none of them leads")
    if not later:
        return TrackAnswer(track, "undecided", f"{enumerated(leaders)} cannot be told apart")
    more = _ahead(part, best, tiers[2], names)
    rest = [name for name in _said(later, names) if name != _name(tiers[2][0], names)]
    if rest:
        more += f"; lower as well: {enumerated(rest)}"
    informed = [
        row for row in best if any(disclosure.published_seeds for disclosure in row.disclosures)
    ]
    caveat = ""
    if informed:
        caveat = f"Published seeds had a say in the values of {enumerated(_said(informed, names))}."
    if len(leaders) > 1:
        lead = f"{enumerated(leaders)} cannot be told apart in the first tier"
        return TrackAnswer(track, "tied", lead, more, caveat)
    return TrackAnswer(track, "leader", f"{leaders[0]} leads", more, caveat)


def _ahead(
    part: BoardSection,
    best: Sequence[BoardRow],
    following: Sequence[BoardRow],
    names: Mapping[str, str],
) -> str:
    """Returns by how much the best one of the next tier is behind, in both ways of acting."""
    loser = following[0]
    winner = next(row for row in best if _beaten(part, [row], [loser]))
    pair = winner.result.algorithm, loser.result.algorithm
    sampled = difference(part.pairs, *pair)
    likely = difference(part.likely_pairs, *pair)
    by = "" if sampled is None else f" by {_amount(sampled)} with {text.ACTIONS['sampled']}"
    if by and likely is not None:
        by += f" and {_amount(likely)} with {text.ACTIONS['likely']}"
    if len(_said(best, names)) == 1:
        return f", ahead of {_name(loser, names)}{by}"
    return f"; {_name(winner, names)} is ahead of {_name(loser, names)}, the next one,{by}"


def difference(
    outcomes: Mapping[tuple[str, str], PairOutcome], first: str, second: str
) -> Interval | None:
    """Returns the difference of two IQMs, first minus second; `None` if it is unknown."""
    if (first, second) in outcomes:
        return outcomes[first, second].iqm
    if (second, first) not in outcomes:
        return None
    found = outcomes[second, first].iqm
    return Interval(-found.point, -found.high, -found.low, found.level)


def _amount(value: Interval) -> str:
    if not value.known:
        return text.score(value.point)
    return f"{text.score(value.point)} [{text.score(value.low)}, {text.score(value.high)}]"


def _beaten(
    part: BoardSection, winners: Sequence[BoardRow], losers: Sequence[BoardRow]
) -> list[BoardRow]:
    """Returns those of some rows that any of others is decided to be better than."""
    return [
        loser
        for loser in losers
        if any((row.result.algorithm, loser.result.algorithm) in part.decided for row in winners)
    ]


def _names(tiers: Mapping[int, Sequence[BoardRow]]) -> dict[str, str]:
    """Returns names by those of the results, with the submitter where tiers share a name."""
    held: dict[str, set[int]] = defaultdict(set)
    for tier, rows in tiers.items():
        for row in rows:
            held[row.said].add(tier)
    return {
        row.result.algorithm: f"{row.said} of {submitter_text(row)}"
        if len(held[row.said]) > 1
        else row.said
        for rows in tiers.values()
        for row in rows
    }


def _name(row: BoardRow, names: Mapping[str, str]) -> str:
    return names[row.result.algorithm]


def _said(rows: Iterable[BoardRow], names: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(_name(row, names) for row in rows))


def enumerated(names: Sequence[str]) -> str:
    """Returns names as part of a sentence; beyond `MOST_NAMES`, the rest is counted."""
    shown = list(names)
    if len(shown) > MOST_NAMES:
        shown = [*shown[: MOST_NAMES - 1], f"{len(shown) - MOST_NAMES + 1} others"]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _saturated(part: BoardSection, alarms: Iterable[TableAlarm]) -> str:
    full = [alarm for alarm in alarms if alarm.kind == "saturated"]
    if not full:
        return ""
    if "" in [alarm.environment for alarm in full] or len(part.section.environments) == 1:
        return full[0].text
    short = [alarm.environment.rpartition("/")[2] for alarm in full]
    return (
        f"Saturated: {len(full)} of {len(part.section.environments)} environments "
        f"({', '.join(short)}). On each of them several methods are as good as the expert, to "
        f"within {MARGIN:g} of the score: differences there say nothing about which is better "
        "elsewhere."
    )
