"""What is told of a member that has ended: the lines of its log that say why."""

from __future__ import annotations

import json

from clusters.member import last_words

ACCEPTED = (22943, "I", "Connection accepted")
REQUEST = (51803, "I", "Slow query")
FATAL = (23089, "F", "Fatal assertion")
ABORTING = (23090, "F", "\n\n***aborting after fassert() failure\n\n")


def words(*lines: tuple[int, str, str]) -> list[str]:
    return last_words([json.dumps({"s": s, "id": id, "msg": msg}, separators=(",", ":")) for id, s, msg in lines])


def test_requests_that_are_all_in_the_log_are_no_last_words() -> None:
    assert words(ACCEPTED, REQUEST, REQUEST, REQUEST, REQUEST) == ["Connection accepted {}"]


def test_a_grave_line_goes_before_what_came_later() -> None:
    assert words(FATAL, ABORTING, ACCEPTED, REQUEST) == ["Fatal assertion {}"]


def test_where_nothing_else_is_there_requests_are() -> None:
    assert words(REQUEST) == ["Slow query {}"]
