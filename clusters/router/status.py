"""What the router says of itself: buildInfo, serverStatus, and `mongofaultRouterStatus`. Changes nothing."""

from __future__ import annotations

import datetime
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, Final

from clusters.router import log
from clusters.router.errors import RouterError
from clusters.router.members import COMMAND_DEADLINE, Members
from clusters.router.router_host import RouterHost

KIND: Final = "stand-in"
PROCESS: Final = "mongofault stand-in router"
UNKNOWN: Final = "<UNKNOWN>"
"""Under which a server counts the commands whose names it does not know."""


@dataclass(slots=True)
class Counts:
    """Commands seen since the start, by name; connections ever accepted."""

    commands: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    started: float = field(default_factory=time.monotonic)


class Status:
    def __init__(self, members: Members, host: RouterHost, counts: Counts, clients: Sized, listen: str) -> None:
        self._members = members
        self._host = host
        self._counts = counts
        self._clients = clients
        self._listen = listen

    async def build_info(self, _command: Mapping[str, Any]) -> dict[str, Any]:
        """The router host's: the in-process router is of that version."""
        return await self._host.ask("admin", {"buildInfo": 1}, deadline=COMMAND_DEADLINE)

    async def host_info(self, _command: Mapping[str, Any]) -> dict[str, Any]:
        return await self._host.ask("admin", {"hostInfo": 1}, deadline=COMMAND_DEADLINE)

    async def features(self, _command: Mapping[str, Any]) -> dict[str, Any]:
        return await self._host.ask("admin", {"features": 1}, deadline=COMMAND_DEADLINE)

    async def commands(self) -> dict[str, Any]:
        """The router host's commands: name -> what listCommands says of it."""
        found: dict[str, Any] = await self._host.ask("admin", {"listCommands": 1}, deadline=COMMAND_DEADLINE)
        return dict(found["commands"])

    async def log_lines(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """getLog: the end of `router.log`; no warnings at start-up to tell."""
        name = command["getLog"]
        if not isinstance(name, str):
            raise RouterError(14, "TypeMismatch", "Argument to getLog must be of type String")
        if name == "*":
            return {"names": ["global", "startupWarnings"], "ok": 1.0}
        lines = {"global": list(log.recent), "startupWarnings": []}.get(name)
        if lines is None:
            raise RouterError(96, "OperationFailed", f"No log named '{name}'")
        return {"totalLinesWritten": len(lines), "log": lines, "ok": 1.0}

    async def parameters(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """getParameter, setParameter, connPoolStats: of the router host."""
        kept = {name: value for name, value in command.items() if not name.startswith("$") and name != "lsid"}
        if "featureCompatibilityVersion" in kept and "getParameter" in kept:
            # The cluster's: the router host is no shard of it, so nobody ever set its own.
            return await self._members.config_command(kept)
        limit = command.get("maxTimeMS", 0) / 1000
        return await self._host.ask("admin", kept, deadline=COMMAND_DEADLINE + limit)

    async def server_status(self, _command: Mapping[str, Any]) -> dict[str, Any]:
        build = await self.build_info({})
        uptime = time.monotonic() - self._counts.started
        commands = self._counts.commands
        return {
            "host": f"{socket.gethostname()}:{self._listen.rpartition(':')[2]}",
            "version": build["version"],
            "process": PROCESS,
            "pid": os.getpid(),
            "uptime": uptime,
            "uptimeMillis": int(uptime * 1000),
            "localTime": datetime.datetime.now(datetime.UTC),
            "connections": {"current": len(self._clients), "totalCreated": self._counts.connections},
            "opcounters": {
                "insert": commands["insert"],
                "query": commands["find"],
                "update": commands["update"],
                "delete": commands["delete"],
                "getmore": commands["getMore"],
                "command": commands.total()
                - sum(commands[one] for one in ("insert", "find", "update", "delete", "getMore")),
            },
            "metrics": {"commands": {name: {"total": total} for name, total in sorted(commands.items())}},
            "routerHost": self._host.host,
            "ok": 1.0,
        }

    def own(self) -> dict[str, Any]:
        """What only this router has to tell."""
        return {
            "pid": os.getpid(),
            "listen": self._listen,
            "routerHost": self._host.host,
            "configdb": self._members.configdb,
            "clients": len(self._clients),
            "sets": self._members.monitor.states(),
        }

    def command_line(self) -> dict[str, Any]:
        parsed = {"sharding": {"configDB": self._members.configdb}, "net": {"listen": self._listen}}
        return {"argv": list(sys.argv), "parsed": parsed, "ok": 1.0}
