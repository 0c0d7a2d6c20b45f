"""The mongod whose in-process router does the passed-on reads, cursors and un-numbered writes.

The only holder of connections to it: what is sent goes through `forbidden`, whoever asks. Knows no shards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final

from clusters.router.catalog import STALE
from clusters.router.errors import RouterError
from clusters.router.forbidden import as_itself, explain_form, to_cluster_form
from clusters.router.rewrite import failed
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, Waiting
from clusters.wire.message import Message, decode, encode, next_request_id
from clusters.wire.pool import Pool
from clusters.wire.proxy.source import ROUTER_APP

READY_DEADLINE: Final = 15.0
"""Seconds a command waits for the router host to be part of the cluster."""
STALE_DEADLINE: Final = 10.0
"""Seconds of stale answers to an aggregate or its explain, which a mongos would retry. See `refresh`."""

_WRITES: Final = (b"$merge\x00", b"$out\x00")
"""Stages after which an aggregate is not sent again, as it may have written: the catalog is read before it."""

COMPUTED: Final = frozenset(
    ("$match", "$project", "$addFields", "$set", "$unset", "$group", "$sort", "$sortByCount", "$limit", "$skip",
     "$count", "$unwind", "$replaceRoot", "$replaceWith")
)  # fmt: skip
"""Stages that need nothing but the documents they get."""


class RouterHost:
    """The router host at `host`. Waits until it is up and told of its cluster, at first and after each new start.

    Without cluster commands nothing but `ask` and what rests on it is to be had of it; all else raises RouterError 115.
    """

    def __init__(self, host: str, *, cluster_commands: bool = True) -> None:
        self.host = host
        self.cluster_commands = cluster_commands
        """Whether there is router code in its process that is spoken to by `cluster*` commands."""
        self._pool = Pool(host, app_name=ROUTER_APP)
        self._ready = False

    def send(self, message: Message, opened: Container[int], waiting: Waiting) -> Connection | None:
        """The message in its cluster form, sent at once on a free connection, which `release` takes back.

        None, and nothing is sent, where one has to be waited for. Raises Forbidden.
        """
        raw = self._form(message, opened)
        connection = self._pool.idle() if self._ready else None
        if connection is None or not self._primary(connection):
            return None
        connection.send(raw, waiting)
        return connection

    def release(self, connection: Connection) -> None:
        self._pool.release(connection)

    async def pass_on(self, message: Message, opened: Container[int]) -> Message:
        """The reply to the message in its cluster form. Raises Forbidden, RouterError 6 or 203, ConnectionLost."""
        raw = self._form(message, opened)
        if message.command != "aggregate":
            return await self._request(raw)

        def namespace() -> tuple[str, Any]:
            command = message.document()
            return command["$db"], command["aggregate"]

        if any(one in raw for one in _WRITES):
            await self.refresh(*namespace())
            return await self._request(raw)
        return await self._not_stale(raw, namespace)

    async def run(self, database: str, document: Mapping[str, Any], opened: Container[int] = ()) -> dict[str, Any]:
        """A command of our own, in its cluster form; the reply decoded. Raises CommandFailed too."""
        message = Message(encode({**document, "$db": database}, request_id=next_request_id()))
        return self._checked(message, await self.pass_on(message, opened))

    async def ask(self, database: str, document: Mapping[str, Any], *, deadline: float) -> dict[str, Any]:
        """A plain command to the router host itself."""
        message = Message(encode({**document, "$db": database}, request_id=next_request_id()))
        raw = as_itself(message)
        async with asyncio.timeout(deadline), self._pool.connection() as connection:
            return self._checked(message, await connection.request(raw))

    async def explain(self, database: str, command: Mapping[str, Any]) -> dict[str, Any]:
        """explain of a find or an aggregate by the in-process router. Raises Forbidden, CommandFailed."""
        message = Message(encode({**command, "$db": database}, request_id=next_request_id()))
        raw = self._form(message, ()) if not self.cluster_commands else explain_form(message)
        reply = await self._not_stale(raw, lambda: (database, next(iter(command["explain"].values()))))
        return self._checked(message, reply)

    async def server_info(self) -> dict[str, Any]:
        """`serverInfo` as an explain has it."""
        build = await self.ask("admin", {"buildInfo": 1}, deadline=READY_DEADLINE)
        host, _, port = self.host.rpartition(":")
        return {"host": host, "port": int(port), "version": build["version"], "gitVersion": build["gitVersion"]}

    async def current_op(self, options: Mapping[str, Any], *, deadline: float) -> list[dict[str, Any]]:
        """The router host's own ops."""
        reply = await self.ask(
            "admin", {"aggregate": 1, "pipeline": [{"$currentOp": options}], "cursor": {}}, deadline=deadline
        )
        found: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
        return found

    async def compute(
        self,
        documents: Sequence[Mapping[str, Any]],
        stages: Sequence[Mapping[str, Any]],
        *,
        collation: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Aggregation stages over documents of the router's own, by a server: nobody else's `$match` means the same."""
        for name in (next(iter(stage), "an empty stage") for stage in stages):
            if name not in COMPUTED:
                known = ", ".join(sorted(COMPUTED))
                raise RouterError(
                    115, "CommandNotSupported", f"behind $currentOp the stand-in router runs {known}; found {name}"
                )
        # $literal: the ops hold commands, whose own `$`-names must not be read as expressions.
        pipeline = [{"$documents": {"$literal": list(documents)}}, *stages]
        command: dict[str, Any] = {"aggregate": 1, "pipeline": pipeline, "cursor": {"batchSize": 100_000}}
        if collation is not None:
            command["collation"] = collation
        reply = await self.ask("admin", command, deadline=READY_DEADLINE)
        found: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
        return found

    def close(self) -> None:
        self._pool.close()

    async def refresh(self, database: str, collection: Any) -> None:
        """Make the in-process router read the catalog again.

        Its clusterAggregate and its explain neither retry a stale answer (13388, 249 or 304 comes out) nor remember it:
        the same old version was sent for 10 s (measured on 6.0.5). A clusterFind, here on every shard, does both.
        """
        if isinstance(collection, str) and self.cluster_commands:
            await self.run(database, {"find": collection, "projection": {"_id": 1}, "limit": 1, "singleBatch": True})

    def _form(self, message: Message, opened: Container[int]) -> bytes:
        if not self.cluster_commands:
            raise RouterError(
                115,
                "CommandNotSupported",
                f"the stand-in router does no {message.command} of this kind on servers before 6.0: it has what their "
                "shards answer, and only what needs no merging but that of change streams and plain finds",
            )
        return to_cluster_form(message, opened)

    def _checked(self, message: Message, reply: Message) -> dict[str, Any]:
        answer = decode(reply.body)
        if answer.get("ok") != 1:
            raise CommandFailed(self.host, message.command, answer)
        return answer

    async def _not_stale(self, raw: bytes, namespace: Callable[[], tuple[str, Any]]) -> Message:
        """The reply; as long as it is a stale one, the catalog is read and the message sent again."""
        reply = await self._request(raw)
        give_up = time.monotonic() + STALE_DEADLINE
        while failed(reply.body) and decode(reply.body).get("code") in STALE and time.monotonic() < give_up:
            await self.refresh(*namespace())
            reply = await self._request(raw)
        return reply

    async def _request(self, raw: bytes) -> Message:
        """The reply. Where the host is being started again it is waited for, as long as nothing was sent to it."""
        give_up = time.monotonic() + READY_DEADLINE
        while True:
            if not self._ready:
                await self._until_ready()
            try:
                connection = await self._pool.acquire()
            except ConnectionLost:
                if time.monotonic() > give_up:
                    raise
                self._ready = False
                continue
            try:
                if self._primary(connection):
                    return await connection.request(raw)
                self._ready = False
            finally:
                self._pool.release(connection)

    def _primary(self, connection: Connection) -> bool:
        """Whether the host was the primary of its set when this connection was made; closed if not.

        A mongod just started is a secondary for a moment, and answers cluster commands with errors of a member's,
        on which a driver takes the router for gone.
        """
        if connection.hello.get("isWritablePrimary"):
            return True
        connection.close()
        return False

    async def _serves(self) -> bool:
        message = Message(encode({"shardingState": 1, "$db": "admin"}, request_id=next_request_id()))
        async with asyncio.timeout(READY_DEADLINE), self._pool.connection() as connection:
            state = self._checked(message, await connection.request(as_itself(message)))
            return self._primary(connection) and bool(state.get("enabled"))

    async def _until_ready(self) -> None:
        give_up = time.monotonic() + READY_DEADLINE
        found = "nothing yet"
        while not self._ready:
            try:
                self._ready = await self._serves()
                found = "a mongod that is no primary, or was not told of its cluster (_addShard)"
            except (ConnectionLost, TimeoutError, CommandFailed) as error:
                found = str(error)
            if not self._ready:
                if time.monotonic() > give_up:
                    raise RouterError(
                        6,
                        "HostUnreachable",
                        f"the stand-in router expected its router host {self.host} to serve within "
                        f"{READY_DEADLINE:g} s, found: {found}",
                    )
                await asyncio.sleep(0.1)  # nothing to await: the mongod is being started or configured by others
