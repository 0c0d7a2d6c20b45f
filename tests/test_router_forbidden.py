"""The gate to the router host: what would abort a mongod never passes, however it is dressed."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from bson.int64 import Int64
from hypothesis import given

import clusters.router
from bson_values import documents, repeatedly
from clusters.router.forbidden import CLUSTER_FORM, PLAIN, Forbidden, as_itself, explain_form, to_cluster_form
from clusters.wire.message import (
    CHECKSUM_PRESENT,
    EXHAUST_ALLOWED,
    MORE_TO_COME,
    Message,
    encode,
    encode_body,
    encode_document,
    encode_sequence,
)

OPENED = (Int64(77),)
STREAM: dict[str, Any] = {"$changeStream": {}}


def message(command: Mapping[str, Any], *sequences: bytes, flags: int = 0) -> Message:
    body = encode_document({**command, "$db": "app"})
    return Message(encode_body(body, request_id=9, flags=flags, tail=b"".join(sequences)))


def joined(*parts: Mapping[str, Any]) -> Message:
    """A message whose body may name a field twice."""
    fields = b"".join(encode_document(one)[4:-1] for one in parts)
    body = (len(fields) + 5).to_bytes(4, "little") + fields + b"\x00"
    return Message(encode_body(body, request_id=9))


AGGREGATE = {"aggregate": "orders", "cursor": {}}

REFUSED = {
    "numbered insert": message({"insert": "orders", "documents": [{"a": 1}], "txnNumber": Int64(1)}),
    "numbered update": message({"update": "orders", "updates": [{"q": {}, "u": {}}], "txnNumber": 1}),
    "numbered delete": message({"delete": "orders", "deletes": [{"q": {}, "limit": 1}], "txnNumber": None}),
    "numbered find": message({"find": "orders", "txnNumber": Int64(1)}),
    "number in a sequence": message({"insert": "orders"}, encode_sequence("txnNumber", [encode_document({})])),
    "number twice": joined({"insert": "orders"}, {"txnNumber": 1}, {"txnNumber": 2}, {"$db": "app"}),
    "transaction": message({"find": "orders", "autocommit": False}),
    "start of a transaction": message({"find": "orders", "startTransaction": True}),
    "retry counter": message({"find": "orders", "txnRetryCounter": 1}),
    "statement id": message({"update": "orders", "updates": [], "stmtId": 1}),
    "statement ids": message({"update": "orders", "updates": [], "stmtIds": [1]}),
    "stream": message({**AGGREGATE, "pipeline": [STREAM]}),
    "stream that is not first": message({**AGGREGATE, "pipeline": [{"$match": {}}, STREAM]}),
    "stream in a union": message({**AGGREGATE, "pipeline": [{"$unionWith": {"coll": "x", "pipeline": [STREAM]}}]}),
    "stream in a facet": message({**AGGREGATE, "pipeline": [{"$facet": {"a": [STREAM]}}]}),
    "stream in a lookup": message({**AGGREGATE, "pipeline": [{"$lookup": {"from": "x", "pipeline": [STREAM]}}]}),
    "stream in a sequence": message(AGGREGATE, encode_sequence("pipeline", [encode_document(STREAM)])),
    "stream in the first of two pipelines": joined(
        {"aggregate": "orders"}, {"pipeline": [STREAM]}, {"pipeline": [{"$match": {}}]}, {"cursor": {}}, {"$db": "app"}
    ),
    "stream in the last of two pipelines": joined(
        {"aggregate": "orders"}, {"pipeline": [{"$match": {}}]}, {"pipeline": [STREAM]}, {"cursor": {}}, {"$db": "app"}
    ),
    "stream in body and sequence": message(
        {**AGGREGATE, "pipeline": [{"$match": {}}]}, encode_sequence("pipeline", [encode_document(STREAM)])
    ),
    "stream of the cluster": message({"aggregate": 1, "pipeline": [STREAM], "cursor": {}}),
    "stream behind explain": message({**AGGREGATE, "pipeline": [STREAM], "explain": True}),
    "inner stage of a stream": message({**AGGREGATE, "pipeline": [{"$_internalChangeStreamOplogMatch": {}}]}),
    "split of large events": message({**AGGREGATE, "pipeline": [{"$changeStreamSplitLargeEvent": {}}]}),
    "getMore of an unknown cursor": message({"getMore": Int64(5), "collection": "orders"}),
    "getMore by a string": message({"getMore": "77", "collection": "orders"}),
    "getMore twice": joined({"getMore": Int64(77)}, {"getMore": Int64(5)}, {"collection": "orders"}),
    "tailable": message({"find": "orders", "tailable": True}),
    "tailable as a number": message({"find": "orders", "tailable": 1}),
    "awaiting data": message({"find": "orders", "tailable": True, "awaitData": 1.0}),
    "raw cluster command": message({"clusterFind": "orders"}),
    "raw cluster insert": message({"clusterInsert": "orders", "documents": [{}]}),
    "raw shard server command": message({"_shardsvrDropCollection": "orders"}),
    "raw config server command": message({"_configsvrMoveRange": "app.orders"}),
    "unknown command": message({"collMod": "orders"}),
    "findAndModify": message({"findAndModify": "orders", "query": {}, "remove": True}),
    "as if from a mongos": message({**AGGREGATE, "pipeline": [], "fromMongos": True}),
    "merge half of an aggregate": message({**AGGREGATE, "pipeline": [], "needsMerge": True}),
    "exchange": message({**AGGREGATE, "pipeline": [], "exchange": {}}),
    "shard version": message({"find": "orders", "shardVersion": {}}),
    "database version": message({"find": "orders", "databaseVersion": {}}),
    "database local": joined({"find": "oplog.rs"}, {"$db": "local"}),
    "database twice": joined({"find": "orders"}, {"$db": "app"}, {"$db": "admin"}),
    "documents twice": message({"insert": "o", "documents": [{}]}, encode_sequence("documents", [encode_document({})])),
    "sequence of another command": message({"insert": "o"}, encode_sequence("updates", [encode_document({})])),
}

PASSED = {
    "find": message({"find": "orders", "filter": {"txnNumber": 1, "startTransaction": True}}),
    "not tailable": message({"find": "orders", "tailable": False, "awaitData": False}),
    "aggregate": message({**AGGREGATE, "pipeline": [{"$match": {"a": "$changeStream"}}]}),
    "getMore": message({"getMore": OPENED[0], "collection": "orders"}),
    "insert": message({"insert": "orders"}, encode_sequence("documents", [encode_document({"txnNumber": 1})])),
    "insert of a stream's text": message({"insert": "orders", "documents": [{"$changeStream": 1}]}),
    "update": message({"update": "orders", "updates": [{"q": {}, "u": {"$set": {"autocommit": False}}}]}),
    "delete": message({"delete": "orders", "deletes": [{"q": {}, "limit": 0}]}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_abort_the_router_host_is_refused_by_name(name: str) -> None:
    with pytest.raises(Forbidden, match="the stand-in router"):
        to_cluster_form(REFUSED[name], OPENED)


@pytest.mark.parametrize("name", PASSED)
def test_what_is_harmless_passes_with_its_documents_untouched(name: str) -> None:
    given_message = PASSED[name]
    passed = Message(to_cluster_form(given_message, OPENED))
    assert passed.command == CLUSTER_FORM[given_message.command]
    assert passed.request_id == given_message.request_id
    assert list(passed.document().values()) == list(given_message.document().values())


@repeatedly
@given(documents)
def test_a_number_among_the_fields_of_any_insert_is_refused(rest: dict[str, Any]) -> None:
    body = {"insert": "orders", **{name: value for name, value in rest.items() if name != "insert"}, "txnNumber": 1}
    with pytest.raises(Forbidden):
        to_cluster_form(message(body), OPENED)


def test_flags_between_the_client_and_the_router_go_no_further() -> None:
    body = encode_document({"find": "orders", "$db": "app"})
    raw = encode_body(
        body, request_id=9, flags=CHECKSUM_PRESENT | MORE_TO_COME | EXHAUST_ALLOWED, tail=b"\x01\x02\x03\x04"
    )
    assert Message(to_cluster_form(Message(raw), ())).flags == 0


@pytest.mark.parametrize("command", [*CLUSTER_FORM, "clusterFind", "shutdown", "replSetStepDown", "dropDatabase"])
def test_the_router_host_is_asked_as_itself_only_what_is_listed(command: str) -> None:
    with pytest.raises(Forbidden):
        as_itself(Message(encode({command: "orders", "$db": "admin"}, request_id=1)))
    assert command not in PLAIN


def test_an_aggregate_on_no_collection_may_be_asked_of_the_router_host_itself() -> None:
    own = Message(
        encode({"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}, "$db": "admin"}, request_id=1)
    )
    assert Message(as_itself(own)).document() == own.document()


def test_the_cluster_commands_are_spelled_in_the_gate_and_nowhere_else() -> None:
    forms = {*CLUSTER_FORM.values(), "clusterFindAndModify", "clusterCommitTransaction", "clusterAbortTransaction"}
    spelled = {}
    for path in Path(clusters.router.__path__[0]).glob("*.py"):
        found = {
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and node.value in forms
        }
        if found:
            spelled[path.name] = found
    assert spelled == {"forbidden.py": set(CLUSTER_FORM.values())}


@pytest.mark.parametrize(
    "inner",
    [
        {"update": "orders", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
        {"clusterUpdate": "orders", "updates": []},
        {"clusterFind": "orders"},
        {"delete": "orders", "deletes": []},
        {"explain": {"find": "orders"}},
        {"find": "orders", "tailable": True},
        {"find": "orders", "txnNumber": Int64(1)},
        {"aggregate": 1, "pipeline": [], "cursor": {}},
        {"aggregate": "orders", "pipeline": [STREAM], "cursor": {}},
        {"aggregate": "orders", "pipeline": [], "fromMongos": True},
        {},
        3,
    ],
    ids=str,
)
def test_nothing_but_a_harmless_read_is_explained_by_the_router_host(inner: object) -> None:
    """A shard told to explain a clusterUpdate explains itself to death."""
    with pytest.raises(Forbidden):
        explain_form(message({"explain": inner, "verbosity": "queryPlanner"}))


def test_an_explain_passes_with_its_command_in_cluster_form_and_nothing_else() -> None:
    given = {"explain": {"find": "orders", "filter": {"a": 1}}, "verbosity": "executionStats", "lsid": {"id": 1}}
    assert Message(explain_form(message(given))).document() == {
        "explain": {"clusterFind": "orders", "filter": {"a": 1}},
        "verbosity": "executionStats",
        "$db": "app",
    }
