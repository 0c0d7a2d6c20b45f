"""What the router does not do, it says in one line; and nothing a client sends can end the router host."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import AsyncMongoClient, CursorType
from pymongo.errors import OperationFailure
from pymongo.server_api import ServerApi

from clusters.local import LocalCluster
from clusters.wire.connection import ConnectionLost
from clusters.wire.message import HEADER, OP_COMPRESSED, next_request_id
from router_parts import DEADLINE, orders, router_host, to_router
from test_router_forbidden import REFUSED

pytestmark = pytest.mark.live


async def test_a_transaction_is_refused_in_one_line_naming_the_way_out(sharded: LocalCluster) -> None:
    async with orders(sharded) as collection:
        async with collection.database.client.start_session() as chain:
            with pytest.raises(OperationFailure, match=r"does not support transactions.*MONGODB_BINARIES") as caught:
                async with await chain.start_transaction():
                    await collection.insert_one({"region": 1}, session=chain)
        assert caught.value.code == 263
        assert not caught.value.has_error_label("TransientTransactionError")
        assert await collection.count_documents({}) == 0


async def test_a_compressed_message_is_refused_in_one_line(sharded: LocalCluster) -> None:
    """Drivers never send one: the router's hello names no compressor."""
    connection = await to_router(sharded)
    assert "compression" not in connection.hello
    payload = b"\xdd\x07\x00\x00" + b"\x05\x00\x00\x00" + b"\x01" + b"zzzzz"
    request_id = next_request_id()
    reply = await connection.request(HEADER.pack(16 + len(payload), request_id, 0, OP_COMPRESSED) + payload)
    assert (reply.response_to, reply.document()["code"]) == (request_id, 115)
    assert "the stand-in router speaks no compression" in reply.document()["errmsg"]
    assert (await connection.command("admin", {"ping": 1}))["ok"] == 1
    connection.close()


async def test_authentication_is_refused_in_one_line(sharded: LocalCluster) -> None:
    async with AsyncMongoClient[dict[str, Any]](sharded.uri, username="user", password="secret") as client:
        with pytest.raises(OperationFailure, match="does not support authentication") as caught:
            await client.app.orders.find_one()
    assert caught.value.code == 18


async def test_the_strict_stable_api_is_refused_in_one_line(sharded: LocalCluster) -> None:
    async with AsyncMongoClient[dict[str, Any]](sharded.uri, server_api=ServerApi("1", strict=True)) as client:
        with pytest.raises(OperationFailure, match="the stand-in router cannot keep to apiStrict"):
            await client.app.orders.find_one()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"explain": {"aggregate": "orders", "pipeline": [{"$changeStream": {}}], "cursor": {}}}, 20),
        ({"explain": {"aggregate": 1, "pipeline": [], "cursor": {}}}, 20),
        ({"killOp": 1, "op": "shard0:x"}, 9),
        ({"createUser": "u", "pwd": "p", "roles": []}, 18),
        ({"reshardCollection": "a.b", "key": {"a": 1}}, 115),
        ({"replSetGetStatus": 1}, 115),
        ({"shutdown": 1}, 115),
        ({"mapReduce": "orders"}, 115),
        ({"commitTransaction": 1}, 263),
        ({"clusterFind": "orders"}, 20),
        ({"_configsvrMoveRange": "app.orders"}, 20),
        ({"_shardsvrDropDatabase": 1}, 20),
        ({"shardCollection": "app.h", "key": {"a": 1}, "timeseries": {"timeField": "t"}}, 115),
        ({"aggregate": 1, "pipeline": [{"$listLocalSessions": {}}], "cursor": {}}, 115),
        ({"aggregate": 1, "pipeline": [{"$currentOp": {}}, {"$lookup": {}}], "cursor": {}}, 115),
        ({"killCursors": "orders"}, 40414),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else str(one),
)
async def test_what_is_not_built_is_refused_by_name(sharded: LocalCluster, command: dict[str, Any], code: int) -> None:
    async with sharded.client() as client:
        with pytest.raises(OperationFailure) as caught:
            await client.admin.command(command)
        assert caught.value.code == code
        details = caught.value.details
        assert details is not None
        assert code == 40414 or "the stand-in router" in details["errmsg"]
        assert "\n" not in details["errmsg"]


async def test_a_tailable_cursor_is_refused(sharded: LocalCluster) -> None:
    async with sharded.client() as client:
        with pytest.raises(OperationFailure, match="would abort the router host"):
            await client.app.orders.find({}, cursor_type=CursorType.TAILABLE_AWAIT).to_list()


async def test_nothing_of_what_would_abort_it_reaches_the_router_host(sharded: LocalCluster) -> None:
    """Each forbidden form, sent as it is. Some are no error for a client: the router does them itself."""
    host = router_host(sharded)
    assert host.process is not None
    before = host.process.pid
    outcomes: dict[str, int] = {}
    for name, message in REFUSED.items():
        connection = await to_router(sharded)
        reply = await connection.request(message.raw, deadline=DEADLINE)
        outcomes[name] = 0 if reply.document()["ok"] == 1 else reply.document()["code"]
        connection.close()
    assert host.running()
    assert host.process.pid == before
    async with host.client() as client:
        assert (await client.admin.command("serverStatus"))["pid"] == before
    served = {name for name, code in outcomes.items() if code == 0}
    # Numbered writes are targeted, streams merged; none of it goes to the router host.
    assert served <= {
        "numbered insert",
        "numbered update",
        "numbered delete",
        "findAndModify",
        "stream",
        "stream behind explain",
        "stream of the cluster",
        "stream in a sequence",
        "stream in the last of two pipelines",
    }


async def test_bytes_that_are_no_message_end_their_own_connection_only(sharded: LocalCluster) -> None:
    bystander = await to_router(sharded)
    for junk in (b"\x16\x03\x01" + b"\x00" * 40, b"\xff" * 64, HEADER.pack(40, 1, 0, 2013) + b"\x07" * 24):
        connection = await to_router(sharded)
        with pytest.raises(ConnectionLost):
            await connection.request(junk, deadline=DEADLINE)
    assert (await bystander.command("admin", {"ping": 1}))["ok"] == 1
    bystander.close()


async def test_a_driver_takes_the_router_for_a_mongos_of_wire_version_17(sharded: LocalCluster) -> None:
    connection = await to_router(sharded)
    for name in ("hello", "isMaster", "ismaster"):
        reply = await connection.command("admin", {name: 1, "helloOk": True})
        assert (reply["msg"], reply["maxWireVersion"], reply["helloOk"]) == ("isdbgrid", 17, True)
        assert reply["isWritablePrimary" if name == "hello" else "ismaster"] is True
    connection.close()
