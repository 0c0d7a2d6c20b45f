"""`connPoolStats` of the members that hold stream cursors: towards whom they have connections in use.

A lookup that gets no answer holds its connection, so the count says for whom a member waits, also when that one is
frozen and cannot be asked (measured on 6.0.5: exactly one per lookup, whatever the fault).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.history import Recorder
from harness.watchers.line import FRESH, PATIENCE, Line, Lines, paused
from harness.watchers.watched import WatchedMember

SOURCE: Final = "pools"
POOLS: Final = "NetworkInterfaceTL-TaskExecutorPool-"
"""The executor pools that routed reads use; there is one per core on some versions."""

EVERY: Final = 5.0
URGENT: Final = 0.4


def in_use(reply: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, int]:
    """Connections in use towards each host, over all executor pools; hosts as member names where known."""
    found: dict[str, int] = {}
    for pool, hosts in reply.get("pools", {}).items():
        if not pool.startswith(POOLS):
            continue
        for host, counts in hosts.items():
            # Beside the hosts stand the pool's own totals, which are plain numbers.
            if isinstance(counts, Mapping) and counts.get("inUse"):
                name = names.get(host, host)
                found[name] = found.get(name, 0) + int(counts["inUse"])
    return found


class Pools:
    """Polls the members that `holders` names, which are those where a getMore is seen to hang."""

    def __init__(
        self,
        recorder: Recorder,
        members: Sequence[WatchedMember],
        urgent: Callable[[], bool],
        holders: Callable[[], set[str]],
        heard: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        """`heard` is given every member's reply: more stands in it than connections in use."""
        self._recorder = recorder
        self._urgent = urgent
        self._holders = holders
        self._heard = heard
        self._names = {member.host: member.name for member in members}
        self._lines = Lines({member.name: member.host for member in members if member.holds_data})
        self._seen: dict[str, tuple[int, dict[str, int]]] = {}

    async def watch(self) -> None:
        """Until cancelled; call `close` afterwards."""
        await self._lines.watch(self._poll, self._lost, self._pause)

    async def close(self) -> None:
        await self._lines.close()

    def towards(self, member: str) -> dict[str, int]:
        """Connections in use of late, by member they lead to."""
        at, counts = self._seen.get(member, (0, {}))
        return counts if at >= self._recorder.now() - FRESH else {}

    async def _poll(self, name: str, line: Line) -> None:
        reply = await line.ask("admin", {"connPoolStats": 1}, patience=PATIENCE)
        self._saw(name, in_use(reply, self._names))
        self._heard(name, reply)

    def _lost(self, name: str) -> None:
        self._seen.pop(name, None)

    async def _pause(self, name: str) -> None:
        await paused(EVERY, URGENT, lambda: self._urgent() and name in self._holders())

    def _saw(self, name: str, counts: dict[str, int]) -> None:
        before = self._seen.get(name, (0, {}))[1]
        self._seen[name] = (self._recorder.now(), counts)
        for towards in sorted(before.keys() | counts.keys()):
            if before.get(towards, 0) != counts.get(towards, 0):
                self._recorder.record(
                    "pool", SOURCE, member=name, towards=towards, in_use=counts.get(towards, 0)
                )  # fmt: skip
