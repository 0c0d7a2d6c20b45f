"""From looks to pictures and alarms: how streams fare, who is waited for, what is to be done. From tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.watching import advice, telling
from harness.watching.judging import Judge, Picture, Unseen
from harness.watching.reading import Reading, read
from harness.watching.streams import Streams
from watching_parts import MEMBERS, getmore, idle, lookup, named, ns, update

HOSTS = {one.name: one.host for one in MEMBERS}
A, B = "shard0-1", "shard0-2"


def judge() -> Judge:
    return Judge(MEMBERS, past=3.0, every=1.0)


def look(at: float, **entries: list[dict[str, Any]]) -> dict[str, Reading]:
    return {name.replace("_", "-"): read(name.replace("_", "-"), ops, ns(at)) for name, ops in entries.items()}


def fares(looks: list[tuple[float, list[dict[str, Any]]]]) -> list[str]:
    """Of one stream on A, look by look."""
    streams = Streams(3.0)
    return [streams.judge({A: read(A, entries, ns(at))}, (), [A], ns(at))[named(1)].fares for at, entries in looks]


@pytest.mark.parametrize(
    ("what", "looks", "expected"),
    [
        ("seen once", [(0, [idle()])], ["open"]),
        ("documents move on", [(0, [idle(documents=5)]), (1, [idle(documents=6)])], ["open", "delivering"]),
        ("batches move on", [(0, [idle(batches=4)]), (1, [idle(batches=5)])], ["open", "quiet"]),
        ("nobody reads", [(0, [idle()]), (9, [idle()]), (11, [idle()])], ["open", "quiet", "unread"]),
        ("one long await", [(0, [getmore(seconds=1)]), (20, [getmore(seconds=2)])], ["open", "quiet"]),
        ("a little late", [(0, [getmore(seconds=3.9)])], ["open"]),
        ("far past its time", [(0, [getmore(seconds=4.1)])], ["silent"]),
        ("reads the oplog", [(0, [getmore(seconds=30, numYields=3000)])], ["scanning"]),
        ("frees itself", [(0, [getmore(seconds=9)]), (1, [getmore(documents=9)])], ["silent", "delivering"]),
    ],
)  # fmt: skip
def test_how_a_stream_fares(what: str, looks: list[tuple[float, list[dict[str, Any]]]], expected: list[str]) -> None:
    assert fares(looks) == expected, what


def test_one_shard_that_hangs_makes_the_stream_silent_and_it_is_one_stream() -> None:
    picture, _ = judge().judge(look(0, shard0_1=[getmore(1, 9)], shard1_1=[idle(1, documents=9)]), {}, [A], 0)
    assert list(picture.streams) == [named(1)]
    assert picture.streams[named(1)].members == (A, "shard1-1")
    assert picture.counts == {"silent": 1}


def test_the_member_on_which_the_lookup_sits_is_named_at_the_first_look() -> None:
    picture, events = judge().judge(look(9, shard0_1=[getmore(1, 9)], shard0_2=[lookup(1, 8)]), {}, [A, B], ns(9))
    (event,) = events
    assert (event.kind, event["stream"], event["waits_for"]) == ("alarm", named(1), B)
    assert event["known_by"] == f"lookup in $currentOp of {B}, opid 901"
    assert picture.wrong
    assert [one.opid for one in picture.hung] == [101]


def test_a_member_that_cannot_be_asked_is_named_by_the_connections_in_use_towards_it() -> None:
    readings = look(9, shard0_1=[getmore(1, 9)])
    readings[A] = replace(readings[A], towards={B: 1, "shard0-0": 1})
    _, (event,) = judge().judge(readings, {B: Unseen("no answer for 2 s", 0, True)}, [A], ns(9))
    assert (event["waits_for"], event["known_by"]) == (B, f"connPoolStats of {A}: 1 in use towards {B}")
    assert event["canary"]["currentOp"]["error"] == "no answer for 2 s"


def test_lookups_that_are_parked_are_an_alarm_where_the_cursor_of_their_stream_is_not_seen() -> None:
    one = judge()
    young, _ = one.judge(look(1, shard0_2=[lookup(1, 2.5)]), {}, [B], ns(1))
    assert not young.wrong
    picture, (event,) = one.judge(look(9, shard0_2=[lookup(1, 8)]), {}, [B], ns(9))
    assert (event["stream"], event["waits_for"], event["getmore"]) == (named(1), B, None)
    assert picture.counts == {"silent": 1}
    (line,) = telling.Advice(HOSTS).on([event], picture)
    assert line.startswith(f"look at {B}")


def test_a_slow_read_of_a_client_is_no_stream() -> None:
    theirs = {"aggregate": "orders", "pipeline": [{"$match": {"_id": "a"}}]}
    picture, events = judge().judge(look(9, shard0_2=[lookup(1, 8, command=theirs)]), {}, [B], ns(9))
    assert (picture.wrong, events) == (False, [])


def test_a_stream_whose_cursor_lies_on_a_member_that_answers_no_more_is_silent() -> None:
    one, readings = judge(), look(0, shard0_1=[idle(1)])
    quiet, _ = one.judge(readings, {}, [A], ns(0))
    assert not quiet.wrong
    soon, _ = one.judge(readings, {A: Unseen("no answer for 2 s", ns(1), True)}, [], ns(3))
    assert not soon.wrong
    late, (event,) = one.judge(readings, {A: Unseen("no answer for 3 s", ns(1), True)}, [], ns(4))
    assert late.counts == {"silent": 1}
    assert (event["waits_for"], event["known_by"]) == (A, "canary: no currentOp")


def test_what_was_in_a_member_that_is_gone_is_gone_with_it() -> None:
    one = judge()
    one.judge(look(0, shard0_1=[getmore(1, 9)]), {}, [A], ns(0))
    picture, events = one.judge(
        look(0, shard0_1=[getmore(1, 9)]), {A: Unseen("closed the connection", ns(1), False)}, [], ns(1)
    )
    assert (picture.counts, picture.unseen) == ({}, {A: "closed the connection"})
    assert [event.kind for event in events] == ["alarm.cleared"]


def test_an_alarm_is_raised_once_and_cleared_once() -> None:
    one = judge()
    kinds = []
    for at, seconds in ((5, 5.0), (6, 6.0), (7, 7.0), (8, 0.1), (9, 0.1)):
        readings = look(at, shard0_1=[getmore(1, seconds)], shard0_2=[lookup(1, seconds)])
        kinds += [event.kind for event in one.judge(readings, {}, [A, B], ns(at))[1]]
    assert kinds == ["alarm", "alarm.cleared"]


def test_copies_of_one_write_are_an_alarm_with_what_to_kill() -> None:
    picture, events = judge().judge(look(0, shard0_0=[update(1), update(2, 5.0), update(3, key=9)]), {}, [], 0)
    (event,) = events
    assert (event.kind, event["copies"], picture.copies) == ("overlap.alarm", 2, 2)
    (*_, line) = telling.Advice(HOSTS).on(events, picture)
    assert '"mongodb://127.0.0.1:20000/?directConnection=true"' in line
    assert line.index("op: 501") < line.index("op: 502")
    assert "op: 503" not in line


def test_streams_with_one_cause_are_one_sentence_and_one_command() -> None:
    readings = look(9, shard0_1=[getmore(1, 9), getmore(2, 9)], shard0_2=[lookup(1, 8), lookup(2, 8)])
    picture, events = judge().judge(readings, {}, [A, B], ns(9))
    alarm, whom, what = telling.told(events, picture, telling.Advice(HOSTS))
    assert "2 streams" in alarm
    assert f"look at {B} (127.0.0.1:20002)" in whom
    assert "{killOp: 1, op: 101}" in what
    assert "{killOp: 1, op: 102}" in what


def test_an_operation_that_a_router_told_of_is_killed_through_it() -> None:
    (one,) = judge().judge(look(9, shard0_1=[getmore(1, 9, opid="shard0:101")]), {}, [A], ns(9))[0].silent.values()
    _, line = advice.on_silence([one], {**HOSTS, "router r:1": "r:1"})
    assert line.startswith("""then end what hangs: mongosh "mongodb://r:1/?directConnection=true" --eval""")
    assert "op: 'shard0:101'" in line


def test_a_look_in_one_line_says_who_was_not_seen() -> None:
    picture = Picture(0, members={"a": None, "b": "refused"})
    assert telling.summary(picture) == "streams: none; seen: 1 of 2 members and routers"
    assert telling.unseen(picture) == ["not seen: b: refused"]
    assert telling.document(picture, 1.5)["not_seen"] == {"b": "refused"}
