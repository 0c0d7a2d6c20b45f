"""Look: what maxTimeMS below the socket timeout does to a write that waits for a lock, a conflict, or a ticket.

None of these is a fault of the scenario on a primary. Each is tried without maxTimeMS, and with.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final

from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from clusters import admin
from clusters.local import OwnCluster
from faults.fsync_lock import FsyncLock
from harness.suites.looks.server import DEADLINE, asking, fail_point, host_of, ops

DATABASE: Final = "max_time"
SOCKET_TIMEOUT_MS: Final = 700
MAX_TIME_MS: Final = 300
EXECUTIONS: Final = 3
TICKETS: Final = 5
"""The fewest that the server takes."""
TICKETS_OF_OLD: Final = 128
"""What a server that says 0 has: it was told nothing, and does not take 0 back (measured on 6.0.5)."""
END_DEADLINE: Final = 30.0

Block = Callable[[OwnCluster, str], AbstractAsyncContextManager[None]]
"""Given the collection of the write, keeps it waiting within the block."""


async def look(cluster: OwnCluster) -> Mapping[str, Any]:
    """By what was waited for, `without` and `with` maxTimeMS: sends, codes of the executions' errors, effects."""
    return {
        name: {
            which: await _tried(cluster, block, f"{name} {which}", max_time)
            for which, max_time in (("without", None), ("with", MAX_TIME_MS))
        }
        for name, block in BLOCKS.items()
    }


async def _tried(cluster: OwnCluster, block: Block, collection: str, max_time: int | None) -> dict[str, Any]:
    sends, codes = _Sends(), list[int | None]()
    limits: dict[str, Any] = {} if max_time is None else {"maxTimeMS": max_time}
    async with cluster.client() as plain:
        await plain[DATABASE][collection].insert_one({"_id": 0, "done": []})
        async with cluster.client(socketTimeoutMS=SOCKET_TIMEOUT_MS, event_listeners=[sends]) as client:
            await client.admin.command("ping")
            async with block(cluster, collection):
                for execution in range(EXECUTIONS):
                    try:
                        await client[DATABASE][collection].find_one_and_update(
                            {"_id": 0}, {"$push": {"done": execution}}, comment=DATABASE, **limits
                        )
                    except PyMongoError as error:
                        codes.append(getattr(error, "code", None))
        await _ended(cluster)
        document = await plain[DATABASE][collection].find_one({"_id": 0})
    return {"sends": sends.number, "codes": codes, "effects": len((document or {}).get("done", ()))}


async def _ended(cluster: OwnCluster) -> None:
    """Until nothing that was sent is inside the member any more."""
    async with asking(cluster) as connection:

        async def none() -> bool:
            return not await ops(connection, {"command.comment": DATABASE})

        await admin.until("what was sent has ended", none, deadline=END_DEADLINE)


@asynccontextmanager
async def _locked(cluster: OwnCluster, _collection: str) -> AsyncIterator[None]:
    lock = FsyncLock(host_of(cluster))
    cluster.ledger.open(lock.undo(), "fault", "fsyncLock of a look")
    await lock.on()
    try:
        yield
    finally:
        await lock.off()
        lock.close()


@asynccontextmanager
async def _conflicting(cluster: OwnCluster, collection: str) -> AsyncIterator[None]:
    """A transaction that has written the document, and is not ended."""
    async with cluster.client() as client, client.start_session() as session:
        await session.start_transaction()
        await client[DATABASE][collection].update_one({"_id": 0}, {"$set": {"held": 1}}, session=session)
        try:
            yield
        finally:
            await session.abort_transaction()


@asynccontextmanager
async def _without_tickets(cluster: OwnCluster, _collection: str) -> AsyncIterator[None]:
    """As few tickets for writes as there can be, and inserts that hold them all."""
    parameter = "wiredTigerConcurrentWriteTransactions"
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(asking(cluster))
        before = (await connection.command("admin", {"getParameter": 1, parameter: 1}, deadline=DEADLINE))[parameter]
        await connection.command("admin", {"setParameter": 1, parameter: TICKETS}, deadline=DEADLINE)
        client = await stack.enter_async_context(cluster.client())
        await client[DATABASE]["holders"].insert_one({})
        held = f'{{"nss": "{DATABASE}.holders"}}'
        holders: list[asyncio.Task[Any]] = []
        try:
            async with fail_point(cluster, "hangWithLockDuringBatchInsert", held):
                holders += [
                    asyncio.create_task(client[DATABASE]["holders"].insert_one({}, comment="holder"))
                    for _ in range(TICKETS)
                ]

                async def all_held() -> bool:
                    return len(await ops(connection, {"locks.Global": "w", "command.comment": "holder"})) == TICKETS

                await admin.until("all tickets are held", all_held, deadline=DEADLINE)
                yield
        finally:
            await asyncio.gather(*holders, return_exceptions=True)
            number = before or TICKETS_OF_OLD
            await connection.command("admin", {"setParameter": 1, parameter: number}, deadline=DEADLINE)


BLOCKS: Final[Mapping[str, Block]] = {
    "lock": _locked,
    "write conflict": _conflicting,
    "tickets": _without_tickets,
}


class _Sends(CommandListener):
    """Counts the findAndModify that the driver writes."""

    def __init__(self) -> None:
        self.number = 0

    def started(self, event: CommandStartedEvent) -> None:
        self.number += event.command_name == "findAndModify"

    def succeeded(self, event: CommandSucceededEvent) -> None:
        return

    def failed(self, event: CommandFailedEvent) -> None:
        return
