"""The lane of each logical write: its executions, what each sent, what of it ran in the engine; copies at once below.

Pure. Sends are the driver's, copies the server's log's, exact; what `$currentOp` saw is drawn as samples, and said so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from harness.checkers.attempts import Attempts
from harness.checkers.logical_writes import Execution, LogicalWrite, Ran, Send
from harness.history import Event
from harness.measures import NS
from harness.report.page.marks import Bar, Curve, Lane, Panel, Point, Section, packed, stepped
from harness.report.page.streams import span_in_words

SHOWN: Final = 40
"""Writes with a lane of their own, those with the most sends and copies first; the curves are of all."""
EXECUTION: Final = 18.0
REQUEST: Final = 9.0
"""Pixels of a track of executions, and of sends or copies."""
OUTCOMES: Final = {"ok": "succeeded", "failed": "did not"}


class Writes:
    """Fold the events of `seers`, then ask for the sections and panels."""

    def __init__(self) -> None:
        self._attempts = Attempts()
        self._zero: float | None = None
        """Wall time of run time 0, as the first line has it."""
        self._ends: dict[str, list[tuple[float, str, str]]] = {}
        self._samples: list[tuple[float, int]] = []
        self.seers: Mapping[str, Callable[[Event], None]] = {
            name: self._seen_by(seer) for name, seer in self._attempts.seers.items()
        }

    def sections(self, end: float) -> list[Section]:
        writes = [one for one in self._attempts.writes.values() if one.executions]
        writes.sort(key=lambda one: (-_weight(one), one.name))
        shown = writes[:SHOWN]
        if not shown:
            return []
        title = "writes" if len(writes) == len(shown) else f"the {len(shown)} of {len(writes)} writes with most sends"
        note = "from top to bottom: executions, sends, copies in the engine"
        return [Section(title, [self._lane(one, end) for one in shown], note)]

    def panels(self, end: float) -> list[Panel]:
        writes = [one for one in self._attempts.writes.values() if one.executions]
        if not writes:
            return []
        by_write = [[self._ran_span(ran) for ran in self._inside(one)] for one in writes]
        sends = [_send_span(send, end) for one in writes for each in one.executions.values() for send in each.sends]
        curves = []
        told = [("copies at once", "copies", [span for spans in by_write for span in spans])]
        if len(writes) > 1:
            told.append(("of the write with the most", "of one", max(by_write, key=_most)))
        told.append(("sends in flight", "sends", sends))
        for name, style, spans in told:
            at, value = stepped([span for span in spans if span[1] > span[0]])
            if at:
                curves.append(Curve(name, style, [at[0], *at], [0.0, *value]))
        if self._samples:
            at, value = [t for t, _ in self._samples], [float(copies) for _, copies in self._samples]
            curves.append(Curve("copies seen by one look at $currentOp", "sampled", at, value, sampled=True))
        return [Panel("number at once", curves)] if curves else []

    def _seen_by(self, seer: Callable[[Event], None]) -> Callable[[Event], None]:
        def see(event: Event) -> None:
            if self._zero is None:
                self._zero = event.wall - event.seconds
            if event.kind == "copies" and event["ops"] is not None:
                self._samples.append((event.seconds, event["copies"]))
            if event.kind == "record" and event["what"] in ("dead", "processed"):
                self._ends.setdefault(event["write"], []).append(
                    (event.seconds, event["what"], event.get("consumer") or "")
                )
            seer(event)

        return see

    def _lane(self, write: LogicalWrite, end: float) -> Lane:
        executions = sorted(write.executions.values(), key=lambda one: (one.begun, one.number))
        bars: list[Bar] = []
        tracks: list[float] = []
        for drawn, height in (
            ([_execution(write, one, end) for one in executions if one.begun >= 0], EXECUTION),
            ([_send(write, one, number, end) for one in executions for number in range(len(one.sends))], REQUEST),
            ([_copy(write, one, ran, self._ran_span(ran)) for one in executions for ran in one.ran], REQUEST),
        ):
            drawn.sort(key=lambda bar: bar.start)
            placed = packed([(bar.start, bar.end) for bar in drawn])
            bars += [replace(bar, track=len(tracks) + on) for bar, on in zip(drawn, placed, strict=True)]
            tracks += [height] * (max(placed, default=-1) + 1)
        points = [
            Point(t, what if what == "dead" else "processed", f"{write.name}: {what} at {t:.2f} s ({consumer})")
            for t, what, consumer in self._ends.get(write.name, ())
        ]
        for alarm in write.alarms:
            text = f"{write.name}: ALARM, {alarm['copies']} copies at once, more than {alarm['limit']}"
            points.append(Point(alarm.seconds, "overlap", f"{text}\n{alarm['known_by']}"))
        return Lane(write.name, bars, points, tracks or [EXECUTION])

    def _inside(self, write: LogicalWrite) -> Iterable[Ran]:
        return (ran for one in write.executions.values() for ran in one.ran if ran.inside)

    def _ran_span(self, ran: Ran) -> tuple[float, float]:
        """The log has the clock of the member, which is this machine's."""
        zero = self._zero or 0.0
        return max(0.0, ran.began - zero), max(0.0, ran.ended - zero)


def _weight(write: LogicalWrite) -> int:
    return sum(len(one.sends) + len(one.ran) for one in write.executions.values())


def _most(spans: Sequence[tuple[float, float]]) -> float:
    return max(stepped(spans)[1], default=0.0)


def _send_span(send: Send, end: float) -> tuple[float, float]:
    return send.t / NS, (send.ended / NS if send.ended >= 0 else end)


def _execution(write: LogicalWrite, one: Execution, end: float) -> Bar:
    span = one.begun / NS, (one.ended / NS if one.ended >= 0 else end)
    lines = [
        f"{write.name}, execution {one.number} by {one.consumer}: {one.outcome or 'never ended'}",
        span_in_words(*span),
        f"{len(one.sends)} sends, {one.copies} copies",
    ]
    if one.code is not None:
        lines.append(f"code {one.code}")
    if one.labels:
        lines.append(", ".join(one.labels))
    style = OUTCOMES.get(one.outcome or "", "unknown")
    return Bar(*span, style, "\n".join(lines), caption=f"{one.number}")


def _session(lsid: str | None, txn: int | None) -> str:
    return f"lsid {lsid or 'none'}, txnNumber {txn if txn is not None else 'none'}"


def _send(write: LogicalWrite, execution: Execution, number: int, end: float) -> Bar:
    send = execution.sends[number]
    earlier = any(one.part == send.part for one in execution.sends[:number])
    failed = f"failed, code {send.code}" if send.code else "failed"
    told = {None: "no reply", True: "ok", False: failed}[send.ok]
    span = _send_span(send, end)
    lines = [
        f"{write.name}, execution {execution.number}: {'resend' if earlier else 'send'} of {send.command}, {told}",
        _session(*send.transaction),
        f"to {send.host}",
        span_in_words(*span),
    ]
    return Bar(*span, "resend" if earlier else "send", "\n".join(lines))


def _copy(write: LogicalWrite, execution: Execution, ran: Ran, span: tuple[float, float]) -> Bar:
    what = "copy in the engine" if ran.inside else "request that did not work in the engine"
    lines = [
        f"{write.name}, execution {execution.number}: {what} of {ran.member} ({ran.command})",
        _session(*ran.transaction),
        f"changed {ran.changed} documents" + (f", code {ran.code}" if ran.code else ""),
        f"{span_in_words(*span)} by the server's log",
    ]
    return Bar(*span, "copy" if ran.inside else "no effect", "\n".join(lines))
