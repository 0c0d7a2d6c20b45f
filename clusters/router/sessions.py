"""Logical sessions and running ops ended on a client's word: on every member of the shards, and cursors in the router.

There are no users here: a pattern that names one matches nothing of the router's. What a session did is elsewhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from bson.binary import Binary

from clusters.router import refusals
from clusters.router.errors import RouterError
from clusters.router.members import COMMAND_DEADLINE, CONFIG_SHARD, Members
from clusters.router.passing import Passing
from clusters.router.primaries import without_context
from clusters.router.server import Client
from clusters.wire.message import decode


class Sessions:
    """`clients` are the router's own connections."""

    def __init__(self, members: Members, passing: Passing, clients: Iterable[Client]) -> None:
        self._members = members
        self._passing = passing
        self._clients = clients

    async def start(self, _command: Mapping[str, Any]) -> dict[str, Any]:
        return {"id": {"id": Binary(uuid.uuid4().bytes, 4)}, "timeoutMinutes": 30, "ok": 1.0}

    async def note(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """endSessions, refreshSessions: nothing to do, since sessions end on the shards by themselves."""
        name, listed = next(iter(command.items()))
        if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
            why = f"BSON field '{name}.{name}' is the wrong type, expected an array of objects, found {listed!r}"
            raise RouterError(14, "TypeMismatch", why)
        if not all("id" in one for one in listed):
            raise RouterError(40414, "Location40414", f"BSON field '{name}.id' is missing but a required field")
        return {"ok": 1.0}

    async def kill(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """killSessions, killAllSessions, killAllSessionsByPattern: their ops and cursors, wherever they are.

        A change stream of such a session ends with its cursors on the shards.
        """
        hosts = [(shard, host) for shard, host in await self._members.all_hosts() if shard != CONFIG_SHARD]
        replies = await self._members.on_all(hosts, "admin", without_context(command), deadline=COMMAND_DEADLINE)
        errors = [one for one in replies.values() if isinstance(one, Exception)]
        if errors:
            raise errors[0]
        name = next(iter(command))
        wanted = _sessions(name, command[name])
        cursors = self._passing.cursors.all()
        await self._passing.kill([one.identity for one in cursors if wanted is None or _identity(one.lsid) in wanted])
        return {"ok": 1.0}

    async def kill_op(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """`op` as $currentOp tells it: a number or `router:number` of the router's own, `shard:number` of a member's.

        Of a shard's, on the member that runs it, else on the primary. A mongos knows ops of primaries alone; here
        $currentOp tells those of all members, and numbers may coincide.
        """
        refusals.on_admin_alone(command)
        shard, _colon, number = str(command["op"]).rpartition(":")
        if not number.lstrip("-").isdigit():
            raise RouterError(
                9,
                "FailedToParse",
                f"killOp of the stand-in router wants `op` as a number or shard:number, found {command['op']!r}",
            )
        if shard in ("", "router"):
            for client in list(self._clients):
                if client.number == int(number):
                    client.interrupt(RouterError(11601, "Interrupted", "operation was interrupted"))
            return {"info": "attempting to kill op", "ok": 1.0}
        if shard != CONFIG_SHARD and shard not in await self._members.shards():
            raise RouterError(70, "ShardNotFound", f"expected a shard of config.shards in `op`, found {shard!r}")
        running = {"aggregate": 1, "pipeline": [{"$currentOp": {"allUsers": True}}, {"$match": {"opid": int(number)}}],
                   "cursor": {}}  # fmt: skip
        hosts = [one for one in await self._members.all_hosts() if one[0] == shard]
        replies = await self._members.on_all(hosts, "admin", running, deadline=COMMAND_DEADLINE)
        having = [
            host
            for (_shard, host), reply in replies.items()
            if not isinstance(reply, Exception) and reply["cursor"]["firstBatch"]
        ]
        if len(having) > 1:
            raise RouterError(
                20, "IllegalOperation", f"op {number} runs on {' and '.join(having)}; send killOp to the one you mean"
            )
        host = having[0] if having else await self._members.primary_of(shard)
        async with self._members.plain.to(host).connection() as connection:
            await connection.command("admin", {"killOp": 1, "op": int(number)}, deadline=COMMAND_DEADLINE)
        return {"shard": shard, "shardid": int(number), "ok": 1.0}


def _sessions(name: str, listed: Any) -> set[bytes] | None:
    """The ids of the sessions that are meant; None for all there are."""
    if not listed:
        return None
    if name == "killSessions":
        return {bytes(one["id"]) for one in listed}
    if name == "killAllSessions":
        return set()
    return {bytes(one["lsid"]["id"]) for one in listed if "lsid" in one}


def _identity(lsid: bytes) -> bytes:
    return bytes(decode(lsid)["id"]) if lsid else b""
