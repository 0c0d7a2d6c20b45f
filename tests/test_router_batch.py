"""A write command taken apart, and the shards' answers put together, from tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from bson.int64 import Int64
from bson.timestamp import Timestamp

from clusters.router.batch import PART_BYTES, Tally, take_apart
from clusters.router.errors import RouterError
from clusters.wire.message import Message, encode_body, encode_document, encode_sequence

HEAD = {"insert": "c", "ordered": False, "lsid": {"id": 1}, "txnNumber": Int64(4), "$db": "app", "comment": "x"}
DOCUMENTS = [encode_document({"_id": number}) for number in range(4)]


def message(head: Mapping[str, Any], *sequences: bytes) -> Message:
    return Message(encode_body(encode_document(head), request_id=1, tail=b"".join(sequences)))


def test_a_part_carries_its_own_statements_under_their_own_ids_and_the_versions() -> None:
    batch = take_apart(message(HEAD, encode_sequence("documents", DOCUMENTS)))
    part = Message(batch.part([1, 3], {"shardVersion": {"v": 1}})).document()
    assert part == {
        "insert": "c",
        "lsid": {"id": 1},
        "txnNumber": 4,
        "$db": "app",
        "comment": "x",
        "writeConcern": {"w": "majority"},
        "ordered": False,
        "shardVersion": {"v": 1},
        "stmtIds": [1, 3],
        "documents": [{"_id": 1}, {"_id": 3}],
    }


def test_statements_in_the_body_are_as_good_as_in_a_sequence() -> None:
    inside = take_apart(message({**HEAD, "documents": [{"_id": 0}, {"_id": 1}]}))
    assert inside.statements == DOCUMENTS[:2]


@pytest.mark.parametrize(
    ("fields", "ids"), [({}, [0, 1, 2, 3]), ({"stmtId": 7}, [7, 8, 9, 10]), ({"stmtIds": [5, 3, 2, 1]}, [5, 3, 2, 1])]
)
def test_statement_ids_of_the_client_are_kept(fields: dict[str, Any], ids: list[int]) -> None:
    batch = take_apart(message({**HEAD, **fields}, encode_sequence("documents", DOCUMENTS)))
    assert list(batch.statement_ids) == ids


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, {"w": "majority"}),
        ({"w": 1}, {"w": 1}),
        ({"w": "majority", "wtimeout": 5}, {"w": "majority", "wtimeout": 5}),
        ({"j": True}, {"w": "majority", "j": True}),
    ],
)
def test_a_shard_is_always_told_a_write_concern(given: dict[str, Any], said: dict[str, Any]) -> None:
    batch = take_apart(message({**HEAD, "writeConcern": given}, encode_sequence("documents", DOCUMENTS)))
    assert batch.common["writeConcern"] == said


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (message(HEAD), 40414),
        (message({**HEAD, "documents": []}), 16),
        (message(HEAD, encode_sequence("documents", [encode_document({})] * 100_001)), 16),
        (message({**HEAD, "documents": [1]}), 14),
        (message({**HEAD, "documents": 1}), 14),
        (message(HEAD, encode_sequence("updates", DOCUMENTS)), 40415),
        (message({**HEAD, "documents": [{}]}, encode_sequence("documents", DOCUMENTS)), 40433),
        (message({**HEAD, "stmtIds": [1], "documents": [{}, {}]}), 16),
        (message({**HEAD, "ordered": "yes", "documents": [{}]}), 14),
        (message({**HEAD, "insert": 5, "documents": [{}]}), 2),
        (message({**HEAD, "documents": [{"x": "y" * (17 << 20)}]}), 10334),
    ],
    ids=lambda one: str(one) if isinstance(one, int) else "",
)
def test_a_batch_that_a_server_could_not_read_is_refused_with_its_code(bad: Message, code: int) -> None:
    with pytest.raises(RouterError) as caught:
        take_apart(bad)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("ordered", "statements", "failed", "told"),
    [(True, 3, 0, True), (True, 3, 1, False), (False, 3, 2, True), (False, 3, 3, False)],
)
def test_a_write_concern_error_is_told_where_something_was_written(
    ordered: bool, statements: int, failed: int, told: bool
) -> None:
    tally = Tally("insert", ordered, statements)
    errors = [{"index": index, "code": 11000, "errmsg": "dup"} for index in range(failed)]
    unmet = {"code": 64, "codeName": "WriteConcernFailed", "errmsg": "waiting for replication timed out"}
    tally.add([0, 1, 2], {"a": {"n": 3 - failed, "writeErrors": errors, "writeConcernError": unmet}})
    assert tally.reply().get("writeConcernError") == (unmet if told else None)


def test_write_concern_errors_of_several_shards_are_told_as_one() -> None:
    tally = Tally("insert", statements=2)
    for index, shard in enumerate(("a", "b")):
        unmet = {"code": 64 + index, "codeName": f"Name{index}", "errmsg": "late"}
        tally.add([index], {shard: {"n": 1, "writeConcernError": unmet}})
    assert tally.reply()["writeConcernError"] == {
        "code": 64,
        "codeName": "Name0",
        "errmsg": "multiple errors reported : Name0: late at a :: and :: Name1: late at b",
    }


def test_a_part_ends_before_a_message_would_be_too_long() -> None:
    big = encode_document({"x": "y" * (PART_BYTES // 3)})
    batch = take_apart(message(HEAD, encode_sequence("documents", [DOCUMENTS[0], big, big])))
    batch = type(batch)(batch.kind, "app", "c", [big, big, DOCUMENTS[0], big], range(4), False, True, batch.common)
    assert list(batch.sized([0, 1, 2, 3])) == [[0, 1, 2], [3]]


def test_answers_of_shards_add_up_under_the_clients_indices() -> None:
    tally = Tally("update")
    tally.add([0, 3], {"a": {"n": 2, "nModified": 1, "upserted": [{"index": 1, "_id": "u"}]}})
    duplicate = {"index": 1, "code": 11000, "errmsg": "dup"}
    tally.add([1, 2], {"b": {"n": 1, "nModified": 1, "writeErrors": [duplicate]}})
    assert tally.reply() == {
        "n": 3,
        "nModified": 2,
        "upserted": [{"index": 3, "_id": "u"}],
        "writeErrors": [{"index": 2, "code": 11000, "errmsg": "dup"}],
        "ok": 1.0,
    }


@pytest.mark.parametrize(
    ("replies", "n"),
    [
        ([{"n": 0}, {"n": 1}], 1),
        ([{"n": 1}, {"n": 1}], 2),  # two documents with this _id, one on each shard
        ([{"n": 1, "retriedStmtIds": [0]}, {"n": 0}], 1),
        ([{"n": 1, "retriedStmtIds": [0]}, {"n": 1, "retriedStmtIds": [0]}], 1),  # its document moved between sends
    ],
)
def test_one_write_recorded_on_two_shards_counts_once(replies: list[dict[str, Any]], n: int) -> None:
    tally = Tally("update")
    tally.add([0], {str(place): {"nModified": one["n"], **one} for place, one in enumerate(replies)})
    assert (tally.n, tally.modified) == (n, n)


def test_a_statement_sent_to_all_shards_has_one_error_however_many_refuse_it() -> None:
    tally = Tally("update")
    refused = {"n": 0, "writeErrors": [{"index": 0, "code": 9, "errmsg": "bad"}]}
    tally.add([5], {"a": refused, "b": refused})
    assert [(one["index"], one["code"]) for one in tally.reply()["writeErrors"]] == [(5, 9)]


def test_the_reply_tells_the_latest_times_of_all_shards() -> None:
    tally = Tally("insert")
    early, late = Timestamp(1, 1), Timestamp(2, 1)
    tally.add([0], {"a": {"n": 1, "operationTime": late, "$clusterTime": {"clusterTime": early}}})
    tally.add([1], {"b": {"n": 1, "operationTime": early, "$clusterTime": {"clusterTime": late}}})
    reply = tally.reply()
    assert (reply["operationTime"], reply["$clusterTime"]["clusterTime"]) == (late, late)
    assert "nModified" not in reply


def test_an_update_that_would_move_its_document_says_what_the_router_lacks() -> None:
    tally = Tally("update")
    refused = {"n": 0, "writeErrors": [{"index": 0, "code": 283, "errmsg": "WouldChangeOwningShard"}]}
    tally.add([0], {"a": refused})
    assert "the stand-in router does not" in tally.reply()["writeErrors"][0]["errmsg"]
