"""What the entries of `$currentOp` say of writes: whose each is, whether it is inside the engine, what it waits for.

Pure. All is of 6.0.5, measured, unless another version is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from harness.watchers.canary import READ_ANYWHERE
from harness.watchers.counters import at
from harness.watchers.sends import WRITES, session_hex

Wait = Literal["session", "lock", "ticket", "fail point", "write concern", "nothing"]

SESSION_LATCH: Final = "SessionCatalog::_mutex"
CONCERN_LATCH: Final = "AnonymousLockable"
"""What a request latches that waits for its session to be checked in by another, and for its write concern after it has
left the engine, and given its session back."""

KEPT: Final = (
    "opid", "op", "ns", "lsid", "command", "transaction.parameters.txnNumber", "microsecs_running", "waitingForLock",
    "waitingForLatch.captureName", "failpointMsg", "locks", "currentQueue.name", "waitForWriteConcernDurationMillis",
)  # fmt: skip

EVERYBODYS: Final = {"$currentOp": {"allUsers": True, "idleConnections": False, "idleSessions": False}}
"""Where all that is being done in a member is found."""

Group = tuple[str | None, int | None, str | None, int | str | None]


@dataclass(frozen=True, slots=True)
class Op:
    """A write in a member. `seconds` since it began, None where it has not, or is held before it could.

    `copy`: it is inside the engine: of a numbered write the one that has the session, of another each that has begun.
    """

    member: str
    opid: int | str
    namespace: str
    lsid: str | None
    txn: int | None
    write: str | None
    execution: int | None
    copy: bool
    waits_for: Wait
    seconds: float | None

    @property
    def group(self) -> Group:
        """Requests of one group do the same write once: original and resend, and its parts on several shards.

        Without a number nothing but the execution tells them apart; of somebody else's they are one each.
        """
        if self.txn is not None:
            return self.lsid, self.txn, None, None
        if self.write is not None:
            return self.lsid, None, self.write, self.execution
        return self.lsid, None, None, self.opid


OURS: Final = ("mongofault", "mongofault proof")
"""Application names by which a fault's own means and proofs write where the load does; they are no client's writes."""


def current_op(run: str, namespaces: Sequence[str] = ()) -> dict[str, Any]:
    """The command that finds what `read_ops` reads: this run's writes, and everybody's on `namespaces` but our proofs'.

    By comment and namespace, not by the command's name: an update or delete that is inside the engine shows as
    `{q, u, multi, upsert}`, without it. Nor by the seconds it runs: what failCommand holds has none.
    """
    wanted: list[dict[str, Any]] = [{"command.comment.run": run, "command.comment.write": {"$exists": True}}]
    others = {"appName": {"$nin": list(OURS)}}
    for namespace in namespaces:
        database, _, collection = namespace.partition(".")
        wanted += [
            {"ns": namespace, "op": {"$in": ["insert", "update", "remove", "command"]}, **others},
            {"ns": f"{database}.$cmd", "$or": [{f"command.{verb}": collection} for verb in WRITES], **others},
        ]
    return {
        "aggregate": 1,
        "pipeline": [
            EVERYBODYS,
            {"$match": {"$or": wanted}},
            {"$project": dict.fromkeys(KEPT, 1)},
        ],
        "cursor": {"batchSize": 10_000},
        **READ_ANYWHERE,
    }


def read_ops(member: str, entries: Iterable[Mapping[str, Any]], run: str, *, tickets_out: bool = False) -> list[Op]:
    """The writes among them. `tickets_out`: the member has no ticket for a write left, by its own account."""
    return [op for entry in entries if (op := _read(member, entry, run, tickets_out)) is not None]


def may_want_a_ticket(entry: Mapping[str, Any]) -> bool:
    """Whether it looks like one that waits for a ticket: it has begun, and shows nothing else that it waits for."""
    return _waits(entry, True) == "ticket"


def _read(member: str, entry: Mapping[str, Any], run: str, tickets_out: bool) -> Op | None:
    command: Mapping[str, Any] = entry.get("command") or {}
    verb = next((name for name in command if name in WRITES), None)
    if verb is None and entry.get("op") not in ("insert", "update", "remove"):
        return None
    comment = command.get("comment")
    ours = comment if isinstance(comment, Mapping) and comment.get("run") == run else {}
    inside = at(entry, "transaction.parameters.txnNumber")
    # At the checkout itself a session has no number yet.
    txn = next((int(one) for one in (command.get("txnNumber"), inside) if one is not None and int(one) >= 0), None)
    numbered = txn is not None or inside is not None
    micros = entry.get("microsecs_running")
    waits_for = _waits(entry, tickets_out, queued=numbered and inside is None)
    return Op(
        member=member,
        opid=entry["opid"],
        namespace=_namespace(entry, command, verb),
        lsid=session_hex(entry.get("lsid")) or session_hex(command.get("lsid")),
        txn=txn,
        write=ours.get("write"),
        execution=ours.get("execution"),
        copy=inside is not None if numbered else waits_for != "write concern" and micros is not None,
        waits_for=waits_for,
        seconds=None if micros is None else round(micros / 1e6, 3),
    )


def _waits(entry: Mapping[str, Any], tickets_out: bool, *, queued: bool = False) -> Wait:
    """`queued`: it has a number and not its session."""
    if "failpointMsg" in entry or "microsecs_running" not in entry:
        # failCommand leaves no message; what it holds has not begun.
        return "fail point"
    latch, locks = at(entry, "waitingForLatch.captureName"), entry.get("locks") or {}
    if entry.get("waitingForLock"):
        return "lock"
    if latch == SESSION_LATCH:
        return "session"
    if "waitForWriteConcernDurationMillis" in entry or (latch == CONCERN_LATCH and "transaction" not in entry):
        return "write concern"
    if queued:
        # Versions that do not tell of latches.
        return "session"
    if at(entry, "currentQueue.name") == "execution" or (tickets_out and "Global" not in locks):
        # The ticket comes before the global lock, and after three that are above it.
        return "ticket"
    return "nothing"


def _namespace(entry: Mapping[str, Any], command: Mapping[str, Any], verb: str | None) -> str:
    namespace = str(entry.get("ns", ""))
    if verb == "bulkWrite":
        return str(next((one.get("ns") for one in command.get("nsInfo") or ()), namespace))
    if verb is not None and namespace.endswith(".$cmd"):
        return f"{namespace.removesuffix('.$cmd')}.{command[verb]}"
    return namespace


@dataclass(frozen=True, slots=True)
class Sample:
    """What one member's ops on one namespace came to at one look; `oldest` in seconds."""

    ops: int
    groups: int
    copies: int
    writes: Mapping[str, int]
    waiting: Mapping[Wait, int]
    oldest: float

    def fields(self) -> dict[str, Any]:
        return {
            "ops": self.ops, "groups": self.groups, "copies": self.copies, "writes": dict(self.writes),
            "waiting": dict(self.waiting), "oldest": self.oldest,
        }  # fmt: skip


def samples(ops: Iterable[Op]) -> dict[str, Sample]:
    """By namespace."""
    by_namespace: dict[str, list[Op]] = {}
    for op in ops:
        by_namespace.setdefault(op.namespace, []).append(op)
    return {
        namespace: Sample(
            ops=len(found),
            groups=len({op.group for op in found}),
            copies=sum(running(found).values()),
            writes={write: count for write, count in running(found).items() if write is not None},
            waiting=Counter(op.waits_for for op in found),
            oldest=max((op.seconds or 0.0 for op in found), default=0.0),
        )
        for namespace, found in by_namespace.items()
    }


def running(ops: Iterable[Op]) -> Counter[str | None]:
    """Copies by logical write, None for somebody else's; ops of several members may be among them.

    A write that works on two shards is one copy, the same execution twice on one member is two where nothing numbers
    it: nothing keeps the second from running then.
    """
    held: dict[tuple[str | None, Group], Counter[str]] = {}
    for op in ops:
        if op.copy:
            held.setdefault((op.write, op.group), Counter())[op.member] += 1
    found: Counter[str | None] = Counter()
    for (write, _group), members in held.items():
        found[write] += max(members.values())
    return found
