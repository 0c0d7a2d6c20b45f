"""What a network fault is, as data: its kind, on whom, on what. Pure; what a kind does to a connection is in `flow`
and `pair`.

A rule with `commands` or `namespace` acts on single messages and makes the proxy read them; one without acts on whole
connections. `swallow` always reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from clusters.wire.proxy.errors import Refusal
from clusters.wire.proxy.source import APP, Source


class Kind(StrEnum):
    LATENCY = "latency"
    """Everything comes later, in order: by `ms`, give or take up to `jitter_ms`, in each direction that is named."""
    BANDWIDTH = "bandwidth"
    """`bytes_per_second` in each direction, shared by all connections of the rule as they arrive."""
    BLACKHOLE = "blackhole"
    """Connections stay, new ones are accepted; nothing passes, not even that a side closed. When the rule is removed
    what was held passes in order: TCP would have sent it again."""
    SWALLOW = "swallow"
    """The request is delivered, its reply lost. When the rule is removed the connections that miss a reply are reset:
    nobody sends it again."""
    HALF_OPEN = "half-open"
    """What is sent on the connections of now goes nowhere and no side hears of the other's end; new ones work. As where
    something between forgot them; when the rule is removed they are reset."""
    CUT = "cut"
    """The connections of now are reset, new ones work. With commands or a namespace: whenever such a request comes,
    instead of its delivery."""
    REFUSE = "refuse"
    """New connections are reset, those of now work."""


class Direction(StrEnum):
    TO = "to"
    """Towards the link's target: requests."""
    FROM = "from"
    BOTH = "both"


_DIRECTED: Final = frozenset((Kind.LATENCY, Kind.BANDWIDTH, Kind.BLACKHOLE))
_BY_MESSAGE: Final = frozenset((Kind.LATENCY, Kind.BLACKHOLE, Kind.SWALLOW, Kind.CUT))


@dataclass(frozen=True, slots=True)
class Rule:
    """Raises Refusal where its fields contradict each other."""

    kind: Kind
    to: tuple[str, ...] = ()
    """Links by name; empty: all."""
    source: tuple[str, ...] = ()
    """Who connects, one of several: a peer's name, `router`, `driver`, `app:NAME`; empty: anybody. A connection whose
    first message names nobody has only rules without a source."""
    commands: tuple[str, ...] = ()
    """As sent: `isMaster` is not `hello`. Empty: any."""
    namespace: str = ""
    """`database.collection`, or a database with all its collections; empty: any."""
    direction: Direction = Direction.BOTH
    ms: float = 0.0
    jitter_ms: float = 0.0
    seed: int = 0
    """Of the jitter."""
    bytes_per_second: float = 0.0

    def __post_init__(self) -> None:
        if self.reads_messages and self.kind not in _BY_MESSAGE:
            raise Refusal(2, f"kind {self.kind} acts on whole connections: it takes no commands and no namespace")
        if self.direction is not Direction.BOTH and self.kind not in _DIRECTED:
            raise Refusal(2, f"kind {self.kind} takes no direction")
        wanted = {Kind.LATENCY: ("ms", "jitter_ms"), Kind.BANDWIDTH: ("bytes_per_second",)}.get(self.kind, ())
        for name in ("ms", "jitter_ms", "bytes_per_second"):
            value = getattr(self, name)
            if value and name not in wanted:
                raise Refusal(2, f"kind {self.kind} takes no {_SENT[name]}")
            if not 0 <= value < 1e12:
                raise Refusal(2, f"expected {_SENT[name]} to be 0 or more, found {value:g}")
        if self.kind is Kind.LATENCY and not self.ms + self.jitter_ms:
            raise Refusal(2, "kind latency needs ms above 0")
        if self.kind is Kind.BANDWIDTH and self.bytes_per_second < 1:
            raise Refusal(2, "kind bandwidth needs bytesPerSecond of 1 or more")

    @property
    def reads_messages(self) -> bool:
        """Whether it picks among the messages of a connection."""
        return bool(self.commands or self.namespace) or self.kind is Kind.SWALLOW

    def on_link(self, name: str) -> bool:
        return not self.to or name in self.to

    def from_source(self, source: Source | None) -> bool:
        """None: a connection that has not said yet who it is."""
        return not self.source or (source is not None and any(source.called(one) for one in self.source))

    def in_direction(self, direction: Direction) -> bool:
        return self.direction in (Direction.BOTH, direction)

    def on_message(self, command: str, namespace: str) -> bool:
        if self.commands and command not in self.commands:
            return False
        wanted = self.namespace
        return not wanted or namespace == wanted or namespace.startswith(wanted + ".")

    def document(self) -> dict[str, Any]:
        """As `parse` reads it; what is as by default is left out."""
        found: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value != one.default:
                found[_SENT[one.name]] = list(value) if isinstance(value, tuple) else value
        return found | {"kind": str(self.kind)} | ({"direction": str(self.direction)} if "direction" in found else {})


_SENT: Final = {
    "kind": "kind",
    "to": "to",
    "source": "source",
    "commands": "commands",
    "namespace": "namespace",
    "direction": "direction",
    "ms": "ms",
    "jitter_ms": "jitterMs",
    "seed": "seed",
    "bytes_per_second": "bytesPerSecond",
}
_KEPT: Final = {sent: kept for kept, sent in _SENT.items()}
_NAMES: Final = frozenset(("to", "source", "commands"))
_WORDS: Final[Mapping[str, type[StrEnum]]] = {"kind": Kind, "direction": Direction}


def parse(document: Mapping[str, Any], *, links: Iterable[str], peers: Iterable[str]) -> Rule:
    """A rule as it was sent. Raises Refusal on what it cannot mean: a name that nobody bears would never act."""
    given: dict[str, Any] = {}
    for sent, value in document.items():
        if sent not in _KEPT:
            raise Refusal(40415, f"BSON field 'proxyAddRule.{sent}' is an unknown field.")
        given[_KEPT[sent]] = _value(sent, value)
    if "kind" not in given:
        raise Refusal(2, f"expected proxyAddRule.kind, one of {', '.join(Kind)}, found none")
    rule = Rule(**given)
    _known("to", rule.to, links)
    _known("source", [one for one in rule.source if not one.startswith(APP)], [*peers, "router", "driver"])
    return rule


def _value(sent: str, value: Any) -> Any:
    if sent in _NAMES:
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise Refusal(14, f"expected proxyAddRule.{sent} to be names, found {value!r}")
        return tuple(value)
    if sent in _WORDS:
        if value not in list(_WORDS[sent]):
            raise Refusal(2, f"expected proxyAddRule.{sent} to be one of {', '.join(_WORDS[sent])}, found {value!r}")
        return _WORDS[sent](value)
    if sent == "namespace":
        if not isinstance(value, str):
            raise Refusal(14, f"expected proxyAddRule.namespace to be a string, found {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refusal(14, f"expected proxyAddRule.{sent} to be a number, found {value!r}")
    return int(value) if sent == "seed" and value == value and abs(value) < 2**63 else value


def _known(field: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            raise Refusal(2, f"proxyAddRule.{field} names {name!r}, expected one of {', '.join(known)}")
