"""A watch as the scene of a live view: the last picture, and the alarms of all before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.history import Event
from harness.measures import NS
from harness.report.scene import WELL, Gathering, Rates, Scene
from harness.watching.judging import Picture

PHASE = "watch"


class Stage:
    """Given pictures by the watch, looked at by whoever draws."""

    def __init__(self, title: str) -> None:
        self._gathering = Gathering()
        self._gathering.title = title
        self._rates = Rates()
        self._documents: dict[str, int] = {}
        self._scene = Scene(title=title, phase=PHASE)

    def take(self, picture: Picture, events: Sequence[Event]) -> None:
        for event in events:
            self._gathering.feed(event)
        now = picture.at / NS
        self._rates.count("events", now, self._returned(picture))
        self._scene = replace(
            self._gathering.scene(PHASE, None, now),
            streams=dict(picture.counts),
            members={name: WELL if why is None else why for name, why in sorted(picture.members.items())},
            rates=self._rates.at(now),
            copies=picture.copies,
        )

    def scene(self) -> Scene:
        return self._scene

    def _returned(self, picture: Picture) -> int:
        """What the streams have returned since the picture before; one that is new counts from now on."""
        before = self._documents
        self._documents = {name: one.documents for name, one in picture.streams.items()}
        return sum(max(0, count - before.get(name, count)) for name, count in self._documents.items())
