"""The error a command sent to the stand-in router ends with, where no server said it itself.

What a server said stays a `clusters.wire.connection.CommandFailed`; this is for what the router finds on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

RESUMABLE = "ResumableChangeStreamError"
"""The label on which a driver resumes a change stream by itself (manual: Resume a Change Stream)."""


class RouterError(Exception):
    """`message` is one line: expected, found, what to do."""

    def __init__(self, code: int, code_name: str, message: str, labels: Sequence[str] = ()) -> None:
        self.code = code
        self.code_name = code_name
        self.labels: tuple[str, ...] = tuple(labels)
        super().__init__(message)

    def reply(self) -> dict[str, Any]:
        """The reply document of the failed command."""
        document: dict[str, Any] = {
            "ok": 0.0,
            "errmsg": str(self),
            "code": self.code,
            "codeName": self.code_name,
        }
        if self.labels:
            document["errorLabels"] = list(self.labels)
        return document
