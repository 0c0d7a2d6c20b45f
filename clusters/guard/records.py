"""What stands in a ledger: its records, and the state that its lines lead to. Pure: bytes in, state out.

Lines: a header, then {"open": id, "scope", "title", "undo"}, {"update": id, "undo"}, {"close": id}, {"lifetime": ..}.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from clusters.guard.errors import LedgerError
from clusters.guard.undo import KillProcess, Undo, from_plain

Lifetime = Literal["run", "kept"]
"""`run`: everything goes when the owner goes. `kept`: faults are healed then, the cluster stays."""
Scope = Literal["resource", "fault"]

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Record:
    """One thing to undo. `title` is for people."""

    id: int
    undo: Undo
    scope: Scope
    title: str

    def __str__(self) -> str:
        return f"{self.title} ({self.undo})" if self.title else str(self.undo)


@dataclass(frozen=True, slots=True)
class Opening:
    """What `open_many` is given: a record that has no number yet."""

    undo: Undo
    scope: Scope = "resource"
    title: str = ""


@dataclass(slots=True)
class State:
    """What the lines of a ledger amount to."""

    header: dict[str, Any]
    lifetime: Lifetime
    records: dict[int, Record] = field(default_factory=dict)
    next_id: int = 1
    had_processes: bool = False
    whole: int = 0
    """Bytes up to the end of the last whole line."""
    torn: int = 0
    """Bytes behind it: its writer was killed in the middle of a line."""
    damage: list[str] = field(default_factory=list)
    """Sentences on lines that nobody can read. What they said is not known; all others hold."""

    def apply(self, line: dict[str, Any]) -> None:
        """Take one line in. Raises ValueError or KeyError for a line that cannot follow."""
        if "open" in line:
            undo = from_plain(line["undo"])
            if line["open"] < self.next_id or line["scope"] not in get_args(Scope):
                raise ValueError("not a record that can follow")
            self.records[line["open"]] = Record(line["open"], undo, line["scope"], line["title"])
            self.next_id = line["open"] + 1
            self.had_processes |= isinstance(undo, KillProcess)
        elif "update" in line:
            self.records[line["update"]] = replace(self.records[line["update"]], undo=from_plain(line["undo"]))
        elif "close" in line:
            del self.records[line["close"]]
        elif line.get("lifetime") in get_args(Lifetime):
            self.lifetime = line["lifetime"]
        else:
            raise ValueError("not a line of a ledger")


def replay(raw: bytes, source: object = "ledger") -> State:
    """The state that the lines lead to. A torn last line and lines that cannot be read do not count, so that what the
    others say can be healed. Raises LedgerError where the first line is not that of a ledger.
    """
    state: State | None = None
    *lines, torn = raw.split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            if state is None:
                if fields["ledger"] != FORMAT:
                    raise LedgerError(f"{source}: expected ledger format {FORMAT}, found {fields['ledger']!r}")
                state = State(fields, fields["lifetime"])
            else:
                state.apply(fields)
        except (ValueError, KeyError, TypeError, AttributeError):
            problem = f"{source}:{number}: expected a line of a ledger, found {line[:60]!r}"
            if state is None:
                raise LedgerError(problem) from None
            state.damage.append(problem)
    if state is None:
        raise LedgerError(f"{source}: expected a ledger, found no whole line")
    state.torn = len(torn)
    state.whole = len(raw) - state.torn
    return state
