"""failCommand set through the router fails what drivers send to the router, in the words of a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bson.int64 import Int64
from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect, OperationFailure

from clusters.local import LocalCluster
from clusters.router import codes
from clusters.wire.connection import Connection, ConnectionLost
from router_parts import DEADLINE, orders, router_host, said, session, to_router

pytestmark = pytest.mark.live

OFF = {"configureFailPoint": "failCommand", "mode": "off"}
STREAM = {"aggregate": 1, "pipeline": [{"$changeStream": {"allChangesForCluster": True}}], "cursor": {}}


def fail(mode: object = "alwaysOn", **data: Any) -> dict[str, Any]:
    return {"configureFailPoint": "failCommand", "mode": mode, "data": data}


@asynccontextmanager
async def failing(connection: Connection, mode: object = "alwaysOn", **data: Any) -> AsyncIterator[None]:
    await connection.command("admin", fail(mode, **data))
    try:
        yield
    finally:
        await connection.command("admin", OFF)


@pytest.fixture
async def both(sharded: LocalCluster, replica_set: LocalCluster) -> AsyncIterator[tuple[Connection, Connection]]:
    """The router, and a member of a plain replica set for comparison."""
    router = await to_router(sharded)
    member = await Connection.open(next(iter(replica_set.members.values())).host, deadline=DEADLINE)
    yield router, member
    for one in (router, member):
        await one.command("admin", OFF)
        one.close()


DIALOGUES: dict[str, list[dict[str, Any]]] = {
    "an error code twice": [fail({"times": 2}, failCommands=["ping"], errorCode=91), *[{"ping": 1}] * 3],
    "an error code after two": [fail({"skip": 2}, failCommands=["ping"], errorCode=6), *[{"ping": 1}] * 4],
    "labels as given": [fail(failCommands=["ping"], errorCode=6, errorLabels=["X", "Y"]), {"ping": 1}],
    "labels taken away": [fail(failCommands=["aggregate"], errorCode=91, errorLabels=[]), STREAM],
    "a stream that cannot open": [fail(failCommands=["aggregate"], errorCode=91), STREAM],
    "a history that is lost": [fail(failCommands=["ping"], errorCode=286), {"ping": 1}],
    "a getMore": [fail(failCommands=["getMore"], errorCode=91), {"getMore": Int64(5), "collection": "c"}],
    "an alias": [fail(failCommands=["dropIndexes"], errorCode=91), {"deleteIndexes": "orders", "index": "*"}],
    "another command": [fail(failCommands=["find"], errorCode=91), {"ping": 1}, {"configureFailPoint": 1}],
    "every command": [fail(failAllCommands=True, errorCode=280), {"ping": 1}],
    "an unknown code": [fail(failCommands=["ping"], errorCode=123456), {"ping": 1}],
    "a code that needs details": [fail(failCommands=["ping"], errorCode=13388), {"ping": 1}],
    "another application": [fail(failCommands=["ping"], errorCode=91, appName="other"), {"ping": 1}],
    "this application": [fail(failCommands=["ping"], errorCode=91, appName="mongofault"), {"ping": 1}],
    "another namespace": [fail(failCommands=["find"], errorCode=91, namespace="admin.x"), {"find": "y"}],
    "this namespace": [fail(failCommands=["find"], errorCode=91, namespace="admin.x"), {"find": "x"}],
    "a block without a time": [fail(failCommands=["ping"], blockConnection=True), {"ping": 1}],
    "a block backwards": [fail(failCommands=["ping"], blockConnection=True, blockTimeMS=-1), {"ping": 1}],
    "never": [fail({"activationProbability": 0.0}, failCommands=["ping"], errorCode=91), {"ping": 1}],
    "surely": [fail({"activationProbability": 1.0}, failCommands=["ping"], errorCode=91), {"ping": 1}],
    "commands as no array": [fail(failCommands="ping", errorCode=91), {"ping": 1}],
    "no mode": [{"configureFailPoint": "failCommand"}],
    "an unknown mode": [fail("sometimes"), fail({"a": 1}), fail(3), fail({"times": -1}), fail({"times": 2.5})],
    "a probability of two": [fail({"activationProbability": 2})],
    "data that is none": [{**OFF, "data": 3}],
    "waiting in vain": [{"waitForFailPoint": "failCommand", "timesEntered": 10**6, "maxTimeMS": 20}],
}  # fmt: skip


@pytest.mark.parametrize("dialogue", DIALOGUES.values(), ids=DIALOGUES)
async def test_it_says_what_a_server_says(both: tuple[Connection, Connection], dialogue: list[dict[str, Any]]) -> None:
    router, member = both
    for command in dialogue:
        of_router, of_member = await said(router, command), await said(member, command)
        if command.get("configureFailPoint") != 1:  # there a server says `not found`, the router whom to ask
            assert of_router == of_member, command


@pytest.mark.parametrize("kind", ["insert", "create"])
async def test_a_write_concern_error_stands_beside_the_write(both: tuple[Connection, Connection], kind: str) -> None:
    """As on a server; but like a mongos's own errors, it gets no RetryableWriteError where no label is given."""
    router, member = both
    wrong = {"code": 91, "errmsg": "wrong"}
    for connection in both:
        await said(connection, {"drop": "wce"}, "router_fail")
    for labels in ([], ["RetryableWriteError"]):
        given = fail({"times": 1}, failCommands=[kind], writeConcernError=wrong, errorLabels=labels)
        write = {"insert": "wce", "documents": [{}]} if kind == "insert" else {"create": f"wce{len(labels)}"}
        for connection in both:
            await said(connection, given)
        of_router = await said(router, write, "router_fail")
        assert of_router == await said(member, write, "router_fail")
        assert (of_router["ok"], of_router["writeConcernError"]) == (1, wrong)
        assert "writeConcernError" not in await said(router, {"ping": 1})
    numbered = {"insert": "wce", "documents": [{}], "lsid": session(), "txnNumber": Int64(1)}
    async with failing(router, failCommands=["insert"], errorCode=91):
        assert "errorLabels" not in await said(router, numbered, "router_fail")
    await said(router, {"dropDatabase": 1}, "router_fail")
    await said(member, {"dropDatabase": 1}, "router_fail")


async def test_codes_have_the_names_and_labels_of_the_server(both: tuple[Connection, Connection]) -> None:
    router, member = both
    for code in sorted({*codes.NAMES, *codes.RESUMABLE, *codes.NOT_RESUMABLE}):
        for connection in both:
            await said(connection, fail(failCommands=["aggregate"], errorCode=code))
        assert await said(router, STREAM) == await said(member, STREAM), code


async def test_a_driver_retries_what_the_label_says(sharded: LocalCluster) -> None:
    # Not a code of a shutdown: after one a driver waits for the next hello, up to 10 s, whatever the label says.
    connection = await to_router(sharded)
    async with orders(sharded, appname="victim") as collection:
        labels = ["RetryableWriteError"]
        await said(connection, OFF)
        async with failing(connection, {"times": 1}, failCommands=["insert"], errorCode=6, errorLabels=labels):
            assert (await collection.insert_one({"region": 1})).acknowledged
        async with failing(connection, failCommands=["insert"], errorCode=6, appName="victim"):
            with pytest.raises(OperationFailure) as caught:
                await collection.insert_one({"region": 1})
            assert caught.value.code == 6
        assert await collection.count_documents({}) == 1
    connection.close()


async def test_a_closed_connection_is_retried_by_the_driver_and_seen_by_others(sharded: LocalCluster) -> None:
    connection, victim = await to_router(sharded), await to_router(sharded)
    async with orders(sharded) as collection:
        async with failing(connection, {"times": 1}, failCommands=["find"], closeConnection=True):
            assert await collection.find_one({}) is None
        async with failing(connection, {"times": 1}, failCommands=["find"], closeConnection=True):
            with pytest.raises(ConnectionLost):
                await victim.command("admin", {"find": "x"}, deadline=DEADLINE)
    connection.close()


async def test_a_stream_resumes_after_a_failed_get_more(sharded: LocalCluster) -> None:
    connection = await to_router(sharded)
    async with orders(sharded) as collection, await collection.watch(max_await_time_ms=100) as stream:
        labels = ["ResumableChangeStreamError"]
        for mode in ({"errorCode": 6, "errorLabels": labels}, {"closeConnection": True}):
            async with failing(connection, {"times": 1}, failCommands=["getMore"], **mode):
                await collection.insert_one({"region": 1, "mode": next(iter(mode))})
                async with asyncio.timeout(DEADLINE):
                    event = await stream.next()
            assert event["fullDocument"]["mode"] == next(iter(mode))
        async with failing(connection, {"times": 1}, failCommands=["getMore"], errorCode=6):
            with pytest.raises((AutoReconnect, OperationFailure)):
                await stream.try_next()
    connection.close()


async def test_a_blocked_command_waits_its_time_and_is_counted(sharded: LocalCluster) -> None:
    connection, victim = await to_router(sharded), await to_router(sharded)
    before = (await connection.command("admin", OFF))["count"]
    async with failing(connection, {"times": 1}, failCommands=["ping"], blockConnection=True, blockTimeMS=300):
        began = time.monotonic()
        slow = asyncio.create_task(victim.command("admin", {"ping": 1}, deadline=DEADLINE))
        wait = {"waitForFailPoint": "failCommand", "timesEntered": before + 1, "maxTimeMS": 20_000}
        assert (await connection.command("admin", wait))["ok"] == 1
        assert not slow.done()
        assert (await slow)["ok"] == 1
        assert time.monotonic() - began >= 0.3
    assert (await connection.command("admin", OFF))["count"] == before + 1
    connection.close()
    victim.close()


async def test_it_does_not_act_on_the_router_host_and_other_points_are_told_where_to_go(sharded: LocalCluster) -> None:
    host, connection = router_host(sharded), await to_router(sharded)
    async with AsyncMongoClient[dict[str, Any]](sharded.uri) as client:
        async with host.client() as direct:
            before = (await direct.admin.command("configureFailPoint", "failCommand", mode="off"))["count"]
            async with failing(connection, failCommands=["find"], errorCode=91):
                await direct.config.x.find_one()
                off = await direct.admin.command("configureFailPoint", "failCommand", mode="off")
            assert off["count"] == before
        connection.close()
        with pytest.raises(OperationFailure, match="set it on the members") as caught:
            await client.admin.command("configureFailPoint", "rsSyncApplyStop", mode="alwaysOn")
    assert caught.value.code == 266
    for member in sharded.members.values():
        assert member is host or member.host in str(caught.value)
