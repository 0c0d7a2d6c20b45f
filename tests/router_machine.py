"""Random operations on a collection over two shards behind the router, and the same on a plain replica set: the model.

Nothing may differ: not an operation's result, not the documents, not what the change streams deliver for a document.
Knows nothing of how long it runs or from which seed.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pymongo import DeleteOne, InsertOne, MongoClient, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, OperationFailure

from clusters.local import LocalCluster
from router_parts import move_unseen

Document = dict[str, Any]

DEADLINE: Final = 90.0
IDS: Final = 12
BURST: Final = 4
MOVES: Final = 3
"""Migrations in one example: each takes the time of a hundred other operations."""
LOWER_MARK: Final = {"_id": "lower", "region": -100}
UPPER_MARK: Final = {"_id": "upper", "region": 100}

identities = st.integers(0, IDS - 1)
numbers = st.integers(0, 3)
changes = st.one_of(
    st.builds(lambda n: {"$set": {"n": n}}, numbers),
    st.builds(lambda n: {"$inc": {"n": n, "count.inner": 1}}, numbers),
    st.builds(lambda n: {"$push": {"list": n}}, numbers),
    st.builds(lambda n: {"$unset": {"list": 1}, "$set": {"m": n}}, numbers),
    st.builds(lambda n: [{"$set": {"n": {"$add": [{"$ifNull": ["$n", 0]}, n]}}}], numbers),
)
BulkPart = InsertOne[Document] | UpdateOne | UpdateMany | DeleteOne | ReplaceOne[Document]


def key(identity: int) -> Document:
    """`_id` and shard key: one follows from the other, since only a replica set sees to it that `_id` is unique."""
    return {"_id": identity, "region": identity - IDS // 2}


def query(identity: int, by: str) -> Document:
    return key(identity) if by == "both" else {by: key(identity)[by]}


def bulk_part(kind: str, identity: int, n: int, change: Any) -> BulkPart:
    if kind == "insert":
        return InsertOne({**key(identity), "n": n})
    if kind == "update":
        return UpdateOne({"_id": identity}, change)
    if kind == "upsert":
        return UpdateOne(key(identity), change, upsert=True)
    if kind == "many":
        return UpdateMany({"n": n}, change)
    if kind == "replace":
        return ReplaceOne({"region": key(identity)["region"]}, {**key(identity), "n": n})
    return DeleteOne({"_id": identity})


def independent(chosen: list[BulkPart]) -> list[BulkPart]:
    """One part for a document, and none for many: in no order, what comes of others hangs on who was first."""
    kept: dict[int, BulkPart] = {}
    for one in chosen:
        if not isinstance(one, UpdateMany):
            document = one._doc if isinstance(one, InsertOne) else one._filter
            identity = document["_id"] if "_id" in document else document["region"] + IDS // 2
            kept.setdefault(identity, one)
    return list(kept.values())


parts = st.builds(
    bulk_part,
    st.sampled_from(("insert", "update", "upsert", "many", "replace", "delete")),
    identities,
    numbers,
    changes,
)
by = st.sampled_from(("_id", "region", "both"))


class Side:
    """One of the two: a collection, with retryable writes and without, its stream, and what that delivered."""

    def __init__(self, uri: str, database: str) -> None:
        self.clients = {
            numbered: MongoClient[Document](uri, retryWrites=numbered, serverSelectionTimeoutMS=60_000)
            for numbered in (True, False)
        }
        self.database = database
        self.stream: Any = None
        self.delivered: list[Document] = []

    def collection(self, numbered: bool = True) -> Collection[Document]:
        return self.clients[numbered][self.database].orders

    def watch(self, **options: Any) -> Any:
        return self.collection().watch(max_await_time_ms=100, batch_size=3, **options)

    def burst(self, first: int) -> None:
        """BURST changes on each shard in turn, the first with this number: more than two batches."""
        for number in range(first, first + BURST):
            for one in (LOWER_MARK, UPPER_MARK):
                self.collection().update_one(one, {"$set": {"burst": number}})

    def read(self, count: int) -> None:
        """So many events, which are there."""
        wanted = len(self.delivered) + count
        give_up = time.monotonic() + DEADLINE
        while len(self.delivered) < wanted:
            event = self.stream.try_next()
            assert event is not None or time.monotonic() < give_up, f"not {count} events within {DEADLINE:g} s"
            if event is not None:
                self.delivered.append(event)

    def drain(self, mark: int) -> None:
        """Read up to both marks. Written twice: an event comes when a later one of the other shard is known."""
        for _twice in range(2):
            for one in (LOWER_MARK, UPPER_MARK):
                self.collection().update_one(one, {"$inc": {"writes": 1}, "$set": {"mark": mark}})
        missing = {"lower", "upper"}
        give_up = time.monotonic() + DEADLINE
        while missing:
            event = self.stream.try_next()
            assert event is not None or time.monotonic() < give_up, f"no event of {missing} within {DEADLINE:g} s"
            if event is not None:
                self.delivered.append(event)
                if event.get("updateDescription", {}).get("updatedFields", {}).get("mark") == mark:
                    missing.discard(str(event["documentKey"]["_id"]))

    def by_document(self) -> dict[Any, list[Document]]:
        """What happened to each document, in order. Of the marks' own events a varying number is read."""
        found = defaultdict(list)
        for event in self.delivered:
            identity = event["documentKey"]["_id"]
            if isinstance(identity, int) or "burst" in event.get("updateDescription", {}).get("updatedFields", {}):
                kept = ("operationType", "fullDocument", "updateDescription")
                found[identity].append({name: event[name] for name in kept if name in event})
        return dict(found)

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
        self.clients[True].drop_database(self.database)
        for client in self.clients.values():
            client.close()


class Machine(RuleBasedStateMachine):
    """`clusters`: the sharded one and the replica set; set on a subclass."""

    clusters: ClassVar[tuple[LocalCluster, LocalCluster]]

    def __init__(self) -> None:
        super().__init__()
        database = f"machine_{uuid.uuid4().hex[:8]}"
        self.router, self.model = (Side(cluster.uri, database) for cluster in self.clusters)
        self.marks = 0
        self.bursts = 0
        self.moved: set[int] = set()

    @initialize()
    def open(self) -> None:
        admin, namespace = self.router.clients[True].admin, f"{self.router.database}.orders"
        admin.command("enableSharding", self.router.database, primaryShard="shard0")
        admin.command("shardCollection", namespace, key={"region": 1})
        admin.command("moveRange", namespace, min={"region": 0}, toShard="shard1")
        for side in (self.router, self.model):
            side.collection().insert_many([LOWER_MARK, UPPER_MARK])
            side.stream = side.watch()

    # operations

    @rule(identity=identities, n=numbers, numbered=st.booleans())
    def insert(self, identity: int, n: int, numbered: bool) -> None:
        self.same(numbered, lambda orders: orders.insert_one({**key(identity), "n": n}).inserted_id)

    @rule(chosen=st.lists(identities, min_size=1, max_size=6), ordered=st.booleans(), numbered=st.booleans())
    def insert_many(self, chosen: list[int], ordered: bool, numbered: bool) -> None:
        documents = [{**key(one), "n": position} for position, one in enumerate(chosen)]
        self.same(numbered, lambda orders: orders.insert_many(documents, ordered=ordered).inserted_ids)

    @rule(identity=identities, by=by, change=changes, numbered=st.booleans())
    def update(self, identity: int, by: str, change: Any, numbered: bool) -> None:
        self.same(numbered, lambda orders: orders.update_one(query(identity, by), change).raw_result)

    @rule(identity=identities, change=changes, numbered=st.booleans())
    def upsert(self, identity: int, change: Any, numbered: bool) -> None:
        self.same(numbered, lambda orders: orders.update_one(key(identity), change, upsert=True).raw_result)

    @rule(n=numbers, change=changes, numbered=st.booleans())
    def update_many(self, n: int, change: Any, numbered: bool) -> None:
        self.same(numbered, lambda orders: orders.update_many({"n": n, "_id": {"$type": "int"}}, change).raw_result)

    @rule(identity=identities, by=by, n=numbers, numbered=st.booleans())
    def replace(self, identity: int, by: str, n: int, numbered: bool) -> None:
        self.same(
            numbered, lambda orders: orders.replace_one(query(identity, by), {**key(identity), "n": n}).raw_result
        )

    @rule(identity=identities, by=by, numbered=st.booleans())
    def delete(self, identity: int, by: str, numbered: bool) -> None:
        self.same(numbered, lambda orders: orders.delete_one(query(identity, by)).raw_result)

    @rule(n=numbers, numbered=st.booleans())
    def delete_many(self, n: int, numbered: bool) -> None:
        self.same(numbered, lambda orders: orders.delete_many({"n": n}).raw_result)

    @rule(
        identity=identities, by=st.sampled_from(("region", "both")), change=changes, upsert=st.booleans(),
        after=st.sampled_from((ReturnDocument.BEFORE, ReturnDocument.AFTER)), numbered=st.booleans(),
    )  # fmt: skip
    def find_and_update(self, identity: int, by: str, change: Any, upsert: bool, after: bool, numbered: bool) -> None:
        # An upsert by region alone gets an _id from the server, another one on each side.
        chosen = key(identity) if upsert else query(identity, by)
        self.same(
            numbered,
            lambda orders: orders.find_one_and_update(chosen, change, upsert=upsert, return_document=after),
        )

    @rule(identity=identities, numbered=st.booleans())
    def find_and_delete(self, identity: int, numbered: bool) -> None:
        self.same(numbered, lambda orders: orders.find_one_and_delete(query(identity, "region")))

    @rule(chosen=st.lists(parts, min_size=1, max_size=5), ordered=st.booleans(), numbered=st.booleans())
    def bulk(self, chosen: list[BulkPart], ordered: bool, numbered: bool) -> None:
        if not ordered and not (chosen := independent(chosen)):
            return
        self.same(numbered, lambda orders: orders.bulk_write(chosen, ordered=ordered).bulk_api_result)

    @rule(n=numbers)
    def read(self, n: int) -> None:
        self.same(True, lambda orders: orders.count_documents({"n": {"$gte": n}}))
        self.same(True, lambda orders: list(orders.find({"n": n}, sort=[("n", 1), ("_id", -1)], batch_size=2)))
        self.same(True, lambda orders: orders.distinct("n"))

    # chunks and streams

    @precondition(lambda self: len(self.moved) < MOVES)
    @rule(identity=identities, unseen=st.booleans())
    def move(self, identity: int, unseen: bool) -> None:
        """A region to the other shard, once: a donor does not take back what it still has orphans of."""
        region = key(identity)["region"]
        if region in self.moved:
            return
        self.moved.add(region)
        target, namespace = ("shard1" if region < 0 else "shard0"), f"{self.router.database}.orders"
        if unseen:
            asyncio.run(move_unseen(self.clusters[0], namespace, region, region + 1, target))
        else:
            bounds: Document = {"min": {"region": region}, "max": {"region": region + 1}}
            self.router.clients[True].admin.command("moveRange", namespace, toShard=target, **bounds)

    @rule(how=st.sampled_from(("resume_after", "start_after")), first=st.sampled_from((0, 1, 3, 3, 6)))
    def resume(self, how: str, first: int) -> None:
        """Read the beginning of what is there, then go on with a new stream from the old one's token.

        With events outstanding, also where the batch ends: without the burst there is mostly nothing, or an event that
        waits for another shard, and a token that skips what is outstanding goes unnoticed.
        """
        self.bursts += 1
        for side in (self.router, self.model):
            side.burst(self.bursts * BURST)
            side.read(first)
            token = side.stream.resume_token
            side.stream.close()
            side.stream = side.watch(**{how: token})

    @precondition(lambda self: self.marks < 3)
    @rule()
    def deliver(self) -> None:
        self.marks += 1
        for side in (self.router, self.model):
            side.drain(self.marks)
        assert self.router.by_document() == self.model.by_document()

    @precondition(lambda self: len(self.router.delivered) > 1)
    @rule(place=st.floats(0, 1, exclude_max=True))
    def replay(self, place: float) -> None:
        """From any event on, the same events come again, in the same order."""
        known = self.router.delivered
        first = int(place * (len(known) - 1))
        again: list[Document] = []
        give_up = time.monotonic() + DEADLINE
        with self.router.watch(resume_after=known[first]["_id"]) as stream:
            while len(again) < len(known) - first - 1:
                event = stream.try_next()
                assert event is not None or time.monotonic() < give_up, f"{len(again)} events came again, then none"
                if event is not None:
                    again.append(event)
        assert again == known[first + 1 :]

    @invariant()
    def the_documents_are_the_same(self) -> None:
        if self.router.stream is not None:
            wanted: Document = {"_id": {"$type": "int"}}
            self.same(True, lambda orders: list(orders.find(wanted, sort=[("_id", 1)])))

    def teardown(self) -> None:
        try:
            if self.model.stream is not None:
                # Whatever the rules were: of so few steps many a run has no resume among them.
                for how, first in (("resume_after", 3), ("start_after", 6), ("resume_after", 3)):
                    self.resume(how, first)
                self.deliver()
        finally:
            self.router.close()
            self.model.close()

    def same(self, numbered: bool, operation: Callable[[Collection[Document]], Any]) -> None:
        here, there = (outcome(operation, side.collection(numbered)) for side in (self.router, self.model))
        assert here == there, f"router: {here}, replica set: {there}"


def outcome(operation: Callable[[Collection[Document]], Any], collection: Collection[Document]) -> Any:
    """What it gave, or how it failed, without what differs between any two servers."""
    try:
        result = operation(collection)
    except BulkWriteError as error:
        errors = [(one["index"], one["code"]) for one in error.details["writeErrors"]]
        return {**_counts(error.details), "writeErrors": errors}
    except OperationFailure as error:
        return {"code": error.code}
    return _counts(result) if isinstance(result, Mapping) else result


def _counts(result: Mapping[str, Any]) -> Document:
    left_out = ("writeErrors", "opTime", "electionId", "$clusterTime", "operationTime", "lastCommittedOpTime",
                "$gleStats", "$topologyTime", "$configTime", "readOnly")  # fmt: skip
    counts = {name: value for name, value in result.items() if name not in left_out}
    if isinstance(counts.get("upserted"), list):
        # As they came from the shards, where there is no order.
        counts["upserted"] = sorted(counts["upserted"], key=lambda one: int(one["index"]))
    return counts
