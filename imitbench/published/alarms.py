"""Signs of invented or copied results, which are warnings: each may have an innocent reason.

Thresholds are such that honest runs give an alarm about once in 10,000 tests. The results that ship
with this package give none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import combinations, count, islice
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from imitbench.published.run_checks import parse_time
from imitbench.records.published import PublishedRun
from imitbench.records.runs import RunSpec
from imitbench.util.text_line import one_line

FRESH = 1000
"""First of the seeds that no search and no look at results may use before they are published."""

Kind = Literal["alike", "smooth", "grid", "repeated", "seeds", "times", "copies"]
KINDS: tuple[Kind, ...] = get_args(Kind)

MEANINGS: dict[Kind, str] = {
    "alike": "means of seeds differ less than their episodes allow",
    "smooth": "returns rise, fall or alternate from episode to episode",
    "grid": "returns are rounded",
    "repeated": "episodes occur again, in the same run or in another",
    "seeds": "seeds are not counted from 0, or from 1000",
    "times": "durations, dates or speeds contradict each other",
    "copies": "another submission has the same episodes, or nearly the same",
}
"""What each kind of alarm tells."""

_RARE = 1e-4  # probability of an honest cell below which seeds are too much alike
_ORDERED = 0.65  # rank correlation of neighbors; of 50 honest episodes, one run in 100,000 has it
_FEW = 10  # episodes below which order says nothing
_DECIMALS = 6
_DYADIC = 64.0  # sums of halves, quarters, … are exact without rounding
_DISTINCT = 0.9  # share of different returns where an equal one is no coincidence
_SHARED = 2
_IN_A_ROW, _KINDS_IN_A_ROW = 8, 4
_FASTEST = 1e6  # environment steps a second
_SLACK = timedelta(minutes=5)  # clocks are set now and then
_AHEAD = timedelta(days=1)
_MOST_PAIRS = 100_000
# Good policies earn similar returns from the same starts. Of the published runs, the closest two of
# DAgger differ in the median episode by 0.0008 standard deviations, and the closest two of
# different methods by 0.003. A copy differs by less.
_NEAR = 1e-4  # standard deviations, or quartile ranges, between nearly equal returns
_NEAR_SHARE = 0.5  # of the episodes, which must be nearly equal
_FEWEST_NEAR = 8  # episodes, below which near returns say nothing
_MOST_NUMBERS = 200_000_000  # compared; takes seconds

Returns = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Alarm:
    """A sign of fraud that may have an innocent reason.

    Attributes:
        kind: What the sign is, see `MEANINGS`.
        where: Algorithm, environment and seeds.
        what: What was found.
    """

    kind: Kind
    where: str
    what: str

    def __str__(self) -> str:
        return one_line(f"{self.where}: {self.what}", None)


def find_alarms(runs: Iterable[PublishedRun], raced: Iterable[str] = ()) -> list[Alarm]:
    """Looks for signs of invented results in one submission.

    Args:
        runs: Its runs.
        raced: Settings (`RunSpec.setting`) of runs whose seeds follow from a race.
    """
    every = list(runs)
    done = [run for run in every if _is_complete(run)]
    cells: dict[str, list[PublishedRun]] = defaultdict(list)
    for run in done:
        cells[run.spec.setting].append(run)
    alarms: list[Alarm] = []
    for cell in cells.values():
        cell.sort(key=lambda run: run.spec.seed)
        alarms += _alike(cell)
        alarms += _repeated(cell)
    for run in done:
        alarms += _smooth(run)
        alarms += _odd_times(run)
    alarms += _on_a_grid(done)
    alarms += _same_tables(done)
    alarms += _same_durations(done)
    alarms += _odd_seeds(every, set(raced))
    return sorted(alarms, key=lambda alarm: KINDS.index(alarm.kind))


def _is_complete(run: PublishedRun) -> bool:
    return run.episodes is not None and bool(np.isfinite(run.episodes.returns).all())


def _alike(cell: Sequence[PublishedRun]) -> Iterator[Alarm]:
    """Compares the spread between seeds with the least that evaluation noise makes."""
    from scipy.special import gammainc

    returns = [_returns(run, deterministic=False) for run in cell]
    if len(cell) < 3 or min(map(len, returns)) < 2:
        return
    noise = float(np.mean([run_returns.var(ddof=1) / len(run_returns) for run_returns in returns]))
    means = np.array([run_returns.mean() for run_returns in returns])
    if noise <= 1e-18 * max(1.0, float((means**2).mean())):
        return
    statistic = float(((means - means.mean()) ** 2).sum()) / noise
    probability = float(gammainc((len(cell) - 1) / 2, statistic / 2))  # chi-squared
    if probability < _RARE:
        what = (
            f"means of {len(cell)} seeds spread by {means.std(ddof=1):.3g}; episodes alone make "
            f"{noise**0.5:.3g} (probability {probability:.0e})"
        )
        yield Alarm("alike", _cell_name(cell[0].spec), what)


def _smooth(run: PublishedRun) -> Iterator[Alarm]:
    for deterministic in (False, True):
        found = _returns(run, deterministic=deterministic)
        if len(found) < _FEW or len(np.unique(found)) < len(found) / 2:
            continue
        ranks = found.argsort().argsort()
        correlation = float(np.corrcoef(ranks[:-1], ranks[1:])[0, 1])
        if abs(correlation) > _ORDERED:
            how = "follow" if correlation > 0 else "alternate with"
            what = f"returns {how} the episode before (rank correlation {correlation:.2f})"
            yield Alarm("smooth", run.spec.label, what)
            return


def _on_a_grid(runs: Sequence[PublishedRun]) -> Iterator[Alarm]:
    """Finds returns with few decimals, and whole ones where other runs have fractions."""
    free = {_task(run.spec) for run in runs if _decimals(_all_returns(run)) is None}
    for run in runs:
        decimals = _decimals(_all_returns(run))
        if decimals is None or (_is_dyadic(_all_returns(run)) and _task(run.spec) not in free):
            continue
        if len(np.unique(_all_returns(run))) > 1:
            words = "whole numbers" if decimals == 0 else f"rounded to {decimals} decimals"
            yield Alarm("grid", run.spec.label, f"all returns are {words}")


def _decimals(returns: Returns) -> int | None:
    for decimals in range(_DECIMALS + 1):
        if np.array_equal(np.round(returns, decimals), returns):
            return decimals
    return None


def _is_dyadic(returns: Returns) -> bool:
    scaled = returns * _DYADIC
    return bool(np.array_equal(np.round(scaled), scaled))


def _repeated(cell: Sequence[PublishedRun]) -> Iterator[Alarm]:
    """Finds episodes that occur again with the same setting."""
    for run in cell:
        for deterministic in (False, True):
            found = _returns(run, deterministic=deterministic)
            again = _repeats_itself(found)
            if again:
                what = f"{again} episodes occur again in the same order"
                yield Alarm("repeated", run.spec.label, what)
                break
    if _all_different(cell):
        return
    for one, other in _pairs(cell):
        number = max(
            _shared(
                _returns(one, deterministic=deterministic),
                _returns(other, deterministic=deterministic),
            )
            for deterministic in (False, True)
        )
        if number:
            what = f"seeds {one.spec.seed} and {other.spec.seed} share {number} episodes"
            yield Alarm("repeated", _cell_name(one.spec), what)


def _all_different(cell: Sequence[PublishedRun]) -> bool:
    """Whether no return occurs twice with one policy, as usual; then no pair shares any."""
    for deterministic in (False, True):
        returns = np.concatenate([_returns(run, deterministic=deterministic) for run in cell])
        if len(np.unique(returns)) < len(returns):
            return False
    return True


def _pairs(cell: Sequence[PublishedRun]) -> Iterator[tuple[PublishedRun, PublishedRun]]:
    yield from islice(combinations(cell, 2), _MOST_PAIRS)


def _shared(one: Returns, other: Returns) -> int:
    """Returns the number of episodes that two runs have in common beyond coincidence; or 0."""
    if _is_varied(one) and _is_varied(other):
        both = len(np.intersect1d(one, other))
        return both if both >= _SHARED else 0
    length = min(len(one), len(other))
    return _longest(one[:length] == other[:length], one[:length])


def _repeats_itself(returns: Returns) -> int:
    kinds = len(np.unique(returns))
    if kinds == len(returns) or kinds < _KINDS_IN_A_ROW:
        return 0
    for shift in range(1, len(returns) - _IN_A_ROW + 1):
        again = _longest(returns[:-shift] == returns[shift:], returns[:-shift])
        if again:
            return again
    return 0


def _longest(equal: npt.NDArray[np.bool_], returns: Returns) -> int:
    """Returns the longest sequence of equal episodes with different returns; 0 if it is short."""
    if int(equal.sum()) < _IN_A_ROW:
        return 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], equal, [False]]).astype(int)))
    starts, ends = edges[::2], edges[1::2]
    best = 0
    for which in np.flatnonzero(ends - starts >= _IN_A_ROW):
        start, end = int(starts[which]), int(ends[which])
        if len(np.unique(returns[start:end])) >= _KINDS_IN_A_ROW:
            best = max(best, end - start)
    return best


def _is_varied(returns: Returns) -> bool:
    enough = len(np.unique(returns)) >= _DISTINCT * len(returns) and len(returns) > 1
    return enough and not _is_dyadic(returns)


def _same_tables(runs: Sequence[PublishedRun]) -> Iterator[Alarm]:
    """Finds the episodes of a run in a run of another algorithm."""
    first: dict[Hashable, PublishedRun] = {}
    by_task: dict[Hashable, list[PublishedRun]] = defaultdict(list)
    for run in runs:
        if not _is_varied(_returns(run, deterministic=False)):
            continue
        before = first.setdefault((_task(run.spec), _fingerprint(run)), run)
        if before.spec.algo != run.spec.algo:
            what = f"all episodes are those of {before.spec.label}"
            yield Alarm("repeated", run.spec.label, what)
        elif before is run:
            by_task[_task(run.spec)].append(run)
    for group in by_task.values():
        for one, other in _near(group):
            before, run = group[one], group[other]
            if before.spec.algo != run.spec.algo:
                what = f"episodes are nearly those of {before.spec.label}"
                yield Alarm("repeated", run.spec.label, what)


def _odd_times(run: PublishedRun) -> Iterator[Alarm]:
    assert run.result is not None
    result, where = run.result, run.spec.label
    started, finished = parse_time(result.started_at), parse_time(result.finished_at)
    if started is None or finished is None:  # a problem already
        return
    lasted = finished - started
    if result.wall_s * (run.spec.pack or 1) > (lasted + _SLACK).total_seconds():
        what = f"wall_s is {result.wall_s:.6g}, but it ended {lasted.total_seconds():.6g} s after"
        yield Alarm("times", where, f"{what} it started")
    if finished > datetime.now(timezone.utc) + _AHEAD:
        yield Alarm("times", where, f"it finished in the future, {finished.isoformat()}")
    if result.env_steps > _FASTEST * max(result.train_s, 1e-3):
        what = f"{result.env_steps} environment steps in {result.train_s:.3g} s of training"
        yield Alarm("times", where, what)


def _same_durations(runs: Sequence[PublishedRun]) -> Iterator[Alarm]:
    """Finds runs with the same seconds of training, to the last digit."""
    first: dict[float, PublishedRun] = {}
    for run in runs:
        assert run.result is not None
        seconds = run.result.train_s
        if run.spec.pack or not seconds or _is_dyadic(np.array([seconds])):
            continue
        before = first.setdefault(seconds, run)
        if before is not run:
            what = f"train_s is {seconds!r}, the same as of {before.spec.label}"
            yield Alarm("times", run.spec.label, what)


def _odd_seeds(runs: Sequence[PublishedRun], raced: set[str]) -> Iterator[Alarm]:
    suites: dict[str, set[int]] = defaultdict(set)
    for run in runs:
        if run.spec.setting not in raced:
            suites[run.spec.suite].add(run.spec.seed)
    for suite, seeds in sorted(suites.items()):
        parts = [seed for seed in seeds if seed < FRESH], [seed for seed in seeds if seed >= FRESH]
        for begin, part in zip((0, FRESH), parts, strict=True):
            unused = next(seed for seed in count(begin) if seed not in part)
            if part and unused < max(part):
                what = f"seeds are not counted from {begin}: {unused} is not among them"
                yield Alarm("seeds", one_line(suite, 60), what)


def find_copies(
    submissions: Mapping[str, Sequence[PublishedRun]], only: Sequence[str] | None = None
) -> dict[str, list[Alarm]]:
    """Looks for runs with the same episodes, or nearly the same, in different submissions.

    The same specification gives the same episodes again with the same versions on the same kind of
    processor. Then the durations differ; where these are equal, too, one is a copy.

    Args:
        submissions: Runs by the name of their submission.
        only: Names of submissions to report on; `None` for all.

    Returns:
        Alarms by the name of the submission.
    """
    by_task: dict[Hashable, list[tuple[str, PublishedRun]]] = defaultdict(list)
    for name, runs in submissions.items():
        for run in filter(_is_complete, runs):
            by_task[_task(run.spec)].append((name, run))
    found: dict[tuple[str, str, str, str], list[PublishedRun]] = defaultdict(list)
    for group in by_task.values():
        everyone = [run for _, run in group]
        for words, pairs in (("", _equal(everyone)), ("nearly ", _near(everyone))):
            for pair in pairs:
                for one, two in (pair, pair[::-1]):
                    (name, run), (other, same) = group[one], group[two]
                    if name != other and (only is None or name in only) and _tell(run, same):
                        relation = _relation(run, same, near=bool(words))
                        found[name, other, words, relation].append(run)
    alarms: dict[str, list[Alarm]] = defaultdict(list)
    for (name, other, words, relation), runs in sorted(found.items()):
        example = min(run.spec.label for run in runs)
        number = len({run.spec.run_id for run in runs})
        what = f"{number} run{'s' * (number > 1)} with {words}the episodes of {one_line(other, 60)}"
        alarms[name].append(Alarm("copies", example, f"{what}, {relation}"))
    return dict(alarms)


def _equal(runs: Sequence[PublishedRun]) -> Iterator[tuple[int, int]]:
    """Yields the numbers of runs in one environment with the same episodes."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, run in enumerate(runs):
        groups[_fingerprint(run)].append(number)
    for group in groups.values():
        yield from combinations(group, 2)


def _near(runs: Sequence[PublishedRun]) -> Iterator[tuple[int, int]]:
    """Yields the numbers of runs in one environment whose episodes differ, but hardly."""
    returns = {number: _returns(run, deterministic=False) for number, run in enumerate(runs)}
    varied = [number for number, run_returns in returns.items() if _is_varied(run_returns)]
    for one, other in near_pairs([returns[number] for number in varied]):
        pair = varied[one], varied[other]
        if _fingerprint(runs[pair[0]]) != _fingerprint(runs[pair[1]]):
            yield pair


def _tell(run: PublishedRun, other: PublishedRun) -> bool:
    """Whether equal episodes say anything: good policies may all reach the same returns."""
    if run.spec.run_id == other.spec.run_id:
        return len(np.unique(_all_returns(run))) >= _KINDS_IN_A_ROW
    trained = "none" not in (run.spec.budget.unit, other.spec.budget.unit)
    renamed = run.spec.algo != other.spec.algo
    return (trained or renamed) and _is_varied(_returns(run, deterministic=False))


def _relation(run: PublishedRun, other: PublishedRun, *, near: bool) -> str:
    one, two = run.result, other.result
    assert one is not None and two is not None
    if (one.train_s, one.wall_s) == (two.train_s, two.wall_s):
        return "and its durations to the last digit: one is a copy"
    if run.spec.run_id != other.spec.run_id:
        return "but other settings: one is a copy under another name"
    if near:
        return "trained again with other versions or on another processor, or a copy with noise"
    if _setting(run) == _setting(other):
        return "trained again with the same versions and processor, or copied"
    return "although versions or processor differ, which rarely gives the same bits"


def _setting(run: PublishedRun) -> tuple[object, ...]:
    came = run.provenance
    return came.imitbench, came.python, came.packages, came.cpu, came.gpu


def _fingerprint(run: PublishedRun) -> Hashable:
    assert run.episodes is not None
    return run.episodes.returns.tobytes(), run.episodes.lengths.tobytes()


def _all_returns(run: PublishedRun) -> Returns:
    assert run.episodes is not None
    return run.episodes.returns


def _returns(run: PublishedRun, *, deterministic: bool) -> Returns:
    assert run.episodes is not None
    found: Returns = run.episodes.returns[run.episodes.deterministic == deterministic]
    return found


def _task(spec: RunSpec) -> tuple[str, str]:
    return spec.suite, spec.environment.id


def _cell_name(spec: RunSpec) -> str:
    return one_line(f"{spec.algo_label} on {spec.environment.id}", 300)


def near_pairs(returns: Sequence[Returns]) -> Iterator[tuple[int, int]]:
    """Yields the numbers of runs with nearly the same returns, the smaller one first.

    Returns are compared episode by episode, so that a copy is found of which a part was changed,
    and as sorted sets after a shift and a rescaling, so that their order and unit do not matter.

    Args:
        returns: Returns of each run; all in the same environment, and with enough different values
            to say something.
    """
    by_length: dict[int, list[int]] = {}
    for number, run_returns in enumerate(returns):
        if len(run_returns) >= _FEWEST_NEAR:
            by_length.setdefault(len(run_returns), []).append(number)
    left = _MOST_NUMBERS
    for length, numbers in by_length.items():
        table = np.array([returns[number] for number in numbers])
        scale = table.std(axis=1)
        ranked = _standardized(np.sort(table, axis=1))
        for row in range(len(numbers) - 1):
            left -= length * (len(numbers) - row)
            if left < 0:
                return
            bound = _NEAR * np.minimum(scale[row], scale[row + 1 :])[:, None]
            near = _most(np.abs(table[row + 1 :] - table[row]) <= bound)
            near |= _most(np.abs(ranked[row + 1 :] - ranked[row]) <= _NEAR)
            for other in np.flatnonzero(near):
                yield numbers[row], numbers[row + 1 + int(other)]


def _standardized(ordered: Returns) -> Returns:
    """Returns sorted rows with median 0 and a distance of 1 between the quartiles."""
    low, middle, high = np.percentile(ordered, (25, 50, 75), axis=1)
    width = np.where(high > low, high - low, np.nan)  # without a scale, nothing is near
    found: Returns = (ordered - middle[:, None]) / width[:, None]
    return found


def _most(near: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = near.mean(axis=1) >= _NEAR_SHARE
    return found
