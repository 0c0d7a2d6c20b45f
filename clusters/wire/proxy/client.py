"""The proxy's commands, typed: for whoever makes network faults and counts. See `control` for what they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.wire.connection import Connection
from clusters.wire.proxy.rules import Direction as Direction
from clusters.wire.proxy.rules import Kind as Kind
from clusters.wire.proxy.rules import Rule as Rule

ANSWER: Final = 10.0
"""Seconds in which the proxy must answer: it does nothing that waits."""


class CountsLost(Exception):
    """The tap counted more than it had room for, so that what it has is not all."""


class ProxyControl:
    """A connection to a control address. Its methods raise what `Connection.command` raises."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, host: str) -> ProxyControl:
        return cls(await Connection.open(host, deadline=ANSWER))

    @property
    def usable(self) -> bool:
        """Open, and free for a command."""
        return self._connection.usable

    def close(self) -> None:
        self._connection.close()

    async def add(self, rule: Rule, name: str | None = None) -> str:
        """In force on every open connection when this returns; its id. Idempotent where `name` is given."""
        document = rule.document() | ({"id": name} if name is not None else {})
        return str((await self._command({"proxyAddRule": document}))["id"])

    async def remove(self, name: str) -> bool:
        """False where it was gone already."""
        return bool((await self._command({"proxyRemoveRule": name}))["removed"])

    async def status(self) -> dict[str, Any]:
        """`links`, `rules`, `tap`."""
        return await self._command({"proxyStatus": 1})

    async def acted(self, name: str) -> dict[str, Any]:
        """What the rule has done so far: `matching` connections now; `connections`, `messages`, `bytes`, `resets`."""
        for rule in (await self.status())["rules"]:
            if rule["id"] == name:
                return dict(rule)
        raise KeyError(f"no rule {name!r} is in force")

    async def tap(self, on: bool, links: Sequence[str] = (), *, clear: bool = False) -> None:
        """On these links, all where none is named."""
        await self._command({"proxyTap": {"on": on, "links": list(links), "clear": clear}})

    async def counts(self, by: str = "command", **wanted: Any) -> list[dict[str, Any]]:
        """The rows of table `by` (command, transaction, comment). Raises CountsLost where they are not all there."""
        found = await self._command({"proxyCounts": {"by": by, **wanted}})
        if found["dropped"] or found["leftOff"]:
            raise CountsLost(f"the tap: {found['dropped']} counts found no room, {found['leftOff']} rows were left off")
        return list(found["rows"])

    async def _command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        return await self._connection.command("admin", command, deadline=ANSWER)
