"""Upstream: jstests/noPassthrough/max_time_ms.js (before: jstests/core/max_time_ms.js)

What a time limit ends and what it spares: queries, getMores on what the find left, commands; which limits are taken at
all; and the two fail points, by which a limit always runs out or never.

Differs: times are about half of upstream's. A stand-in router refuses these fail points: they are set on the mongod
that it runs its commands in, and the router's own `ping` needs a mongos. What is no longer spoken is left out: commands
wrapped in OP_QUERY, BSON's `undefined`, parallelCollectionScan.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from bson.int64 import Int64
from pymongo.asynchronous.cursor import AsyncCursor
from pymongo.errors import ExecutionTimeout, OperationFailure

from jstests_port.error_codes import ErrorCodes
from jstests_port.fail_point import configure_fail_point
from jstests_port.mongo import Mongo
from jstests_port.raw_connection import RawConnection, raw_connection
from jstests_port.repl_set_test import ReplSetTest
from jstests_port.sharding_test import ShardingTest
from jstests_port.unseen import routing_node

LONG: Final = 60_000
"""Milliseconds; no limit that any of this comes near."""
HIGHEST: Final = 2**31 - 1
SLOW_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Target:
    """Whom a test speaks to, and the servers in which a query runs there."""

    client: Mongo
    raw: RawConnection
    servers: Sequence[Mongo]

    @asynccontextmanager
    async def fail_point(self, name: str) -> AsyncIterator[None]:
        """On in all servers of the query."""
        async with AsyncExitStack() as stack:
            for server in self.servers:
                await stack.enter_async_context(await configure_fail_point(server, name))
            yield


@pytest.fixture
async def on_primary(rst: ReplSetTest) -> AsyncIterator[Target]:
    primary = await rst.get_primary()
    async with raw_connection(primary.host) as raw:
        yield Target(primary, raw, [primary])


@pytest.fixture
async def through_router(st: ShardingTest) -> AsyncIterator[Target]:
    servers = [await one.get_primary() for one in st.rs]
    async with routing_node(st) as routing, raw_connection(st.s.host) as raw:
        yield Target(st.s, raw, [*servers, routing])


@pytest.fixture(params=["on_primary", "through_router"])
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.getfixturevalue(request.param)
    return found


def sleeping(milliseconds: int) -> dict[str, Any]:
    """A query that takes so long for each document that is `slow`, or for all where none is."""
    return {"$where": f"function() {{ if (this.slow !== false) {{ sleep({milliseconds}); }} return true; }}"}


async def filled(target: Target, database: str, batches: Sequence[Sequence[bool]]) -> None:
    """Batches of documents, by `_id`; each says whether it is slow."""
    documents = [{"slow": slow} for batch in batches for slow in batch]
    await target.client[database].t.insert_many({"_id": number, **one} for number, one in enumerate(documents))


FAST: Final = (False, False, False)
SLOW: Final = (True, True, True)
ONE_SLOW: Final = (False, False, True)


def in_threes(target: Target, database: str, *, limit: int, slow: int = SLOW_MS) -> AsyncCursor[dict[str, Any]]:
    """All documents, three a batch, under a limit (ms) for find and getMores together."""
    return target.client[database].t.find(sleeping(slow)).sort("_id").batch_size(3).max_time_ms(limit)


async def batch(cursor: AsyncCursor[dict[str, Any]]) -> list[int]:
    return [(await cursor.next())["_id"] for _ in range(3)]


async def test_a_query_past_its_limit_is_aborted(target: Target, test_name: str) -> None:
    await target.client[test_name].t.insert_many({} for _ in range(1000))
    # Past its limit for want of a connection to the shard, a router fails with 202 (6.0.5): it is to have one.
    assert await target.client[test_name].t.find_one() is not None

    with pytest.raises(ExecutionTimeout) as failed:
        await target.client[test_name].t.find(sleeping(100)).max_time_ms(100).to_list()

    assert failed.value.code == ErrorCodes.MaxTimeMSExpired


async def test_a_query_within_its_limit_is_not(target: Target, test_name: str) -> None:
    await target.client[test_name].t.insert_many([{}, {}, {}])

    assert len(await target.client[test_name].t.find(sleeping(100)).max_time_ms(LONG).to_list()) == 3


async def test_a_get_more_past_what_the_find_left_of_the_limit_is_aborted(target: Target, test_name: str) -> None:
    await filled(target, test_name, [FAST, SLOW])
    cursor = in_threes(target, test_name, limit=2 * SLOW_MS)

    assert await batch(cursor) == [0, 1, 2]
    with pytest.raises(ExecutionTimeout) as failed:
        await batch(cursor)

    assert failed.value.code == ErrorCodes.MaxTimeMSExpired


async def test_a_get_more_within_what_is_left_is_not(target: Target, test_name: str) -> None:
    await filled(target, test_name, [FAST, ONE_SLOW])
    cursor = in_threes(target, test_name, limit=LONG)

    assert await batch(cursor) == [0, 1, 2]
    assert await batch(cursor) == [3, 4, 5]


async def test_the_limit_is_one_for_all_get_mores_together(target: Target, test_name: str) -> None:
    """No batch takes as long as the limit; five of them do."""
    await filled(target, test_name, [ONE_SLOW] * 5)
    cursor = in_threes(target, test_name, limit=3 * SLOW_MS)

    assert await batch(cursor) == [0, 1, 2]
    with pytest.raises(ExecutionTimeout) as failed:
        await cursor.to_list()

    assert failed.value.code == ErrorCodes.MaxTimeMSExpired


async def test_many_get_mores_within_the_limit_are_not_aborted(target: Target, test_name: str) -> None:
    await filled(target, test_name, [ONE_SLOW] * 5)

    assert len(await in_threes(target, test_name, limit=LONG, slow=100).to_list()) == 15


async def test_a_command_past_its_limit_is_aborted_and_one_within_is_not(on_primary: Target) -> None:
    sleep = {"sleep": 1, "millis": 300, "lock": "none"}

    late = await on_primary.raw.run_command("admin", {**sleep, "maxTimeMS": 100})
    in_time = await on_primary.raw.run_command("admin", {**sleep, "maxTimeMS": LONG})

    assert (late["ok"], late.get("code")) == (0, ErrorCodes.MaxTimeMSExpired)
    assert in_time["ok"] == 1


TAKEN: Sequence[Any] = (0, Int64(0), 0.0, HIGHEST, Int64(HIGHEST), float(HIGHEST))
REFUSED: Sequence[Any] = (-1, Int64(-1), Int64(HIGHEST + 1), float(HIGHEST + 1), 0.1, -0.1, "", True, {})


@pytest.mark.parametrize("limit", TAKEN, ids=repr)
async def test_limits_from_0_to_2_to_the_31_are_taken(target: Target, test_name: str, limit: Any) -> None:
    await target.client[test_name].t.insert_one({})
    for command in ({"ping": 1}, {"find": "t"}):
        assert (await target.raw.run_command(test_name, {**command, "maxTimeMS": limit}))["ok"] == 1


@pytest.mark.parametrize("limit", REFUSED, ids=repr)
async def test_other_limits_are_refused(target: Target, test_name: str, limit: Any) -> None:
    await target.client[test_name].t.insert_one({})
    for command in ({"ping": 1}, {"find": "t"}):
        reply = await target.raw.run_command(test_name, {**command, "maxTimeMS": limit})
        assert (reply["ok"], reply.get("code")) in REFUSALS, (command, reply)


REFUSALS: Final = ((0, ErrorCodes.BadValue), (0, ErrorCodes.TypeMismatch))
"""Upstream: BadValue for ping, any error for find, whose parser says what is wrong about the type."""


async def test_a_limit_that_always_runs_out_ends_a_command(on_primary: Target, test_name: str) -> None:
    async with on_primary.fail_point("maxTimeAlwaysTimeOut"):
        reply = await on_primary.raw.run_command(test_name, {"ping": 1, "maxTimeMS": LONG})

    assert reply.get("code") == ErrorCodes.MaxTimeMSExpired


@pytest.mark.needs_mongos
async def test_a_limit_that_always_runs_out_ends_a_routers_own_command(through_router: Target, test_name: str) -> None:
    async with through_router.fail_point("maxTimeAlwaysTimeOut"):
        reply = await through_router.raw.run_command(test_name, {"ping": 1, "maxTimeMS": LONG})

    assert reply.get("code") == ErrorCodes.MaxTimeMSExpired


async def test_a_limit_that_never_runs_out_spares_a_command(on_primary: Target) -> None:
    async with on_primary.fail_point("maxTimeNeverTimeOut"):
        reply = await on_primary.raw.run_command("admin", {"sleep": 1, "millis": 300, "lock": "none", "maxTimeMS": 100})

    assert reply["ok"] == 1


async def test_a_limit_that_always_runs_out_ends_a_query(target: Target, test_name: str) -> None:
    await target.client[test_name].t.insert_one({})

    async with target.fail_point("maxTimeAlwaysTimeOut"):
        with pytest.raises(ExecutionTimeout):
            await target.client[test_name].t.find().max_time_ms(LONG).to_list()


async def test_a_limit_that_never_runs_out_spares_a_query(target: Target, test_name: str) -> None:
    await target.client[test_name].t.insert_many([{}, {}, {}])

    async with target.fail_point("maxTimeNeverTimeOut"):
        assert len(await target.client[test_name].t.find(sleeping(100)).max_time_ms(100).to_list()) == 3
        assert await target.client[test_name].t.count_documents({}, maxTimeMS=1) == 3


async def test_a_limit_that_always_runs_out_ends_a_get_more(target: Target, test_name: str) -> None:
    await target.client[test_name].t.insert_many([{}, {}, {}])
    cursor = target.client[test_name].t.find().batch_size(2).max_time_ms(LONG)
    for _ in range(2):
        await cursor.next()

    async with target.fail_point("maxTimeAlwaysTimeOut"):
        with pytest.raises(OperationFailure):
            await cursor.next()


async def test_a_limit_that_never_runs_out_spares_a_get_more(target: Target, test_name: str) -> None:
    await filled(target, test_name, [FAST, SLOW])

    async with target.fail_point("maxTimeNeverTimeOut"):
        cursor = in_threes(target, test_name, limit=SLOW_MS)
        assert await batch(cursor) == [0, 1, 2]
        assert await batch(cursor) == [3, 4, 5]


LIMITED: Sequence[Mapping[str, Any]] = (
    {"aggregate": "t", "pipeline": [], "cursor": {}},
    {"collMod": "t"},
    {"createIndexes": "t", "indexes": [{"key": {"x": 1}, "name": "x_1"}]},
)


@pytest.mark.parametrize("command", LIMITED, ids=lambda one: next(iter(one)))
async def test_commands_that_list_their_options_take_a_limit(
    target: Target, test_name: str, command: Mapping[str, Any]
) -> None:
    await target.client[test_name].t.insert_one({"x": 1})

    reply = await target.raw.run_command(test_name, {**command, "maxTimeMS": LONG})

    assert reply["ok"] == 1, reply
