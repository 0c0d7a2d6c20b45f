"""The router's log: one JSON object a line, by structlog, so that it reads like those of the members it lies beside."""

from __future__ import annotations

import logging
import sys
from collections import deque
from typing import Final, TextIO

import structlog

RECENT: Final = 1024
"""Lines that `getLog` gives, as many as a server's."""

recent: Final[deque[str]] = deque(maxlen=RECENT)
"""The last lines as they were written."""


class _Writing(logging.StreamHandler[TextIO]):
    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        recent.append(line)
        return line


def configure(level: str) -> None:
    """Send everything of `level` and above to standard error, which the provider keeps as `router.log`."""
    shared: list[structlog.types.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = _Writing(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=level, handlers=[handler])
