"""What a person reads of a run: one sentence for one cause, however many streams and operations it has."""

from __future__ import annotations

from typing import Any

from harness.history import Event
from harness.report.sentences import alarms, sentence


def alarm(stream: str, opid: int, known_by: str) -> Event:
    getmore = {"member": "shard0-1", "opid": opid, "seconds": 3.2, "max_time_ms": 1000}
    fields: dict[str, Any] = {"stream": stream, "after_seconds": 3.4, "getmore": getmore}
    return Event(0, 0.0, "watchers", "alarm", {**fields, "waits_for": "shard0-2", "known_by": known_by})


def test_streams_whose_lookups_sit_on_one_member_are_one_alarm() -> None:
    lookup = "lookup in $currentOp of shard0-2, opid {}"
    two = alarms([alarm("s1", 7, lookup.format(1)), alarm("s2", 8, lookup.format(2))])
    assert two == [
        "ALARM 2 streams (s1, s2) silent for 3.4 s: getMore on shard0-1 runs 3.2 s (maxTimeMS 1000, opids 7, 8), "
        "waits for shard0-2 (lookup in $currentOp of shard0-2)"
    ]
    (one,) = alarms([alarm("s1", 7, lookup.format(1))])
    assert one.endswith("waits for shard0-2 (lookup in $currentOp of shard0-2, opid 1)")
    assert len(alarms([alarm("s1", 7, lookup.format(1)), alarm("s2", 8, "canary: no hello")])) == 2


def test_what_a_release_does_is_told_as_it_is_done() -> None:
    def told(**fields: Any) -> str | None:
        return sentence(Event(0, 0.0, "release", "release", fields))

    assert told(what="op killed", member="shard0-1", opid=7, stream="s1") == "op 7 killed on shard0-1 (stream s1)"
    assert told(what="member killed", member="shard0-2") == "member killed: shard0-2"
    assert told(what="streams move") == "streams move"


def test_a_fault_is_named_with_its_options() -> None:
    fields = {"fault": "pause-replication", "options": ["how=fsyncLock"], "target": "shard0-2"}
    assert sentence(Event(0, 0.0, "run", "fault.opened", fields)) == "fault pause-replication how=fsyncLock on shard0-2"


def test_an_overlap_is_told_with_whose_copies_they_are_and_what_they_wait_for() -> None:
    groups = [{"lsid": f"{n}abcdef01234", "txn": 1, "seconds": 4.0 - n, "waits_for": "fail point"} for n in range(4)]
    fields: dict[str, Any] = {
        "namespace": "app.records",
        "write": "orders/0/0",
        "copies": 5,
        "group_count": 5,
        "groups": groups,
        "limit": 1,
        "seconds": 4.0,
        "waits_for": "fail point",
        "members": ["rs0-0"],
        "known_by": "$currentOp of rs0-0, sampled every 0.2 s",
    }
    assert sentence(Event(0, 0.0, "currentOp", "overlap.alarm", fields)) == (
        "ALARM 5 copies of orders/0/0 at once on app.records (rs0-0), more than 1, the oldest for 4.0 s, waits for "
        "fail point; groups (lsid/txnNumber): 0abcdef0/1 4.0 s, 1abcdef0/1 3.0 s, 2abcdef0/1 2.0 s, 3abcdef0/1 1.0 s "
        "and 1 more ($currentOp of rs0-0, sampled every 0.2 s)"
    )
    told = sentence(Event(0, 0.0, "currentOp", "overlap.alarm", {**fields, "write": None, "groups": groups[:1]}))
    assert told is not None
    assert told.startswith("ALARM 5 groups of writes at once on app.records (rs0-0), which has 1 clients, the oldest")
    ended = {"namespace": "app.records", "write": None, "seconds": 7.1, "most_copies": 4, "most_groups": 5}
    assert sentence(Event(0, 0.0, "currentOp", "overlap.cleared", ended)) == (
        "no overlap on app.records any more, after 7.1 s: 4 copies and 5 groups at once were seen"
    )
