"""Axes are stretched where the compared rows are, and keep 0, 1 and every interval."""

import itertools
import re

import pytest

from imitbench.report.html_charts import strip, ticks
from imitbench.report.score_axis import AxisScale, ZoomedScale, marks, zoomed
from imitbench.stats.bootstrap import Interval


def interval(low, high):
    return Interval((low + high) / 2, low, high, 0.95)


CLOSE = [interval(low, low + 0.02) for low in (0.90, 0.92, 0.93, 0.95, 0.97)]


def test_close_intervals_are_stretched():
    scale = zoomed(CLOSE)
    assert isinstance(scale, ZoomedScale)
    wide = scale.share(0.97) - scale.share(0.95)
    plain = AxisScale(scale.low, scale.high)
    assert wide > 4 * (plain.share(0.97) - plain.share(0.95))
    assert scale.breaks == (scale.zone_low,)  # 1 is near, and in the stretched part
    assert 0.8 < scale.zone_low < 0.9
    assert scale.low < 0.0 < scale.share(0.0) < scale.share(scale.zone_low) < scale.share(0.9)


@pytest.mark.parametrize(
    "compared",
    [CLOSE, CLOSE[:1], [interval(0.01, 0.02), interval(0.18, 0.22)], [interval(1.4, 1.5)] * 3, [],
     [None, interval(0.2, 0.9)]],
)  # fmt: skip
def test_every_axis_has_0_and_1_and_is_ascending(compared):
    scale = zoomed(compared, [interval(-0.1, 0.05), interval(1.1, 1.2)])
    ends = sorted({-0.1, 0.0, 1.0, 1.2, *(each.low for each in compared if each)})
    shares = [scale.share(end) for end in ends]
    assert shares == sorted(shares)
    assert len(set(shares)) == len(shares)
    assert shares[0] > 0.0
    assert shares[-1] < 1.0
    assert {0.0, 1.0} <= set(marks(scale))


def test_one_row_far_away_does_not_undo_the_zoom():
    scale = zoomed([*CLOSE, interval(0.19, 0.48)])
    assert isinstance(scale, ZoomedScale)
    assert scale.zone_low > 0.8
    assert 0.0 < scale.share(0.19) < scale.share(0.48) < scale.share(scale.zone_low)


def test_rows_over_the_whole_range_need_no_zoom():
    scale = zoomed([interval(0.0, 0.1), interval(0.4, 0.5), interval(0.9, 1.0)])
    assert scale == AxisScale(scale.low, scale.high)
    assert scale.breaks == ()


def test_numbers_on_an_axis_are_apart():
    scale = zoomed(CLOSE)
    for apart in (0.1, 0.25):
        places = [scale.share(mark) for mark in marks(scale, apart)]
        near = [b - a for a, b in itertools.pairwise(places)]
        assert all(gap >= apart for gap in near)
    assert len(marks(scale, 0.1)) > 3


def test_breaks_are_drawn_and_the_numbers_stand_where_the_lines_do():
    scale = zoomed(CLOSE)
    drawn = strip(CLOSE[0], None, scale, None, 0)
    assert drawn.count('class="break"') == len(scale.breaks) == 1
    assert f'x="{scale.percent(scale.zone_low)}"' in drawn
    anchors = re.findall(r'x1="([\d.]+%)"[^>]*class="anchor"', drawn)
    assert anchors == [scale.percent(0.0), scale.percent(1.0)]
    head = ticks(scale, marks(scale))
    assert all(f'x="{at}"' in head for at in anchors)


def test_positions_are_clipped_at_the_ends_of_an_axis():
    assert AxisScale(0.0, 1.0).percent(0.25) == "25.00%"
    assert AxisScale(0.0, 1.0).percent(7.0) == "100.00%"
    assert AxisScale(-0.05, 1.04).ticks() == [0.0, 0.5, 1.0]
