"""What the faults share that hold packets up: queueing disciplines at the two ends of a container's line.

What it sends is held up in its network namespace; what is sent to it at the other end, which is on this machine. The
kernel counts what passed. Proven besides by messages of a known size, there and back, before and after.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from clusters.compose import netns
from clusters.compose.container import ContainerMember
from clusters.guard import RemoveDiscipline, Undo
from clusters.wire.connection import CommandFailed, Connection, ConnectionLost, DeadlinePassed
from faults.base import Evidence, Site, Unproven
from faults.namespace import NamespaceFault

ANSWER: Final = 10.0
"""Seconds for an answer that is not held up."""
LONGEST: Final = 2_000_000
"""Bytes of one message."""
KERNELS: Final = ("0:", "noqueue", "mq", "pfifo_fast", "fq_codel")
"""What a device has of its own: a handle of none, or these kinds."""
PROXY_ONLY: Final = {"source": (), "commands": (), "namespace": ""}
"""Options that are for the proxy alone, as they are when they are not given."""


class ShapingFault(NamespaceFault):
    """The classes made from it have `discipline` and `effect`."""

    spares_health: ClassVar[bool] = True
    tools: ClassVar[tuple[str, ...]] = ("ip", "tc")
    proven_by: ClassVar[str] = "messages of a known size that take longer, and the kernel's count of what passed"
    healed_by: ClassVar[str] = "the queueing disciplines are removed from both ends of the container's line"

    def __init__(self, site: Site, options: Any = None) -> None:
        super().__init__(site, options)
        self._handle = f"{0x1000 + secrets.randbelow(0xE000):x}:"
        self._other_end = ""
        self._connection: Connection | None = None
        self.before = 0.0
        """Seconds that the message took there and back."""

    # What each is

    @property
    def discipline(self) -> Sequence[str]:
        """Its kind and parameters (tc(8))."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Bytes of the message."""
        raise NotImplementedError

    def effect(self, took: float, ways: int) -> str:
        """What it is that a message took so many seconds by so many ways that are held up. Raises Unproven."""
        raise NotImplementedError

    # What they share

    @property
    def ends(self) -> Sequence[tuple[str | None, str]]:
        """Container, or None for this machine, and device: first by which it sends, then by which it is sent to."""
        assert isinstance(self.target, ContainerMember)
        ends = {"from": (self.target.container, self.device), "to": (None, self._other_end)}
        return [end for way, end in ends.items() if self.given.direction in (way, "both")]

    def trial(self) -> tuple[Sequence[str], str]:
        return (*self._add("lo"),), ""

    def obstacle(self) -> str | None:
        for name, absent in PROXY_ONLY.items():
            if (asked := getattr(self.given, name, absent)) != absent:
                told = asked if isinstance(asked, str) else ",".join(asked)
                return f"{name}={told}: packets bear no such thing; expected by=proxy"
        (inner,) = json.loads(netns.run(self.pid, "ip", "-json", "link", "show", "dev", self.device))
        outer = [
            one["ifname"]
            for one in json.loads(netns.run(None, "ip", "-json", "link", "show"))
            if (one["ifindex"], one.get("link_index")) == (inner.get("link_index"), inner["ifindex"])
        ]
        if not outer:
            return f"the other end of the line of {self.target.name} is not on this machine's own network"
        self._other_end = str(outer[0])
        for container, device in self.ends:
            for one in netns.disciplines(self._pid(container), device):
                if one.get("root") and one["handle"] != KERNELS[0] and one["kind"] not in KERNELS:
                    return f"{device} of {self.target.name} has a queueing discipline already: {one['kind']}"
        return None

    def undo(self) -> Sequence[Undo]:
        return [RemoveDiscipline(container, device, self._handle) for container, device in self.ends]

    async def inject(self) -> None:
        try:
            self._connection = await Connection.open(self.target.host, deadline=ANSWER, app_name="mongofault proof")
            self.before = await self._echo(ANSWER)
        except (ConnectionLost, DeadlinePassed) as error:
            raise Unproven(f"{self.target.name} cannot be reached before the fault: {error}") from error
        await super().inject()

    def put(self) -> None:
        for container, device in self.ends:
            netns.run(self._pid(container), *self._add(device))

    def there(self) -> bool:
        return len(self._counts()) == len(self.ends)

    async def proof(self) -> Evidence:
        try:
            took = await self._echo(ANSWER + self.patience)
        except (ConnectionLost, DeadlinePassed) as error:
            raise Unproven(f"{self.name} on {self.target.name} has another effect: {error}") from error
        finally:
            self._close()
        seen = self.effect(took, len(self.ends))
        passed = [int(one["bytes"]) for one in await self.tried(self._counts)]
        if len(passed) != len(self.ends) or any(one < self.size for one in passed):
            raise Unproven(f"{self.name} on {self.target.name}: the kernel counts {passed} bytes that passed")
        return Evidence(
            f"{seen}, {self.before:.3f} s before; the kernel counts {' and '.join(map(str, passed))} bytes that passed",
            {"seconds": round(took, 3), "before": round(self.before, 3), "bytes": passed, "handle": self._handle},
        )

    @property
    def patience(self) -> float:
        """Seconds more than otherwise until there is an answer for certain."""
        raise NotImplementedError

    async def heal(self) -> None:
        self._close()
        await super().heal()

    def _add(self, device: str) -> Sequence[str]:
        return ("tc", "qdisc", "add", "dev", device, "root", "handle", self._handle, *self.discipline)

    def _counts(self) -> list[dict[str, Any]]:
        """Of those that are there."""
        found = [one for end in self.ends for one in netns.disciplines(self._pid(end[0]), end[1])]
        return [one for one in found if one["handle"] == self._handle]

    def _pid(self, container: str | None) -> int | None:
        return None if container is None else self.pid

    async def _echo(self, deadline: float) -> float:
        """Seconds for a message and an answer of that size: a server repeats the name of a command it does not know."""
        assert self._connection is not None
        began = time.monotonic()
        with suppress(CommandFailed):
            await self._connection.command("admin", {"x" * self.size: 1}, deadline=deadline)
        return time.monotonic() - began

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
