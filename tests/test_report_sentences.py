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
