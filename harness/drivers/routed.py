"""Operations sent through one router each on a connection of its own, so that none waits behind another's answer.

A router is a mongos, or the router code inside a shard's primary, which takes the same commands under other names.
Drivers are too helpful here: they send again, and what a router says is to be seen as it says it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final, Literal

from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed
from harness.drivers.errors import one_line
from harness.history import Recorder

SOURCE: Final = "routed"
CONNECT_DEADLINE: Final = 10.0
Setting = Literal["fine", "coarse"]
Command = Literal["find", "update", "insert", "aggregate"]
Belongs = Literal["stale shard", "recipient", "other shard", "other collection", "probe"]
"""Whom an operation is for: the shard that the router is to learn is stale, the one that a chunk was moved to, another
shard of the same collection, another collection on the same shards; or the white-box probe of the stale shard."""

CLUSTER_COMMANDS: Final[Mapping[str, str]] = {
    "find": "clusterFind",
    "update": "clusterUpdate",
    "insert": "clusterInsert",
    "aggregate": "clusterAggregate",
}
"""How the router code inside a mongod is called (6.0)."""


@dataclass(frozen=True, slots=True)
class Router:
    """A router, its `address:port`, and its setting of enableFinerGrainedCatalogCacheRefresh."""

    name: str
    host: str
    setting: Setting
    in_process: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """On one document, in the range that `region` lies in, of the collection known as `collection`. Each has a document
    of its own, whose `_id` is the operation's name."""

    name: str
    command: Command
    region: int
    belongs: Belongs
    collection: str = "watched"
    max_time_ms: int | None = None

    @property
    def writes(self) -> bool:
        return self.command in ("update", "insert")


def spoken(operation: Operation, router: Router, collection: str) -> dict[str, Any]:
    """The command for a router, on a collection of that name."""
    document = {"_id": operation.name, "region": operation.region}
    of_command: dict[str, dict[str, Any]] = {
        "find": {"filter": document, "limit": 1, "singleBatch": True},
        "update": {"updates": [{"q": document, "u": {"$inc": {"seq": 1}}}]},
        "insert": {"documents": [{**document, "seq": 1}]},
        "aggregate": {"pipeline": [{"$match": document}], "cursor": {}},
    }
    name = CLUSTER_COMMANDS[operation.command] if router.in_process else operation.command
    limit = {} if operation.max_time_ms is None else {"maxTimeMS": operation.max_time_ms}
    # Without, what is acknowledged may not be in what the majority has a moment later: the router code sends on none.
    concern = {"writeConcern": {"w": "majority"}} if operation.writes else {}
    return {name: collection, **of_command[operation.command], **limit, **concern}


def outcome_of(operation: Operation, reply: Mapping[str, Any]) -> dict[str, Any]:
    """`outcome`, `code`, `code_name`, `error` of a reply that says ok: of a write its first error, if it has one."""
    errors = reply.get("writeErrors") or ()
    if errors:
        first = errors[0]
        return _ended("failed", first.get("code"), first.get("codeName"), str(first.get("errmsg", "")))
    found = reply.get("n") if operation.writes else len(reply["cursor"]["firstBatch"])
    if found != 1:
        return _ended("failed", None, None, f"expected one document, found {found}")
    return _ended("ok", None, None, None)


def _ended(outcome: str, code: int | None, code_name: str | None, error: str | None) -> dict[str, Any]:
    return {"outcome": outcome, "code": code, "code_name": code_name, "error": error and error[:300]}


class Routed:
    """The operations of one router, on connections that are open before the first is sent."""

    def __init__(self, recorder: Recorder, router: Router, namespaces: Mapping[str, str], *, deadline: float) -> None:
        """`namespaces` by the names that operations have for collections; `deadline`: seconds for each operation."""
        self.router = router
        self._recorder = recorder
        self._namespaces = namespaces
        self._deadline = deadline
        self._connections: dict[str, Connection] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def connect(self, names: list[str], stack: AsyncExitStack) -> None:
        """One for each operation of these names; all closed with the stack. Raises ConnectionLost, DeadlinePassed."""
        for name in names:
            connection = await Connection.open(self.router.host, deadline=CONNECT_DEADLINE)
            stack.callback(connection.close)
            self._connections[name] = connection

    def send(self, operation: Operation) -> asyncio.Task[None]:
        """Send it now; the task ends with its answer, which is recorded."""
        self._tasks[operation.name] = task = asyncio.create_task(self._sent(operation))
        return task

    async def first_answered(self, seconds: float) -> None:
        """Until all that were sent are answered, or so many seconds have passed."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)

    async def answered(self) -> None:
        """Until each that was sent is answered or its deadline has passed."""
        await asyncio.gather(*self._tasks.values())

    def pending(self) -> list[str]:
        """The names of those that have no answer yet, in the order in which they were sent."""
        return [name for name, task in self._tasks.items() if not task.done()]

    async def prime(self, operations: list[Operation]) -> None:
        """Send them one after the other and record nothing. Raises CommandFailed, ConnectionLost, DeadlinePassed."""
        connection = await Connection.open(self.router.host, deadline=CONNECT_DEADLINE)
        try:
            for one in operations:
                database, _, collection = self._namespaces[one.collection].partition(".")
                command = spoken(one, self.router, collection)
                await connection.command(database, command, deadline=CONNECT_DEADLINE)
        finally:
            connection.close()

    async def _sent(self, operation: Operation) -> None:
        names = {"router": self.router.name, "op": operation.name}
        namespace = self._namespaces[operation.collection]
        database, _, collection = namespace.partition(".")
        self._recorder.record(
            "routed.op",
            SOURCE,
            **names,
            command=operation.command,
            belongs=operation.belongs,
            region=operation.region,
            namespace=namespace,
        )
        begun = time.monotonic()
        try:
            reply = await self._connections[operation.name].command(
                database, spoken(operation, self.router, collection), deadline=self._deadline
            )
            ended = outcome_of(operation, reply)
        except CommandFailed as error:
            ended = _ended("failed", error.code, error.code_name, str(error.reply.get("errmsg", "")))
        except (ConnectionLost, DeadlinePassed) as error:
            ended = _ended("unknown", None, None, one_line(error))
        self._recorder.record("routed.ended", SOURCE, **names, seconds=round(time.monotonic() - begun, 4), **ended)
