"""How members see each other: heartbeats (`replSetGetStatus`) and replica set monitors (`connPoolStats.replicaSets`).

A stalled member that both take for healthy is the shape of production: nobody but its readers notices. It decides
nothing, and says of every look what it saw, so that "healthy all the time" is a count and not an absence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from harness.history import Recorder
from harness.watchers.line import PATIENCE, Line, Lines, paused
from harness.watchers.watched import WatchedMember

HEARTBEATS: Final = "heartbeats"
MONITOR: Final = "monitor"
Source = Literal["heartbeats", "monitor"]

EVERY: Final = 2.0
"""Seconds from one look at the heartbeats to the next; they are 2 s apart themselves. Monitors are seen as often as
the connection pools are looked at."""

HEALTHY_STATES: Final = ("PRIMARY", "SECONDARY")


def by_heartbeats(status: Mapping[str, Any]) -> dict[str, str]:
    """From `replSetGetStatus`: host -> why it is not healthy, or nothing; the member itself left out."""
    return {
        one["name"]: "" if one.get("health") == 1 and one["stateStr"] in HEALTHY_STATES else one["stateStr"]
        for one in status["members"]
        if not one.get("self")
    }


def by_monitors(stats: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """From `connPoolStats`, by set: host -> `not ok`, or nothing."""
    return {
        set_name: {one["addr"]: "" if one["ok"] else "not ok" for one in known["hosts"]}
        for set_name, known in stats.get("replicaSets", {}).items()
    }


class Peers:
    """Asks every data member for its heartbeats; monitors are heard of through `monitors`."""

    def __init__(self, recorder: Recorder, members: Sequence[WatchedMember]) -> None:
        self._recorder = recorder
        self._names = {member.host: member.name for member in members}
        self._sets = {member.name: member.set_name for member in members}
        self._lines = Lines({member.name: member.host for member in members if member.holds_data})

    async def watch(self) -> None:
        """Until cancelled; call `close` afterwards."""
        await self._lines.watch(self._poll, _lost, lambda _name: paused(EVERY, EVERY, lambda: False))

    async def close(self) -> None:
        await self._lines.close()

    def monitors(self, member: str, stats: Mapping[str, Any]) -> None:
        """A member's `connPoolStats`, by whomever asked for: what its monitors say of the sets it routes to."""
        for set_name, hosts in by_monitors(stats).items():
            if set_name in self._sets.values():
                self._saw(member, set_name, MONITOR, hosts)

    async def _poll(self, name: str, line: Line) -> None:
        status = await line.ask("admin", {"replSetGetStatus": 1}, patience=PATIENCE)
        self._saw(name, self._sets[name], HEARTBEATS, by_heartbeats(status))

    def _saw(self, member: str, set_name: str, by: Source, hosts: Mapping[str, str]) -> None:
        named = {self._names.get(host, host): why for host, why in hosts.items()}
        self._recorder.record(
            "peers", by, member=member, set=set_name,
            healthy=sorted(name for name, why in named.items() if not why),
            failing={name: why for name, why in named.items() if why},
        )  # fmt: skip


def _lost(_member: str) -> None:
    """One that cannot be asked says nothing of others."""
