"""A replica set whose members reach each other through the proxy: who is who, partitions, one command among members."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from clusters import local
from clusters.local import OwnCluster
from clusters.topology import single_replica_set
from clusters.wire.connection import Connection
from clusters.wire.proxy.client import Direction, Kind, Rule
from router_parts import until
from wire_proxy_parts import Running, proxy_before

pytestmark = [pytest.mark.live, pytest.mark.slow]
FIRST, SECOND, THIRD = "rs0-0", "rs0-1", "rs0-2"
SHORT_MS = 700
"""Milliseconds in which a write must not reach a member that is cut off."""


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[OwnCluster]:
    running = await local.bring_up(single_replica_set(3), "tests-wire-proxy")
    yield running
    await running.down()


@pytest.fixture(scope="module")
async def proxy(cluster: OwnCluster) -> AsyncIterator[Running]:
    """The set's configuration names the links; each member listens where it did."""
    targets = {member.name: member.host for member in cluster.members.values()}
    async with proxy_before(targets, {host: name for name, host in targets.items()}) as running:
        primary = await direct(cluster, FIRST)
        config = (await primary.command("admin", {"replSetGetConfig": 1}))["config"]
        for member in config["members"]:
            member["host"] = next(running.hosts[name] for name, host in targets.items() if host == member["host"])
        config["version"] += 1
        await primary.command("admin", {"replSetReconfig": config}, deadline=30)
        primary.close()
        yield running


@pytest.fixture
async def primary(cluster: OwnCluster, proxy: Running) -> AsyncIterator[Connection]:
    """The first member, past the proxy; all three have what was written."""
    connection = await direct(cluster, FIRST)
    await until(lambda: written(connection, 3, 10_000), "a write on all three members")
    yield connection
    connection.close()


async def direct(cluster: OwnCluster, name: str) -> Connection:
    return await Connection.open(cluster.members[name].host, deadline=10)


async def written(connection: Connection, members: int, milliseconds: int) -> bool:
    """Whether as many members have a new write in time."""
    insert = {"insert": "c", "documents": [{}], "writeConcern": {"w": members, "wtimeout": milliseconds}}
    return "writeConcernError" not in await connection.command("proxied", insert, deadline=30)


async def test_every_member_is_known_by_name_on_every_link(primary: Connection, proxy: Running) -> None:
    async def known() -> bool:
        links = (await proxy.control.status())["links"]
        found = {link["name"]: {one["source"] for one in link["connections"]} for link in links}
        names = {FIRST, SECOND, THIRD}
        return all(found[name] >= names - {name} and not found[name] - names - {"driver"} for name in names)

    await until(known, "each member on the links of the two others")


async def test_a_partition_holds_all_between_two_sides_and_nothing_else(primary: Connection, proxy: Running) -> None:
    async with AsyncExitStack() as healing:
        for rule in (
            Rule(Kind.BLACKHOLE, to=(THIRD,), source=(FIRST, SECOND)),
            Rule(Kind.BLACKHOLE, to=(FIRST, SECOND), source=(THIRD,)),
        ):
            await healing.enter_async_context(proxy.rule(rule))
        assert not await written(primary, 3, SHORT_MS)
        assert await written(primary, 2, 10_000)
        # Clients are on neither side.
        through = await proxy.raw(THIRD)
        await through.command("admin", {"ping": 1}, deadline=5)
        through.close()

        async def proven() -> bool:
            return all(rule["bytes"] > 0 for rule in (await proxy.control.status())["rules"])

        await until(proven, "something held of each side, a heartbeat at the latest")
    assert await written(primary, 3, 20_000)


async def test_the_stream_of_the_oplog_is_held_by_command_while_heartbeats_pass(
    primary: Connection, proxy: Running
) -> None:
    """Its one getMore came before the rule; its replies come without another request."""
    rule = Rule(
        Kind.BLACKHOLE, source=(THIRD,), commands=("getMore",), namespace="local.oplog.rs", direction=Direction.FROM
    )
    await proxy.control.tap(True, clear=True)
    async with proxy.rule(rule) as name:
        assert not await written(primary, 3, SHORT_MS)
        acted = await proxy.control.acted(name)
        assert acted["connections"] == 1
        assert acted["messages"] >= 1

        async def heartbeats() -> bool:
            rows = await proxy.control.counts(source=THIRD, command="replSetHeartbeat")
            return sum(int(row["total"] - row["now"] - row["unanswered"]) for row in rows) >= 2

        await until(heartbeats, "heartbeats of the member that gets no oplog")
        assert not await written(primary, 3, SHORT_MS)
    assert await written(primary, 3, 20_000)
    await proxy.control.tap(False)
    # Members would compress what they say to each other.
    assert [link["unreadable"] for link in (await proxy.control.status())["links"]] == [0, 0, 0]


async def test_the_fetcher_of_the_oplog_is_cut_by_its_application_and_comes_back(
    primary: Connection, proxy: Running
) -> None:
    async with proxy.rule(Rule(Kind.CUT, source=("app:OplogFetcher",))) as name:
        acted = await proxy.control.acted(name)
        assert acted["resets"] == acted["connections"] >= 1
        assert await written(primary, 3, 20_000)
