"""How each kind of mark looks: a colour for light and dark alike, and a hatch or a shape that tells it in grey print.

`weight` says what is named where marks are too close to be drawn apart: the heaviest, the rest are its company.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

INK: Final = "#5b6470"
GREEN: Final = "#3f9c6b"
GREY: Final = "#a3adb8"
AMBER: Final = "#dca11d"
RED: Final = "#cf3a30"
BLUE: Final = "#3d7fc4"
VIOLET: Final = "#8a5fbf"
TEAL: Final = "#3aa6a0"


@dataclass(frozen=True, slots=True)
class Style:
    """Of a bar `hatch` is plotly's pattern (empty: none), of a point `symbol` its shape, of a curve `line` dashes."""

    name: str
    group: str
    colour: str
    weight: int
    hatch: str = ""
    symbol: str | None = None
    line: str | None = None


STREAMS: Final = "streams"
MEMBERS: Final = "members"
FAULTS: Final = "faults"
WRITES: Final = "writes"
ROUTING: Final = "operations"
RUN: Final = "run"

SEVERAL: Final = "several"
"""The style of a mark that stands for several of different styles."""

STYLES: Final[Mapping[str, Style]] = {
    "phase": Style("phase", RUN, GREY, 1),
    SEVERAL: Style("several, thinned", RUN, "#6d7f94", 5, "\\"),
    "happened": Style("event of the cluster", RUN, VIOLET, 6, symbol="diamond"),
    "primary": Style("primary elected", RUN, VIOLET, 7, symbol="star"),
    "released": Style("release", RUN, BLUE, 7, symbol="triangle-down"),
    "opening": Style("opened, not yet proven", FAULTS, AMBER, 6, "."),
    "proven": Style("proven", FAULTS, RED, 8, "x"),
    "unproven": Style("not proven", FAULTS, VIOLET, 9, "+"),
    "recovering": Style("healed, recovery awaited", FAULTS, BLUE, 5, "/"),
    "not healed": Style("not healed", FAULTS, VIOLET, 9, symbol="x"),
    "skipped": Style("skipped", FAULTS, GREY, 4, symbol="circle-open"),
    "recovered": Style("recovered", FAULTS, GREEN, 4, symbol="circle"),
    "delivering": Style("delivering", STREAMS, GREEN, 2),
    "quiet": Style("quiet", STREAMS, GREY, 1, "."),
    "lagging": Style("lagging", STREAMS, AMBER, 4, "/"),
    "silent": Style("silent", STREAMS, RED, 9, "x"),
    "error": Style("error, not resumed", STREAMS, VIOLET, 8, "+"),
    "hung": Style("hung getMore", STREAMS, "#7a1f1a", 9, "|"),
    "failed": Style("error", STREAMS, VIOLET, 9, symbol="x"),
    "resumed": Style("resumed", STREAMS, BLUE, 7, symbol="triangle-right"),
    "alarm": Style("alarm", STREAMS, "#e8590c", 10, symbol="star-triangle-up"),
    "cleared": Style("alarm cleared", STREAMS, TEAL, 6, symbol="circle-open"),
    "answers": Style("answers", MEMBERS, GREEN, 1),
    "slow": Style("answers after over 1 s", MEMBERS, AMBER, 4, "/"),
    "no answer": Style("no answer", MEMBERS, RED, 8, "x"),
    "succeeded": Style("execution, ok", WRITES, GREEN, 3),
    "did not": Style("execution, failed", WRITES, RED, 6, "x"),
    "unknown": Style("execution, unknown", WRITES, AMBER, 5, "/"),
    "send": Style("send", WRITES, BLUE, 3, "-"),
    "resend": Style("resend", WRITES, TEAL, 4, "\\"),
    "copy": Style("copy in the engine", WRITES, "#7a1f1a", 7, "|"),
    "no effect": Style("request, no copy", WRITES, GREY, 2, "."),
    "overlap": Style("alarm on copies", WRITES, "#e8590c", 10, symbol="star-triangle-up"),
    "dead": Style("dead letter", WRITES, VIOLET, 8, symbol="x"),
    "processed": Style("processed", WRITES, GREEN, 3, symbol="circle"),
    "held": Style("refresh held", ROUTING, AMBER, 8, "/"),
    "waited": Style("waited", ROUTING, RED, 7, "x"),
    "did not wait": Style("did not wait", ROUTING, GREEN, 3),
    "refused": Style("answered with an error", ROUTING, VIOLET, 6, "+"),
    "logged": Style("logged by the router", ROUTING, BLUE, 5, symbol="line-ns-open"),
    "events": Style("events delivered", RUN, GREEN, 1, line="solid"),
    "writes": Style("writes acknowledged", RUN, BLUE, 1, line="dash"),
    "copies": Style("copies at once", WRITES, "#7a1f1a", 1, line="solid"),
    "sends": Style("sends in flight", WRITES, BLUE, 1, line="dot"),
    "of one": Style("copies of one write", WRITES, AMBER, 1, line="dash"),
    "sampled": Style("$currentOp, sampled", WRITES, VIOLET, 1, symbol="circle-open"),
}
"""By key, in the order of the legend."""


def weight(style: str) -> int:
    return STYLES[style].weight
