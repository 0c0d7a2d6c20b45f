"""The record of one test: its history, and where the test failed the result, the report, and what is said of it.

A record of a test that passed is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harness.histories import History
from harness.history import RUN_FAILED, Event
from harness.record import Record

LONGEST_NAME = 60


class TestRecord:
    """`name` the test's, as pytest has it."""

    __test__ = False

    def __init__(self, runs: Path, name: str) -> None:
        readable = re.sub(r"[^\w.]+", "-", name).strip("-")[:LONGEST_NAME]
        self.history = History(Record.create(runs, readable), readable)
        self._failure: str | None = None

    def failed(self, why: str) -> str:
        """The test failed; what its report says of the record."""
        self._failure = why
        lines = list(told(self.history.events()))
        return "\n".join([f"report: {self.link}", f"history: {self.history.path}", *lines])

    @property
    def link(self) -> Path:
        """What is shown to people."""
        return self.history.report

    def end(self) -> None:
        """After the test and all that it used."""
        if self._failure is None:
            self.history.discard()
        else:
            self.history.end(RUN_FAILED, self._failure)


def told(events: list[Event]) -> Iterator[str]:
    """The faults and the streams that fell silent, a line each."""
    for event in events:
        if event.kind == "fault.opened":
            after = [one for one in events if one.kind.startswith("fault.") and one.get("id") == event["id"]]
            evidence = next((one["evidence"]["statement"] for one in after if one.kind == "fault.proven"), None)
            unproven = next((one["reason"] for one in after if one.kind == "fault.unproven"), None)
            words = [f"not proven: {unproven}" if unproven else f"proven: {evidence}" if evidence else "not proven"]
            words += [one.kind.removeprefix("fault.").replace("_", " ") for one in after[1:] if "healed" in one.kind]
            yield f"fault: {event['fault']} on {event['target']}, {', '.join(words)}"
    alarms = {event["stream"]: event for event in events if event.kind == "alarm"}
    for name, alarm in alarms.items():
        waits = f", waits for {alarm['waits_for']} ({alarm['known_by']})" if alarm["waits_for"] else ""
        yield f"silent: {name}{waits}"
