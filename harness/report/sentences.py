"""What a person wants to read of an event, in one sentence; of many alarms with one cause, in one sentence as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.history import Event

NAMED: Final = 12
"""Streams named in one sentence; of more, the first and how many there are."""


GROUPS_NAMED: Final = 4
"""Groups of writes named in one sentence, the oldest first."""


def sentence(event: Event) -> str | None:
    """The sentence for an event that stands by itself, or None. Where there are several faults, each has its number."""
    fault = f"fault {event['id']}" if event.source == "chaos" and event.get("id") else "fault"
    match event.kind:
        case "schedule":
            return f"{len(event['faults'])} faults are planned"
        case "fault.opened":
            return f"{fault} {' '.join([event['fault'], *event.get('options', [])])} on {event['target']}"
        case "fault.proven":
            return f"{fault} proven: {event['evidence']['statement']}"
        case "fault.unproven":
            return f"{fault} NOT proven: {event['reason']}"
        case "fault.healed":
            return f"{fault} healed"
        case "fault.not_healed":
            return f"{fault} NOT HEALED: {event['reason']}"
        case "fault.skipped":
            return f"{fault} {event['fault']} on {event['on']} skipped: {event['reason']}"
        case "fault.recovered" if event["id"] != "f1":
            return None
        case "fault.recovered":
            return f"cluster whole again after {event['seconds']:.1f} s"
        case "release" if event["what"] == "op killed":
            whose = f"write {event['write']}" if event.get("write") else f"stream {event['stream']}"
            return f"op {event['opid']} killed on {event['member']} ({whose})"
        case "release":
            return f"{event['what']}{': ' + event['member'] if event.get('member') else ''}"
        case "cluster" if event["what"] == "primary changed":
            before = "again" if event["now"] == event["before"] else f"{event['before']} was"
            return f"{event['set']} had another election: {event['now']} is primary, {before}"
        case "cluster" if event["what"] == "guardian replaced":
            return "the guardian was killed; another guardian watches"
        case "routing" if event["what"] == "held":
            return f"{event['router']} waits for its refresh"
        case "routing" if event["what"] == "released":
            return f"{event['router']}: pending at the release: {', '.join(event['pending']) or 'nothing'}"
        case "overlap.alarm":
            return _overlap(event)
        case "overlap.cleared":
            subject = f"of {event['write']} " if event["write"] else ""
            return (
                f"no overlap {subject}on {event['namespace']} any more, after {event['seconds']:.1f} s: "
                f"{event['most_copies']} copies and {event['most_groups']} groups at once were seen"
            )
        case "stream.error":
            return f"stream {event['stream']}: error {first_sentence(event['error'])}"
        case _:
            return None


def alarms(events: Sequence[Event]) -> list[str]:
    """Alarms raised together, a sentence for each cause: what hangs on which member, and whom it waits for."""
    causes: dict[tuple[Any, ...], list[Event]] = {}
    for event in events:
        getmore: Mapping[str, Any] = event.get("getmore") or {}
        causes.setdefault((getmore.get("member"), event.get("waits_for"), _source(event)), []).append(event)
    return [_alarm(group) for group in causes.values()]


def several(events: Sequence[Event], what: str) -> str:
    """`streams s1, s2, s3 deliver again` and the like."""
    return f"{_streams([event['stream'] for event in events])} {what}"


def first_sentence(error: str) -> str:
    """An error without the server's whole reply, which pymongo repeats behind it."""
    return error.partition(", full error:")[0]


def _alarm(events: Sequence[Event]) -> str:
    first = events[0]
    line = f"ALARM {_streams([event['stream'] for event in events])} silent for {first['after_seconds']:.1f} s"
    getmores = [event["getmore"] for event in events if event.get("getmore")]
    if getmores:
        opids = ", ".join(str(one["opid"]) for one in getmores[:NAMED] if isinstance(one.get("opid"), int))
        line += (
            f": getMore on {getmores[0]['member']} runs {min(one['seconds'] for one in getmores):.1f} s"
            f" (maxTimeMS {getmores[0]['max_time_ms']}{', opids ' + opids if opids else ''})"
        )
    if first.get("waits_for"):
        line += f", waits for {first['waits_for']} ({first['known_by'] if len(events) == 1 else _source(first)})"
    return line


def _overlap(event: Event) -> str:
    """Whose copies, where, since when, what they wait for, and which groups they are."""
    where = f"on {event['namespace']} ({', '.join(event['members'])})"
    if event["write"]:
        what = f"{event['copies']} copies of {event['write']} at once {where}, more than {event['limit']}"
    else:
        what = f"{event['group_count']} groups of writes at once {where}, which has {event['limit']} clients"
    named = [f"{_group(one)} {one['seconds']:.1f} s" for one in event["groups"][:GROUPS_NAMED]]
    more = event["group_count"] - len(named)
    groups = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    return (
        f"ALARM {what}, the oldest for {event['seconds']:.1f} s, waits for {event['waits_for']}; "
        f"groups (lsid/txnNumber): {groups} ({event['known_by']})"
    )


def _group(group: Mapping[str, Any]) -> str:
    """Its session, shortened, and its number, which not every write has."""
    lsid = (group["lsid"] or "?")[:8]
    return f"{lsid}/{group['txn']}" if group["txn"] is not None else f"{lsid}, no number,"


def _source(alarm: Event) -> str:
    """How it is known whom the stream waits for, without the one lookup of many that is seen there."""
    return str(alarm.get("known_by") or "").partition(", opid")[0]


def _streams(names: Sequence[str]) -> str:
    ordered = sorted(names, key=lambda name: (len(name), name))
    if len(ordered) == 1:
        return f"stream {ordered[0]}"
    if len(ordered) > NAMED:
        return f"{len(ordered)} streams ({ordered[0]}..{ordered[-1]})"
    return f"{len(ordered)} streams ({', '.join(ordered)})"
