"""Operations sent through routers, and what routers told meanwhile, folded from a history; nothing is judged here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.history import Event
from harness.measures import NS


@dataclass(slots=True)
class Op:
    """One operation. Times are run time in ns; `ended` is -1 where it was never answered."""

    name: str
    command: str
    belongs: str
    region: int
    sent: int
    ended: int = -1
    seconds: float | None = None
    outcome: str = "unknown"
    code: int | None = None
    error: str | None = None

    @property
    def writes(self) -> bool:
        return self.command in ("update", "insert")


@dataclass(slots=True)
class Asked:
    """One router: what it was asked and is expected to do, and what it did."""

    name: str
    setting: str
    in_process: bool
    case: str
    control: bool
    untold: bool
    """Whether its counters must stand still until it is asked."""
    within: float
    operations: tuple[str, ...]
    expected: Mapping[str, Any]
    ops: dict[str, Op] = field(default_factory=dict)
    held: int | None = None
    """When it was seen to wait for its refresh."""
    released: int | None = None
    readings: dict[str, Mapping[str, int] | None] = field(default_factory=dict)
    """Counters by when they were read; None where it gave no answer."""
    logged: list[Event] = field(default_factory=list)
    documents: dict[str, int] | None = None
    """Of its collections at the end, `seq` by `_id`."""

    def pending(self, op: Op) -> bool:
        """Whether it had no answer when what held the refresh was released."""
        return self.released is not None and op.sent <= self.released and (op.ended < 0 or op.ended > self.released)

    def waited(self, op: Op) -> bool:
        """Whether it was pending at the release; where waiting may end by itself, whether it was answered late."""
        return self.pending(op) or op.ended < 0 or (self.expected["by_itself"] and self._late(op))

    def slow(self, op: Op) -> bool:
        """Whether it was answered late and before the release: what held the refresh is not what it waited for."""
        return not self.waited(op) and self._late(op)

    def _late(self, op: Op) -> bool:
        seconds = op.seconds if op.seconds is not None else (op.ended - op.sent) / NS
        return seconds > self.within

    def judged(self) -> Iterator[Op]:
        """Those of which it is asked whether they waited; the probe ends by itself."""
        return (one for one in self.ops.values() if one.belongs != "probe")

    def moved(self, counter: str, since: str, until: str) -> int | None:
        """How far a counter went from one reading to another; None where one is missing."""
        return went(self.readings, counter, since, until)


def went(
    readings: Mapping[str, Mapping[str, int] | None], counter: str, since: str = "stale", until: str = "released"
) -> int | None:
    """How far a counter went from one reading to another; None where one is missing."""
    before, after = readings.get(since), readings.get(until)
    if before is None or after is None or counter not in before or counter not in after:
        return None
    return after[counter] - before[counter]


class RoutedOps:
    """All routers of a history. Feed each event to its seer; what is of a router that nobody told of is passed over."""

    def __init__(self) -> None:
        self.routers: dict[str, Asked] = {}
        self.shards: dict[str, dict[str, Mapping[str, int] | None]] = {}
        """The counters of those that hold the collections, by name and by when: first read, or last released."""
        self.seers: Mapping[str, Callable[[Event], None]] = {
            "routing.case": self._case,
            "routed.op": self._op,
            "routed.ended": self._ended,
            "routing": self._routing,
            "catalog": self._catalog,
            "refresh.logged": self._logged,
            "routing.documents": self._documents,
        }

    def _case(self, event: Event) -> None:
        self.routers[event["router"]] = Asked(
            event["router"],
            event["setting"],
            event["in_process"],
            event["case"],
            event["control"],
            event["untold"],
            event["within"],
            tuple(event["operations"]),
            event["expected"],
        )

    def _op(self, event: Event) -> None:
        if (asked := self.routers.get(event["router"])) is not None:
            asked.ops[event["op"]] = Op(event["op"], event["command"], event["belongs"], event["region"], event.t)

    def _ended(self, event: Event) -> None:
        asked = self.routers.get(event["router"])
        op = asked.ops.get(event["op"]) if asked is not None else None
        if op is not None:
            op.ended, op.seconds, op.outcome = event.t, event["seconds"], event["outcome"]
            op.code, op.error = event.get("code"), event.get("error")

    def _routing(self, event: Event) -> None:
        if (asked := self.routers.get(event["router"])) is None:
            return
        if event["what"] == "held":
            asked.held = event.t
        elif event["what"] == "released":
            asked.released = event.t

    def _catalog(self, event: Event) -> None:
        if (asked := self.routers.get(event["member"])) is not None:
            asked.readings[event["when"]] = event["values"]
            return
        readings = self.shards.setdefault(event["member"], {})
        if event["when"] == "released" or event["when"] not in readings:
            readings[event["when"]] = event["values"]

    def _logged(self, event: Event) -> None:
        if (asked := self.routers.get(event["router"])) is not None:
            asked.logged.append(event)

    def _documents(self, event: Event) -> None:
        if (asked := self.routers.get(event["router"])) is not None:
            asked.documents = {str(key): seq for key, seq in event["documents"]}
