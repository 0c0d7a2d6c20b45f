"""Runs of `retry-overlap` as a user starts them, and what they came to."""

from __future__ import annotations

import json
from typing import Any

from aftermath import Place
from stall_parts import Outcome, outcome

SCENARIO = ("run", "retry-overlap", "--seed", "7")
FROZEN = ("--fault", "freeze", "--hold", "15s", "--driver-option", "socketTimeoutMS=1500")
"""The primary stands still until all have given up, and goes on as the primary."""
IN_ENGINE = ("--fault", "fail-point", "--driver-option", "socketTimeoutMS=500")
"""Writes are held inside the engine, where resends wait for the session."""


def run(place: Place, *options: str) -> Outcome:
    return outcome(place, place.start(*SCENARIO, *options))


def totals(done: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = done.finding("overlap")["evidence"]["totals"]
    return found


def counted(done: Outcome) -> tuple[int, int, int, int]:
    """Executions, sends, copies, groups: of all writes."""
    found = totals(done)
    return found["executions"], found["sends"], found["copies"], found["groups"]


def at_once(done: Outcome) -> tuple[int, int]:
    """The most copies of one write at once, and of all writes, as the members' logs have them."""
    most = done.finding("overlap")["evidence"]["most"]
    return most["at_once"], most["at_once_of_all_writes"]


def documents(done: Outcome) -> list[dict[str, Any]]:
    """What was left in the collection."""
    for line in (done.record / "history.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["kind"] == "effects":
            found: list[dict[str, Any]] = event["documents"]
            return found
    raise AssertionError("nobody looked at what is left")


def valid(done: Outcome) -> dict[str, Any]:
    return {one["name"]: one["valid"] for one in done.result["findings"]}


def rows(done: Outcome) -> dict[str, tuple[int | None, int | None]]:
    """Predicted and measured, as the text says it."""
    found = done.finding("prediction")["evidence"]["rows"]
    return {one["what"]: (one["predicted"], one["measured"]) for one in found}
