"""A watch in words and as JSON lines. Pure: pictures and events in, lines out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from harness.history import Event
from harness.report.sentences import alarms as silent_streams
from harness.report.sentences import sentence
from harness.watching import advice
from harness.watching.judging import KINDS, Picture
from harness.watching.streams import STATES

HEALTHY: Final = "nothing wrong is seen"
SHOWN: Final = 3
"""Streams named of those that are silent no more."""


def summary(picture: Picture) -> str:
    """One line: streams by how they fare, copies, and how many members were seen."""
    counts = picture.counts
    told = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]) or "none"
    seen = len(picture.members) - len(picture.unseen)
    copies = f"; at most {picture.copies} copies of one write" if picture.copies else ""
    return f"streams: {told}{copies}; seen: {seen} of {len(picture.members)} members and routers"


def unseen(picture: Picture) -> list[str]:
    return [f"not seen: {name}: {why}" for name, why in sorted(picture.unseen.items())]


def document(picture: Picture, wall: float) -> dict[str, Any]:
    """A look, as a JSON line."""
    return {
        "kind": "look",
        "wall": wall,
        "streams": dict(picture.counts),
        "silent": [
            {"stream": one.name, "seconds": one.silent_for, "members": list(one.members)}
            for one in picture.streams.values()
            if one.fares == "silent"
        ],
        "hung_getmores": [
            {"member": one.member, "opid": one.opid, "seconds": one.seconds, "max_time_ms": one.max_time_ms,
             "stream": one.stream}
            for one in picture.hung
        ],
        "write_copies": picture.copies,
        "seen": sorted(name for name, why in picture.members.items() if why is None),
        "not_seen": picture.unseen,
        "open_alarms": len(picture.silent) + len(picture.piles),
    }  # fmt: skip


def plain(event: Event, advised: Sequence[str] = ()) -> dict[str, Any]:
    """An event, as a JSON line; what to do about it as well, where it is an alarm."""
    more = {"alarm": KINDS[event.kind], "what_to_do": list(advised)} if event.kind in KINDS else {}
    return {"kind": event.kind, "wall": event.wall, **more, **event.fields}


class Advice:
    """What to do about alarms of a picture that have one cause; nothing where they are none."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        self.hosts = hosts

    def on(self, events: Sequence[Event], picture: Picture) -> list[str]:
        silent = [
            picture.silent[one["stream"]] for one in events if one.kind == "alarm" and one["stream"] in picture.silent
        ]
        if silent:
            return advice.on_silence(silent, self.hosts)
        for one in events:
            if one.kind == "overlap.alarm":
                subject = one["namespace"], one["write"]
                if (pile := picture.piles.get(subject)) is not None:
                    requests = [op for op in picture.requests if (op.namespace, op.write) == subject]
                    return advice.on_copies(pile, requests, self.hosts)
        return []


def told(events: Sequence[Event], picture: Picture, advise: Advice) -> Iterable[str]:
    """Sentences for people, what to do indented below them. What many streams share is said once."""
    causes: dict[tuple[Any, ...], list[Event]] = {}
    for one in events:
        if one.kind == "alarm":
            causes.setdefault(((one.get("getmore") or {}).get("member"), one["waits_for"]), []).append(one)
    for group in causes.values():
        yield from silent_streams(group)
        yield from (f"    {line}" for line in advise.on(group, picture))
    cleared = [one["stream"] for one in events if one.kind == "alarm.cleared"]
    if cleared:
        yield f"{len(cleared)} streams are silent no more: {', '.join(sorted(cleared)[:SHOWN])}" + (
            ", ..." if len(cleared) > SHOWN else ""
        )
    for one in events:
        if one.kind.startswith("overlap."):
            yield sentence(one) or one.kind
            yield from (f"    {each}" for each in advise.on([one], picture))
