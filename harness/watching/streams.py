"""How each stream fares, from one look to the next: what a stranger can tell of it without its marks. Pure.

Whether a stream owes anything is not known of somebody else's: silent is one whose getMore is far past its maxTimeMS,
or whose cursor lies on a member that answers nothing any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from harness.measures import NS
from harness.watching.reading import Leg, Reading

Fares = Literal["open", "delivering", "quiet", "scanning", "unread", "silent"]

STATES: Final[tuple[Fares, ...]] = ("delivering", "quiet", "open", "scanning", "unread", "silent")
UNREAD: Final = 10.0
"""Seconds without a getMore after which nobody reads a stream: its consumer is busy, stuck or gone."""


@dataclass(frozen=True, slots=True)
class Stream:
    """`open`: seen once, nothing wrong with it. `silent_for` in seconds, at most: since its getMore began, or since its
    member was last heard. `members`: where its cursors are; `documents`: what they have returned, all told."""

    name: str
    fares: Fares
    silent_for: float
    members: tuple[str, ...]
    documents: int


@dataclass(slots=True)
class _Known:
    documents: int
    batches: int
    read: int
    """When a batch was last seen to have been fetched."""


class Streams:
    """Keeps what was seen of each stream; `past` in seconds beyond maxTimeMS."""

    def __init__(self, past: float) -> None:
        self._past = past
        self._known: dict[str, _Known] = {}
        self._fares: dict[str, Fares] = {}

    def judge(
        self, readings: Mapping[str, Reading], unheard: Collection[str], fresh: Collection[str], now: int
    ) -> dict[str, Stream]:
        """`readings` are the last of each member, those of the `unheard` ones, which owe an answer, from before;
        `fresh` are the members that have been looked at since the judgement before."""
        legs: dict[str, list[Leg]] = defaultdict(list)
        for reading in readings.values():
            for leg in reading.legs:
                legs[leg.stream].append(leg)
        found = {name: self._one(name, its, readings, unheard, fresh, now) for name, its in legs.items()}
        self._known = {name: one for name, one in self._known.items() if name in found}
        self._fares = {name: one.fares for name, one in found.items()}
        return found

    def _one(
        self,
        name: str,
        legs: Iterable[Leg],
        readings: Mapping[str, Reading],
        unheard: Collection[str],
        fresh: Collection[str],
        now: int,
    ) -> Stream:
        legs = list(legs)
        members = tuple(sorted({leg.member for leg in legs}))
        documents, batches = sum(leg.documents for leg in legs), sum(leg.batches for leg in legs)
        before = self._known.get(name)
        if before is None or (documents, batches) != (before.documents, before.batches):
            self._known[name] = _Known(documents, batches, now)
        hanging, scanning, reading_on = 0.0, False, False
        for member in members:
            reading = readings[member]
            since_seen = (now - reading.at) / NS if member in unheard else 0.0
            if since_seen > self._past:
                hanging = max(hanging, since_seen)
            for getmore in reading.getmores:
                if getmore.stream != name:
                    continue
                reading_on = True
                if getmore.overdue + since_seen > self._past:
                    if getmore.opid in reading.scanning:
                        scanning = True
                    else:
                        hanging = max(hanging, getmore.seconds + since_seen)
        if hanging:
            return Stream(name, "silent", round(hanging, 3), members, documents)
        if reading_on:
            self._known[name].read = now
        fares = "scanning" if scanning else self._moving(name, before, documents, bool(set(members) & set(fresh)), now)
        return Stream(name, fares, 0.0, members, documents)

    def _moving(self, name: str, before: _Known | None, documents: int, looked: bool, now: int) -> Fares:
        if before is None:
            return "open"
        if not looked:
            return self._fares.get(name, "open")
        if documents > before.documents:
            return "delivering"
        if now - self._known[name].read > UNREAD * NS:
            return "unread"
        return "quiet"
