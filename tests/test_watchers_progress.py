"""Silent, quiet, lagging, delivering: told apart from events and a clock alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.history import END_OF_RUN, Event
from harness.watchers.load import Load
from harness.watchers.progress import Progress, StreamState
from harness.watchers.pulse import Pulse

Step = tuple[float, str, dict[str, Any]]


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def event(at: float, kind: str, **fields: Any) -> Event:
    return Event(ns(at), at, "test", kind, fields)


def opened(at: float, stream: str = "s1") -> Event:
    return event(at, "stream.opened", stream=stream)


def write(at: float, seq: int, key: str = "a", took: float = 0.01) -> list[Event]:
    """A write invoked at `at` - `took` and acknowledged at `at`."""
    return [
        event(at - took, "write.invoked", key=key, seq=seq, shard="x"),
        event(at, "write.ok", key=key, seq=seq),
    ]


def write_to(shard: str, at: float, seq: int = 1, took: float = 0.01) -> list[Event]:
    """A write to a document of its own on that shard."""
    return [
        event(at - took, "write.invoked", key=shard, seq=seq, shard=shard),
        event(at, "write.ok", key=shard, seq=seq),
    ]


def delivered(at: float, seq: int, key: str = "a", stream: str = "s1") -> Event:
    return event(at, "stream.event", stream=stream, key=key, seq=seq, op="update", token="t")


def nothing(_since: int, _now: int) -> float:
    return 0.0


def state_at(
    now: float, *events: Event | list[Event], excused: Callable[[int, int], float] = nothing, stream: str = "s1"
) -> StreamState:
    """Feed in order of time with a judgement every 0.1 s, as the live watcher does."""
    progress = Progress(threshold=3.0, late=2.0)
    flat = [one for part in events for one in (part if isinstance(part, list) else [part])]
    flat.sort(key=lambda one: one.t)
    tick = 0
    while tick <= ns(now):
        while flat and flat[0].t <= tick:
            progress.feed(flat.pop(0))
        progress.judge(tick, excused)
        tick += ns(0.1)
    return progress.states()[stream]


TABLE: list[tuple[str, float, list[Event | list[Event]], str, int]] = [
    ("nothing written", 60.0, [opened(0)], "quiet", 0),
    ("all delivered, a moment ago", 5.0, [opened(0), write(4, 1), delivered(4.1, 1)], "delivering", 0),
    ("all delivered, long ago", 9.0, [opened(0), write(4, 1), delivered(4.1, 1)], "quiet", 0),
    ("a mark just out", 4.5, [opened(0), write(4, 1)], "delivering", 1),
    ("a mark out for the threshold", 7.1, [opened(0), write(4, 1)], "silent", 1),
    ("after a long quiet the count begins at the mark", 62.0, [opened(0), write(60, 1)], "delivering", 1),
    ("deliveries go on, late", 7.5, [opened(0), *[write(i, i) for i in range(1, 8)], delivered(7, 4)], "lagging", 3),
    ("an event before its acknowledgement", 9.0, [opened(0), delivered(3.9, 1), write(4, 1)], "quiet", 0),
    ("a write that was refused owes nothing", 9.0, [
        opened(0), event(1, "write.invoked", key="a", seq=1, shard="x"), event(2, "write.failed", key="a", seq=1),
    ], "quiet", 0),
    ("a write of unknown outcome owes nothing", 9.0, [
        opened(0), event(1, "write.invoked", key="a", seq=1, shard="x"), event(2, "write.unknown", key="a", seq=1),
    ], "quiet", 0),
    ("a write from before the stream was opened owes nothing", 9.0, [write(1.1, 1, took=0.2), opened(1)], "quiet", 0),
    ("a gap is for the delivery checker, not a silence", 9.0, [
        opened(0), write(1, 1), write(2, 2), delivered(2.1, 2),
    ], "quiet", 0),
    ("delivering other documents is delivering", 8.0, [
        opened(0), write(4, 1), write(7, 1, key="b"), delivered(7.1, 1, key="b"),
    ], "lagging", 1),
    ("a reopened stream still owes", 7.1, [
        opened(0), write(4, 1), event(5, "stream.closed", stream="s1", reason="closed by the driver after an error"),
        opened(5.5),
    ], "silent", 1),
]  # fmt: skip


@pytest.mark.parametrize(("_what", "now", "events", "state", "outstanding"), TABLE, ids=[row[0] for row in TABLE])
def test_state_of_a_stream(
    _what: str, now: float, events: list[Event | list[Event]], state: str, outstanding: int
) -> None:
    found = state_at(now, *events)
    assert (found.state, found.outstanding) == (state, outstanding)


def test_silence_is_dated_from_the_last_delivery_or_the_mark_whichever_is_later() -> None:
    assert state_at(9, opened(0), write(4, 1)).since == ns(4)
    assert state_at(9, opened(0), write(1, 1), write(4, 2), delivered(4.5, 1)).since == ns(4.5)


def test_a_mark_is_due_when_every_other_shard_has_written_since_or_its_no_op_is_due() -> None:
    """A stream merged over shards must hold an event back until then, and is not silent for it."""
    both: list[Event | list[Event]] = [
        opened(0),
        write_to("x", 1),
        write_to("y", 1),
        delivered(1.1, 1, key="x"),
        delivered(1.1, 1, key="y"),
    ]
    assert state_at(6, *both, write_to("x", 2, seq=2)).state == "delivering"
    assert state_at(6, *both, write_to("x", 2, seq=2)).outstanding == 1
    # Promised by the default no-op interval of 10 s, at 14 s.
    assert state_at(16.8, *both, write_to("x", 2, seq=2)).state == "delivering"
    assert state_at(17.1, *both, write_to("x", 2, seq=2)).since == ns(14)
    promised = [*both, write_to("x", 2, seq=2), write_to("y", 2.5, seq=2)]
    assert state_at(5.4, *promised).state == "delivering"
    assert state_at(5.6, *promised).state == "silent"
    assert state_at(5.6, *promised).since == ns(2.5)
    # A write that was under way when the mark was acknowledged promises nothing.
    overlapping = [*both, write_to("x", 2, seq=2), write_to("y", 2.5, seq=2, took=0.6)]
    assert state_at(6, *overlapping).state == "delivering"


def test_a_shard_that_is_never_written_to_promises_by_its_no_op_alone() -> None:
    progress = Progress(threshold=3.0, promise=3.0, shards=["x", "y"])
    for one in [opened(0), *write_to("x", 1), *write_to("x", 2, seq=2)]:
        progress.feed(one)
    assert [state.state for state in progress.judge(ns(6.9), nothing)] == ["delivering"]
    assert [state.state for state in progress.judge(ns(7.1), nothing)] == ["silent"]


def test_time_excused_is_taken_off_the_silence() -> None:
    assert state_at(7.5, opened(0), write(4, 1), excused=lambda _since, _now: 1.0).state == "delivering"
    assert state_at(8.1, opened(0), write(4, 1), excused=lambda _since, _now: 1.0).state == "silent"


def test_a_silence_ends_with_a_delivery_only() -> None:
    """Not with an excuse found later."""
    progress = Progress(threshold=3.0)
    for one in [opened(0), *write(1, 1)]:
        progress.feed(one)
    (silent,) = progress.judge(ns(4.1), nothing)
    assert silent.state == "silent"
    assert progress.judge(ns(5), lambda _since, _now: 100.0) == []
    progress.feed(delivered(6, 1))
    (after,) = progress.judge(ns(6.1), nothing)
    assert after.state == "lagging"


def test_every_stream_is_judged_by_itself() -> None:
    events: list[Event | list[Event]] = [opened(0, "s1"), opened(0, "s2"), write(4, 1), delivered(4.1, 1, stream="s2")]
    assert state_at(7.2, *events, stream="s1").state == "silent"
    assert state_at(7.2, *events, stream="s2").state == "quiet"


def test_the_first_judgement_is_reported_then_changes_only() -> None:
    progress = Progress()
    progress.feed(opened(0))
    assert [one.state for one in progress.judge(ns(1), nothing)] == ["quiet"]
    assert progress.judge(ns(2), nothing) == []


def test_a_stream_closed_by_us_is_no_longer_judged() -> None:
    progress = Progress()
    for one in [opened(0), *write(1, 1), event(2, "stream.closed", stream="s1", reason=END_OF_RUN)]:
        progress.feed(one)
    assert progress.judge(ns(60), nothing) == []
    assert progress.outstanding == 0


@given(
    st.lists(
        st.tuples(st.sampled_from(["write", "deliver", "unknown", "wait"]), st.sampled_from("ab")),
        max_size=60,
    )
)
def test_what_is_owed_is_what_was_acknowledged_and_not_delivered(steps: list[tuple[str, str]]) -> None:
    """Whatever the order: the count agrees with a plain recount, and without owed marks there is no silence."""
    progress = Progress(threshold=3.0)
    progress.feed(opened(0))
    now = 0.0
    written = dict.fromkeys("ab", 0)
    happened: dict[str, list[int]] = {"a": [], "b": []}
    owed: set[tuple[str, int]] = set()
    for what, key in steps:
        now += 1.0
        if what in ("write", "unknown"):
            written[key] += 1
            progress.feed(event(now, "write.invoked", key=key, seq=written[key], shard="x"))
            happened[key].append(written[key])
            progress.feed(event(now, "write.ok" if what == "write" else "write.unknown", key=key, seq=written[key]))
            if what == "write":
                owed.add((key, written[key]))
        elif what == "deliver" and happened[key]:
            seq = happened[key].pop(0)
            progress.feed(delivered(now, seq, key))
            owed = {mark for mark in owed if mark[0] != key or mark[1] > seq}
        progress.judge(ns(now), nothing)
        state = progress.states()["s1"]
        assert state.outstanding == len(owed) == progress.outstanding
        assert owed or state.state != "silent"


def test_a_loop_that_did_not_run_is_deaf_for_exactly_that_span() -> None:
    pulse = Pulse()
    assert pulse.woke(ns(1.0), ns(1.001)) == 0.0
    assert pulse.woke(ns(2.0), ns(3.5)) == 1.5
    assert pulse.woke(ns(5.0), ns(6.0)) == 1.0
    assert pulse.deaf(0, ns(10)) == 2.5
    assert pulse.deaf(ns(3.0), ns(10)) == 1.5
    assert pulse.deaf(ns(2.5), ns(5.5)) == 1.5
    assert pulse.deaf(ns(3.5), ns(5.0)) == 0.0


def test_slack_follows_the_slower_of_the_quickest_write_and_the_quickest_hello() -> None:
    load = Load()
    assert load.slack(ns(1)) == 0.0
    for one in [*write(1, 1, took=0.02), *write(1, 1, key="b", took=0.5)]:
        load.feed(one)
    load.feed(event(1, "canary", member="m1", probe="hello", ok=True, seconds=0.05))
    load.feed(event(1, "canary", member="m2", probe="hello", ok=True, seconds=1.5))
    # A refused connection is quick, and a find is not the same work everywhere: neither says how slow the machine is.
    load.feed(event(1, "canary", member="m2", probe="hello", ok=False, seconds=0.0001))
    load.feed(event(1, "canary", member="m1", probe="find", ok=True, seconds=0.001))
    assert load.slack(ns(2)) == pytest.approx(10 * 0.05)
    assert load.slack(ns(60)) == 0.0
