"""Write commands as bytes: the router's numbered and un-numbered answers beside a replica set's.

What a driver's helpers never send is here too: statements that cannot be read, missing, too many, too large.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from bson.int64 import Int64
from pymongo.asynchronous.collection import AsyncCollection

from clusters.cluster import primary_of
from clusters.local import LocalCluster
from clusters.wire.connection import Connection
from clusters.wire.message import decode, encode_body, encode_document, encode_sequence, next_request_id
from router_parts import DEADLINE, Orders, orders, session, to_router

pytestmark = pytest.mark.live

MEGABYTE = 1 << 20
COMPARED = ("ok", "n", "nModified", "code", "errmsg", "upserted", "value", "lastErrorObject")

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
async def collection(sharded: LocalCluster) -> AsyncIterator[Orders]:
    async with orders(sharded) as both_shards:
        yield both_shards


class Sender:
    """A connection, and a session to number writes in."""

    def __init__(self, connection: Connection, database: str) -> None:
        self._connection = connection
        self._database = database
        self._session = session()

    async def send(self, command: Mapping[str, Any], sequence: Sequence[Any] = (), *, numbered: bool) -> dict[str, Any]:
        """The reply, whatever it says; `sequence` goes as a document sequence."""
        number = {"lsid": self._session, "txnNumber": Int64(next(_numbers))} if numbered else {}
        body = encode_document({**command, **number, "$db": self._database})
        names = {"insert": "documents", "update": "updates", "delete": "deletes"}
        tail = encode_sequence(names[next(iter(command))], map(encode_document, sequence)) if sequence else b""
        raw = encode_body(body, request_id=next_request_id(), tail=tail)
        return decode((await self._connection.request(raw, deadline=DEADLINE)).body)


@pytest.fixture(scope="module")
async def senders(
    sharded: LocalCluster, replica_set: LocalCluster, collection: Orders
) -> AsyncIterator[tuple[Sender, Sender]]:
    """To the router and to the replica set's primary, to a database of the same name."""
    primary = await primary_of(replica_set, next(iter(replica_set.members.values())).spec.set_name)
    connections = await to_router(sharded), await Connection.open(primary.host, deadline=DEADLINE)
    name = collection.database.name
    yield Sender(connections[0], name), Sender(connections[1], name)
    await connections[1].command(name, {"dropDatabase": 1})
    for connection in connections:
        connection.close()


def comparable(reply: Mapping[str, Any]) -> dict[str, Any]:
    """What of a reply a driver looks at; an error's text up to where it tells the request."""
    kept = {name: reply[name] for name in COMPARED if name in reply}
    if "errmsg" in kept:
        kept["errmsg"] = kept["errmsg"].partition(". Statement ids")[0].partition(" (0x")[0].partition(" is ")[0]
    if "writeErrors" in reply:
        kept["writeErrors"] = [(one["index"], one["code"], one["errmsg"]) for one in reply["writeErrors"]]
    if "writeConcernError" in reply:
        kept["writeConcernError"] = reply["writeConcernError"]["code"]
    return kept


SET = {"$set": {"a": 1}}
PLAIN: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "no list": ({"insert": "plain"}, []),
    "an empty list": ({"insert": "plain", "documents": []}, []),
    "a list twice": ({"insert": "plain", "documents": [{}]}, [{}]),
    "a list of numbers": ({"update": "plain", "updates": [5]}, []),
    "too many": ({"insert": "plain", "ordered": False}, [{}] * 100_001),
    "too large": ({"insert": "plain"}, [{"_id": 0}, {"_id": 1, "x": "y" * (17 * MEGABYTE)}]),
    "almost too large": ({"insert": "plain"}, [{"_id": "l", "x": "y" * (16 * MEGABYTE - 40)}]),
    "a little too large": ({"insert": "plain"}, [{"_id": "m", "x": "y" * (16 * MEGABYTE)}]),
    "no query": ({"update": "plain"}, [{"u": SET}]),
    "no change": ({"update": "plain"}, [{"q": {}}]),
    "an unknown field": ({"update": "plain", "unknown": 1}, [{"q": {}, "u": SET}]),
    "an unknown field of a statement": ({"update": "plain"}, [{"q": {}, "u": SET, "unknown": 1}]),
    "an unknown operator": ({"update": "plain", "ordered": False}, [{"q": {}, "u": {"$no": 1}}, {"q": {}, "u": SET}]),
    "no limit": ({"delete": "plain"}, [{"q": {}}]),
    "a limit of two": ({"delete": "plain"}, [{"q": {}, "limit": 2}]),
    "ordered is no bool": ({"insert": "plain", "ordered": "yes"}, [{}]),
    "no collection name": ({"insert": 5}, [{}]),
    "a write concern nobody can meet": ({"insert": "plain", "writeConcern": {"w": 9, "wtimeout": 1}}, [{"_id": "w"}]),
    "an unknown write concern": ({"insert": "plain", "writeConcern": {"w": "nope"}}, [{"_id": "u"}]),
    "validation": ({"insert": "strict"}, [{"_id": 1, "n": "text"}]),
    "no validation": ({"insert": "strict", "bypassDocumentValidation": True}, [{"_id": 1, "n": "text"}]),
    "let": ({"update": "plain", "let": {"v": 7}}, [{"q": {"_id": "a"}, "u": [{"$set": {"v": "$$v"}}]}]),
    "array filters": (
        {"update": "plain"},
        [{"q": {"_id": "a"}, "u": {"$inc": {"l.$[one]": 1}}, "arrayFilters": [{"one": {"$gt": 1}}]}],
    ),
    "an unused array filter": ({"update": "plain"}, [{"q": {}, "u": SET, "arrayFilters": [{"one": 1}]}]),
    "a hint": ({"update": "plain"}, [{"q": {"_id": "a"}, "u": SET, "hint": {"_id": 1}}]),
    "an unknown hint": ({"delete": "plain"}, [{"q": {"_id": "z"}, "limit": 1, "hint": {"none": 1}}]),
    "a collation": ({"update": "plain"}, [{"q": {"_id": "A"}, "u": SET, "collation": {"locale": "de", "strength": 1}}]),
    "a comment": ({"update": "plain", "comment": {"by": "test"}}, [{"q": {"_id": "a"}, "u": SET}]),
    "an upsert": ({"update": "plain"}, [{"q": {"_id": "new"}, "u": SET, "upsert": True}]),
    "an upsert among others": (
        {"update": "plain"},
        [{"q": {"_id": "a"}, "u": SET}, {"q": {"_id": "v"}, "u": SET, "upsert": True}],
    ),
    "duplicates": ({"insert": "plain", "ordered": False}, [{"_id": "a"}, {"_id": "d"}, {"_id": "a"}]),
    "a duplicate in order": ({"insert": "plain"}, [{"_id": "e"}, {"_id": "a"}, {"_id": "f"}]),
    "neither update nor remove": ({"findAndModify": "plain", "query": {}}, []),
    "remove and new": ({"findAndModify": "plain", "query": {}, "remove": True, "new": True}, []),
    "a sorted change": ({"findAndModify": "plain", "query": {}, "sort": {"_id": 1}, "update": SET, "new": True}, []),
    "a removal": ({"findAndModify": "plain", "query": {"_id": "e"}, "remove": True, "fields": {"a": 1}}, []),
    "a found upsert": ({"findAndModify": "plain", "query": {"_id": "g"}, "update": SET, "upsert": True}, []),
}


@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "un-numbered"])
async def test_an_unsharded_collection_answers_as_a_replica_set(senders: tuple[Sender, Sender], numbered: bool) -> None:
    for sender in senders:
        for name in ("plain", "strict"):
            await sender.send({"delete": name}, [{"q": {}, "limit": 0}], numbered=False)
        await sender.send({"create": "strict", "validator": {"n": {"$type": "number"}}}, numbered=False)
        await sender.send({"insert": "plain"}, [{"_id": "a", "l": [1, 2, 3]}, {"_id": "b"}], numbered=False)
    different = {}
    for name, (command, sequence) in PLAIN.items():
        ours, theirs = [comparable(await one.send(command, sequence, numbered=numbered)) for one in senders]
        if not numbered and name == "a list twice":
            assert ours["code"] == 20  # refused by the gate to the router host
        elif ours != theirs:
            different[name] = (ours, theirs)
    assert different == {}


async def test_statements_for_several_shards_are_answered_with_the_clients_indices(
    senders: tuple[Sender, Sender], collection: AsyncCollection[dict[str, Any]]
) -> None:
    router, _replica_set = senders
    await collection.delete_many({})
    await collection.insert_many([{"_id": n, "region": n} for n in range(-3, 3)])
    duplicates = [{"_id": n, "region": n} for n in (7, 2, -7, -2, 8, -8)]
    reply = await router.send({"insert": "orders", "ordered": False}, duplicates, numbered=True)
    assert (reply["n"], [(one["index"], one["code"]) for one in reply["writeErrors"]]) == (4, [(1, 11000), (3, 11000)])
    changes = [
        {"q": {"region": 1}, "u": {"$inc": {"n": 1}}},
        {"q": {"_id": -1}, "u": {"$inc": {"n": 1}}},
        {"q": {"region": 50, "_id": "new"}, "u": {"$set": {"n": 1}}, "upsert": True},
        {"q": {"x": 1}, "u": {"$set": {"n": 1}}},
        {"q": {"region": {"$gt": 1, "$lt": 3}}, "u": {"$inc": {"n": 1}}},
        {"q": {"u": 1}, "u": {"$set": {"n": 1}}, "upsert": True},
        {"q": {"region": -2}, "u": {"$inc": {"_id": 1}}},
        {"q": {"region": -3}, "u": [{"$set": {"n": 9}}]},
    ]
    reply = await router.send({"update": "orders", "ordered": False}, changes, numbered=True)
    assert (reply["n"], reply["nModified"]) == (5, 4)
    assert reply["upserted"] == [{"index": 2, "_id": "new"}]
    assert [(one["index"], one["code"]) for one in reply["writeErrors"]] == [(3, 72), (5, 61), (6, 66)]
    reply = await router.send({"update": "orders"}, changes, numbered=True)
    assert (reply["n"], [one["index"] for one in reply["writeErrors"]]) == (3, [3])
    unreadable: list[dict[str, Any]] = [{"u": SET}, {"q": {}}, {"q": 5, "u": SET}]
    for broken in unreadable:
        assert (await router.send({"update": "orders"}, [broken], numbered=True))["ok"] == 0
    unmet = {"w": 9, "wtimeout": 1}
    spread = [{"_id": n, "region": n} for n in (100, -100)]
    reply = await router.send({"insert": "orders", "writeConcern": unmet}, spread, numbered=True)
    assert (reply["n"], reply["writeConcernError"]["code"]) == (2, 100)
    assert "at shard0" in reply["writeConcernError"]["errmsg"]
    assert "at shard1" in reply["writeConcernError"]["errmsg"]


@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "un-numbered"])
async def test_what_would_move_its_document_is_refused(
    senders: tuple[Sender, Sender], collection: AsyncCollection[dict[str, Any]], numbered: bool
) -> None:
    await collection.delete_many({})
    await collection.insert_one({"_id": 1, "region": 1})
    change = {"q": {"region": 1}, "u": {"$set": {"region": -1}}}
    reply = await senders[0].send({"update": "orders"}, [change], numbered=numbered)
    assert (reply["n"], reply["writeErrors"][0]["code"]) == (0, 283 if numbered else 20)
    assert await collection.find_one() == {"_id": 1, "region": 1}


@pytest.mark.slow
async def test_a_batch_of_more_than_one_message_to_one_shard(
    senders: tuple[Sender, Sender], collection: AsyncCollection[dict[str, Any]]
) -> None:
    """45 MB that arrive in one message go on in two."""
    await collection.delete_many({})
    large = [{"_id": n, "region": n, "x": "y" * (MEGABYTE - 100)} for n in range(45)]
    reply = await senders[0].send({"insert": "orders"}, large, numbered=True)
    assert (reply["ok"], reply["n"]) == (1, 45)
