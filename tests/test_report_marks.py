"""The marks of a report's picture: packed, counted, and thinned to what a browser stays fluid with."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.page.marks import Bar, Curve, Lane, Panel, Point, Section, Sheet, packed, stepped
from harness.report.page.styles import STYLES, weight
from harness.report.page.thinning import MARKS, joined_bars, thinned

SPANS = st.lists(st.tuples(st.floats(0, 100), st.floats(0.01, 20)).map(lambda one: (one[0], one[0] + one[1])))


@given(SPANS)
def test_spans_on_one_track_do_not_overlap_and_there_are_no_more_tracks_than_spans_at_once(
    spans: list[tuple[float, float]],
) -> None:
    spans.sort()
    tracks = packed(spans)
    for track in set(tracks):
        alone = [span for span, on in zip(spans, tracks, strict=True) if on == track]
        assert all(before[1] <= after[0] for before, after in pairwise(alone))
    _, at_once = stepped(spans)
    assert len(set(tracks)) == max(at_once, default=0)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], ([], [])),
        ([(1.0, 2.0)], ([1.0, 2.0], [1.0, 0.0])),
        ([(1.0, 2.0), (2.0, 3.0)], ([1.0, 3.0], [1.0, 0.0])),
        ([(1.0, 4.0), (2.0, 3.0)], ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 1.0, 0.0])),
    ],
    ids=["none", "one", "one after the other", "one within the other"],
)
def test_the_staircase_tells_how_many_there_are_at_once(
    spans: list[tuple[float, float]], expected: tuple[list[float], list[float]]
) -> None:
    assert stepped(spans) == expected


def test_few_marks_are_drawn_as_they_are_and_the_page_says_so() -> None:
    sheet = _sheet([Bar(0, 1, "silent", "s1")], [Point(0.5, "alarm", "s1")])
    drawn = thinned(sheet)
    assert drawn.sheet == sheet
    assert drawn.rule == "2 marks, all of them drawn."


@pytest.mark.parametrize(("lasts", "style"), [(0.5, "several"), (9.0, "silent")], ids=["shorter", "longer"])
def test_a_silence_between_blinks_is_named_and_drawn_as_such_where_it_is_longer_than_a_step(
    lasts: float, style: str
) -> None:
    """20 minutes of a stream that changes its state four times a second, and is silent once."""
    blinks = [Bar(n / 4, (n + 1) / 4, ("delivering", "quiet")[n % 2], f"blink {n}") for n in range(4800)]
    silence = Bar(600.0, 600.0 + lasts, "silent", "the silence")
    around = [one for one in blinks if one.end <= silence.start or one.start >= silence.end]
    drawn = thinned(_sheet([*around, silence], []), limit=500)
    assert drawn.sheet.count <= 500
    (kept,) = [bar for bar in drawn.sheet.sections[0].lanes[0].bars if "the silence" in bar.text]
    assert kept.style == style
    assert kept.start <= silence.start
    assert kept.end >= silence.end
    assert kept.end - kept.start <= max(drawn.step, lasts)
    assert f"shorter than {drawn.step:.2f} s" in drawn.rule


def test_32_streams_of_20_minutes_come_to_no_more_marks_than_there_may_be() -> None:
    lanes = [
        Lane(
            f"s{stream}",
            [Bar(n, n + 1, ("delivering", "lagging")[n % 2], "") for n in range(1200)],
            [Point(n / 2, "failed", "") for n in range(2400)],
        )
        for stream in range(32)
    ]
    curve = Curve("writes", "writes", [n / 2 for n in range(2400)], [float(n % 7) for n in range(2400)])
    sheet = Sheet(0, 1200, [Section("change streams", lanes)], [Panel("per second", [curve])])
    drawn = thinned(sheet)
    assert drawn.before == 32 * (1200 + 2400) + 2400
    assert drawn.sheet.count <= MARKS
    stand_for = sum(bar.stands_for for lane in drawn.sheet.lanes() for bar in lane.bars)
    stand_for += sum(point.stands_for for lane in drawn.sheet.lanes() for point in lane.points)
    assert stand_for == 32 * (1200 + 2400)
    assert max(drawn.sheet.panels[0].curves[0].value) == 6.0


BARS = st.lists(
    st.tuples(st.floats(0.001, 2), st.floats(0, 2), st.sampled_from(["delivering", "quiet", "silent"])), max_size=40
)


@given(BARS, st.floats(0.01, 5))
def test_joined_bars_name_the_gravest_and_look_like_it_where_it_lasts_half_of_the_time(
    parts: list[tuple[float, float, str]], step: float
) -> None:
    bars, at = [], 0.0
    for length, pause, style in parts:
        bars.append(Bar(at, at + length, style, style))
        at += length + pause
    joined = joined_bars(bars, step)
    assert sum(one.stands_for for one in joined) == len(bars)
    for one in joined:
        within = [bar for bar in bars if bar.start >= one.start and bar.end <= one.end]
        gravest = max(within, key=lambda bar: weight(bar.style))
        assert gravest.text in one.text
        lasts = sum(bar.end - bar.start for bar in within if bar.style == gravest.style)
        assert one.style == (gravest.style if lasts >= (one.end - one.start) / 2 else "several")
        assert one.stands_for == 1 or one.end - one.start <= step


def test_marks_of_one_group_are_told_apart_without_their_colours() -> None:
    """By a hatch or none, a shape, the dashes of a line: in grey print no two look alike."""
    looks = [(style.group, style.hatch, style.symbol, style.line) for style in STYLES.values()]
    assert [look for look in looks if looks.count(look) > 1] == []


def _sheet(bars: list[Bar], points: list[Point]) -> Sheet:
    return Sheet(0, 1200, [Section("change streams", [Lane("s1", bars, points)])])
