"""Lanes of a report from a history: what is drawn of streams, members, faults, and of the run itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from harness.history import Event
from harness.report.page.drawing import Drawing
from harness.report.page.marks import Bar, Lane, Sheet
from harness.report.page.streams import cut
from history_builder import History, a_run

GETMORE = {"member": "shard0-1", "opid": 1851, "max_time_ms": 1000, "stream": "s1"}


def test_a_silent_stream_is_a_bar_from_its_last_delivery_that_names_the_hung_getmore() -> None:
    history = _stalled()
    lane = _lane(history, "change streams", "s1")
    assert [(bar.style, bar.start, bar.end) for bar in lane.bars if bar.track == 0] == [
        ("delivering", 1.0, 6.2),
        ("silent", 6.2, 18.4),
        ("delivering", 18.4, 25.2),
    ]
    silent = next(bar for bar in lane.bars if bar.style == "silent")
    assert "getMore opid 1851 on shard0-1: 11.5 s, maxTimeMS 1000 (currentOp)" in silent.text
    assert "waits for shard0-2 (connPoolStats of shard0-1)" in silent.text
    hung = next(bar for bar in lane.bars if bar.style == "hung")
    assert (hung.track, round(hung.start, 6), hung.end) == (1, 6.5, 18.0)
    assert "maxTimeMS 1000" in hung.text


ROW = {"outcome": "stalled", "silent_since": 6.2, "silent_seconds": 12.2, "waits_for": "shard0-2", "known_by": "a look"}


def test_a_silence_that_only_the_check_found_is_drawn_in_the_place_of_what_was_told_meanwhile() -> None:
    history = a_run(silent={"s1": [(6.2, 18.4)]})
    history.add(1.0, "stream.state", stream="s1", state="delivering", since=int(1e9), outstanding=0)
    history.add(18.0, "getmore", "currentOp", **GETMORE, seconds=11.5)
    lane = _lane(history, "change streams", "s1", ({"stream": "s1", **ROW},))
    states = sorted((bar for bar in lane.bars if bar.track == 0), key=lambda bar: bar.start)
    spans = [(bar.style, bar.start, round(bar.end, 6)) for bar in states]
    assert spans == [("delivering", 1.0, 6.2), ("silent", 6.2, 18.4), ("delivering", 18.4, 25.2)]
    assert "found afterwards" in states[1].text
    assert "opid 1851" in states[1].text
    assert "waits for shard0-2 (a look)" in states[1].text


def test_a_silence_that_was_told_is_not_drawn_twice_nor_one_of_a_stream_that_went_on() -> None:
    told = _lane(_stalled(), "change streams", "s1", ({"stream": "s1", **ROW},))
    assert told == _lane(_stalled(), "change streams", "s1")
    history = a_run()
    went_on = _lane(history, "change streams", "s1", ({"stream": "s1", **ROW, "outcome": "no effect"},))
    assert all(bar.style != "silent" for bar in went_on.bars)


def test_a_silence_that_was_told_late_takes_the_place_of_what_was_told_before_it() -> None:
    history = a_run(silent={"s1": [(6.2, 18.4)]})
    for at, state, since in ((2.0, "delivering", 1.0), (7.5, "lagging", 7.0), (9.3, "silent", 6.2)):
        history.add(at, "stream.state", stream="s1", state=state, since=int(since * 1e9), outstanding=0)
    bars = [bar for bar in _lane(history, "change streams", "s1").bars if bar.track == 0]
    assert [(bar.style, bar.start) for bar in bars] == [("delivering", 1.0), ("silent", 6.2)]
    assert bars[0].end == 6.2


def test_a_getmore_within_its_time_is_no_mark() -> None:
    history = a_run()
    history.add(8.0, "getmore", "currentOp", **GETMORE, seconds=0.9)
    assert all(bar.style != "hung" for bar in _lane(history, "change streams", "s1").bars)


def test_what_completes_an_alarm_is_told_where_the_alarm_was_raised() -> None:
    points = [one for one in _lane(_stalled(), "change streams", "s1").points if one.style == "alarm"]
    assert [one.at for one in points] == [9.4]
    assert "silent for 3.2 s" in points[0].text
    assert "waits for shard0-2" in points[0].text


def test_an_error_lasts_until_the_stream_is_resumed_and_takes_the_place_of_its_state() -> None:
    history = a_run()
    history.add(1.0, "stream.state", stream="s1", state="delivering", since=int(1e9), outstanding=0)
    history.add(10.0, "stream.error", stream="s1", error="CursorNotFound: gone", labels=["ResumableChangeStreamError"])
    history.add(12.0, "stream.resumed", stream="s1", by="consumer", token="82")
    lane = _lane(history, "change streams", "s1")
    bars = [(bar.style, bar.start, bar.end) for bar in sorted(lane.bars, key=lambda one: one.start)]
    assert bars == [("delivering", 1.0, 10.0), ("error", 10.0, 12.0), ("delivering", 12.0, 25.2)]
    assert [(one.style, one.at) for one in lane.points] == [("failed", 10.0), ("resumed", 12.0)]
    assert "ResumableChangeStreamError" in lane.points[0].text


@pytest.mark.parametrize(
    ("holes", "left"),
    [
        ([], [(2, 9)]),
        ([(3, 4), (5, 6)], [(2, 3), (4, 5), (6, 9)]),
        ([(0, 3), (8, 12)], [(3, 8)]),
        ([(0, 12)], []),
        ([(9, 12)], [(2, 9)]),
    ],
    ids=["no hole", "two within", "over both ends", "over all", "behind it"],
)
def test_a_span_is_cut_where_its_holes_are(holes: list[tuple[float, float]], left: list[tuple[float, float]]) -> None:
    assert cut((2, 9), holes) == left


def test_a_fault_is_opened_proven_and_healed_and_its_cluster_recovers() -> None:
    lane = _lane(a_run(), "faults", "f1 freeze shard0-2")
    spans = [(bar.style, bar.start, bar.end) for bar in lane.bars]
    assert spans == [("opening", 6.0, 6.1), ("proven", 6.1, 18.2), ("recovering", 18.2, 19.0)]
    assert [(point.style, point.at) for point in lane.points] == [("recovered", 19.0)]


def test_a_fault_that_was_not_proven_is_never_drawn_as_proven() -> None:
    history = a_run(proven=None)
    history.add(7.0, "fault.unproven", id="f1", reason="it is in state S")
    bars = _lane(history, "faults", "f1 freeze shard0-2").bars
    assert [bar.style for bar in bars] == ["opening", "unproven", "recovering"]
    assert "it is in state S" in bars[1].text


def test_a_proof_that_was_lost_ends_the_proven_part_there() -> None:
    history = a_run()
    history.add(9.0, "fault.unproven", id="f1", reason="it runs again")
    bars = _lane(history, "faults", "f1 freeze shard0-2").bars
    assert [(bar.style, bar.start, bar.end) for bar in bars[1:3]] == [("proven", 6.1, 9.0), ("unproven", 9.0, 18.2)]


def test_a_fault_that_is_never_healed_lasts_to_the_end_and_says_so() -> None:
    history = a_run(healed=None, recovered=None)
    history.add(26.0, "fault.not_healed", id="f1", reason="no such process")
    lane = _lane(history, "faults", "f1 freeze shard0-2")
    assert lane.bars[-1].style == "proven"
    assert lane.bars[-1].end == _sheet(history.events()).sections[0].lanes[0].bars[-1].end
    assert [(one.style, one.text.splitlines()[-1]) for one in lane.points] == [
        ("not healed", "NOT HEALED: no such process")
    ]


def test_a_member_has_a_track_for_each_probe_and_what_was_found_holds_until_something_else_is() -> None:
    history = a_run()
    for t in (5.0, 5.5, 6.0):
        _probe(history, t, "hello")
        _probe(history, t, "causal")
    _probe(history, 9.0, "causal", ok=False, seconds=2.0, error="no answer within 2 s")
    _probe(history, 9.0, "hello")
    _probe(history, 18.5, "causal")
    _probe(history, 17.0, "hello")
    _probe(history, 21.0, "hello", seconds=1.5)
    lane = _lane(history, "members", "shard0-2")
    hello, causal = (_spans(lane.bars, track) for track in (0, 1))
    assert causal == [("answers", 4.9, 7.0), ("no answer", 7.0, 18.4), ("answers", 18.4, 18.5)]
    assert hello[0] == ("answers", 4.9, 19.5)
    assert hello[1] == ("slow", 19.5, 21.0)
    assert len(lane.tracks) == 2


def test_the_phases_follow_each_other_and_the_bring_up_is_not_what_is_shown_first() -> None:
    sheet = _sheet(a_run().events())
    assert sheet.sections[0].title == "run"
    phases = sheet.sections[0].lanes[0].bars
    assert [bar.caption for bar in phases][:3] == ["bring-up", "load", "settle"]
    assert all(one.end == after.start for one, after in pairwise(phases))
    assert sheet.start == 0.9
    assert sheet.end > phases[-1].end


def test_what_is_delivered_and_acknowledged_is_counted_by_the_second() -> None:
    delivered, acknowledged = _sheet(a_run(writes_until=11.2).events()).panels[0].curves
    assert (delivered.name, sum(delivered.value)) == ("events delivered", 200)
    assert (acknowledged.name, sum(acknowledged.value)) == ("writes acknowledged", 100)
    assert acknowledged.value[5] == 10


def test_a_history_of_nothing_is_a_sheet_of_nothing() -> None:
    assert _sheet([]) == Sheet(0.0, 0.0, [], [])


def _stalled() -> History:
    history = a_run(silent={"s1": [(6.2, 18.4)]})
    told: list[tuple[float, str, float, int]] = [
        (1.0, "delivering", 1.0, 0),
        (9.3, "silent", 6.2, 7),
        (18.4, "delivering", 18.4, 0),
    ]
    for t, state, since, owed in told:
        history.add(t, "stream.state", stream="s1", state=state, since=round(since * 1e9), outstanding=owed)
    for t in (9.3, 18.0):
        history.add(t, "getmore", "currentOp", **GETMORE, seconds=t - 6.5)
    alarm: dict[str, Any] = {"stream": "s1", "since": 6_200_000_000, "getmore": {**GETMORE, "seconds": 2.9}}
    history.add(9.4, "alarm", **alarm, after_seconds=3.2, waits_for=None, known_by=None)
    completed: dict[str, Any] = {"waits_for": "shard0-2", "known_by": "connPoolStats of shard0-1", "update": True}
    history.add(9.9, "alarm", **alarm, after_seconds=3.7, **completed)
    return history


def _probe(history: History, t: float, probe: str, *, ok: bool = True, seconds: float = 0.1, **more: Any) -> None:
    history.add(t, "canary", member="shard0-2", probe=probe, ok=ok, seconds=seconds, parked=False, **more)


def _sheet(events: Sequence[Event], streams: Sequence[dict[str, Any]] = ()) -> Sheet:
    drawing = Drawing()
    for event in events:
        drawing.see(event)
    return drawing.sheet(streams)


def _lane(history: History, section: str, label: str, streams: Sequence[dict[str, Any]] = ()) -> Lane:
    found = next(one for one in _sheet(history.events(), streams).sections if one.title == section)
    return next(lane for lane in found.lanes if lane.label == label)


def _spans(bars: Sequence[Bar], track: int) -> list[tuple[str, float, float]]:
    return [(bar.style, round(bar.start, 6), round(bar.end, 6)) for bar in bars if bar.track == track]
