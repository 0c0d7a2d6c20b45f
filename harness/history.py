"""The append-only record of a run, as JSON lines; drivers, faults and watchers write to it, checkers read it.

It knows no cluster and decides nothing. One line is `{"t": ns, "wall": s, "source": .., "kind": .., ..fields}`.

Kinds and their fields (times within fields are run time in ns, like `t`; keys are strings or integers; every value is
what JSON gives back as it was put in: no tuples, no BSON types). Lines stand in the order of `t`.

run.started      scenario, parameters, seed, server {version, git_version, router, parameters}, expected [outcomes],
                 driver {name, version, pymongo}
                 checkers read from parameters: threshold, hold, recovery_margin (seconds), fault, shards, traffic,
                 minimum_writes, minimum_events, driver_option ["name=value"], write, records, consumers
run.ended        reason: completed | interrupted | failed; detail
phase            name: bring-up | load | settle | break | hold | release | recover | check
                 check begins when every stream had its deadline to catch up: what is missing then is missing
write.invoked    key, seq, shard          one op of the paced writer; (key, seq) is the logical write; recorded before
                                          it is sent; seq runs upwards per key
write.ok         key, seq                 recorded when the acknowledgement has come
write.failed     key, seq, error, code    the server said no: it did not happen
write.unknown    key, seq, error          sent, outcome not known
execution.begun  write, execution, consumer       one run of an application for a logical write, TOPIC/PARTITION/OFFSET;
                 recorded before it is sent; execution runs from 1 on over retries and redeliveries
execution.ended  write, execution, outcome: ok | failed | unknown; error, code, code_name, labels as of stream.error;
                 seconds, effect {matched, modified, inserted, upserted, deleted} or null: nobody told it
                 failed: the server said no, and no attempt of the driver's can have been applied
record           write, what: polled | redelivered | processed | dead | committed | commit failed; consumer, detail
consumer         consumer, what: joined | assigned | revoked | lost | left | expelled; partitions [TOPIC/PARTITION],
                 detail; expelled when the coordinator removes it, lost when it learns of that
effects          documents [{write, execution, qty, executions, part}]: the collection at the end, read from the
                 majority; each with those fields that it has; execution null: written before the first execution
send             write, execution, request, operation, lsid (hex), txn (int | null), command, host; a request as the
                 driver wrote it, source listener; of a resend only the request is another one
send.ended       request, ok, seconds, error, code, labels                what the driver made of it
tap              write, execution, total, most (at once), now (in flight still), unanswered, first, last (wall seconds)
                 what came in by the entrances of the cluster, read at the end
tap.transaction  lsid, txn, total, most, now, unanswered                  the same of any client's numbered requests
tap.command      link, command, total, now, unanswered                    the same of all that write
counters         member, when: before | released | end; values {name: int} as serverStatus has them, dotted, and
                 failpoint.NAME.timesEntered (null: no answer); error
op.logged        member, write, execution, lsid, txn, command, inside (the engine), executed (to its end), inserted,
                 modified, matched, deleted, upserted, millis, failed, code, began, ended (wall seconds of the member);
                 a request as the log has it, once it has ended; write and execution null where the line was cut short
log.counted      member; requests, executed, internal {command: n}: the same of all clients and of the member itself;
                 outside: of these, neither inside nor failed, and without a number; refused: as no primary
copies           member, namespace, interval (seconds since the look before), ops, groups, copies,
                 writes {write: copies}, waiting {session | lock | ticket | fail point | write concern | nothing: ops},
                 oldest (seconds); sampled; ops null: the member does not answer, until there is another line of it
overlap.alarm    namespace, write (null: all on the namespace), copies, group_count, groups [{lsid, txn, ops, copies,
                 seconds, waits_for, members}] (the oldest), limit, seconds, waits_for, waiting, members, known_by
overlap.cleared  namespace, write, seconds, most_copies, most_groups
stream.opened    stream, read_preference, tags, full_document, resumed (bool)     recorded when the cursor is open
stream.event     stream, key, seq, op, image (came with a post-image), token, cluster_time [s, inc]
                 seq from updateDescription; null: no mark of ours
stream.empty     stream, token, alive     an empty answer
stream.error     stream, error, code, code_name, labels, where (next | open)
                 error is `ClassName: message`; code is the server's, null where the error is the driver's own
stream.resumed   stream, by (driver | consumer), token
stream.closed    stream, reason           reason END_OF_RUN when we closed it, after the last phase of the run
stream.state     stream, state: quiet | delivering | lagging | silent; since; outstanding (marks)
loop.lag         seconds                  measured event-loop lag, when above its reporting floor, recorded once over
canary           member, probe: hello | find | causal | aggregate; ok, seconds, error; parked (bool)
getmore          member, opid, seconds, max_time_ms, comment, stream      the line's source: currentOp | router
lookup           member, opid, seconds, comment, stream         a post-image lookup seen on the member it waits on
pool             member, towards, in_use                        connPoolStats of a looking-up member
peers            member, set, healthy [names], failing {name: why}; how a member sees the others of a set, at each look;
                 source: heartbeats (its replSetGetStatus) | monitor (connPoolStats.replicaSets of whoever routes there)
token            stream, moving (bool), cluster_time_moving (bool), behind (seconds of cluster time, or null)
                 resume token as a sign of life, for the reader: no alarm and no checker goes by it
selection        member, set, window [members], streams     settled: a lookup that the member makes for one of the
                 streams goes to any of the window, by chance
usage            rss_mib, cpu_seconds (since each process began), processes: each by members | router | harness; sampled
alarm            stream, since, after_seconds, getmore {..}, waits_for, known_by, canary {..}
                 of the source `stream watch` on a getMore that is not answered, whether anything is owed or not
                 update: true where it completes the alarm of the same stream and since
alarm.cleared    stream
fault.opened     fault, options ["name=value"], target, id, spares_health (bool: it leaves its target healthy to all
                 but its readers)         recorded before the fault is injected
fault.proven     id, evidence {..}
fault.unproven   id, reason               also if a proof is lost later: the fault did not act throughout
fault.healed     id
fault.not_healed id, reason               its undo record stays in the ledger
fault.skipped    id, fault, on, reason    planned, and not tried: its target could not bear it then
fault.recovered  id, seconds
release          what: tags moved back | member killed | op killed | streams move | streams still silent |
                 member started; fields free; what was done from the phase release on, and what came of it
schedule         faults [{number, at, hold, fault, on, options}]: what a chaos run is to do, and can be done again
routing.case     case, router, setting: fine | coarse, in_process, control, untold, within (seconds),
                 operations [names], expected {outcome, waiting [op], errors {op: [code]}, by_itself,
                 counters {name: [least, most]}}
routed.op        router, op, command, belongs: stale shard | recipient | other shard | other collection | probe; region,
                 namespace; recorded as it is sent
routed.ended     router, op, seconds, outcome: ok | failed | unknown; code, code_name, error
routing          router, what: held (it waits for its refresh) | sent | released (just before); pending [op]
catalog          member, when: primed | stale | held | released; values {counter: int} or null, error
refresh.logged   router, id (of the log line), logged (wall seconds of the member), code, text
routing.documents router, documents [[key, seq]]: its collections at the end, read from the majority
census           documents [[key, seq]]: the collection at the end, read from the majority
cluster          what, fields free: e.g. tags moved, member up, primary changed (set, before, now: was elected anew)
traffic          fields free: totals at the end of a phase
predicted        executions, sends, copies: of one record, at most, sends null where time bounds them and no count;
                 give_up (seconds, null: never); rules [{name, rule, why, ground}] that do not hold,
                 warnings [{name, text, ground}]
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import IO, Any, Final

COMPLETED: Final = "completed"
INTERRUPTED: Final = "interrupted"
RUN_FAILED: Final = "failed"
"""Reasons of `run.ended`."""

END_OF_RUN: Final = "end of run"
"""Reason of `stream.closed` where the stream was closed because the run was over."""

LINE: Final = frozenset({"t", "wall", "source", "kind"})
"""What every line has of its own."""

DURABLE: Final = ("fault.", "run.")
"""Kinds that are on disk before `record` returns: what a reader of an interrupted run must not miss."""

ANNOUNCING: Final = frozenset(("phase", "run.started", "fault.opened", "schedule"))
"""Kinds that come before something is done: where they cannot be written, it is not done. Others come after it, and
what has been broken must be healed whether that can be written down or not."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a history. `t` is nanoseconds of run time (monotonic), `wall` seconds since the epoch."""

    t: int
    wall: float
    source: str
    kind: str
    fields: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.fields.get(name, default)

    @property
    def seconds(self) -> float:
        """Run time in seconds."""
        return self.t / 1e9


class NotRecorded(Exception):
    """The history cannot be written: the disk is full, or gone. Says where and why."""


class Recorder:
    """Writes a history. Listeners see each event as it is recorded (live view, progress watcher).

    Once a line could not be written, none is written any more; `lost` says why, and the next event that announces
    something raises NotRecorded. Threads may share it: lines are whole, and in the order of their times.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] = path.open("a", encoding="utf-8", buffering=1 << 16)
        self._start = time.monotonic_ns()
        self.lost: str | None = None
        self._mutex = RLock()
        self._listeners: list[Callable[[Event], None]] = []

    def now(self) -> int:
        """Run time in nanoseconds."""
        return time.monotonic_ns() - self._start

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        self._listeners.append(listener)

    def record(self, kind: str, source: str, **fields: Any) -> Event:
        """Append one event; fields must be JSON-able. Kinds in DURABLE are fsynced before this returns.

        `t` and `wall` are set here, and cannot be fields.
        """
        if not LINE.isdisjoint(fields):
            name = next(iter(LINE.intersection(fields)))
            raise ValueError(f"field {name!r} of {kind}: the line has its own")
        with self._mutex:
            event = Event(self.now(), round(time.time(), 6), source, kind, fields)
            self.write(event)
        return event

    def write(self, event: Event) -> None:
        """Append an event as it is, with the time it has."""
        line = {"t": event.t, "wall": event.wall, "source": event.source, "kind": event.kind, **event.fields}
        text = json.dumps(line, separators=(",", ":"), default=str) + "\n"
        self._try(lambda: self._put(text, durable=event.kind.startswith(DURABLE)))
        if self.lost is not None and event.kind in ANNOUNCING:
            raise NotRecorded(self.lost)
        for listener in self._listeners:
            listener(event)

    def flush(self) -> None:
        """Hand what is buffered to the operating system, so that `read` finds it."""
        with self._mutex:
            self._try(self._file.flush)

    def close(self) -> None:
        with self._mutex:
            if not self._file.closed:
                self._try(self._sync)
                with suppress(OSError):
                    self._file.close()

    def _put(self, text: str, *, durable: bool) -> None:
        self._file.write(text)
        if durable:
            self._sync()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def _try(self, act: Callable[[], object]) -> None:
        if self.lost is not None:
            return
        try:
            act()
        except OSError as error:
            self.lost = f"the record {self.path} cannot be written: {error.strerror}; free some space, or choose --runs"


class HistoryError(Exception):
    """A stored history that cannot be read: says file and line."""


def read(path: Path) -> Iterator[Event]:
    """The events of a stored history, in order. A torn last line (the writer was killed) is left out."""
    decode = json.JSONDecoder().raw_decode
    with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return
            try:
                fields, end = decode(line)
                if end != len(line) - 1:
                    raise ValueError("more than one value")
                yield Event(fields.pop("t"), fields.pop("wall"), fields.pop("source"), fields.pop("kind"), fields)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                found = line[:60].encode(errors="replace").decode().strip()
                raise HistoryError(f"{path}:{number}: expected an event as JSON, found {found!r}") from error
