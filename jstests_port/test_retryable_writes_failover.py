"""Upstream: jstests/replsets/retryable_writes_failover.js

A write that is sent again to the next primary is answered there, and not carried out again: the record of a session is
replicated with its writes.

Differs: the primary is not told to step down and an election waited for; a secondary that has everything stands for
election at once. Each kind of write begins on whichever member is the primary by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from jstests_port.raw_connection import raw_connection
from jstests_port.repl_set_test import ReplSetTest
from jstests_port.retryable_writes import assert_same_answer, new_lsid, numbered


@dataclass(frozen=True, slots=True)
class Case:
    """`before` is there, `command` is sent, `after` is there: once it was sent, and once it was sent again."""

    before: tuple[dict[str, Any], ...]
    command: Mapping[str, Any]
    after: tuple[dict[str, Any], ...]


CASES = {
    "insert": Case((), {"documents": [{"_id": 10}, {"_id": 30}]}, ({"_id": 10}, {"_id": 30})),
    "update": Case(
        ({"_id": 10}, {"_id": 30}),
        {
            "updates": [
                {"q": {"_id": 10}, "u": {"$inc": {"x": 1}}},
                {"q": {"_id": 20}, "u": {"$inc": {"y": 1}}, "upsert": True},
                {"q": {"_id": 30}, "u": {"z": 1}},
            ]
        },
        ({"_id": 10, "x": 1}, {"_id": 20, "y": 1}, {"_id": 30, "z": 1}),
    ),
    "delete": Case(
        ({"_id": 10, "x": 1}, {"_id": 20, "y": 1}, {"_id": 40, "x": 1}, {"_id": 50, "y": 1}),
        {"deletes": [{"q": {"x": 1}, "limit": 1}, {"q": {"y": 1}, "limit": 1}]},
        ({"_id": 40, "x": 1}, {"_id": 50, "y": 1}),
    ),
}


@pytest.mark.parametrize("kind", CASES)
async def test_the_next_primary_answers_the_retry_and_does_not_write(
    rst: ReplSetTest, test_name: str, kind: str
) -> None:
    case = CASES[kind]
    sent = numbered({kind: "foo", **case.command, "ordered": False}, new_lsid(), 5)
    primary = await rst.get_primary()
    await primary[test_name].create_collection("foo")
    if case.before:
        await primary[test_name].foo.insert_many(case.before)
    async with raw_connection(primary.host) as first:
        result = await first.run_command(test_name, sent)
    assert result["ok"] == 1
    await rst.await_replication()

    await rst.step_up((await rst.get_secondaries())[0])
    successor = await rst.get_primary()
    assert successor is not primary
    async with raw_connection(successor.host) as second:
        oplog = successor.local["oplog.rs"]
        written = await oplog.count_documents({"ns": f"{test_name}.foo"})
        again = await second.run_command(test_name, sent)
        left = await successor[test_name].foo.find().sort("_id").to_list()

        assert_same_answer(result, again)
        assert left == list(case.after)
        assert await oplog.count_documents({"ns": f"{test_name}.foo"}) == written
