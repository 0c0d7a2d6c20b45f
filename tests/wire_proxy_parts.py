"""The proxy as a process of its own before the servers of a test, and in this process before plain sockets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pymongo import AsyncMongoClient

from clusters import ports
from clusters.wire.connection import Connection
from clusters.wire.proxy.client import ProxyControl, Rule

COMMAND = (sys.executable, "-P", "-m", "clusters.wire.proxy")
DEADLINE = 20.0


@dataclass
class Running:
    """`hosts` is the address of each link."""

    process: asyncio.subprocess.Process
    control: ProxyControl
    control_host: str
    hosts: Mapping[str, str]

    def client(self, link: str, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        return AsyncMongoClient(self.hosts[link], directConnection=True, **options)

    async def raw(self, link: str, **options: Any) -> Connection:
        return await Connection.open(self.hosts[link], deadline=DEADLINE, **options)

    @asynccontextmanager
    async def rule(self, rule: Rule) -> AsyncIterator[str]:
        """In force meanwhile."""
        name = await self.control.add(rule)
        try:
            yield name
        finally:
            await self.control.remove(name)

    async def open_connections(self, link: str) -> int:
        (found,) = [one for one in (await self.control.status())["links"] if one["name"] == link]
        return sum(one["open"] for one in found["connections"])


@asynccontextmanager
async def proxy_before(
    targets: Mapping[str, str], peers: Mapping[str, str] | None = None, *options: str
) -> AsyncIterator[Running]:
    """A proxy with a link for each target, by name; `peers` is address -> name."""
    chosen = ports.choose(len(targets) + 1)
    control, *listening = (f"127.0.0.1:{port}" for port in chosen)
    hosts = dict(zip(targets, listening, strict=True))
    command = [*COMMAND, "--control", control, *options]
    for name, target in targets.items():
        command += ["--link", f"{name}={hosts[name]},{target}"]
    for address, name in (peers or {}).items():
        command += ["--peer", f"{address}={name}"]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), DEADLINE) == b"ready\n"
        connection = await ProxyControl.open(control)
        try:
            yield Running(process, connection, control, hosts)
        finally:
            connection.close()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        ports.give_back(chosen)
