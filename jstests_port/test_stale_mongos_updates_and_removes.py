"""Upstream: jstests/sharding/stale_mongos_updates_and_removes.js

What a stale router writes, it writes once and all of it, where nothing else writes and no chunk moves meanwhile; what
it has to refuse, it refuses, and nothing of it is written.

Differs: upstream's fresh mongos is what `unseen` does. Statements have no number, as the shell sends them, so that
behind a stand-in they are routed by the router code inside a mongod. Versions differ in what they refuse.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest
from bson.max_key import MaxKey
from bson.min_key import MinKey

from jstests_port import servers
from jstests_port.mongo import Document
from jstests_port.raw_connection import raw_connection
from jstests_port.sharding_test import ShardingTest
from jstests_port.unseen import move_range_unseen

pytestmark = pytest.mark.needs_server("6.0", "moveRange, and a router inside its mongods")

KEYS: Final = 10
SPLIT_AT: Final = KEYS // 2
LOWEST: Final = {"x": MinKey()}
HIGHEST: Final = {"x": MaxKey()}
MIDDLE: Final = {"x": SPLIT_AT}


@dataclass(frozen=True, slots=True)
class Query:
    filter: Document
    documents: int
    """How many match at first."""


EMPTY: Final = Query({}, 2 * KEYS)
POINT: Final = Query({"x": 0}, 2)
RANGE: Final = Query({"x": {"$gte": 0, "$lt": SPLIT_AT - 1}}, 2 * (SPLIT_AT - 1))
"""On one shard, and ending before the split (upstream: SERVER-20768)."""
POINTS: Final = Query({"$or": [{"x": 0}, {"x": KEYS}]}, 2)

INC: Final = {"$inc": {"fieldToUpdate": 1}}
REPLACEMENT: Final = {"x": 0, "fieldToUpdate": 1}


async def one_shard_but_all_is_on_another(st: ShardingTest, namespace: str) -> None:
    await move_range_unseen(st, namespace, st.rs1.name, LOWEST, HIGHEST)


async def two_shards_but_all_is_on_one(st: ShardingTest, namespace: str) -> None:
    database, _, collection = namespace.partition(".")
    await st.s.admin.command("split", namespace, middle=MIDDLE)
    await st.move_chunk(st.s[database][collection], {"x": 0}, st.rs1.name, wait_for_delete=True)
    # The router is to know of both chunks, wherever it keeps what it knows.
    assert len(await st.s[database][collection].find().to_list()) == 2 * KEYS
    await move_range_unseen(st, namespace, st.rs0.name, LOWEST, MIDDLE)


async def one_shard_but_it_is_on_two(st: ShardingTest, namespace: str) -> None:
    await move_range_unseen(st, namespace, st.rs1.name, LOWEST, MIDDLE)


Stale = Callable[[ShardingTest, str], Awaitable[None]]
STALE: Mapping[str, Stale] = {
    one.__name__: one
    for one in (one_shard_but_all_is_on_another, two_shards_but_all_is_on_one, one_shard_but_it_is_on_two)
}
"""What the router takes the collection to be on, and what it is on."""
ALL: Final = frozenset(STALE)
ON_TWO: Final = frozenset({one_shard_but_it_is_on_two.__name__})
NEVER: Final[frozenset[str]] = frozenset()

REMOVES_ONE: Final = (6, 0, 24)
"""Where only one shard is reached: refused on 6.0.5, done on 6.0.24 and 6.0.27; those in between were not tried."""
UPDATES_ONE: Final = (7, 1)
"""Wherever its document is: upstream's word, not tried."""


@dataclass(frozen=True, slots=True)
class Write:
    """`refused`: in which of `STALE`; `only`: tried in no other."""

    query: Query
    many: bool
    update: Document | None = None
    refused: frozenset[str] = NEVER
    done_from: tuple[int, ...] | None = None
    """The version from which it need not name its shard, and is refused no more."""
    only: frozenset[str] = field(default=ALL)

    @property
    def command(self) -> Document:
        if self.update is None:
            return {"delete": "foo", "deletes": [{"q": self.query.filter, "limit": 0 if self.many else 1}]}
        return {"update": "foo", "updates": [{"q": self.query.filter, "u": self.update, "multi": self.many}]}


def remove(query: Query, *, many: bool, refused: frozenset[str] = NEVER) -> Write:
    return Write(query, many, refused=refused, done_from=REMOVES_ONE, only=ALL - ON_TWO)


def inc(query: Query, *, many: bool, refused: frozenset[str] = NEVER) -> Write:
    return Write(query, many, INC, refused, done_from=UPDATES_ONE)


def replace(query: Query, *, many: bool = False) -> Write:
    return Write(query, many, REPLACEMENT, ALL if many else NEVER)


WRITES: Mapping[str, Write] = {
    "remove one": remove(EMPTY, many=False, refused=ALL),
    "remove all": remove(EMPTY, many=True),
    "remove one by key": remove(POINT, many=False),
    "remove all by key": remove(POINT, many=True),
    "remove one of a range": remove(RANGE, many=False, refused=ALL),
    "remove a range": remove(RANGE, many=True),
    "remove one of two keys": remove(POINTS, many=False, refused=ALL),
    "remove two keys": remove(POINTS, many=True),
    "replace many": replace(EMPTY, many=True),
    "inc one": inc(EMPTY, many=False, refused=ON_TWO),
    "inc all": inc(EMPTY, many=True),
    "replace by key": replace(POINT),
    "replace many by key": replace(POINT, many=True),
    "inc one by key": inc(POINT, many=False),
    "inc all by key": inc(POINT, many=True),
    "replace one of a range": replace(RANGE),
    "replace a range": replace(RANGE, many=True),
    "inc one of a range": inc(RANGE, many=False),
    "inc a range": inc(RANGE, many=True),
    "replace one of two keys": replace(POINTS),
    "replace two keys": replace(POINTS, many=True),
    "inc one of two keys": inc(POINTS, many=False, refused=ON_TWO),
    "inc two keys": inc(POINTS, many=True),
}

CASES = [
    pytest.param(name, stale, id=f"{name}: {stale.replace('_', ' ')}")
    for name, write in WRITES.items()
    for stale in STALE
    if stale in write.only
]


@pytest.mark.parametrize(("name", "stale"), CASES)
async def test_a_stale_router_writes_all_that_was_asked_and_nothing_twice(
    st: ShardingTest, test_name: str, name: str, stale: str
) -> None:
    write = WRITES[name]
    collection = st.s[test_name].foo
    await st.enable_sharding(test_name, st.rs0.name)
    await st.s.admin.command("shardCollection", collection.full_name, key={"x": 1})
    async with raw_connection(st.s.host) as router:
        documents = [{"x": number // 2, "fieldToUpdate": 0} for number in range(2 * KEYS)]
        await router.run_command(test_name, {"insert": "foo", "documents": documents})
        await STALE[stale](st, collection.full_name)

        reply = await router.run_command(test_name, write.command)

    assert reply["ok"] == 1
    left = sorted(await collection.find().to_list(), key=lambda one: one["x"])
    values = [one["fieldToUpdate"] for one in left]
    if stale in write.refused and not (write.done_from and servers.numbers() >= write.done_from):
        assert reply["writeErrors"]
        assert values == [0] * 2 * KEYS
        return
    assert not reply.get("writeErrors"), reply
    written = write.query.documents if write.many else 1
    assert reply["n"] == written
    if write.update is None:
        assert len(left) == 2 * KEYS - written
        assert not write.many or await collection.count_documents(write.query.filter) == 0
    else:
        assert values.count(1) == written
        assert values.count(0) == 2 * KEYS - written
