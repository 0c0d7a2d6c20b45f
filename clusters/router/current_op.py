"""`$currentOp`: of all members of the cluster at once, or with `localOps: true` of the router itself.

A member that does not answer is left out and named in the log. What the ops mean is for those who ask.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from bson.int64 import Int64

from clusters.router.errors import RouterError
from clusters.router.members import Members
from clusters.router.router_host import RouterHost
from clusters.router.server import Client

log = logging.getLogger("mongofault.router")

ANSWER_DEADLINE: Final = 2.0
SAY_AGAIN: Final = 30.0
"""Seconds until the log names the same member again."""
_OPTIONS: Final = ("allUsers", "idleConnections", "idleCursors", "idleSessions", "backtrace", "truncateOps")


class CurrentOp:
    """`clients` and `streams` are the router's own: connections, and shard getMores in flight."""

    def __init__(
        self,
        members: Members,
        host: RouterHost,
        clients: Iterable[Client],
        streams: Callable[[], Sequence[Mapping[str, Any]]],
        listen: str,
    ) -> None:
        self._members = members
        self._host = host
        self._clients = clients
        self._streams = streams
        self._listen = listen
        self._said: dict[str, float] = {}

    async def aggregate(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to an aggregate whose first stage is $currentOp; all ops in its one batch."""
        first, *stages = command["pipeline"]
        options = first["$currentOp"]
        if command["$db"] != "admin" or command["aggregate"] != 1:
            raise RouterError(73, "InvalidNamespace", "$currentOp must be run against database admin with aggregate: 1")
        ops = self.own() if options.get("localOps") else await self._of_members(options)
        if stages:
            ops = await self._host.compute(ops, stages)
        cursor = {"firstBatch": ops, "id": Int64(0), "ns": "admin.$cmd.aggregate"}
        return {"cursor": cursor, "ok": 1.0}

    async def command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The old command; every other field of it is a filter."""
        options = {"allUsers": not command.get("$ownOps"), "idleConnections": bool(command.get("$all"))}
        match = {
            name: value
            for name, value in command.items()
            if not name.startswith("$") and name not in ("currentOp", "lsid", "comment", "maxTimeMS")
        }
        ops = await self._of_members(options)
        if match:
            ops = await self._host.compute(ops, [{"$match": match}])
        return {"inprog": ops, "ok": 1.0}

    def own(self) -> list[dict[str, Any]]:
        """Commands of clients that run now, and shard getMores the router waits for."""
        now = time.monotonic()
        mine = {"type": "op", "host": f"{socket.gethostname()}:{self._listen.rpartition(':')[2]}", "active": True}
        ops = [
            {
                **mine,
                "desc": "stand-in router: client",
                "client": client.peer,
                "connectionId": client.number,
                "opid": f"router:{client.number}",
                "secs_running": Int64(now - client.since),
                "microsecs_running": Int64((now - client.since) * 1e6),
                "op": "command",
                "ns": f"{command.get('$db', '')}.{_collection(command)}",
                "command": command,
            }
            for client in self._clients
            if client.message is not None and (command := _readable(client)) is not None
        ]
        for stream in self._streams():
            database, _dot, collection = stream["ns"].partition(".")
            ops.append(
                {
                    **mine,
                    "desc": "stand-in router: getMore on a shard",
                    "client": self._listen,
                    "opid": f"router:{stream['shard']}:{stream['shardCursorId']}",
                    "secs_running": Int64(stream["seconds"]),
                    "microsecs_running": Int64(stream["seconds"] * 1e6),
                    "op": "getmore",
                    "ns": stream["ns"],
                    "shard": stream["shard"],
                    "member": stream["member"],
                    "cursorId": Int64(stream["cursorId"]),
                    "command": {
                        "getMore": Int64(stream["shardCursorId"]),
                        "collection": collection,
                        "maxTimeMS": stream["maxTimeMS"],
                        "comment": stream["comment"],
                        "$db": database,
                    },
                }
            )
        return ops

    async def _of_members(self, options: Mapping[str, Any]) -> list[dict[str, Any]]:
        """As mongos tells them: `shard` is added and stands before the opid. Also of secondaries and config servers."""
        asked = {name: options[name] for name in _OPTIONS if name in options}
        command = {
            "aggregate": 1,
            "pipeline": [{"$currentOp": asked}],
            "cursor": {"batchSize": 100_000},
            "$readPreference": {"mode": "nearest"},
        }
        members, own = await asyncio.gather(
            self._ask_members(command), self._host.current_op(asked, deadline=ANSWER_DEADLINE), return_exceptions=True
        )
        if isinstance(members, BaseException):
            raise members
        answers: list[tuple[str, str, Any]] = [*members, ("router host", self._host.host, own)]
        ops = []
        for shard, host, answer in answers:
            if isinstance(answer, Exception):
                self._say(host, answer)
                continue
            for op in answer:
                identity = {"opid": f"{shard}:{op['opid']}"} if "opid" in op else {}
                ops.append({"shard": shard, **op, **identity})
        return ops

    async def _ask_members(self, command: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
        answers = await self._members.on_all(
            await self._members.all_hosts(), "admin", command, deadline=ANSWER_DEADLINE
        )
        return [
            (shard, host, answer if isinstance(answer, Exception) else answer["cursor"]["firstBatch"])
            for (shard, host), answer in answers.items()
        ]

    def _say(self, host: str, why: Exception) -> None:
        now = time.monotonic()
        if now - self._said.get(host, -SAY_AGAIN) >= SAY_AGAIN:
            self._said[host] = now
            reason = str(why) or f"no answer within {ANSWER_DEADLINE:g} s"
            log.warning("$currentOp is without the ops of member %s: %s (router pid %d)", host, reason, os.getpid())


def _collection(command: Mapping[str, Any]) -> str:
    name, value = next(iter(command.items()))
    if name == "getMore":
        return str(command.get("collection", ""))
    return value if isinstance(value, str) else f"$cmd.{name}"


def _readable(client: Client) -> Mapping[str, Any] | None:
    assert client.message is not None
    try:
        return client.message.document()
    except Exception:  # a command that is no BSON is answered with an error in a moment
        return None
