"""The live view of a run and of a watch: what happens, line by line; on a terminal a screen below that renews itself.

Looks at what it is given and keeps nothing; a run goes on the same without anyone looking.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from harness.history import Event, Recorder
from harness.measures import NS
from harness.output import out
from harness.report.scene import Gathering, Scene
from harness.report.screen import draw
from harness.report.sentences import alarms, sentence, several

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
    """The same lines, and below them how things stand now."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._phase = "start"
        self._ends: float | None = None
        self._gathering = Gathering()
        self._recorder: Recorder | None = None
        self._live = screen(console, self._scene)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def begin(self, scenario: Any, record: Path, recorder: Recorder) -> None:
        self._gathering.title = str(scenario.name)
        recorder.subscribe(self._gathering.feed)
        self._recorder = recorder
        super().begin(scenario, record, recorder)

    def phase(self, name: str, seconds: float | None = None) -> None:
        self._phase = name
        self._ends = None if seconds is None else time.monotonic() + seconds
        super().phase(name, seconds)

    def _scene(self) -> Scene:
        left = None if self._ends is None else self._ends - time.monotonic()
        now = 0 if self._recorder is None else self._recorder.now()
        return self._gathering.scene(self._phase, left, now / NS)


def screen(console: Console, scene: Callable[[], Scene]) -> Live:
    """Renews itself from when it is started, at the size that the terminal has then."""
    return Live(
        get_renderable=lambda: draw(scene(), *console.size),
        console=console,
        refresh_per_second=REFRESH,
        transient=True,
        # The consoles write to whatever sys.stdout is: put in its place, the view would be fed what it prints.
        redirect_stdout=False,
        redirect_stderr=False,
    )
