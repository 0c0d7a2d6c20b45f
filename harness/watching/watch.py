"""A watch from its start to its end: looks, judgements, and who is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.history import Event
from harness.watching.judging import Judge, Picture
from harness.watching.looking import Looks
from harness.watching.seats import Seats

Told = Callable[[Picture, Sequence[Event]], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """In seconds. `past`: beyond its maxTimeMS, from when a getMore hangs; `patience`: for an answer."""

    every: float
    past: float
    patience: float


class Watch:
    def __init__(self, seats: Seats, pace: Pace, told: Told) -> None:
        self._looks = Looks(seats, every=pace.every, patience=pace.patience)
        self._judge = Judge(seats.members, past=pace.past, every=pace.every)
        self._told = told

    async def once(self) -> Picture:
        try:
            await self._looks.once()
            return self._looked()
        finally:
            await self._looks.close()

    async def go_on(self) -> None:
        """Until cancelled."""
        try:
            await self._looks.watch(self._looked)
        finally:
            await asyncio.shield(self._looks.close())

    def _looked(self) -> Picture:
        looks = self._looks
        picture, events = self._judge.judge(looks.readings, looks.unseen, looks.fresh(), looks.now())
        self._told(picture, events)
        return picture
