"""Change streams: what a driver sends to open one, with every option, through the router and to a plain replica set.

All streams are opened first, then one list of writes is done, then each is read to its end: what it delivers must be
what the replica set delivers. Streams that cannot be opened must fail alike.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest
from bson.int64 import Int64
from bson.timestamp import Timestamp

from clusters.cluster import primary_of
from clusters.local import LocalCluster
from clusters.wire.connection import Connection
from conformance import DEADLINE, REPLICA_SET, SHARDED, UNSHARDED, Place, differing, places

pytestmark = pytest.mark.live

WRITES: Final[list[dict[str, Any]]] = [
    {"insert": "orders", "documents": [{"_id": 1, "region": -1, "n": 1}, {"_id": 2, "region": 1, "n": 2}]},
    {"update": "orders", "updates": [{"q": {"region": -1}, "u": {"$set": {"state": "paid"}, "$unset": {"n": 1}}}]},
    {"update": "orders", "updates": [{"q": {"region": 1}, "u": {"region": 1, "n": 3}}]},
    {"update": "orders", "updates": [{"q": {"region": 1}, "u": [{"$set": {"m": "$n"}}]}]},
    {"delete": "orders", "deletes": [{"q": {"region": 1}, "limit": 1}]},
    {"insert": "second", "documents": [{"_id": 7}]},
]
KEPT: Final = (
    "operationType", "fullDocument", "fullDocumentBeforeChange", "updateDescription", "documentKey", "ns", "x",
)  # fmt: skip


@dataclass(frozen=True)
class Watch:
    """An aggregate that opens a change stream on `orders`, or with `whole` on all of the database or the cluster."""

    name: str
    options: Mapping[str, Any]
    stages: tuple[Mapping[str, Any], ...] = ()
    more: tuple[tuple[str, Any], ...] = ()
    whole: str = ""

    def command(self, place: Place, start: Timestamp) -> tuple[str, dict[str, Any]]:
        options: dict[str, Any] = {"startAtOperationTime": start, **self.options}
        if self.whole == "cluster":
            options["allChangesForCluster"] = True
        command = {
            "aggregate": 1 if self.whole else "orders",
            "pipeline": [{"$changeStream": options}, *self.stages],
            "cursor": {},
            **dict(self.more),
        }
        return ("admin" if self.whole == "cluster" else place.database), command


def watch(name: str, *stages: Mapping[str, Any], whole: str = "", options: Any = None, **more: Any) -> Watch:
    return Watch(name, options or {}, stages, tuple(more.items()), whole)


STREAMS: Final = [
    watch("nothing given"),
    watch("fullDocument default", options={"fullDocument": "default"}),
    watch("updateLookup", options={"fullDocument": "updateLookup"}),
    watch("whenAvailable", options={"fullDocument": "whenAvailable"}),
    watch("before change off", options={"fullDocumentBeforeChange": "off"}),
    watch("before change whenAvailable", options={"fullDocumentBeforeChange": "whenAvailable"}),
    watch("$match", {"$match": {"operationType": "update"}}),
    watch("$match on the document", {"$match": {"fullDocument.n": {"$gte": 2}}}),
    watch(
        "$match on the post-image", {"$match": {"fullDocument.state": "paid"}}, options={"fullDocument": "updateLookup"}
    ),
    watch("$project", {"$project": {"operationType": 1, "documentKey": 1}}),
    watch("$project out", {"$project": {"fullDocument": 0}}),
    watch("$addFields", {"$addFields": {"x": {"$concat": ["$operationType", "!"]}}}),
    watch("$set and $unset", {"$set": {"x": 1}}, {"$unset": "updateDescription"}),
    watch("$replaceRoot", {"$replaceRoot": {"newRoot": {"_id": "$_id", "x": "$operationType"}}}),
    watch("$replaceWith", {"$replaceWith": {"_id": "$_id", "x": "$operationType"}}),
    watch("$redact", {"$redact": {"$cond": [{"$eq": ["$operationType", "insert"]}, "$$KEEP", "$$PRUNE"]}}),
    watch("comment", comment={"of": "a driver"}),
    watch("collation", {"$match": {"operationType": "INSERT"}}, collation={"locale": "en", "strength": 1}),
    watch("batchSize 1", cursor={"batchSize": 1}),
    watch("batchSize 0", cursor={"batchSize": 0}),
    watch("read concern majority", readConcern={"level": "majority"}),
    watch("let", {"$match": {"$expr": {"$eq": ["$operationType", "$$wanted"]}}}, let={"wanted": "delete"}),
    watch("allowDiskUse", allowDiskUse=True),
    watch("maxTimeMS", maxTimeMS=60_000),
    watch("expanded events", options={"showExpandedEvents": True}),
    watch("the database", whole="database"),
    watch("the database, $match", {"$match": {"ns.coll": "second"}}, whole="database"),
    watch("the cluster", {"$match": {"ns.coll": {"$in": ["orders", "second"]}}}, whole="cluster"),
]  # fmt: skip

REFUSED: Final = [
    watch("fullDocument unknown", options={"fullDocument": "surprise"}),
    watch("fullDocument of a wrong type", options={"fullDocument": 1}),
    watch("before change unknown", options={"fullDocumentBeforeChange": "surprise"}),
    watch("unknown option", options={"surprise": 1}),
    watch("unknown command option", surprise=1),
    watch("a token that is none", options={"resumeAfter": {"_data": "xyz"}}),
    watch("a token without data", options={"resumeAfter": {}}),
    watch("two starts", options={"resumeAfter": {"_data": "00"}, "startAfter": {"_data": "00"}}),
    watch("$group", {"$group": {"_id": "$operationType"}}),
    watch("$out", {"$out": "copy"}),
    watch("$sort", {"$sort": {"_id": 1}}),
    watch("$lookup", {"$lookup": {"from": "a", "localField": "b", "foreignField": "c", "as": "d"}}),
    watch("unknown stage", {"$surprise": 1}),
    watch("$changeStream twice", {"$changeStream": {}}),
    watch("read concern local", readConcern={"level": "local"}),
    watch("read concern linearizable", readConcern={"level": "linearizable"}),
    watch("all changes from a collection", options={"allChangesForCluster": True}),
    watch("unknown collation", collation={"locale": "xx"}),
    watch("a bad expression", {"$addFields": {"x": {"$surprise": 1}}}),
]  # fmt: skip


class Reader:
    """One stream: opened before the writes, read after them on a connection of its own."""

    def __init__(self, place: Place, connection: Connection, database: str, collection: str) -> None:
        self.place = place
        self.connection = connection
        self.database = database
        self.collection = collection
        self.cursor: dict[str, Any] = {}

    async def until(self, end: Timestamp) -> list[dict[str, Any]]:
        """Everything that it delivers of the time up to `end`: its token has passed it then."""
        identity, events = Int64(self.cursor["id"]), list(self.cursor["firstBatch"])
        token = self.cursor["postBatchResumeToken"]
        more = {"getMore": identity, "collection": self.collection, "maxTimeMS": 100}
        async with asyncio.timeout(DEADLINE):
            while _time_of(token) < end:
                reply = await self.connection.command(self.database, more)
                events += reply["cursor"]["nextBatch"]
                token = reply["cursor"]["postBatchResumeToken"]
        await self.connection.command(self.database, {"killCursors": self.collection, "cursors": [identity]})
        self.connection.close()
        mine = [one for one in events if one.get("ns", {}).get("db", self.place.database) == self.place.database]
        return [_plain(event, self.place) for event in mine if _time_of(event["_id"]) < end]


def _time_of(token: Mapping[str, Any]) -> Timestamp:
    """The cluster time in a resume token: behind its first byte, the KeyString's mark of a timestamp."""
    raw = bytes.fromhex(token["_data"][2:18])
    return Timestamp(int.from_bytes(raw[:4], "big"), int.from_bytes(raw[4:], "big"))


def _plain(event: Mapping[str, Any], place: Place) -> dict[str, Any]:
    plain = {name: copy.deepcopy(event[name]) for name in KEPT if name in event}
    if "documentKey" in plain:
        plain["documentKey"].pop("region", None)  # the shard key, where there is one
    if "ns" in plain:
        plain["ns"]["db"] = plain["ns"]["db"].replace(place.database, "DATABASE")
    return plain


@pytest.fixture(scope="module")
async def all_places(sharded: LocalCluster, replica_set: LocalCluster) -> AsyncIterator[dict[str, Place]]:
    async with places(sharded, replica_set) as made:
        for place in made.values():
            for name in ("orders", "second"):
                await place.run({"create": name})
        yield made
        await made[SHARDED].run({"dropDatabase": 1}, database="conform_clock")
        await made[REPLICA_SET].run({"dropDatabase": 1}, database="conform_clock")


async def now(place: Place) -> Timestamp:
    """A time after everything written so far through this place. In a database of its own, which no stream shows."""
    tick = {"update": "clock", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}, "upsert": True}]}
    time: Timestamp = (await place.run(tick, database="conform_clock"))["$clusterTime"]["clusterTime"]
    return Timestamp(time.time, time.inc + 1)


@pytest.fixture(scope="module")
async def delivered(
    sharded: LocalCluster, replica_set: LocalCluster, all_places: dict[str, Place]
) -> dict[str, dict[str, Any]]:
    """Kind of place -> stream -> events, or the reply it could not be opened with."""
    hosts = {REPLICA_SET: (await primary_of(replica_set, "rs0")).host}
    found: dict[str, dict[str, Any]] = {}
    for kind, place in all_places.items():
        assert sharded.router is not None
        start, readers, found[kind] = await now(place), {}, {}
        for one in STREAMS:
            connection = await Connection.open(hosts.get(kind, sharded.router), deadline=DEADLINE)
            database, command = one.command(place, start)
            collection = "$cmd.aggregate" if one.whole else "orders"
            reader = Reader(place, connection, database, collection)
            reply = await Place(kind, connection, database).run(command)
            if reply["ok"] == 1:
                reader.cursor = reply["cursor"]
                readers[one.name] = reader
            else:
                found[kind][one.name] = reply
                connection.close()
        for write in WRITES:
            reply = await place.run(write)
            assert reply["ok"] == 1 and "writeErrors" not in reply, reply
        end = await now(place)
        # Post-images are read from the majority: what is deleted must be so there, on every shard.
        settled = {"q": {}, "u": {"$set": {"settled": 1}}, "multi": True}
        reply = await place.run({"update": "orders", "updates": [settled], "writeConcern": {"w": "majority"}})
        assert reply["ok"] == 1 and "writeConcernError" not in reply, reply
        events = await asyncio.gather(*(reader.until(end) for reader in readers.values()))
        found[kind].update(zip(readers, events, strict=True))
    return found


@pytest.mark.parametrize("kind", [SHARDED, UNSHARDED])
@pytest.mark.parametrize("stream", [one.name for one in STREAMS])
def test_a_stream_delivers_what_it_does_on_a_replica_set(
    delivered: dict[str, dict[str, Any]], stream: str, kind: str
) -> None:
    events, expected = delivered[kind][stream], delivered[REPLICA_SET][stream]
    assert isinstance(expected, list), expected
    assert expected, "the replica set delivered nothing: the case shows nothing"
    assert not (differences := list(differing(events, expected))), differences


@pytest.mark.parametrize("kind", [SHARDED, UNSHARDED])
@pytest.mark.parametrize("one", REFUSED, ids=lambda one: one.name)
async def test_a_stream_that_cannot_be_opened_fails_as_on_a_replica_set(
    all_places: dict[str, Place], one: Watch, kind: str
) -> None:
    answers = []
    for place in (all_places[kind], all_places[REPLICA_SET]):
        database, command = one.command(place, Timestamp(1, 1))
        if "resumeAfter" in one.options:
            del command["pipeline"][0]["$changeStream"]["startAtOperationTime"]
        answers.append(await place.run(command, database=database))
    assert answers[1]["ok"] == 0, answers[1]
    assert [one.get("code") for one in answers] == [answers[1]["code"]] * 2, [one.get("errmsg") for one in answers]
