"""A lane for each operation through each router: who waited while its refresh was held, and until when. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from harness.checkers.routed import Asked, Op, RoutedOps
from harness.history import Event
from harness.measures import NS
from harness.report.page.marks import Bar, Lane, Point, Section
from harness.report.page.streams import span_in_words
from harness.report.routing import in_words
from harness.watchers.routing import LINES

MARGIN: Final = 0.3
"""Seconds shown at first before and after the operations."""


class Routing:
    """Fold the events of `seers`, then ask for the sections."""

    def __init__(self) -> None:
        self._ops = RoutedOps()
        self._zero: float | None = None
        self.seers: Mapping[str, Callable[[Event], None]] = {
            name: self._seen_by(seer) for name, seer in self._ops.seers.items()
        }

    @property
    def interesting(self) -> tuple[float, float] | None:
        """When operations were on their way; None: none was sent."""
        ops = [op for asked in self._ops.routers.values() for op in asked.ops.values()]
        if not ops:
            return None
        return min(op.sent for op in ops) / NS - MARGIN, max(max(op.sent, op.ended) for op in ops) / NS + MARGIN

    def sections(self, end: float) -> list[Section]:
        return [
            Section(
                f"operations through {asked.name}, {asked.setting}",
                [self._router(asked, end), *(_operation(asked, op, end) for op in asked.ops.values())],
            )
            for asked in self._ops.routers.values()
        ]

    def _seen_by(self, seer: Callable[[Event], None]) -> Callable[[Event], None]:
        def see(event: Event) -> None:
            if self._zero is None:
                self._zero = event.wall - event.seconds
            seer(event)

        return see

    def _router(self, asked: Asked, end: float) -> Lane:
        return Lane("refresh", list(_held(asked, end)), list(self._logged(asked)))

    def _logged(self, asked: Asked) -> Iterable[Point]:
        for event in asked.logged:
            at = event["logged"] - (self._zero or 0.0)
            if at < 0:
                continue
            code = f", {in_words(event['code'])}" if event["code"] is not None else ""
            text = f"{asked.name} logged at {at:.3f} s: {LINES.get(event['id'], '?')} ({event['id']}){code}"
            yield Point(at, "logged", f"{text}\n{event['text']}")


def _held(asked: Asked, end: float) -> Iterable[Bar]:
    if asked.held is not None:
        start, stop = asked.held / NS, end if asked.released is None else asked.released / NS
        pending = ", ".join(op.name for op in asked.ops.values() if asked.pending(op)) or "nothing"
        text = f"{asked.name} waits for its refresh\n{span_in_words(start, stop)}\npending at the release: {pending}"
        yield Bar(start, stop, "held", text, caption="refresh held")


def _operation(asked: Asked, op: Op, end: float) -> Lane:
    start, stop = op.sent / NS, end if op.ended < 0 else op.ended / NS
    waited = asked.waited(op)
    style = "waited" if waited else "did not wait" if op.outcome == "ok" else "refused"
    fared = "no answer" if op.ended < 0 else op.outcome
    lines = [
        f"{op.name} ({op.command}) for the {op.belongs}: {'waited' if waited else 'did not wait'}, {fared}",
        span_in_words(start, stop),
    ]
    if op.code is not None or op.error:
        lines.append(f"{in_words(op.code)}: {op.error}")
    label = op.name if op.belongs == "probe" else f"{op.name} ({op.belongs})"
    return Lane(label, [Bar(start, stop, style, "\n".join(lines))])
