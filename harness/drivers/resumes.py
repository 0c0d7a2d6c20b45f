"""Sees on the wire when the driver itself resumes a change stream, and why.

pymongo swallows a resumable error: `try_next()` neither raises nor says that it opened a new cursor. The commands
it sends tell: a `$changeStream` aggregate that the consumer did not ask for is the driver's resume.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from bson.timestamp import Timestamp
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from harness.drivers.errors import failure_fields


class Resumed(Protocol):
    """A consumer, as far as the listener knows it."""

    @property
    def opening(self) -> bool: ...

    def answered(self, operation_time: Timestamp | None) -> None:
        """An aggregate of this stream's was answered."""

    def resumed_by_driver(self, position: Any, cause: Mapping[str, Any]) -> None:
        """The driver opened a new cursor at `position`; `cause` is the error it swallowed, empty if none was seen."""


class ResumeListener(CommandListener):
    """For one client; the streams on it are told apart by their comment."""

    def __init__(self) -> None:
        self._consumers: dict[str, Resumed] = {}
        self._asked: dict[int, tuple[str, Any]] = {}
        self._failures: dict[str, Mapping[str, Any]] = {}

    def add(self, name: str, consumer: Resumed) -> None:
        self._consumers[name] = consumer

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name not in ("aggregate", "getMore"):
            return
        comment = event.command.get("comment")
        name = comment.get("stream") if isinstance(comment, Mapping) else None
        if name in self._consumers:
            position = None
            if event.command_name == "aggregate" and not self._consumers[name].opening:
                position = _position(event.command)
            self._asked[event.request_id] = (name, position)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        name, position = self._asked.pop(event.request_id, (None, None))
        if name is None or event.command_name != "aggregate":
            return
        consumer = self._consumers[name]
        consumer.answered(event.reply.get("operationTime"))
        if position is not None:
            consumer.resumed_by_driver(position, self._failures.pop(name, {}))

    def failed(self, event: CommandFailedEvent) -> None:
        name, _position = self._asked.pop(event.request_id, (None, None))
        if name is not None:
            self._failures[name] = failure_fields(event.failure)


def _position(command: Mapping[str, Any]) -> Any:
    """Where the new cursor starts: the resume token's data, or an operation time; "now" if it names neither."""
    stage: Mapping[str, Any] = command["pipeline"][0].get("$changeStream", {})
    for name in ("resumeAfter", "startAfter"):
        if name in stage:
            return token_data(stage[name])
    return str(stage.get("startAtOperationTime", "now"))


def token_data(token: Mapping[str, Any] | None) -> str | None:
    """A resume token as the history has it: its `_data`, which is one string."""
    return None if token is None else str(token.get("_data", dict(token)))
