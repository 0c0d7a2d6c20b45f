"""What a run came to, in one sentence for somebody who has not read the manual. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness import measures
from harness.checkers import stall
from harness.result import Result

OF_STREAMS: Final[Mapping[str, str]] = {
    stall.STALLED: "stopped silently, with no event and no error until the release",
    stall.BOUNDED: "were silent for a while and went on by themselves",
    stall.ERROR: "got an error",
    stall.NO_EFFECT: "went on delivering",
}
OF_RUNS: Final[Mapping[str, str]] = {
    measures.SOUND: "after all its faults nothing is lost, doubled or left broken",
    measures.UNSOUND: "after all its faults something is lost, doubled or left broken",
    measures.MAXIMUM: "each write was sent, and ran at once, as often as its settings allow",
    measures.OVERLAP: "copies of one write ran at once, fewer than its settings allow",
    measures.NO_OVERLAP: "no write ran more than once at a time",
    measures.EXCEEDED: "a write was sent more than twice for each of its executions",
    measures.ISOLATED: "while the router refreshed, only operations for the stale shard waited",
    measures.ALL_BLOCKED: "while the router refreshed, all operations of the collection waited",
    measures.MORE_BLOCKED: "while the router refreshed, operations of other collections waited too",
    measures.NONE_WAITED: "no operation waited for the refresh of the router",
}


def headline(document: Mapping[str, Any]) -> str:
    """`update-lookup-stall, freeze on shard0-2`"""
    faults = document["faults"]
    what = f"{faults[0]['name']} on {faults[0]['target']}" if len(faults) == 1 else f"{len(faults)} faults"
    return f"{document['scenario'] or 'a run cut short'}, {what if faults else 'no fault'}"


def verdict(result: Result) -> str:
    """`As expected on mongod 6.0.5, router stand-in: 8 of 8 streams stopped silently, ..`"""
    server, found = result.document["server"], result.verdict
    on = f" on mongod {server['version']}, router {server['router']}" if server else ""
    total = sum(found.counts.values())
    streams = [f"{count} of {total} streams {OF_STREAMS.get(one, one)}" for one, count in found.counts.items()]
    known = "" if found.outcome == "none" else OF_RUNS.get(found.outcome, found.outcome)
    told = [*([", ".join(streams) or known] if streams or known else []), *found.reasons[:1]]
    return f"{found.verdict.capitalize()}{on}: {'; '.join(told) or 'nothing was found'}.".replace("..", ".")
