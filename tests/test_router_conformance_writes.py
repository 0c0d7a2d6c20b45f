"""Writes: what a driver sends, with every option, through the router and to a plain replica set.

Compared are the answer, with its write errors, and the documents afterwards. Un-numbered writes are done by the
in-process router, MongoDB's own; numbered ones, targeted by the stand-in, must end as those.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import pytest

from clusters.local import LocalCluster
from conformance import REPLICA_SET, Case, Place, by_kind, comparable, differing, places

pytestmark = pytest.mark.live

DOCUMENTS: Final[list[dict[str, Any]]] = [
    {"_id": n, "region": n - 4, "n": n % 3, "name": ["anna", "Anna", "bo"][n % 3], "tags": [n, n + 1, 2]}
    for n in range(8)
]
CASELESS: Final = {"locale": "en", "strength": 2}
UNTARGETED: Final = 72
NO_KEY: Final = 61


@pytest.fixture(scope="module")
async def written(sharded: LocalCluster, replica_set: LocalCluster) -> AsyncIterator[dict[str, Place]]:
    async with places(sharded, replica_set) as made:
        for place in made.values():
            indexes = [{"key": {"n": 1}, "name": "n_1"}]
            assert (await place.run({"createIndexes": "orders", "indexes": indexes}))["ok"] == 1
            view = {"create": "view", "viewOn": "orders", "pipeline": []}
            assert (await place.run(view))["ok"] == 1
        yield made


def insert(name: str, *documents: Mapping[str, Any], **more: Any) -> Case:
    return _case(f"insert {name}", {"insert": "orders", "documents": list(documents)}, more)


def update(name: str, *updates: Mapping[str, Any], **more: Any) -> Case:
    return _case(f"update {name}", {"update": "orders", "updates": list(updates)}, more)


def delete(name: str, *deletes: Mapping[str, Any], **more: Any) -> Case:
    return _case(f"delete {name}", {"delete": "orders", "deletes": list(deletes)}, more)


def modify(name: str, query: Mapping[str, Any], **more: Any) -> Case:
    return _case(f"findAndModify {name}", {"findAndModify": "orders", "query": query}, more)


def _case(name: str, command: dict[str, Any], more: dict[str, Any]) -> Case:
    sharded, routed = more.pop("sharded", None), more.pop("routed", None)
    return Case(name, {**command, **more}, sharded=sharded, routed=routed)


def one(n: int) -> dict[str, Any]:
    return {"_id": n, "region": n - 4}


SET: Final = {"$set": {"s": 1}}

INSERTS: Final = [
    insert("one", one(9)),
    insert("many on both shards", one(-3), one(9), one(-5), one(11)),
    insert("a duplicate, ordered", one(9), one(1), one(10)),
    insert("duplicates, unordered", one(9), one(1), one(10), one(5), ordered=False),
    insert("a duplicate first", one(1), one(9)),
    insert("a duplicate within the batch", one(9), one(9), ordered=False),
    insert("without the shard key", {"_id": 9}),
    insert("a field with a dollar", {"_id": 9, "region": 1, "$x": 1}),
    insert("a field with a dot", {"_id": 9, "region": 1, "a.b": 1}),
    insert("an array as _id", {"_id": [1], "region": 1}),
    insert("a regular expression as _id, ordered", {"_id": {"$a": 1}, "region": 1}, one(9)),
    insert("comment", one(9), comment={"of": "a driver"}),
    insert("bypassDocumentValidation", one(9), bypassDocumentValidation=True),
    insert("w 1", one(9), writeConcern={"w": 1}),
    insert("w majority and j", one(9), writeConcern={"w": "majority", "j": True, "wtimeout": 30_000}),
    insert("w of an unknown mode", one(9), writeConcern={"w": "everywhere"}),
    insert("w of too many", one(9), writeConcern={"w": 40}),
    insert("maxTimeMS", one(9), maxTimeMS=60_000),
    insert("none"),
    insert("unknown option", one(9), surprise=1),
    insert("no documents", documents="none"),
    insert("a document that is none", documents=[1]),
    Case("insert into an empty name", {"insert": "", "documents": [one(9)]}, routed=73),
    Case("insert into a view", {"insert": "view", "documents": [one(9)]}),
    Case("insert into a new collection", {"insert": "fresh", "documents": [one(9)]}),
    Case("insert into a system collection", {"insert": "system.views", "documents": [{"_id": "x"}]}, routed=73),
]  # fmt: skip

UPDATES: Final = [
    update("by key", {"q": {"region": 1}, "u": SET}),
    update("by _id", {"q": {"_id": 1}, "u": SET}),
    update("by both", {"q": {"_id": 1, "region": -3}, "u": SET}),
    update("that matches nothing", {"q": {"region": 77}, "u": SET}),
    update("that changes nothing", {"q": {"_id": 1}, "u": {"$set": {"n": 1}}}),
    update("by neither", {"q": {"name": "bo", "n": 7}, "u": SET}, sharded=UNTARGETED),
    update("multi", {"q": {"n": 1}, "u": SET, "multi": True}),
    update("multi of everything", {"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}),
    update("upsert that finds", {"q": {"region": 1}, "u": SET, "upsert": True}),
    update("upsert that inserts", {"q": {"_id": 9, "region": 5}, "u": SET, "upsert": True}),
    update("upsert with $setOnInsert", {"q": one(9), "u": {"$setOnInsert": {"x": 1}}, "upsert": True}),
    update("upsert without the key", {"q": {"_id": 9}, "u": SET, "upsert": True}, sharded=NO_KEY),
    update("multi upsert", {"q": {"_id": 9, "region": 9}, "u": SET, "upsert": True, "multi": True}),
    update("replacement", {"q": {"region": 1}, "u": {"region": 1, "r": 1}}),
    update("replacement by _id", {"q": {"_id": 1}, "u": {"region": -3, "r": 1}}),
    update("replacement that upserts", {"q": {"_id": 9, "region": 5}, "u": {"region": 5, "r": 1}, "upsert": True}),
    update("multi replacement", {"q": {"n": 1}, "u": {"region": 1}, "multi": True}, sharded=UNTARGETED),
    update("pipeline", {"q": {"region": 1}, "u": [{"$set": {"twice": {"$add": ["$n", "$n"]}}}, {"$unset": "tags"}]}),
    update("pipeline with constants", {"q": {"region": 1}, "u": [{"$set": {"s": "$$c"}}], "c": {"c": 5}}),
    update("let", {"q": {"$expr": {"$eq": ["$n", "$$r"]}, "region": 1}, "u": [{"$set": {"s": "$$r"}}]}, let={"r": 2}),
    update("arrayFilters", {"q": {"region": 1}, "u": {"$set": {"tags.$[b]": 0}}, "arrayFilters": [{"b": {"$gt": 3}}]}),
    update("arrayFilters unused", {"q": {"region": 1}, "u": SET, "arrayFilters": [{"big": 1}]}),
    update("positional", {"q": {"region": 1, "tags": 6}, "u": {"$set": {"tags.$": 0}}}),
    update("hint", {"q": {"region": 1, "n": 2}, "u": SET, "hint": "n_1"}),
    update("a hint that names none", {"q": {"region": 1}, "u": SET, "hint": "none"}),
    update("collation, multi", {"q": {"name": "ANNA"}, "u": SET, "multi": True, "collation": CASELESS}),
    update("collation by key", {"q": {"region": 1}, "u": SET, "collation": CASELESS}),
    update("comment", {"q": {"region": 1}, "u": SET}, comment="c"),
    update("$inc, $mul, $min", {"q": {"region": 1}, "u": {"$inc": {"a": 1}, "$mul": {"n": 2}, "$min": {"z": 4}}}),
    update("$push, $pull", {"q": {"region": 1}, "u": {"$push": {"tags": {"$each": [9, 8], "$slice": -4}}}}),
    update("$rename, $unset", {"q": {"region": 1}, "u": {"$rename": {"name": "called"}, "$unset": {"n": 1}}}),
    update("unknown modifier", {"q": {"region": 1}, "u": {"$surprise": {"a": 1}}}),
    update("a change of _id", {"q": {"region": 1}, "u": {"$set": {"_id": 77}}}),
    update("two modifiers on one field", {"q": {"region": 1}, "u": {"$set": {"a": 1}, "$inc": {"a": 1}}}),
    update("$inc of a string", {"q": {"region": 1}, "u": {"$inc": {"name": 1}}}),
    update("several, ordered, the second wrong", {"q": {"region": 1}, "u": SET},
           {"q": {"region": -1}, "u": {"$inc": {"name": 1}}}, {"q": {"region": 2}, "u": SET}),
    update("several, unordered, the second wrong", {"q": {"region": 1}, "u": SET},
           {"q": {"region": -1}, "u": {"$inc": {"name": 1}}}, {"q": {"region": 2}, "u": SET}, ordered=False),
    update("several upserts", *({"q": {"_id": n, "region": n}, "u": SET, "upsert": True} for n in (-20, 20, -21))),
    update("w of too many", {"q": {"region": 1}, "u": SET}, writeConcern={"w": 40}),
    update("unknown query operator", {"q": {"region": 1, "n": {"$surprise": 1}}, "u": SET}),
    update("unknown option", {"q": {"region": 1}, "u": SET}, surprise=1),
    update("unknown field of a statement", {"q": {"region": 1}, "u": SET, "surprise": 1}),
    update("without u", {"q": {"region": 1}}),
    update("no statements"),
    Case("update of a view", {"update": "view", "updates": [{"q": {"region": 1}, "u": SET}]}),
    Case("update of nothing", {"update": "nothing", "updates": [{"q": {"region": 1}, "u": SET}]}),
]  # fmt: skip

DELETES: Final = [
    delete("one by key", {"q": {"region": 1}, "limit": 1}),
    delete("one by _id", {"q": {"_id": 1}, "limit": 1}),
    delete("nothing", {"q": {"region": 77}, "limit": 1}),
    delete("many", {"q": {"n": 1}, "limit": 0}),
    delete("everything", {"q": {}, "limit": 0}),
    delete("several", {"q": {"region": 1}, "limit": 1}, {"q": {"region": -1}, "limit": 1}),
    delete("hint", {"q": {"region": 1, "n": 2}, "limit": 1, "hint": {"n": 1}}),
    delete("a hint that names none", {"q": {"region": 1}, "limit": 1, "hint": "none"}),
    delete("collation, many", {"q": {"name": "ANNA"}, "limit": 0, "collation": CASELESS}),
    delete("let", {"q": {"$expr": {"$eq": ["$n", "$$x"]}, "region": 1}, "limit": 1}, let={"x": 2}),
    delete("comment", {"q": {"region": 1}, "limit": 1}, comment="c"),
    delete("w of too many", {"q": {"region": 1}, "limit": 1}, writeConcern={"w": 40}),
    delete("limit 2", {"q": {"region": 1}, "limit": 2}),
    delete("without limit", {"q": {"region": 1}}),
    delete("several, ordered, the first wrong", {"q": {"region": 1, "n": {"$x": 1}}, "limit": 1},
           {"q": {"_id": 2}, "limit": 1}),
    delete("several, unordered, the first wrong", {"q": {"region": 1, "n": {"$x": 1}}, "limit": 1},
           {"q": {"_id": 2}, "limit": 1}, ordered=False),
    delete("unknown option", {"q": {"region": 1}, "limit": 1}, surprise=1),
    Case("delete from a view", {"delete": "view", "deletes": [{"q": {"region": 1}, "limit": 1}]}),
    Case("delete from nothing", {"delete": "nothing", "deletes": [{"q": {"region": 1}, "limit": 1}]}),
]  # fmt: skip

MODIFIES: Final = [
    modify("update", {"region": 1}, update=SET),
    modify("new", {"region": 1}, update=SET, new=True),
    modify("fields", {"region": 1}, update=SET, new=True, fields={"s": 1}),
    modify("replacement", {"region": 1}, update={"region": 1, "r": 1}, new=True),
    modify("pipeline", {"region": 1}, update=[{"$set": {"s": "$n"}}], new=True),
    modify("remove", {"region": 1}, remove=True),
    modify("remove of nothing", {"region": 77}, remove=True),
    modify("update of nothing", {"region": 77}, update=SET),
    modify("upsert", {"_id": 9, "region": 9}, update=SET, upsert=True, new=True),
    modify("upsert, the old one", {"_id": 9, "region": 9}, update=SET, upsert=True),
    modify("sort", {"region": 1, "n": {"$gte": 0}}, sort={"n": -1}, update=SET, new=True),
    modify("arrayFilters", {"region": 1}, update={"$set": {"tags.$[b]": 0}}, arrayFilters=[{"b": 6}], new=True),
    modify("hint", {"region": 1}, update=SET, hint={"_id": 1}, new=True),
    modify("a hint that names none", {"region": 1}, update=SET, hint="none"),
    modify("collation", {"region": 1}, update=SET, collation=CASELESS, new=True),
    modify("let", {"region": 1}, update=[{"$set": {"s": "$$x"}}], let={"x": 4}, new=True),
    modify("comment", {"region": 1}, update=SET, comment={"of": "a driver"}),
    modify("maxTimeMS", {"region": 1}, update=SET, maxTimeMS=60_000),
    modify("bypassDocumentValidation", {"region": 1}, update=SET, bypassDocumentValidation=True),
    modify("w majority", {"region": 1}, update=SET, writeConcern={"w": "majority"}),
    modify("w of too many", {"region": 1}, update=SET, writeConcern={"w": 40}),
    modify("remove and update", {"region": 1}, update=SET, remove=True),
    modify("remove and new", {"region": 1}, remove=True, new=True),
    modify("remove and upsert", {"region": 1}, remove=True, upsert=True),
    modify("neither", {"region": 1}),
    modify("unknown modifier", {"region": 1}, update={"$surprise": 1}),
    modify("$inc of a string", {"region": 1}, update={"$inc": {"name": 1}}),
    modify("unknown option", {"region": 1}, update=SET, surprise=1),
    modify("by neither key nor _id", {"name": "none"}, update=SET, sharded=NO_KEY),
    Case("findandmodify in its old spelling", {"findandmodify": "orders", "query": {"region": 1}, "update": SET}),
    Case("findAndModify on a view", {"findAndModify": "view", "query": {"region": 1}, "update": SET}),
    Case("findAndModify on nothing", {"findAndModify": "nothing", "query": {"region": 1}, "update": SET}),
]  # fmt: skip


async def outcome(place: Place, case: Case, *, numbered: bool) -> dict[str, Any]:
    """The answer, and the documents afterwards."""
    await place.refill(DOCUMENTS)
    reply = await (place.run_numbered if numbered else place.run)(case.command)
    for name in ("fresh", "nothing"):
        if name in case.command.values():
            await place.run({"drop": name})
    return {"reply": comparable(_by_code(reply), place), "documents": await place.documents()}


def _by_code(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Errors of single statements by index, code and duplicate key: their texts name indexes and namespaces."""
    errors = [
        {name: one[name] for name in ("index", "code", "keyPattern", "keyValue") if name in one}
        for one in reply.get("writeErrors", ())
    ]
    found = {name: value for name, value in reply.items() if name not in ("writeErrors", "writeConcernError")}
    if errors:
        found["writeErrors"] = errors
    if "writeConcernError" in reply:
        found["writeConcernError"] = reply["writeConcernError"]["code"]
    return found


def numberable(case: Case) -> bool:
    """A retryable write changes one document a statement; a multi one is refused by every server in its own words."""
    statements = [*case.command.get("updates", ()), *case.command.get("deletes", ())]
    return not any(each.get("multi") or each.get("limit") == 0 for each in statements)


measures: dict[str, dict[str, Any]] = {}
"""The replica set's outcome of each case: the same for both kinds of collection."""


@by_kind(*INSERTS, *UPDATES, *DELETES, *MODIFIES)
async def test_a_write_ends_as_on_a_replica_set_and_a_numbered_one_as_one_without_a_number(
    written: dict[str, Place], case: Case, kind: str
) -> None:
    plain = await outcome(written[kind], case, numbered=False)
    expected = case.expected_code(kind)
    if expected is None:
        if case.name not in measures:
            measures[case.name] = await outcome(written[REPLICA_SET], case, numbered=False)
        assert not (differences := list(differing(plain, measures[case.name]))), differences
    else:
        assert code_of(plain["reply"]) == expected, plain["reply"]
    if numberable(case):
        numbered = await outcome(written[kind], case, numbered=True)
        assert not (differences := list(differing(numbered, plain))), ("numbered", differences)


def code_of(reply: Mapping[str, Any]) -> int:
    """The code of the command's error or of its first write error, 0 for none."""
    code: int = reply["code"] if reply["ok"] != 1 else reply.get("writeErrors", [{"code": 0}])[0]["code"]
    return code
