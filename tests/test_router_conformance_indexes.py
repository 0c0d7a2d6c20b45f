"""Indexes and collections made, changed, named and listed: through the router and on a plain replica set."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from clusters.local import LocalCluster
from conformance import REPLICA_SET, SHARDED, Place, Script, by_kind, compare_script, places

pytestmark = pytest.mark.live

CASELESS: Final = {"locale": "en", "strength": 1}


@pytest.fixture(scope="module")
async def made(sharded: LocalCluster, replica_set: LocalCluster) -> AsyncIterator[dict[str, Place]]:
    async with places(sharded, replica_set) as found:
        for place in found.values():
            for command in (
                {"createIndexes": "orders", "indexes": [{"key": {"region": 1}, "name": "region_1"}]},
                {"insert": "orders", "documents": [{"region": n, "a": n} for n in range(-4, 4)]},
                {"create": "view", "viewOn": "orders", "pipeline": []},
                {"create": "other"},
            ):
                assert (await place.run(command))["ok"] == 1, (place.kind, command)
        yield found


def index(name: str, *specs: Any, sharded: int | None = None, **options: Any) -> Script:
    """Made on `orders` and dropped again: under the name i, if it was made."""
    command = {"createIndexes": "orders", "indexes": list(specs), **options}
    undo = [{"dropIndexes": "orders", "index": one} for one in ("i", "j")[: len(specs)]]
    return Script(f"index {name}", [command], undo, sharded=sharded)


def spec(**more: Any) -> dict[str, Any]:
    return {"key": {"a": 1}, "name": "i", **more}


INDEXES: Final = [
    index("plain", spec()),
    index("twice in one command", spec(), spec()),
    index("descending", spec(key={"a": -1})),
    index("compound", spec(key={"a": 1, "b.c": -1})),
    index("several", spec(), spec(key={"region": 1, "a": 1}, name="j")),
    index("that is there", {"key": {"region": 1}, "name": "region_1"}),
    index("of the key under another name", {"key": {"region": 1}, "name": "i"}),
    index("of another key under the name", {"key": {"a": 1}, "name": "region_1"}),
    index("unique without the shard key", spec(unique=True), sharded=67),
    index("unique with it", spec(key={"region": 1, "a": 1}, unique=True)),
    index("unique that documents break", spec(key={"region": 1, "none": 1}, unique=True)),
    index("sparse", spec(sparse=True)),
    index("partial", spec(partialFilterExpression={"a": {"$gt": 1}})),
    index("partial, by what it cannot", spec(partialFilterExpression={"a": {"$in": [1], "$surprise": 2}})),
    index("that expires", spec(expireAfterSeconds=600)),
    index("that expired before", spec(expireAfterSeconds=-1)),
    index("with a collation", spec(collation=CASELESS)),
    index("with an unknown collation", spec(collation={"locale": "xx"})),
    index("hidden", spec(hidden=True)),
    index("hashed", spec(key={"a": "hashed"})),
    index("2dsphere", spec(key={"a.b": "2dsphere"})),
    index("2dsphere of what is no place", spec(key={"a": "2dsphere"})),
    index("text", spec(key={"t": "text"}, weights={"t": 3}, default_language="german")),
    index("wildcard", spec(key={"$**": 1}, wildcardProjection={"a": 1})),
    index("with storage options", spec(storageEngine={"wiredTiger": {"configString": ""}})),
    index("v 1", spec(v=1)),
    index("v 3", spec(v=3)),
    index("without a name", {"key": {"a": 1}}),
    index("of an empty name", spec(name="")),
    index("named *", spec(name="*")),
    index("without a key", {"name": "i"}),
    index("of an empty key", spec(key={})),
    index("of a bad direction", spec(key={"a": 0})),
    index("of an unknown kind", spec(key={"a": "surprise"})),
    index("of _id", spec(key={"_id": 1}, name="_id_")),
    index("of _id, descending", spec(key={"_id": -1})),
    index("unknown field of a spec", spec(surprise=1)),
    index("a spec that is none", 1),
    index("none"),
    index("unknown option", spec(), surprise=1),
    index("comment", spec(), comment={"of": "a driver"}),
    index("commitQuorum 1", spec(), commitQuorum=1),
    index("commitQuorum of an unknown mode", spec(), commitQuorum="surprise"),
    index("maxTimeMS", spec(), maxTimeMS=60_000),
    index("w of an unknown mode", spec(), writeConcern={"w": "everywhere"}),
    Script("index no specs", [{"createIndexes": "orders"}]),
    Script("index specs that are no list", [{"createIndexes": "orders", "indexes": 1}]),
    Script("index on a view", [{"createIndexes": "view", "indexes": [spec()]}]),
    Script("index on a new collection", [{"createIndexes": "fresh", "indexes": [spec()]}], [{"drop": "fresh"}]),
    Script("index on an empty name", [{"createIndexes": "", "indexes": [spec()]}]),
    Script("index on a number", [{"createIndexes": 1, "indexes": [spec()]}]),
]  # fmt: skip


def drop(name: str, what: Any, **options: Any) -> Script:
    """Of two indexes on `orders`."""
    make = {"createIndexes": "orders", "indexes": [spec(), spec(key={"b": 1}, name="j")]}
    undo = [{"dropIndexes": "orders", "index": one} for one in ("i", "j")]
    return Script(f"drop {name}", [make, {"dropIndexes": "orders", "index": what, **options}], undo)


DROPS: Final = [
    drop("by name", "i"),
    drop("by key", {"a": 1}),
    drop("two", ["i", "j"]),
    drop("one that is there and one that is not", ["i", "none"]),
    drop("none", []),
    drop("unknown name", "none"),
    drop("unknown key", {"none": 1}),
    drop("_id", "_id_"),
    drop("_id by key", {"_id": 1}),
    drop("a number", 1),
    drop("unknown option", "i", surprise=1),
    drop("comment", "i", comment="c"),
    Script("drop no index", [{"dropIndexes": "orders"}]),
    Script("drop in its old spelling", [{"deleteIndexes": "orders", "index": "none"}]),
    Script("drop on a view", [{"dropIndexes": "view", "index": "*"}]),
    Script("drop on nothing", [{"dropIndexes": "nothing", "index": "*"}]),
    Script("drop everything of another", [{"createIndexes": "other", "indexes": [spec()]},
                                          {"dropIndexes": "other", "index": "*"}]),
]  # fmt: skip


def create(name: str, **options: Any) -> Script:
    return Script(f"create {name}", [{"create": "fresh", **options}], [{"drop": "fresh"}])


def rename(name: str, source: str, to: Any, routed: int | None = None, **options: Any) -> Script:
    command = {"renameCollection": f"DATABASE.{source}", "to": f"DATABASE.{to}", **options}
    return Script(f"rename {name}", [command], routed=routed, database="admin")


def change(name: str, collection: str = "orders", **options: Any) -> Script:
    return Script(f"collMod {name}", [{"collMod": collection, **options}])


COLLECTIONS: Final = [
    create("plain"),
    create("capped without a size", capped=True),
    create("capped of a size below 0", capped=True, size=-1),
    create("a size without capped", size=4096),
    create("max without capped", max=5),
    create("view of an unknown stage", viewOn="orders", pipeline=[{"$surprise": 1}]),
    create("view of itself", viewOn="fresh", pipeline=[]),
    create("view with $out", viewOn="orders", pipeline=[{"$out": "x"}]),
    create("a pipeline without viewOn", pipeline=[]),
    create("timeseries without a time", timeseries={}),
    create("timeseries of an unknown granularity", timeseries={"timeField": "t", "granularity": "years"}),
    create("expireAfterSeconds alone", expireAfterSeconds=3),
    create("unknown operator in a validator", validator={"a": {"$surprise": 1}}),
    create("unknown validationLevel", validationLevel="surprise"),
    create("unknown collation", collation={"locale": "xx"}),
    create("an idIndex of another key", idIndex={"key": {"a": 1}, "name": "_id_"}),
    create("unknown option", surprise=1),
    create("comment", comment="c"),
    create("w of an unknown mode", writeConcern={"w": "everywhere"}),
    Script("create what is there", [{"create": "other"}]),
    Script("create what is there, of another kind", [{"create": "other", "capped": True, "size": 4096}]),
    Script("create an empty name", [{"create": ""}]),
    Script("create a system collection", [{"create": "system.surprise"}]),
    Script("create a name with a dot in front", [{"create": ".a"}]),
    Script("create a number", [{"create": 1}]),
    Script("drop nothing", [{"drop": "nothing"}], routed=0),
    Script("drop an empty name", [{"drop": ""}]),
    Script("drop a number", [{"drop": 1}]),
    Script("drop with an unknown option", [{"drop": "nothing", "surprise": 1}]),
    Script("dropDatabase of 2", [{"dropDatabase": 2}], database="conform_nothing"),
    Script("dropDatabase with an unknown option", [{"dropDatabase": 1, "surprise": 1}], database="conform_nothing"),
    change("nothing"),
    change("unknown option", surprise=1),
    change("an index by nothing", index={"hidden": True}),
    change("an index by both", index={"name": "region_1", "keyPattern": {"region": 1}, "hidden": True}),
    change("an index and no change", index={"name": "region_1"}),
    change("an unknown index", index={"name": "none", "hidden": True}),
    change("expireAfterSeconds as text", index={"name": "region_1", "expireAfterSeconds": "long"}),
    change("viewOn on a collection", viewOn="other", pipeline=[]),
    change("viewOn without a pipeline", "view", viewOn="orders"),
    change("a validator on a view", "view", validator={}),
    change("unknown operator in a validator", validator={"a": {"$surprise": 1}}),
    change("unknown validationAction", validationAction="surprise"),
    change("of nothing", "nothing", validator={}),
    rename("onto a view", "other", "view", routed=166),
    rename("nothing", "nothing", "fresh"),
    rename("a view", "view", "fresh", routed=26),
    rename("to itself", "other", "other"),
    rename("to an empty name", "other", ""),
    rename("to a system collection", "other", "system.surprise"),
    rename("unknown option", "other", "fresh", surprise=1),
    rename("dropTarget as text", "other", "fresh", dropTarget="yes"),
    Script("rename and back", [{"renameCollection": "DATABASE.other", "to": "DATABASE.fresh"},
                               {"renameCollection": "DATABASE.fresh", "to": "DATABASE.other"}], database="admin"),
    Script("rename without to", [{"renameCollection": "DATABASE.other"}], database="admin"),
    Script("rename a bare name", [{"renameCollection": "other", "to": "DATABASE.x"}], database="admin"),
    Script("rename a number", [{"renameCollection": 1, "to": "DATABASE.x"}], database="admin"),
    Script("rename not on admin", [{"renameCollection": "DATABASE.other", "to": "DATABASE.fresh"}]),
]  # fmt: skip


def listing(name: str, **options: Any) -> Script:
    return Script(f"listCollections {name}", [{"listCollections": 1, **options}], sort=True)


def indexes_of(name: str, collection: Any = "other", **options: Any) -> Script:
    return Script(f"listIndexes {name}", [{"listIndexes": collection, **options}], sort=True)


LISTINGS: Final = [
    listing("names", nameOnly=True),
    listing("names that are allowed", nameOnly=True, authorizedCollections=True),
    listing("by name", nameOnly=True, filter={"name": "other"}),
    listing("by kind", filter={"type": "view"}),
    listing("by what none has", filter={"name": "none"}),
    listing("by an unknown operator", filter={"name": {"$surprise": 1}}),
    listing("by no document", filter=1),
    listing("a cursor that is none", cursor=1),
    listing("batchSize 0", nameOnly=True, cursor={"batchSize": 0}),
    listing("batchSize below 0", cursor={"batchSize": -1}),
    listing("unknown option", surprise=1),
    listing("comment", nameOnly=True, comment="c"),
    Script("listCollections of no database", [{"listCollections": 1}], database="conform_nothing"),
    indexes_of("all"),
    indexes_of("of the key", "orders"),
    indexes_of("batchSize 0", "orders", cursor={"batchSize": 0}),
    indexes_of("batchSize below 0", cursor={"batchSize": -1}),
    indexes_of("a cursor that is none", cursor=1),
    indexes_of("unknown option", surprise=1),
    indexes_of("comment", comment="c"),
    indexes_of("of a view", "view"),
    indexes_of("of nothing", "nothing"),
    indexes_of("of an empty name", ""),
    indexes_of("of a number", 1),
]  # fmt: skip


@by_kind(*INDEXES, *DROPS)
async def test_indexes_come_and_go_as_on_a_replica_set(made: dict[str, Place], case: Script, kind: str) -> None:
    await compare_script(made, case, kind)


@by_kind(*COLLECTIONS, *LISTINGS, kinds=[SHARDED])
async def test_collections_come_and_go_as_on_a_replica_set(made: dict[str, Place], case: Script, kind: str) -> None:
    await compare_script(made, case, kind)


@pytest.mark.parametrize("kind", ["sharded", "unsharded"])
async def test_listings_in_batches_of_one_tell_the_same(made: dict[str, Place], kind: str) -> None:
    told = []
    for place in (made[kind], made[REPLICA_SET]):
        found = []
        for command in ({"listCollections": 1, "nameOnly": True}, {"listIndexes": "orders"}):
            reply = await place.run({**command, "cursor": {"batchSize": 1}})
            batches = [reply["cursor"]["firstBatch"]]
            while identity := reply["cursor"]["id"]:
                collection = reply["cursor"]["ns"].partition(".")[2]
                reply = await place.run({"getMore": identity, "collection": collection, "batchSize": 1})
                batches.append(reply["cursor"]["nextBatch"])
            assert all(len(one) <= 1 for one in batches)
            found.append(sorted(one["name"] for batch in batches for one in batch))
        told.append(found)
    assert told[0] == told[1]
    assert [len(one) for one in told[0]] == [4, 2]
