"""The live view: phase and time left, streams by state, alarms. A line that renews itself, or plain lines.

Looks at what it is given and keeps nothing; a run goes on the same without anyone looking.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from harness.history import Event, Recorder
from harness.output import out
from harness.report.sentences import alarms, sentence, several

States = Callable[[], Mapping[str, Any]]
STATES = ("delivering", "quiet", "lagging", "silent")
STYLES = {"delivering": "green", "quiet": "dim", "lagging": "yellow", "silent": "bold red"}
GATHER_NS = 400_000_000
"""Nanoseconds of run time for which alarms are gathered before they are told."""
REFRESH = 4
"""Renewals per second."""


class View(Protocol):
    """What a run tells whoever looks on."""

    def __enter__(self) -> View: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def begin(self, scenario: Any, record: Path, recorder: Recorder) -> None: ...
    def phase(self, name: str, seconds: float | None = None) -> None:
        """A phase begins; `seconds` it will take, where that is known."""

    def follow(self, states: States, alarms: States) -> None:
        """From now on these tell the streams' states and the open alarms."""


def make_view(*, live: bool, terminal: bool) -> View:
    """The view for a terminal, for a pipe, or for nobody."""
    if not live:
        return Silent()
    return Screen(out) if terminal else Lines(out)


class Silent:
    """Nobody looks on (`--json`, `--quiet`, tests)."""

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def begin(self, scenario: Any, record: Path, recorder: Recorder) -> None:
        return

    def phase(self, name: str, seconds: float | None = None) -> None:
        return

    def follow(self, states: States, alarms: States) -> None:
        return


class Lines(Silent):
    """One line for each thing that happens, for logs and pipes. What many streams do at once is one line too."""

    GATHERED: ClassVar[Mapping[str, Callable[[Sequence[Event]], list[str]]]] = {
        "alarm": alarms,
        "alarm.cleared": lambda events: [several(events, "delivering again")],
        "stream.resumed": lambda events: [several(events, f"resumed by the {events[0]['by']}")],
    }

    def __init__(self, console: Console) -> None:
        self._console = console
        self._start = time.monotonic()
        self._waiting: dict[str, list[Event]] = {}

    def begin(self, scenario: Any, record: Path, recorder: Recorder) -> None:
        self._say(f"{scenario.name}: {scenario.question}")
        self._say(f"record: {record}")
        recorder.subscribe(self._on)

    def phase(self, name: str, seconds: float | None = None) -> None:
        self._flush()
        self._say(f"phase {name}" + (f" ({seconds:g} s)" if seconds is not None else ""))

    def _on(self, event: Event) -> None:
        if any(event.t - waiting[0].t > GATHER_NS for waiting in self._waiting.values()):
            self._flush()
        if event.kind in self.GATHERED:
            if not event.get("update"):
                self._waiting.setdefault(event.kind, []).append(event)
            return
        told = sentence(event)
        if told is not None:
            self._flush()
            self._say(told)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for kind, events in waiting.items():
            for line in self.GATHERED[kind](events):
                self._say(line)

    def _say(self, line: str) -> None:
        self._console.print(Text(f"{time.monotonic() - self._start:7.1f}  {line}"))


class Screen(Lines):
    """The same lines, with a status that renews itself below them."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._phase = "start"
        self._ends: float | None = None
        self._states: States = dict
        self._alarms: States = dict
        # Last: it renders as soon as it is made.
        self._live = Live(get_renderable=self._status, console=console, refresh_per_second=REFRESH, transient=True)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def phase(self, name: str, seconds: float | None = None) -> None:
        self._phase = name
        self._ends = None if seconds is None else time.monotonic() + seconds
        super().phase(name, seconds)

    def follow(self, states: States, alarms: States) -> None:
        self._states, self._alarms = states, alarms

    def _status(self) -> Text:
        status = Text.assemble((f" {self._phase} ", "reverse"))
        if self._ends is not None:
            status.append(f" {max(0.0, self._ends - time.monotonic()):4.1f} s left")
        counts = Counter(one.state for one in self._states().values())
        for state in STATES:
            if counts[state]:
                status.append(f"  {counts[state]} {state}", STYLES[state])
        alarms = self._alarms()
        if alarms:
            status.append(f"  {len(alarms)} alarms", "bold red")
        return status
