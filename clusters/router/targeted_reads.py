"""Reads on servers before 6.0, whose shards run no `cluster*` commands: sent to the shards that own what is asked for.

A find on several shards is their documents one shard after the other; what would have to be sorted or computed over
several is refused. Un-numbered writes go the way of the numbered ones.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bson.int64 import Int64

from clusters.router.catalog import STALE, Catalog, Patience, Route
from clusters.router.errors import RouterError
from clusters.router.members import COMMAND_DEADLINE, FIND_DEADLINE, Members
from clusters.router.passing import Passing
from clusters.router.primaries import plain
from clusters.router.query_ranges import shards_of_query
from clusters.router.replies import encode_reply
from clusters.router.router_host import COMPUTED
from clusters.wire.connection import CommandFailed, ConnectionLost
from clusters.wire.message import Message

FIRST_BATCH: Final = 101
"""Documents, where the client names no batchSize, as servers have it."""
_NOT_OVER_SHARDS: Final = ("sort", "skip", "tailable", "min", "max", "returnKey", "showRecordId")


@dataclass(slots=True)
class _Merged:
    """A cursor over several shards: what is there already, and the members' cursors that have more."""

    database: str
    collection: str
    session: Mapping[str, Any]
    """`lsid` of the find, which all that is done with its cursors has to carry too."""
    left: int | None
    documents: deque[Mapping[str, Any]] = field(default_factory=deque)
    cursors: deque[tuple[str, int]] = field(default_factory=deque)

    def take(self, count: int) -> list[Mapping[str, Any]]:
        count = min(count, len(self.documents), count if self.left is None else self.left)
        if self.left is not None:
            self.left -= count
        return [self.documents.popleft() for _ in range(count)]

    @property
    def ended(self) -> bool:
        return self.left == 0 or not (self.documents or self.cursors)


class TargetedReads:
    """In the place of `Passing`, which keeps the cursors that lie on one member."""

    def __init__(self, members: Members, catalog: Catalog, passing: Passing) -> None:
        self.cursors = passing.cursors
        self._members = members
        self._catalog = catalog
        self._passing = passing
        self._merged: dict[int, _Merged] = {}

    async def command(self, message: Message) -> bytes:
        """The reply to a find or an aggregate. Raises RouterError 115 for what several shards would have to add up."""
        command = message.document()
        name = message.command
        database, collection = command["$db"], command[name]
        patience = Patience(f"{database}.{collection}")
        while True:
            route = await self._catalog.route(database, collection)
            if route is None:
                cursor = {"firstBatch": [], "id": Int64(0), "ns": f"{database}.{collection}"}
                return self._reply({"cursor": cursor, "ok": 1.0}, message)
            shards = self._shards(name, command, route)
            try:
                if len(shards) == 1:
                    return self._reply(await self._on_one(command, shards[0], route, message), message)
                return self._reply(await self._on_several(command, shards, route), message)
            except CommandFailed as error:
                if error.code not in STALE:
                    raise
            self._catalog.forget(f"{database}.{collection}")
            await patience.wait()

    async def get_more(self, message: Message) -> bytes:
        merged = self._merged.get(message.number(b"getMore") or 0)
        if merged is None:
            return await self._passing.get_more(message)
        command = message.document()
        identity = int(command["getMore"])
        batch = await self._batch(merged, int(command.get("batchSize") or 0) or FIRST_BATCH)
        if merged.ended:
            await self._forget(identity)
        namespace = f"{merged.database}.{merged.collection}"
        cursor = {"nextBatch": batch, "id": Int64(0 if merged.ended else identity), "ns": namespace}
        return self._reply({"cursor": cursor, "ok": 1.0}, message)

    async def kill(self, identities: Sequence[int]) -> dict[int, bool]:
        ours = [one for one in identities if one in self._merged]
        for one in ours:
            await self._forget(one)
        return {**dict.fromkeys(ours, True), **await self._passing.kill([one for one in identities if one not in ours])}

    def _shards(self, name: str, command: Mapping[str, Any], route: Route) -> tuple[str, ...]:
        stages = command.get("pipeline", ())
        for stage in stages:
            kind = next(iter(stage), "an empty stage")
            if kind not in COMPUTED:
                raise _refused(f"an aggregate with {kind}")
        if route.table is None:
            return (route.database.primary,)
        query = command.get("filter") or (stages[0].get("$match") if stages else None) or {}
        simple = not (command.get("collation") or route.table.collation)
        shards = shards_of_query(route.table, query, simple=simple)
        if len(shards) > 1:
            wrong = name if name != "find" else next((one for one in _NOT_OVER_SHARDS if command.get(one)), None)
            if wrong is not None:
                raise _refused(f"{wrong} over several shards")
        return shards

    async def _on_one(
        self, command: Mapping[str, Any], shard: str, route: Route, message: Message
    ) -> Mapping[str, Any]:
        host, reply = await self._ask(command, shard, route)
        self._passing.note(message, Message(encode_reply(reply, message.request_id, None)), host)
        return plain(reply)

    async def _on_several(self, command: Mapping[str, Any], shards: Sequence[str], route: Route) -> Mapping[str, Any]:
        limit = abs(int(command.get("limit") or 0))
        merged = _Merged(command["$db"], command["find"], _session(command), limit or None)
        asked = [asyncio.create_task(self._ask(command, shard, route)) for shard in shards]
        replies = await asyncio.gather(*asked, return_exceptions=True)
        for one in replies:
            if not isinstance(one, BaseException):
                host, reply = one
                merged.documents.extend(reply["cursor"]["firstBatch"])
                if reply["cursor"]["id"]:
                    merged.cursors.append((host, reply["cursor"]["id"]))
        identity = random.getrandbits(62) + 1
        self._merged[identity] = merged
        failure = next((one for one in replies if isinstance(one, BaseException)), None)
        if failure is not None:
            await self._forget(identity)
            raise failure
        wanted = command.get("batchSize")
        batch = merged.take(FIRST_BATCH if wanted is None else int(wanted))
        if merged.ended or command.get("singleBatch"):
            await self._forget(identity)
            identity = 0
        namespace = f"{merged.database}.{merged.collection}"
        return {"cursor": {"firstBatch": batch, "id": Int64(identity), "ns": namespace}, "ok": 1.0}

    async def _ask(self, command: Mapping[str, Any], shard: str, route: Route) -> tuple[str, dict[str, Any]]:
        """Which member was asked, and its reply. Raises CommandFailed, ConnectionLost."""
        monitor = self._members.monitor
        preference = command.get("$readPreference") or {"mode": "primary"}
        host = await monitor.select(await self._members.set_of(shard), preference, deadline=FIND_DEADLINE)
        known = monitor.cluster_time()
        body = {name: value for name, value in command.items() if name not in ("$db", "$clusterTime")}
        body.update(route.versions(shard))
        if known is not None:
            body["$clusterTime"] = known
        try:
            async with self._members.plain.to(host).connection() as connection:
                reply = await connection.command(command["$db"], body)
        except ConnectionLost:
            monitor.note_failure(host)
            raise
        monitor.note_cluster_time(reply.get("$clusterTime"))
        return host, reply

    async def _batch(self, merged: _Merged, count: int) -> list[Mapping[str, Any]]:
        while merged.cursors and len(merged.documents) < count:
            host, identity = merged.cursors.popleft()
            more = {"getMore": Int64(identity), "collection": merged.collection, "batchSize": count}
            more.update(merged.session)
            async with self._members.plain.to(host).connection() as connection:
                reply = await connection.command(merged.database, more, deadline=COMMAND_DEADLINE)
            merged.documents.extend(reply["cursor"]["nextBatch"])
            if reply["cursor"]["id"]:
                merged.cursors.append((host, reply["cursor"]["id"]))
        return merged.take(count)

    async def _forget(self, identity: int) -> None:
        merged = self._merged.pop(identity, None)
        if merged is None:
            return
        for host, cursor in merged.cursors:
            kill = {"killCursors": merged.collection, "cursors": [Int64(cursor)], **merged.session}
            try:
                async with asyncio.timeout(COMMAND_DEADLINE), self._members.plain.to(host).connection() as connection:
                    await connection.command(merged.database, kill)
            except (CommandFailed, ConnectionLost, TimeoutError):
                continue  # it dies of its own, of idleness

    def _reply(self, document: Mapping[str, Any], message: Message) -> bytes:
        return encode_reply(document, message.request_id, self._members.monitor.cluster_time())


def _session(command: Mapping[str, Any]) -> dict[str, Any]:
    return {"lsid": command["lsid"]} if "lsid" in command else {}


def _refused(what: str) -> RouterError:
    return RouterError(
        115,
        "CommandNotSupported",
        f"the stand-in router does no {what} on servers before 6.0, whose shards run no cluster commands; "
        "read one shard's documents, or use a mongos",
    )
