"""What to do about an alarm: whom to look at, and the command to paste. Pure.

What was measured on 6.0.5: killOp and killCursors end a hung getMore at once, with an error on which no driver resumes
by itself (11601, 237); the consumer opens again with its last token and loses nothing, and hangs again at its next
event as long as its lookups go to the same member. Closing the connection frees nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.watchers.alarms import Alarm
from harness.watchers.inside import Op
from harness.watchers.overlap import OverlapAlarm

KILLS: Final = 20
"""Operations named in one alarm."""


def on_silence(alarms: Sequence[Alarm], hosts: Mapping[str, str]) -> list[str]:
    """Of alarms with one cause, the same member that hangs and the same that is waited for. `hosts` by member:
    `address:port`."""
    alarm, lines = alarms[0], []
    if alarm.waits_for is not None:
        lines.append(
            f"look at {_where(alarm.waits_for, hosts)}, which it waits for: does it answer, its disk, its replication; "
            "take it out of the reads (hide it, or end it): streams go on as soon as it is gone or answers"
        )
    else:
        lines.append(
            "nobody is known whom it waits for: look at the members of its shard, their disks, their replication"
        )
    hung = [one.getmore for one in alarms if one.getmore is not None]
    if hung:
        opids = sorted((one.opid for one in hung), key=str)
        lines.append(
            f"then end what hangs: {kill(opids[:KILLS], _at(opids[0], hung[0].member, hosts))}{_more(opids)}; "
            "its consumer gets error 11601, which no driver resumes from: it opens again with its last token, "
            "and hangs again if its lookups still go to the same member"
        )
    return lines


def on_copies(pile: OverlapAlarm, ops: Sequence[Op], hosts: Mapping[str, str]) -> list[str]:
    """`ops` are the requests of the pile."""
    lines = [
        "stop the application's retries first (its back-off, its consumers): every execution adds a copy; "
        f"a copy waits for {pile.waits_for}",
        "what was begun runs to its end whether or not anybody waits for it: each copy that is not killed may be done",
    ]
    for member in sorted({op.member for op in ops}):
        here = sorted((op for op in ops if op.member == member), key=lambda op: -(op.seconds or 0.0))
        opids = [op.opid for op in here]
        lines.append(f"end them, oldest first: {kill(opids[:KILLS], _at(opids[0], member, hosts))}{_more(opids)}")
    return lines


def kill(opids: Sequence[Any], host: str) -> str:
    """For a shell, as somebody who has killop (the role hostManager)."""
    each = "; ".join(
        f"db.adminCommand({{killOp: 1, op: {opid if isinstance(opid, int) else repr(opid)}}})" for opid in opids
    )
    return f'mongosh "mongodb://{host}/?directConnection=true" --eval "{each}"'


def _more(opids: Sequence[Any]) -> str:
    return f" and {len(opids) - KILLS} more" if len(opids) > KILLS else ""


def _at(opid: Any, member: str, hosts: Mapping[str, str]) -> str:
    """An opid `SHARD:NUMBER` is the router's, which passes the kill on."""
    router = next((host for name, host in hosts.items() if name.startswith("router")), None)
    if isinstance(opid, str) and router is not None:
        return router
    return hosts.get(member, member)


def _where(member: str, hosts: Mapping[str, str]) -> str:
    return f"{member} ({hosts[member]})" if member in hosts else member
