"""The exact sources on real servers: driver, tap, counters and log tell the same of what was sent and carried out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import WriteConcern

from clusters import admin, local
from clusters.cluster import primary_of
from clusters.local import LocalCluster, OwnCluster
from clusters.topology import sharded_cluster
from clusters.wire.connection import Connection
from harness.checkers import overlap
from harness.drivers.clients import OptionValue, close_client, open_client
from harness.watchers import logged
from harness.watchers.sends import SendListener
from overlap_parts import (
    HELD,
    SOCKET_TIMEOUT_MS,
    WRITE,
    Overlapping,
    Send,
    counting,
    held,
    increment_all,
    insert,
    overlapping,
    sampling,
)
from router_parts import orders

pytestmark = pytest.mark.live

MEMBER = "rs0-0"
POOL = 8
TICKETS = 5


@pytest.fixture
async def observed(proxied: OwnCluster, tmp_path: Path) -> AsyncIterator[Overlapping]:
    async with overlapping(proxied, tmp_path) as one:
        yield one


async def threshold(cluster: LocalCluster) -> logged.Threshold:
    async with admin.connected(cluster.members[MEMBER].host) as connection:
        return await logged.threshold(connection, deadline=5)


@pytest.mark.parametrize(("kind", "point", "send"), HELD, ids=[one[0] for one in HELD])
async def test_three_executions_against_a_hanging_server_are_six_sends_and_three_copies_by_every_source(
    observed: Overlapping, kind: str, point: str, send: Send
) -> None:
    before = await threshold(observed.cluster)
    member = observed.cluster.members[MEMBER]
    holding = held([member], point, **observed.conditions(point))
    async with sampling(observed), counting(observed), holding:
        await observed.execute(WRITE, 3, send)
        await observed.until(lambda: bool(observed.of("copies", copies=3)), "all three inside")
    assert await threshold(observed.cluster) == before
    sent = observed.of("send")
    assert len({one["request"] for one in sent}) == 6
    assert len({one["operation"] for one in sent}) == 3
    assert Counter((one["lsid"], one["txn"]) for one in sent).most_common()[-1][1] == 2
    assert [one["ok"] for one in observed.of("send.ended")] == [False] * 6
    assert {(one["execution"], one["total"]) for one in observed.of("tap")} == {(1, 2), (2, 2), (3, 2)}
    ran = observed.of("op.logged")
    assert Counter((one["execution"], one["executed"]) for one in ran) == Counter(
        {(number, executed): 1 for number in (1, 2, 3) for executed in (True, False)}
    )
    assert {(one["lsid"], one["txn"]) for one in ran} == {(one["lsid"], one["txn"]) for one in sent}
    findings = observed.findings(kind)
    for name in ("overlap", "counts"):
        assert findings[name].valid is True, findings[name].evidence
    (row,) = findings["overlap"].evidence["writes"]
    assert (row["sends"], row["copies"], row["copies_at_once"], row["sampled_at_once"]) == (6, 3, 3, 3)
    assert row["effective"] == 3
    compared = findings["counts"].evidence["compared"]
    assert all(compared[term] for term in ("on the wire", "read by the server", "carried out", "sampled")), compared


@pytest.mark.parametrize(
    "failing", [{"errorCode": 6, "errorLabels": ["RetryableWriteError"]}, {"closeConnection": True}], ids=str
)
async def test_what_a_fail_point_rejects_the_counters_do_not_have_and_the_sum_holds_all_the_same(
    observed: Overlapping, failing: dict[str, Any]
) -> None:
    member = observed.cluster.members[MEMBER]
    conditions = {"failCommands": ["insert"], "namespace": observed.namespace, **failing}
    async with counting(observed, fail_points=["failCommand"]):
        async with held([member], "failCommand", **conditions):
            await observed.execute(WRITE, 1, insert)
        await observed.execute("t/0/1", 1, insert)
    findings = observed.findings("insert")
    assert findings["counts"].valid is True, findings["counts"].evidence
    (read,) = [one for one in findings["counts"].evidence["checks"] if one["term"] == "read by the server"]
    assert (read["figures"]["tap"], read["figures"]["rejected"], read["figures"]["never read"]) == (3, 2, 0)
    assert findings["overlap"].evidence["totals"]["copies"] == 1


async def test_a_duplicate_key_is_carried_out_again_by_the_resend_and_the_rule_says_so(observed: Overlapping) -> None:
    async def same_id(collection: Any, number: int, comment: dict[str, Any]) -> Any:
        return await collection.insert_one({"_id": 1, "write": WRITE, "execution": number}, comment=comment)

    member = observed.cluster.members[MEMBER]
    async with counting(observed), held([member], "hangDuringBatchInsert", nss=observed.namespace):
        await observed.execute(WRITE, 3, same_id)
    await observed.left()
    findings = observed.findings("insert-business-id")
    (row,) = findings["overlap"].evidence["writes"]
    # One was inserted and its resend answered from the record; of the two others both requests met the key.
    assert (row["sends"], row["copies"], row["effective"], row["copies_at_once"]) == (6, 5, 1, 3)
    assert findings["overlap"].valid is True
    assert findings["overlap"].evidence["rules"] == [overlap.NO_RECORD_RULE]
    assert findings["counts"].valid is True, findings["counts"].evidence
    assert findings["effects"].valid is True, findings["effects"].evidence


async def test_one_explicit_session_makes_groups_and_no_copies_of_them(observed: Overlapping) -> None:
    member = observed.cluster.members[MEMBER]
    async with observed.client.start_session() as session:

        async def in_session(collection: Any, number: int, comment: dict[str, Any]) -> Any:
            document = {"write": WRITE, "execution": number}
            return await collection.insert_one(document, comment=comment, session=session)

        holding = held([member], "hangDuringBatchInsert", nss=observed.namespace)
        async with sampling(observed), counting(observed), holding:
            await observed.execute(WRITE, 3, in_session)
            await observed.until(lambda: bool(observed.of("copies", groups=3, copies=1)), "three groups, one copy")
    await observed.left()
    findings = observed.findings("insert", explicit_session=True)
    (row,) = findings["overlap"].evidence["writes"]
    assert (row["groups"], row["copies_at_once"]) == (3, 1)
    assert any("one explicit session" in rule for rule in findings["overlap"].evidence["rules"])
    assert findings["counts"].valid is True, findings["counts"].evidence
    assert findings["effects"].valid is True, findings["effects"].evidence
    assert not observed.of("overlap.alarm")


@pytest.mark.slow
async def test_a_frozen_server_reads_all_that_was_sent_once_it_goes_on(observed: Overlapping) -> None:
    """With idle connections, or the resends would die in the handshake."""
    member = observed.cluster.members[MEMBER]
    client = observed.open(minPoolSize=POOL, maxPoolSize=POOL, appName=observed.run)
    async with client, sampling(observed), counting(observed):
        await client.admin.command("ping")
        await admin.until("a full pool", lambda: pool_is_full(observed), deadline=20)
        member.freeze()
        try:
            await observed.execute(WRITE, 2, insert, client)
        finally:
            member.thaw()
        await observed.until(lambda: observed.of("copies")[-1]["ops"] is not None, "an answer again")
        await asyncio.sleep(0.5)
    await observed.left()
    findings = observed.findings("insert")
    (row,) = findings["overlap"].evidence["writes"]
    assert (row["executions"], row["sends"], row["copies"], row["effective"]) == (2, 4, 2, 2)
    assert findings["counts"].valid is True, findings["counts"].evidence
    assert findings["effects"].valid is True, findings["effects"].evidence
    without = findings["overlap"].evidence["sources"]["sampled"]["without_an_answer"]
    assert [(member, len(spans)) for member, spans in without.items()] == [(MEMBER, 1)]
    assert all(end is not None for _start, end in without[MEMBER])


async def pool_is_full(observed: Overlapping) -> bool:
    async with admin.connected(observed.cluster.members[MEMBER].host) as connection:
        stage = {"$currentOp": {"allUsers": True, "idleConnections": True}}
        pipeline = [stage, {"$match": {"appName": observed.run}}, {"$count": "n"}]
        found = await connection.command("admin", {"aggregate": 1, "pipeline": pipeline, "cursor": {}})
        # Two more are the driver's monitors.
        return any(one["n"] >= POOL + 2 for one in found["cursor"]["firstBatch"])


async def test_a_write_without_acknowledgement_that_the_server_dropped_is_seen_by_the_tap_and_lost(
    observed: Overlapping,
) -> None:
    async def unacknowledged(collection: Any, number: int, comment: dict[str, Any]) -> Any:
        collection = collection.with_options(write_concern=WriteConcern(w=0))
        return await collection.insert_one({"write": WRITE, "execution": number}, comment=comment)

    member = observed.cluster.members[MEMBER]
    async with counting(observed, fail_points=["failCommand"]):
        dropped = {"failCommands": ["insert"], "namespace": observed.namespace, "closeConnection": True}
        async with held([member], "failCommand", **dropped):
            await observed.execute(WRITE, 1, unacknowledged, acknowledged=False)
            await asyncio.sleep(0.3)
    await observed.left()
    findings = observed.findings("w0")
    (row,) = findings["overlap"].evidence["writes"]
    assert (row["outcomes"], row["sends"], row["copies"]) == (["ok"], 1, 0)
    assert findings["effects"].evidence["lost_unacknowledged"] == 1
    assert findings["effects"].valid is True


async def test_an_update_of_many_ended_half_way_is_known_by_what_it_had_changed(observed: Overlapping) -> None:
    member = observed.cluster.members[MEMBER]
    database, _, name = observed.namespace.partition(".")
    documents: list[dict[str, Any]] = [
        {"write": WRITE, "execution": None, "part": n, "qty": 0, "executions": []} for n in range(10)
    ]

    async def add(collection: Any, number: int, comment: dict[str, Any]) -> Any:
        change = {"$inc": {"qty": 5}, "$set": {"execution": number}, "$push": {"executions": number}}
        return await collection.update_many({"write": WRITE}, change, comment=comment)

    async with admin.connected(member.host) as connection:
        await observed.client[database][name].insert_many(documents)
        yielding = "internalQueryExecYieldIterations"
        was = (await connection.command("admin", {"getParameter": 1, yielding: 1}))[yielding]
        await connection.command("admin", {"setParameter": 1, yielding: 4})
        try:
            holding = held([member], "setYieldAllLocksHang", namespace=observed.namespace)
            async with sampling(observed) as copies, counting(observed), holding:
                await observed.execute(WRITE, 1, add)
                await observed.until(lambda: bool(observed.of("copies", copies=1)), "it is inside")
                (inside,) = copies.ops()
                await connection.command("admin", {"killOp": 1, "op": inside.opid})
        finally:
            await connection.command("admin", {"setParameter": 1, yielding: was})
    await observed.left()
    findings = observed.findings("update-many")
    assert findings["effects"].valid is True, findings["effects"].evidence
    assert findings["effects"].evidence["writes"][0]["partial"] == [1]
    assert findings["counts"].valid is True, findings["counts"].evidence


async def test_motors_sends_are_told_as_well(observed: Overlapping) -> None:
    options: dict[str, OptionValue] = {"socketTimeoutMS": SOCKET_TIMEOUT_MS}
    listeners = [SendListener(observed.recorder, observed.run)]
    client = open_client(observed.cluster.uri, options=options, listeners=listeners, driver="motor")
    holding = held([observed.cluster.members[MEMBER]], "hangDuringBatchInsert", nss=observed.namespace)
    try:
        async with counting(observed), holding:
            await observed.execute(WRITE, 2, insert, client)
    finally:
        await close_client(client)
    findings = observed.findings("insert")
    assert findings["counts"].valid is True, findings["counts"].evidence
    assert findings["counts"].evidence["compared"]["on the wire"] == 2
    assert findings["overlap"].evidence["totals"]["sends"] == len(observed.of("send.ended")) == 4


@asynccontextmanager
async def locked(observed: Overlapping) -> AsyncIterator[None]:
    async with admin.connected(observed.cluster.members[MEMBER].host) as connection:
        await connection.command("admin", {"fsync": 1, "lock": True})
        try:
            yield
        finally:
            await connection.command("admin", {"fsyncUnlock": 1})


@asynccontextmanager
async def out_of_tickets(observed: Overlapping) -> AsyncIterator[None]:
    """All tickets are with inserts of another collection."""
    parameter = "wiredTigerConcurrentWriteTransactions"
    member = observed.cluster.members[MEMBER]
    other = f"{observed.namespace}_others"
    holding = held([member], "hangWithLockDuringBatchInsert", nss=other)
    async with observed.cluster.client() as client, admin.connected(member.host) as connection:
        database, _, name = other.partition(".")
        await client[database].create_collection(name)
        await connection.command("admin", {"setParameter": 1, parameter: TICKETS})
        try:
            async with holding:
                inserts = [asyncio.create_task(client[database][name].insert_one({})) for _ in range(TICKETS)]
                await admin.until("no ticket is left", lambda: none_left(connection), deadline=20)
                yield
            await asyncio.gather(*inserts)
        finally:
            await connection.command("admin", {"setParameter": 1, parameter: 128})
            await client[database].drop_collection(name)


async def none_left(connection: Connection) -> bool:
    status = await connection.command("admin", {"serverStatus": 1})
    return bool(status["wiredTiger"]["concurrentTransactions"]["write"]["available"] == 0)


@pytest.mark.parametrize(("wait", "making"), [("lock", locked), ("ticket", out_of_tickets)], ids=["lock", "ticket"])
async def test_copies_that_wait_for_a_lock_or_a_ticket_are_told_apart(
    observed: Overlapping, wait: str, making: Callable[[Overlapping], AbstractAsyncContextManager[None]]
) -> None:
    async with sampling(observed), counting(observed), making(observed):
        await observed.execute(WRITE, 2, insert)
        await observed.until(lambda: bool(observed.of("copies", copies=2, ops=4)), "two copies and their resends")
        assert observed.of("copies", copies=2, ops=4)[0]["waiting"] == {wait: 2, "session": 2}
    assert observed.of("overlap.alarm")[0]["waits_for"] == wait
    findings = observed.findings("insert")
    assert findings["counts"].valid is True, findings["counts"].evidence
    assert findings["overlap"].evidence["totals"]["copies"] == 2


@pytest.fixture
async def behind_a_router() -> AsyncIterator[OwnCluster]:
    """Two shards of one member, and the proxy before all of them."""
    cluster = await local.bring_up(sharded_cluster(2, 1), "tests-sends-sharded", proxied=True)
    try:
        yield cluster
    finally:
        await cluster.down()


@pytest.mark.slow
async def test_through_a_router_each_shard_logs_its_part_and_it_is_one_copy(
    behind_a_router: OwnCluster, tmp_path: Path
) -> None:
    """The tap is at the router; what that sends on to the shards does not count twice."""
    sharded = behind_a_router
    async with orders(sharded) as collection:
        await collection.insert_many([{"_id": n, "region": n, "qty": 0} for n in (-1, 1)])
        observed = Overlapping(sharded, f"{collection.database.name}.orders", tmp_path / "history.jsonl")
        primaries = [await primary_of(sharded, shard.name) for shard in sharded.topology.shards]
        members = [sharded.members[one.name] for one in primaries]

        async def add_one(collection: Any, _number: int, comment: dict[str, Any]) -> Any:
            return await collection.update_one({"_id": -1, "region": -1}, {"$inc": {"qty": 5}}, comment=comment)

        async with counting(observed), held(members, "hangDuringBatchUpdate", nss=observed.namespace):
            await observed.execute(WRITE, 2, increment_all)
            await observed.execute("t/0/1", 2, add_one)
        await observed.client.close()
    findings = observed.findings("inc")
    observed.recorder.close()
    rows = {row["write"]: row for row in findings["overlap"].evidence["writes"]}
    many, one = rows[WRITE], rows["t/0/1"]
    assert (many["sends"], many["copies"], many["copies_at_once"], many["effective"]) == (2, 2, 2, 2)
    assert (one["sends"], one["copies"], one["copies_at_once"], one["effective"]) == (4, 2, 2, 2)
    assert {entry["member"] for entry in observed.of("op.logged", write=WRITE)} == {each.name for each in members}
    assert findings["overlap"].evidence["sources"]["sends"] == ["tap"]
    assert findings["counts"].valid is True, findings["counts"].evidence
    terms = [(one["term"], one["where"]) for one in findings["counts"].evidence["checks"]]
    assert ("read by the server", "router") in terms
    assert {where for term, where in terms if term == "carried out"} == {each.name for each in members}
