"""All logical writes of a history (logical_writes.py) and the sources' totals, folded from its events.

Of drivers and watchers; nothing is judged here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from harness.checkers.logical_writes import Execution, LogicalWrite, Ran, Send, Tapped, Transaction
from harness.history import Event

START: Final = 1
"""Seconds by which the start of one process may differ from reading to reading."""
NO_READING: Final[Mapping[str, int]] = {}


class Attempts:
    """All logical writes of a history, and the sources' totals. Feed each event to its seer."""

    def __init__(self) -> None:
        self.writes: dict[str, LogicalWrite] = {}
        self.begun = 0
        """Executions that drivers told of."""
        self.listened = False
        self.logged: set[str] = set()
        """Members whose log was read."""
        self.unjoined: list[Ran] = []
        """Requests in the log that no logical write is known for."""
        self.tapped = False
        self.tap_commands: dict[tuple[str, str], dict[str, int]] = {}
        """By link and command: total, now, unanswered; of all clients."""
        self.counters: dict[str, dict[str, dict[str, int] | None]] = {}
        """By member and when: before, released, end; None where it gave no answer."""
        self.log_counts: dict[str, dict[str, dict[str, int]]] = {}
        """By member: requests, executed, internal, outside, refused, each by command; of all clients."""
        self.blind: dict[str, list[tuple[int, int | None]]] = {}
        """By member, from when until when it gave the sampler no answer; None: to the end."""
        self.killed: Counter[str] = Counter()
        """By member, the writes inside it that a release told it to kill."""
        self.samples = 0
        self.most_groups = 0
        """The most executions, told apart by lsid and txnNumber, of which one look at a member found requests there:
        inside the engine, or held before it."""
        self.longest_interval = 0.0
        self.overlap_alarms: list[Event] = []
        self.cleared: list[Event] = []
        self.effects: list[dict[str, Any]] | None = None
        self.elections = 0
        """Sets whose primary was elected anew meanwhile."""
        self.predicted: Event | None = None
        self._transactions: dict[Transaction, tuple[str, int]] = {}
        self._requests: dict[int, Send] = {}
        self.seers: Mapping[str, Callable[[Event], None]] = {
            "execution.begun": self._execution_begun,
            "execution.ended": self._execution_ended,
            "record": self._record,
            "send": self._send,
            "send.ended": self._send_ended,
            "tap": self._tap,
            "tap.command": self._tap_command,
            "op.logged": self._op_logged,
            "log.counted": self._log_counted,
            "counters": self._counters,
            "release": self._release,
            "copies": self._copies,
            "overlap.alarm": self._overlap_alarm,
            "overlap.cleared": self.cleared.append,
            "effects": self._effects,
            "predicted": self._predicted,
            "cluster": self._cluster,
        }

    def executions(self) -> Iterator[tuple[LogicalWrite, Execution]]:
        for write in self.writes.values():
            for execution in write.executions.values():
                yield write, execution

    def documents(self) -> defaultdict[str, list[Mapping[str, Any]]]:
        """By logical write, what was there of it at the end; none where nobody looked."""
        found: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for document in self.effects or ():
            found[document["write"]].append(document)
        return found

    def torn(self) -> str | None:
        """Why the logs do not have all that was carried out; None: they do.

        What is in the engine when its process ends leaves no line, and a new process writes none: the threshold of the
        log is a process's own (`profile` with slowms, measured on 6.0.5).
        """
        readings = {name: self.counters.get(name, {}) for name in sorted(self.logged)}
        anew = [name for name, read in readings.items() if started_anew(read)]
        gone = [name for name, read in readings.items() if read.get("end", NO_READING) is None]
        if anew:
            return f"{', '.join(anew)}: started anew meanwhile, and the log does not have all that was carried out"
        return f"{', '.join(gone)}: no answer at the end, and the log may not have all that was done" if gone else None

    def _write(self, name: str) -> LogicalWrite:
        found = self.writes.get(name)
        if found is None:
            found = self.writes[name] = LogicalWrite(name)
        return found

    def _execution(self, event: Event) -> Execution:
        executions = self._write(event["write"]).executions
        number = event["execution"]
        found = executions.get(number)
        if found is None:
            found = executions[number] = Execution(number)
        return found

    def _execution_begun(self, event: Event) -> None:
        execution = self._execution(event)
        execution.begun, execution.consumer = event.t, event.get("consumer")
        self.begun += 1

    def _execution_ended(self, event: Event) -> None:
        execution = self._execution(event)
        execution.ended, execution.outcome = event.t, event["outcome"]
        execution.acknowledged = event["effect"] is not None
        execution.code, execution.labels = event.get("code"), tuple(event.get("labels") or ())

    def _record(self, event: Event) -> None:
        self._write(event["write"]).records[event["what"]] += 1

    def _send(self, event: Event) -> None:
        transaction = (event["lsid"], event["txn"])
        send = Send(event.t, event["operation"], transaction, event["command"], event["host"])
        self._execution(event).sends.append(send)
        self._requests[event["request"]] = send
        self.listened = True
        if event["txn"] is not None:
            self._transactions[transaction] = (event["write"], event["execution"])

    def _send_ended(self, event: Event) -> None:
        send = self._requests.pop(event["request"], None)
        if send is not None:
            send.ended, send.ok = event.t, event["ok"]
            send.code, send.labels = event.get("code"), tuple(event.get("labels") or ())

    def _tap(self, event: Event) -> None:
        self.tapped = True
        self._execution(event).tapped = Tapped(
            event["total"], event["most"], event.get("now", 0), event["unanswered"], event["first"], event["last"]
        )

    def _tap_command(self, event: Event) -> None:
        self.tapped = True
        counts = {name: event[name] for name in ("total", "now", "unanswered")}
        self.tap_commands[event["link"], event["command"]] = counts

    def _op_logged(self, event: Event) -> None:
        transaction = (event["lsid"], event["txn"])
        ran = Ran(
            event["member"],
            transaction,
            event["command"],
            event["inside"],
            event["executed"],
            sum(event[name] for name in ("inserted", "modified", "upserted", "deleted")),
            event["code"],
            event["began"],
            event["ended"],
        )
        write, execution = event["write"], event["execution"]
        if write is None or execution is None:
            # Cut short, or told by a version that leaves the comment out: its session and number know it.
            write, execution = self._transactions.get(transaction, (None, None))
        if write is None or execution is None:
            self.unjoined.append(ran)
            return
        self._write(write).executions.setdefault(execution, Execution(execution)).ran.append(ran)

    def _log_counted(self, event: Event) -> None:
        self.logged.add(event["member"])
        found = {name: event[name] for name in ("requests", "executed", "internal")}
        more = {name: event.get(name) or {} for name in ("outside", "refused")}
        self.log_counts[event["member"]] = {**found, **more}

    def _counters(self, event: Event) -> None:
        self.counters.setdefault(event["member"], {})[event["when"]] = event["values"]

    def _release(self, event: Event) -> None:
        if event["what"] == "op killed":
            self.killed[event["member"]] += 1

    def _copies(self, event: Event) -> None:
        spans = self.blind.setdefault(event["member"], [])
        if event["ops"] is None:
            spans.append((event.t, None))
            return
        if spans and spans[-1][1] is None:
            spans[-1] = (spans[-1][0], event.t)
        self.samples += 1
        self.longest_interval = max(self.longest_interval, event["interval"] or 0.0)
        self.most_groups = max(self.most_groups, event["groups"])
        for name, copies in event["writes"].items():
            write = self._write(name)
            if write.sampled is None or copies > write.sampled:
                write.sampled, write.sampled_on, write.sampled_interval = copies, event["member"], event["interval"]

    def _overlap_alarm(self, event: Event) -> None:
        self.overlap_alarms.append(event)
        if event["write"] is not None:
            self._write(event["write"]).alarms.append(event)

    def _effects(self, event: Event) -> None:
        self.effects = event["documents"]

    def _cluster(self, event: Event) -> None:
        self.elections += event.get("what") == "primary changed"

    def _predicted(self, event: Event) -> None:
        self.predicted = event


def started_anew(readings: Mapping[str, Mapping[str, int] | None]) -> bool:
    """Whether the readings of one member's counters are of several processes.

    In a container each has the same pid: the second at which it started tells as well (not in records before it did).
    """
    known = [values for values in readings.values() if values is not None]
    starts = [values["started"] for values in known if "started" in values]
    return len({values.get("pid") for values in known}) > 1 or max(starts, default=0) - min(starts, default=0) > START
