"""What is said to servers of each version: the table, and the forms that the router's requests take by it."""

from __future__ import annotations

import pytest
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from clusters import quirks
from clusters.errors import Refused
from clusters.local import check_version
from clusters.router.catalog import build_table, shard_version
from clusters.router.merge import Event
from clusters.router.shard_cursor import plain_event
from clusters.router.stream_request import StreamRequest
from clusters.topology import sharded_cluster, single_replica_set
from clusters.wire.message import encode_document

EPOCH = ObjectId(b"e" * 12)
VERSION, STAMP = Timestamp(3, 1), Timestamp(100, 1)
TOKEN = {"_data": "82" + "0000000A" + "00000002" + "2B022C0100296E5A1004"}


@pytest.mark.parametrize(
    ("version", "routed", "driven"),
    [
        ("4.0.1", False, False),
        ("4.2.6", False, False),
        ("4.4.2", False, True),
        ("5.0.4", False, True),
        ("5.3.1", False, True),
        ("6.0.5", True, True),
        ("6.0.27", True, True),
        ("8.0.4", True, True),
    ],
)
def test_a_version_is_as_the_last_line_that_is_not_past_it(version: str, routed: bool, driven: bool) -> None:
    found = quirks.of_version(version)
    assert (found.routed_lookup, found.drivers) == (routed, driven)
    assert found.cluster_commands is routed


def test_a_shard_version_has_the_form_that_the_servers_read() -> None:
    assert shard_version("pair", VERSION, EPOCH, STAMP) == [VERSION, EPOCH]
    assert shard_version("triple", VERSION, EPOCH, STAMP) == [VERSION, EPOCH, STAMP]
    assert shard_version("document", VERSION, EPOCH, STAMP) == {"t": STAMP, "e": EPOCH, "v": VERSION}


def test_a_collection_without_a_timestamp_has_a_table_all_the_same() -> None:
    from bson.max_key import MaxKey
    from bson.min_key import MinKey

    collection = {"_id": "a.b", "lastmodEpoch": EPOCH, "key": {"k": 1}}
    chunk = {"min": {"k": MinKey()}, "max": {"k": MaxKey()}, "shard": "s", "lastmod": VERSION}
    table = build_table(collection, [chunk], "pair")
    assert table is not None
    assert table.shard_version("s") == [VERSION, EPOCH]


def stream(**options: object) -> StreamRequest:
    command = {"aggregate": "b", "$db": "a", "pipeline": [{"$changeStream": options}, {"$match": {}}], "cursor": {}}
    return StreamRequest.of(command, merged=False)


def test_before_6_0_a_shard_is_asked_for_a_stream_as_by_a_client_of_its_own() -> None:
    command = stream(fullDocument="updateLookup").shard_command(Timestamp(5, 6))
    options = {"fullDocument": "updateLookup", "startAtOperationTime": Timestamp(5, 6)}
    assert command["pipeline"] == [{"$changeStream": options}, {"$match": {}}]
    assert not {"fromMongos", "needsMerge"} & set(command)


@pytest.mark.parametrize("name", ["resumeAfter", "startAfter"])
def test_before_6_0_a_stream_is_resumed_by_the_time_of_its_token(name: str) -> None:
    (first, _match) = stream(**{name: TOKEN}).shard_command(None)["pipeline"]
    assert first == {"$changeStream": {"startAtOperationTime": Timestamp(10, 2)}}


def test_an_event_of_a_clients_own_stream_has_its_token_for_its_id() -> None:
    raw = encode_document({"_id": TOKEN, "operationType": "insert"})
    assert plain_event(raw) == Event(TOKEN["_data"], TOKEN, raw)


@pytest.mark.parametrize(
    ("version", "has_mongos", "reason"),
    [
        ("4.2.6", True, r"mongod 4\.2\.6 is for raw wire only, and so for a replica set .*: pymongo needs 4"),
        ("7.0.1", False, "no mongos found for mongod 7.0.1: put one there"),
    ],
)
def test_a_version_that_nobody_here_can_drive_is_refused(version: str, has_mongos: bool, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        check_version(sharded_cluster(), version, has_mongos=has_mongos, otherwise="put one there")


def test_others_are_not() -> None:
    check_version(single_replica_set(), "4.2.6", has_mongos=False, otherwise="")
    for version in ("4.4.2", "5.0.4", "6.0.27"):
        check_version(sharded_cluster(), version, has_mongos=False, otherwise="")
    check_version(single_replica_set(), "7.0.1", has_mongos=False, otherwise="")
    check_version(sharded_cluster(), "7.0.1", has_mongos=True, otherwise="")
