"""A schedule of faults, fixed by a seed: which, when, for how long, on what. Pure; `harness.storm` carries it out.

The same wish on the same topology gives the same schedule. A target is a node spec: who is the primary is known only
when its time has come.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import faults
from clusters.errors import Refused
from clusters.topology import SetSpec, Topology

JITTER: Final = 0.25
"""Of the interval: as much later than its time a fault may begin."""
SHORTEST: Final = 0.25
LONGEST: Final = 1.2
"""Of the interval: how long a fault is held; with more than one, they overlap."""
LEAST_HOLD: Final = 1.0
REST: Final = 5.0
"""Seconds in which a set is left alone after a fault: a primary is elected, what fell behind catches up."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault. `at` and `hold` in seconds, from the beginning and from its proof."""

    number: int
    at: float
    hold: float
    fault: str
    on: str
    options: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """By which the history knows it."""
        return f"f{self.number}"

    def plain(self) -> dict[str, Any]:
        """JSON-able; `of_plain` reads it again."""
        return {**asdict(self), "options": list(self.options)}


def of_plain(plain: Mapping[str, Any]) -> Planned:
    """Raises Refused where it is none."""
    try:
        return Planned(**{**plain, "options": tuple(plain["options"])})
    except (KeyError, TypeError) as error:
        raise Refused(f"the stored schedule cannot be read: {error}") from None


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for. `duration` and `every` in seconds; `keep_majority`: of no set more than a minority at once."""

    seed: int
    duration: float
    every: float
    faults: Sequence[str]
    keep_majority: bool = True


def plan(wish: Wish, topology: Topology) -> list[Planned]:
    """In the order of time. Raises Refused where a fault is unknown, or nothing can be broken as is wished."""
    kinds = [faults.by_name(name) for name in wish.faults]
    if not kinds:
        raise Refused("--faults: expected at least one fault; 'mongofault faults' lists them")
    source = random.Random(wish.seed)
    room = {one.name: _room(one, wish.keep_majority) for one in topology.shards}
    busy: dict[str, list[tuple[float, float]]] = {name: [] for name in room}
    planned: list[Planned] = []
    time = 0.0
    while time < wish.duration:
        # All is drawn whether it is used or not: what comes later does not hang on what had no room.
        kind, start = source.choice(kinds), time + source.uniform(0, JITTER) * wish.every
        hold = max(LEAST_HOLD, source.uniform(SHORTEST, LONGEST) * wish.every)
        name = source.choice(sorted(room))
        time += wish.every
        end = start + hold
        if end > wish.duration:
            continue
        free = [one for one in sorted(room) if _most_at_once(busy[one], start, end + REST) < room[one]]
        if not free:
            continue
        set_name = name if name in free else free[0]
        busy[set_name].append((start, end + REST))
        planned.append(Planned(len(planned) + 1, round(start, 3), round(hold, 3), kind.name, f"{set_name}/{kind.aim}"))
    if not planned:
        raise Refused(
            f"--duration {wish.duration:g} s, --every {wish.every:g} s: there is no room for a fault; expected a "
            "longer duration, or sets of at least 3 members, or --beyond-majority"
        )
    return planned


def pulses(seed: int, every: float, duration: float, fault: str, on: str) -> list[Planned]:
    """One fault on and off again, for `duration` seconds; never twice at once. Empty where there is no room for it."""
    source = random.Random(seed)
    planned: list[Planned] = []
    for number in range(int(duration / every)):
        start = number * every + source.uniform(0, JITTER) * every
        hold = source.uniform(SHORTEST, 1 - JITTER) * every
        planned.append(Planned(len(planned) + 1, round(start, 3), round(hold, 3), fault, on))
    return planned


def _room(one: SetSpec, keep_majority: bool) -> int:
    """How many of its members may be broken at once."""
    voters = sum(member.votes for member in one.members)
    return (voters - 1) // 2 if keep_majority else len(one.members)


def _most_at_once(spans: Sequence[tuple[float, float]], start: float, end: float) -> int:
    """How many of the spans overlap at the fullest moment of [start, end]."""
    inside = [(low, high) for low, high in spans if low < end and high > start]
    return max((sum(low <= moment < high for low, high in inside) for moment, _ in [(start, end), *inside]), default=0)
