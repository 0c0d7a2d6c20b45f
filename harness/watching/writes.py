"""Which slow writes are copies of one: told by what they are to change, or by their having been sent again. Pure.

Every execution of an application has a session of its own, so the number does not join them; what they select does.
Of it only names of fields are shown, and a digest: values may be anything that people keep in databases.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import bson

from harness.watchers.counters import at
from harness.watchers.inside import Op
from harness.watchers.sends import WRITES

PILE: Final = 3.0
"""Seconds that the oldest of several must run; clients that change one document in turn are quicker."""
RESENT: Final = 2
"""Requests of one session and number: the driver's first attempt, and its second."""
FIELDS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Shape:
    """What can be told of a write. `selects`: names of the fields it goes by, and a digest of their values; None where
    the server does not show it, as of inserts and of updates that wait."""

    verb: str
    app: str
    selects: str | None


@dataclass(frozen=True, slots=True)
class Write:
    """A write that is slow, and what can be told of which write it is."""

    op: Op
    shape: Shape


def shape(entry: Mapping[str, Any]) -> Shape:
    command: Mapping[str, Any] = entry.get("command") or {}
    verb = next((WRITES[name] for name in command if name in WRITES), None)
    if verb is None:
        verb = {"remove": "delete"}.get(str(entry.get("op")), str(entry.get("op")))
    return Shape(verb, str(entry.get("appName", "")), _selects(command))


def piled(writes: Sequence[Write]) -> list[Op]:
    """Those that are copies of one write, each named for it in `Op.write`; all the others are left out."""
    by_group: dict[Any, list[Write]] = defaultdict(list)
    for one in writes:
        by_group[one.op.group].append(one)
    found: dict[tuple[str, str], list[Op]] = defaultdict(list)
    for requests in by_group.values():
        name = _name(requests)
        if name is not None:
            found[requests[0].op.namespace, name] += [one.op for one in requests]
    return [
        replace(op, write=name)
        for (_namespace, name), ops in found.items()
        if len({op.group for op in ops}) > 1 and max(op.seconds or 0.0 for op in ops) >= PILE
        for op in ops
    ]


def _name(requests: Sequence[Write]) -> str | None:
    """Of one group: the first attempt may show what the second, which waits for it, does not."""
    first = requests[0].shape
    selects = next((one.shape.selects for one in requests if one.shape.selects is not None), None)
    if selects is not None:
        return f"{first.verb} by {selects}"
    if max(Counter(one.op.member for one in requests).values()) >= RESENT:
        of = f" of {first.app}" if first.app else ""
        return f"{first.verb}s{of} that were sent again (what they write is not shown)"
    return None


def _selects(command: Mapping[str, Any]) -> str | None:
    selected = next((one for name in ("q", "query") if isinstance(one := command.get(name), Mapping)), None)
    if selected is None:
        parts = command.get("updates") or command.get("deletes") or ()
        selected = at(parts[0], "q") if isinstance(parts, Sequence) and len(parts) == 1 else None
    if not isinstance(selected, Mapping) or not selected:
        return None
    digest = hashlib.sha256(bson.encode(dict(selected))).hexdigest()[:6]
    return f"{{{_listed(selected)}}} #{digest}"


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:FIELDS_SHOWN]) + (", ..." if len(every) > FIELDS_SHOWN else "")
