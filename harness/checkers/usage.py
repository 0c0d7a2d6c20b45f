"""What a run cost, from the samples of the usage watcher: peaks of memory, CPU by phase. Judges nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from harness.checkers.digest import Digest
from harness.history import Event
from harness.measures import NS

PHASES = ("settle", "hold")


def usage(digest: Digest) -> dict[str, Any]:
    """`peak_rss_mib` by group and of all together, `cores` (CPU seconds a second) by group for the phases that matter
    and for the whole record; empty where nothing was sampled."""
    samples = digest.usages
    if len(samples) < 2:
        return {}
    spans = {"run": (samples[0].t, samples[-1].t)}
    for (start, name), (end, _) in pairwise([*digest.phases, (digest.end, "")]):
        if name in PHASES:
            spans[name] = (start, end)
    return {
        "sampled_every": round((samples[-1].t - samples[0].t) / NS / (len(samples) - 1), 2),
        "samples": len(samples),
        "processes": samples[-1]["processes"],
        "peak_rss_mib": {
            **{name: max(one["rss_mib"].get(name, 0) for one in samples) for name in samples[-1]["rss_mib"]},
            "all": max(sum(one["rss_mib"].values()) for one in samples),
        },
        "cores": {name: cores for name, (start, end) in spans.items() if (cores := _cores(samples, start, end))},
    }


def _cores(samples: list[Event], start: int, end: int) -> dict[str, float]:
    inside = [one for one in samples if start <= one.t <= end]
    if len(inside) < 2:
        return {}
    first, last = inside[0], inside[-1]
    # A process that ended took its seconds with it: then less is told than was used, never less than nothing.
    return {
        name: round(max(0.0, last["cpu_seconds"][name] - first["cpu_seconds"][name]) * NS / (last.t - first.t), 3)
        for name in last["cpu_seconds"]
    }
