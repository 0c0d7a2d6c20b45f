"""Which command is done by which part. The table is here and only here; a command not in it is refused."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from bson.int64 import Int64
from bson.objectid import ObjectId

from clusters.router import fail_command, handshake, refusals, unnumbered
from clusters.router.change_stream import ChangeStreams
from clusters.router.collections import Collections
from clusters.router.counting import Counting
from clusters.router.current_op import CurrentOp
from clusters.router.ddl import Ddl
from clusters.router.errors import RouterError
from clusters.router.explain import Explain
from clusters.router.fail_command import FailCommand
from clusters.router.forbidden import names_collection
from clusters.router.indexes import Indexes
from clusters.router.listings import Listings
from clusters.router.members import Members
from clusters.router.passing import Passing
from clusters.router.replies import UNKNOWN_ERROR, encode_reply, error_document, moved_document
from clusters.router.rewrite import failed
from clusters.router.server import Client, Running
from clusters.router.sessions import Sessions
from clusters.router.settings import SETTINGS, ClusterSettings
from clusters.router.shard_map import ShardMap
from clusters.router.sharding import Sharding
from clusters.router.stats import Stats
from clusters.router.status import KIND, UNKNOWN, Counts, Status
from clusters.router.straight import Straight
from clusters.router.strict import Asked, misread, time_limit
from clusters.router.targeted_reads import TargetedReads
from clusters.router.writes import Writes
from clusters.router.zones import Zones
from clusters.wire.connection import CommandFailed
from clusters.wire.message import EXHAUST_ALLOWED, MORE_TO_COME, OP_QUERY, Message, decode, encode_op_reply

_Bytes = Callable[[Message], Awaitable[bytes]]
_Document = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]

log = logging.getLogger("mongofault.router")

_HELLO: Final = frozenset(("hello", "isMaster", "ismaster"))


class Dispatch:
    """`answer` and `error` are all that the listening side needs (`server.Answers`)."""

    def __init__(
        self,
        members: Members,
        passing: Passing | TargetedReads,
        straight: Straight,
        writes: Writes,
        streams: ChangeStreams,
        counting: Counting,
        ddl: Ddl,
        sharding: Sharding,
        zones: Zones,
        indexes: Indexes,
        collections: Collections,
        stats: Stats,
        shard_map: ShardMap,
        settings: ClusterSettings,
        sessions: Sessions,
        explain: Explain,
        listings: Listings,
        current_op: CurrentOp,
        status: Status,
        counts: Counts,
        fail_command: FailCommand,
        wire_version: int,
    ) -> None:
        self.fail_command = fail_command
        self._wire_version = wire_version
        self._topology_version = {"processId": ObjectId(), "counter": Int64(0)}
        self._members = members
        self._passing = passing
        self._straight = straight
        self._writes = writes
        self._streams = streams
        self._current_op = current_op
        self._status = status
        self._counts = counts
        self._bytes: dict[str, _Bytes] = {
            "find": passing.command,
            "aggregate": self._aggregate,
            "getMore": self._get_more,
            "insert": self._write,
            "update": self._write,
            "delete": self._write,
            "findAndModify": self._find_and_modify,
            "findandmodify": self._find_and_modify,
            "listCollections": listings.list_collections,
            "listIndexes": listings.list_indexes,
        }
        self._documents: dict[str, _Document] = {
            "addShardToZone": zones.command,
            "buildInfo": status.build_info,
            "buildinfo": status.build_info,
            "configureFailPoint": self._configure_fail_point,
            "collMod": indexes.collection_options,
            "collStats": stats.collection,
            "collstats": stats.collection,
            "connPoolStats": status.parameters,
            "connectionStatus": self._connection_status,
            "count": counting.count,
            "create": ddl.create,
            "convertToCapped": collections.convert_to_capped,
            "createIndexes": indexes.create,
            "currentOp": current_op.command,
            "dataSize": stats.data_size,
            "datasize": stats.data_size,
            "dbStats": stats.database,
            "dbstats": stats.database,
            "deleteIndexes": indexes.drop,
            "distinct": counting.distinct,
            "drop": ddl.drop,
            "dropDatabase": ddl.drop_database,
            "dropIndexes": indexes.drop,
            "echo": self._echo,
            "enableSharding": ddl.enable_sharding,
            "endSessions": sessions.note,
            "explain": explain.command,
            "features": status.features,
            "flushRouterConfig": ddl.flush_router_config,
            "getCmdLineOpts": self._command_line,
            "getLog": status.log_lines,
            "getParameter": status.parameters,
            "getShardMap": shard_map.shard_map,
            "getShardVersion": shard_map.shard_version,
            "hostInfo": status.host_info,
            "isdbgrid": self._is_router,
            "killAllSessions": sessions.kill,
            "killAllSessionsByPattern": sessions.kill,
            "killCursors": self._kill_cursors,
            "killOp": sessions.kill_op,
            "killSessions": sessions.kill,
            "listCommands": self._list_commands,
            "listDatabases": listings.list_databases,
            "listShards": listings.list_shards,
            "mongofaultRouterStatus": self._router_status,
            "moveChunk": sharding.move_chunk,
            "moveRange": sharding.move_range,
            "movePrimary": collections.move_primary,
            "netstat": shard_map.net_stat,
            "ping": self._ok,
            "planCacheClear": indexes.plan_cache,
            "planCacheClearFilters": indexes.plan_cache,
            "planCacheListFilters": indexes.plan_cache,
            "planCacheSetFilter": indexes.plan_cache,
            "refineCollectionShardKey": collections.refine_shard_key,
            "refreshSessions": sessions.note,
            "removeShardFromZone": zones.command,
            "renameCollection": collections.rename,
            "rolesInfo": self._no_roles,
            "serverStatus": status.server_status,
            "setParameter": status.parameters,
            "shardCollection": sharding.shard_collection,
            "split": sharding.split,
            "startSession": sessions.start,
            "updateZoneKeyRange": zones.command,
            "usersInfo": self._no_users,
            "validate": stats.validate,
            "waitForFailPoint": self._wait_for_fail_point,
            **dict.fromkeys(SETTINGS, settings.command),
        }

    def pass_on(self, client: Client, message: Message) -> Running | None:
        """What needs neither waiting nor looking into is sent on at once; None for all that `answer` is to do."""
        if self.fail_command.armed:
            return None
        exchange = self._straight.send(client, message)
        if exchange is not None:
            self._counts.commands[message.command] += 1
        return exchange

    async def answer(self, client: Client, message: Message) -> bytes:
        """The reply, framed. Raises what `error` turns into a reply."""
        if not self.fail_command.armed:
            return await self._answer(client, message)
        document = message.document()
        await self.fail_command.before(client, document)
        try:
            reply = await self._answer(client, message)
        except Exception as error:
            reply = self.error(error, message, message.request_id)
        added = await self.fail_command.after(client, document)
        return self._reply({**decode(Message(reply).body), **added}, message) if added else reply

    async def _answer(self, client: Client, message: Message) -> bytes:
        command = message.command
        self._counts.commands[command if self._does(command) else UNKNOWN] += 1
        if command in _HELLO:
            return await self._hello(client, message)
        if command == "whatsmyuri":
            return self._reply({"you": client.peer, "ok": 1.0}, message)
        if message.op == OP_QUERY:
            raise RouterError(352, "UnsupportedOpQueryCommand", f"{command!r} came as OP_QUERY; send OP_MSG")
        refusal = refusals.common(message)
        if refusal is not None:
            raise refusal
        in_bytes = self._bytes.get(command)
        if in_bytes is not None:
            return await in_bytes(message)
        in_document = self._documents.get(command)
        if in_document is None:
            raise refusals.unknown(command)
        document = Asked(message.document())
        wrong = misread(document)
        if wrong is not None:
            raise wrong
        limit = time_limit(document)
        try:
            async with asyncio.timeout(limit) as timeout:
                return self._reply(await in_document(document), message)
        except TimeoutError:
            if timeout.expired():
                raise RouterError(50, "MaxTimeMSExpired", "operation exceeded time limit") from None
            raise

    def _does(self, command: str) -> bool:
        return command in self._documents or command in self._bytes or command in _HELLO or command == "whatsmyuri"

    def error(self, error: Exception, message: Message | None, request_id: int) -> bytes:
        document = error_document(error)
        if document.get("code") == UNKNOWN_ERROR and not isinstance(error, CommandFailed):
            log.error("%s failed", "a request" if message is None else message.command, exc_info=error)
        if message is not None and message.op == OP_QUERY:
            return encode_op_reply(document, response_to=request_id)
        return encode_reply(document, request_id, self._members.monitor.cluster_time())

    def _reply(self, document: Mapping[str, Any], message: Message, *, flags: int = 0) -> bytes:
        return encode_reply(document, message.request_id, self._members.monitor.cluster_time(), flags=flags)

    async def _hello(self, client: Client, message: Message) -> bytes:
        """At once, or after the time it may wait; streamed where the client lets it be."""
        command = decode(message.body)
        client.app_name = client.app_name or handshake.app_name(command)
        seconds = handshake.seconds_to_wait(command, self._topology_version)
        if seconds:
            await asyncio.sleep(seconds)
        document = handshake.hello(
            command,
            legacy=message.command != "hello",
            connection_id=client.number,
            version=self._topology_version,
            wire_version=self._wire_version,
        )
        if message.op == OP_QUERY:
            return encode_op_reply(document, response_to=message.request_id)
        # Not where the client knows another process: it has to ask again with the version it learns now.
        streamed = seconds and message.flags & EXHAUST_ALLOWED
        return self._reply(document, message, flags=MORE_TO_COME if streamed else 0)

    # reads, writes, cursors

    async def _aggregate(self, message: Message) -> bytes:
        """The byte search only spares decoding; what begins with a change stream is decided on the document."""
        raw = message.raw
        if b"$changeStream\x00" in raw or not names_collection(message):
            command = message.document()
            first = _first_stage(command)
            if first == "$changeStream":
                if command.get("explain"):
                    raise refusals.explain()
                return self._reply(await self._streams.open(command), message)
            if first == "$currentOp":
                return self._reply(await self._current_op.aggregate(command), message)
            if not names_collection(message) and first != "$documents":
                raise refusals.collectionless(command.get("pipeline"))
        return await self._passing.command(message)

    async def _get_more(self, message: Message) -> bytes:
        identity = message.number(b"getMore")
        if identity is not None and self._streams.owns(identity):
            return self._reply(await self._streams.get_more(message.document()), message)
        return await self._passing.get_more(message)

    async def _write(self, message: Message) -> bytes:
        if b"txnNumber" in message.fields or not isinstance(self._passing, Passing):
            return self._reply(await self._writes.run(message), message)
        raw = await self._passing.command(message)
        reply = Message(raw)
        return await unnumbered.finish(self._passing, message, reply) if unnumbered.left_out(message, reply) else raw

    async def _find_and_modify(self, message: Message) -> bytes:
        reply = await self._writes.find_and_modify(message)
        if failed(reply.body):
            document = decode(reply.body)
            return self._reply(moved_document(document) or document, message)
        return reply.raw

    async def _kill_cursors(self, command: Mapping[str, Any]) -> Mapping[str, Any]:
        collection, asked = command["killCursors"], command["cursors"]
        if not isinstance(collection, str):
            raise RouterError(2, "BadValue", f"collection name has invalid type {type(collection).__name__}")
        if not isinstance(asked, list) or not all(isinstance(one, Int64) for one in asked):
            why = f"BSON field 'killCursors.cursors' is the wrong type, expected an array of type long, found {asked!r}"
            raise RouterError(14, "TypeMismatch", why)
        ours = set(await self._streams.kill(asked))
        passed = await self._passing.kill([one for one in asked if one not in ours])
        return {
            "cursorsKilled": [one for one in asked if one in ours or passed.get(one)],
            "cursorsNotFound": [one for one in asked if one not in ours and one not in passed],
            "cursorsAlive": [one for one in asked if passed.get(one) is False],
            "cursorsUnknown": [],
            "ok": 1.0,
        }

    # fail points

    async def _configure_fail_point(self, command: Mapping[str, Any]) -> Mapping[str, Any]:
        await self._own_fail_point(command)
        return self.fail_command.configure(command)

    async def _wait_for_fail_point(self, command: Mapping[str, Any]) -> Mapping[str, Any]:
        await self._own_fail_point(command)
        return await self.fail_command.wait(command)

    async def _own_fail_point(self, command: Mapping[str, Any]) -> None:
        refusals.on_admin_alone(command)
        value = next(iter(command.values()))
        if value != fail_command.NAME:
            raise refusals.fail_point(value, await self._members.all_hosts())

    # small answers

    async def _ok(self, _command: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"ok": 1.0}

    async def _echo(self, command: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"echo": command, "ok": 1.0}

    async def _no_users(self, _command: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"users": [], "ok": 1.0}

    async def _no_roles(self, _command: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"roles": [], "ok": 1.0}

    async def _list_commands(self, _command: Mapping[str, Any]) -> Mapping[str, Any]:
        """Those done here, described by the router host where it knows one of the name."""
        known = await self._status.commands()
        here = sorted({*self._bytes, *self._documents, "hello", "isMaster", "whatsmyuri"})
        plain = {"help": "", "requiresAuth": True, "secondaryOk": True, "adminOnly": False}
        return {"commands": {name: known.get(name, plain) for name in here}, "ok": 1.0}

    async def _connection_status(self, command: Mapping[str, Any]) -> Mapping[str, Any]:
        shown: dict[str, Any] = {"authenticatedUserPrivileges": []} if command.get("showPrivileges") else {}
        return {"authInfo": {"authenticatedUsers": [], "authenticatedUserRoles": [], **shown}, "ok": 1.0}

    async def _is_router(self, _command: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"isdbgrid": 1, "hostname": socket.gethostname(), "ok": 1.0}

    async def _command_line(self, _command: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._status.command_line()

    async def _router_status(self, _command: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            "kind": KIND,
            **self._status.own(),
            "cursors": len(self._passing.cursors),
            "streams": self._streams.table(),
            "ok": 1.0,
        }


def _first_stage(command: Mapping[str, Any]) -> str:
    pipeline = command.get("pipeline")
    if isinstance(pipeline, list) and pipeline and isinstance(pipeline[0], Mapping):
        return next(iter(pipeline[0]), "")
    return ""
