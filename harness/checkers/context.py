"""What a checker must know of a run besides its events: thresholds, minimum traffic, what was asked for.

It is read from the history's own `run.started`, so that a check on another day judges by the same measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.drivers.clients import milliseconds
from harness.measures import SOUND

NO_FAULT = frozenset({None, "", "none"})


@dataclass(frozen=True, slots=True)
class Context:
    """The measure of a run. Durations in seconds."""

    threshold: float = 3.0
    """A stream with an acknowledged mark undelivered that gets nothing for longer than this is silent."""
    hold: float | None = None
    """How long the fault was meant to be held; None: not checked."""
    shards: int | None = None
    """How many shards must have been written to; None: those that were."""
    minimum_writes: int = 5
    """Acknowledged writes per shard before the break, and again during the hold."""
    minimum_events: int = 3
    """Events per stream before the break."""
    fault: str | None = None
    """The fault that was asked for; None or `none`: a run without one."""
    release: str = "heal"
    """What ended the hold."""
    driver_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the streams' client, as given."""
    write: str | None = None
    """The kind of the logical writes, where a run had such."""
    max_time: float | None = None
    """maxTimeMS of the logical writes, where they had one."""
    explicit_session: bool = False
    """Whether all executions of a consumer were given one session."""
    records: int | None = None
    """How many records there were for the consumers to write."""
    expected: frozenset[str] = frozenset()
    """Acceptable outcomes of the streams; each stream's must be among them."""
    recovery_margin: float = 30.0
    """After the release a stream may still be silent for this long, if the fault's recovery is not recorded."""

    @property
    def asks_what_is_left(self) -> bool:
        """Whether only the end counts: streams may fall silent, and holds be short."""
        return SOUND in self.expected

    @property
    def without_fault(self) -> bool:
        return self.fault in NO_FAULT

    @property
    def socket_timeout(self) -> float | None:
        """socketTimeoutMS of the clients; None: they wait for ever."""
        return milliseconds(self.driver_options, "socketTimeoutMS")

    @classmethod
    def of(cls, started: Mapping[str, Any]) -> Context:
        """From the fields of `run.started`; what is not said there keeps its default."""
        parameters: Mapping[str, Any] = started.get("parameters") or {}
        known: dict[str, Any] = {
            name: convert(parameters[name])
            for name, convert in (
                ("threshold", float),
                ("hold", float),
                ("minimum_writes", int),
                ("minimum_events", int),
                ("fault", str),
                ("release", str),
                ("write", str),
                ("max_time", float),
                ("recovery_margin", float),
            )
            if parameters.get(name) is not None
        }
        if not parameters.get("traffic", True):
            known |= {"minimum_writes": 0, "minimum_events": 0}
        return cls(
            **known,
            shards=parameters.get("shards"),
            explicit_session=bool(parameters.get("explicit_session")),
            # By default there is one for each consumer.
            records=parameters.get("records") or parameters.get("consumers"),
            driver_options=options(parameters.get("driver_option") or ()),
            expected=frozenset(started.get("expected") or ()),
        )


def options(given: Mapping[str, Any] | Iterable[str]) -> dict[str, Any]:
    """Driver options given as a mapping or as `name=value` strings."""
    if isinstance(given, Mapping):
        return dict(given)
    return {name: value for name, _, value in (option.partition("=") for option in given)}
