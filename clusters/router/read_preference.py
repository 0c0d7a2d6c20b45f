"""Which members of a set a read preference allows: mode, tag sets, latency window. Pure; the monitor supplies members.

Follows the manual's page "Read Preference" and the driver specification "Server Selection". Durations in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusters.router.errors import RouterError

LATENCY_WINDOW = 0.015
"""Members at most this much slower than the fastest eligible one are chosen from (mongos `localPingThresholdMs`)."""

MODES = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member that can be read from: a writable primary or a SECONDARY."""

    host: str
    primary: bool
    tags: Mapping[str, str]
    round_trip: float


@dataclass(frozen=True, slots=True)
class ReadPreference:
    mode: str
    tag_sets: tuple[Mapping[str, str], ...] = ()


def parse(document: Mapping[str, Any]) -> ReadPreference:
    """A `$readPreference` document. Raises RouterError where it is not valid or asks for what is not built."""
    mode = document.get("mode", "primary")
    if mode not in MODES:
        raise RouterError(9, "FailedToParse", f"read preference mode is one of {', '.join(MODES)}, got {mode!r}")
    tags = document.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(one, Mapping) for one in tags):
        raise RouterError(14, "TypeMismatch", f"read preference tags are an array of documents, got {tags!r}")
    if mode == "primary" and any(tags):
        raise RouterError(2, "BadValue", "read preference mode primary takes no tags; leave them out")
    staleness = document.get("maxStalenessSeconds", -1)
    if staleness not in (-1, 0):
        raise RouterError(
            238,
            "NotImplemented",
            f"maxStalenessSeconds {staleness} is not built into the stand-in router; leave it out",
        )
    return ReadPreference(mode, tuple(tags))


def eligible(preference: ReadPreference, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those the preference allows; the caller picks one of them at random."""
    primary = [one for one in candidates if one.primary]
    secondaries = [one for one in candidates if not one.primary]
    if preference.mode == "primary":
        return primary
    if preference.mode == "primaryPreferred":
        return primary or _near(_tagged(preference.tag_sets, secondaries))
    if preference.mode == "secondary":
        return _near(_tagged(preference.tag_sets, secondaries))
    if preference.mode == "secondaryPreferred":
        return _near(_tagged(preference.tag_sets, secondaries)) or primary
    return _near(_tagged(preference.tag_sets, candidates))


def _tagged(tag_sets: Sequence[Mapping[str, str]], candidates: Sequence[Candidate]) -> list[Candidate]:
    """By the first tag set that matches anyone at all; no tag sets match everyone."""
    for tag_set in tag_sets or ({},):
        matching = [one for one in candidates if all(one.tags.get(key) == value for key, value in tag_set.items())]
        if matching:
            return matching
    return []


def _near(candidates: Sequence[Candidate]) -> list[Candidate]:
    if not candidates:
        return []
    limit = min(one.round_trip for one in candidates) + LATENCY_WINDOW
    return [one for one in candidates if one.round_trip <= limit]
