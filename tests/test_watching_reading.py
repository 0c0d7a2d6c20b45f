"""What a watch makes of the answers it gets: streams by their sessions, lookups, copies of one write. From tables."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.watchers.inside import running
from harness.watching.asking import OURS, current_op
from harness.watching.looking import LONGEST, SHARE, pause
from harness.watching.reading import is_lookup, read
from harness.watching.seats import alive
from harness.watching.writes import piled
from watching_parts import getmore, idle, insert, lookup, named, update, waiting


def test_a_stream_is_named_by_namespace_session_and_comment() -> None:
    commented = {"getMore": 5, "maxTimeMS": 1000, "comment": {"run": "r", "stream": "s1"}}
    by_cursor = idle(2)
    by_cursor["cursor"]["originatingCommand"] = {"comment": "billing"}
    whole_database = getmore(3, ns="app.$cmd.aggregate")
    reading = read("a", [getmore(1, command=commented), by_cursor, whole_database], 0)
    assert [leg.stream for leg in reading.legs] == [
        f"{named(1)} (s1)", f"{named(2)} (billing)", "app 00000003",
    ]  # fmt: skip
    assert [one.stream for one in reading.getmores] == [f"{named(1)} (s1)", "app 00000003"]


def test_a_lookup_is_joined_to_its_stream_by_the_session() -> None:
    reading = read("b", [lookup(1), getmore(1)], 0)
    (found,) = reading.lookups
    assert reading.sessions[found.stream] == named(1)


@pytest.mark.parametrize(
    ("what", "command", "expected"),
    [
        ("one document by its key", {"aggregate": "c", "pipeline": [{"$match": {"_id": 1}}]}, True),
        ("a range of keys", {"aggregate": "c", "pipeline": [{"$match": {"_id": {"$gt": 1}}}]}, False),
        ("by something else", {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}]}, False),
        ("more than that", {"aggregate": "c", "pipeline": [{"$match": {"_id": 1}}, {"$limit": 1}]}, False),
        ("a stream being opened", {"aggregate": "c", "pipeline": [{"$changeStream": {}}]}, False),
        ("cut short by the server", {"$truncated": "{ aggregate: ..."}, False),
    ],
)
def test_lookups_are_told_from_other_reads(what: str, command: dict[str, Any], expected: bool) -> None:
    assert is_lookup(lookup(command=command)) is expected, what


def test_a_getmore_that_yields_all_the_time_reads_and_does_not_wait() -> None:
    reading = read("a", [getmore(1, 20.0, numYields=1500), getmore(2, 20.0, numYields=6)], 0)
    assert reading.scanning == {101}


def copies(*entries: dict[str, Any]) -> Counter[str | None]:
    return running(piled(read("a", entries, 0).writes))


def test_updates_of_one_document_by_several_sessions_are_copies_of_one_write() -> None:
    found = copies(update(1), update(2), update(3, key=2), waiting(1), waiting(2))
    ((name, count),) = found.items()
    assert (str(name).partition(" #")[0], count) == ("update by {_id}", 2)


def test_values_of_what_is_written_to_are_not_shown() -> None:
    (first, *_) = piled(read("a", [update(1, key="ann@example.org"), update(2, key="ann@example.org")], 0).writes)
    assert "ann" not in str(first)


@pytest.mark.parametrize(
    ("what", "entries", "count"),
    [
        ("one write and its resend", [update(1), waiting(1)], 0),
        ("two of different documents", [update(1, key=1), update(2, key=2)], 0),
        ("two of one document, both young", [update(1, 1.5), update(2, 1.2)], 0),
        ("inserts of which nothing is known", [insert(1), insert(2)], 0),
        ("inserts that were both sent again",
         [insert(1), waiting(1, verb="insert"), insert(2), waiting(2, verb="insert")], 2),
        ("the same of two applications",
         [insert(1), waiting(1, verb="insert"), insert(2, appName="other"),
          waiting(2, verb="insert", appName="other")], 0),
        ("not numbered", [update(1, transaction=None), update(2, transaction=None), update(3, transaction=None)], 3),
    ],
)  # fmt: skip
def test_copies_are_counted_where_it_is_one_write(what: str, entries: list[dict[str, Any]], count: int) -> None:
    for one in entries:
        if one.get("transaction", ...) is None:
            del one["transaction"]
    assert sum(copies(*entries).values()) == count, what


def test_a_router_is_not_asked_what_is_inside_the_engine() -> None:
    assert read("router", [update(1), update(2)], 0, router=True).writes == []


def test_those_who_look_on_are_not_asked_for() -> None:
    command = current_op(max_time_ms=1500)
    assert command["maxTimeMS"] == 1500
    for one in command["pipeline"][1]["$match"]["$or"][1:]:
        assert one["appName"] == {"$nin": list(OURS)}
    assert current_op(max_time_ms=1, local=True)["pipeline"][0]["$currentOp"]["localOps"] is True


@given(
    every=st.floats(0.2, 3600), took=st.floats(0, 100), failures=st.one_of(st.integers(0, 8), st.integers(0, 10_000))
)
def test_a_member_is_never_asked_more_often_than_agreed_nor_for_more_than_its_share(
    every: float, took: float, failures: int
) -> None:
    waits = pause(every, took, failures)
    assert every <= waits <= max(LONGEST, every)
    assert waits >= LONGEST or took <= SHARE * waits * 1.001
    assert waits <= pause(every, took, failures + 1)


def test_routers_are_those_whose_ping_is_near_the_newest() -> None:
    now = datetime(2026, 1, 1)
    written: list[dict[str, Any]] = [
        {"_id": "a:27017", "ping": now},
        {"_id": "b:27017", "ping": now - timedelta(seconds=60)},
        {"_id": "gone:27017", "ping": now - timedelta(days=3)},
        {"_id": "never:27017"},
    ]
    assert alive(written) == ["a:27017", "b:27017"]
    assert alive([]) == []
