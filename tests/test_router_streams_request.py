"""What a client may ask of a change stream, what each shard is asked, and its batches taken apart. No cluster."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from clusters.router.errors import RouterError
from clusters.router.shard_cursor import parse_batch, parse_event
from clusters.router.stream_request import StreamRequest
from clusters.wire.connection import CommandFailed
from clusters.wire.message import ProtocolError, decode

# Measured on 6.0.5: an insert's token and the high-water mark of the same second.
EVENT_TOKEN = {
    "_data": "826B0C8644000000312B022C0100296E5A1004EA128D87D06C4C2D9A9490121B2EA2C0"
    "461E726567696F6E0027FD1E5F6964002B020004"
}
HIGH_WATER = {"_data": "826B0C8605000000022B0229296E04"}


def aggregate(options: dict[str, Any] | None = None, *stages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "aggregate": "orders",
        "pipeline": [{"$changeStream": options or {}}, *stages],
        "cursor": {"batchSize": 7},
        "$db": "app",
        **fields,
    }


def test_a_read_preference_that_is_not_built_is_refused_in_one_line_that_names_the_stand_in() -> None:
    with pytest.raises(RouterError, match=r"maxStalenessSeconds.*stand-in router") as refused:
        StreamRequest.of(aggregate(**{"$readPreference": {"mode": "secondary", "maxStalenessSeconds": 120}}))
    assert "\n" not in str(refused.value)
    assert refused.value.code == 238


def test_what_the_router_does_not_know_is_left_for_a_shard_to_judge() -> None:
    asked = StreamRequest.of(aggregate({"fullDocument": "nonsense"}, nonsense=1, collation={"locale": "fr"}))
    command = asked.shard_command(None)
    assert (command["nonsense"], command["collation"]) == (1, {"locale": "fr"})
    assert command["pipeline"][0]["$changeStream"] == {"fullDocument": "nonsense"}


def test_a_client_cannot_name_its_aggregate_one_of_a_router() -> None:
    command = StreamRequest.of(aggregate(fromMongos=False, needsMerge=False, writeConcern={"w": 5})).shard_command(None)
    assert (command["fromMongos"], command["needsMerge"], command["writeConcern"]) == (True, True, {"w": 1})


def test_the_pre_image_is_asked_for_before_the_post_image_that_is_made_from_it() -> None:
    options = {"fullDocument": "required", "fullDocumentBeforeChange": "whenAvailable"}
    stages = StreamRequest.of(aggregate(options)).shard_command(None)["pipeline"]
    assert stages[2:] == [
        {"$_internalChangeStreamAddPreImage": {"fullDocumentBeforeChange": "whenAvailable"}},
        {"$_internalChangeStreamAddPostImage": {"fullDocument": "required"}},
    ]


@pytest.mark.parametrize("database", ["app", "admin"])
def test_a_stream_without_a_collection_goes_to_the_database_under_its_collectionless_name(database: str) -> None:
    request = StreamRequest.of({**aggregate({"resumeAfter": HIGH_WATER}), "aggregate": 1, "$db": database})
    assert request.namespace == f"{database}.$cmd.aggregate"
    assert request.shard_command(None)["aggregate"] == 1


def test_a_start_of_the_routers_own_replaces_the_clients() -> None:
    asked = StreamRequest.of(aggregate({"resumeAfter": HIGH_WATER, "fullDocument": "updateLookup"}))
    options = asked.shard_command(Timestamp(5, 6))["pipeline"][0]["$changeStream"]
    assert options == {"fullDocument": "updateLookup", "startAtOperationTime": Timestamp(5, 6)}


def test_a_shard_is_asked_for_its_lookup_before_the_stages_of_the_user() -> None:
    match = {"$match": {"operationType": "update"}}
    asked = StreamRequest.of(aggregate({"fullDocument": "updateLookup"}, match)).shard_command(Timestamp(5, 6))
    assert [next(iter(stage)) for stage in asked["pipeline"]] == [
        "$changeStream",
        "$_internalChangeStreamCheckTopologyChange",
        "$_internalChangeStreamAddPostImage",
        "$match",
    ]
    assert asked["pipeline"][0]["$changeStream"] == {
        "fullDocument": "updateLookup",
        "startAtOperationTime": Timestamp(5, 6),
    }


def test_without_update_lookup_no_lookup_is_asked_for() -> None:
    asked = StreamRequest.of(aggregate()).shard_command(None)
    assert [next(iter(stage)) for stage in asked["pipeline"]] == [
        "$changeStream",
        "$_internalChangeStreamCheckTopologyChange",
    ]


def test_read_preference_and_comment_go_with_the_aggregate_and_every_get_more() -> None:
    preference = {"mode": "secondary", "tags": [{"dc": "a"}]}
    request = StreamRequest.of(aggregate(comment={"stream": 3}, **{"$readPreference": preference}))
    asked = request.shard_command(None)
    assert (asked["$readPreference"], asked["comment"]) == (preference, {"stream": 3})
    assert request.get_more_fields(None) == {"$readPreference": preference, "comment": {"stream": 3}}
    assert request.get_more_fields("own")["comment"] == "own"


def test_a_shard_always_reads_majority_and_the_client_cannot_lose_it_by_naming_a_time_alone() -> None:
    asked = StreamRequest.of(aggregate(readConcern={"afterClusterTime": Timestamp(1, 1)})).shard_command(None)
    assert asked["readConcern"] == {"level": "majority", "afterClusterTime": Timestamp(1, 1)}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"startAtOperationTime": Timestamp(1, 1)}, None),
        ({"resumeAfter": HIGH_WATER}, None),
        ({"resumeAfter": EVENT_TOKEN}, EVENT_TOKEN["_data"]),
        ({"startAfter": EVENT_TOKEN}, EVENT_TOKEN["_data"]),
        ({"resumeAfter": {"not": "a token"}}, None),
    ],
)
def test_only_the_token_of_an_event_has_to_be_found_again(options: dict[str, Any], expected: str | None) -> None:
    assert StreamRequest.of(aggregate(options)).resume_key == expected


SORT_KEY = {"$sortKey": [EVENT_TOKEN]}


@given(st.dictionaries(st.text("abc$", min_size=1), st.one_of(st.integers(-9, 9), st.text(), st.binary())))
def test_the_sort_key_is_taken_off_and_nothing_else_changes(fields: dict[str, Any]) -> None:
    document = {"_id": EVENT_TOKEN, **fields, "fullDocument": {**fields, **SORT_KEY}}
    found = parse_event(bson.encode({**document, **SORT_KEY}))
    assert found.document == bson.encode(document)
    assert (found.key, found.token) == (EVENT_TOKEN["_data"], EVENT_TOKEN)


def test_a_sort_key_that_is_not_last_is_found_as_well() -> None:
    found = parse_event(bson.encode({"_id": EVENT_TOKEN, **SORT_KEY, "a": 1}))
    assert found.document is not None
    assert decode(found.document) == {"_id": EVENT_TOKEN, "a": 1}


def test_an_event_without_a_sort_key_is_no_event_of_a_shard() -> None:
    with pytest.raises(ProtocolError, match="needsMerge"):
        parse_event(bson.encode({"_id": EVENT_TOKEN}))


def reply(*events: dict[str, Any]) -> bytes:
    return bson.encode(
        {
            "cursor": {"nextBatch": list(events), "postBatchResumeToken": HIGH_WATER, "id": 7, "ns": "app.orders"},
            "ok": 1.0,
        }
    )


def test_news_of_a_new_shard_is_kept_from_the_client() -> None:
    news = {"_id": EVENT_TOKEN, "operationType": "kNewShardDetected", **SORT_KEY}
    batch = parse_batch("h:1", "getMore", reply(news, {"_id": EVENT_TOKEN, "operationType": "insert", **SORT_KEY}))
    assert batch.new_shard
    assert len(batch.events) == 1


def test_a_user_document_that_looks_like_such_news_is_delivered() -> None:
    look_alike = {"_id": EVENT_TOKEN, "operationType": "insert", "fullDocument": {"operationType": "kNewShardDetected"}}
    batch = parse_batch("h:1", "getMore", reply({**look_alike, **SORT_KEY}))
    assert not batch.new_shard
    assert [decode(one.document or b"") for one in batch.events] == [look_alike]


def test_what_the_shard_refuses_is_raised_as_it_said_it() -> None:
    with pytest.raises(CommandFailed) as failed:
        parse_batch("h:1", "getMore", bson.encode({"ok": 0.0, "code": 286, "codeName": "ChangeStreamHistoryLost"}))
    assert failed.value.code == 286
